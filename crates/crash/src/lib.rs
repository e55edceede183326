//! Crash tests: every state that a crash may leave, and what must be true of it.
//!
//! ```text
//!   case -----> execution: open, move, move, ... | the power goes | open, check, move, ... | close
//!                  |              ^
//!                  | asks         | answers, and remembers them
//!                  v              |
//!               picker (choices) <- search: all of them, those near a policy, or by chance
//! ```
//!
//! An *execution* runs a pool on a recorded machine ([`medium::recording`]) whose power may go at
//! any persist barrier and acknowledgement, in a single thread: background steps are moves among
//! others. Everything that is not the program's doing is a choice, and the choices are its trace:
//! a line of text that can be replayed, and shrunk.
//!
//! | file | what it does |
//! |---|---|
//! | `case` | what is explored: design, workload, medium, options |
//! | `workload` | what runs |
//! | `execution` | one way through it |
//! | `oracle` | what must be true after it |
//! | `picker`, `search` | which ways are gone: A (all), B (near four policies), C (by chance) |
//! | `shrink`, `trace` | what is told about a way that fails |
//!
//! A design is explored by its row in [`designs`]. [`guided`] is tier D: a fuzzer's bytes are the
//! choices. [`hostile`] are files that lie.

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
pub use picker::{Chance, Made, Picker, Policy};
pub use search::{Found, Limits, Statistics, Tier, explore};
pub use shrink::shrink;
pub use trace::{BadTrace, Trace};
pub use violation::Violation;
