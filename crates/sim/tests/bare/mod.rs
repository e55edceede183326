//! A machine whose cores run bare instructions: loads, stores, write-backs and fences of words at
//! addresses that the test chooses.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part")]

use lw_alloc::Heap;
use sim::Error;
use sim::design::{Design, Volatile};
use sim::machine::description::Description;
use sim::machine::kernel::{self, Program};
use sim::machine::memory::Memory;
use sim::machine::sparse::Sparse;
use sim::machine::{Hart, Machine};

/// The tag of the heap's pointers.
pub(crate) const TAG: u16 = 0x51;

/// Lines of persistent memory.
pub(crate) const LINES: u32 = 1 << 16;

/// Lines of volatile memory, besides those of locks.
pub(crate) const VOLATILE_LINES: u32 = 1 << 15;

pub(crate) type Core<'y> = Hart<'y, Volatile>;
pub(crate) type Bare = Machine<Volatile>;

/// Returns a built-in machine with these settings.
pub(crate) fn builtin(name: &str, settings: &[&str]) -> Description {
    let mut description = Description::builtin(name).unwrap();
    settings.iter().for_each(|setting| description.set(setting).unwrap());
    description.validate().unwrap();
    description
}

/// Returns an idle machine of this description, whose words are all 0.
pub(crate) fn machine_of<D: Design>(description: &Description, design: D) -> Box<Machine<D>> {
    let memory = Memory::new(&Sparse::zeros(LINES as usize * 8), 0, VOLATILE_LINES, true);
    Box::new(Machine::new(description.clone(), memory, design))
}

/// Runs a program on each core until the machine is idle.
pub(crate) fn run<D: Design>(
    machine: Box<Machine<D>>,
    programs: Vec<Program<D>>,
) -> Result<Box<Machine<D>>, Error> {
    let bytes = u64::from(LINES) * 64;
    kernel::run(machine, (Heap::new(TAG, bytes), TAG, bytes), programs, &mut |_| {})
}

/// Runs a program on one core while the others are idle. Returns the program's result.
pub(crate) fn alone<R: 'static>(
    description: &Description,
    core: usize,
    program: impl FnOnce(&mut Core<'_>) -> R + 'static,
) -> (R, Box<Bare>) {
    let result = std::rc::Rc::new(std::cell::Cell::new(None));
    let mut programs: Vec<Program<Volatile>> = Vec::new();
    (0..core).for_each(|_| programs.push(Box::new(|_| {})));
    let out = std::rc::Rc::clone(&result);
    programs.push(Box::new(move |hart| out.set(Some(program(hart)))));
    let machine = run(machine_of(description, Volatile), programs).unwrap();
    (result.take().unwrap(), machine)
}

/// Returns the tagged pointer to a word.
pub(crate) fn pointer(word: u64) -> u64 {
    (u64::from(TAG) << words::ADDRESS_BITS) | (word * 8)
}

/// Returns the first word of a line.
pub(crate) fn word(line: u32) -> u64 {
    u64::from(line) * 8
}

/// Advances to a cycle in which nothing is dispatched yet, and returns it.
pub(crate) fn fresh_cycle<D: Design>(hart: &mut Hart<'_, D>) -> u64 {
    let before = hart.cycle();
    while hart.cycle() == before {
        hart.instructions(1);
    }
    hart.cycle()
}

/// Dispatches instructions up to this cycle.
pub(crate) fn wait_for<D: Design>(hart: &mut Hart<'_, D>, cycle: u64) {
    let width = u64::from(hart.machine().description.core.width);
    let left = cycle.saturating_sub(hart.cycle());
    hart.instructions(left * width);
}

/// Returns the cycles of `body`, between two times at which the core is idle.
pub(crate) fn timed<D: Design>(hart: &mut Hart<'_, D>, body: impl FnOnce(&mut Hart<'_, D>)) -> u64 {
    hart.fence();
    let began = fresh_cycle(hart);
    body(hart);
    hart.fence();
    hart.cycle() - began
}
