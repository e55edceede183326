//! Transactions that the hardware cannot hold: places for lines in the DRAM cache, and how a log in
//! software takes over.
//!
//! ```text
//!   store:    a place in the line's bucket, and in the log    none: software
//!   software: what is committed -> home   |   Log Start's line: "at home before this record"
//!             the attempt's letters, lines and records are forgotten
//!   a commit while software runs: the same, before its locks are free
//! ```
//! Why neither log undoes what the other has done: recovery redoes a transaction when its commit
//! word is not before that mark, so
//! - no commit before the mark is put over what software has written: all of it was at home first;
//! - no commit behind the mark has written a line that software has locked. Whoever had the lock
//!   before has committed before software began, or waited with its locks until the mark was
//!   behind its commit.
//!
//! So lines of open transactions of software, and lines that recovery redoes, are not the same
//! ones, and the order of both recoveries is free. Lines that a transaction of software has
//! committed are in memory, and hardware redoes words of them that were stored later.
//!
//! Why nobody waits for each other: the mark waits for commits, lines on their way home and
//! versions that open transactions have overwritten. None of these waits for a lock. (It could not
//! wait for Log Start, which an open transaction keeps where it is that may wait for software's
//! locks.) Bucket places and shares of the log are there when a store is executed, so nothing that
//! hardware holds waits for room.

use super::super::dram::{self, WAYS};
use super::super::log;
use super::{Redu, write_back};
use crate::machine::memory::line_of;
use crate::machine::when::When;
use crate::machine::{Hart, Machine};
use crate::mutants::{Mutant, planted};

/// Lines of open transactions that a bucket may have: one place is left for what is committed.
const PLACES: u8 = WAYS as u8 - 1;

/// Who has places, and who runs in software.
#[derive(Debug)]
pub(super) struct Software {
    /// Places of each bucket that open transactions have.
    places: Vec<u8>,
    /// The lines that each core's transaction has them for.
    lines: Vec<Vec<u32>>,
    /// Whether software makes a core's transaction durable, or did so with its last one.
    runs: Vec<bool>,
    /// Cores that wait until something more is at home.
    waiting: Vec<When>,
}

impl Software {
    pub(super) fn new(buckets: u32, cores: usize) -> Software {
        Software {
            places: vec![0; buckets as usize],
            lines: vec![Vec::new(); cores],
            runs: vec![false; cores],
            waiting: Vec::new(),
        }
    }
}

/// A core's transaction begins in hardware.
pub(super) fn begins(machine: &mut Machine<Redu>, core: usize) {
    machine.design.software.runs[core] = false;
}

/// Whether the hardware can hold one more store of a core's transaction.
pub(super) fn has_room(machine: &mut Machine<Redu>, core: usize, word: u64) -> bool {
    let (line, Redu { dram, software, .. }) = (line_of(word), &mut machine.design);
    let lines = &mut software.lines[core];
    if lines.last() != Some(&line) && !lines.contains(&line) {
        let places = &mut software.places[dram.bucket(line)];
        if *places == PLACES {
            return false;
        }
        *places += 1;
        lines.push(line);
    }
    log::plan(machine, core, word)
}

/// A core's transaction is open no longer: its places are free.
pub(super) fn ends(machine: &mut Machine<Redu>, core: usize) {
    let Redu { dram, software, .. } = &mut machine.design;
    for line in software.lines[core].drain(..) {
        software.places[dram.bucket(line)] -= 1;
    }
}

/// A core's transaction falls back to software.
pub(super) fn falls_back(hart: &mut Hart<'_, Redu>) {
    let cycle = hart.cycle();
    hart.at(cycle);
    let (core, since) = (hart.core(), hart.machine().now());
    hart.machine().design.software.runs[core] = true;
    if !planted(Mutant::ReduSoftwareEarly) {
        all_at_home(hart);
    }
    // Its lines may still leave L1 while it waits: they are its own until nothing is on its way.
    log::forget(hart);
    while let Some(flush) = hart.machine().design.flushes[core].pop() {
        hart.wait_for(flush);
    }
    let until = hart.cycle();
    let machine = hart.machine();
    drop_lines(machine, core);
    ends(machine, core);
    machine.rare(super::FALLS, since, until);
}

/// What the DRAM cache has of a core's last transaction is dropped. Older versions are at home.
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

/// A core's transaction is committed. Where software runs it keeps its locks until recovery need
/// not redo it.
pub(super) fn committed(hart: &mut Hart<'_, Redu>) {
    let core = hart.core();
    ends(hart.machine(), core);
    let runs = hart.machine().design.software.runs.contains(&true);
    if runs && !planted(Mutant::ReduCommitsBeside) {
        let since = hart.cycle();
        all_at_home(hart);
        let until = hart.cycle();
        hart.machine().rare(super::BESIDE, since, until);
    }
}

/// Brings home whatever is committed, and makes that known to memory.
fn all_at_home(hart: &mut Hart<'_, Redu>) {
    let core = hart.core();
    let record = hart.machine().design.log.next();
    while write_back::hurry(hart.machine(), record) {
        let token = hart.machine().open_token();
        hart.machine().design.software.waiting.push(token);
        hart.wait_for(token);
    }
    let known = log::all_at_home(hart.machine(), record, core);
    hart.wait_for(known);
}

/// Something more is at home, or committed: who waits for that looks again.
pub(super) fn look_again(machine: &mut Machine<Redu>) {
    let now = machine.now();
    let waiting = std::mem::take(&mut machine.design.software.waiting);
    waiting.into_iter().for_each(|token| machine.tell(token, now));
}
