//! The interface of programs: a program is loaded once and run by every core, with its types
//! erased.
//!
//! ```text
//!   Program  --load-->  Loaded  --client of core i-->  Client:  next, run, next, run, ...
//!                         \--check, when all have ended
//! ```
//!
//! A core runs its client's transactions one after the other. A client's choices depend only on the
//! program's seed and the core's index. Between two transactions it computes, for a number of
//! instructions that it returns. This module knows no workload: crates with workloads implement it.
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

/// The error of a transaction that loads or checks a program's data and does not commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the program could not be loaded or checked: {stop}")]
pub struct Ended {
    /// The reason.
    pub stop: Stop,
}

impl From<Ended> for AnyError {
    fn from(ended: Ended) -> AnyError {
        AnyError::new(ended)
    }
}

impl From<AnyError> for Ended {
    /// Restores the type that was erased.
    ///
    /// # Panics
    /// When the error has another type.
    fn from(error: AnyError) -> Ended {
        error.downcast().expect("a program's worker has this error type")
    }
}

/// A program before it has a heap.
pub trait Program {
    /// Returns the name of the program.
    fn name(&self) -> &str;

    /// Returns the size of a heap that suffices for any run, including the allocator's overhead.
    fn heap_bytes(&self) -> u64;

    /// Builds the data for so many cores in an empty heap. This takes no simulated time.
    ///
    /// # Errors
    /// The reason why a transaction failed.
    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended>;
}

/// A program whose data are in a heap.
pub trait Loaded {
    /// Returns the client of a core. Equal cores of equal programs run equal transactions.
    fn client(&self, core: usize) -> Box<dyn Client>;

    /// Checks all data while no transaction runs. Returns complaints, or an empty list for sound
    /// data.
    ///
    /// # Errors
    /// The reason why a transaction failed: for example, a wild pointer in damaged data.
    fn check(&self, worker: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended>;
}

/// The transactions of one core.
pub trait Client {
    /// Chooses the next transaction, outside of it.
    fn next(&mut self);

    /// Runs the body of the chosen transaction. The body may run again, so it changes nothing but
    /// words.
    ///
    /// # Errors
    /// The error of an access, or [`Stop::Aborted`] when the transaction [gives
    /// up](Client::gives_up).
    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop>;

    /// Returns whether this transaction aborts at its end; [`Stop::Aborted`] is then no error.
    fn gives_up(&self) -> bool {
        false
    }

    /// Returns whether this transaction only reads.
    fn reads_only(&self) -> bool {
        false
    }

    /// Returns the number of instructions between this transaction's commit and the next one's
    /// start.
    fn outside_instructions(&self) -> u32 {
        0
    }
}
