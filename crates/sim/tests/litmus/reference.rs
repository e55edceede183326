//! Total store order as an abstract machine: threads with store buffers over one memory.
//!
//! The search visits all interleavings, so the allowed outcomes are computed and not written by
//! hand. (Owens, Sarkar, Sewell, *A better x86 memory model: x86-TSO*, TPHOLs 2009.)

use std::collections::{BTreeSet, HashSet, VecDeque};

/// The number of variables of a test.
pub(crate) const VARIABLES: usize = 2;

/// An instruction of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instr {
    /// Stores a value into a variable.
    Store(usize, u64),
    /// Loads a variable into the thread's next register.
    Load(usize),
    /// Waits until the store buffer is empty.
    Fence,
}

/// The final registers of all threads, and the final memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Outcome {
    pub(crate) registers: Vec<Vec<u64>>,
    pub(crate) memory: [u64; VARIABLES],
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    /// The next instruction of each thread; `buffers` has the stores that have not reached memory.
    at: Vec<usize>,
    buffers: Vec<VecDeque<(usize, u64)>>,
    outcome: Outcome,
}

/// Returns every outcome of these threads with so many store-buffer slots each. With 0 slots, this
/// is sequential consistency.
pub(crate) fn allowed(threads: &[Vec<Instr>], slots: usize) -> BTreeSet<Outcome> {
    let outcome = Outcome { registers: vec![Vec::new(); threads.len()], memory: [0; VARIABLES] };
    let (at, buffers) = (vec![0; threads.len()], vec![VecDeque::new(); threads.len()]);
    let first = State { at, buffers, outcome };
    let (mut seen, mut open) = (HashSet::from([first.clone()]), vec![first]);
    let mut outcomes = BTreeSet::new();
    while let Some(state) = open.pop() {
        let next: Vec<State> = (0..threads.len())
            .flat_map(|thread| [drains(&state, thread), goes_on(&state, threads, thread, slots)])
            .flatten()
            .collect();
        if next.is_empty() {
            outcomes.insert(state.outcome);
            continue;
        }
        open.extend(next.into_iter().filter(|state| seen.insert(state.clone())));
    }
    outcomes
}

/// Drains the oldest store of a thread to memory.
fn drains(state: &State, thread: usize) -> Option<State> {
    let mut next = state.clone();
    let (variable, value) = next.buffers[thread].pop_front()?;
    next.outcome.memory[variable] = value;
    Some(next)
}

/// Executes the next instruction of a thread, if it can proceed.
fn goes_on(state: &State, threads: &[Vec<Instr>], thread: usize, slots: usize) -> Option<State> {
    let instr = *threads[thread].get(state.at[thread])?;
    let mut next = state.clone();
    next.at[thread] += 1;
    let buffer = &mut next.buffers[thread];
    match instr {
        Instr::Fence if !buffer.is_empty() => return None,
        Instr::Fence => {}
        Instr::Store(variable, value) if slots == 0 => next.outcome.memory[variable] = value,
        Instr::Store(variable, value) if buffer.len() < slots => {
            buffer.push_back((variable, value));
        }
        Instr::Store(..) => return None,
        Instr::Load(variable) => {
            let own = buffer.iter().rev().find(|store| store.0 == variable);
            let value = own.map_or(next.outcome.memory[variable], |store| store.1);
            next.outcome.registers[thread].push(value);
        }
    }
    Some(next)
}
