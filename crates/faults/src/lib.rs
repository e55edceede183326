//! Test doubles: machines and disks that stand in the place of the real ones in tests.
//!
//! Tests and the crash explorer use this crate; no product code does. It depends on [`system`]
//! alone, the seam that each double implements, so the unit tests of `medium` can use it too.
//!
//! | module | takes the place of | for |
//! |---|---|---|
//! | [`recording`] | the machine: files, mapped memory and power | states after a crash |
//! | [`failing`] | any system's calls, of which the n-th fails | faults of a bad disk |

pub mod failing;
pub mod recording;

mod sync;

pub use failing::{Call, Failing, Fault, Faults};
