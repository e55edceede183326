//! `ssp-undo`: a minimal undo log in hardware, a baseline of the SSP paper (section 5.1).
//!
//! ```text
//!   a word's first store:   retired, old word present:  old word -> log
//!                           entry durable, older stores drained:  it drains
//!   commit:   write back the lines, fence;  number of the transaction, durable
//! ```
//! A core's log:
//! ```text
//!   head | number of the last committed transaction |
//!   line | number | the first word's address + 1 | count | old words, up to 5 |           an entry
//! ```
//! The entries of retired stores are in flight in parallel; only draining is blocked. Without
//! `ssp-undo.side_by_side`, only the oldest store sends its entry. The log is circular: a later
//! transaction's entries overwrite those of a finished one. The hardware knows which words of the
//! transaction have an entry (its log buffer).
//!
//! An entry holds one word, as each store of the paper creates one entry. With `ssp-undo.line`, a
//! line's first store creates two entries with all of its words.
//!
//! Invariants:
//! - A word's entry is durable before the word changes.
//! - An entry holds the word's value at the begin of the transaction. It is created before the
//!   word's first store drains, and no other core stores to the line of an open transaction.
//! - All lines of transaction n are durable before the head becomes n.
//!
//! Recovery processes, per core, the entries whose number is greater than the head's, and restores
//! their words. A word is in one entry of a transaction, so the order does not matter.

use rustc_hash::FxHashMap;
use words::Stop;

use super::striped::Striped;
use super::{Design, IN_FLIGHT_CYCLES};
use crate::machine::controller::{Class, Write};
use crate::machine::counts::Phase;
use crate::machine::description::Description;
use crate::machine::memory::line_of;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Notify};
use crate::mutants::{Mutant, injected};
use crate::persist::{Cut, Persistent};

/// Lines of a core's log, including the head.
const LOG_LINES: u32 = 1024;

/// Words of an entry.
const ENTRY_WORDS: usize = 5;

// Rarely taken paths.
const EVICTED: &str = "a line of an open transaction is written to memory";

/// State of the design.
#[derive(Debug)]
pub struct SspUndo {
    /// Lines of the heap.
    heap: u32,
    /// Words that one store logs together: 1, or those of a line.
    together: u64,
    /// Whether a store behind a waiting one sends its entry.
    side_by_side: bool,
    cores: Vec<Log>,
}

/// The log of a core.
#[derive(Clone, Debug)]
struct Log {
    lines: Striped,
    /// The number of the last transaction, and whether it is running.
    number: u64,
    runs: bool,
    /// Total entries written, and their number at the transaction's begin.
    entries: u64,
    first: u64,
    /// Logged words of this transaction, with the tokens of their entries. Of words logged
    /// together, the key is the first.
    words: FxHashMap<u64, [When; 2]>,
}

fn log_of(description: &Description, extra: u32, core: u32) -> Striped {
    let lines = Striped::new(description, extra, LOG_LINES).lines();
    Striped::new(description, extra + core * lines, LOG_LINES)
}

