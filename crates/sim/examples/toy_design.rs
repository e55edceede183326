//! An example design: `eager-undo`, an undo log in software that uses no knowledge of later stores.
//!
//! Each store waits until memory has the old value of its word. This is as simple as possible, and
//! slow.
//!
//! A core's log, in words:
//! ```text
//!   0 to 7     | number of the last committed transaction | 0 ...                       |
//!   8 + 4i     | old value of the word | its address | number of the transaction | 0    |
//! ```
//! Invariants:
//! - Memory has the entry of a word before it can have the word's new value, because a fence
//!   separates them. The number drains last: an entry with a transaction's number is complete.
//! - When memory has n in the first word, it has all stores of transaction n.
//!
//! For each core, recovery considers the one transaction whose number exceeds the first word. It
//! stores the old values of that transaction's entries back, newest first.
//!
//! `cargo run --release -p lastword-sim --example toy_design` runs the design next to two others.
//! docs/research/add-a-design.md explains it.

#[path = "../tests/common/mod.rs"]
mod common;

use std::process::ExitCode;

use common::{Named, setup};
use sim::Setup;
use sim::design::{Design, SwUndo, Volatile};
use sim::machine::Hart;
use sim::machine::counts::Phase;
use sim::machine::description::Description;
use sim::machine::memory::line_of;
use sim::persist::{Cut, Persistent};
use sim::report::Outcome;
use words::Stop;
use workloads::Options;

/// Lines of a core's log: the first word's line, and others with two entries each.
const LOG_LINES: u32 = 1024;

/// The state of the design, which hardware or the run-time library keeps outside of memory. The
/// variant without waits is a mutant that power cuts must detect.
struct EagerUndo<const WAITS: bool = true> {
    /// The first line of the first core's log.
    first: u32,
    cores: Vec<Log>,
}

#[derive(Clone, Default)]
struct Log {
    /// The running transaction's number, its number of entries, and the lines of its stores.
    number: u64,
    entries: u64,
    lines: Vec<u32>,
}

impl<const WAITS: bool> Design for EagerUndo<WAITS> {
    const NAME: &'static str = "eager-undo";
    const ABOUT: &'static str = "an undo log in software: each store waits for its entry";
    const MACHINE: &'static str = "lad";

    fn extra_lines(description: &Description) -> u32 {
        description.cores as u32 * LOG_LINES
    }

    fn new(description: &Description, extra: u32) -> Self {
        EagerUndo { first: extra, cores: vec![Log::default(); description.cores] }
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        let (_, log) = log(hart);
        log.number += 1;
        log.entries = 0;
        log.lines.clear();
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        let old = hart.load_for_log(word, object);
        let (first, log) = log(hart);
        let (entry, number) = (8 + 4 * log.entries, log.number);
        if entry + 4 > 8 * u64::from(LOG_LINES) {
            return Err(Stop::TooLarge);
        }
        log.entries += 1;
        log.lines.push(line_of(word));
        hart.store(first + entry, 0, old);
        hart.store(first + entry + 1, 0, 8 * word);
        hart.store(first + entry + 2, 0, number);
        if WAITS {
            hart.write_back(line_of(first + entry));
            hart.fence();
        }
        hart.store(word, object, value);
        Ok(())
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        let (first, log) = log(hart);
        let (number, lines) = (log.number, std::mem::take(&mut log.lines));
        hart.enter(Phase::Prepare);
        lines.into_iter().for_each(|line| hart.write_back(line));
        hart.fence();
        hart.enter(Phase::Commit);
        hart.store(first, 0, number);
        hart.write_back(line_of(first));
        hart.fence();
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        let heads = (0..description.cores as u32).map(|core| extra + core * LOG_LINES);
        for head in heads {
            let entries = entries(state, head);
            let last = entries.iter().map(|[_, _, number, _]| *number).max().unwrap_or(0);
            if last <= state.line(head)[0] {
                continue;
            }
            for [old, address, ..] in entries.into_iter().rev().filter(|entry| entry[2] == last) {
                let line = line_of(address / 8);
                let mut words = state.line(line);
                words[(address / 8 % 8) as usize] = old;
                state.set_line(line, words)?;
            }
            // After another power cut, the entries must have no effect.
            state.set_line(head, [last, 0, 0, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }
}

/// Returns the entries of a core's log, oldest first, followed by those of older transactions.
fn entries(state: &Persistent, head: u32) -> Vec<[u64; 4]> {
    let lines = (head + 1..head + LOG_LINES).map(|line| state.line(line));
    lines.flat_map(|[a, b, c, d, e, f, g, h]| [[a, b, c, d], [e, f, g, h]]).collect()
}

/// Returns the first word of a core's log, and its state.
fn log<'h, const F: bool>(hart: &'h mut Hart<'_, EagerUndo<F>>) -> (u64, &'h mut Log) {
    let core = hart.core();
    let EagerUndo { first, ref mut cores } = hart.machine().design;
    (u64::from(first + core as u32 * LOG_LINES) * 8, &mut cores[core])
}

/// Runs a workload with a design.
fn simulate<D: Design>(workload: &'static str, transactions: u64) -> Outcome {
    let program = Named { name: workload, options: Options { scale: 0.02, ..Options::default() } };
    let setup = setup(D::MACHINE, D::NAME, 4, transactions);
    sim::run_design::<D>(&setup, &program, &mut |_| {}).expect("it ends")
}

/// Runs a workload on a small machine with power cuts and recovery.
fn cut<D: Design>(workload: &'static str, cuts: u64) -> Outcome {
    let program = Named { name: workload, options: Options { scale: 0.02, ..Options::default() } };
    let setup = Setup { power_cuts: cuts, ..setup("tiny-lad", D::NAME, 2, 100) };
    sim::run_design::<D>(&setup, &program, &mut |_| {}).expect("it ends")
}

/// Runs the toy and its mutant without waits under power cuts.
pub(crate) fn cuts(workload: &'static str, cuts: u64) -> [Outcome; 2] {
    [cut::<EagerUndo>(workload, cuts), cut::<EagerUndo<false>>(workload, cuts)]
}

/// Runs a workload with the toy and two other designs.
pub(crate) fn rows(workload: &'static str, transactions: u64) -> Vec<Outcome> {
    vec![
        simulate::<Volatile>(workload, transactions),
        simulate::<SwUndo>(workload, transactions),
        simulate::<EagerUndo>(workload, transactions),
    ]
}

fn main() -> ExitCode {
    println!("workload   design       cycles/tx   commit  lines written  checks");
    let mut all_hold = true;
    for workload in ["sps", "tpcc-hash"] {
        for row in rows(workload, 1000) {
            let (cycles, holds) = (row.cycles_per_transaction, row.checked == Some(true));
            let says = if holds { "hold" } else { "do not hold" };
            println!(
                "{workload:10} {:12} {:9.0} {:8.0} {:14}  {says}",
                row.design,
                cycles.total,
                cycles.commit,
                row.nvm_writes.total(),
            );
            all_hold &= holds;
        }
    }
    for workload in ["sps", "rbt"] {
        let [toy, hasty] = cuts(workload, 1000).map(|row| row.violations.unwrap_or_default());
        println!("{workload:10} violations in 1000 power cuts: {toy}; without the wait: {hasty}");
        all_hold &= toy == 0;
    }
    if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
