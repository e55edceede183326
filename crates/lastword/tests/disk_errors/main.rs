//! Failures of the disk and of the process's resources, at every call that a pool makes.
//!
//! Invariants, whichever call fails:
//!
//! * no acknowledged transaction is lost;
//! * no transaction is acknowledged before it is durable;
//! * the error names the file and advises a remedy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

/// Calls a function for the type of each durable design: `every_durable!(works(1, 2));`.
macro_rules! every_durable {
    ($function:ident $arguments:tt) => {
        lastword::for_each_design!([every_durable] $function $arguments);
    };
    (
        [$function:ident $arguments:tt]
        volatile { $($volatile:tt)* }
        durable { $($name:ident = $number:literal: $design:ty { $($fact:tt)* } [$($types:tt)*])* }
        research { $($research:tt)* }
    ) => {
        $($function::<$design> $arguments;)*
    };
}

mod full;
mod limits;
mod memory;
mod mounts;
mod nth;
mod parts;
mod process;
mod quota;
mod snapshots;
mod story;
