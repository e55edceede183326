//! The contents of memory: one coherent value of every word, and the persistent array.
//!
//! ```text
//!   line 0                                nvm_lines                     lines
//!   | heap              | logs, journals  | locks, buffers of designs   |
//!   |---------- persistent memory --------|------ volatile memory ------|
//! ```
//!
//! Caches hold no data: each line has one coherent value at any time, which is here. A message that
//! leaves the coherent domain (a write-back, a log record) carries a copy of the 64 bytes, its
//! *payload*. A store therefore changes the value when it drains from the store buffer, and not
//! when it executes.
//!
//! In a *tagged* run, payloads carry store numbers in place of values. A parallel image has, for
//! each word of the heap, the number of the store that wrote it. Write-backs, logs, queues, the
//! array and recovery use that image. They only copy the program's words, so all times equal those
//! of the run with values. The recovered heap then identifies the last writer of each word, where a
//! value could be right by chance.

/// The words of a line.
pub type LineWords = [u64; 8];

/// The number of lines reserved for locks.
pub const LOCK_LINES: u32 = 1 << 12;

/// Copies these words and extends them with zeros. Pages of zeros are not written, so the host
/// commits no memory for them: most of a heap is zero, and so are logs at first.
pub fn copy_of(words: &[u64], length: usize) -> Vec<u64> {
    let mut copy = vec![0; length];
    for (to, from) in copy.chunks_mut(PAGE).zip(words.chunks(PAGE)) {
        if !is_zero(from) {
            to[..from.len()].copy_from_slice(from);
        }
    }
    copy
}

/// Makes `copy` equal to these words. An older copy of the same length keeps its memory, and its
/// pages that were and stay zero are not written either.
pub fn copy_over(words: &[u64], copy: &mut Vec<u64>) {
    if copy.len() != words.len() {
        *copy = copy_of(words, words.len());
        return;
    }
    for (to, from) in copy.chunks_mut(PAGE).zip(words.chunks(PAGE)) {
        if !is_zero(from) || !is_zero(to) {
            to.copy_from_slice(from);
        }
    }
}

/// Words of a page of the host.
const PAGE: usize = 512;

/// Tests all words without an early exit, so that the loop vectorizes.
fn is_zero(words: &[u64]) -> bool {
    words.iter().fold(0, |any, word| any | word) == 0
}

/// The memory of a machine.
#[derive(Clone, Debug)]
pub struct Memory {
    words: Vec<u64>,
    nvm_lines: u32,
    /// The persistent array, if the run keeps it.
    media: Option<Vec<u64>>,
    tags: Option<Tags>,
}

/// The payloads of a tagged run.
#[derive(Clone, Debug)]
struct Tags {
    /// For each word of the heap, the number of its last store, or a number of its own before the
    /// first. Beyond the heap, designs read their own data back, so the payload is the value.
    words: Vec<u64>,
    heap: u64,
    stores: u64,
}

/// Set in the numbers of unwritten words and of stores, so that an unwritten word differs from
/// every other word too.
const WORD: u64 = 1 << 63;
const STORE: u64 = WORD | 1 << 62;

impl Memory {
    /// Returns a memory with this heap, `extra` more persistent lines, and `volatile` lines besides
    /// those of the locks. With `media`, it also keeps the persistent array.
    ///
    /// # Panics
    /// When the heap is not a whole number of lines, or all regions together have 2^32 lines.
    pub fn new(heap: &[u64], extra: u32, volatile: u32, media: bool) -> Memory {
        assert!(heap.len().is_multiple_of(8), "a heap is a whole number of lines");
        let nvm_lines = u32::try_from(heap.len() / 8).expect("fewer than 2^32 lines") + extra;
        let lines = nvm_lines + LOCK_LINES + volatile;
        let words = copy_of(heap, lines as usize * 8);
        let media = media.then(|| copy_of(heap, nvm_lines as usize * 8));
        Memory { words, nvm_lines, media, tags: None }
    }

    /// Tags payloads from here on: those of the first `heap` words carry store numbers.
    pub fn tag(&mut self, heap: u64) {
        let mut words = copy_of(&self.words, self.words.len());
        for of_heap in [Some(&mut words), self.media.as_mut()].into_iter().flatten() {
            for (word, tag) in (0..heap).zip(of_heap) {
                *tag = WORD | word;
            }
        }
        self.tags = Some(Tags { words, heap, stores: 0 });
    }

