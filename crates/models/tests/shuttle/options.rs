//! The options, storage and shadow of a model's pool, over a [`Machine`].

use crate::around::superblock::{Superblock, Superblocks};
use crate::machine::{HEAP_WORDS, Machine};
use crate::perform::Heap;
use crate::pool::FileCheck;
use crate::recover::{decide::Action, replay};
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::{Error, Medium};
use real_medium::{Counts, HeapMedium, LogMedium, Parts};
use std::path::Path;
use words::TxId;

/// The time at which a commit returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    Async,
    Sync,
}

#[derive(Clone)]
pub struct Options {
    pub(crate) background: bool,
    pub(crate) durability: Durability,
    pub(crate) shadow: (),
    pub(crate) reproduce_threads: usize,
    pub(crate) ownership_records: u64,
    pub(crate) machine: Arc<Machine>,
    pub(crate) pause: std::time::Duration,
    pub(crate) group: u64,
    pub(crate) group_time: std::time::Duration,
    pub(crate) compress: bool,
    pub(crate) persist_threads: usize,
    pub(crate) medium: Option<Medium>,
    pub(crate) ideal_reproduce: bool,
    pub(crate) recovery_time: Option<std::time::Duration>,
}

impl Options {
    /// No heap of a model grows.
    pub(crate) fn room(&self, heap_bytes: u64) -> u64 {
        heap_bytes
    }

    /// No log does.
    pub(crate) fn log_bytes_max(&self, _heap_bytes: u64) -> u64 {
        0
    }

    /// No model requires a stream.
    pub(crate) fn stream_limits(&self) -> Option<(std::time::Duration, u64)> {
        None
    }

    /// Room for two or three records.
    pub(crate) fn ring_words(&self) -> usize {
        32
    }
}

pub(crate) struct Storage {
    pub(crate) file: Arc<Machine>,
    pub(crate) log_file: Option<Arc<()>>,
    pub(crate) heap_image: Parts,
    pub(crate) log: Arc<dyn LogMedium>,
    pub(crate) superblocks: Superblocks,
    pub(crate) medium: Medium,
}

/// The product's type; a model always has the memory.
pub(crate) struct Demand {
    pub(crate) heap_bytes: u64,
    pub(crate) records: u64,
}

pub(crate) type MemoryDemand = fn(&Options, Medium, u64) -> Demand;

/// The files of a created pool, which a machine does not have.
pub(crate) struct Created;

impl Created {
    pub(crate) fn or_remove<R>(
        &self,
        go_on: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        go_on()
    }
}

impl Storage {
    pub(crate) fn create(
        _: &Path,
        options: &Options,
        _: &'static str,
        _: MemoryDemand,
    ) -> Result<(Storage, Created), Error> {
        let machine = &options.machine;
        let storage = Storage {
            file: Arc::clone(machine),
            log_file: None,
            heap_image: machine.heap_parts(options.reproduce_threads),
            log: machine.log(),
            superblocks: machine.superblocks(),
            medium: if machine.depth > 0 { Medium::File } else { Medium::Dax },
        };
        Ok((storage, Created))
    }
}

pub(crate) struct Opened {
    pub(crate) storage: Storage,
    pub(crate) action: Action,
}

impl Opened {
    pub(crate) fn open(
        path: &Path,
        options: &Options,
        demand: MemoryDemand,
    ) -> Result<Opened, Error> {
        let (storage, _) = Storage::create(path, options, "", demand)?;
        Ok(Opened { storage, action: Action::Replay })
    }

    pub(crate) fn created(storage: Storage) -> Result<Opened, Error> {
        Ok(Opened { storage, action: Action::Start })
    }

    /// As `storage/begin.rs` in the product, where no other thread runs yet.
    pub(crate) fn begin<W>(
        self,
        _: &'static str,
        open: impl Fn(&Storage) -> Result<W, Error>,
        mark: impl Fn(&mut Superblock),
    ) -> Result<ReadyPool<W>, Error> {
        let Opened { mut storage, action } = self;
        let before = *storage.superblocks.current();
        let mut last = TxId(before.reproduced);
        if action == Action::Replay {
            let Storage { log, heap_image, .. } = &mut storage;
            last = replay(&before, &**log, heap_image, Path::new("log"))?.last;
        }
        let words = open(&storage)?;
        storage.superblocks.update(|now| {
            now.generation = before.generation + 1;
            now.clean = false;
            now.reproduced = last.0;
            now.log_sequence = 0;
            mark(now);
        })?;
        Ok(ReadyPool { storage, words, last })
    }
}

pub(crate) struct ReadyPool<W> {
    pub(crate) storage: Storage,
    pub(crate) words: W,
    pub(crate) last: TxId,
}

