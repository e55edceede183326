//! Replicas of a pool on other machines.
//!
//! The primary appends its durable groups to a [stream](LogStream), and followers apply them.

pub mod stream;

pub use stream::memory::MemoryStream;
pub use stream::{LogStream, ReadStream, StreamError};
