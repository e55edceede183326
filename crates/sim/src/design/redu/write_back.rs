//! Write-backs from the DRAM cache to the heap image in NVM.
//!
//! ```text
//!   committed: queued --window--> line <- DRAM --same version?--> NVM --durable--> leaves
//!   a full bucket:                      a committed line leaves at once, <- DRAM --> NVM
//!   overwritten, its log old:           the same with the version that was there
//! ```
//! A line that has left the cache is either being read from DRAM, where look-ups find it, or in
//! NVM's queue, where reads find it. A line that is overwritten during its write-back stays in the
//! cache, and the younger version gets a write-back of its own. Versions of a line are written back
//! in order. A version in the cache waits while an evicted one is being read.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::{FETCHED, MOVED, OLD, Redu, WRITE_BACK};
use crate::design::dram;
use crate::design::log::{self, tag};
use crate::machine::controller::{Class, Write};
use crate::machine::memory::LineWords;
use crate::machine::{Machine, Notify};

/// Lines that are queued at a time because the log runs low.
const REQUESTED: usize = 64;

/// A write-back in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteBack {
    line: u32,
    slot: usize,
    version: u64,
    serial: u64,
    words: LineWords,
    /// Whether the write is sent; until then the line is being read from DRAM.
    written: bool,
    /// Whether the line has left the cache already.
    given_up: bool,
    /// Whether it occupies the window.
    in_window: bool,
}

/// Queued write-backs, and those in flight.
#[derive(Debug)]
pub(super) struct State {
    queue: VecDeque<u32>,
    in_flight: FxHashMap<u64, WriteBack>,
    in_window: usize,
    window: usize,
    /// Lines of write-backs of versions that were overwritten in the cache.
    olds: FxHashMap<u64, u32>,
    /// Lines that have left the cache and are being read from DRAM.
    leaving: FxHashMap<u32, Leaving>,
}

/// A version of a line that has left the cache and is being read from DRAM.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    number: u64,
    /// Whether a younger version awaits its write-back.
    again: bool,
}

impl State {
    pub(super) fn new(window: usize) -> State {
        State {
            queue: VecDeque::new(),
            in_flight: FxHashMap::default(),
            in_window: 0,
            window,
            olds: FxHashMap::default(),
            leaving: FxHashMap::default(),
        }
    }

    /// Returns the DRAM slot and contents of a line that has left the cache and is not yet sent to
    /// NVM.
    pub(super) fn leaving(&self, line: u32) -> Option<(usize, LineWords)> {
        let write_back = &self.in_flight[&self.leaving.get(&line)?.number];
        Some((write_back.slot, write_back.words))
    }

    /// The number of lines that have left the cache and are being read.
    pub(super) fn left(&self) -> u64 {
        self.leaving.len() as u64
    }
}

/// Commits a transaction, so that its lines may be written back.
pub(super) fn committed(machine: &mut Machine<Redu>, serial: u64) {
    let now = machine.now();
    let design = &mut machine.design;
    let lazy = design.lazy;
    let entry = design.table.get_mut(&serial).expect("the transaction is in the table");
    entry.committed = true;
    if let Some(since) = entry.moved {
        machine.rare(MOVED, since, now);
    }
    match lazy {
        true => request_write_backs(machine),
        false => drop(queue_all(machine, serial)),
    }
    is_over(machine, serial);
    log::look_again(machine);
}

/// Expedites the write-back of all commits before this record, from the cache or from the log.
/// Returns whether any is still missing from the heap image.
pub(super) fn expedite(machine: &mut Machine<Redu>, record: u64) -> bool {
    let ended = machine.design.log.ended_before(record);
    for serial in &ended {
        queue_all(machine, *serial);
    }
    let mut is_missing = !ended.is_empty();
    for slot in machine.design.cache.overwritten() {
        let design = &mut machine.design;
        let is_open = !design.is_committed(design.cache.serial(slot));
        let there = design.cache.line_mut(slot);
        let (line, Some(before)) = (there.line, &mut there.before) else { continue };
        if !is_open || before.end >= record {
            continue;
        }
        is_missing = true;
        if before.number.is_none() {
            send_ahead(machine, line);
            let design = &mut machine.design;
            let before = design
                .cache
                .line_mut(slot)
                .before
                .as_mut()
                .expect("the line has an overwritten version");
            design.numbers += 1;
            before.number = Some(design.numbers);
            design.write_backs.olds.insert(design.numbers, line);
            let (number, write) =
                (design.numbers, Write::new(u64::from(line), before.words, Class::Data));
            machine.log(0, write, Notify::Design(0, tag(OLD, number)));
        }
    }
    is_missing
}