    /// Returns the number of persistent lines.
    pub fn nvm_lines(&self) -> u32 {
        self.nvm_lines
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> u32 {
        (self.words.len() / 8) as u32
    }

    /// Returns the first volatile line after those of the locks.
    pub fn volatile_line(&self) -> u32 {
        self.nvm_lines + LOCK_LINES
    }

    /// Returns whether a line is persistent.
    #[inline]
    pub fn is_nvm(&self, line: u32) -> bool {
        line < self.nvm_lines
    }

    /// Returns the word of a lock. Its line has no other words, but other locks may hash to it.
    #[inline]
    pub fn lock_word(&self, lock: u64) -> u64 {
        let line = lock.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        (u64::from(self.nvm_lines) + line) * 8
    }

    /// Returns the coherent value of a word.
    #[inline]
    pub fn word(&self, word: u64) -> u64 {
        self.words[word as usize]
    }

    /// Sets the coherent value of a word.
    pub fn set_word(&mut self, word: u64, value: u64) {
        self.store(word, word, value);
    }

    /// Drains a store of the program's `word`, which lies at `place`. Returns the old payload.
    #[inline]
    pub fn store(&mut self, place: u64, word: u64, value: u64) -> u64 {
        let old = std::mem::replace(&mut self.words[place as usize], value);
        match &mut self.tags {
            None => old,
            Some(tags) => tags.store(place, word, value),
        }
    }

    /// Restores a word's value and payload.
    pub fn restore(&mut self, word: u64, value: u64, payload: u64) {
        self.words[word as usize] = value;
        if let Some(tags) = &mut self.tags {
            tags.words[word as usize] = payload;
        }
    }

    /// Returns a word's payload: its value, or in a tagged run the number of its last store.
    /// Designs put this into their logs.
    #[inline]
    pub fn payload(&self, word: u64) -> u64 {
        self.payloads()[word as usize]
    }

    /// Returns the payload of a line.
    #[inline]
    pub fn line(&self, line: u32) -> LineWords {
        let first = line as usize * 8;
        self.payloads()[first..first + 8].try_into().expect("a line has eight words")
    }

    #[inline]
    fn payloads(&self) -> &[u64] {
        self.tags.as_ref().map_or(&self.words, |tags| &tags.words)
    }

    /// Copies a line's words and payloads to another line.
    pub fn copy_line(&mut self, from: u32, to: u32) {
        let (from, to) = (from as usize * 8, to as usize * 8);
        self.words.copy_within(from..from + 8, to);
        if let Some(tags) = &mut self.tags {
            tags.words.copy_within(from..from + 8, to);
        }
    }

    /// Returns whether the run keeps the persistent array.
    pub fn keeps_media(&self) -> bool {
        self.media.is_some()
    }

    /// Returns the array's value of a persistent line, if the run keeps it.
    pub fn media_line(&self, line: u32) -> Option<LineWords> {
        let first = line as usize * 8;
        let media = self.media.as_ref()?.get(first..first + 8)?;
        Some(media.try_into().expect("a line has eight words"))
    }

    /// Sets the array's value of a line.
    pub fn set_media_line(&mut self, line: u32, value: &LineWords) {
        let first = line as usize * 8;
        if let Some(media) = self.media.as_mut().and_then(|all| all.get_mut(first..first + 8)) {
            media.copy_from_slice(value);
        }
    }

    /// Returns all coherent words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the persistent array.
    pub fn media(&self) -> Option<&[u64]> {
        self.media.as_deref()
    }
}

impl Tags {
    fn store(&mut self, place: u64, word: u64, value: u64) -> u64 {
        self.stores += 1;
        let tag = if word < self.heap { STORE | self.stores } else { value };
        std::mem::replace(&mut self.words[place as usize], tag)
    }
}

/// Returns the line of a word.
#[inline]
pub const fn line_of(word: u64) -> u32 {
    (word >> 3) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_over_replaces_every_word_of_older_copy() {
        let mut older = vec![0; 3 * PAGE + 8];
        (older[1], older[PAGE], older[3 * PAGE + 7]) = (1, 2, 3);
        let mut words = vec![0; older.len()];
        (words[0], words[2 * PAGE]) = (4, 5);
        for from in [&words, &vec![6; PAGE]] {
            copy_over(from, &mut older);
            assert_eq!(older, *from);
        }
    }
}
