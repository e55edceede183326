//! `hw-undo-redo`: a log of old and new words in hardware, with periodic write-backs of the caches.
//!
//! The design follows FWB (Ogleari and others, HPCA 2018) in the form that the ReDU paper (MICRO
//! 2018, section V) builds as a baseline.
//!
//! ```text
//!   store:   old and new words -> log
//!   line on the way to memory:   waits in the controller until its entries are durable
//!   commit:  buffer -> log, commit word: durable.  No data are flushed
//!   scan, every fwb_cycles:      a modified line is flagged;
//!                                a line that the last scan flagged is written back
//! ```
//! A line that is modified at one scan is in the heap image once the next scan's write-backs
//! complete, and so are all lines that left the caches earlier. The log then needs no record from
//! before the first scan, except those of transactions that were open at that time.
//!
//! Invariants:
//! - A line of the program reaches memory after the log entries about it.
//! - Log Start passes a transaction's records only after all its lines have been written to memory.
//!
//! Recovery applies the new words of transactions with a commit word, oldest first. It then
//! restores the old words of the others, newest first.
//!
//! A transaction that the log cannot hold falls back to software: see [`log`]. Before that, one
//! scan writes back every modified line. All committed data are then in the heap image, and Log
//! Start may move up to the beginning of that scan.
//!
//! Choices where the papers are silent:
//! - A scan takes no cache time. It writes back `log.window` lines at a time, and the next scan
//!   begins after its end.
//! - When the log runs low, scans begin a 64th of the period apart, and never sooner. Room becomes
//!   free two scans later. A scan that flagged and wrote every line at once would write each line
//!   as often as the program stores it.

use std::collections::{BTreeSet, VecDeque};

use words::Stop;

use super::Design;
use super::log::{self, Content, Log, Logging, OWN, WAITS, parts, tag};
use super::soft_log::SoftLog;
use crate::machine::controller::{Class, Id, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Message, Notify};
use crate::mutants::{Mutant, injected};
use crate::persist::{Cut, Persistent};

/// Kind of tag: a write of a program line.
const LINE: u64 = OWN;

const SCANS: &str = "a scan writes lines back";

/// State of the design.
#[derive(Debug)]
pub struct HwUndoRedo {
    log: Log,
    period: Time,
    /// Write-backs of a scan that may be in flight.
    window: usize,
    /// Whether a scan is scheduled, and the time of the last one's beginning.
    is_due: bool,
    last: Time,
    /// Whether a transaction has begun since the last scan.
    is_busy: bool,
    /// Modified lines that the last scan flagged, in order, and the log's end at that time.
    flagged: Vec<u32>,
    flagged_at: u64,
    scan: Option<Scanning>,
    /// Watermark: commits before this record are in the heap image. The flag requests another full
    /// scan after the current one.
    applied_before: u64,
    again: bool,
    /// A periodic scan was due during a full scan.
    is_late: bool,
    /// Lines in flight to memory, by number.
    in_flight: BTreeSet<u64>,
    numbers: u64,
}

/// The write-back phase of a scan.
#[derive(Debug)]
struct Scanning {
    since: Time,
    /// Lines to write.
    left: VecDeque<u32>,
    /// Writes in flight.
    out: BTreeSet<u64>,
    /// Log Start may move to this record when the scan ends.
    floor: u64,
    /// The greatest number of a line that left before the scan's last write.
    last: Option<u64>,
    /// For a full scan, the record before which all commits are covered.
    all: Option<u64>,
}

