//! The kernel: runs a program on each core until all have ended.
//!
//! Whatever acts first acts next. Controllers, engines and store buffers act at once; a core's
//! program is a coroutine, which is given the machine and hands it back when another core is first.
//! So the program's code is plain, and nothing of the machine is shared.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use lw_alloc::Heap;

use super::hart::Hart;
use super::{Machine, Turn};
use crate::design::Design;
use crate::error::Error;

/// Bytes of a coroutine's stack: a program's transactions run on it.
const STACK_BYTES: usize = 1 << 20;

/// The heap that harts allocate from: its geometry, its tag and its size in bytes.
pub type HeapOf = (Heap, u16, u64);

type Routine<D> = Coroutine<Box<Machine<D>>, Box<Machine<D>>, Box<Machine<D>>, DefaultStack>;

/// What a core runs.
pub type Program<D> = Box<dyn FnOnce(&mut Hart<'_, D>)>;

/// Runs a program on each core, from the machine's time on, until all have ended and the machine is
/// at rest. Whoever watches is shown the machine now and then.
///
/// # Errors
/// [`Error::Deadlock`] when nobody can go on.
///
/// # Panics
/// With more programs than cores, or when a program does.
pub fn run<D: Design>(
    machine: Box<Machine<D>>,
    heap: HeapOf,
    programs: Vec<Program<D>>,
    watch: &mut dyn FnMut(&Machine<D>),
) -> Result<Box<Machine<D>>, Error> {
    assert!(programs.len() <= machine.cores(), "a program for each core");
    let mut machine = machine;
    let mut routines = Vec::new();
    for (core, program) in programs.into_iter().enumerate() {
        let source = machine.core_source(core);
        machine.sources.set(source, machine.now);
        routines.push(Some(routine(core, heap, program)));
    }
    for turn in 1_u64.. {
        if turn.is_multiple_of(1 << 16) {
            watch(&machine);
        }
        let core = match machine.turn.take() {
            Some(core) => core,
            None => match machine.step() {
                Turn::Done => continue,
                Turn::Nobody => break,
                Turn::Core(core) => core,
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
    let stack = DefaultStack::new(STACK_BYTES).expect("there is memory for a stack");
    let body = move |yielder: &Yielder<Box<Machine<D>>, Box<Machine<D>>>, machine| {
        let mut hart = Hart::new(machine, yielder, core, heap);
        program(&mut hart);
        hart.finish();
        hart.into_machine()
    };
    Coroutine::with_stack(stack, body)
}
