//! Litmus tests: cores see each other's stores only as total store order allows, and each relaxed
//! outcome that it allows does occur.
//!
//! Every test runs many rounds, each on lines of its own. Their places, their states in the caches,
//! and the threads' delays are random, from a seed. `-- --nocapture` prints the number of outcomes.

#[path = "../litmus/reference.rs"]
mod reference;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::bare::{Core, builtin, machine_of, run, wait_for, word};
use reference::Instr::{self, Fence, Load, Store};
use reference::{Outcome, VARIABLES, allowed};
use sim::design::Volatile;
use sim::machine::kernel::Program;

const X: usize = 0;
const Y: usize = 1;

/// The number of rounds of a test on a machine.
const ROUNDS: usize = 300;

/// Cycles of a round: it prepares its lines in the first half, and runs in the second.
const ROUND_CYCLES: u64 = 8000;

/// The generator splitmix64 (Steele, Lea, Flood, *Fast splittable pseudorandom number generators*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }
}

/// A round: the places of its variables, the cores that hold their lines, and the threads' delays.
struct Round {
    words: [u64; VARIABLES],
    /// For each variable, the cores that load it, and the core that stores 0 into it.
    loaded: [u64; VARIABLES],
    stored: [u64; VARIABLES],
    /// For each thread, the instructions before each of its own.
    delays: Vec<Vec<u64>>,
}

impl Round {
    fn random(random: &mut Random, number: usize, threads: &[Vec<Instr>]) -> Round {
        let line = 64 + 16 * number as u32;
        let apart = random.below(4) > 0;
        let other = if apart { word(line + 1 + random.below(15) as u32) } else { word(line) + 1 };
        let mut masks = || [0; VARIABLES].map(|_| random.below(16) & random.below(16));
        let loaded = masks();
        let stored = [0; VARIABLES].map(|_| random.below(8));
        let mut delay = |most: &[u64]| {
            let most = most[random.below(most.len() as u64) as usize];
            random.below(most)
        };
        let delays = threads.iter().map(|thread| {
            let first = delay(&[1, 100, 1000]);
            [first].into_iter().chain(thread.iter().map(|_| delay(&[1, 1, 40, 600]))).collect()
        });
        let delays = delays.collect();
        Round { words: [word(line), other], loaded, stored, delays }
    }

    /// Brings the lines into the round's initial states.
    fn prepare(&self, hart: &mut Core<'_>) {
        let core = hart.core() as u64;
        for variable in 0..VARIABLES {
            if self.stored[variable] == core {
                hart.store(self.words[variable], 0, 0);
                hart.fence();
            }
        }
        hart.instructions(2000);
        for variable in 0..VARIABLES {
            if self.loaded[variable] >> core & 1 == 1 {
                hart.load(self.words[variable], 0);
            }
        }
        hart.fence();
    }

    /// Runs a thread and returns its registers.
    fn execute(&self, hart: &mut Core<'_>, thread: &[Instr]) -> Vec<u64> {
        let delays = &self.delays[hart.core()];
        let mut registers = Vec::new();
        for (instr, delay) in thread.iter().zip(delays) {
            hart.instructions(*delay);
            match *instr {
                Store(variable, value) => hart.store(self.words[variable], 0, value),
                Load(variable) => registers.push(hart.load(self.words[variable], 0)),
                Fence => hart.fence(),
            }
        }
        registers
    }
}

type Registers = Rc<RefCell<Vec<Vec<Vec<u64>>>>>;

/// Runs the rounds of a test on a machine, and counts each outcome.
fn seen(machine: &str, threads: &[Vec<Instr>], seed: u64) -> BTreeMap<Outcome, u64> {
    let description = builtin(machine, &["cores=4"]);
    let mut random = Random(seed);
    let rounds: Vec<Round> =
        (0..ROUNDS).map(|number| Round::random(&mut random, number, threads)).collect();
    let rounds = Rc::new(rounds);
    let registers: Registers = Rc::new(RefCell::new(vec![vec![Vec::new(); threads.len()]; ROUNDS]));
    let programs = (0..4).map(|core| -> Program<Volatile> {
        let thread = threads.get(core).cloned();
        let (rounds, registers) = (Rc::clone(&rounds), Rc::clone(&registers));
        Box::new(move |hart| {
            for (number, round) in rounds.iter().enumerate() {
                let began = (number as u64 + 1) * ROUND_CYCLES;
                wait_for(hart, began);
                round.prepare(hart);
                wait_for(hart, began + ROUND_CYCLES / 2);
                if let Some(thread) = &thread {
                    let result = round.execute(hart, thread);
                    registers.borrow_mut()[number][core] = result;
                }
                hart.fence();
            }
        })
    });
    let machine = run(machine_of(&description, Volatile), programs.collect());
    let machine = machine.expect("no deadlock");
    assert_eq!(machine.counts.wrong_fills, 0);
    let mut outcomes = BTreeMap::new();
    for (round, registers) in rounds.iter().zip(registers.take()) {
        let memory = round.words.map(|word| machine.memory.word(word));
        *outcomes.entry(Outcome { registers, memory }).or_default() += 1;
    }
    outcomes
}

