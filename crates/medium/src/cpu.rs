//! Processor operations beyond loads and stores, behind safe functions.
//!
//! Every operation is a hint or acts like a relaxed atomic access, so no input can break memory
//! safety. An index outside the words does nothing. On processors other than x86-64 the hints do
//! nothing and the other operations use plain atomics.

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::sync::OnceLock;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

#[cfg(not(target_arch = "x86_64"))]
use self::portable as arch;
#[cfg(target_arch = "x86_64")]
use self::x86_64 as arch;
use crate::sync::AtomicU64;

/// Words in a cache line.
pub const LINE_WORDS: usize = 8;

/// Bytes in a cache line.
pub const LINE_BYTES: usize = 8 * LINE_WORDS;

/// How long the cycle counter is compared with the clock: 10 ms make its error, some tens of ns at
/// either end, less than 10 parts in a million.
const CALIBRATE_NS: u128 = 10_000_000;

/// A hint that the word will be read soon.
///
/// ```
/// use medium::{cpu, sync::AtomicU64};
///
/// let words = [const { AtomicU64::new(0) }; 16];
/// cpu::prefetch_read(&words, 3);
/// cpu::prefetch_read(&words, usize::MAX); // outside: does nothing
/// ```
#[inline(always)]
pub fn prefetch_read(words: &[AtomicU64], index: usize) {
    if let Some(word) = words.get(index) {
        arch::prefetch_read(word);
    }
}

/// A hint that the word will be written soon: its line comes, and the other cores lose theirs.
#[inline(always)]
pub fn prefetch_write(words: &[AtomicU64], index: usize) {
    if let Some(word) = words.get(index) {
        arch::prefetch_write(word);
    }
}

/// The cycle counter: it runs at [`cycles_per_second`], on all cores alike. Earlier and later
/// instructions may move across its reading.
#[inline(always)]
pub fn cycles() -> u64 {
    arch::cycles()
}

/// How fast [`cycles`] counts; the first call measures it, which takes 10 ms.
///
/// ```
/// use medium::cpu;
///
/// let start = cpu::cycles();
/// let seconds = (cpu::cycles() - start) as f64 / cpu::cycles_per_second() as f64;
/// assert!(seconds < 1.0);
/// ```
pub fn cycles_per_second() -> u64 {
    static CYCLES_PER_SECOND: OnceLock<u64> = OnceLock::new();
    *CYCLES_PER_SECOND.get_or_init(|| {
        let (start, start_cycles) = instant_and_cycles();
        while start.elapsed().as_nanos() < CALIBRATE_NS {
            crate::sync::spin_loop();
        }
        let (end, end_cycles) = instant_and_cycles();
        let ns = end.duration_since(start).as_nanos();
        let cycles = u128::from(end_cycles.saturating_sub(start_cycles));
        u64::try_from(cycles * 1_000_000_000 / ns).unwrap_or(u64::MAX).max(1)
    })
}

