//! An undo log in software, with `clwb` and `sfence`.
//!
//! The log is the whole protocol of [`sw-undo`](super::SwUndo). In other designs it is the fallback
//! for transactions that the hardware cannot hold.
//!
//! ```text
//!   store to a line without an entry:    old words -> log, write back, sfence;  then the store
//!   store to an announced line:          the same, under one fence for all announced lines
//!   commit:   write back the lines, sfence;  the design's own waits;  commit word, write back,
//!             wait
//! ```
//! An sfence delays the stores behind it, and the core goes on. A fallback of a design in hardware
//! waits at each, as for an mfence.
//!
//! A core's log, in lines:
//! ```text
//!   0     | commit word: number of the last committed transaction |
//!   1 + 2i| number | address | words 0 to 5               an entry takes two lines; each line
//!   2 + 2i| number | address + 1 | words 6, 7 | 0         stores its number last
//! ```
//! A transaction's entries continue where those of the last one end. The log is circular, so its
//! lines leave the caches as those of a real log do.
//!
//! Invariants:
//! - A line's old words are durable before the transaction's first store to it drains.
//! - All lines of transaction n are durable before the commit word becomes n.
//! - A log line that holds a number holds its whole entry line. Stores to a line reach memory in
//!   order, and the number is stored last. Otherwise an early eviction of the log line could make
//!   recovery restore the words of an older entry.
//!
//! Recovery processes each core's entries whose number is greater than the commit word, and
//! restores their old words. A transaction has one entry per line, so the order does not matter.
//! The LAD and ReDU papers (sections 5) describe their software log no further; this layout is
//! Lastword's own.

use crate::design::Design;
use crate::machine::Hart;
use crate::machine::controller::Class;
use crate::machine::counts::Phase;
use crate::machine::description::Description;
use crate::machine::memory::line_of;
use crate::mutants::{Mutant, injected};
use crate::persist::{Cut, Persistent};

/// Lines of a core's log, including the commit word.
const LOG_LINES: u32 = 2048;

/// The shape of software logs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Lines of a core's log, including the commit word.
    pub(super) lines: u32,
    /// Entries and data are ordered by `sfence`: the core goes on, and its stores wait. Otherwise
    /// by `mfence`.
    pub(super) store_fences: bool,
}

/// The shape of a fallback's logs.
const FALLBACK: Shape = Shape { lines: LOG_LINES, store_fences: false };

/// The logs of all cores.
#[derive(Debug)]
pub struct SoftLog {
    /// First line of the first core's log.
    first: u32,
    shape: Shape,
    cores: Vec<Log>,
}

/// The log of a core.
#[derive(Clone, Debug, Default)]
struct Log {
    /// The number of the running transaction.
    number: u64,
    /// Total entries written.
    entries: u64,
    /// Lines that have an entry of this transaction.
    logged: Vec<u32>,
    /// Announced lines without an entry.
    announced: Vec<u32>,
}

impl SoftLog {
    /// Lines of persistent memory that the logs of all cores need.
    pub fn lines(description: &Description) -> u32 {
        description.cores as u32 * LOG_LINES
    }

    /// Returns empty logs that begin at this line.
    pub fn new(description: &Description, first: u32) -> SoftLog {
        SoftLog::shaped(FALLBACK, description, first)
    }

    /// Returns empty logs of a shape.
    pub(super) fn shaped(shape: Shape, description: &Description, first: u32) -> SoftLog {
        SoftLog { first, shape, cores: vec![Log::default(); description.cores] }
    }

    /// Returns the logs after recovery. Each core continues after the number in its commit word.
    pub fn resumed(description: &Description, first: u32, state: &Persistent) -> SoftLog {
        SoftLog::new(description, first).continued(state)
    }

    /// Returns the logs with the numbers of the commit words after recovery.
    pub(super) fn continued(mut self, state: &Persistent) -> SoftLog {
        let heads = (self.first..).step_by(self.shape.lines as usize);
        for (head, log) in heads.zip(&mut self.cores) {
            log.number = state.line(head)[0];
        }
        self
    }

    /// Returns the purpose of a log line, or `None` for a line before the logs.
    pub fn class_of(&self, line: u32) -> Option<Class> {
        line.checked_sub(self.first).map(|at| match at.is_multiple_of(self.shape.lines) {
            true => Class::CommitRecord,
            false => Class::LogData,
        })
    }
}

/// Begins a transaction.
pub fn begin<D: Design>(hart: &mut Hart<'_, D>) {
    let log = log(hart);
    log.number += 1;
    log.logged.clear();
    log.announced.clear();
}

/// Notes that the program is about to write these words.
pub fn announced<D: Design>(hart: &mut Hart<'_, D>, first: u64, words: u64) {
    let lines = line_of(first)..=line_of(first + words.max(1) - 1);
    let log = log(hart);
    let new = lines.filter(|line| !log.logged.contains(line));
    for line in new.collect::<Vec<_>>() {
        if !log.announced.contains(&line) {
            log.announced.push(line);
        }
    }
}

/// Stores a word. The store waits until the old words of its line are durable.
pub fn store<D: Design>(hart: &mut Hart<'_, D>, word: u64, object: u64, value: u64) {
    let line = line_of(word);
    if !log(hart).logged.contains(&line) {
        hart.enter(Phase::LogStall);
        let mut lines = std::mem::take(&mut log(hart).announced);
        if !lines.contains(&line) {
            lines.push(line);
        }
        for line in lines {
            append(hart, line);
        }
        if !injected(Mutant::UndoWithoutFence) {
            order(hart);
        }
        hart.enter(Phase::Body);
    }
    hart.store(word, object, value);
}

