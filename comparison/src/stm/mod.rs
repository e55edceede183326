//! `comparison stm`: Lastword's transactional memory beside GCC's libitm and plain code.
//!
//! The work is the same on every side:
//! - The C side has the structures of Lastword's collections word for word (`c/structures.h`), in
//!   huge pages as well.
//! - One generator with one seed supplies keys and values.
//! - Every system runs the same number of transactions on a structure that is created and loaded
//!   for this slice.
//! - Each side knows its writes beforehand in the same cases, and prefetches with its own means.
//! - Both sides are compiled with optimisation level 2 for the same processor.
//!
//! Some differences favour libitm. Its nodes come from a counter of the thread, not from an
//! allocator with headers and checks, and its pointers are not checked. GCC was kept from adding
//! calls that the work does not need (`c/work.c`).
//!
//! A slice ends with a check of all contents. Lastword and plain code must pass it, or the
//! comparison fails; for libitm the report counts the rounds that did.

mod foreign;
pub(crate) mod ours;
pub(crate) mod work;

use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use clap::{Args, value_parser};
use lastword::Volatile;
use serde::Serialize;

use crate::draw::Draw;
use crate::failure::Failure;
use crate::report::{self, Conditions, Figure, Format, short, times};
use foreign::Foreign;
use ours::Ours;
use work::{BATCH, Call, Content, Source, Work};

/// Options of `comparison stm`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Work to run.
    #[arg(long, value_enum, value_delimiter = ',',
          default_values_t = [Work::Hash, Work::Tatp, Work::Tree, Work::Writes, Work::Announced])]
    work: Vec<Work>,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2],
          value_parser = value_parser!(u64).range(1..=foreign::THREADS_MAX))]
    threads: Vec<u64>,
    /// Rounds: in each one all systems run, beginning with another one.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..))]
    rounds: u64,
    /// About how long libitm takes for its slice on one thread; all run as many transactions.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Seed of keys.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For people or for programs.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Runs transactions on the thread that asked for it.
pub(crate) type Runner<'s> = Box<dyn FnMut(&[Call]) -> Result<(), Failure> + 's>;

/// A structure of one system, loaded.
pub(crate) trait Subject: Sync {
    /// For the thread with this number, made on it.
    fn runner(&self, thread: usize) -> Result<Runner<'_>, Failure>;

    /// Returns the contents of each structure (plain code: one a thread); all runners have ended.
    fn contents(&self) -> Result<Vec<Content>, Failure>;
}

/// Systems under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum System {
    Lastword,
    Libitm,
    Plain,
}

const SYSTEMS: [System; 3] = [System::Lastword, System::Libitm, System::Plain];

impl System {
    fn name(self) -> &'static str {
        match self {
            System::Lastword => "lastword volatile",
            System::Libitm => "libitm ml_wt",
            System::Plain => "plain C",
        }
    }

    fn subject(self, work: Work, threads: u64) -> Result<Box<dyn Subject>, Failure> {
        Ok(match self {
            System::Lastword => {
                Box::new(Ours::<Volatile>::new(Path::new(""), lastword::Options::new(), work)?)
            }
            System::Libitm => Box::new(Foreign::libitm(work, threads)?),
            System::Plain => Box::new(Foreign::plain(work, threads)?),
        })
    }

    /// In how many parts the structure is.
    fn shards(self, threads: u64) -> u64 {
        if self == System::Plain { threads } else { 1 }
    }
}

/// One row of the report.
#[derive(Debug, Serialize)]
struct Row {
    work: Work,
    threads: u64,
    system: System,
    /// Transactions of a round, all threads.
    transactions: u64,
    transactions_per_second: Figure,
    /// Rate by libitm's in the same round.
    by_libitm: Figure,
    /// Target of the design documents, on Lastword's rows of one thread.
    target: Option<f64>,
    /// Rounds at whose end something else was there than was written.
    wrong_rounds: usize,
    /// The worst of them: keys that must be there less those that are.
    lost_keys: i64,
}

#[derive(Debug, Serialize)]
struct Report {
    conditions: Conditions,
    rows: Vec<Row>,
}

/// Makes the comparisons and prints the report.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    foreign::use_ml_wt();
    let mut rows = Vec::new();
    for &work in &options.work {
        for &threads in &options.threads {
            rows.extend(compare(options, work, threads)?);
        }
    }
    let conditions = Conditions::new(options.rounds as usize, options.seed);
    let report = Report { conditions, rows };
    report::print(options.format, &report, || text(&report))
}

/// Results of one slice.
#[derive(Clone, Copy, Debug)]
struct Slice {
    rate: f64,
    lost_keys: Option<i64>,
}

