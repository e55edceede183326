//! An undo log in software, with `clwb` and `sfence`: all that [`sw-undo`](super::SwUndo) is, and
//! what a transaction falls back to that the hardware of another design cannot hold.
//!
//! ```text
//!   store to a line that has no entry:   old words -> log, write back, fence;  then the store
//!   a line that was announced:           the same, under one fence for all of them
//!   commit:   write back the lines, fence;  what the design waits for;  commit word, write back,
//!             fence
//! ```
//! A core's log, in lines:
//! ```text
//!   0     | commit word: number of the last committed transaction |
//!   1 + 2i| number | address | words 0 to 5               an entry: two lines; each of them is
//!   2 + 2i| number | address + 1 | words 6, 7 | 0         stored with its number last
//! ```
//! Entries of a transaction stand behind each other from where the last one's end: the log is used
//! round and round, so that its lines leave the caches as those of a real log do.
//!
//! Invariants:
//! - When a line's first store of a transaction is executed, its old words are durable.
//! - When the commit word says n, all lines of the transaction n are durable.
//! - A log line that has a number has all that belongs to it: stores of a line reach memory in
//!   order, and the number is stored last. (Otherwise a line that leaves the caches too early
//!   would have recovery write what an older entry said.)
//!
//! Recovery stores back, for each core, the old words of the entries whose number is behind the
//! commit word; a transaction has one entry for each line, so their order does not matter. (LAD and
//! ReDU, sections 5, compare with such a log and say no more of it: the layout is ours.)

use crate::design::Design;
use crate::machine::Hart;
use crate::machine::controller::Class;
use crate::machine::counts::Phase;
use crate::machine::description::Description;
use crate::machine::memory::line_of;
use crate::mutants::{Mutant, planted};
use crate::persist::{Cut, Persistent};

/// Lines of a core's log, the commit word's included.
const LOG_LINES: u32 = 2048;

/// The logs of all cores.
#[derive(Debug)]
pub struct SoftLog {
    /// The first line of the first core's log.
    first: u32,
    cores: Vec<Log>,
}

/// A core's log.
#[derive(Clone, Debug, Default)]
struct Log {
    /// The transaction that is running: its number.
    number: u64,
    /// Entries written, ever.
    entries: u64,
    /// Lines that have an entry of this transaction.
    logged: Vec<u32>,
    /// Lines that were announced and have none yet.
    announced: Vec<u32>,
}

impl SoftLog {
    /// Lines of persistent memory that the logs of all cores need.
    pub fn lines(description: &Description) -> u32 {
        description.cores as u32 * LOG_LINES
    }

    /// Empty logs, which begin at this line.
    pub fn new(description: &Description, first: u32) -> SoftLog {
        SoftLog { first, cores: vec![Log::default(); description.cores] }
    }

    /// The logs after recovery: each core goes on behind the number that its commit word says.
    pub fn resumed(description: &Description, first: u32, state: &Persistent) -> SoftLog {
        let mut logs = SoftLog::new(description, first);
        for (head, log) in (first..).step_by(LOG_LINES as usize).zip(&mut logs.cores) {
            log.number = state.line(head)[0];
        }
        logs
    }

    /// What one of its lines is for; nothing when the line lies before it.
    pub fn class_of(&self, line: u32) -> Option<Class> {
        line.checked_sub(self.first).map(|at| match at.is_multiple_of(LOG_LINES) {
            true => Class::CommitRecord,
            false => Class::LogData,
        })
    }
}

/// A transaction begins.
pub fn begin<D: Design>(hart: &mut Hart<'_, D>) {
    let log = log(hart);
    log.number += 1;
    log.logged.clear();
    log.announced.clear();
}

/// The program says that it will write these words.
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

/// A transaction stores a word.
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
        if !planted(Mutant::UndoWithoutFence) {
            hart.fence();
        }
        hart.enter(Phase::Body);
    }
    hart.store(word, object, value);
}

