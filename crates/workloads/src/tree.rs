//! What the workloads over a B+-tree have in common: how large one gets, how one is read through.

use collections::{BTreeMap, NODE_BYTES, whole};
use words::{HEADER_BYTES, Transact};

use crate::violation::Violations;

/// Fewest entries that splitting leaves in a node on average: half of a full one.
const ENTRIES_LEAST: u64 = 13;

/// Entries that inserting ascending keys leaves in every node but the last ones.
const ENTRIES_ASCENDING: u64 = 19;

/// Leaves that one transaction of a check reads.
const LEAVES: u64 = 256;

/// Bytes of the heap for a tree of so many entries, headers included.
pub(crate) fn bytes(entries: u64) -> u64 {
    bytes_at(entries, ENTRIES_LEAST)
}

/// The same for a tree whose keys were inserted in ascending order and stay.
pub(crate) fn bytes_ascending(entries: u64) -> u64 {
    bytes_at(entries, ENTRIES_ASCENDING)
}

fn bytes_at(entries: u64, per_node: u64) -> u64 {
    let leaves = entries / per_node + 1;
    let nodes = leaves + leaves / (per_node - 1) + 1;
    nodes * (NODE_BYTES as u64 + HEADER_BYTES)
}

/// Checks a tree's structure, and hands its pairs to `visit`, up to `most` at a time; whether they
/// were read.
pub(crate) fn check<T: Transact>(
    worker: &mut T,
    tree: BTreeMap,
    most: u64,
    violations: &mut Violations,
    mut visit: impl FnMut(&mut T, &[(u64, u64)], &mut Violations) -> Result<(), T::Error>,
) -> Result<bool, T::Error> {
    let answer = whole(worker, |tx, from| tree.check(tx, from, LEAVES))?;
    if !answer.damage.is_empty() {
        // A scan of a damaged tree may end in a `Stop` that says less than this.
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
