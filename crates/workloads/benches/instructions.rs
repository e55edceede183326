//! Measures the instructions of operations beside their loads and stores: the constants of
//! `words::work`.
//!
//! ```sh
//! cargo bench -p lastword-workloads --bench instructions --no-run # prints the path of PROGRAM
//! valgrind --tool=callgrind --callgrind-out-file=callgrind.out PROGRAM
//! callgrind_annotate --inclusive=yes --threshold=100 callgrind.out | PROGRAM table
//! ```
//!
//! Each operation runs some thousand times in a function of its own, on a heap in a `Vec<u64>` that
//! checks nothing and counts accesses. callgrind counts the function's instructions. The costs of
//! that heap's reads and writes are measured the same way, and subtracted, and so is the loop's.
#![allow(clippy::unwrap_used, reason = "a benchmark ends by panicking")]

use std::collections::HashMap as StdMap;
use std::hint::black_box;
use std::io::{BufRead, stdin};

use collections::raw::{BTree, ChainedTable, HashMap, Queue, RbTree};
use lw_alloc::Heap;
use words::{Addr, Allocate, Stop, Transact, Words};
use workloads::{
    Bank, Btree, Chains, Cq, HashTable, Options, Pc, Rbt, Sps, TatpBtree, TatpHash, TpccBtree,
    TpccHash, Vacation, Workload, YcsbA,
};

const TIMES: u64 = 10_000;

/// An unchecked heap.
struct Plain {
    words: Vec<u64>,
    heap: Heap,
    counts: Counts,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    reads: u64,
    writes: u64,
    /// Instructions that operations announced.
    computed: u64,
}

impl Plain {
    fn new(bytes: u64) -> Plain {
        let heap = Heap::new(1, bytes);
        let mut plain =
            Plain { words: vec![0; bytes as usize / 8], heap, counts: Counts::default() };
        heap.format(&mut plain).unwrap();
        plain
    }
}

/// Returns the place of a word; every place exists, so no access is refused.
#[inline(always)]
fn index(at: Addr) -> usize {
    (at.byte() & 0xffff_ffff_ffff) as usize / 8
}

impl Words for Plain {
    #[inline(always)]
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.counts.reads += 1;
        Ok(self.words[index(at)])
    }

    #[inline(always)]
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.counts.writes += 1;
        self.words[index(at)] = value;
        Ok(())
    }

    #[inline(always)]
    fn compute(&mut self, instructions: u32) {
        self.counts.computed += u64::from(instructions);
    }

    #[inline]
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        let heap = self.heap;
        heap.retire(self, 0, at, bytes).map(drop)
    }
}

impl Allocate for Plain {
    #[inline]
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        let heap = self.heap;
        heap.allocate(self, 0, bytes)
    }

    fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop> {
        let heap = self.heap;
        heap.allocate_pieces(self, 0, bytes)
    }

    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
        let heap = self.heap;
        heap.resize(self, first, from, to)
    }

    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        let heap = self.heap;
        heap.reserve_blocks(self, blocks)
    }

    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
        let heap = self.heap;
        heap.prepare_blocks(self, first, most)
    }

    fn root(&mut self) -> Result<u64, Stop> {
        let heap = self.heap;
        heap.root(self)
    }

    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        let heap = self.heap;
        heap.set_root(self, object)
    }
}

impl Transact for Plain {
    type Tx<'t> = Plain;
    type Error = Stop;

    fn transact<R>(
        &mut self,
        mut body: impl FnMut(&mut Plain) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        body(self)
    }
}

/// The measured functions, by name: each does so many operations.
type Measured = fn(&mut Plain, &mut State) -> u64;

/// The data of the measured functions.
struct State {
    at: Vec<Addr>,
    map: HashMap,
    table: ChainedTable<4>,
    list: ChainedTable<4>,
    tree: RbTree,
    small: BTree<15>,
    large: BTree<31>,
    /// One node each: of three entries, of 28.
    few: BTree<28>,
    many: BTree<28>,
    queue: Queue,
    objects: Vec<u64>,
}