fn compare(options: &Options, work: Work, threads: u64) -> Result<Vec<Row>, Failure> {
    let each = (work.per_second() * options.seconds / threads as f64).max(1.0) as u64;
    let mut slices: [Vec<Slice>; 3] = Default::default();
    for round in 0..options.rounds as usize {
        for i in 0..SYSTEMS.len() {
            let index = (round + i) % SYSTEMS.len();
            let draw = |thread| Draw::new(options.seed, round, thread);
            slices[index].push(slice(SYSTEMS[index], work, threads, each, draw)?);
        }
    }
    let libitm = slices[1].clone();
    let rows = SYSTEMS.into_iter().zip(slices).map(|(system, slices)| {
        let ratios = slices.iter().zip(&libitm).map(|(ours, theirs)| ours.rate / theirs.rate);
        let has_target = system == System::Lastword && threads == 1;
        let lost = slices.iter().filter_map(|slice| slice.lost_keys);
        Row {
            work,
            threads,
            system,
            transactions: each * threads,
            transactions_per_second: Figure::of(slices.iter().map(|slice| slice.rate)),
            by_libitm: Figure::of(ratios),
            target: has_target.then_some(work.target()),
            wrong_rounds: lost.clone().count(),
            lost_keys: lost.max().unwrap_or(0),
        }
    });
    Ok(rows.collect())
}

/// One system on a structure made for it.
fn slice(
    system: System,
    work: Work,
    threads: u64,
    each: u64,
    draw: impl Fn(usize) -> Draw,
) -> Result<Slice, Failure> {
    let shards = system.shards(threads);
    let subject = system.subject(work, threads)?;
    let sources: Vec<Source> =
        (0..threads as usize).map(|thread| Source::new(work, shards, draw(thread))).collect();
    let seconds = time(&*subject, &sources, each)?;
    let expected: Vec<Content> = match shards {
        1 => vec![Content::expected(work, 1, &sources, each)],
        _ => sources.chunks(1).map(|own| Content::expected(work, shards, own, each)).collect(),
    };
    let found = subject.contents()?;
    let count = |contents: &[Content]| contents.iter().map(|c| c.count as i64).sum::<i64>();
    let lost_keys = (found != expected).then(|| count(&expected) - count(&found));
    if let (Some(lost), true) = (lost_keys, system != System::Libitm) {
        let what = format!(
            "{}, {threads} threads: {lost} keys too few; found {found:?}, expected {expected:?}",
            work.name()
        );
        return Err(Failure::Wrong { system: system.name(), what });
    }
    Ok(Slice { rate: (each * threads) as f64 / seconds, lost_keys })
}

/// Runs every source's transactions on a thread of its own; seconds from the first that began to
/// the last that ended.
fn time(subject: &dyn Subject, sources: &[Source], each: u64) -> Result<f64, Failure> {
    let barrier = Barrier::new(sources.len());
    let run = |thread: usize, source: &Source| -> Result<(Instant, Instant), Failure> {
        let runner = subject.runner(thread);
        barrier.wait();
        let (mut runner, mut source) = (runner?, source.clone());
        let mut calls = [Call::default(); BATCH];
        let start = Instant::now();
        let mut left = each;
        while left > 0 {
            let batch = &mut calls[..left.min(BATCH as u64) as usize];
            source.fill(batch);
            runner(batch)?;
            left -= batch.len() as u64;
        }
        Ok((start, Instant::now()))
    };
    let times = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = sources
            .iter()
            .enumerate()
            .map(|(thread, source)| scope.spawn(move || run(thread, source)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let start = times.iter().map(|(start, _)| *start).min();
    let end = times.iter().map(|(_, end)| *end).max();
    let (start, end) = start.zip(end).expect("at least one thread ran");
    Ok(end.duration_since(start).as_secs_f64())
}

fn text(report: &Report) -> String {
    let header = ["work", "threads", "system", "tx/s (min to max)", "by libitm", "target", "check"];
    let rows = report.rows.iter().map(|row| {
        vec![
            row.work.name().to_owned(),
            row.threads.to_string(),
            row.system.name().to_owned(),
            row.transactions_per_second.text(short),
            row.by_libitm.text(times),
            row.target.map_or_else(|| "-".into(), |target| format!(">= {}", times(target))),
            match row.wrong_rounds {
                0 => "held".to_owned(),
                wrong => format!("WRONG in {wrong} rounds, lost {} keys", row.lost_keys),
            },
        ]
    });
    let table = report::table(&header, 3, rows.collect());
    format!("{}\n{table}", report.conditions.text())
}
