//! `volatile`: the transactional memory alone, without durability. It is the upper bound for a
//! durable design on the same memory.

use std::path::Path;

use words::{Stop, TxId};

use super::{At, Design};
use crate::perform::{NoRedo, Obstacle, StarvationLock, Stm, Tm};
use crate::poison::Poison;
use crate::pool::Shape;
use crate::shadow::ShadowHeap;
use crate::sync::Ordering;
use crate::{Error, Options};

/// A transactional memory over a heap that does not survive the process.
pub struct Volatile<T: Tm = Stm> {
    memory: T,
    shadow: ShadowHeap,
    poison: Poison,
}

impl<T: Tm> Design for Volatile<T> {
    const NAME: &'static str = "volatile";
    const DURABLE: bool = false;
    const WORKERS_MAX: usize = 1 << 15;
    type Local = T::Attempt;

    fn create(_path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        let (shadow, shape) = Shape::in_memory(options)?;
        let memory = T::sized(shadow.heap().len(), options.ownership_records)?;
        Ok((Volatile { memory, shadow, poison: Poison::default() }, shape))
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

    fn local(&self, number: usize) -> Result<T::Attempt, Error> {
        Ok(self.memory.attempt(number))
    }

    #[inline]
    fn check(&self) -> Result<(), Error> {
        self.poison.check()
    }

    #[inline]
    fn begin(&self, local: &mut T::Attempt, read_only: bool) -> Result<(), Error> {
        self.poison.check()?;
        match read_only {
            false => self.memory.begin(local),
            true => self.memory.begin_read(local),
        }
        Ok(())
    }

    fn starvation_lock(&self) -> &StarvationLock {
        self.memory.starvation_lock()
    }

    fn obstacle(&self, local: &mut T::Attempt) -> Obstacle {
        self.memory.obstacle(local)
    }

    fn holder(&self, key: u64, seen: u64) -> Option<usize> {
        self.memory.holder(key, seen)
    }

    #[inline(always)]
    fn read(&self, local: &mut T::Attempt, at: At) -> Result<u64, Stop> {
        self.memory.read(local, self.shadow.heap(), at.index)
    }

    #[inline]
    fn read_run(&self, local: &mut T::Attempt, at: At, out: &mut [u64]) -> Result<(), Stop> {
        self.memory.read_run(local, self.shadow.heap(), at.index, out)
    }

    #[inline(always)]
    fn write(&self, local: &mut T::Attempt, at: At, value: u64) -> Result<(), Stop> {
        self.memory.write(local, self.shadow.heap(), at.index, value)
    }

    #[inline(always)]
    fn write_run(&self, local: &mut T::Attempt, at: At, values: &[u64]) -> Result<(), Stop> {
        self.memory.write_run(local, self.shadow.heap(), at.index, values)
    }

    #[inline]
    fn will_read(&self, index: usize, words: usize) {
        self.memory.will_read(self.shadow.heap(), index, words);
    }

    #[inline]
    fn will_write(&self, index: usize, words: usize) {
        self.memory.will_write(self.shadow.heap(), index, words);
    }

    #[inline]
    fn words_written(&self, local: &T::Attempt) -> usize {
        self.memory.words_written(local)
    }

    #[inline]
    fn commit(&self, local: &mut T::Attempt) -> Result<TxId, Stop> {
        self.memory.commit(local, self.shadow.heap(), &mut NoRedo)
    }

    fn roll_back(&self, local: &mut T::Attempt) -> TxId {
        self.memory.roll_back(local, self.shadow.heap(), &mut NoRedo)
    }

    fn end_panicked(&self, _local: &mut T::Attempt, step: &'static str) {
        self.poison.put(Error::StepPanicked { step });
    }

    fn committed_id(&self) -> TxId {
        TxId(self.memory.clock().load(Ordering::Acquire))
    }
}
