//! Failures of the disk and of the process's resources, at every call that a pool makes.
//!
//! Invariants, whichever call fails:
//!
//! * no acknowledged transaction is lost;
//! * no transaction is acknowledged before it is durable;
//! * the error names the file and advises a remedy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod full;
mod limits;
mod memory;
mod mounts;
mod nth;
mod parts;
mod process;
mod story;
