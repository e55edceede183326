//! Reservations in the DRAM cache. A transaction that finds no place for a line falls back to
//! software.
//!
//! A bucket has seven places for lines of open transactions, and one for committed lines. A place
//! is reserved before a store executes, so a line that leaves a core always has room. [`log`]
//! describes the start of software. The attempt's lines in the cache are dropped; their older
//! versions are in the heap image by then.

use super::super::dram::{self, WAYS};
use super::{Redu, write_back};
use crate::machine::memory::line_of;
use crate::machine::{Hart, Machine};

/// Places of a bucket for lines of open transactions. One place is left for committed lines.
const PLACES: u8 = WAYS as u8 - 1;

/// The reservations.
#[derive(Debug)]
pub(super) struct Places {
    /// Reserved places of each bucket.
    taken: Vec<u8>,
    /// Lines for which each core's transaction has a reservation.
    lines: Vec<Vec<u32>>,
}

impl Places {
    pub(super) fn new(buckets: u32, cores: usize) -> Places {
        Places { taken: vec![0; buckets as usize], lines: vec![Vec::new(); cores] }
    }
}

/// Reserves a place for the line of one more store. Returns `false` when its bucket has none.
pub(super) fn has_place(hart: &mut Hart<'_, Redu>, word: u64) -> bool {
    let core = hart.core();
    let (line, Redu { dram, places, .. }) = (line_of(word), &mut hart.machine().design);
    let lines = &mut places.lines[core];
    if lines.last() != Some(&line) && !lines.contains(&line) {
        let taken = &mut places.taken[dram.bucket(line)];
        if *taken == PLACES {
            return false;
        }
        *taken += 1;
        lines.push(line);
    }
    true
}

/// Frees the reservations of a core's transaction.
pub(super) fn ends(machine: &mut Machine<Redu>, core: usize) {
    let Redu { dram, places, .. } = &mut machine.design;
    for line in places.lines[core].drain(..) {
        places.taken[dram.bucket(line)] -= 1;
    }
}

/// Forgets a core's attempt. Lines may still leave L1 during the waits and belong to the attempt,
/// so the reservations last until no line is in flight.
pub(super) fn forgets(hart: &mut Hart<'_, Redu>) {
    let core = hart.core();
    while let Some(flush) = hart.machine().design.flushes[core].pop() {
        hart.wait_for(flush);
    }
    let machine = hart.machine();
    drop_lines(machine, core);
    ends(machine, core);
}

/// Removes the lines of a core's last transaction from the DRAM cache.
fn drop_lines(machine: &mut Machine<Redu>, core: usize) {
    let serial = machine.design.log.last(core);
    let entry = machine.design.table.remove(&serial).expect("the transaction is in the table");
    for line in entry.lines {
        let design = &mut machine.design;
        let slot = design.cache.find(design.dram.bucket(line), line);
        if let Some(slot) = slot.filter(|slot| design.cache.serial(*slot) == serial) {
            write_back::take_out(machine, slot);
            dram::forget(machine, slot);
        }
    }
}
