//! Crash tests: they explore the states that a crash may leave, and check each of them.
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
//! | `case` | the explored case: design, workload, medium, options |
//! | `workload` | the transactions |
//! | `execution` | one execution of a case |
//! | `oracle` | the invariants after a crash |
//! | `picker`, `search` | the explored executions: A (all), B (near four policies), C (random) |
//! | `shrink`, `trace` | the report of a failing execution |
//!
//! Each durable design of the registry is explored: see [`designs`]. [`guided`] is tier D, in which
//! a fuzzer's bytes are the choices. [`hostile`] tests corrupt files.

pub mod designs;
pub mod guided;
pub mod hostile;
pub mod oracle;
pub mod workload;

mod case;
mod execution;
mod picker;
mod search;
mod shrink;
mod trace;
mod violation;

pub use case::{BadCase, Case, MediumModel};
pub use execution::{Outcome, Prepared, Report};
pub use faults::mutants;
pub use picker::{Chance, Made, Picker, Policy};
pub use search::{Found, Limits, Statistics, Tier, explore};
pub use shrink::shrink;
pub use trace::{BadTrace, Trace};
pub use violation::Violation;
