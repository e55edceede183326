//! Crash tests: they explore the states that a power failure may leave, and check each of them.
//!
//! [`Explorer`] is for programs that use Lastword. A test gives it the program's steps and an
//! invariant, and `cargo test` explores the power failures of the program in seconds.
//!
//! # The explorer of the library itself
//! The feature `explorer` adds it: `lastword crash explore`, and the tests of the library.
//!
//! ```text
//!   case -----> execution: open, move, move, ... | power failure | open, check, move, ... | close
//!                  |              ^
//!                  | asks         | returns a choice, and records it
//!                  v              |
//!               picker (choices) <- search: all executions, those near a policy, or random ones
//! ```
//!
//! An *execution* runs a pool on a recorded machine ([`faults::recording`]), whose power may fail
//! at any persist barrier and acknowledgement, in a single thread. Background steps are moves like
//! others. Every event outside the program is a choice, and the choices are the execution's trace:
//! a line of text that can be replayed, and shrunk.
//!
//! | file | content |
//! |---|---|
//! | `program` | the explorer of users' programs |
//! | `case` | the explored case: design, workload, medium, options |
//! | `workload` | the transactions |
//! | `execution` | one execution of a case |
//! | `oracle` | the invariants after a crash |
//! | `picker`, `search` | the explored executions: A (all), B (near four policies), C (random) |
//! | `shrink`, `trace` | the report of a failing execution |
//!
//! Each durable design of the registry is explored: see `designs`. `guided` is tier D, in which
//! a fuzzer's bytes are the choices. `hostile` tests corrupt files.

mod choices;
mod picker;
mod program;

// For the explorer of the library and its fuzz target.
#[doc(hidden)]
pub use picker::{Chance, Made, Picker, Policy};
pub use program::{Cause, Explored, Explorer, Failure, StepResult, World};

#[cfg(feature = "explorer")]
mod case;
#[cfg(feature = "explorer")]
pub mod designs;
#[cfg(feature = "explorer")]
mod execution;
#[cfg(feature = "explorer")]
pub mod guided;
#[cfg(feature = "explorer")]
pub mod hostile;
#[cfg(feature = "explorer")]
pub mod oracle;
#[cfg(feature = "explorer")]
mod search;
#[cfg(feature = "explorer")]
mod shrink;
#[cfg(feature = "explorer")]
mod trace;
#[cfg(feature = "explorer")]
mod violation;
#[cfg(feature = "explorer")]
pub mod workload;

#[cfg(feature = "explorer")]
pub use {
    case::{BadCase, Case, MediumModel},
    execution::{Outcome, Prepared, Report},
    faults::mutants,
    search::{Found, Limits, Statistics, Tier, explore},
    shrink::shrink,
    trace::{BadTrace, Trace},
    violation::Violation,
};

/// Compiles and runs the example of the book.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/guide/crash-tests.md")]
    struct CrashTests;
}
