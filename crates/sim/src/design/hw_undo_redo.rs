//! `hw-undo-redo`: old and new words in a log in hardware, and caches that are written back now and
//! then. (After FWB, Ogleari and others, HPCA 2018, as ReDU, MICRO 2018, section V, builds it to
//! compare with.)
//!
//! ```text
//!   store:   old and new words -> log
//!   line on its way to memory:   waits in the controller until its entries are durable
//!   end:     buffer -> log, commit word: durable.  No data are flushed
//!   scan, every fwb_cycles:      a modified line is flagged;
//!                                one that was flagged by the last scan is written back
//! ```
//! A line that is modified at a scan is at home when the next scan's write-backs are, and so are
//! all that left the caches before: then the log needs no record that is older than the first scan,
//! but for those of transactions that were open then.
//!
//! Invariants:
//! - A line of the program reaches memory after the log's entries about it.
//! - Log Start passes a transaction's records when all its lines have been written to memory since.
//!
//! Recovery writes the new words of transactions with a commit word, oldest first, and then the old
//! words of the others, newest first.
//!
//! Choices where the papers are silent: a scan takes no time of the caches; it writes back
//! `log.window` lines at a time, and the next one begins when it is over. When half of the log is
//! used scans begin a 64th of the time behind each other, and never sooner: room comes two scans
//! later, and what flags everything at once writes every line as often as it is stored.

use std::collections::{BTreeSet, VecDeque};

use super::Design;
use super::log::{self, Content, Layout, Log, Logging, OWN, Scan, WAITS, parts, tag};
use crate::machine::controller::{Class, Id, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Tell};
use crate::mutants::{Mutant, planted};
use crate::persist::{Cut, Persistent};

/// A line of the program, among the tags.
const LINE: u64 = OWN;

const SCANS: &str = "a scan writes lines back";

/// The design's state.
#[derive(Debug)]
pub struct HwUndoRedo {
    log: Log,
    period: Time,
    /// Write-backs of a scan that may be under way.
    window: usize,
    /// A scan is due some time, and when the last one has begun.
    is_due: bool,
    last: Time,
    /// Whether a transaction has begun since the last one.
    is_busy: bool,
    /// Modified lines that the last scan has flagged, in order, and the log's end then.
    flagged: Vec<u32>,
    flagged_at: u64,
    scan: Option<Scanning>,
    /// Lines on their way to memory, by number.
    under_way: BTreeSet<u64>,
    numbers: u64,
}

/// A scan that writes lines back.
#[derive(Debug)]
struct Scanning {
    since: Time,
    /// Lines that are to be written.
    left: VecDeque<u32>,
    /// Those that are under way.
    out: BTreeSet<u64>,
    /// When it is over Log Start may move here.
    floor: u64,
    /// All lines that left before its end have smaller numbers.
    last: Option<u64>,
}

impl Design for HwUndoRedo {
    const NAME: &'static str = "hw-undo-redo";
    const ABOUT: &'static str = "old and new words logged in hardware, forced write-backs (FWB)";
    const MACHINE: &'static str = "redu";
    const PARAMETERS: &'static [&'static str] = &["log", "hw-undo-redo"];
    const ROUNDS: Option<(&'static str, u64)> = Some(("scans", 4));
    const RARE: &'static [&'static str] = &[log::RARE[0], log::RARE[1], log::RARE[2], WAITS, SCANS];

    fn fits(description: &Description) -> Result<(), &'static str> {
        log::fits(description)
    }

    fn extra_lines(description: &Description) -> u32 {
        Layout::lines(description)
    }

    fn new(description: &Description, extra: u32) -> HwUndoRedo {
        let layout = Layout::of(description, extra, Content::Both);
        let mut log = Log::new(description, layout);
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
            under_way: BTreeSet::new(),
            numbers: 0,
        }
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        log::begin(hart);
        let machine = hart.machine();
        machine.design.is_busy = true;
        if !std::mem::replace(&mut machine.design.is_due, true) {
            let next = machine.now() + machine.design.period;
            machine.hasten_engine(0, next);
        }
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
        let (home, now) = (machine.home(line), machine.now());
        machine.write_memory(line, Class::Data, home, now, Tell::Design(0, tag(LINE, number)));
        true
    }

    fn arrives(machine: &mut Machine<Self>, _: usize, id: Id, write: &mut Write) {
        log::hold_back(machine, id, write);
    }

    fn told(machine: &mut Machine<Self>, _: usize, _: usize, tag: u64, point: Point) {
        let (kind, number) = parts(tag);
        if !log::told(machine, tag, point)
            && kind == LINE
            && point == machine.description.persist.point
        {
            machine.design.under_way.remove(&number);
            if let Some(scan) = &mut machine.design.scan {
                scan.out.remove(&number);
            }
            write_back(machine);
        }
    }

    fn message(machine: &mut Machine<Self>, _: usize, _: usize, message: u64) {
        log::message(machine, message);
    }

    fn engine(machine: &mut Machine<Self>, _: usize) {
        if machine.design.scan.is_none() {
            scan(machine);
        }
    }

    fn is_warm(&self) -> bool {
        self.log.has_wrapped()
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        let scan = Scan::of(Layout::of(description, extra, Content::Both), state);
        scan.redo(state)?;
        scan.undo(state)?;
        scan.reset(state)
    }
}

