//! The order of the transactions of a reclaim, for the workers of a pool and for tools.

use std::ops::Range;

use crate::state::ARENAS;

/// The result of one transaction of a reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Reclaimed {
    /// Whether memory became free.
    pub gained: bool,
    /// Free slots that the arena still keeps in these classes.
    pub left: u64,
    /// The first class that has such slots.
    pub next: usize,
}

/// Number of free slots that the first transaction of an arena returns at most. A design with a
/// smaller limit refuses that transaction, and each refusal costs an attempt.
const SLOTS: u64 = 512;

/// One transaction of a reclaim: the argument of [`Heap::reclaim`](crate::Heap::reclaim).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The arena, or [`ARENAS`] for the lists.
    pub arena: usize,
    /// The size classes.
    pub classes: Range<usize>,
    /// Number of free slots that it may return.
    pub slots_max: u64,
}

/// The transactions of a reclaim, in order. The first one of an arena takes all classes; more
/// follow while its caches keep slots. The lists come after the last arena. After a size limit the
/// plan tries fewer classes, and then fewer slots. It skips a class of which even one slot exceeds
/// the limit.
///
/// The plan ends even while other workers allocate and free: it repeats a visit only while the
/// arena's slots decrease.
#[derive(Debug)]
pub struct Plan {
    /// Bitmap of the arenas to visit.
    owners: u64,
    classes: usize,
    step: Option<Step>,
    /// Slots that the last transaction of this step left.
    left: u64,
    gained: bool,
}

impl Plan {
    /// Creates a plan for the arenas in the bitmap [`owners`](crate::Heap::owners) and for this
    /// number of [`classes`](crate::Heap::classes).
    pub fn new(classes: usize, owners: u64) -> Plan {
        let mut plan = Plan { owners, classes, step: None, left: u64::MAX, gained: false };
        plan.step = Some(plan.next_arena());
        plan
    }

    /// Returns the next transaction, or `None` at the end.
    pub fn step(&self) -> Option<Step> {
        self.step.clone()
    }

    /// Returns whether memory became free.
    pub fn gained(&self) -> bool {
        self.gained
    }

    /// Records the result of the step. `None` means that its transaction lost too many conflicts:
    /// the plan skips the rest of the arena.
    pub fn done(&mut self, result: Option<Reclaimed>) {
        let Reclaimed { gained, left, next } = result.unwrap_or_default();
        self.gained |= gained;
        match &mut self.step {
            Some(step) if result.is_none() => step.classes.end = self.classes,
            Some(step) if left != 0 && left < self.left && step.classes.contains(&next) => {
                step.classes.start = next;
                self.left = left;
                return;
            }
            _ => {}
        }
        self.advance();
    }

    /// Makes the transaction smaller, because it exceeded a size limit.
    pub fn too_large(&mut self) {
        match &mut self.step {
            Some(Step { classes, .. }) if classes.len() > 1 => {
                classes.end = classes.start + classes.len() / 2;
            }
            Some(Step { arena, slots_max, .. }) if *arena < ARENAS && *slots_max > 1 => {
                *slots_max /= 2;
            }
            _ => self.advance(),
        }
        self.left = u64::MAX;
    }

    /// Advances to the next classes, of the same number, or to the next arena.
    fn advance(&mut self) {
        self.left = u64::MAX;
        self.step = match self.step.take() {
            Some(Step { arena, classes, slots_max }) if classes.end < self.classes => {
                let end = (classes.end + classes.len()).min(self.classes);
                Some(Step { arena, classes: classes.end..end, slots_max })
            }
            Some(step) if step.arena < ARENAS => Some(self.next_arena()),
            _ => None,
        };
    }

    fn next_arena(&mut self) -> Step {
        let arena = (self.owners.trailing_zeros() as usize).min(ARENAS);
        self.owners &= self.owners.wrapping_sub(1);
        Step { arena, classes: 0..self.classes, slots_max: SLOTS }
    }
}