impl Design for SspUndo {
    const NAME: &'static str = "ssp-undo";
    const ABOUT: &'static str = "undo logging in hardware: each store waits for its entry (SSP)";
    const MACHINE: &'static str = "ssp";
    const PARAMETERS: &'static [&'static str] = &["ssp-undo"];
    const RARE: &'static [&'static str] = &[EVICTED];

    fn extra_lines(description: &Description) -> u32 {
        log_of(description, 0, description.cores as u32 - 1).end()
    }

    fn new(description: &Description, extra: u32) -> SspUndo {
        let log = |core| Log {
            lines: log_of(description, extra, core),
            number: 0,
            runs: false,
            entries: 0,
            first: 0,
            words: FxHashMap::default(),
        };
        let switch = |key| description.parameter("ssp-undo", key) != 0.0;
        let together = if switch("line") { 8 } else { 1 };
        let cores = (0..description.cores as u32).map(log).collect();
        SspUndo { heap: extra, together, side_by_side: switch("side_by_side"), cores }
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        let mut design = Self::new(description, extra);
        if !injected(Mutant::SspForgetsNumbers) {
            // After recovery, no entry has a greater number than the head of its log.
            design.cores.iter_mut().for_each(|log| log.number = state.line(log.lines.line(0))[0]);
        }
        Some(design)
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        hart.fence();
        let log = log(hart);
        log.number += 1;
        log.runs = true;
        log.first = log.entries;
        log.words.clear();
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        // The time of this call is the wait for room in the store buffer, behind stores that wait
        // for their entries. It counts as a stall of the log.
        let phase = if hart.gives_up() { Phase::Abort } else { Phase::Body };
        hart.enter(Phase::LogStall);
        hart.store(word, object, value);
        hart.enter(phase);
        Ok(())
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        hart.enter(Phase::LogStall);
        hart.fence();
        log(hart).runs = false;
        let lines = hart.lines().to_vec();
        if lines.is_empty() {
            return;
        }
        hart.enter(Phase::Prepare);
        lines.into_iter().for_each(|line| hart.write_back(line));
        hart.fence();
        hart.enter(Phase::Commit);
        let Log { number, lines, .. } = *log(hart);
        let core = hart.core();
        let words = [number, 0, 0, 0, 0, 0, 0, 0];
        let now = hart.machine().now();
        let done = write(hart.machine(), core, lines.line(0), words, (Class::CommitRecord, now));
        hart.wait_for(done);
    }

    fn oldest_waits(machine: &mut Machine<Self>, core: usize) {
        let now = machine.now();
        let SspUndo { heap, together, side_by_side, ref cores } = machine.design;
        let log = &cores[core];
        if !log.runs || !side_by_side {
            return;
        }
        let stored = machine.stored(core).filter(|(word, _)| line_of(*word) < heap);
        let first = stored.map(|(word, retired)| (word / together * together, retired));
        let new: Vec<(u64, Time)> =
            first.filter(|(word, _)| !log.words.contains_key(word)).collect();
        for (word, retired) in new {
            let comes = machine.comes(core, line_of(word));
            // An older store to the same word may have created the entry in this loop.
            let has_entry = machine.design.cores[core].words.contains_key(&word);
            if let Some(comes) = comes.filter(|_| !has_entry) {
                append(machine, core, word, comes.max(retired).max(now));
            }
        }
    }

    fn waits(machine: &mut Machine<Self>, core: usize, word: u64, there: When) -> Option<When> {
        let now = machine.now();
        let SspUndo { heap, together, ref cores, .. } = machine.design;
        let log = &cores[core];
        if !log.runs || line_of(word) >= heap {
            return None;
        }
        let word = word / together * together;
        let is_over =
            |machine: &Machine<Self>, when| machine.known(when).is_some_and(|at| at <= now);
        let durable = match log.words.get(&word) {
            Some(durable) => *durable,
            // The old word is unknown until its line arrives.
            None if !is_over(machine, there) => return Some(there),
            None => append(machine, core, word, now),
        };
        let waits = durable.into_iter().find(|durable| !is_over(machine, *durable));
        waits.filter(|_| !injected(Mutant::SspUndoWithoutWaiting))
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        let first = u64::from(line) * 8;
        let mut open = machine.design.cores.iter().filter(|log| log.runs);
        if open.any(|log| (first..first + 8).any(|word| log.words.contains_key(&word))) {
            let now = machine.now();
            machine.rare(EVICTED, now, now + IN_FLIGHT_CYCLES);
        }
        false
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        let mut cores = 0..description.cores as u32;
        cores.try_for_each(|core| roll_back(log_of(description, extra, core), state))
    }
}

fn log<'h>(hart: &'h mut Hart<'_, SspUndo>) -> &'h mut Log {
    let core = hart.core();
    &mut hart.machine().design.cores[core]
}

/// Writes a line of a core's log to memory, not before `time`. Returns a token for the core's
/// acknowledgement that it is durable.
fn write(
    machine: &mut Machine<SspUndo>,
    core: usize,
    line: u32,
    words: [u64; 8],
    (class, time): (Class, Time),
) -> When {
    let done = machine.open_token();
    let write = Write::new(u64::from(line), words, class);
    let time = time + machine.description.l1.latency;
    machine.write_line(write, machine.tile(core), time, Notify::Core(core, done));
    done
}

/// Appends the old values of words that are logged together. Returns tokens for their durability.
fn append(machine: &mut Machine<SspUndo>, core: usize, first: u64, time: Time) -> [When; 2] {
    let words: Vec<u64> = (first..first + machine.design.together).collect();
    let entries = words.chunks(ENTRY_WORDS);
    let entries: Vec<When> =
        entries.map(|words| append_entry(machine, core, words, time)).collect();
    let durable = [entries[0], entries[entries.len() - 1]];
    machine.design.cores[core].words.insert(first, durable);
    durable
}

/// Appends an entry of neighbouring words.
fn append_entry(machine: &mut Machine<SspUndo>, core: usize, words: &[u64], time: Time) -> When {
    let log = &mut machine.design.cores[core];
    let room = u64::from(log.lines.lines() - 1);
    let line = log.lines.line(1 + log.entries % room);
    let (number, is_full) = (log.number, log.entries - log.first == room);
    log.entries += 1;
    if is_full {
        machine.fail("a transaction writes more words than its core's log holds");
    }
    let mut entry = [number, words[0] + 1, words.len() as u64, 0, 0, 0, 0, 0];
    for (old, word) in entry[3..].iter_mut().zip(words) {
        *old = machine.memory.payload(*word);
    }
    write(machine, core, line, entry, (Class::LogData, time))
}

/// Restores the words of a core's last transaction unless it is committed. The head then takes its
/// number, so the entries have no effect after another power failure.
fn roll_back(log: Striped, state: &mut Persistent) -> Result<(), Cut> {
    let head = log.line(0);
    let committed = state.line(head)[0];
    let mut last = committed;
    for entry in 1..log.lines() {
        let [number, place, count, old @ ..] = state.line(log.line(u64::from(entry)));
        if number <= committed || place == 0 {
            continue;
        }
        last = last.max(number);
        let line = line_of(place - 1);
        let mut words = state.line(line);
        let places = words.iter_mut().skip((place - 1) as usize % 8);
        places.zip(old).take(count as usize).for_each(|(word, old)| *word = old);
        state.set_line(line, words)?;
    }
    if last > committed {
        state.set_line(head, [last, 0, 0, 0, 0, 0, 0, 0])?;
    }
    Ok(())
}
