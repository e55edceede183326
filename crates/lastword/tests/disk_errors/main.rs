//! Disks that fail: whatever call it is, nothing acknowledged is lost, nothing is acknowledged that
//! is not durable, and the program is told the file and what to do.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod full;
mod limits;
mod memory;
mod mounts;
mod nth;
mod parts;
mod process;
mod story;