/// Orders the stores behind this after the write-backs before it.
fn order<D: Design>(hart: &mut Hart<'_, D>) {
    match logs(hart).shape.store_fences {
        true => hart.store_fence(),
        false => hart.fence(),
    }
}

/// Commits a transaction. It is durable on return.
pub fn commit<D: Design>(hart: &mut Hart<'_, D>) {
    let lines = std::mem::take(&mut log(hart).logged);
    if lines.is_empty() {
        return D::software_commits(hart);
    }
    hart.enter(Phase::Prepare);
    for line in lines {
        hart.write_back(line);
    }
    if !injected(Mutant::UndoCommitFirst) {
        order(hart);
    }
    D::software_commits(hart);
    hart.enter(Phase::Commit);
    let (head, number) = (head(hart), log(hart).number);
    hart.store(u64::from(head) * 8, 0, number);
    hart.write_back(head);
    hart.fence();
}

/// Restores the old words of uncommitted transactions. The logs begin at `first`.
///
/// # Errors
/// [`Cut`] when power fails again.
pub fn recover(description: &Description, first: u32, state: &mut Persistent) -> Result<(), Cut> {
    recover_moved(description, first, state, &|_, line| line)
}

/// Performs [`recover`] on logs of a shape.
///
/// # Errors
/// [`Cut`] when power fails again.
pub(super) fn recover_shaped(
    shape: Shape,
    description: &Description,
    first: u32,
    state: &mut Persistent,
) -> Result<(), Cut> {
    roll_back_all((description.cores as u32, shape.lines), first, state, &|_, line| line)
}

/// Performs [`recover`] for a design that moves lines: `found_at` returns a program line's place.
///
/// # Errors
/// [`Cut`] when power fails again.
pub fn recover_moved(
    description: &Description,
    first: u32,
    state: &mut Persistent,
    found_at: &dyn Fn(&Persistent, u32) -> u32,
) -> Result<(), Cut> {
    roll_back_all((description.cores as u32, LOG_LINES), first, state, found_at)
}

/// Rolls the logs of all cores back, each of so many lines.
fn roll_back_all(
    (cores, lines): (u32, u32),
    first: u32,
    state: &mut Persistent,
    found_at: &dyn Fn(&Persistent, u32) -> u32,
) -> Result<(), Cut> {
    let mut heads = (0..cores).map(|core| first + core * lines);
    heads.try_for_each(|head| roll_back((head, lines), state, found_at))
}

/// Restores the old words of one core's last transaction unless it is committed. The commit word
/// then takes its number, so the entries have no effect after another power failure.
fn roll_back(
    (head, lines): (u32, u32),
    state: &mut Persistent,
    found_at: &dyn Fn(&Persistent, u32) -> u32,
) -> Result<(), Cut> {
    let committed = state.line(head)[0];
    let mut last = committed;
    // Most of the log was never written.
    for line in state.used_lines(head + 1..head + lines) {
        let [number, address, words @ ..] = state.line(line);
        if number <= committed {
            continue;
        }
        last = last.max(number);
        let place = found_at(state, (address / 64) as u32);
        let mut old = state.line(place);
        match address % 64 {
            0 => old[..6].copy_from_slice(&words),
            _ => old[6..].copy_from_slice(&words[..2]),
        }
        state.set_line(place, old)?;
    }
    if last > committed {
        state.set_line(head, [last, 0, 0, 0, 0, 0, 0, 0])?;
    }
    Ok(())
}

fn logs<'h, D: Design>(hart: &'h mut Hart<'_, D>) -> &'h mut SoftLog {
    let design = &mut hart.machine().design;
    design.soft_log().expect("the design has a software log")
}

fn log<'h, D: Design>(hart: &'h mut Hart<'_, D>) -> &'h mut Log {
    let core = hart.core();
    &mut logs(hart).cores[core]
}

/// Returns the line of a core's commit word.
fn head<D: Design>(hart: &mut Hart<'_, D>) -> u32 {
    let core = hart.core() as u32;
    let logs = logs(hart);
    logs.first + core * logs.shape.lines
}

/// Appends the old words of a line to the log, and starts the write-back of the entry.
fn append<D: Design>(hart: &mut Hart<'_, D>, line: u32) {
    let head = head(hart);
    let slots = u64::from((logs(hart).shape.lines - 1) / 2);
    let log = log(hart);
    let is_full = log.logged.len() as u64 == slots;
    let entry = head + 1 + 2 * (log.entries % slots) as u32;
    log.entries += 1;
    log.logged.push(line);
    let number = log.number;
    if is_full {
        let why = "a transaction writes more lines than its core's log holds: of `sw-undo`, raise \
                   `design.sw-undo.log_bytes`";
        hart.machine().fail(why);
    }
    let mut old = [0; 8];
    for (i, word) in old.iter_mut().enumerate() {
        *word = hart.load_for_log(u64::from(line) * 8 + i as u64, 0);
    }
    let address = u64::from(line) * 64;
    let first = [number, address, old[0], old[1], old[2], old[3], old[4], old[5]];
    let second = [number, address + 1, old[6], old[7], 0, 0, 0, 0];
    for (line, words) in [(entry, first), (entry + 1, second)] {
        // Words are stored in descending order, so that the number of each line comes last.
        for (i, word) in words.into_iter().enumerate().rev() {
            hart.store(u64::from(line) * 8 + i as u64, 0, word);
        }
        hart.write_back(line);
    }
}
