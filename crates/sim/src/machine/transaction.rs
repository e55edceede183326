//! The view that a data structure has of a [`Hart`]: words, and a heap to allocate from.

use words::{Addr, Allocate, LockId, Stop, Words};

use super::hart::Hart;
use crate::design::Design;

/// A transaction of a hart.
pub struct Transaction<'t, 'y, D: Design> {
    pub(super) hart: &'t mut Hart<'y, D>,
    pub(super) stopped: Option<Stop>,
}

impl<D: Design> Transaction<'_, '_, D> {
    fn note<R>(&mut self, result: Result<R, Stop>) -> Result<R, Stop> {
        if let Err(stop) = result {
            self.stopped.get_or_insert(stop);
        }
        result
    }
}

impl<D: Design> Words for Transaction<'_, '_, D> {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        if let Some(stop) = self.stopped {
            return Err(stop);
        }
        let word = self.hart.word(at);
        let word = self.note(word)?;
        Ok(self.hart.load(word, at.object))
    }

    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        if let Some(stop) = self.stopped {
            return Err(stop);
        }
        let word = self.hart.word(at);
        let word = self.note(word)?;
        self.hart.note_write(word);
        let stored = self.hart.store_durably(word, at.object, value);
        if stored.is_err() {
            self.hart.forget_write(word);
        }
        self.note(stored)
    }

    fn lock(&mut self, lock: LockId) -> Result<(), Stop> {
        self.hart.take_lock(lock.0);
        Ok(())
    }

    fn will_write(&mut self, at: Addr, bytes: usize) {
        if let Ok(first) = self.hart.word(at) {
            self.hart.announced(first, (bytes as u64).div_ceil(8));
        }
    }

    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        let (heap, arena) = (self.hart.heap, self.hart.core() % lw_alloc::ARENAS);
        let retired = heap.retire(self, arena, at, bytes).map(drop);
        self.note(retired)
    }

    fn compute(&mut self, instructions: u32) {
        self.hart.compute(instructions);
    }

    fn after_last_read(&mut self) {
        self.hart.follow_last();
    }
}

impl<D: Design> Allocate for Transaction<'_, '_, D> {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        let (heap, arena) = (self.hart.heap, self.hart.core() % lw_alloc::ARENAS);
        let object = heap.allocate(self, arena, bytes);
        self.note(object)
    }

    fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop> {
        let (heap, arena) = (self.hart.heap, self.hart.core() % lw_alloc::ARENAS);
        let first = heap.allocate_pieces(self, arena, bytes);
        self.note(first)
    }

    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
        let heap = self.hart.heap;
        let resized = heap.resize(self, first, from, to);
        self.note(resized)
    }

    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        let heap = self.hart.heap;
        let first = heap.reserve_blocks(self, blocks);
        self.note(first)
    }

    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
        let heap = self.hart.heap;
        let left = heap.prepare_blocks(self, first, most);
        self.note(left)
    }

    fn root(&mut self) -> Result<u64, Stop> {
        let heap = self.hart.heap;
        heap.root(self)
    }

    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        let heap = self.hart.heap;
        heap.set_root(self, object)
    }
}
