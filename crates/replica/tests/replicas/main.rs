//! Primaries and followers of a stream in memory: failover, restarts, lost replies.
#![allow(clippy::unwrap_used, reason = "tests")]

mod ended;
mod failover;
mod following;
mod hooked;
mod lagging;
mod refused;
mod restarts;
mod set;
mod unreliable;
