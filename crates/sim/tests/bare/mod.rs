//! A machine on which cores run bare instructions: loads, stores, write-backs and fences of words
//! that lie where the test says.

#![allow(dead_code, clippy::unwrap_used, reason = "each test program uses a part")]

use lw_alloc::Heap;
use sim::Error;
use sim::design::{Design, Volatile};
use sim::machine::description::Description;
use sim::machine::kernel::{self, Program};
use sim::machine::memory::Memory;
use sim::machine::{Hart, Machine};

/// The tag of the heap's pointers.
pub(crate) const TAG: u16 = 0x51;

/// Lines of persistent memory.
pub(crate) const LINES: u32 = 1 << 16;

/// Lines of volatile memory, besides those of locks.
pub(crate) const VOLATILE_LINES: u32 = 1 << 15;

pub(crate) type Core<'y> = Hart<'y, Volatile>;
pub(crate) type Bare = Machine<Volatile>;

/// A built-in machine, with some settings.
pub(crate) fn builtin(name: &str, settings: &[&str]) -> Description {
    let mut description = Description::builtin(name).unwrap();
    settings.iter().for_each(|setting| description.set(setting).unwrap());
    description.validate().unwrap();
    description
}

/// A machine of this description at rest; every word is 0.
pub(crate) fn machine_of<D: Design>(description: &Description, design: D) -> Box<Machine<D>> {
    let memory = Memory::new(&vec![0; LINES as usize * 8], 0, VOLATILE_LINES, true);
    Box::new(Machine::new(description.clone(), memory, design))
}

/// Runs a program on each core, until the machine is at rest.
pub(crate) fn run<D: Design>(
    machine: Box<Machine<D>>,
    programs: Vec<Program<D>>,
) -> Result<Box<Machine<D>>, Error> {
    let bytes = u64::from(LINES) * 64;
    kernel::run(machine, (Heap::new(TAG, bytes), TAG, bytes), programs, &mut |_| {})
}

/// Runs a program on one core of a machine, while the others stand still; answers what it answers.
pub(crate) fn alone<R: 'static>(
    description: &Description,
    core: usize,
    program: impl FnOnce(&mut Core<'_>) -> R + 'static,
) -> (R, Box<Bare>) {
    let answer = std::rc::Rc::new(std::cell::Cell::new(None));
    let mut programs: Vec<Program<Volatile>> = Vec::new();
    (0..core).for_each(|_| programs.push(Box::new(|_| {})));
    let told = std::rc::Rc::clone(&answer);
    programs.push(Box::new(move |hart| told.set(Some(program(hart)))));
    let machine = run(machine_of(description, Volatile), programs).unwrap();
    (answer.take().unwrap(), machine)
}

/// The tagged pointer to a word.
pub(crate) fn pointer(word: u64) -> u64 {
    (u64::from(TAG) << words::ADDRESS_BITS) | (word * 8)
}

/// The first word of a line.
pub(crate) fn word(line: u32) -> u64 {
    u64::from(line) * 8
}

/// Goes on to a cycle in which nothing is dispatched yet, and answers it.
pub(crate) fn fresh_cycle<D: Design>(hart: &mut Hart<'_, D>) -> u64 {
    let before = hart.cycle();
    while hart.cycle() == before {
        hart.instructions(1);
    }
    hart.cycle()
}

/// Dispatches instructions up to this cycle, if it is later.
pub(crate) fn wait_for<D: Design>(hart: &mut Hart<'_, D>, cycle: u64) {
    let width = u64::from(hart.machine().description.core.width);
    let left = cycle.saturating_sub(hart.cycle());
    hart.instructions(left * width);
}

/// Cycles of what stands between two moments at which the core is at rest.
pub(crate) fn timed<D: Design>(hart: &mut Hart<'_, D>, body: impl FnOnce(&mut Hart<'_, D>)) -> u64 {
    hart.fence();
    let began = fresh_cycle(hart);
    body(hart);
    hart.fence();
    hart.cycle() - began
}
