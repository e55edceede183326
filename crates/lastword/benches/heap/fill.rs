//! The share of the heap that values fill, size by size.

use lastword::Design;

use crate::Failure;
use crate::arguments::Arguments;
use crate::store::{Place, Value, batch, fill, free};
use crate::table::{Cell, Table};

const SIZES: [u64; 23] = [
    16,
    24,
    32,
    48,
    64,
    100,
    128,
    200,
    256,
    500,
    512,
    1000,
    1024,
    1025,
    2000,
    4096,
    5000,
    10_000,
    16_384,
    33_000,
    65_536,
    100_000,
    1 << 20,
];

pub(crate) fn run<D: Design>(arguments: &Arguments, print: &dyn Fn(Table)) -> Result<(), Failure> {
    let heap_bytes = arguments.heap_bytes.unwrap_or(64 << 20);
    let title = format!(
        "heap of {heap_bytes} bytes, filled with values of one size; then every second value is \
         freed, and values of the next size fill the heap"
    );
    let columns = ["values", "share", "next_size", "next_values", "share_of_both"];
    let mut table = Table::new("fill", title, &columns);
    for (at, &bytes) in SIZES.iter().enumerate() {
        let next = SIZES.get(at + 1).copied();
        let cells = one::<D>(arguments, heap_bytes, bytes, next)?;
        table.row(format!("{bytes} bytes"), cells);
    }
    print(table);
    Ok(())
}

fn one<D: Design>(
    arguments: &Arguments,
    heap_bytes: u64,
    bytes: u64,
    next: Option<u64>,
) -> Result<Vec<Cell>, Failure> {
    let place = Place::new()?;
    let pool = place.create::<D>(arguments, heap_bytes)?;
    let mut worker = pool.worker()?;
    let values = fill(&mut worker, bytes, usize::MAX)?;
    let share = |bytes: u64| Cell::Share(bytes as f64 / heap_bytes as f64);
    let count = |values: &[Value]| Cell::Count(values.len() as u64);
    let all = values.len() as u64 * bytes;
    let mut cells = vec![count(&values), share(all)];
    if let Some(next) = next {
        let freed: Vec<Value> = values.iter().copied().step_by(2).collect();
        free(&mut worker, &freed, batch(bytes))?;
        let more = fill(&mut worker, next, usize::MAX)?;
        let both = all - freed.len() as u64 * bytes + more.len() as u64 * next;
        cells.extend([Cell::Count(next), count(&more), share(both)]);
    }
    Ok(cells)
}