impl Logging for HwUndoRedo {
    fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    fn committed(machine: &mut Machine<Self>, serial: u64) {
        log::finish(machine, serial);
    }

    fn squeeze(machine: &mut Machine<Self>) {
        let next = machine.design.last + machine.design.soon();
        machine.hasten_engine(0, next);
    }
}

impl HwUndoRedo {
    /// Cycles between scans that the log cannot wait for.
    fn soon(&self) -> Time {
        self.period / 64
    }
}

/// A line begins its way to memory.
fn number(machine: &mut Machine<HwUndoRedo>) -> u64 {
    machine.design.numbers += 1;
    let number = machine.design.numbers;
    machine.design.under_way.insert(number);
    number
}

/// Flags modified lines, and begins to write back those that were flagged before.
fn scan(machine: &mut Machine<HwUndoRedo>) {
    let (now, modified) = (machine.now(), machine.modified_lines());
    let design = &mut machine.design;
    design.last = now;
    let is_flagged = |line: &u32| design.flagged.binary_search(line).is_ok();
    let (left, flagged): (Vec<u32>, Vec<u32>) = modified.into_iter().partition(is_flagged);
    let floor = match planted(Mutant::FwbOneScan) {
        true => design.log.first_open(),
        false => design.flagged_at,
    };
    design.flagged = flagged;
    design.flagged_at = design.log.first_open();
    design.scan =
        Some(Scanning { since: now, left: left.into(), out: BTreeSet::new(), floor, last: None });
    write_back(machine);
}

/// Goes on with a scan, until it is over.
fn write_back(machine: &mut Machine<HwUndoRedo>) {
    while let Some(scan) = &mut machine.design.scan
        && scan.out.len() < machine.design.window
        && let Some(line) = scan.left.pop_front()
    {
        log::push_out(machine, line);
        let number = number(machine);
        let tell = Tell::Design(0, tag(LINE, number));
        let (_, write) = machine.write_back(0, line, Class::Data, |_| {}, tell);
        let design = &mut machine.design;
        match (write, &mut design.scan) {
            (Some(_), Some(scan)) => {
                scan.out.insert(number);
                machine.counts.add("forced_write_backs", 1);
            }
            // It has left the caches since.
            _ => drop(design.under_way.remove(&number)),
        }
    }
    let design = &mut machine.design;
    let Some(scan) = &mut design.scan else { return };
    if scan.left.is_empty() {
        let last = *scan.last.get_or_insert(design.numbers);
        if design.under_way.first().is_none_or(|first| *first > last) {
            is_over(machine);
        }
    }
}

/// A scan's lines, and all that left the caches before, are in memory.
fn is_over(machine: &mut Machine<HwUndoRedo>) {
    let now = machine.now();
    let design = &mut machine.design;
    let Some(scan) = design.scan.take() else { return };
    design.log.set_floor(scan.floor);
    // Whoever waits for room waits for two scans.
    let (is_low, was_busy) = (design.log.is_low(), std::mem::take(&mut design.is_busy));
    design.is_due = is_low || was_busy;
    let next = scan.since + if is_low { design.soon() } else { design.period };
    let is_due = design.is_due;
    machine.counts.add("scans", 1);
    machine.rare(SCANS, scan.since, now);
    if is_due {
        machine.hasten_engine(0, next.max(now + 1));
    }
    log::trim(machine);
}
