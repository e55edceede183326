//! The workloads of the explorer: small, so that a crash can hit every point of a transaction.
//!
//! | name | transaction | for |
//! |---|---|---|
//! | [`cells`](Cells) | writes two of four words and their sum | every crash and content |
//! | [`churn`](Churn) | allocates or frees an object of one of several sizes | the allocator |
//! | [`append`](Append) | reads a list, appends to another | histories: order and isolation |
//! | [`bulk`](Bulk) | overwrites an array of 10 KiB | wraps of the log, groups of many lines |
//! | [`pages`](Pages) | changes two counters, each in a page of its own | shadows with a bound |
//! | [`sides`](Sides) | changes a worker's own object, at times a shared one | groups of workers |
//! | [`reuse`](Reuse) | frees memory of every kind, allocates other sizes | a full heap |
//! | `bank`, `hashtable`, `btree`, `tpcc-…`, `typed` | those of crate `workloads` | structures |
//!
//! A row is a type that is a [`Scenario`]; it runs on every design.

mod append;
mod bulk;
mod cells;
mod churn;
mod large;
mod pages;
mod reuse;
mod sides;

use words::{Allocate, Stop, Transact};

pub use append::{Apart, Append, Appender, Appends, Observed};
pub use bulk::Bulk;
pub use cells::Cells;
pub use churn::Churn;
pub use large::Of;
pub use pages::Pages;
pub use reuse::Reuse;
pub use sides::Sides;

/// Data in a pool, small transactions on it, and its invariants.
pub trait Scenario: Sized {
    /// Its name.
    const NAME: &'static str;
    /// Size of a sufficient heap, in bytes.
    const HEAP_BYTES: u64;
    /// Size of a log, in bytes, that just holds each of its transactions, so that it fills up
    /// quickly.
    const LOG_BYTES: u64 = 128 << 10;
    /// Pages of a shadow with a bound, which just hold each of its transactions. Large heaps belong
    /// to workloads that load many pages in one transaction.
    const SHADOW_PAGES: u64 = if Self::HEAP_BYTES < 512 << 10 { 8 } else { Self::HEAP_BYTES >> 14 };
    /// Whether its transactions may meet a full heap.
    const FILLS: bool = false;
    /// One worker's generator of transactions.
    type Client;

    /// Loads it into an empty pool.
    ///
    /// # Errors
    /// The error of a transaction.
    fn load<T: Transact>(worker: &mut T) -> Result<(), T::Error>;

    /// Opens it; `None` when it is not loaded.
    ///
    /// # Errors
    /// The error of a transaction.
    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error>;

    /// Returns the generator of a worker; equal arguments give equal transactions.
    fn client(&self, worker: usize, seed: u64) -> Self::Client;

    /// Generates the next transaction.
    fn next(&self, client: &mut Self::Client);

    /// Runs the body of the current transaction.
    ///
    /// # Errors
    /// As [`words::Words::write`].
    fn run<W: Allocate>(&self, client: &Self::Client, tx: &mut W) -> Result<(), Stop>;

    /// Returns the violated invariants, as text.
    ///
    /// # Errors
    /// The error of a transaction.
    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error>;

    /// Returns the memory that its data occupy, to compare with the allocator's count.
    ///
    /// # Errors
    /// The error of a transaction.
    fn live<T: Transact>(&self, worker: &mut T) -> Result<Option<Live>, T::Error> {
        let _ = worker;
        Ok(None)
    }

    /// Uses the pool once more after everything else, when all of it has to work.
    ///
    /// # Errors
    /// The error of a transaction.
    fn end<T: Transact>(&self, worker: &mut T) -> Result<(), T::Error> {
        let _ = worker;
        Ok(())
    }
}

/// The memory that data occupy, counted as by [`lw_alloc::Usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the allocator describes its counts")]
pub struct Live {
    pub objects: u64,
    pub object_bytes: u64,
    pub long_strings: u64,
    pub arrays: u64,
    pub blocks: u64,
    pub blocks_prepared: u64,
}

impl From<&lw_alloc::Usage> for Live {
    fn from(usage: &lw_alloc::Usage) -> Live {
        Live {
            objects: usage.objects,
            object_bytes: usage.object_bytes,
            long_strings: usage.long_strings,
            arrays: usage.arrays,
            blocks: usage.blocks,
            blocks_prepared: usage.blocks_prepared,
        }
    }
}

/// An operation on a scenario whose type is known only by name.
pub trait Visitor {
    /// Its result.
    type Out;

    /// Runs it on this scenario.
    fn visit<S: Scenario>(self) -> Self::Out;
}

/// Defines the list of scenarios.
macro_rules! scenarios {
    ($($scenario:ty),*) => {
        /// The names of all scenarios.
        pub const NAMES: [&str; [$(<$scenario>::NAME),*].len()] = [$(<$scenario>::NAME),*];

        /// Calls `visitor` with the scenario of this name; `None` when no scenario has it.
        pub fn by_name<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            $(if name == <$scenario>::NAME {
                return Some(visitor.visit::<$scenario>());
            })*
            None
        }
    };
}

scenarios!(
    Cells,
    Churn,
    Append,
    Bulk,
    Pages,
    Sides,
    Reuse,
    Of<workloads::Bank, 512>,
    Of<workloads::HashTable, 512>,
    Of<workloads::Btree, 512>,
    Of<workloads::TpccHash, 2048>,
    Of<workloads::TpccBtree, 2048>,
    Of<workloads::Typed, 512>
);

/// Returns the random generator of a worker and a seed.
fn generator(worker: usize, seed: u64) -> rand_xoshiro::Xoshiro256PlusPlus {
    use rand::SeedableRng;
    rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed << 8 | worker as u64)
}
