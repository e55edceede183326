//! Type-erased workloads, so that the code that loads, runs and checks a workload is compiled once.
//! The bodies are compiled here, over [`ErasedTx`], where an access is a virtual call.
//!
//! ```
//! use workloads::{Kind, Options};
//! use words::{Erased, ErasedTx, Transact, mock::Mock};
//!
//! let kind = Kind::by_name("hashtable").unwrap();
//! let options = Options { scale: 0.0001, ..Options::default() };
//! let mut mock = Mock::new(kind.heap_bytes(&options) as usize);
//! let table = kind.load(&mut Erased::any(&mut mock), &options)?;
//! let mut client = table.client(0, 1);
//! table.next(&mut client);
//! mock.transact(|tx| table.run(&client, &mut ErasedTx::new(tx)))?;
//! assert!(table.check(&mut Erased::any(&mut mock))?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use words::{AnyError, Erased, ErasedTx, Stop};

use crate::{NAMES, Options, Supported, Violation, Visitor, Workload, by_name};

/// The worker that runs the transactions of a load or a check.
type Worker<'w> = Erased<'w, AnyError>;

/// A workload without its data: [`Workload`]'s constants and constructors.
#[derive(Clone, Copy)]
pub struct Kind {
    /// [`Workload::NAME`].
    pub name: &'static str,
    /// [`Workload::ABOUT`].
    pub about: &'static str,
    /// [`Workload::SUPPORTS`].
    pub supported: Supported,
    /// [`Workload::ANNOUNCES`].
    pub announces: bool,
    heap_bytes: fn(&Options) -> u64,
    load: fn(&mut Worker<'_>, &Options) -> Result<AnyWorkload, AnyError>,
    open: fn(&mut Worker<'_>) -> Result<Option<AnyWorkload>, AnyError>,
}

impl Kind {
    /// Returns the kind of a workload type.
    pub fn of<W: Workload>() -> Kind {
        Kind {
            name: W::NAME,
            about: W::ABOUT,
            supported: W::SUPPORTS,
            announces: W::ANNOUNCES,
            heap_bytes: W::heap_bytes,
            load: |worker, options| Ok(AnyWorkload::new(W::load(worker, options)?)),
            open: |worker| Ok(W::open(worker)?.map(AnyWorkload::new)),
        }
    }

    /// Returns the kind with this name; `None` when no workload has it.
    pub fn by_name(name: &str) -> Option<Kind> {
        by_name(name, KindOf)
    }

    /// Returns all kinds.
    pub fn all() -> impl Iterator<Item = Kind> {
        NAMES.into_iter().filter_map(Kind::by_name)
    }

    /// [`Workload::heap_bytes`].
    pub fn heap_bytes(&self, options: &Options) -> u64 {
        (self.heap_bytes)(options)
    }

    /// [`Workload::load`].
    ///
    /// # Errors
    /// As there.
    pub fn load(
        &self,
        worker: &mut Worker<'_>,
        options: &Options,
    ) -> Result<AnyWorkload, AnyError> {
        (self.load)(worker, options)
    }

    /// [`Workload::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(&self, worker: &mut Worker<'_>) -> Result<Option<AnyWorkload>, AnyError> {
        (self.open)(worker)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

struct KindOf;

impl Visitor for KindOf {
    type Out = Kind;

    fn visit<W: Workload>(self) -> Kind {
        Kind::of::<W>()
    }
}

/// A type-erased [`Workload`] with the same methods.
///
/// # Panics
/// The methods panic when a client is another workload's.
#[derive(Clone)]
pub struct AnyWorkload(Arc<dyn Forgotten>);

/// A client of an [`AnyWorkload`].
pub struct AnyClient(Box<dyn ForgottenClient>);

impl AnyWorkload {
    /// Erases the type of a workload.
    pub fn new<W: Workload>(workload: W) -> AnyWorkload {
        AnyWorkload(Arc::new(workload))
    }

    /// Returns the workload, if it is of this type.
    pub fn downcast<W: Workload>(&self) -> Option<&W> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }

    /// Returns the kind of this workload.
    pub fn kind(&self) -> Kind {
        self.0.kind()
    }

    /// [`Workload::client`].
    pub fn client(&self, index: usize, seed: u64) -> AnyClient {
        self.0.client(index, seed)
    }

    /// [`Workload::tune`].
    pub fn tune(&self, client: &mut AnyClient, options: &Options) {
        self.0.tune(client, options);
    }

    /// [`Workload::next`].
    pub fn next(&self, client: &mut AnyClient) {
        self.0.next(client);
    }

    /// [`Workload::reads_only`].
    pub fn reads_only(&self, client: &AnyClient) -> bool {
        self.0.reads_only(client)
    }

    /// [`Workload::gives_up`].
    pub fn gives_up(&self, client: &AnyClient) -> bool {
        self.0.gives_up(client)
    }

    /// [`Workload::outside_instructions`].
    pub fn outside_instructions(&self) -> u32 {
        self.0.outside_instructions()
    }

    /// [`Workload::run`].
    ///
    /// # Errors
    /// As there.
    pub fn run(&self, client: &AnyClient, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        self.0.run(client, tx)
    }

    /// [`Workload::is_present`].
    ///
    /// # Errors
    /// As there.
    pub fn is_present(&self, client: &AnyClient, tx: &mut ErasedTx<'_>) -> Result<bool, Stop> {
        self.0.is_present(client, tx)
    }

    /// [`Workload::check`].
    ///
    /// # Errors
    /// As there.
    pub fn check(&self, worker: &mut Worker<'_>) -> Result<Vec<Violation>, AnyError> {
        self.0.check(worker)
    }
}

impl AnyClient {
    /// Erases the type of a client of `W`.
    pub fn new<W: Workload>(client: W::Client) -> AnyClient {
        AnyClient(Box::new(client))
    }

    /// Returns the client, if it is one of `W`'s.
    pub fn downcast<W: Workload>(&self) -> Option<&W::Client> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }

    fn of<W: Workload>(&self) -> &W::Client {
        self.downcast::<W>().expect("the client is of this workload")
    }

    fn of_mut<W: Workload>(&mut self) -> &mut W::Client {
        let any: &mut dyn Any = &mut *self.0;
        any.downcast_mut().expect("the client is of this workload")
    }
}

impl Clone for AnyClient {
    fn clone(&self) -> AnyClient {
        AnyClient(self.0.copy())
    }
}

/// The virtual methods of a workload.
trait Forgotten: Any + Send + Sync {
    fn kind(&self) -> Kind;
    fn client(&self, index: usize, seed: u64) -> AnyClient;
    fn tune(&self, client: &mut AnyClient, options: &Options);
    fn next(&self, client: &mut AnyClient);
    fn reads_only(&self, client: &AnyClient) -> bool;
    fn gives_up(&self, client: &AnyClient) -> bool;
    fn outside_instructions(&self) -> u32;
    fn run(&self, client: &AnyClient, tx: &mut ErasedTx<'_>) -> Result<(), Stop>;
    fn is_present(&self, client: &AnyClient, tx: &mut ErasedTx<'_>) -> Result<bool, Stop>;
    fn check(&self, worker: &mut Worker<'_>) -> Result<Vec<Violation>, AnyError>;
}

impl<W: Workload> Forgotten for W {
    fn kind(&self) -> Kind {
        Kind::of::<W>()
    }

    fn client(&self, index: usize, seed: u64) -> AnyClient {
        AnyClient::new::<W>(Workload::client(self, index, seed))
    }

    fn tune(&self, client: &mut AnyClient, options: &Options) {
        Workload::tune(self, client.of_mut::<W>(), options);
    }

    fn next(&self, client: &mut AnyClient) {
        Workload::next(self, client.of_mut::<W>());
    }

    fn reads_only(&self, client: &AnyClient) -> bool {
        W::READS && Workload::reads_only(self, client.of::<W>())
    }

    fn gives_up(&self, client: &AnyClient) -> bool {
        Workload::gives_up(self, client.of::<W>())
    }

    fn outside_instructions(&self) -> u32 {
        Workload::outside_instructions(self)
    }

    fn run(&self, client: &AnyClient, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        Workload::run(self, client.of::<W>(), tx)
    }

    fn is_present(&self, client: &AnyClient, tx: &mut ErasedTx<'_>) -> Result<bool, Stop> {
        Workload::is_present(self, client.of::<W>(), tx)
    }

    fn check(&self, worker: &mut Worker<'_>) -> Result<Vec<Violation>, AnyError> {
        Workload::check(self, worker)
    }
}

/// The virtual methods of a client.
trait ForgottenClient: Any + Send {
    fn copy(&self) -> Box<dyn ForgottenClient>;
}

impl<C: Clone + Send + 'static> ForgottenClient for C {
    fn copy(&self) -> Box<dyn ForgottenClient> {
        Box::new(self.clone())
    }
}