/// Returns keys without a pattern that repeats.
fn key(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

/// Runs `operation` so many times, with one of so many keys each.
#[inline(always)]
fn over<R>(times: u64, keys: u64, mut operation: impl FnMut(u64, u64) -> R) -> u64 {
    for n in 0..times {
        black_box(operation(key(n % keys), n));
    }
    times
}

impl State {
    fn new(tx: &mut Plain) -> Result<State, Stop> {
        let block = tx.allocate(1024)?;
        let at = (0..TIMES).map(|n| Addr::new(block, n % 128 * 8)).collect();
        let map = HashMap::create(tx, 4096)?;
        let (table, list) = (ChainedTable::reserve(tx, 2048)?, ChainedTable::reserve(tx, 1)?);
        assert!(table.prepare(tx, 1000)? && list.prepare(tx, 1000)?);
        let tree = RbTree::create(tx)?;
        let (small, large) = (BTree::create(tx)?, BTree::create(tx)?);
        for n in 0..2000 {
            let _ = map.insert(tx, key(n), n)?;
            table.insert(tx, key(n), &[n; 4])?;
            tree.insert(tx, key(n), n)?;
            small.insert(tx, key(n), n)?;
            large.insert(tx, key(n), n)?;
        }
        for n in 0..100 {
            list.insert(tx, key(n), &[n; 4])?;
        }
        let (few, many, queue) = (BTree::create(tx)?, BTree::create(tx)?, Queue::create(tx, 1000)?);
        for n in 0..28 {
            many.insert(tx, key(n), n)?;
        }
        for n in 0..3 {
            few.insert(tx, key(n), n)?;
        }
        for n in 0..500 {
            queue.push(tx, &[n; 7])?;
        }
        let objects = Vec::new();
        Ok(State { at, map, table, list, tree, small, large, few, many, queue, objects })
    }
}

#[inline(never)]
fn measured_loop(_tx: &mut Plain, state: &mut State) -> u64 {
    for at in &state.at {
        black_box(at.byte());
    }
    TIMES
}

#[inline(never)]
fn measured_read(tx: &mut Plain, state: &mut State) -> u64 {
    for &at in &state.at {
        black_box(tx.read(at).unwrap());
    }
    TIMES
}

#[inline(never)]
fn measured_write(tx: &mut Plain, state: &mut State) -> u64 {
    for &at in &state.at {
        tx.write(at, black_box(at.byte())).unwrap();
    }
    TIMES
}

#[inline(never)]
fn measured_keys(_tx: &mut Plain, _state: &mut State) -> u64 {
    over(TIMES, 2000, |key, _| key)
}

#[inline(never)]
fn measured_hash(_tx: &mut Plain, state: &mut State) -> u64 {
    let map = state.map;
    over(TIMES, 2000, |key, _| map.start(key))
}

#[inline(never)]
fn measured_allocate(tx: &mut Plain, state: &mut State) -> u64 {
    state.objects.extend((0..TIMES).map(|_| tx.allocate(48).unwrap()));
    TIMES
}

#[inline(never)]
fn measured_retire(tx: &mut Plain, state: &mut State) -> u64 {
    state.objects.drain(..).for_each(|object| tx.retire(Addr::new(object, 0), 48).unwrap());
    TIMES
}

#[inline(never)]
fn measured_map_get(tx: &mut Plain, state: &mut State) -> u64 {
    let map = state.map;
    over(TIMES, 2000, |key, _| map.get(tx, key))
}

#[inline(never)]
fn measured_list_get(tx: &mut Plain, state: &mut State) -> u64 {
    let list = state.list;
    over(TIMES, 100, |key, _| list.get(tx, key))
}

#[inline(never)]
fn measured_table_get(tx: &mut Plain, state: &mut State) -> u64 {
    let table = state.table;
    over(TIMES, 2000, |key, _| table.get(tx, key))
}

#[inline(never)]
fn measured_rb_get(tx: &mut Plain, state: &mut State) -> u64 {
    let tree = state.tree;
    over(TIMES, 2000, |key, _| tree.get(tx, key))
}

#[inline(never)]
fn measured_small_get(tx: &mut Plain, state: &mut State) -> u64 {
    let tree = state.small;
    over(TIMES, 2000, |key, _| tree.get(tx, key))
}

#[inline(never)]
fn measured_large_get(tx: &mut Plain, state: &mut State) -> u64 {
    let tree = state.large;
    over(TIMES, 2000, |key, _| tree.get(tx, key))
}

#[inline(never)]
fn measured_few_get(tx: &mut Plain, state: &mut State) -> u64 {
    let tree = state.few;
    over(TIMES, 2000, |key, _| tree.get(tx, key))
}

#[inline(never)]
fn measured_many_get(tx: &mut Plain, state: &mut State) -> u64 {
    let tree = state.many;
    over(TIMES, 2000, |key, _| tree.get(tx, key))
}

#[inline(never)]
fn measured_queue_pop(tx: &mut Plain, state: &mut State) -> u64 {
    let queue = state.queue;
    over(500, 2000, |_, _| queue.pop(tx))
}

#[inline(never)]
fn measured_queue_push(tx: &mut Plain, state: &mut State) -> u64 {
    let queue = state.queue;
    over(500, 2000, |key, _| queue.push(tx, &[key; 7]))
}

#[inline(never)]
fn measured_rb_remove(tx: &mut Plain, state: &mut State) -> u64 {
    let tree = state.tree;
    over(1000, 2000, |key, _| tree.remove(tx, key))
}

#[inline(never)]
fn measured_rb_insert(tx: &mut Plain, state: &mut State) -> u64 {
    let tree = state.tree;
    over(1000, 2000, |key, n| tree.insert(tx, key, n))
}

#[inline(never)]
fn measured_table_remove(tx: &mut Plain, state: &mut State) -> u64 {
    let table = state.table;
    over(1000, 2000, |key, _| table.remove(tx, key))
}

#[inline(never)]
fn measured_table_insert(tx: &mut Plain, state: &mut State) -> u64 {
    let table = state.table;
    over(1000, 2000, |key, n| table.insert(tx, key, &[n; 4]))
}

#[inline(never)]
fn measured_large_remove(tx: &mut Plain, state: &mut State) -> u64 {
    let tree = state.large;
    over(1000, 2000, |key, _| tree.remove(tx, key))
}

#[inline(never)]
fn measured_large_insert(tx: &mut Plain, state: &mut State) -> u64 {
    let tree = state.large;
    over(1000, 2000, |key, n| tree.insert(tx, key, n))
}

/// Lists them. Each workload gets two functions: the first generates transactions, the second also
/// runs them.
macro_rules! measured {
    ($($name:ident)* ; $($draw:ident $run:ident $workload:ty),*) => {
        const OPERATIONS: &[(&str, Measured)] = &[$((stringify!($name), $name)),*];

        $(
            #[inline(never)]
            fn $draw(workload: &$workload, client: &mut <$workload as Workload>::Client) {
                (0..TIMES).for_each(|_| workload.next(black_box(&mut *client)));
            }

            #[inline(never)]
            fn $run(
                tx: &mut Plain,
                workload: &$workload,
                client: &mut <$workload as Workload>::Client,
            ) {
                for _ in 0..TIMES {
                    workload.next(client);
                    // A transaction that aborts itself is not rolled back here.
                    if !workload.gives_up(client) {
                        workload.run(client, tx).unwrap();
                    }
                }
            }
        )*

        fn run_workloads(visit: &mut impl FnMut(&'static str, u64, Counts)) {
            $({
                let options = Options { scale: 0.01, ..Options::default() };
                let mut tx = Plain::new(<$workload>::heap_bytes(&options));
                let workload = <$workload>::load(&mut tx, &options).unwrap();
                let mut client = workload.client(0, 1);
                workload.tune(&mut client, &options);
                $draw(&workload, &mut client.clone());
                visit(stringify!($draw), TIMES, Counts::default());
                tx.counts = Counts::default();
                $run(&mut tx, &workload, &mut client);
                visit(stringify!($run), TIMES, tx.counts);
                assert!(workload.check(&mut tx).unwrap().is_empty(), "{}", stringify!($run));
            })*
        }
    };
}

measured!(
    measured_loop measured_read measured_write measured_keys measured_hash
    measured_allocate measured_retire measured_map_get measured_list_get measured_table_get
    measured_rb_get measured_few_get measured_many_get measured_small_get measured_large_get
    measured_queue_pop measured_queue_push
    measured_rb_remove measured_rb_insert measured_table_remove measured_table_insert
    measured_large_remove measured_large_insert;
    draw_bank run_bank Bank, draw_hashtable run_hashtable HashTable, draw_btree run_btree Btree,
    draw_tatp_hash run_tatp_hash TatpHash, draw_tatp_btree run_tatp_btree TatpBtree,
    draw_tpcc_hash run_tpcc_hash TpccHash, draw_tpcc_btree run_tpcc_btree TpccBtree,
    draw_chains run_chains Chains, draw_rbt run_rbt Rbt, draw_cq run_cq Cq, draw_pc run_pc Pc,
    draw_sps run_sps Sps, draw_vacation run_vacation Vacation, draw_ycsb_a run_ycsb_a YcsbA
);

/// Runs everything; calls `visit` with each function's name, its operations and its counts.
fn run_all(visit: &mut impl FnMut(&'static str, u64, Counts)) {
    let mut tx = Plain::new(64 << 20);
    let mut state = State::new(&mut tx).unwrap();
    // The first allocations make slabs; the measured ones take from a free list.
    measured_allocate(&mut tx, &mut state);
    measured_retire(&mut tx, &mut state);
    visit("", 0, Counts::default());
    for (name, measured) in OPERATIONS {
        tx.counts = Counts::default();
        let times = measured(&mut tx, &mut state);
        visit(name, times, tx.counts);
    }
    run_workloads(visit);
}

/// Joins callgrind's instructions, by function, with the counts.
fn table() {
    let mut found = StdMap::new();
    for line in stdin().lock().lines() {
        let line = line.unwrap();
        let Some((_, name)) = line.split_once("instructions::") else { continue };
        let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let digits = line.trim_start().split([' ', '(']).next().unwrap_or_default();
        if let Ok(instructions) = digits.replace(',', "").parse::<u64>() {
            found.entry(name).or_insert(instructions);
        }
    }
    let each = |name: &str, times: u64| found.get(name).map_or(0.0, |&ir| ir as f64 / times as f64);
    let beside = each("measured_loop", TIMES);
    let read = each("measured_read", TIMES) - beside;
    let write = each("measured_write", TIMES) - beside;
    println!("a read of this heap: {read:.1}, a write: {write:.1}\n");
    println!("| operation | instructions | reads | writes | beside them | charged |");
    println!("|---|---|---|---|---|---|");
    run_all(&mut |name, times, counts| {
        // Two of the operations ran once before: callgrind counts both runs.
        let runs = if matches!(name, "measured_allocate" | "measured_retire") { 2 } else { 1 };
        let per = |count: u64| count as f64 / times as f64;
        let (all, reads, writes) =
            (each(name, runs * times), per(counts.reads), per(counts.writes));
        if times > 0 {
            println!(
                "| {} | {all:.1} | {reads:.2} | {writes:.2} | {:.1} | {:.1} |",
                name.trim_start_matches("measured_"),
                all - reads * read - writes * write,
                per(counts.computed)
            );
        }
    });
}

fn main() {
    match std::env::args().skip(1).find(|argument| argument != "--bench").as_deref() {
        Some("table") => table(),
        _ => run_all(&mut |_, _, _| {}),
    }
}
