//! Pairs of the allocator's transactions under snapshot isolation. If two transactions on one state
//! write and protect no common object, both commit, and the heap must be sound and have the objects
//! of both. Takes the name of the injected bug and returns the violation.

use std::collections::BTreeSet;

use faults::mutants::{Mutant, inject};
use lw_alloc::{Allocation, CHUNK_BYTES, Heap, Size, Step};
use words::{Addr, PIECE_STRIDE, Stop, Words};

const TAG: u16 = 1;
const BYTES: u64 = 24 * CHUNK_BYTES;
const TRIALS: usize = 3000;

/// A heap, and the trace of the transaction on it.
struct Machine {
    heap: Heap,
    words: Vec<u64>,
    /// The changed words with their old values.
    undo: Vec<(usize, u64)>,
    /// The objects that were written or protected.
    objects: BTreeSet<u64>,
}

impl Machine {
    fn index(at: Addr) -> Result<usize, Stop> {
        let offset = at.byte().wrapping_sub(u64::from(TAG) << words::ADDRESS_BITS);
        let is_inside = offset.is_multiple_of(8) && offset < BYTES;
        is_inside.then_some(offset as usize / 8).ok_or(Stop::BadPointer)
    }

    /// Runs an operation and undoes it. Returns its changes, its objects and its result.
    fn trace(&mut self, operation: &Operation) -> Option<Traced> {
        (self.undo, self.objects) = Default::default();
        let done = operation.run(self);
        let changed = self.undo.iter().map(|(index, _)| (*index, self.words[*index])).collect();
        while let Some((index, word)) = self.undo.pop() {
            self.words[index] = word;
        }
        let objects = std::mem::take(&mut self.objects);
        done.ok().map(|allocated| Traced { changed, objects, allocated })
    }

    fn commit(&mut self, changed: &[(usize, u64)]) {
        changed.iter().for_each(|(index, word)| self.words[*index] = *word);
    }
}

impl Words for Machine {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        Ok(self.words[Machine::index(at)?])
    }

    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        let index = Machine::index(at)?;
        self.undo.push((index, std::mem::replace(&mut self.words[index], value)));
        self.objects.insert(at.object);
        Ok(())
    }

    fn protect(&mut self, at: Addr) -> Result<(), Stop> {
        self.objects.insert(at.object);
        Ok(())
    }

    fn retire(&mut self, _: Addr, _: u64) -> Result<(), Stop> {
        unreachable!("the allocator retires nothing itself")
    }
}

struct Traced {
    changed: Vec<(usize, u64)>,
    objects: BTreeSet<u64>,
    allocated: Option<(u64, u64)>,
}

/// A transaction of an arena's worker.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Allocate { arena: usize, bytes: u64 },
    Retire { arena: usize, object: u64, bytes: u64 },
    Reclaim { of: usize },
}

impl Operation {
    fn run(self, machine: &mut Machine) -> Result<Option<(u64, u64)>, Stop> {
        let heap = machine.heap;
        match self {
            Operation::Allocate { arena, bytes } => {
                let size = if bytes <= 1024 { Size::Object(bytes) } else { Size::String(bytes) };
                let Allocation { offset, .. } = heap.allocate_like(machine, arena, size)?;
                Ok(Some((u64::from(TAG) << words::ADDRESS_BITS | offset, bytes)))
            }
            Operation::Retire { arena, object, bytes } => {
                heap.retire(machine, arena, Addr::new(object, 0), bytes).map(|_| None)
            }
            Operation::Reclaim { of } => {
                let step = Step { arena: of, classes: 0..heap.classes(), slots_max: 512 };
                heap.reclaim(machine, step).map(|_| None)
            }
        }
    }
}

/// Draws an operation of an arena's worker. Objects are those that no other operation frees.
fn drawn(below: &mut impl FnMut(u64) -> u64, arena: usize, live: &[(u64, u64)]) -> Operation {
    match below(16) {
        0 => Operation::Reclaim { of: below(3) as usize },
        1..=8 if !live.is_empty() => {
            let (object, bytes) = live[below(live.len() as u64) as usize];
            Operation::Retire { arena, object, bytes }
        }
        9..=10 => Operation::Allocate { arena, bytes: 1 + below(1024) },
        11 => Operation::Allocate { arena, bytes: 2000 + below(30_000) },
        // A run.
        _ => Operation::Allocate { arena, bytes: 33_000 + below(60_000) },
    }
}

