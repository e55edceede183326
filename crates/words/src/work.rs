//! What operations cost beside their loads and stores: instructions, for
//! [`Words::compute`](crate::Words::compute).
//!
//! One table for all that runs above the waist, no constant fitted to a workload. Counted with
//! callgrind on the code itself, over a heap in a `Vec<u64>` that checks nothing; what that heap's
//! reads and writes cost is taken off, and the loop around. docs/research/instruction-counts.md has
//! the command, what it prints, how each constant follows from that, and sums of them beside what
//! whole transactions take.
//!
//! Loads and stores are not in them: the machine charges those itself.

/// Hashing a key.
pub const HASH: u32 = 9;

/// A lookup in a hash table, what it does before its first entry and behind its last: checks of the
/// table's own value, the place of the first word, the answer.
pub const SEARCH: u32 = 80;

/// Going on to an entry of a chain or to a bucket, and comparing its key.
pub const VISIT: u32 = 10;

/// Going down to a node of a binary tree, and comparing its key.
pub const DESCEND: u32 = 18;

/// Opening a node of a B+-tree.
pub const NODE: u32 = 25;

/// One of the comparisons by halves in a node.
pub const COMPARE: u32 = 30;

/// Putting an entry into a chain, or taking one out, once its place is found.
pub const LINK: u32 = 34;

/// Putting a node into a red-black tree, or taking one out, once its place is found: links,
/// colours, turns; the mean of all.
pub const REPAIR: u32 = 103;

/// Putting an entry into a node of a B+-tree, or taking one out: its place in the order of slots.
pub const ARRANGE: u32 = 575;

/// Putting an entry in at an end of a queue, or taking one out.
pub const QUEUE: u32 = 60;

/// Allocating an object.
pub const ALLOCATE: u32 = 102;

/// Giving an object back.
pub const RETIRE: u32 = 96;

/// What a transaction does beside such operations: it draws its parameters, makes up what it
/// writes, and answers. Once more for each of several things that it is about: a line of an order,
/// a swap.
pub const FRAME: u32 = 76;
