//! Tests of pools through the public interface.
//!
//! They share one test program, so that each design is compiled once for all of them.

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

mod closing;
mod contention;
mod conversions;
mod cut;
mod damaged;
mod derived_keys;
mod fields;
mod full;
mod grouping;
mod growth;
mod growth_ahead;
mod heap_reuse;
mod ideal;
mod indexes;
mod lag;
mod limits;
mod listeners;
mod live_views;
mod log_growth;
mod lost_log;
mod migrations;
mod named;
mod names;
mod owned;
mod page_checksums;
mod pages;
mod paging;
mod parts;
mod persist;
mod pool;
mod processes;
mod readers;
mod recovery;
mod rejoining;
mod replication;
mod slots;
mod snapshot;
mod snapshot_groups;
mod strings;
mod transfers;
mod unpaused;
mod views;
