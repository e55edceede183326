//! The counters of a channel.

use crate::machine::when::Time;

/// Counters of a channel, since the measurement began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of the array; `forwarded` counts the reads that the queue served.
    pub reads: u64,
    /// See `reads`.
    pub forwarded: u64,
    /// Writes of the array.
    pub writes: u64,
    /// Requests that found their row open.
    pub row_hits: u64,
    /// Rows that were opened for a request. A write that keeps its bank needs none.
    pub activations: u64,
    /// Refreshes that were due, of all ranks.
    pub refreshes: u64,
    /// Accesses of each bank.
    pub banks: Vec<BankCounts>,
    /// The queue of writes.
    pub queue: QueueCounts,
}

/// Accesses of a bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankCounts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// Counters of a queue of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// The occupied slots, summed over all cycles.
    pub slot_cycles: u64,
    /// The writes that wait for a slot, summed over all cycles.
    pub outside_cycles: u64,
    /// Cycles for which the queue was above its bound, so that writes went first.
    pub draining_cycles: u64,
    /// The largest number of occupied slots.
    pub most: u64,
    /// Writes that found no slot when they arrived.
    pub waited: u64,
    /// Writes that replaced another one in its slot.
    pub merged: u64,
}

impl QueueCounts {
    /// Adds some cycles with an unchanged queue.
    pub(super) fn pass(&mut self, cycles: Time, (slots, outside): (usize, usize), draining: bool) {
        self.slot_cycles += cycles * slots as u64;
        self.outside_cycles += cycles * outside as u64;
        self.draining_cycles += if draining { cycles } else { 0 };
    }
}