impl Design for HwUndoRedo {
    const NAME: &'static str = "hw-undo-redo";
    const ABOUT: &'static str = "old and new words logged in hardware, forced write-backs (FWB)";
    const MACHINE: &'static str = "redu";
    const PARAMETERS: &'static [&'static str] = &["log", "hw-undo-redo"];
    const ROUNDS: Option<(&'static str, u64)> = Some(("scans", 4));
    const RARE: &'static [&'static str] =
        &[log::RARE[0], log::RARE[1], log::RARE[2], log::RARE[3], WAITS, SCANS];

    fn fits(description: &Description) -> Result<(), &'static str> {
        log::fits(description)
    }

    fn extra_lines(description: &Description) -> u32 {
        log::lines(description)
    }

    fn new(description: &Description, extra: u32) -> HwUndoRedo {
        let mut log = Log::new(description, extra, Content::Both);
        log.set_floor(0);
        HwUndoRedo {
            log,
            period: (description.parameter("hw-undo-redo", "fwb_cycles") as Time).max(1),
            window: log::window(description),
            is_due: false,
            last: 0,
            is_busy: false,
            flagged: Vec::new(),
            flagged_at: 0,
            scan: None,
            applied_before: 0,
            again: false,
            is_late: false,
            in_flight: BTreeSet::new(),
            numbers: 0,
        }
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        let mut design: HwUndoRedo = log::resumed(description, extra, state);
        // No open transaction needs a record before this one, and the heap image has all commits.
        let first = design.log.next();
        design.log.set_floor(first);
        (design.flagged_at, design.applied_before) = (first, first);
        Some(design)
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        log::begin(hart);
        let machine = hart.machine();
        machine.design.is_busy = true;
        if !std::mem::replace(&mut machine.design.is_due, true) {
            let next = machine.now() + machine.design.period;
            machine.schedule_engine(0, next);
        }
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        log::store(hart, word, object, value)
    }

    fn falls_back(hart: &mut Hart<'_, Self>) {
        log::falls_back(hart);
    }

    fn software_commits(hart: &mut Hart<'_, Self>) {
        log::software_commits(hart);
    }

    fn soft_log(&mut self) -> Option<&mut SoftLog> {
        Some(self.log.soft_log())
    }

    fn class_of(&self, line: u32) -> Class {
        self.log.class_of(line)
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        if !log::end_body(hart) {
            return;
        }
        hart.enter(Phase::Commit);
        let core = hart.core();
        log::drain(hart.machine(), core);
        let token = log::commit(hart.machine(), core);
        hart.wait_for(token);
        log::beside_software(hart);
    }

    fn waits(machine: &mut Machine<Self>, core: usize, word: u64, _: When) -> Option<When> {
        log::waits(machine, core, word)
    }

    fn drained(machine: &mut Machine<Self>, core: usize, word: u64, old: u64) {
        log::note(machine, core, word, old);
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        if !machine.memory.is_nvm(line) {
            return false;
        }
        log::push_out(machine, line);
        let number = number(machine);
        let (home, now) = (machine.home_tile(line), machine.now());
        let class = machine.design.class_of(line);
        machine.write_memory(line, class, home, now, Notify::Design(0, tag(LINE, number)));
        true
    }

    fn arrives(machine: &mut Machine<Self>, _: usize, id: Id, write: &mut Write) {
        log::hold_back(machine, id, write);
    }

    fn notified(machine: &mut Machine<Self>, _: usize, _: usize, tag: u64, point: Point) {
        let (kind, number) = parts(tag);
        if !log::write_reached(machine, tag, point)
            && kind == LINE
            && point == machine.description.persist.point
        {
            machine.design.in_flight.remove(&number);
            if let Some(scan) = &mut machine.design.scan {
                scan.out.remove(&number);
            }
            write_back(machine);
        }
    }

    fn message(machine: &mut Machine<Self>, _: usize, _: usize, [message, _]: Message) {
        log::message(machine, message);
    }

    fn engine(machine: &mut Machine<Self>, _: usize) {
        match &machine.design.scan {
            None => scan(machine, false),
            Some(scan) => machine.design.is_late |= scan.all.is_some(),
        }
    }

    fn is_warm(&self) -> bool {
        self.log.has_wrapped()
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        log::recover(description, extra, Content::Both, state)
    }
}

impl Logging for HwUndoRedo {
    fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    fn committed(machine: &mut Machine<Self>, serial: u64) {
        log::finish(machine, serial);
    }

    fn expedite(machine: &mut Machine<Self>, record: u64) -> bool {
        let design = &mut machine.design;
        match &design.scan {
            _ if design.applied_before >= record => return false,
            None => scan(machine, true),
            Some(scan) if scan.all.is_some_and(|all| all >= record) => {}
            Some(_) => design.again = true,
        }
        // The scan may have had no line to write and be complete already.
        machine.design.applied_before < record
    }

