//! `ssp-undo`: an undo log in hardware, as simple as can be: what SSP is compared with.
//! (Section 5.1 of the SSP paper.)
//!
//! ```text
//!   a word's first store:   retires, old word there:  old word -> log
//!                           durable, all before it drained:  it drains
//!   commit:   write back the lines, fence;  number of the transaction, durable
//! ```
//! A core's log:
//! ```text
//!   head | number of the last committed transaction |
//!   line | number | the first word's place + 1 | how many | what they were, up to 5 |    an entry
//! ```
//! Stores that have retired have their entries under way side by side: what is blocked is that they
//! drain (`ssp-undo.side_by_side`; without it only the oldest store has its entry sent). Entries
//! follow each other round and round; a later transaction's takes the place of one that is over.
//! The hardware knows which words of the transaction have an entry (its log buffer).
//!
//! An entry has one word, as a store of the paper makes one; or a line's first store makes two
//! entries with all of its words (`ssp-undo.line`).
//!
//! Invariants:
//! - When a word changes, its entry is durable.
//! - An entry says what the word was when the transaction began: it is made before the word's first
//!   store drains, and no other core stores to the line of an open transaction.
//! - When the head says n, all lines of transaction n are durable.
//!
//! Recovery stores back, for each core, the words of the entries whose number is behind the head's.
//! A word is in one entry of a transaction, so their order does not matter.

use rustc_hash::FxHashMap;
use words::Stop;

use super::striped::Striped;
use super::{Design, ON_ITS_WAY};
use crate::machine::controller::{Class, Write};
use crate::machine::counts::Phase;
use crate::machine::description::Description;
use crate::machine::memory::line_of;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Tell};
use crate::mutants::{Mutant, planted};
use crate::persist::{Cut, Persistent};

/// Lines of a core's log, the head included.
const LOG_LINES: u32 = 1024;

/// Words that an entry has room for.
const ENTRY_WORDS: usize = 5;

// What it does rarely.
const EVICTED: &str = "a line of an open transaction is written to memory";

/// The design's state.
#[derive(Debug)]
pub struct SspUndo {
    /// Lines of the heap.
    heap: u32,
    /// Words that are logged together, with the first store to one of them: 1, or a line's.
    together: u64,
    /// Whether stores behind one that waits have their entries sent.
    side_by_side: bool,
    cores: Vec<Log>,
}

/// A core's log.
#[derive(Clone, Debug)]
struct Log {
    lines: Striped,
    /// The transaction that is running, and whether one is.
    number: u64,
    runs: bool,
    /// Entries written, ever, and how many there were when the transaction began.
    entries: u64,
    first: u64,
    /// Words that have an entry of this transaction, and when it is durable: the first ones of
    /// those that are logged together.
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
        if !planted(Mutant::SspForgetsNumbers) {
            // No entry has a later number than its log's head, once that is recovered.
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
        // What this takes is waiting for room in the store buffer, behind stores that wait.
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

    fn behind(machine: &mut Machine<Self>, core: usize) {
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
            // Of two stores to one word the first one has made it.
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
            // What it was is not known before.
            None if !is_over(machine, there) => return Some(there),
            None => append(machine, core, word, now),
        };
        let waits = durable.into_iter().find(|durable| !is_over(machine, *durable));
        waits.filter(|_| !planted(Mutant::SspUndoWithoutWaiting))
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        let first = u64::from(line) * 8;
        let mut open = machine.design.cores.iter().filter(|log| log.runs);
        if open.any(|log| (first..first + 8).any(|word| log.words.contains_key(&word))) {
            let now = machine.now();
            machine.rare(EVICTED, now, now + ON_ITS_WAY);
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

/// Sends a line of a core's log to memory at a time from `now` on. Answers when the core knows that
/// it is durable.
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
    machine.write_line(write, machine.tile(core), time, Tell::Core(core, done));
    done
}

/// Puts what words are into the log that are logged together, at this time. Answers when that is
/// durable.
fn append(machine: &mut Machine<SspUndo>, core: usize, first: u64, time: Time) -> [When; 2] {
    let words: Vec<u64> = (first..first + machine.design.together).collect();
    let entries = words.chunks(ENTRY_WORDS);
    let entries: Vec<When> =
        entries.map(|words| append_entry(machine, core, words, time)).collect();
    let durable = [entries[0], entries[entries.len() - 1]];
    machine.design.cores[core].words.insert(first, durable);
    durable
}

/// Writes an entry of neighbouring words.
fn append_entry(machine: &mut Machine<SspUndo>, core: usize, words: &[u64], time: Time) -> When {
    let log = &mut machine.design.cores[core];
    let room = u64::from(log.lines.lines() - 1);
    let line = log.lines.line(1 + log.entries % room);
    let (number, is_full) = (log.number, log.entries - log.first == room);
    log.entries += 1;
    if is_full {
        machine.fail("a transaction writes more words than the log of its core holds");
    }
    let mut entry = [number, words[0] + 1, words.len() as u64, 0, 0, 0, 0, 0];
    for (old, word) in entry[3..].iter_mut().zip(words) {
        *old = machine.memory.payload(*word);
    }
    write(machine, core, line, entry, (Class::LogData, time))
}

/// Stores back what the entries of a core's last transaction say, if it is not committed; from then
/// on its number counts as done, so that they say nothing after another power cut.
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
        let home = line_of(place - 1);
        let mut words = state.line(home);
        let places = words.iter_mut().skip((place - 1) as usize % 8);
        places.zip(old).take(count as usize).for_each(|(word, old)| *word = old);
        state.set_line(home, words)?;
    }
    if last > committed {
        state.set_line(head, [last, 0, 0, 0, 0, 0, 0, 0])?;
    }
    Ok(())
}
