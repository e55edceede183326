//! A design of your own: `battery-undo`, for a machine whose caches have a battery.
//!
//! What has drained from a store buffer survives a power cut, so an undo log in software needs no
//! write-back, and no fence before the end: stores drain in order.
//!
//! A core's log, in words:
//! ```text
//!   0 to 7     | number of the last committed transaction | 0 ...                       |
//!   8 + 4i     | what the word was | its address | number of the transaction | 0        |
//! ```
//! Invariants:
//! - When a word has its new value, its entry is there: it drained before. The number is the last
//!   word of an entry to drain, so an entry with the number of a transaction is whole.
//! - When the first word says n, all stores of transaction n have drained.
//!
//! Recovery stores back, for each core, the entries with a larger number than the first word,
//! newest first.
//!
//! `cargo run --release -p lastword-sim --example toy_design` runs it beside two others;
//! docs/add-a-design.md goes through it.

#[path = "../tests/common/mod.rs"]
mod common;

use std::process::ExitCode;

use common::{Named, setup};
use sim::design::{Design, SwUndo, Volatile};
use sim::machine::Hart;
use sim::machine::counts::Phase;
use sim::machine::description::Description;
use sim::report::Outcome;
use words::Stop;
use workloads::Options;

/// Lines of a core's log: the first word's, and two entries in each other one.
const LOG_LINES: u32 = 1024;

/// The design's state: what hardware, or the run-time library, keeps beside the data.
struct BatteryUndo {
    /// The first line of the first core's log.
    first: u32,
    cores: Vec<Log>,
}

#[derive(Clone, Default)]
struct Log {
    /// The running transaction's number, and its entries.
    number: u64,
    entries: u64,
}

impl Design for BatteryUndo {
    const NAME: &'static str = "battery-undo";
    const ABOUT: &'static str = "an undo log in software on a machine whose caches have a battery";
    const MACHINE: &'static str = "lad";

    fn extra_lines(description: &Description) -> u32 {
        description.cores as u32 * LOG_LINES
    }

    fn new(description: &Description, extra: u32) -> BatteryUndo {
        BatteryUndo { first: extra, cores: vec![Log::default(); description.cores] }
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        let (_, log) = log(hart);
        log.number += 1;
        log.entries = 0;
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        let old = hart.load(word, object);
        let (first, log) = log(hart);
        let (entry, number) = (8 + 4 * log.entries, log.number);
        if entry + 4 > 8 * u64::from(LOG_LINES) {
            return Err(Stop::Full);
        }
        log.entries += 1;
        hart.store(first + entry, 0, old);
        hart.store(first + entry + 1, 0, 8 * word);
        hart.store(first + entry + 2, 0, number);
        hart.store(word, object, value);
        Ok(())
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        let (first, log) = log(hart);
        let number = log.number;
        hart.enter(Phase::Commit);
        hart.store(first, 0, number);
        hart.settle();
    }
}

/// The first word of a core's log, and what is known of it.
fn log<'h>(hart: &'h mut Hart<'_, BatteryUndo>) -> (u64, &'h mut Log) {
    let core = hart.core();
    let BatteryUndo { first, ref mut cores } = hart.machine().design;
    (u64::from(first + core as u32 * LOG_LINES) * 8, &mut cores[core])
}

/// Runs a workload with a design.
fn simulate<D: Design>(workload: &'static str, transactions: u64) -> Outcome {
    let program = Named { name: workload, options: Options { scale: 0.02, ..Options::default() } };
    let setup = setup(D::MACHINE, D::NAME, 4, transactions);
    sim::run_design::<D>(&setup, &program, &mut |_| {}).expect("it ends")
}

/// Runs a workload with the toy and its neighbours.
pub(crate) fn rows(workload: &'static str, transactions: u64) -> Vec<Outcome> {
    vec![
        simulate::<Volatile>(workload, transactions),
        simulate::<BatteryUndo>(workload, transactions),
        simulate::<SwUndo>(workload, transactions),
    ]
}

fn main() -> ExitCode {
    println!("workload   design       cycles/tx   commit  lines written  checks");
    let mut all_hold = true;
    for workload in ["tatp-hash", "tpcc-hash"] {
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
    if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
