//! What the machine runs: a program that is loaded once and then run by every core, its type
//! forgotten.
//!
//! ```text
//!   Program  --load-->  Loaded  --client of core i-->  Client:  next, run, next, run, ...
//!                         \--check, when all have ended
//! ```
//!
//! A core runs its client's transactions in turn. What a client does follows from the program's
//! seed and the core's index alone; between the transactions it thinks, for as many instructions as
//! it says. Nothing here knows a workload: whoever has one wraps it.
//!
//! ```
//! use sim::program::{Client, Ended, Loaded, Program};
//! use words::{Erased, ErasedTx, Objects, Ptr, Stop, Transact, Words};
//!
//! /// Every core counts in an object of its own.
//! struct Counters;
//! struct Counting(Vec<Ptr<u64>>);
//! struct Counter(Ptr<u64>);
//!
//! impl Program for Counters {
//!     fn name(&self) -> &str {
//!         "counters"
//!     }
//!     fn heap_bytes(&self) -> u64 {
//!         1 << 20
//!     }
//!     fn load(
//!         &self,
//!         worker: &mut Erased<'_, Ended>,
//!         cores: usize,
//!     ) -> Result<Box<dyn Loaded>, Ended> {
//!         Ok(Box::new(Counting(counters(worker, cores)?)))
//!     }
//! }
//!
//! fn counters<T: Transact>(worker: &mut T, cores: usize) -> Result<Vec<Ptr<u64>>, T::Error> {
//!     (0..cores).map(|_| worker.transact(|tx| tx.alloc(0_u64))).collect()
//! }
//!
//! impl Loaded for Counting {
//!     fn client(&self, core: usize) -> Box<dyn Client> {
//!         Box::new(Counter(self.0[core]))
//!     }
//!     fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
//!         Ok(Vec::new())
//!     }
//! }
//!
//! impl Client for Counter {
//!     fn next(&mut self) {}
//!     fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
//!         tx.compute(12);
//!         tx.update(self.0, |count| count + 1)
//!     }
//! }
//! # let _: &dyn Program = &Counters;
//! ```

use thiserror::Error;
use words::{AnyError, Erased, ErasedTx, Stop};

/// A transaction of a program's load or check ended otherwise than by its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the program could not be loaded or checked: {stop}")]
pub struct Ended {
    /// How.
    pub stop: Stop,
}

impl From<Ended> for AnyError {
    fn from(ended: Ended) -> AnyError {
        AnyError::new(ended)
    }
}

impl From<AnyError> for Ended {
    /// Back to the type that was forgotten.
    ///
    /// # Panics
    /// It was another one.
    fn from(error: AnyError) -> Ended {
        error.downcast().expect("the worker of a program ends so")
    }
}

/// A program, before there is a heap.
pub trait Program {
    /// What a user calls it.
    fn name(&self) -> &str;

    /// Bytes of a heap that holds it for ever, the allocator's share included.
    fn heap_bytes(&self) -> u64;

    /// Builds its data for so many cores, in an empty heap. This takes no simulated time.
    ///
    /// # Errors
    /// What a transaction ended with.
    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended>;
}

/// A program whose data are in a heap.
pub trait Loaded {
    /// What a core runs, from its beginning. Equal cores of equal programs run equal transactions.
    fn client(&self, core: usize) -> Box<dyn Client>;

    /// Checks all data; empty: they hold. No transaction runs meanwhile.
    ///
    /// # Errors
    /// What a transaction ended with: a wild pointer in damaged data ends one.
    fn check(&self, worker: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended>;
}

/// What one core runs.
pub trait Client {
    /// Draws the next transaction, outside of it.
    fn next(&mut self);

    /// The body of the transaction that was drawn. It may run again: it changes nothing but words.
    ///
    /// # Errors
    /// What an access ended with; [`Stop::Aborted`] when it [gives up](Client::gives_up).
    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop>;

    /// Whether this transaction gives itself up in the end: then [`Stop::Aborted`] is no error.
    fn gives_up(&self) -> bool {
        false
    }

    /// Whether this transaction only reads.
    fn reads_only(&self) -> bool {
        false
    }

    /// Instructions of the program between this transaction's commit and the next one's beginning.
    fn outside_instructions(&self) -> u32 {
        0
    }
}
