//! Tests of pools through the public interface.
//!
//! They share one test program, so that each design is compiled once for all of them.

mod contention;
mod cut;
mod damaged;
mod grouping;
mod ideal;
mod limits;
mod listeners;
mod lost_log;
mod names;
mod pages;
mod paging;
mod parts;
mod pool;
mod processes;
mod recovery;
mod slots;
mod snapshot;
mod snapshot_groups;
mod unpaused;
