//! The kernel: runs one program per core until all of them have ended.
//!
//! Events run in the order of their times. Controllers, engines and store buffers act directly. A
//! program is a coroutine: the kernel passes it the machine, and the program returns the machine
//! when another core is due. Programs are therefore plain sequential code, and nothing is shared.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use lw_alloc::Heap;

use super::hart::Hart;
use super::{Machine, Step};
use crate::design::Design;
use crate::error::Error;

/// Stack size of a coroutine, on which a program's transactions run.
const STACK_BYTES: usize = 1 << 20;

/// The heap that harts allocate from: its geometry, its tag and its size in bytes.
pub type HeapOf = (Heap, u16, u64);

type Routine<D> = Coroutine<Box<Machine<D>>, Box<Machine<D>>, Box<Machine<D>>, DefaultStack>;

/// The program of one core.
pub type Program<D> = Box<dyn FnOnce(&mut Hart<'_, D>)>;

/// Runs one program per core, from the machine's current time until all have ended and the machine
/// is idle. `watch` sees the machine every 65,536 steps.
///
/// # Errors
/// - [`Error::Failed`] when the design has reported a failure.
/// - [`Error::Deadlock`] when no core can continue.
///
/// # Panics
/// When there are more programs than cores, or when a program panics.
pub fn run<D: Design>(
    machine: Box<Machine<D>>,
    heap: HeapOf,
    programs: Vec<Program<D>>,
    watch: &mut dyn FnMut(&Machine<D>),
) -> Result<Box<Machine<D>>, Error> {
    assert!(programs.len() <= machine.cores(), "at most one program per core");
    let mut machine = machine;
    let mut routines = Vec::new();
    for (core, program) in programs.into_iter().enumerate() {
        let source = machine.core_source(core);
        machine.sources.set(source, machine.now);
        routines.push(Some(routine(core, heap, program)));
    }
    for step in 1_u64.. {
        if step.is_multiple_of(1 << 16) {
            watch(&machine);
        }
        let core = match machine.next_core.take() {
            Some(core) => core,
            None => match machine.step() {
                Step::Done => continue,
                Step::None => break,
                Step::Core(core) => core,
            },
        };
        let routine = routines[core].as_mut().expect("it has not ended");
        match routine.resume(machine) {
            CoroutineResult::Yield(back) => machine = back,
            CoroutineResult::Return(back) => {
                machine = back;
                routines[core] = None;
            }
        }
    }
    if routines.iter().all(Option::is_none) {
        return Ok(machine);
    }
    if let Some(why) = machine.failed {
        return Err(Error::Failed { why });
    }
    let waits = |(core, routine): (usize, &Option<_>)| {
        routine.as_ref()?;
        Some(format!("core {core} waits for {}", machine.cores[core].why))
    };
    let waits: Vec<String> = routines.iter().enumerate().filter_map(waits).collect();
    Err(Error::Deadlock { cycle: machine.now, waits: waits.join(", ") })
}

fn routine<D: Design>(core: usize, heap: HeapOf, program: Program<D>) -> Routine<D> {
    let stack =
        DefaultStack::new(STACK_BYTES).expect("the host has memory for a coroutine's stack");
    let body = move |yielder: &Yielder<Box<Machine<D>>, Box<Machine<D>>>, machine| {
        let mut hart = Hart::new(machine, yielder, core, heap);
        program(&mut hart);
        hart.finish();
        hart.into_machine()
    };
    Coroutine::with_stack(stack, body)
}
