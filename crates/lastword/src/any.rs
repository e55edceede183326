//! Pools and workers without a design parameter, for programs that choose the design at run time.
//!
//! Code behind these traits is compiled once, not once for each design. An access of an erased
//! transaction is a virtual call and costs some nanoseconds more.

use std::future::{Future, IntoFuture};
use std::ops::Deref;
use std::path::Path;
use std::pin::Pin;

use words::{Allocate, Stop, TxId};

use crate::Design;
use crate::registry::DesignInfo;
use crate::sync::Arc;
use crate::{Erased, Error, Info, Metrics, Options, OwnedWorker, Pool, Scrub, Shadow, Worker};

/// A [`Pool`] of any design. [`AnyDesign`] creates and opens them.
pub trait AnyPool: Send + Sync {
    /// As [`Pool::worker`].
    ///
    /// # Errors
    /// As there.
    fn any_worker(&self) -> Result<Box<dyn AnyWorker + '_>, Error>;

    /// As [`Pool::owned_worker`]: the worker shares ownership of the pool.
    ///
    /// # Errors
    /// As there.
    fn any_owned_worker(self: Arc<Self>) -> Result<Box<dyn AnyWorker>, Error>;

    /// Returns the future of the transaction `id`, which shares ownership of the pool: as awaiting
    /// the ticket of [`Pool::owned_ticket`].
    ///
    /// # Errors
    /// As there.
    fn any_durable(self: Arc<Self>, id: TxId) -> Result<AnyDurable, Error>;

    /// As [`Pool::wait_for`].
    ///
    /// # Errors
    /// As there.
    fn wait_for(&self, id: TxId) -> Result<(), Error>;

    /// As [`Pool::committed_id`].
    fn committed_id(&self) -> TxId;

    /// As [`Pool::durable_id`].
    fn durable_id(&self) -> TxId;

    /// As [`Pool::reproduced_id`].
    fn reproduced_id(&self) -> TxId;

    /// As [`Pool::flush`].
    ///
    /// # Errors
    /// As there.
    fn flush(&self) -> Result<(), Error>;

    /// As [`Pool::checkpoint`].
    ///
    /// # Errors
    /// As there.
    fn checkpoint(&self) -> Result<(), Error>;

    /// As [`Pool::backup`].
    ///
    /// # Errors
    /// As there.
    fn backup(&self, to: &Path) -> Result<TxId, Error>;

    /// As [`Pool::scrub`].
    ///
    /// # Errors
    /// As there.
    fn scrub(&self) -> Result<Scrub, Error>;

    /// As [`Pool::grow`].
    ///
    /// # Errors
    /// As there.
    fn grow(&self, bytes: u64) -> Result<u64, Error>;

    /// As [`Pool::grow_log`].
    ///
    /// # Errors
    /// As there.
    fn grow_log(&self, bytes: u64) -> Result<u64, Error>;

    /// As [`Pool::is_deleted`].
    fn is_deleted(&self) -> bool;

    /// As [`Pool::check_heap`].
    ///
    /// # Errors
    /// As there.
    fn check_heap(&self) -> Result<lw_alloc::Usage, lw_alloc::Damage>;

    /// As [`Pool::heap_usage`].
    fn heap_usage(&self) -> lw_alloc::Usage;

    /// As [`Pool::metrics`].
    fn metrics(&self) -> Metrics;

    /// As [`Pool::info`].
    fn info(&self) -> Info;

    /// Returns [`Design::STEPS`].
    fn steps(&self) -> &'static [&'static str];

    /// As [`Design::step`].
    ///
    /// # Errors
    /// As there.
    fn step(&self, step: usize) -> Result<bool, Error>;

    /// Calls `see` with all words of the heap, in order and in pieces of 512 words or less at the
    /// end: as the next transaction would read them, and zeros for those that it may grow by.
    /// No transaction may run during the call.
    fn observe_words(&self, see: &mut dyn FnMut(&[u64]));

    /// As [`Pool::close`].
    ///
    /// # Errors
    /// As there.
    fn close(self: Box<Self>) -> Result<(), Error>;

    /// As [`Pool::close_shared`].
    ///
    /// # Errors
    /// As there.
    fn close_shared(&self) -> Result<(), Error>;

    /// As [`Pool::abandon`].
    fn abandon(self: Box<Self>);
}

