//! Sizes and scans of B+-trees, shared by the workloads over them.

use collections::raw::{BTree, whole};
use words::{HEADER_BYTES, Transact};

use crate::violation::Violations;

/// Allocator size classes, headers included, are multiples of 64 up to here, of 128 from here.
const CLASS_BYTES: u64 = 384;

/// Leaves that one transaction of a check reads.
const LEAVES: u64 = 256;

/// Returns the heap bytes of a tree of so many entries, headers included.
pub(crate) fn bytes<const SLOTS: usize>(entries: u64) -> u64 {
    // Splitting leaves a node half full at least, on average.
    bytes_at::<SLOTS>(entries, SLOTS as u64 / 2 - 1)
}

/// The same for a tree whose keys were inserted in ascending order and stay.
pub(crate) fn bytes_ascending<const SLOTS: usize>(entries: u64) -> u64 {
    // Such insertion leaves this many in every node but the last ones.
    bytes_at::<SLOTS>(entries, (SLOTS - BTree::<SLOTS>::LEAST) as u64)
}

/// The same for a tree from which entries are also removed.
pub(crate) fn bytes_changing<const SLOTS: usize>(entries: u64) -> u64 {
    // Removals leave nodes of a third and more; insertion alone leaves half on average.
    bytes::<SLOTS>(entries + entries / 2)
}

fn bytes_at<const SLOTS: usize>(entries: u64, per_node: u64) -> u64 {
    let leaves = entries / per_node + 1;
    let nodes = leaves + leaves / (per_node - 1) + 1;
    let node = BTree::<SLOTS>::NODE_BYTES as u64 + HEADER_BYTES;
    nodes * node.next_multiple_of(if node <= CLASS_BYTES { 64 } else { 128 })
}

/// Checks a tree's structure, and calls `visit` with its pairs, up to `most` at a time; returns
/// whether they were read.
pub(crate) fn check<const SLOTS: usize, T: Transact>(
    worker: &mut T,
    tree: BTree<SLOTS>,
    most: u64,
    violations: &mut Violations,
    mut visit: impl FnMut(&mut T, &[(u64, u64)], &mut Violations) -> Result<(), T::Error>,
) -> Result<bool, T::Error> {
    let answer = whole(worker, |tx, from| tree.check(tx, from, LEAVES))?;
    if !answer.damage.is_empty() {
        // A scan of a damaged tree may end in a less specific `Stop`.
        violations.add_damage(answer.damage);
        return Ok(false);
    }
    let mut cursor = tree.cursor(..);
    while let Some(here) = cursor {
        let (pairs, next) = worker.transact(|tx| {
            let mut pairs = Vec::new();
            let next = here.read(tx, most, |key, value| pairs.push((key, value)))?;
            Ok((pairs, next))
        })?;
        visit(worker, &pairs, violations)?;
        cursor = next;
    }
    Ok(true)
}
