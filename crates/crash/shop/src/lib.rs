//! right function are the usual wrong ones, which crash tests find.

pub mod bank;
pub mod jobs;
pub mod orders;
