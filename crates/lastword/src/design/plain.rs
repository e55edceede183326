//! `plain`: loads and stores, without isolation, for one worker. It is the baseline of `volatile`:
//! a slow transactional memory would make durability look cheap.
//!
//! A body that ends with a `Stop` is not rolled back: its earlier writes stay.

use std::path::Path;

use words::{Stop, TxId};

use super::{At, Design};
use crate::perform::StarvationLock;
use crate::pool::Shape;
use crate::shadow::ShadowHeap;
use crate::sync::{AtomicU64, Ordering};
use crate::{Error, Options};

/// Bare memory.
pub struct Plain {
    shadow: ShadowHeap,
    /// Number of committed transactions. Only one worker counts.
    committed: AtomicU64,
    starvation_lock: StarvationLock,
}

impl Design for Plain {
    const NAME: &'static str = "plain";
    const DURABLE: bool = false;
    const WORKERS_MAX: usize = 1;
    const ROLLS_BACK: bool = false;
    type Local = ();

    fn create(_path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        let (shadow, shape) = Shape::in_memory(options)?;
        let (committed, starvation_lock) = (AtomicU64::new(0), StarvationLock::default());
        Ok((Plain { shadow, committed, starvation_lock }, shape))
    }

    fn open(_path: &Path, _options: &Options) -> Result<(Self, Shape), Error> {
        Err(Error::NotDurable { design: Self::NAME })
    }

    #[inline]
    fn words(&self) -> usize {
        self.shadow.heap().len()
    }

    #[inline]
    fn peek(&self, index: usize) -> u64 {
        self.shadow.heap()[index].load(Ordering::Relaxed)
    }

    fn poke(&self, index: usize, value: u64) {
        self.shadow.heap()[index].store(value, Ordering::Relaxed);
    }

    fn local(&self, _number: usize) -> Result<(), Error> {
        Ok(())
    }

    fn starvation_lock(&self) -> &StarvationLock {
        &self.starvation_lock
    }

    #[inline]
    fn begin(&self, _local: &mut (), _read_only: bool) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn read(&self, _local: &mut (), at: At) -> Result<u64, Stop> {
        Ok(self.shadow.heap()[at.index].load(Ordering::Relaxed))
    }

    #[inline]
    fn read_run(&self, _local: &mut (), at: At, out: &mut [u64]) -> Result<(), Stop> {
        for (value, word) in out.iter_mut().zip(&self.shadow.heap()[at.index..]) {
            *value = word.load(Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline(always)]
    fn write(&self, _local: &mut (), at: At, value: u64) -> Result<(), Stop> {
        self.shadow.heap()[at.index].store(value, Ordering::Relaxed);
        Ok(())
    }

    #[inline(always)]
    fn write_run(&self, _local: &mut (), at: At, values: &[u64]) -> Result<(), Stop> {
        for (value, word) in values.iter().zip(&self.shadow.heap()[at.index..]) {
            word.store(*value, Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline]
    fn will_read(&self, index: usize, words: usize) {
        for at in (index..index + words).step_by(8) {
            medium::cpu::prefetch_read(self.shadow.heap(), at);
        }
    }

    #[inline]
    fn will_write(&self, index: usize, words: usize) {
        for at in (index..index + words).step_by(8) {
            medium::cpu::prefetch_write(self.shadow.heap(), at);
        }
    }

    fn words_written(&self, _local: &()) -> usize {
        0
    }

    #[inline]
    fn commit(&self, _local: &mut ()) -> Result<TxId, Stop> {
        let id = self.committed.load(Ordering::Relaxed) + 1;
        self.committed.store(id, Ordering::Relaxed);
        Ok(TxId(id))
    }

    fn roll_back(&self, _local: &mut ()) -> TxId {
        self.committed_id()
    }

    /// Does nothing: with one worker and without locks nothing could wait.
    fn end_panicked(&self, _local: &mut (), _step: &'static str) {}

    fn committed_id(&self) -> TxId {
        TxId(self.committed.load(Ordering::Relaxed))
    }
}
