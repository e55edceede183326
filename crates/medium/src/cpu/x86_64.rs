//! The instructions of x86-64.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _MM_HINT_T0, _mm_prefetch, _mm_sfence, _rdtsc};

use std::sync::OnceLock;

use crate::sync::AtomicU64;

/// Made only by [`LineWriteBack::available`], so the processor has the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineWriteBack {
    /// Writes back and may keep the line.
    Clwb,
    /// Writes back and drops the line; ordered by SFENCE alone.
    ClflushOpt,
    /// Writes back and drops the line; each waits for the one before.
    Clflush,
}

impl LineWriteBack {
    /// Returns the processor's instructions, best first.
    fn available() -> impl Iterator<Item = LineWriteBack> {
        let leaves = __cpuid_count(0, 0).eax;
        let features = if leaves >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
        [
            (features & 1 << 24 != 0, LineWriteBack::Clwb),
            (features & 1 << 23 != 0, LineWriteBack::ClflushOpt),
            (true, LineWriteBack::Clflush), // comes with SSE2, which x86-64 includes
        ]
        .into_iter()
        .filter_map(|(has, way)| has.then_some(way))
    }

    /// Asked once: in a virtual machine the question takes 20 us or more.
    pub(super) fn detect() -> LineWriteBack {
        static BEST: OnceLock<LineWriteBack> = OnceLock::new();
        *BEST.get_or_init(|| {
            LineWriteBack::available().next().expect("every x86-64 processor has CLFLUSH")
        })
    }

    #[cfg(test)]
    pub(super) fn every() -> Vec<LineWriteBack> {
        LineWriteBack::available().collect()
    }

    pub(super) fn is_there(self) -> bool {
        true
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            LineWriteBack::Clwb => "clwb",
            LineWriteBack::ClflushOpt => "clflushopt",
            LineWriteBack::Clflush => "clflush",
        }
    }

    // No `nomem` on these: the compiler must not move a store to the line across them.
    #[inline(always)]
    pub(super) fn line(self, word: &AtomicU64) {
        let at = word.as_ptr();
        match self {
            // SAFETY: changes no memory, `at` is mapped, and `available` saw the instruction.
            LineWriteBack::Clwb => unsafe {
                asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags));
            },
            // SAFETY: as above.
            LineWriteBack::ClflushOpt => unsafe {
                asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags));
            },
            // SAFETY: as above.
            LineWriteBack::Clflush => unsafe {
                asm!("clflush [{}]", in(reg) at, options(nostack, preserves_flags));
            },
        }
    }
}

#[inline(always)]
pub(super) fn prefetch_read(word: &AtomicU64) {
    // SAFETY: a hint without effect on memory; it is part of SSE, which x86-64 includes.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(word.as_ptr().cast()) }
}

#[inline(always)]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "a hint reads and writes nothing")]
pub(super) fn prefetch_write(word: &AtomicU64) {
    // SAFETY: a hint without effect on memory; 64-bit processors without it take it for a no-op.
    unsafe {
        asm!("prefetchw [{}]", in(reg) word.as_ptr(), options(nomem, nostack, preserves_flags));
    }
}

#[inline(always)]
pub(super) fn cycles() -> u64 {
    // SAFETY: reads a register that every x86-64 processor has.
    unsafe { _rdtsc() }
}

#[inline(always)]
pub(super) fn store_fence() {
    // SAFETY: orders memory accesses and nothing else; part of SSE, which x86-64 includes.
    unsafe { _mm_sfence() }
}

/// The slices have one length.
#[inline(always)]
pub(super) fn load(from: &[AtomicU64], out: &mut [u64]) {
    // SAFETY: as many aligned 8-byte loads as there are words, from memory that other threads may
    // change meanwhile, each stored to its own word of `out`. The ABI keeps the direction flag
    // clear.
    unsafe {
        asm!("rep movsq",
            inout("rsi") from.as_ptr() => _,
            inout("rdi") out.as_mut_ptr() => _,
            inout("rcx") out.len() => _,
            options(nostack, preserves_flags));
    }
}

/// The caller fences before it lets other threads know.
#[inline(always)]
pub(super) fn stream_word(to: &AtomicU64, value: u64) {
    // SAFETY: one aligned 8-byte store to memory that may be changed through a shared reference;
    // part of SSE2, which x86-64 includes.
    unsafe {
        asm!("movnti [{}], {}", in(reg) to.as_ptr(), in(reg) value,
            options(nostack, preserves_flags));
    }
}

/// The caller fences before it lets other threads know. The stores stand side by side so that the
/// processor joins them to one write of a line.
#[inline(always)]
pub(super) fn stream_line(to: &[AtomicU64; 8], from: &[u64; 8]) {
    for (to, from) in to.iter().zip(from) {
        stream_word(to, *from);
    }
}
