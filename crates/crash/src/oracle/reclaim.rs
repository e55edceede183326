//! The states that a pool makes while it reclaims memory.
//!
//! [`Heap::reclaim`] is a function of the heap's words. Its steps on a copy are therefore those of
//! the pool, when no other transaction runs.

use lw_alloc::{Heap, Plan};
use words::{ADDRESS_BITS, Addr, Stop};

use super::Words;

/// Any tag: reclaiming stores none.
const TAG: u16 = 1;

/// A heap in memory.
struct Copy {
    words: Vec<u64>,
}

impl Copy {
    fn at(&mut self, at: Addr) -> Result<&mut u64, Stop> {
        let offset = at.byte().wrapping_sub(u64::from(TAG) << ADDRESS_BITS);
        self.words.get_mut((offset / 8) as usize).ok_or(Stop::BadPointer)
    }
}

impl words::Words for Copy {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.at(at).copied()
    }

    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        *self.at(at)? = value;
        Ok(())
    }

    fn retire(&mut self, _at: Addr, _bytes: u64) -> Result<(), Stop> {
        Err(Stop::BadPointer)
    }
}

/// Returns the state after each transaction that reclaims memory, in order.
pub(super) fn states(words: &[u64]) -> Vec<Words> {
    let heap = Heap::new(TAG, 8 * words.len() as u64);
    let mut copy = Copy { words: words.to_vec() };
    let mut states: Vec<Words> = Vec::new();
    let Ok(owners) = heap.owners(&mut copy) else { return states };
    let mut plan = Plan::new(heap.classes(), owners);
    while let Some(step) = plan.step() {
        let before = copy.words.clone();
        let Ok(done) = heap.reclaim(&mut copy, step) else { break };
        plan.done(Some(done));
        // A transaction that writes nothing makes no state.
        if copy.words != before {
            states.push(copy.words.clone().into());
        }
    }
    states
}
