//! Maps from `u64`, and a queue, over Lastword's waist, for every design below it.
//!
//! | map | lookup | words written by an insert | ordered |
//! |---|---|---|---|
//! | [`HashMap`] | one probe run, usually one line | 2 | no |
//! | [`ChainedMap`] | a head, then an object an entry | new key: 4 and an object; old: 1 | no |
//! | [`ChainedTable`] | the same | new key: 3 and its value; old: that | no |
//! | [`Chain`] | an object an entry | as above | yes |
//! | [`BTreeMap`] | one node a level, 28 pairs a node | new key: 7 with splits; old key: 1 | yes |
//! | [`RbTree`] | a node of 48 bytes a level | new key: 7, and rotations; old key: 1 | yes |
//!
//! A [`Queue`] is a ring of entries of one cache line, first in, first out.
//!
//! All are small values: a program stores them in its own objects, reads them once, and keeps the
//! copy; nothing that never changes is read again. They are plain code over
//! [`Words`](words::Words): what a transaction did to them commits or vanishes with it.
//!
//! ```
//! use collections::{BTreeMap, HashMap, Inserted};
//! use words::{Objects, Transact, mock::Mock};
//! use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};
//!
//! #[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
//! #[repr(C)]
//! struct Root {
//!     stock: HashMap,
//!     by_price: BTreeMap,
//! }
//!
//! let mut mock = Mock::new(1 << 16);
//! let root = mock.transact(|tx| {
//!     let root = Root { stock: HashMap::create(tx, 64)?, by_price: BTreeMap::create(tx)? };
//!     let object = tx.alloc(root)?;
//!     tx.set_root(object.to_bits())?;
//!     Ok(root)
//! })?;
//! mock.transact(|tx| {
//!     assert_eq!(root.stock.insert(tx, 7, 100)?, Inserted::New);
//!     root.by_price.insert(tx, 1999, 7)
//! })?;
//! assert_eq!(mock.transact(|tx| root.by_price.get(tx, 1999))?, Some(7));
//! # use words::Allocate;
//! # Ok::<(), words::mock::Refused>(())
//! ```
//!
//! Invariants of all:
//! - An operation ends after a number of steps that its structure bounds, whatever the heap holds:
//!   damaged nodes, cycles and wild pointers answer [`Stop::BadValue`](words::Stop::BadValue) or
//!   [`Stop::BadPointer`](words::Stop::BadPointer).
//! - A write goes only to a place that was checked to lie inside the structure's own objects.
//! - No word is shared by all operations: there is no length to keep, so two inserts meet only when
//!   they change the same node or bucket.
//! - Write skew (snapshot isolation) is closed: whatever an operation relied on and does not write,
//!   it protects.

mod btree;
mod chain;
mod chained_map;
mod chained_table;
mod check;
mod hash;
mod hash_map;
pub mod model;
mod queue;
mod rb_tree;

pub use btree::{BTree, BTree16, BTree32, BTreeMap, Cursor};
pub use chain::Chain;
pub use chained_map::{ChainedMap, ENTRY_BYTES};
pub use chained_table::ChainedTable;
pub use check::{Checked, Damage, whole};
pub use hash_map::{HashMap, Inserted};
pub use queue::{QUEUE_WORDS, Queue, Ring};
pub use rb_tree::RbTree;
