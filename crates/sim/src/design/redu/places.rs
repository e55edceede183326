//! Places for lines in the DRAM cache: a transaction that has none for one goes on in software.
//!
//! A bucket has seven places for lines of open transactions, and one for what is committed. They
//! are given before a store is executed, so lines that leave a core always have room here. What
//! software begins with is in [`log`]; of an attempt the cache has lines, which are dropped. Older
//! versions of them are at home by then.

use super::super::dram::{self, WAYS};
use super::{Redu, write_back};
use crate::machine::memory::line_of;
use crate::machine::{Hart, Machine};

/// Lines of open transactions that a bucket may have: one place is left for what is committed.
const PLACES: u8 = WAYS as u8 - 1;

/// Who has places.
#[derive(Debug)]
pub(super) struct Places {
    /// Those of each bucket that open transactions have.
    taken: Vec<u8>,
    /// The lines that each core's transaction has them for.
    lines: Vec<Vec<u32>>,
}

impl Places {
    pub(super) fn new(buckets: u32, cores: usize) -> Places {
        Places { taken: vec![0; buckets as usize], lines: vec![Vec::new(); cores] }
    }
}

/// Whether a bucket has a place for one more store of a core's transaction.
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

/// A core's transaction is open no longer: its places are free.
pub(super) fn ends(machine: &mut Machine<Redu>, core: usize) {
    let Redu { dram, places, .. } = &mut machine.design;
    for line in places.lines[core].drain(..) {
        places.taken[dram.bucket(line)] -= 1;
    }
}

/// A core's attempt is forgotten. Its lines may still leave L1 while it waits: they are its own
/// until nothing is on its way.
pub(super) fn forgets(hart: &mut Hart<'_, Redu>) {
    let core = hart.core();
    while let Some(flush) = hart.machine().design.flushes[core].pop() {
        hart.wait_for(flush);
    }
    let machine = hart.machine();
    drop_lines(machine, core);
    ends(machine, core);
}

/// What the DRAM cache has of a core's last transaction is dropped.
fn drop_lines(machine: &mut Machine<Redu>, core: usize) {
    let serial = machine.design.log.last(core);
    let entry = machine.design.table.remove(&serial).expect("it is in the table");
    for line in entry.lines {
        let design = &mut machine.design;
        let slot = design.cache.find(design.dram.bucket(line), line);
        if let Some(slot) = slot.filter(|slot| design.cache.serial(*slot) == serial) {
            write_back::take_out(machine, slot);
            dram::forget(machine, slot);
        }
    }
}
