//! What is in memory: one coherent value of every word, and what the persistent array has.
//!
//! ```text
//!   line 0                                nvm_lines                     lines
//!   | heap              | logs, journals  | locks, buffers of designs   |
//!   |---------- persistent memory --------|------ volatile memory ------|
//! ```
//!
//! Caches hold no bytes: at any time there is one coherent value of a line, and it is here. What
//! leaves the coherent domain (a write-back, a log entry) takes its 64 bytes with it: its
//! *payload*. For that a store changes the value when it drains from the store buffer, and not
//! when it is executed.
//!
//! In a *tagged* run payloads carry no values: a parallel image has for each word of the heap the
//! number of the store that wrote it, and that is what write-backs, logs, queues, the array and
//! recovery are given. They do nothing with a program's words but copy them, so all times are those
//! of the run with values; and what recovery has made of the heap says of each word who wrote it,
//! where a value may also be there by chance.

/// The bytes of a line, as words.
pub type LineWords = [u64; 8];

/// Lines whose locks the machine keeps.
pub const LOCK_LINES: u32 = 1 << 12;

/// A copy of these words with zeros behind them. What is zero is not written: most of a heap is,
/// and so are logs in the beginning, and the host has no memory for pages that nobody has written.
pub fn copy_of(words: &[u64], length: usize) -> Vec<u64> {
    /// Words of a page of the host.
    const PAGE: usize = 512;
    let mut copy = vec![0; length];
    for (to, from) in copy.chunks_mut(PAGE).zip(words.chunks(PAGE)) {
        // All words, and no way out at the first one: so the host looks at several at once.
        if from.iter().fold(0, |any, word| any | word) != 0 {
            to[..from.len()].copy_from_slice(from);
        }
    }
    copy
}

/// The machine's memory.
#[derive(Clone, Debug)]
pub struct Memory {
    words: Vec<u64>,
    nvm_lines: u32,
    /// What the array has; kept only when somebody wants to know.
    media: Option<Vec<u64>>,
    tags: Option<Tags>,
}

/// Who wrote which word.
#[derive(Clone, Debug)]
struct Tags {
    /// Of each word: the number of the store that wrote it, or in the beginning its own number.
    /// Behind the heap, where designs keep what they read themselves, it is the value.
    words: Vec<u64>,
    heap: u64,
    stores: u64,
}

/// Added to the numbers of words that nobody has written yet, and to those of stores: so a word
/// that was never written is told from every other one, too.
const WORD: u64 = 1 << 63;
const STORE: u64 = WORD | 1 << 62;

impl Memory {
    /// A heap, `extra` further lines of persistent memory behind it, and `volatile` lines besides
    /// those of the locks. With `media` it also keeps what the array has.
    ///
    /// # Panics
    /// When the heap is not a whole number of lines, or all together has 2^32 lines.
    pub fn new(heap: &[u64], extra: u32, volatile: u32, media: bool) -> Memory {
        assert!(heap.len().is_multiple_of(8), "a heap is lines");
        let nvm_lines = u32::try_from(heap.len() / 8).expect("fewer than 2^32 lines") + extra;
        let lines = nvm_lines + LOCK_LINES + volatile;
        let words = copy_of(heap, lines as usize * 8);
        let media = media.then(|| copy_of(heap, nvm_lines as usize * 8));
        Memory { words, nvm_lines, media, tags: None }
    }

    /// From here on payloads say of the heap's words, of which there are so many, who wrote them.
    pub fn tag(&mut self, heap: u64) {
        let mut words = copy_of(&self.words, self.words.len());
        for of_heap in [Some(&mut words), self.media.as_mut()].into_iter().flatten() {
            for (word, tag) in (0..heap).zip(of_heap) {
                *tag = WORD | word;
            }
        }
        self.tags = Some(Tags { words, heap, stores: 0 });
    }

    /// Lines of persistent memory.
    pub fn nvm_lines(&self) -> u32 {
        self.nvm_lines
    }

    /// All lines.
    pub fn lines(&self) -> u32 {
        (self.words.len() / 8) as u32
    }

    /// The first volatile line behind those of the locks.
    pub fn volatile_line(&self) -> u32 {
        self.nvm_lines + LOCK_LINES
    }

    /// Whether a line is persistent.
    #[inline]
    pub fn is_nvm(&self, line: u32) -> bool {
        line < self.nvm_lines
    }

    /// The word of a lock: alone in its line, but for locks of other numbers.
    #[inline]
    pub fn lock_word(&self, lock: u64) -> u64 {
        let line = lock.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        (u64::from(self.nvm_lines) + line) * 8
    }

    /// The coherent value of a word.
    #[inline]
    pub fn word(&self, word: u64) -> u64 {
        self.words[word as usize]
    }

    /// Changes it.
    pub fn set_word(&mut self, word: u64, value: u64) {
        self.store(word, word, value);
    }

    /// A store of the program to a word drains, which lies at this place. Answers what a payload
    /// had of it before.
    #[inline]
    pub fn store(&mut self, place: u64, word: u64, value: u64) -> u64 {
        let old = std::mem::replace(&mut self.words[place as usize], value);
        match &mut self.tags {
            None => old,
            Some(tags) => tags.store(place, word, value),
        }
    }

    /// Makes a word what it was: its value, and what a payload had of it.
    pub fn restore(&mut self, word: u64, value: u64, payload: u64) {
        self.words[word as usize] = value;
        if let Some(tags) = &mut self.tags {
            tags.words[word as usize] = payload;
        }
    }

    /// What a payload has of a word: its value, or in a tagged run who wrote it. What a design puts
    /// into a log is this.
    #[inline]
    pub fn payload(&self, word: u64) -> u64 {
        self.payloads()[word as usize]
    }

    /// A line's payload.
    #[inline]
    pub fn line(&self, line: u32) -> LineWords {
        let first = line as usize * 8;
        self.payloads()[first..first + 8].try_into().expect("a line has eight words")
    }

    #[inline]
    fn payloads(&self) -> &[u64] {
        self.tags.as_ref().map_or(&self.words, |tags| &tags.words)
    }

    /// Copies a line's words to another one, with what payloads have of them.
    pub fn copy_line(&mut self, from: u32, to: u32) {
        let (from, to) = (from as usize * 8, to as usize * 8);
        self.words.copy_within(from..from + 8, to);
        if let Some(tags) = &mut self.tags {
            tags.words.copy_within(from..from + 8, to);
        }
    }

    /// Whether it keeps what the array has.
    pub fn keeps_media(&self) -> bool {
        self.media.is_some()
    }

    /// What the array has of a persistent line.
    pub fn media_line(&self, line: u32) -> Option<LineWords> {
        let first = line as usize * 8;
        let media = self.media.as_ref()?.get(first..first + 8)?;
        Some(media.try_into().expect("a line has eight words"))
    }

    /// The array gets a line.
    pub fn set_media_line(&mut self, line: u32, value: &LineWords) {
        let first = line as usize * 8;
        if let Some(media) = self.media.as_mut().and_then(|all| all.get_mut(first..first + 8)) {
            media.copy_from_slice(value);
        }
    }

    /// All coherent words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// All that the array has.
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

/// The number of the line in which a word is.
#[inline]
pub const fn line_of(word: u64) -> u32 {
    (word >> 3) as u32
}
