//! Test doubles, which stand in the place of machines and disks, and the registry of injected bugs.
//!
//! Tests and the crash explorer use this crate; no product code does. It depends on [`system`]
//! alone, the seam that each double implements, so the unit tests of `medium` can use it too.
//!
//! | module | takes the place of | for |
//! |---|---|---|
//! | [`recording`] | the machine: files, mapped memory and power | states after a crash |
//! | [`failing`] | any system's calls, of which the n-th fails | faults of a bad disk |
//! | [`mutants`] | code that keeps a guarantee: the registry of injected bugs | mutation tests |

pub mod failing;
mod latch;
pub mod mutants;
pub mod recording;

mod sync;

pub use failing::{Call, Failing, Fault, Faults};
pub use latch::Latch;
