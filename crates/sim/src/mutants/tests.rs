//! Tests that the checks for stale lines and for shared lines detect such bugs.

use words::{Erased, ErasedTx, Objects, Ptr, Stop, Transact, Words};

use super::*;
use crate::machine::description::Description;
use crate::program::{Client, Ended, Loaded, Program};
use crate::report::Outcome;
use crate::{Setup, run};

/// Elements of a table, more than a small machine's caches hold.
const ELEMENTS: usize = 64;

/// An object that fills a line together with its header; the program uses one word.
type Element = Ptr<[u64; 6]>;

/// A program whose cores increment elements of their own tables, or with `shared`, all of the first
/// table without a lock.
struct Counters {
    shared: bool,
}

struct Tables {
    of: Vec<Vec<Element>>,
    shared: bool,
}

struct Counter {
    table: Vec<Element>,
    state: u64,
    at: usize,
    reads: usize,
}

fn table<T: Transact>(worker: &mut T) -> Result<Vec<Element>, T::Error> {
    (0..ELEMENTS).map(|_| worker.transact(|tx| tx.alloc([0_u64; 6]))).collect()
}

impl Program for Counters {
    fn name(&self) -> &str {
        "counters"
    }

    fn heap_bytes(&self) -> u64 {
        1 << 22
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let of = (0..cores).map(|_| table(worker)).collect::<Result<_, _>>()?;
        Ok(Box::new(Tables { of, shared: self.shared }))
    }
}

impl Loaded for Tables {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let table = self.of[if self.shared { 0 } else { core }].clone();
        Box::new(Counter { table, state: core as u64 + 1, at: 0, reads: 0 })
    }

    fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        Ok(Vec::new())
    }
}

impl Client for Counter {
    fn next(&mut self) {
        let mut random = || {
            self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (self.state >> 33) as usize % ELEMENTS
        };
        (self.at, self.reads) = (random(), random());
    }

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        // One element is read and one written, so that clean and dirty lines are evicted.
        let words: [u64; 6] = tx.get(self.table[self.reads])?;
        tx.compute(words[0] as u32 % 7);
        tx.update(self.table[self.at], |mut words: [u64; 6]| {
            words[0] += 1;
            words
        })
    }
}

fn simulate(machine: &str, design: &str, shared: bool) -> Outcome {
    // Small caches evict lines soon, and a slow memory keeps them queued for long.
    let mut description = Description::builtin(machine).expect("it is built in");
    for setting in
        ["l1.bytes=256", "l1.ways=2", "llc.ways=4", "llc.bytes=2048", "nvm.write_ns=2000"]
    {
        description.set(setting).expect("there is such a key");
    }
    let design = design.to_owned();
    let (transactions, seed, check) = (2000, 1, true);
    let setup = Setup {
        description,
        design,
        cores: 2,
        transactions,
        warm_up_most: 4 * transactions,
        seed,
        check,
        power_cuts: 0,
        violations_max: u64::MAX,
        export_trace: None,
        trace_format: Default::default(),
    };
    run(&setup, &Counters { shared }, &mut |_| {}).expect("it ends")
}

#[test]
fn stale_line_from_memory_is_detected() {
    for design in ["volatile", "sw-undo"] {
        let complaints = simulate("tiny-lad", design, false).complaints;
        assert!(complaints.is_empty(), "{design}: {complaints:?}");
    }
    for mutant in [Mutant::ForwardingOff, Mutant::LastCacheDrops, Mutant::CoreDrops] {
        let injected = inject(mutant);
        let complaints = simulate("tiny-lad", "volatile", false).complaints;
        drop(injected);
        println!("{}: {complaints:?}", mutant.name());
        let found = complaints.iter().any(|said| said.contains("had wrong words"));
        assert!(found, "{}: {complaints:?}", mutant.name());
    }
}

#[test]
fn shared_line_of_open_transactions_is_detected() {
    let outcome = simulate("tiny-lad", "volatile", true);
    println!("{:?}", outcome.complaints);
    assert_eq!(outcome.checked, Some(false));
    assert!(outcome.isolation_hits > Some(0));
    assert!(outcome.complaints.iter().any(|said| said.ends_with("to one line")));
    let alone = simulate("tiny-lad", "volatile", false);
    assert_eq!((alone.checked, alone.complaints.len()), (Some(true), 0));
    assert_eq!(alone.isolation_hits, Some(0));
}