/// A transaction ends: it is durable on return.
pub fn commit<D: Design>(hart: &mut Hart<'_, D>) {
    let lines = std::mem::take(&mut log(hart).logged);
    if lines.is_empty() {
        return D::software_commits(hart);
    }
    hart.enter(Phase::Prepare);
    for line in lines {
        hart.write_back(line);
    }
    if !planted(Mutant::UndoCommitFirst) {
        hart.fence();
    }
    D::software_commits(hart);
    hart.enter(Phase::Commit);
    let (head, number) = (head(hart), log(hart).number);
    hart.store(u64::from(head) * 8, 0, number);
    hart.write_back(head);
    hart.fence();
}

/// Stores back what the entries of transactions that are not committed say. The logs begin at
/// `first`.
///
/// # Errors
/// [`Cut`].
pub fn recover(description: &Description, first: u32, state: &mut Persistent) -> Result<(), Cut> {
    recover_moved(description, first, state, &|_, line| line)
}

/// The same where a line of the program is found elsewhere than under its own number.
///
/// # Errors
/// [`Cut`].
pub fn recover_moved(
    description: &Description,
    first: u32,
    state: &mut Persistent,
    found_at: &dyn Fn(&Persistent, u32) -> u32,
) -> Result<(), Cut> {
    let mut heads = (0..description.cores as u32).map(|core| first + core * LOG_LINES);
    heads.try_for_each(|head| roll_back(head, state, found_at))
}

/// Stores back what the entries of one core's last transaction say, if it is not committed; from
/// then on its number counts as done, so that they say nothing after another power cut.
fn roll_back(
    head: u32,
    state: &mut Persistent,
    found_at: &dyn Fn(&Persistent, u32) -> u32,
) -> Result<(), Cut> {
    let committed = state.line(head)[0];
    let mut last = committed;
    for line in head + 1..head + LOG_LINES {
        let [number, address, words @ ..] = state.line(line);
        if number <= committed {
            continue;
        }
        last = last.max(number);
        let home = found_at(state, (address / 64) as u32);
        let mut old = state.line(home);
        match address % 64 {
            0 => old[..6].copy_from_slice(&words),
            _ => old[6..].copy_from_slice(&words[..2]),
        }
        state.set_line(home, old)?;
    }
    if last > committed {
        state.set_line(head, [last, 0, 0, 0, 0, 0, 0, 0])?;
    }
    Ok(())
}

fn logs<'h, D: Design>(hart: &'h mut Hart<'_, D>) -> &'h mut SoftLog {
    let design = &mut hart.machine().design;
    design.soft_log().expect("only a design that has a log in software uses it")
}

fn log<'h, D: Design>(hart: &'h mut Hart<'_, D>) -> &'h mut Log {
    let core = hart.core();
    &mut logs(hart).cores[core]
}

/// The line of a core's commit word.
fn head<D: Design>(hart: &mut Hart<'_, D>) -> u32 {
    let core = hart.core() as u32;
    logs(hart).first + core * LOG_LINES
}

/// Puts the old words of a line into the log, and begins to write them back.
fn append<D: Design>(hart: &mut Hart<'_, D>, line: u32) {
    let head = head(hart);
    let log = log(hart);
    let slots = u64::from((LOG_LINES - 1) / 2);
    let is_full = log.logged.len() as u64 == slots;
    let entry = head + 1 + 2 * (log.entries % slots) as u32;
    log.entries += 1;
    log.logged.push(line);
    let number = log.number;
    if is_full {
        hart.machine().fail("a transaction writes more lines than the log of its core holds");
    }
    let mut old = [0; 8];
    for (i, word) in old.iter_mut().enumerate() {
        *word = hart.load_for_log(u64::from(line) * 8 + i as u64, 0);
    }
    let address = u64::from(line) * 64;
    let first = [number, address, old[0], old[1], old[2], old[3], old[4], old[5]];
    let second = [number, address + 1, old[6], old[7], 0, 0, 0, 0];
    for (line, words) in [(entry, first), (entry + 1, second)] {
        for (i, word) in words.into_iter().enumerate().rev() {
            hart.store(u64::from(line) * 8 + i as u64, 0, word);
        }
        hart.write_back(line);
    }
}