impl<D: Design> AnyPool for Pool<D> {
    fn any_worker(&self) -> Result<Box<dyn AnyWorker + '_>, Error> {
        Ok(Box::new(self.worker()?))
    }

    fn any_owned_worker(self: Arc<Self>) -> Result<Box<dyn AnyWorker>, Error> {
        Ok(Box::new(self.owned_worker()?))
    }

    fn any_durable(self: Arc<Self>, id: TxId) -> Result<AnyDurable, Error> {
        Ok(Box::pin(self.owned_ticket(id)?.into_future()))
    }

    fn wait_for(&self, id: TxId) -> Result<(), Error> {
        self.wait_for(id)
    }

    fn committed_id(&self) -> TxId {
        self.committed_id()
    }

    fn durable_id(&self) -> TxId {
        self.durable_id()
    }

    fn reproduced_id(&self) -> TxId {
        self.reproduced_id()
    }

    fn flush(&self) -> Result<(), Error> {
        self.flush()
    }

    fn checkpoint(&self) -> Result<(), Error> {
        self.checkpoint()
    }

    fn backup(&self, to: &Path) -> Result<TxId, Error> {
        self.backup(to)
    }

    fn scrub(&self) -> Result<Scrub, Error> {
        self.scrub()
    }

    fn grow(&self, bytes: u64) -> Result<u64, Error> {
        self.grow(bytes)
    }

    fn grow_log(&self, bytes: u64) -> Result<u64, Error> {
        self.grow_log(bytes)
    }

    fn is_deleted(&self) -> bool {
        self.is_deleted()
    }

    fn check_heap(&self) -> Result<lw_alloc::Usage, lw_alloc::Damage> {
        self.check_heap()
    }

    fn heap_usage(&self) -> lw_alloc::Usage {
        self.heap_usage()
    }

    fn metrics(&self) -> Metrics {
        self.metrics()
    }

    fn info(&self) -> Info {
        self.info()
    }

    fn steps(&self) -> &'static [&'static str] {
        D::STEPS
    }

    fn step(&self, step: usize) -> Result<bool, Error> {
        self.design().step(step)
    }

    fn observe_words(&self, see: &mut dyn FnMut(&[u64])) {
        let design = self.design();
        let (words, room) = (self.info().heap_bytes as usize / 8, design.words());
        let mut piece = [0; PIECE_WORDS];
        for first in (0..room).step_by(PIECE_WORDS) {
            let piece = &mut piece[..PIECE_WORDS.min(room - first)];
            let (seen, grown) = piece.split_at_mut(words.saturating_sub(first).min(piece.len()));
            design.observe(first, seen);
            grown.fill(0);
            see(piece);
        }
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        (*self).close()
    }

    fn close_shared(&self) -> Result<(), Error> {
        self.close_shared()
    }

    fn abandon(self: Box<Self>) {
        (*self).abandon();
    }
}

/// Words of the heap that are observed at a time.
const PIECE_WORDS: usize = 512;

/// A future that is ready when a transaction is durable, or when the pool has failed.
pub type AnyDurable = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// The body of a transaction that an [`AnyWorker`] runs.
pub type AnyBody<'b> = dyn FnMut(&mut dyn Allocate) -> Result<(), Stop> + 'b;

/// A [`Worker`] of any design.
pub trait AnyWorker: Send {
    /// Returns the worker for code that is generic over the type of transaction and needs no IDs.
    fn erased(&mut self) -> Erased<'_, Error>;

    /// Runs `body` as one transaction and returns its ID: as [`Worker::read`] if `reads_only`, else
    /// as [`Worker::run`].
    ///
    /// # Errors
    /// As there.
    fn run_any(&mut self, reads_only: bool, body: &mut AnyBody<'_>) -> Result<TxId, Error>;

    /// Runs `body`, and then rolls it back with [`Tx::abort`](crate::Tx::abort).
    ///
    /// # Errors
    /// Always: [`Error::Aborted`], or the error that ended the transaction earlier.
    fn abort_any(
        &mut self,
        reason: &'static str,
        body: &mut AnyBody<'_>,
    ) -> Result<std::convert::Infallible, Error>;
}

/// Implements [`AnyWorker`] for workers that borrow their pool, and for workers that share it.
macro_rules! any_worker {
    ($($worker:ty),*) => {$(
        impl<D: Design> AnyWorker for $worker {
            fn erased(&mut self) -> Erased<'_, Error> {
                Erased::new(self)
            }

            fn run_any(&mut self, reads_only: bool, body: &mut AnyBody<'_>) -> Result<TxId, Error> {
                let done = match reads_only {
                    true => self.read(|tx| body(tx)),
                    false => self.run(|tx| body(tx)),
                };
                Ok(done?.ticket.id())
            }

            fn abort_any(
                &mut self,
                reason: &'static str,
                body: &mut AnyBody<'_>,
            ) -> Result<std::convert::Infallible, Error> {
                let aborted = self.run(|tx| {
                    body(tx)?;
                    tx.abort(reason)
                });
                aborted.map(|done| done.value)
            }
        }
    )*};
}

