//! A test program: objects of each core, one shared object, and a body for each core.

use words::{Erased, ErasedTx, Objects, Ptr, Stop, Transact};

use crate::program::{Client, Ended, Loaded, Program};

/// An object that fills a line together with its allocator header.
pub(super) type Object = Ptr<[u64; 6]>;

/// The program.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    /// The number of objects per core.
    pub(super) own: usize,
    pub(super) run: fn(&Part, &mut ErasedTx<'_>) -> Result<(), Stop>,
    pub(super) gives_up: fn(&Part) -> bool,
}

/// The client of one core.
pub(super) struct Part {
    pub(super) core: usize,
    pub(super) is_last: bool,
    pub(super) own: Vec<Object>,
    pub(super) shared: Object,
    /// The number of transactions begun.
    pub(super) round: usize,
    parts: Parts,
}

/// All objects: each core's, and another set whose middle object is shared.
struct All(Parts, Vec<Vec<Object>>);

fn objects<T: Transact>(worker: &mut T, count: usize) -> Result<Vec<Object>, T::Error> {
    (0..count).map(|_| worker.transact(|tx| tx.alloc([0_u64; 6]))).collect()
}

impl Program for Parts {
    fn name(&self) -> &str {
        "parts"
    }

    fn heap_bytes(&self) -> u64 {
        1 << 20
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let all = (0..=cores).map(|_| objects(worker, self.own)).collect::<Result<_, _>>()?;
        Ok(Box::new(All(*self, all)))
    }
}

impl Loaded for All {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let All(parts, objects) = self;
        let cores = objects.len() - 1;
        let (own, shared) = (objects[core].clone(), objects[cores][parts.own / 2]);
        let is_last = core + 1 == cores;
        Box::new(Part { core, is_last, own, shared, round: 0, parts: *parts })
    }

    fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        Ok(Vec::new())
    }
}

impl Client for Part {
    fn next(&mut self) {
        self.round += 1;
    }

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        (self.parts.run)(self, tx)
    }

    fn gives_up(&self) -> bool {
        (self.parts.gives_up)(self)
    }
}