/// A number of cycles in nanoseconds.
pub fn cycles_to_ns(cycles: u64) -> u64 {
    let ns = u128::from(cycles) * 1_000_000_000 / u128::from(cycles_per_second());
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// CPU time that the calling thread has used, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How this processor writes a cache line back to memory without waiting for it.
///
/// ```
/// use medium::{cpu, sync::AtomicU64, sync::Ordering::Relaxed};
///
/// let words = [const { AtomicU64::new(0) }; 16];
/// let write_back = cpu::LineWriteBack::detect();
/// words[3].store(42, Relaxed);
/// write_back.line(&words, 3);
/// cpu::store_fence(); // on persistent memory the word is durable now
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineWriteBack(arch::LineWriteBack);

impl LineWriteBack {
    /// Returns the best instruction available: CLWB, else CLFLUSHOPT, else CLFLUSH.
    pub fn detect() -> LineWriteBack {
        LineWriteBack(arch::LineWriteBack::detect())
    }

    /// Whether any instruction exists; without one, stores become durable only on eviction.
    pub fn is_there(self) -> bool {
        self.0.is_there()
    }

    /// Every way that this processor has.
    #[cfg(test)]
    pub(crate) fn every() -> Vec<LineWriteBack> {
        arch::LineWriteBack::every().into_iter().map(LineWriteBack).collect()
    }

    /// The instruction's name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Starts writing back the line that holds the word, with all that this thread has stored to
    /// it; complete after the next [`store_fence`].
    #[inline(always)]
    pub fn line(self, words: &[AtomicU64], index: usize) {
        if let Some(word) = words.get(index) {
            self.0.line(word);
        }
    }
}

/// Waits until earlier stores and write-backs of this thread have reached memory.
#[inline(always)]
pub fn store_fence() {
    arch::store_fence();
}

/// Copies words, as relaxed atomic loads would, many at a time.
///
/// # Panics
/// When the slices are not of one length.
#[inline]
pub fn load(from: &[AtomicU64], out: &mut [u64]) {
    assert_eq!(from.len(), out.len(), "words and copies are as many");
    arch::load(from, out);
}

/// Copies words past the cache, straight to memory, as relaxed atomic stores would; ends with a
/// [`store_fence`], because without one such stores could become visible after later ones, which
/// no atomic store may.
///
/// # Panics
/// When the slices are not of one length.
#[inline]
pub fn stream(to: &[AtomicU64], from: &[u64]) {
    Stream::begin().words(to, from);
}

/// Many copies past the cache and one [`store_fence`] behind them, when it is dropped.
///
/// ```
/// use medium::{cpu::Stream, sync::AtomicU64, sync::Ordering::Relaxed};
///
/// let words = [const { AtomicU64::new(0) }; 16];
/// let stream = Stream::begin();
/// stream.words(&words[3..5], &[42, 43]);
/// stream.words(&words[9..10], &[44]);
/// drop(stream); // on persistent memory the words are durable
/// assert_eq!(words[9].load(Relaxed), 44);
/// ```
#[derive(Debug)]
#[must_use]
pub struct Stream(());

impl Stream {
    /// Begins to copy.
    #[inline(always)]
    pub fn begin() -> Stream {
        Stream(())
    }

    /// Copies words. Those copied to one place take effect in order.
    ///
    /// # Panics
    /// When the slices are not of one length.
    #[inline(always)]
    pub fn words(&self, to: &[AtomicU64], from: &[u64]) {
        stream_unfenced(to, from);
    }
}

/// [`stream`] without a fence, for callers that fence themselves.
///
/// # Panics
/// If the slices differ in length.
#[inline(always)]
pub(crate) fn stream_unfenced(to: &[AtomicU64], from: &[u64]) {
    assert_eq!(to.len(), from.len(), "as many words come as go");
    let (to_lines, to_rest) = to.as_chunks::<LINE_WORDS>();
    let (from_lines, from_rest) = from.as_chunks::<LINE_WORDS>();
    for (to, from) in to_lines.iter().zip(from_lines) {
        arch::stream_line(to, from);
    }
    for (to, from) in to_rest.iter().zip(from_rest) {
        arch::stream_word(to, *from);
    }
}

impl Drop for Stream {
    #[inline(always)]
    fn drop(&mut self) {
        arch::store_fence();
    }
}

/// Reads both clocks at one moment: the least interrupted of several tries.
fn instant_and_cycles() -> (Instant, u64) {
    let read = || {
        let before = cycles();
        let instant = Instant::now();
        let after = cycles();
        (after.saturating_sub(before), instant, before / 2 + after / 2)
    };
    let tries: [_; 16] = std::array::from_fn(|_| read());
    let (_, instant, cycles) = tries.into_iter().min_by_key(|try_| try_.0).expect("16 tries");
    (instant, cycles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;

    #[test]
    fn streamed_words_arrive_and_no_others_change() {
        for (at, len) in [(0, 64), (1, 8), (3, 29), (8, 0), (63, 1), (7, 7)] {
            let words: Vec<AtomicU64> = (0..64).map(AtomicU64::new).collect();
            let from: Vec<u64> = (0..len as u64).map(|i| 1000 + i).collect();
            stream(&words[at..at + len], &from);
            for (i, word) in words.iter().enumerate() {
                let inside = i >= at && i < at + len;
                let expected = if inside { 1000 + i - at } else { i };
                assert_eq!(word.load(Relaxed), expected as u64);
            }
        }
    }

    #[test]
    #[should_panic(expected = "as many words come as go")]
    fn streaming_to_a_shorter_slice_panics() {
        stream(&[AtomicU64::new(0)], &[1, 2]);
    }

    #[test]
    fn hints_change_nothing_and_take_any_index() {
        let words: Vec<AtomicU64> = (0..64).map(AtomicU64::new).collect();
        for index in (0..70).chain([usize::MAX, usize::MAX / 8]) {
            prefetch_read(&words, index);
            prefetch_write(&words, index);
            LineWriteBack::every().iter().for_each(|way| way.line(&words, index));
        }
        store_fence();
        assert!(words.iter().enumerate().all(|(i, word)| word.load(Relaxed) == i as u64));
    }

    #[test]
    fn the_best_way_to_write_a_line_back_is_taken() {
        let (every, best) = (LineWriteBack::every(), LineWriteBack::detect());
        assert_eq!(every.first(), Some(&best));
        assert_eq!(best.is_there(), best.name() != "none");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(every.last().map(|way| way.name()), Some("clflush"));
        }
    }

    #[test]
    fn clocks_run_forward() {
        let (start, cpu_ns) = (cycles(), thread_cpu_ns());
        while thread_cpu_ns() < cpu_ns + 1_000_000 {}
        // The counter advances by at least the CPU time; a tenth covers the error of calibration.
        assert!(cycles_to_ns(cycles() - start) >= 900_000);
        assert!(cycles_per_second() > 1_000_000);
        assert_eq!(cycles_to_ns(cycles_per_second()), 1_000_000_000);
        assert_eq!(cycles_to_ns(70_000 * cycles_per_second()), 70_000_000_000_000);
    }

    #[test]
    fn processors_without_the_instructions_do_the_same() {
        let words: Vec<AtomicU64> = (0..16).map(AtomicU64::new).collect();
        portable::stream_line(words.first_chunk().unwrap(), &[7; 8]);
        portable::stream_word(&words[8], 9);
        portable::prefetch_read(&words[0]);
        portable::prefetch_write(&words[0]);
        portable::LineWriteBack::every().iter().for_each(|way| way.line(&words[0]));
        assert!(!portable::LineWriteBack::detect().is_there());
        portable::store_fence();
        let mut copies = [[0; 9]; 2];
        portable::load(&words[..9], &mut copies[0]);
        load(&words[..9], &mut copies[1]);
        assert_eq!(copies, [[7, 7, 7, 7, 7, 7, 7, 7, 9]; 2]);
        assert!(words[..8].iter().all(|word| word.load(Relaxed) == 7));
        assert_eq!(words[8].load(Relaxed), 9);
        let start = portable::cycles();
        assert!(portable::cycles() >= start);
        assert_eq!(portable::LineWriteBack::detect().name(), "none");
    }
}
