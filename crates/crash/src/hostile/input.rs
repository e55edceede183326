//! The bytes that drive a target: decisions, read one after another. After the last byte every
//! decision is 0, so that short inputs are simple.

/// A position in the bytes.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Reads from the start.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    /// Returns whether all bytes are used.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the unused bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.rest.split_at(self.rest.len().min(N));
        self.rest = rest;
        let mut bytes = [0; N];
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// A bit; takes a byte.
    pub fn bit(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// Any word.
    pub fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// A number below `end`, which is at most 2^32 and not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        u64::from(u32::from_le_bytes(self.take())) % end
    }

    /// Returns a replacement of `old`: a word that often exposes bugs, or any.
    pub fn value(&mut self, old: u64) -> u64 {
        match self.byte() % 12 {
            0 => 0,
            1 => u64::MAX,
            2 => old ^ 1 << (self.byte() % 64),
            3 => old.wrapping_add(1),
            4 => old.wrapping_sub(1),
            5 => u64::from(self.byte()),
            6 => 1 << (self.byte() % 64),
            7 => (1_u64 << (self.byte() % 64)).wrapping_sub(1),
            8 => old.wrapping_add(u64::from(self.byte()) * 4096),
            9 => old.wrapping_mul(2),
            10 => self.below(1 << 32),
            _ => self.word(),
        }
    }

    /// Changes some words: one, a swap of two, or a whole part copied from elsewhere.
    pub fn change(&mut self, words: &mut [u64]) {
        let length = words.len() as u64;
        if length == 0 {
            return;
        }
        let at = self.below(length) as usize;
        match self.byte() % 8 {
            0..=4 => words[at] = self.value(words[at]),
            5 => words.swap(at, self.below(length) as usize),
            6 => {
                let from = self.below(length) as usize;
                let part = (1 << (self.byte() % 10)).min(words.len() - at.max(from));
                words.copy_within(from..from + part, at);
            }
            _ => {
                let part = (1 << (self.byte() % 10)).min(words.len() - at);
                let fill = self.value(0);
                words[at..at + part].fill(fill);
            }
        }
    }
}
