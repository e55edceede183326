//! Atomics behind the loom seam; see `medium::sync`.

pub(crate) use medium::cpu::prefetch_write;
pub(crate) use medium::sync::{AtomicU64, Ordering};
