//! The instruction counts of operations beside their loads and stores, for
//! [`Words::compute`](crate::Words::compute).
//!
//! One table serves all code above `Words`. No constant is fitted to a workload. Each was counted
//! with callgrind on the code itself, over an unchecked heap in a `Vec<u64>`. The cost of that
//! heap's reads and writes and of the surrounding loop is subtracted.
//! docs/research/instruction-counts.md has the command, its output, the derivation of each
//! constant, and a comparison of their sums with whole transactions.
//!
//! Loads and stores are not included, as the simulated machine charges those itself.

/// Hashing a key.
pub const HASH: u32 = 9;

/// A lookup in a hash table before its first entry and after its last: checks of the table's own
/// value, the address of the first word, the result.
pub const SEARCH: u32 = 80;

/// Following a link to a chain entry or bucket, and comparing its key.
pub const VISIT: u32 = 10;

/// Descending to a node of a binary tree, and comparing its key.
pub const DESCEND: u32 = 18;

/// Opening a node of a B+-tree.
pub const NODE: u32 = 25;

/// One comparison of the binary search in a node.
pub const COMPARE: u32 = 30;

/// Linking an entry into a chain, or unlinking one, once its place is found.
pub const LINK: u32 = 34;

/// Linking a node into a red-black tree, or unlinking one, once its place is found: links, colours,
/// rotations; the mean of all.
pub const REPAIR: u32 = 103;

/// Inserting into a node of a B+-tree, or removing, with the update of the order of slots.
pub const ARRANGE: u32 = 575;

/// Pushing an entry at an end of a queue, or popping one.
pub const QUEUE: u32 = 60;

/// Allocating an object.
pub const ALLOCATE: u32 = 102;

/// Freeing an object.
pub const RETIRE: u32 = 96;

/// The rest of a transaction: it generates its parameters and the values that it writes, and
/// returns. Charged once more for each of several items, such as an order line or a swap.
pub const FRAME: u32 = 76;