/// Random pairs of allocations, frees and reclaims by the workers of different arenas.
pub(crate) fn concurrent_allocations(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let heap = Heap::new(TAG, BYTES);
    let words = vec![0; BYTES as usize / 8];
    let mut machine = Machine { heap, words, undo: Vec::new(), objects: BTreeSet::new() };
    heap.format(&mut machine).unwrap();
    let (mut random, mut live) = (88_172_645_463_325_252_u64, Vec::<(u64, u64)>::new());
    let mut below = |end| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % end
    };
    let (mut both, mut conflicts) = (0, 0);
    for trial in 0..TRIALS {
        let first = drawn(&mut below, 0, &live);
        let others: Vec<_> = match first {
            Operation::Retire { object, .. } => {
                live.iter().copied().filter(|(of, _)| *of != object).collect()
            }
            _ => live.clone(),
        };
        let second = drawn(&mut below, 1, &others);
        let (Some(one), Some(other)) = (machine.trace(&first), machine.trace(&second)) else {
            // The heap is full: make room.
            let room = live.len() / 2;
            for (object, bytes) in live.drain(room..) {
                let free = Operation::Retire { arena: 2, object, bytes };
                let freed = machine.trace(&free).expect("a live object can be freed");
                machine.commit(&freed.changed);
            }
            continue;
        };
        machine.commit(&one.changed);
        let mut done = vec![(first, one.allocated)];
        if one.objects.is_disjoint(&other.objects) {
            machine.commit(&other.changed);
            done.push((second, other.allocated));
            both += 1;
        } else {
            conflicts += 1;
        }
        for (operation, allocated) in done {
            if let Operation::Retire { object, .. } = operation {
                live.retain(|(of, _)| *of != object);
            }
            live.extend(allocated);
        }
        let word = |offset: u64| machine.words[offset as usize / 8];
        let pair = || format!("after {first:?} beside {second:?} in trial {trial}");
        if let Err(damage) = heap.check(word) {
            return Some(format!("heap: {damage} {}", pair()));
        }
        let found: BTreeSet<u64> = heap.live(word).map(|live| live.object).collect();
        let expected: BTreeSet<u64> = live.iter().map(|(object, _)| *object).collect();
        if found != expected {
            return Some(format!("heap: other live objects {}", pair()));
        }
    }
    assert!(both > 300 && conflicts > 300, "{both} and {conflicts}");
    None
}

/// A transaction frees a string. Another transaction with a write to a piece of it must conflict.
pub(crate) fn a_write_to_a_freed_string(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let heap = Heap::new(TAG, BYTES);
    let words = vec![0; BYTES as usize / 8];
    let mut machine = Machine { heap, words, undo: Vec::new(), objects: BTreeSet::new() };
    heap.format(&mut machine).unwrap();
    let bytes = 300_000;
    let made = machine.trace(&Operation::Allocate { arena: 0, bytes }).unwrap();
    machine.commit(&made.changed);
    let (object, _) = made.allocated.unwrap();
    let freed = machine.trace(&Operation::Retire { arena: 0, object, bytes }).unwrap();
    let pieces = (0..bytes / PIECE_STRIDE).map(|index| object + index * PIECE_STRIDE);
    let missed = pieces.filter(|piece| !freed.objects.contains(piece)).count();
    (missed > 0).then(|| format!("lost: writes to {missed} pieces of a freed string commit"))
}

/// Frees a run to a bin that has one, so that nothing else writes the page object. The write-back
/// of `snapshot` removes the link of that object last: until then no transaction takes the run.
pub(crate) fn a_run_freed_to_a_used_bin(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let heap = Heap::new(TAG, BYTES);
    let words = vec![0; BYTES as usize / 8];
    let mut machine = Machine { heap, words, undo: Vec::new(), objects: BTreeSet::new() };
    heap.format(&mut machine).unwrap();
    let bytes = 60_000;
    // The first and third string are no neighbors.
    let objects = [(); 4].map(|()| {
        let made = machine.trace(&Operation::Allocate { arena: 0, bytes }).unwrap();
        machine.commit(&made.changed);
        made.allocated.unwrap().0
    });
    let mut free = |object| {
        let freed = machine.trace(&Operation::Retire { arena: 0, object, bytes }).unwrap();
        machine.commit(&freed.changed);
        freed.objects.contains(&(u64::from(TAG) << words::ADDRESS_BITS | lw_alloc::PAGE_OBJECT))
    };
    assert!(free(objects[0]), "the first run of a bin sets its bit");
    (!free(objects[2])).then(|| "torn: a transaction frees a run without the page object".into())
}
