//! How a pool of a model is made: options, storage and shadow, over a [`Machine`].

use crate::around::superblock::{LogHead, Superblocks};
use crate::machine::{HEAP_WORDS, Machine};
use crate::perform::Heap;
use crate::recover::decide::Action;
use crate::sync::{Arc, AtomicU64};
use crate::{Error, Medium};
use real_medium::{HomeMedium, LogMedium};
use std::path::Path;

/// When a commit returns.
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
    pub(crate) machine: Arc<Machine>,
}

impl Options {
    /// Room for two or three records.
    pub(crate) fn ring_words(&self) -> usize {
        32
    }
}

pub(crate) struct Storage {
    pub(crate) file: Arc<Machine>,
    pub(crate) log_file: Option<Arc<()>>,
    pub(crate) home: Box<dyn HomeMedium>,
    pub(crate) log: Arc<dyn LogMedium>,
    pub(crate) superblocks: Superblocks,
    pub(crate) medium: Medium,
}

/// A machine needs no tidying.
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
    ) -> Result<(Storage, Created), Error> {
        let machine = &options.machine;
        let storage = Storage {
            file: Arc::clone(machine),
            log_file: None,
            home: machine.home(),
            log: machine.log(),
            superblocks: machine.superblocks(),
            medium: if machine.depth > 0 { Medium::File } else { Medium::Dax },
        };
        Ok((storage, Created))
    }

    pub(crate) fn log_head(&self) -> Result<Option<LogHead>, Error> {
        Ok(None)
    }

    pub(crate) fn log_path(&self) -> &Path {
        Path::new("log")
    }
}

pub(crate) struct Opened {
    pub(crate) storage: Storage,
    pub(crate) action: Action,
    pub(crate) log_head: Option<LogHead>,
}

impl Opened {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Opened, Error> {
        let (storage, _) = Storage::create(path, options, "")?;
        Ok(Opened { storage, action: Action::Replay, log_head: None })
    }
}

#[derive(Debug)]
pub(crate) struct ShadowHeap(Box<[AtomicU64]>);

impl ShadowHeap {
    pub(crate) fn open(_: (), _: &Arc<Machine>, _: u64, bytes: u64) -> Result<ShadowHeap, Error> {
        Ok(ShadowHeap((0..bytes / 8).map(|_| AtomicU64::new(0)).collect()))
    }

    pub(crate) fn heap(&self) -> &Heap {
        &self.0
    }
}

/// Nothing that a model would ask for.
pub struct Shape;

impl Shape {
    pub(crate) fn of(_: &Storage, _: &Options) -> Shape {
        Shape
    }

    pub(crate) fn in_memory(options: &Options) -> Result<(ShadowHeap, Shape), Error> {
        Ok((ShadowHeap::open((), &options.machine, 0, 8 * HEAP_WORDS as u64)?, Shape))
    }
}