/// Completes the write-back of a version that was overwritten in the cache.
pub(super) fn old_written_back(machine: &mut Machine<Redu>, number: u64) {
    let design = &mut machine.design;
    let line = design.write_backs.olds.remove(&number).expect("a write-back completes once");
    if let Some(slot) = design.cache.find(design.dram.bucket(line), line)
        && let Some(before) = &mut design.cache.line_mut(slot).before
        && before.number == Some(number)
    {
        before.is_written_back = true;
    }
    log::look_again(machine);
}

/// Queues all lines of a transaction. Returns their number.
fn queue_all(machine: &mut Machine<Redu>, serial: u64) -> usize {
    let Redu { table, write_backs, .. } = &mut machine.design;
    let Some(entry) = table.get_mut(&serial).filter(|it| it.committed && !it.queued) else {
        return 0;
    };
    entry.queued = true;
    write_backs.queue.extend(&entry.lines);
    let lines = entry.lines.len();
    go_on(machine);
    lines
}

/// Queues a line.
pub(super) fn queue(machine: &mut Machine<Redu>, line: u32) {
    machine.design.write_backs.queue.push_back(line);
    go_on(machine);
}

/// Queues lines of the transactions that block Log Start, because the log runs low.
pub(super) fn request_write_backs(machine: &mut Machine<Redu>) {
    let Redu { lazy, ref write_backs, ref log, .. } = machine.design;
    if !lazy || !log.is_low() || write_backs.queue.len() >= REQUESTED {
        return;
    }
    let mut queued = 0;
    let keepers: Vec<u64> = machine.design.log.keepers().take(REQUESTED).collect();
    for serial in keepers {
        queued += queue_all(machine, serial);
        if queued >= REQUESTED || !machine.design.is_committed(serial) {
            break;
        }
    }
}

/// Starts the write-backs of queued lines, up to the window.
fn go_on(machine: &mut Machine<Redu>) {
    while machine.design.write_backs.in_window < machine.design.write_backs.window
        && let Some(line) = machine.design.write_backs.queue.pop_front()
    {
        let design = &mut machine.design;
        let bucket = design.dram.bucket(line);
        let Some(slot) = design.cache.find(bucket, line) else { continue };
        let there = *design.cache.line(slot).expect("the slot has a line");
        // An open transaction has overwritten the line, or its write-back is in flight.
        if !design.is_committed(there.serial) || there.write_back.is_some() {
            continue;
        }
        if let Some(leaving) = design.write_backs.leaving.get_mut(&line) {
            leaving.again = true;
            continue;
        }
        let number = begin(machine, slot, true);
        dram::fetch(machine, slot, tag(FETCHED, number));
    }
}

fn begin(machine: &mut Machine<Redu>, slot: usize, in_window: bool) -> u64 {
    let design = &mut machine.design;
    design.numbers += 1;
    let number = design.numbers;
    let there = design.cache.line_mut(slot);
    there.write_back = Some(number);
    let write_back = WriteBack {
        line: there.line,
        slot,
        version: there.version,
        serial: there.serial,
        words: there.words,
        written: false,
        given_up: false,
        in_window,
    };
    design.write_backs.in_window += usize::from(in_window);
    design.write_backs.in_flight.insert(number, write_back);
    number
}