/// Runs a test on every machine. With `relaxed`, outcomes that only store buffers allow must occur
/// on some of them.
fn test(name: &str, threads: &[Vec<Instr>], relaxed: bool) {
    let (tso, sc) = (allowed(threads, 8), allowed(threads, 0));
    assert!(sc.is_subset(&tso));
    assert!(relaxed || sc == tso, "{name}: the test needs `relaxed`, for it has relaxed outcomes");
    let (mut of_all, mut weak, mut rounds) = (std::collections::BTreeSet::new(), 0, 0);
    for (seed, machine) in (1..).zip(["lad", "tiny-lad", "redu", "tiny-redu", "tiny-ssp"]) {
        for (outcome, times) in seen(machine, threads, seed) {
            assert!(tso.contains(&outcome), "{name} on {machine}, seed {seed}: {outcome:?}");
            weak += if sc.contains(&outcome) { 0 } else { times };
            rounds += times;
            of_all.insert(outcome);
        }
    }
    println!(
        "{name:10} {rounds} rounds: {} of {} allowed outcomes; {weak} rounds that are not \
         sequentially consistent",
        of_all.len(),
        tso.len(),
    );
    assert_eq!(weak > 0, relaxed, "{name}");
    assert!(
        of_all.len() > 1 || tso.len() == 1,
        "{name}: a single outcome, so the rounds do not vary"
    );
}

#[test]
fn loads_pass_earlier_stores_without_a_fence() {
    test("SB", &[vec![Store(X, 1), Load(Y)], vec![Store(Y, 1), Load(X)]], true);
    let fenced = |own, other| vec![Store(own, 1), Fence, Load(other)];
    test("SB+fences", &[fenced(X, Y), fenced(Y, X)], false);
    test("SB+fence", &[fenced(X, Y), vec![Store(Y, 1), Load(X)]], true);
}

#[test]
fn own_store_is_forwarded_before_it_is_visible() {
    test("n6", &[vec![Store(X, 1), Load(X), Load(Y)], vec![Store(Y, 2), Store(X, 2)]], true);
    test("n5", &[vec![Store(X, 1), Load(X)], vec![Store(X, 2), Load(X)]], false);
    let both = |own, other| vec![Store(own, 1), Load(own), Load(other)];
    test("n7", &[both(X, Y), both(Y, X)], true);
}

#[test]
fn stores_and_loads_keep_program_order() {
    test("MP", &[vec![Store(X, 1), Store(Y, 1)], vec![Load(Y), Load(X)]], false);
    test("LB", &[vec![Load(X), Store(Y, 1)], vec![Load(Y), Store(X, 1)]], false);
    test("2+2W", &[vec![Store(X, 1), Store(Y, 2)], vec![Store(Y, 1), Store(X, 2)]], false);
    test("S", &[vec![Store(X, 2), Store(Y, 1)], vec![Load(Y), Store(X, 1)]], false);
    test("R", &[vec![Store(X, 1), Store(Y, 1)], vec![Store(Y, 2), Load(X)]], true);
    let fenced = vec![Store(Y, 2), Fence, Load(X)];
    test("R+fence", &[vec![Store(X, 1), Store(Y, 1)], fenced], false);
}

#[test]
fn stores_are_multi_copy_atomic() {
    let readers = [vec![Load(X), Load(Y)], vec![Load(Y), Load(X)]];
    let writers = [vec![Store(X, 1)], vec![Store(Y, 1)]];
    test("IRIW", &[writers, readers].concat(), false);
    let wrc = [vec![Store(X, 1)], vec![Load(X), Store(Y, 1)], vec![Load(Y), Load(X)]];
    test("WRC", &wrc, false);
    let rwc = [vec![Store(X, 1)], vec![Load(X), Load(Y)], vec![Store(Y, 1), Load(X)]];
    test("RWC", &rwc, true);
}

#[test]
fn single_word_is_coherent() {
    test("CoRR", &[vec![Store(X, 1)], vec![Load(X), Load(X)]], false);
    test("CoWW", &[vec![Store(X, 1), Store(X, 2)], vec![Load(X), Load(X)]], false);
    test("CoRW", &[vec![Load(X), Store(X, 1)], vec![Store(X, 2)]], false);
    test("CoRR2", &[vec![Store(X, 1)], vec![Store(X, 2)], vec![Load(X), Load(X)]], false);
}

#[test]
fn reference_matches_textbook_outcomes() {
    let sb = [vec![Store(X, 1), Load(Y)], vec![Store(Y, 1), Load(X)]];
    let both_zero = |outcome: &Outcome| outcome.registers == [vec![0], vec![0]];
    assert!(allowed(&sb, 8).iter().any(both_zero) && !allowed(&sb, 0).iter().any(both_zero));
    let n6 = [vec![Store(X, 1), Load(X), Load(Y)], vec![Store(Y, 2), Store(X, 2)]];
    let weak = Outcome { registers: vec![vec![1, 0], vec![]], memory: [1, 2] };
    assert!(allowed(&n6, 8).contains(&weak) && !allowed(&n6, 0).contains(&weak));
    assert_eq!(allowed(&n6, 0).len() + 1, allowed(&n6, 8).len());
}
