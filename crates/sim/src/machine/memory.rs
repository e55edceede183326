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

use super::sparse::{NUMBERED, Sparse};

/// The words of a line.
pub type LineWords = [u64; 8];

/// The number of lines reserved for locks.
pub const LOCK_LINES: u32 = 1 << 12;

/// The memory of a machine.
#[derive(Clone, Debug)]
pub struct Memory {
    words: Sparse,
    nvm_lines: u32,
    /// The persistent array, if the run keeps it.
    media: Option<Sparse>,
    tags: Option<Tags>,
}

/// The payloads of a tagged run.
#[derive(Clone, Debug)]
struct Tags {
    /// For each word of the heap, the number of its last store, or a number of its own before the
    /// first. Beyond the heap, designs read their own data back, so the payload is the value.
    words: Sparse,
    heap: u64,
    stores: u64,
}

/// Set in the numbers of stores, so that they differ from those of unwritten words.
const STORE: u64 = NUMBERED | 1 << 62;

impl Memory {
    /// Returns a memory with this heap, `extra` more persistent lines, and `volatile` lines besides
    /// those of the locks. With `media`, it also keeps the persistent array.
    ///
    /// # Panics
    /// When the heap is not a whole number of lines, or all regions together have 2^32 lines.
    pub fn new(heap: &Sparse, extra: u32, volatile: u32, media: bool) -> Memory {
        assert!(heap.length().is_multiple_of(8), "a heap is a whole number of lines");
        let nvm_lines = u32::try_from(heap.length() / 8).expect("fewer than 2^32 lines") + extra;
        let lines = nvm_lines + LOCK_LINES + volatile;
        let words = heap.copy(lines as usize * 8);
        let media = media.then(|| heap.copy(nvm_lines as usize * 8));
        Memory { words, nvm_lines, media, tags: None }
    }

    /// Tags payloads from here on: those of the first `heap` words carry store numbers.
    pub fn tag(&mut self, heap: u64) {
        let words = self.words.with_numbers(heap as usize);
        self.media = self.media.as_ref().map(|media| media.with_numbers(heap as usize));
        self.tags = Some(Tags { words, heap, stores: 0 });
    }

    /// Returns the number of persistent lines.
    pub fn nvm_lines(&self) -> u32 {
        self.nvm_lines
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> u32 {
        (self.words.length() / 8) as u32
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
        self.words.word(word as usize)
    }

    /// Sets the coherent value of a word.
    pub fn set_word(&mut self, word: u64, value: u64) {
        self.store(word, word, value);
    }

    /// Drains a store of the program's `word`, which lies at `place`. Returns the old payload.
    #[inline]
    pub fn store(&mut self, place: u64, word: u64, value: u64) -> u64 {
        let old = self.words.replace(place as usize, value);
        match &mut self.tags {
            None => old,
            Some(tags) => tags.store(place, word, value),
        }
    }

    /// Restores a word's value and payload.
    pub fn restore(&mut self, word: u64, value: u64, payload: u64) {
        self.words.replace(word as usize, value);
        if let Some(tags) = &mut self.tags {
            tags.words.replace(word as usize, payload);
        }
    }

    /// Returns a word's payload: its value, or in a tagged run the number of its last store.
    /// Designs put this into their logs.
    #[inline]
    pub fn payload(&self, word: u64) -> u64 {
        self.payloads().word(word as usize)
    }

    /// Returns the payload of a line.
    #[inline]
    pub fn line(&self, line: u32) -> LineWords {
        self.payloads().line(line).expect("the memory has the line")
    }

    #[inline]
    fn payloads(&self) -> &Sparse {
        self.tags.as_ref().map_or(&self.words, |tags| &tags.words)
    }

    /// Copies a line's words and payloads to another line.
    pub fn copy_line(&mut self, from: u32, to: u32) {
        let tags = self.tags.as_mut().map(|tags| &mut tags.words);
        for words in [Some(&mut self.words), tags].into_iter().flatten() {
            let line = words.line(from).expect("the memory has the line");
            words.set_line(to, &line);
        }
    }

    /// Returns whether the run keeps the persistent array.
    pub fn keeps_media(&self) -> bool {
        self.media.is_some()
    }

    /// Returns the array's value of a persistent line, if the run keeps it.
    pub fn media_line(&self, line: u32) -> Option<LineWords> {
        self.media.as_ref()?.line(line)
    }

    /// Sets the array's value of a line.
    pub fn set_media_line(&mut self, line: u32, value: &LineWords) {
        if let Some(media) = &mut self.media {
            media.set_line(line, value);
        }
    }

    /// Returns all coherent words.
    pub fn words(&self) -> &Sparse {
        &self.words
    }

    /// Returns the persistent array.
    pub fn media(&self) -> Option<&Sparse> {
        self.media.as_ref()
    }
}

impl Tags {
    fn store(&mut self, place: u64, word: u64, value: u64) -> u64 {
        self.stores += 1;
        let tag = if word < self.heap { STORE | self.stores } else { value };
        self.words.replace(place as usize, tag)
    }
}

/// Returns the line of a word.
#[inline]
pub const fn line_of(word: u64) -> u32 {
    (word >> 3) as u32
}