/// Continues a write-back after the line has been read from DRAM.
pub(super) fn fetched(machine: &mut Machine<Redu>, number: u64) {
    let design = &mut machine.design;
    let Some(&write_back) =
        design.write_backs.in_flight.get(&number).filter(|write_back| !write_back.written)
    else {
        return;
    };
    let there = design.cache.line(write_back.slot);
    let is_there =
        there.is_some_and(|it| it.line == write_back.line && it.version == write_back.version);
    if is_there || write_back.given_up {
        return write(machine, number);
    }
    // The line was overwritten meanwhile.
    design.write_backs.in_flight.remove(&number);
    leaves_window(machine, write_back);
}

fn leaves_window(machine: &mut Machine<Redu>, write_back: WriteBack) {
    machine.design.write_backs.in_window -= usize::from(write_back.in_window);
    // The transactions that block Log Start may have changed since lines were queued.
    request_write_backs(machine);
    go_on(machine);
}

fn write(machine: &mut Machine<Redu>, number: u64) {
    let write_backs = &mut machine.design.write_backs;
    let write_back = write_backs.in_flight.get_mut(&number).expect("the write-back is in flight");
    write_back.written = true;
    let WriteBack { line, words, given_up, .. } = *write_back;
    let left = if given_up { write_backs.leaving.remove(&line) } else { None };
    let write = Write::new(u64::from(line), words, Class::Data);
    machine.log(0, write, Notify::Design(0, tag(WRITE_BACK, number)));
    if left.is_some_and(|left| left.again) {
        queue(machine, line);
    }
}

/// Evicts the committed line in this slot, for another line or for a version of an open
/// transaction.
pub(super) fn give_up(machine: &mut Machine<Redu>, slot: usize) {
    let line = machine.design.cache.line(slot).expect("the slot has a line").line;
    // This must precede the look at the slot below: it may start the slot's own write-back.
    send_ahead(machine, line);
    let there = *machine.design.cache.line(slot).expect("the slot has a line");
    let number = match there.write_back {
        Some(number) => number,
        None => {
            let number = begin(machine, slot, false);
            dram::fetch(machine, slot, tag(FETCHED, number));
            number
        }
    };
    let write_backs = &mut machine.design.write_backs;
    let write_back = write_backs.in_flight.get_mut(&number).expect("the write-back is in flight");
    write_back.given_up = true;
    if !write_back.written {
        write_backs.leaving.insert(there.line, Leaving { number, again: false });
    }
    take_out(machine, slot);
}

/// Writes an evicted version of a line to NVM before its read from DRAM completes, since a younger
/// version follows. This is rare.
fn send_ahead(machine: &mut Machine<Redu>, line: u32) {
    if let Some(older) = machine.design.write_backs.leaving.get(&line).copied() {
        write(machine, older.number);
    }
}

/// Removes a line from the cache.
pub(super) fn take_out(machine: &mut Machine<Redu>, slot: usize) {
    let design = &mut machine.design;
    let line = design.cache.remove(slot).line;
    if let Some(filter) = &mut design.filter {
        filter.remove(line);
    }
}

/// Completes the write-back of a line.
pub(super) fn written_back(machine: &mut Machine<Redu>, number: u64) {
    let design = &mut machine.design;
    let write_back =
        design.write_backs.in_flight.remove(&number).expect("a write-back completes once");
    let there = design.cache.line(write_back.slot).copied();
    let is_there =
        there.is_some_and(|it| it.line == write_back.line && it.version == write_back.version);
    if is_there {
        take_out(machine, write_back.slot);
        dram::forget(machine, write_back.slot);
    }
    // Otherwise the line was overwritten, and counts for its new writer.
    if is_there || write_back.given_up {
        one_less(machine, write_back.serial);
    }
    leaves_window(machine, write_back);
    log::look_again(machine);
}

/// Counts one line less for a transaction.
pub(super) fn one_less(machine: &mut Machine<Redu>, serial: u64) {
    if let Some(entry) = machine.design.table.get_mut(&serial) {
        entry.count -= 1;
        is_over(machine, serial);
    }
}

/// Ends a committed transaction that has no line left in the cache.
fn is_over(machine: &mut Machine<Redu>, serial: u64) {
    let entry = machine.design.table.get(&serial);
    if entry.is_some_and(|entry| entry.committed && entry.count == 0) {
        machine.design.table.remove(&serial);
        log::finish(machine, serial);
    }
}
