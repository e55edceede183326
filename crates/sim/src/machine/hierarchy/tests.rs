//! Tests of caches and directory against a flat memory, with the invariants checked after each
//! step.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use lw_alloc::Heap;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

use super::*;
use crate::design::Volatile;
use crate::machine::Hart;
use crate::machine::description::Description;
use crate::machine::kernel::{self, Program};
use crate::machine::memory::Memory;
use crate::machine::sparse::Sparse;

const CORES: usize = 4;

/// Few lines, so that they conflict in the few sets of small caches.
const LINES: u32 = 40;

/// A step of a core.
#[derive(Clone, Copy, Debug)]
enum Step {
    Load { line: u32, owner: usize },
    Store { line: u32 },
    WriteBack { line: u32 },
    Fence,
    Think { instructions: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let line = || 0..LINES;
    prop_oneof![
        6 => (line(), 0..CORES).prop_map(|(line, owner)| Step::Load { line, owner }),
        6 => line().prop_map(|line| Step::Store { line }),
        2 => line().prop_map(|line| Step::WriteBack { line }),
        1 => Just(Step::Fence),
        2 => (0_u64..600).prop_map(|instructions| Step::Think { instructions }),
    ]
}

/// The reference: each core stores ascending numbers into its own word of each line.
#[derive(Default)]
struct Flat {
    /// The last number stored into each word, by line and core.
    stored: BTreeMap<(u32, usize), u64>,
    /// The last number of each word that each core has loaded.
    seen: BTreeMap<(usize, u32, usize), u64>,
    numbers: u64,
}

impl Flat {
    fn loads(&mut self, core: usize, line: u32, owner: usize, value: u64) {
        let stored = self.last(line, owner);
        let seen = self.seen.entry((core, line, owner)).or_default();
        assert!(*seen <= value && value <= stored, "core {core}: {value} after {seen}");
        assert!(core != owner || value == stored, "core {core} sees its own last store");
        *seen = value;
    }

    fn stores(&mut self, core: usize, line: u32) -> u64 {
        self.numbers += 1;
        self.stored.insert((line, core), self.numbers);
        self.numbers
    }

    fn last(&self, line: u32, owner: usize) -> u64 {
        self.stored.get(&(line, owner)).copied().unwrap_or(0)
    }
}

/// Checks the invariants that hold between any two steps.
fn look(machine: &Machine<Volatile>) {
    for line in 0..LINES {
        let entry = machine.directory[line as usize];
        let states: Vec<State> = (0..CORES)
            .map(|core| {
                let of = |cache: &Cache| cache.find(line).map(|slot| cache.state(slot) & COHERENCE);
                let (inner, outer) = (of(&machine.l1[core]), machine.l2.get(core).map(of));
                assert!(
                    outer.is_none_or(|outer| inner <= outer || inner.is_some() && outer.is_some())
                );
                inner.max(outer.flatten()).unwrap_or(INVALID)
            })
            .collect();
        let holders = states.iter().filter(|state| **state != INVALID).count();
        let owners = states.iter().filter(|state| **state >= EXCLUSIVE).count();
        for (core, state) in states.iter().enumerate() {
            assert_eq!(entry >> core & 1 == 1, *state != INVALID, "line {line}, core {core}");
        }
        assert_eq!(entry & OWNED != 0, owners > 0, "line {line}: {states:?}");
        assert!(owners == 0 || holders == 1, "line {line} has one owner, or sharers: {states:?}");
        let slot = machine.llc.find(line);
        let last = slot.map_or(INVALID, |slot| machine.llc.state(slot) & COHERENCE);
        assert!(
            owners == 0 || last != MODIFIED,
            "line {line}: its owner has the duty to write it back"
        );
        let inclusive = machine.description.llc.inclusive;
        assert!(
            !inclusive || holders == 0 || last != INVALID,
            "line {line} is in the inclusive last-level cache"
        );
    }
}

fn core_program(core: usize, steps: Vec<Step>, flat: Rc<RefCell<Flat>>) -> Program<Volatile> {
    Box::new(move |hart: &mut Hart<'_, Volatile>| {
        let word = |line: u32, core: usize| u64::from(line) * 8 + core as u64;
        for step in steps {
            match step {
                Step::Load { line, owner } => {
                    let value = hart.load(word(line, owner), 0);
                    flat.borrow_mut().loads(core, line, owner, value);
                }
                Step::Store { line } => {
                    let value = flat.borrow_mut().stores(core, line);
                    hart.store(word(line, core), 0, value);
                }
                Step::WriteBack { line } => hart.write_back(line),
                Step::Fence => hart.fence(),
                Step::Think { instructions } => hart.instructions(instructions),
            }
            look(hart.machine());
        }
    })
}

