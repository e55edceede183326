//! From the DRAM cache home: which lines, when, and what is over then.
//!
//! ```text
//!   committed: queued --window--> line <- DRAM --still the same?--> NVM --durable--> leaves
//!   a full bucket:                      a committed line leaves at once, <- DRAM --> NVM
//!   overwritten, its log old:           the same with the version that was there
//! ```
//! What has left the cache is being read from DRAM, where others find it, or is in the queue of
//! NVM, where reads find it. A line that is written again while its write is under way stays: the
//! younger version will be brought home for itself. Versions of a line go home in their order: one
//! that is there waits as long as one that has left is being read.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::{FETCHED, HOME, MOVED, OLD, Redu};
use crate::design::dram;
use crate::design::log::{self, tag};
use crate::machine::controller::{Class, Write};
use crate::machine::memory::LineWords;
use crate::machine::{Machine, Tell};

/// Lines that are queued at a time because the log is getting full.
const SQUEEZED: usize = 64;

/// A line on its way home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    line: u32,
    slot: usize,
    version: u64,
    serial: u64,
    words: LineWords,
    /// It was written; until then it is being read from DRAM.
    written: bool,
    /// It has left the cache before.
    given_up: bool,
    /// It takes one of the places of the window.
    in_window: bool,
}

/// What is queued and under way.
#[derive(Debug)]
pub(super) struct State {
    queue: VecDeque<u32>,
    under_way: FxHashMap<u64, Home>,
    in_window: usize,
    window: usize,
    /// Versions on their way home that were overwritten here: the lines.
    olds: FxHashMap<u64, u32>,
    /// Lines that have left the cache, and are being read from DRAM.
    leaving: FxHashMap<u32, Leaving>,
}

/// A version of a line that has left the cache, and is being read from DRAM.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    number: u64,
    /// A younger one is to go home behind it.
    again: bool,
}

impl State {
    pub(super) fn new(window: usize) -> State {
        State {
            queue: VecDeque::new(),
            under_way: FxHashMap::default(),
            in_window: 0,
            window,
            olds: FxHashMap::default(),
            leaving: FxHashMap::default(),
        }
    }

    /// Where DRAM has a line that has left the cache and is not on its way to NVM, and what it is.
    pub(super) fn leaving(&self, line: u32) -> Option<(usize, LineWords)> {
        let home = &self.under_way[&self.leaving.get(&line)?.number];
        Some((home.slot, home.words))
    }

    /// How many there are.
    pub(super) fn left(&self) -> u64 {
        self.leaving.len() as u64
    }
}

/// A transaction is committed: its lines may go home.
pub(super) fn committed(machine: &mut Machine<Redu>, serial: u64) {
    let now = machine.now();
    let design = &mut machine.design;
    let lazy = design.lazy;
    let entry = design.table.get_mut(&serial).expect("it is in the table");
    entry.committed = true;
    if let Some(since) = entry.moved {
        machine.rare(MOVED, since, now);
    }
    match lazy {
        true => squeeze(machine),
        false => drop(queue_all(machine, serial)),
    }
    is_over(machine, serial);
    log::look_again(machine);
}

/// Whatever was committed before this record goes home now, from here or from the log. Whether
/// something of it is not there yet.
pub(super) fn hurry(machine: &mut Machine<Redu>, record: u64) -> bool {
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
            let before = design.cache.line_mut(slot).before.as_mut().expect("it has one");
            design.numbers += 1;
            before.number = Some(design.numbers);
            design.homes.olds.insert(design.numbers, line);
            let (number, write) =
                (design.numbers, Write::new(u64::from(line), before.words, Class::Data));
            machine.log(0, write, Tell::Design(0, tag(OLD, number)));
        }
    }
    is_missing
}

/// A version that was overwritten here is at home.
pub(super) fn old_is_home(machine: &mut Machine<Redu>, number: u64) {
    let design = &mut machine.design;
    let line = design.homes.olds.remove(&number).expect("it was written once");
    if let Some(slot) = design.cache.find(design.dram.bucket(line), line)
        && let Some(before) = &mut design.cache.line_mut(slot).before
        && before.number == Some(number)
    {
        before.is_home = true;
    }
    log::look_again(machine);
}

/// All lines of a transaction are to go home. Answers how many there are.
fn queue_all(machine: &mut Machine<Redu>, serial: u64) -> usize {
    let Redu { table, homes, .. } = &mut machine.design;
    let Some(entry) = table.get_mut(&serial).filter(|it| it.committed && !it.queued) else {
        return 0;
    };
    entry.queued = true;
    homes.queue.extend(&entry.lines);
    let lines = entry.lines.len();
    go_on(machine);
    lines
}

/// A line is to go home.
pub(super) fn queue(machine: &mut Machine<Redu>, line: u32) {
    machine.design.homes.queue.push_back(line);
    go_on(machine);
}

/// The log is getting full: lines whose transactions keep Log Start where it is are to go home.
pub(super) fn squeeze(machine: &mut Machine<Redu>) {
    let Redu { lazy, ref homes, ref log, .. } = machine.design;
    if !lazy || !log.is_low() || homes.queue.len() >= SQUEEZED {
        return;
    }
    let mut queued = 0;
    let keepers: Vec<u64> = machine.design.log.keepers().take(SQUEEZED).collect();
    for serial in keepers {
        queued += queue_all(machine, serial);
        if queued >= SQUEEZED || !machine.design.is_committed(serial) {
            break;
        }
    }
}