/// Designs that are not in the model.
pub struct Undo;
pub struct Redo;
pub struct Snapshot;
pub struct Mvcc;

/// The name of a design that no model creates.
pub(crate) const NAME: &str = "decoupled-ideal";

pub(crate) fn check(_: &Options, _: Medium) -> Result<(), Error> {
    Ok(())
}

pub(crate) struct Nowhere;

impl HeapMedium for Nowhere {
    fn write_back(&mut self, _: &[u64]) -> Result<(), real_medium::Error> {
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), real_medium::Error> {
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

#[derive(Debug)]
pub struct ShadowHeap(Box<[AtomicU64]>);

impl ShadowHeap {
    pub(crate) fn heap(&self) -> &Heap {
        &self.0
    }
}

/// The product's trait, with a single implementation: an unpaged heap.
pub trait ShadowMemory: Send + Sync + Sized + 'static {
    type Part: Send;
    fn check(options: &Options) -> Result<(), Error>;
    fn memory_bytes(options: &Options, heap_bytes: u64) -> u64;
    fn open(options: &Options, _: &Arc<Machine>, _: u64, bytes: u64) -> Result<Self, Error>;
    fn words(&self) -> usize;
    fn part(&self) -> Self::Part;
    fn leave(&self, part: &mut Self::Part);
    fn begin(&self, part: &mut Self::Part, behind: impl Sized) -> Result<(), Error>;
    fn space<'a>(&'a self, part: &'a mut Self::Part, behind: impl Sized) -> &'a Heap;
    fn hints(&self) -> &Heap;
    fn end(&self, part: &mut Self::Part);
    fn peek(&self, index: usize, behind: impl Sized) -> u64;
    fn glance(&self, index: usize, behind: impl Sized) -> u64;
    fn observe(&self, first: usize, out: &mut [u64], behind: impl Sized);
    fn poke(&self, index: usize, value: u64, behind: impl Sized);
    fn too_large(&self, part: &Self::Part) -> Option<Error>;
    fn counts(&self) -> ShadowCounts;
}

/// The counters of a shadow.
#[derive(Default)]
pub struct ShadowCounts {
    pub(crate) page_ins: u64,
    pub(crate) evictions: u64,
    pub(crate) page_waits: u64,
}

impl ShadowMemory for ShadowHeap {
    type Part = ();

    fn check(_: &Options) -> Result<(), Error> {
        Ok(())
    }

    fn memory_bytes(_: &Options, heap_bytes: u64) -> u64 {
        heap_bytes
    }

    fn open(_: &Options, _: &Arc<Machine>, _: u64, bytes: u64) -> Result<ShadowHeap, Error> {
        Ok(ShadowHeap((0..bytes / 8).map(|_| AtomicU64::new(0)).collect()))
    }

    fn words(&self) -> usize {
        self.0.len()
    }

    fn part(&self) {}

    fn leave(&self, (): &mut ()) {}

    fn begin(&self, (): &mut (), _: impl Sized) -> Result<(), Error> {
        Ok(())
    }

    fn space<'a>(&'a self, (): &'a mut (), _: impl Sized) -> &'a Heap {
        self.heap()
    }

    fn hints(&self) -> &Heap {
        self.heap()
    }

    fn end(&self, (): &mut ()) {}

    fn peek(&self, index: usize, _: impl Sized) -> u64 {
        self.0[index].load(Ordering::Relaxed)
    }

    fn glance(&self, index: usize, _: impl Sized) -> u64 {
        self.peek(index, ())
    }

    fn observe(&self, first: usize, out: &mut [u64], _: impl Sized) {
        out.iter_mut().zip(first..).for_each(|(out, index)| *out = self.peek(index, ()));
    }

    fn poke(&self, index: usize, value: u64, _: impl Sized) {
        self.0[index].store(value, Ordering::Relaxed);
    }

    fn too_large(&self, (): &()) -> Option<Error> {
        None
    }

    fn counts(&self) -> ShadowCounts {
        ShadowCounts::default()
    }
}

/// Shadows that no model creates.
pub struct Software;
pub struct Evicting;

/// The shape of a pool, of which models use only the check of its files.
#[derive(Default)]
pub struct Shape(Arc<FileCheck>);

impl Shape {
    pub(crate) fn file_check(&self) -> &Arc<FileCheck> {
        &self.0
    }

    #[allow(clippy::extra_unused_type_parameters, reason = "the signature is the product's")]
    pub(crate) fn of<D>(_: &Storage, _: &Options) -> Shape {
        Shape::default()
    }

    pub(crate) fn in_memory(options: &Options) -> Result<(ShadowHeap, Shape), Error> {
        let shadow = ShadowHeap::open(options, &options.machine, 0, 8 * HEAP_WORDS as u64)?;
        Ok((shadow, Shape::default()))
    }
}
