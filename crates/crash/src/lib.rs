//! Crash testing: what crashes, damage and malice leave in a pool's files, and what becomes of it.
//!
//! [`hostile`] are files that lie.
#![forbid(unsafe_code)]

pub mod hostile;