any_worker!(Worker<'_, D>, OwnedWorker<D>);

/// Erases the design of a pool.
pub trait Erase: 'static {
    /// The pool without its design, such as `dyn AnyPool`.
    type Pool: ?Sized;

    /// Erases the design.
    fn erase<D: Design>(pool: Pool<D>) -> Box<Self::Pool>;
}

/// Erases the design of a pool to [`AnyPool`].
#[derive(Debug)]
pub struct ToAnyPool;

impl Erase for ToAnyPool {
    type Pool = dyn AnyPool;

    fn erase<D: Design>(pool: Pool<D>) -> Box<dyn AnyPool> {
        Box::new(pool)
    }
}

/// A design that is chosen at run time: its properties, and how to create or open its pools.
///
/// ```
/// use lastword::{AnyDesign, Options};
///
/// let dir = tempfile::tempdir()?;
/// let design: &AnyDesign = AnyDesign::by_name("undo").expect("the registry has this name");
/// let pool = design.create(&dir.path().join("pool"), Options::new())?;
/// pool.any_worker()?.run_any(false, &mut |tx| tx.set_root(0))?;
/// pool.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AnyDesign<E: Erase = ToAnyPool> {
    /// The name: [`DesignInfo::name`], or that of another type of the design.
    pub type_name: &'static str,
    /// The shadow for which a pool with a bound uses this type; `None` for a design's first type.
    pub bounded: Option<Shadow>,
    info: &'static DesignInfo,
    create: Begin<E>,
    open: Begin<E>,
}

type Begin<E> = fn(&Path, Options) -> Result<Box<<E as Erase>::Pool>, Error>;

macro_rules! types {
    (
        []
        volatile { $($volatile:tt)* }
        durable { $($durable:tt)* }
        research { $($research:tt)* }
    ) => {
        types!($($volatile)* $($durable)* $($research)*);
    };
    ($($variant:ident $(= $number:literal)?: $design:ty { $($fact:tt)* }
       [$($name:literal: $type:ty, $bounded:expr;)*])*) => {
        impl<E: Erase> AnyDesign<E> {
            const ALL: &'static [AnyDesign<E>] = &[$(
                AnyDesign::new::<$design>(<$design as Design>::NAME, None),
                $(AnyDesign::new::<$type>($name, $bounded),)*
            )*];
        }
    };
}

crate::for_each_design!([types]);

impl<E: Erase> AnyDesign<E> {
    /// Returns the design of this type under a name. `bounded`: as [`AnyDesign::bounded`].
    ///
    /// # Panics
    /// If the registry has no row for [`Design::NAME`].
    pub const fn new<D: Design>(type_name: &'static str, bounded: Option<Shadow>) -> AnyDesign<E> {
        AnyDesign {
            type_name,
            bounded,
            info: DesignInfo::of::<D>(),
            create: |path, options| Ok(E::erase(Pool::<D>::create_as(path, options)?)),
            open: |path, options| Ok(E::erase(Pool::<D>::open_as(path, options)?)),
        }
    }

    /// Returns all designs and all their types. A design's first type precedes its others.
    // Inlined, and the list a constant: a program that names its designs contains no other ones.
    #[inline]
    pub fn all() -> &'static [AnyDesign<E>] {
        AnyDesign::<E>::ALL
    }

    /// Returns the design of this name; `None` when no type has it.
    #[inline]
    pub fn by_name(name: &str) -> Option<&'static AnyDesign<E>> {
        AnyDesign::<E>::ALL.iter().find(|design| design.type_name == name)
    }

    /// Returns the design of a type: the first, if the registry has several.
    ///
    /// # Panics
    /// If the type is not in the registry.
    #[inline]
    pub fn of<D: Design>() -> &'static AnyDesign<E> {
        AnyDesign::by_name(D::NAME).expect("every design has a row")
    }

    /// Returns the type for pools with this bounded shadow; `None` when the design has none.
    #[inline]
    pub fn bounded_by(&self, shadow: Shadow) -> Option<&'static AnyDesign<E>> {
        let mut types = AnyDesign::<E>::ALL.iter().filter(|other| other.name == self.name);
        types.find(|other| other.bounded == Some(shadow))
    }

    /// As [`Pool::create_as`].
    ///
    /// # Errors
    /// As there.
    pub fn create(&self, path: &Path, options: Options) -> Result<Box<E::Pool>, Error> {
        (self.create)(path, options)
    }

    /// As [`Pool::open_as`].
    ///
    /// # Errors
    /// As there.
    pub fn open(&self, path: &Path, options: Options) -> Result<Box<E::Pool>, Error> {
        (self.open)(path, options)
    }
}

impl<E: Erase> Deref for AnyDesign<E> {
    type Target = DesignInfo;

    fn deref(&self) -> &DesignInfo {
        self.info
    }
}
