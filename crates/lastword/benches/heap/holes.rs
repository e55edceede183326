//! (f) The cost of freeing, and of taking a long run, beside many holes.

use lastword::{Array, Design, Error, Worker};
use medium::cpu;

use crate::Failure;
use crate::arguments::Arguments;
use crate::store::{Place, Value, fill, free, median};
use crate::table::{Cell, Table};

/// Frees, and long runs taken, of which the table has the median.
const SAMPLES: usize = 15;

/// Words of a run of 100 KB.
const WORDS: u64 = 100_000 / 8;

pub(crate) fn run<D: Design>(arguments: &Arguments) -> Result<Table, Failure> {
    let title = format!("(f) beside holes between live values: medians of {SAMPLES}");
    let mut table =
        Table::new("issue-f", title, &["free_us", "take_100_kb_us", "words_written_by_take"]);
    for bytes in [1500, 40_000] {
        for holes in [500, 2000, 8000] {
            let cells = beside::<D>(arguments, bytes, holes)?;
            table.row(format!("{holes} holes of {bytes} bytes"), cells);
        }
    }
    Ok(table)
}

fn beside<D: Design>(
    arguments: &Arguments,
    bytes: u64,
    holes: usize,
) -> Result<Vec<Cell>, Failure> {
    // A chunk of 64 KiB for each value, and room for the long runs.
    let heap_bytes = (2 * holes as u64 + 64) * (64 << 10);
    let place = Place::new()?;
    let pool = place.create::<D>(arguments, heap_bytes)?;
    let mut worker = pool.worker()?;
    let values = fill(&mut worker, bytes, 2 * holes)?;
    let holes: Vec<Value> = values.iter().copied().step_by(2).collect();
    free(&mut worker, &holes, 1)?;
    let before = worker.words_written();
    let taken = take(&mut worker)?;
    let written = (worker.words_written() - before) as f64 / SAMPLES as f64;
    let live: Vec<Value> = values.iter().copied().skip(1).step_by(2).collect();
    let every = (live.len() / SAMPLES).max(1);
    let mut freed = Vec::new();
    for value in live.iter().step_by(every).take(SAMPLES) {
        let began = cpu::cycles();
        let _ = worker.run(|tx| value.free(tx))?;
        freed.push(cpu::cycles_to_ns(cpu::cycles() - began) as f64);
    }
    let us = |times| Cell::Number(median(times) / 1e3, 1);
    Ok(vec![us(freed), us(taken), Cell::Number(written, 0)])
}

/// Takes long runs and returns the nanoseconds of each.
fn take<D: Design>(worker: &mut Worker<'_, D>) -> Result<Vec<f64>, Error> {
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let began = cpu::cycles();
        let _ = worker.run(|tx| Array::<u64>::reserve(tx, WORDS))?;
        times.push(cpu::cycles_to_ns(cpu::cycles() - began) as f64);
    }
    Ok(times)
}