/// Begins to bring queued lines home.
fn go_on(machine: &mut Machine<Redu>) {
    while machine.design.homes.in_window < machine.design.homes.window
        && let Some(line) = machine.design.homes.queue.pop_front()
    {
        let design = &mut machine.design;
        let bucket = design.dram.bucket(line);
        let Some(slot) = design.cache.find(bucket, line) else { continue };
        let there = *design.cache.line(slot).expect("it is there");
        // An open transaction has written it again, or it is on its way.
        if !design.is_committed(there.serial) || there.home.is_some() {
            continue;
        }
        if let Some(leaving) = design.homes.leaving.get_mut(&line) {
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
    there.home = Some(number);
    let home = Home {
        line: there.line,
        slot,
        version: there.version,
        serial: there.serial,
        words: there.words,
        written: false,
        given_up: false,
        in_window,
    };
    design.homes.in_window += usize::from(in_window);
    design.homes.under_way.insert(number, home);
    number
}

/// A line that goes home was read from DRAM.
pub(super) fn fetched(machine: &mut Machine<Redu>, number: u64) {
    let design = &mut machine.design;
    let Some(&home) = design.homes.under_way.get(&number).filter(|home| !home.written) else {
        return;
    };
    let there = design.cache.line(home.slot);
    let is_there = there.is_some_and(|it| it.line == home.line && it.version == home.version);
    if is_there || home.given_up {
        return write(machine, number);
    }
    // It was written again meanwhile.
    design.homes.under_way.remove(&number);
    leaves_window(machine, home);
}

fn leaves_window(machine: &mut Machine<Redu>, home: Home) {
    machine.design.homes.in_window -= usize::from(home.in_window);
    // Whoever keeps Log Start now may be another one than when lines were queued.
    squeeze(machine);
    go_on(machine);
}

fn write(machine: &mut Machine<Redu>, number: u64) {
    let homes = &mut machine.design.homes;
    let home = homes.under_way.get_mut(&number).expect("it is under way");
    home.written = true;
    let Home { line, words, given_up, .. } = *home;
    let left = if given_up { homes.leaving.remove(&line) } else { None };
    let write = Write::new(u64::from(line), words, Class::Data);
    machine.log(0, write, Tell::Design(0, tag(HOME, number)));
    if left.is_some_and(|left| left.again) {
        queue(machine, line);
    }
}

/// The committed line in this slot leaves the cache, for another one or for a version that an open
/// transaction has written.
pub(super) fn give_up(machine: &mut Machine<Redu>, slot: usize) {
    let line = machine.design.cache.line(slot).expect("it is there").line;
    // What follows looks at the slot as this has left it: it may have begun to bring it home.
    send_ahead(machine, line);
    let there = *machine.design.cache.line(slot).expect("it is there");
    let number = match there.home {
        Some(number) => number,
        None => {
            let number = begin(machine, slot, false);
            dram::fetch(machine, slot, tag(FETCHED, number));
            number
        }
    };
    let homes = &mut machine.design.homes;
    let home = homes.under_way.get_mut(&number).expect("it is under way");
    home.given_up = true;
    if !home.written {
        homes.leaving.insert(there.line, Leaving { number, again: false });
    }
    take_out(machine, slot);
}

/// A version of a line that has left goes to NVM now, before it is read, for a younger one will:
/// that hardly ever happens.
fn send_ahead(machine: &mut Machine<Redu>, line: u32) {
    if let Some(older) = machine.design.homes.leaving.get(&line).copied() {
        write(machine, older.number);
    }
}

/// A line is in the cache no longer.
pub(super) fn take_out(machine: &mut Machine<Redu>, slot: usize) {
    let design = &mut machine.design;
    let line = design.cache.remove(slot).line;
    if let Some(filter) = &mut design.filter {
        filter.remove(line);
    }
}

/// A line is at home.
pub(super) fn is_home(machine: &mut Machine<Redu>, number: u64) {
    let design = &mut machine.design;
    let home = design.homes.under_way.remove(&number).expect("it was written once");
    let there = design.cache.line(home.slot).copied();
    let is_there = there.is_some_and(|it| it.line == home.line && it.version == home.version);
    if is_there {
        take_out(machine, home.slot);
        dram::forget(machine, home.slot);
    }
    // Otherwise the line was written again, and counted for whoever did.
    if is_there || home.given_up {
        one_less(machine, home.serial);
    }
    leaves_window(machine, home);
    log::look_again(machine);
}

/// A transaction has one line less in the cache.
pub(super) fn one_less(machine: &mut Machine<Redu>, serial: u64) {
    if let Some(entry) = machine.design.table.get_mut(&serial) {
        entry.count -= 1;
        is_over(machine, serial);
    }
}

/// A transaction that is committed and has no line in the cache is over.
fn is_over(machine: &mut Machine<Redu>, serial: u64) {
    let entry = machine.design.table.get(&serial);
    if entry.is_some_and(|entry| entry.committed && entry.count == 0) {
        machine.design.table.remove(&serial);
        log::finish(machine, serial);
    }
}