    fn request_write_backs(machine: &mut Machine<Self>) {
        let next = machine.design.last + machine.design.soon();
        machine.schedule_engine(0, next);
    }
}

impl HwUndoRedo {
    /// Cycles between scans when the log runs low.
    fn soon(&self) -> Time {
        self.period / 64
    }
}

/// Returns the number of a line that starts its way to memory.
fn number(machine: &mut Machine<HwUndoRedo>) -> u64 {
    machine.design.numbers += 1;
    let number = machine.design.numbers;
    machine.design.in_flight.insert(number);
    number
}

/// Begins a scan: flags modified lines and writes back those that the last scan flagged. A full
/// scan (`all`) writes back every modified line.
fn scan(machine: &mut Machine<HwUndoRedo>, all: bool) {
    let (now, modified) = (machine.now(), machine.modified_lines());
    let design = &mut machine.design;
    design.last = now;
    let is_flagged = |line: &u32| all || design.flagged.binary_search(line).is_ok();
    let (left, flagged): (Vec<u32>, Vec<u32>) = modified.into_iter().partition(is_flagged);
    let first_open = design.log.first_open();
    let floor = match all || injected(Mutant::FwbOneScan) {
        true => first_open,
        false => design.flagged_at,
    };
    (design.flagged, design.flagged_at) = (flagged, first_open);
    let all = all.then(|| design.log.next());
    let (left, out) = (left.into(), BTreeSet::new());
    design.scan = Some(Scanning { since: now, left, out, floor, last: None, all });
    write_back(machine);
}

/// Continues a scan until it completes.
fn write_back(machine: &mut Machine<HwUndoRedo>) {
    while let Some(scan) = &mut machine.design.scan
        && scan.out.len() < machine.design.window
        && let Some(line) = scan.left.pop_front()
    {
        log::push_out(machine, line);
        let number = number(machine);
        let notify = Notify::Design(0, tag(LINE, number));
        let class = machine.design.class_of(line);
        let (_, write) = machine.write_back(0, line, class, |_| {}, notify);
        let design = &mut machine.design;
        match (write, &mut design.scan) {
            (Some(_), Some(scan)) => {
                scan.out.insert(number);
                machine.counts.add("forced_write_backs", 1);
            }
            // The line has left the caches since the scan began.
            _ => drop(design.in_flight.remove(&number)),
        }
    }
    let design = &mut machine.design;
    let Some(scan) = &mut design.scan else { return };
    if scan.left.is_empty() {
        let last = *scan.last.get_or_insert(design.numbers);
        if design.in_flight.first().is_none_or(|first| *first > last) {
            is_over(machine);
        }
    }
}

/// Ends a scan. Its lines, and all lines that left the caches earlier, are in memory.
fn is_over(machine: &mut Machine<HwUndoRedo>) {
    let now = machine.now();
    let design = &mut machine.design;
    let Some(Scanning { since, floor, all, .. }) = design.scan.take() else { return };
    design.log.set_floor(floor);
    design.applied_before = design.applied_before.max(all.unwrap_or(0));
    // A transaction that waits for room needs two scans, so a low log schedules the next one soon.
    let (is_low, was_busy) = (design.log.is_low(), std::mem::take(&mut design.is_busy));
    let is_late = std::mem::take(&mut design.is_late);
    design.is_due = is_low || was_busy || is_late;
    let next = match is_late {
        true => now,
        false => since + if is_low { design.soon() } else { design.period },
    };
    let is_due = design.is_due;
    // Measurements count periodic scans only, whether by time or because the log is low. Full scans
    // on request do not make a run long enough.
    machine.counts.add("scans", u64::from(all.is_none()));
    machine.rare(SCANS, since, now);
    if is_due {
        machine.schedule_engine(0, next.max(now + 1));
    }
    log::trim(machine);
    log::look_again(machine);
    if std::mem::take(&mut machine.design.again) && machine.design.scan.is_none() {
        scan(machine, true);
    }
}
