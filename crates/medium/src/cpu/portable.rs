//! The same operations for any processor, by atomics and the system's clock.

use std::sync::OnceLock;
use std::time::Instant;

use crate::sync::{AtomicU64, Ordering, fence};

/// No portable write-back exists; media that need one do not support this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineWriteBack;

impl LineWriteBack {
    pub(super) fn detect() -> LineWriteBack {
        LineWriteBack
    }

    #[cfg(test)]
    pub(super) fn every() -> Vec<LineWriteBack> {
        vec![LineWriteBack]
    }

    pub(super) fn is_there(self) -> bool {
        false
    }

    pub(super) fn name(self) -> &'static str {
        "none"
    }

    pub(super) fn line(self, _word: &AtomicU64) {}
}

pub(super) fn prefetch_read(_word: &AtomicU64) {}

pub(super) fn prefetch_write(_word: &AtomicU64) {}

/// Nanoseconds since the first call.
pub(super) fn cycles() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

pub(super) fn store_fence() {
    fence(Ordering::SeqCst);
}

pub(super) fn load(from: &[AtomicU64], out: &mut [u64]) {
    out.iter_mut().zip(from).for_each(|(out, word)| *out = word.load(Ordering::Relaxed));
}

pub(super) fn stream_word(to: &AtomicU64, value: u64) {
    to.store(value, Ordering::Relaxed);
}

pub(super) fn stream_line(to: &[AtomicU64; 8], from: &[u64; 8]) {
    for (to, from) in to.iter().zip(from) {
        stream_word(to, *from);
    }
}