/// A machine with so few sets that its caches evict all the time.
fn small(name: &str) -> Description {
    let mut description = Description::builtin(name).expect("it is built in");
    let mut settings = vec!["cores=4", "l1.bytes=256", "l1.ways=2", "llc.ways=2", "tlb.entries=0"];
    match description.l2 {
        None => settings.push("llc.bytes=1024"),
        Some(_) => settings.extend(["l2.bytes=512", "l2.ways=2", "llc.bytes=1024"]),
    }
    settings.iter().for_each(|setting| description.set(setting).expect("there is such a key"));
    description.validate().expect("the machine is valid");
    description
}

/// Runs the steps on a small machine and checks the final state.
fn simulate(name: &str, steps: &[Vec<Step>]) {
    let bytes = u64::from(LINES) * 64;
    let memory = Memory::new(&Sparse::zeros(bytes as usize / 8), 0, 0, true);
    let machine = Box::new(Machine::new(small(name), memory, Volatile));
    let flat = Rc::new(RefCell::new(Flat::default()));
    let programs = steps.iter().enumerate();
    let programs =
        programs.map(|(core, steps)| core_program(core, steps.clone(), Rc::clone(&flat)));
    let heap = (Heap::new(1, 1 << 20), 1, bytes);
    let machine = kernel::run(machine, heap, programs.collect(), &mut |_| {}).expect("all end");
    look(&machine);
    assert_eq!(machine.counts.wrong_fills, 0);
    assert_eq!(machine.writes_waiting(), 0, "the machine is idle");
    for line in 0..LINES {
        let stored: Vec<u64> = (0..CORES).map(|core| flat.borrow().last(line, core)).collect();
        assert_eq!(machine.memory.line(line)[..CORES], stored, "line {line}");
        let private = (0..CORES).map(|core| machine.private_state(core, line) & COHERENCE);
        let last =
            machine.llc.find(line).map_or(INVALID, |slot| machine.llc.state(slot) & COHERENCE);
        let modified = private.chain([last]).filter(|state| *state == MODIFIED).count();
        let is_in_array = machine.memory.media_line(line) == Some(machine.memory.line(line));
        assert!(is_in_array || modified == 1, "line {line}: {modified} caches will write it back");
    }
}

proptest! {
    /// Lines are evicted, refetched, shared, invalidated and written back. No value is lost or
    /// late, and the directory is exact.
    #[test]
    fn random_steps_match_flat_memory(
        steps in prop::collection::vec(prop::collection::vec(step(), 0..120), CORES),
    ) {
        simulate("tiny-lad", &steps);
        simulate("tiny-redu", &steps);
    }
}

/// Random steps for each core.
fn random_steps(seed: u64) -> Vec<Vec<Step>> {
    let config = ProptestConfig { rng_seed: RngSeed::Fixed(seed), ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let steps = prop::collection::vec(prop::collection::vec(step(), 60..120), CORES);
    steps.new_tree(&mut runner).expect("it can be drawn").current()
}

#[test]
fn random_steps_find_every_machine_mutant() {
    let finds = |seed| {
        let steps = random_steps(seed);
        let run = || ["tiny-lad", "tiny-redu"].iter().for_each(|name| simulate(name, &steps));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
    };
    for mutant in crate::mutants::Mutant::OF_THE_MACHINE {
        let injected = crate::mutants::inject(*mutant);
        let first = (0..200).find(|seed| finds(*seed));
        drop(injected);
        println!("{}: detected by seed {first:?}", mutant.name());
        assert!(first.is_some(), "{} was not detected", mutant.name());
    }
    assert!((0..20).all(|seed| !finds(seed)), "without a mutant, no seed fails");
}
