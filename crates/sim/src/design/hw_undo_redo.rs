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
//! What the log cannot hold is software's: see [`log`]. Before, a scan writes back all that is
//! modified: so what is committed is at home, and Log Start may move up to where that scan began.
//!
//! Choices where the papers are silent: a scan takes no time of the caches; it writes back
//! `log.window` lines at a time, and the next one begins when it is over. When the log gets low
//! scans begin a 64th of the time behind each other, and never sooner: room comes two scans
//! later, and what flags everything at once writes every line as often as it is stored.

use std::collections::{BTreeSet, VecDeque};

use words::Stop;

use super::Design;
use super::log::{self, Content, Log, Logging, OWN, WAITS, parts, tag};
use super::soft_log::SoftLog;
use crate::machine::controller::{Class, Id, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Message, Tell};
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
    /// What was committed before this record is at home; and whether somebody waits for a scan that
    /// writes back all that is modified, behind the one that is under way.
    at_home: u64,
    again: bool,
    /// A scan was due while such a scan was under way.
    is_late: bool,
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
    /// It writes back all that is modified: whatever was committed before this record.
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
            at_home: 0,
            again: false,
            is_late: false,
            under_way: BTreeSet::new(),
            numbers: 0,
        }
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        let mut design: HwUndoRedo = log::resumed(description, extra, state);
        // Nothing before this record keeps anybody: all of it is at home.
        let first = design.log.next();
        design.log.set_floor(first);
        (design.flagged_at, design.at_home) = (first, first);
        Some(design)
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
        let (home, now) = (machine.home(line), machine.now());
        let class = machine.design.class_of(line);
        machine.write_memory(line, class, home, now, Tell::Design(0, tag(LINE, number)));
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

    fn hurry(machine: &mut Machine<Self>, record: u64) -> bool {
        let design = &mut machine.design;
        match &design.scan {
            _ if design.at_home >= record => return false,
            None => scan(machine, true),
            Some(scan) if scan.all.is_some_and(|all| all >= record) => {}
            Some(_) => design.again = true,
        }
        // There may be nothing to write.
        machine.design.at_home < record
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

/// Flags modified lines, and begins to write back those that were flagged before; or writes back
/// all of them.
fn scan(machine: &mut Machine<HwUndoRedo>, all: bool) {
    let (now, modified) = (machine.now(), machine.modified_lines());
    let design = &mut machine.design;
    design.last = now;
    let is_flagged = |line: &u32| all || design.flagged.binary_search(line).is_ok();
    let (left, flagged): (Vec<u32>, Vec<u32>) = modified.into_iter().partition(is_flagged);
    let first_open = design.log.first_open();
    let floor = match all || planted(Mutant::FwbOneScan) {
        true => first_open,
        false => design.flagged_at,
    };
    (design.flagged, design.flagged_at) = (flagged, first_open);
    let all = all.then(|| design.log.next());
    let (left, out) = (left.into(), BTreeSet::new());
    design.scan = Some(Scanning { since: now, left, out, floor, last: None, all });
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
        let class = machine.design.class_of(line);
        let (_, write) = machine.write_back(0, line, class, |_| {}, tell);
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
    let Some(Scanning { since, floor, all, .. }) = design.scan.take() else { return };
    design.log.set_floor(floor);
    design.at_home = design.at_home.max(all.unwrap_or(0));
    // Whoever waits for room waits for two scans.
    let (is_low, was_busy) = (design.log.is_low(), std::mem::take(&mut design.is_busy));
    let is_late = std::mem::take(&mut design.is_late);
    design.is_due = is_low || was_busy || is_late;
    let next = match is_late {
        true => now,
        false => since + if is_low { design.soon() } else { design.period },
    };
    let is_due = design.is_due;
    // A run is long enough when it has some of those that need not be now: by time, or sooner where
    // the log is low.
    machine.counts.add("scans", u64::from(all.is_none()));
    machine.rare(SCANS, since, now);
    if is_due {
        machine.hasten_engine(0, next.max(now + 1));
    }
    log::trim(machine);
    log::look_again(machine);
    if std::mem::take(&mut machine.design.again) && machine.design.scan.is_none() {
        scan(machine, true);
    }
}
