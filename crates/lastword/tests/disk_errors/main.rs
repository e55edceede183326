//! Disks that fail: whatever call it is, nothing acknowledged is lost, nothing is acknowledged that
//! is not durable, and the program is told the file and what to do.
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
mod story;
