//! How records lie in the log: rings, and words that say what is in them.

use crate::machine::description::Description;
use crate::mutants::{Mutant, planted};

/// Which words of a line an entry keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::design) enum Content {
    /// What they were.
    Old,
    /// What they become.
    New,
    /// First what they were, then what they become.
    Both,
}

/// The last name that a transaction may have: 20 bits.
const LAST_ID: u32 = (1 << 20) - 1;

/// The last line, and the most entries, that a meta word can tell of: 30 bits, which are 64 GiB.
const LAST_LINE: u32 = (1 << 30) - 1;

/// In the place of a commit word's entries: the transaction was dropped, its lines are what they
/// were. No transaction has so many.
pub(super) const DROPPED: u32 = LAST_LINE;

/// Laps that can be told apart: 6 bits, and 0 is never written.
const LAPS: u64 = (1 << 6) - 1;

/// Tails that a letter may need, at most.
pub(super) const MOST_TAILS: u64 = 18;
/// Heads that it may need.
pub(super) const MOST_HEADS: u64 = 9;

/// A meta word: what an entry is about, or that a transaction is committed.
///
/// ```text
///   | lap 6 | transaction 20 | mask 8 | line 30 |
/// ```
/// A mask of 0 makes it a commit word: then `line` is the number of the transaction's entries, or
/// [`DROPPED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) line: u32,
    pub(super) mask: u8,
    pub(super) id: u32,
    pub(super) lap: u8,
}

impl Meta {
    pub(super) fn word(self) -> u64 {
        let Meta { line, mask, id, lap } = self;
        assert!(line <= LAST_LINE && id <= LAST_ID, "{self:?} has no meta word");
        u64::from(lap) << 58 | u64::from(id) << 38 | u64::from(mask) << 30 | u64::from(line)
    }

    pub(super) fn of(word: u64) -> Meta {
        Meta {
            line: word as u32 & LAST_LINE,
            mask: (word >> 30) as u8,
            id: (word >> 38) as u32 & LAST_ID,
            lap: (word >> 58) as u8,
        }
    }
}

/// Where the log is, and how it is written.
#[derive(Clone, Copy, Debug)]
pub(in crate::design) struct Layout {
    /// The line of Log Start; the heads' ring follows, then the tails'.
    first: u32,
    pub(super) heads: u64,
    pub(super) tails: u64,
    pub(super) content: Content,
    pub(super) coalesce: bool,
    pub(super) pack: bool,
    /// Words of several entries share a tail, where they are packed.
    pub(super) gather: bool,
    /// Neighbouring lines of one bank, and how many banks the log's neighbours are spread over.
    run: u64,
    banks: u64,
}

impl Layout {
    /// The log behind `extra`.
    pub(in crate::design) fn of(description: &Description, extra: u32, content: Content) -> Layout {
        let switch = |key| description.parameter("log", key) != 0.0;
        let pack = switch("pack");
        let lines = Layout::bytes(description) / 64;
        // Eight entries that are packed have one head, and a tail for each eight words.
        let heads = if pack { lines / 4 } else { lines / 2 };
        Layout {
            first: extra,
            heads,
            tails: lines - heads,
            content,
            coalesce: switch("coalesce"),
            pack,
            gather: switch("gather"),
            run: u64::from(description.nvm.interleave_bytes / 64),
            banks: u64::from(description.nvm.banks),
        }
    }

    fn bytes(description: &Description) -> u64 {
        (description.parameter("log", "bytes") as u64).next_multiple_of(4 * 64)
    }

    /// Lines that the log takes: Log Start, then from the first line of a bank on both rings.
    pub(in crate::design) fn lines(description: &Description) -> u32 {
        (Layout::bytes(description) / 64) as u32 + description.nvm.interleave_bytes / 64 + 1
    }

    /// Words that an entry has for each word that was stored.
    pub(super) fn each(self) -> usize {
        if self.content == Content::Both { 2 } else { 1 }
    }

    /// Tails of a packed record whose entries have so many words.
    pub(super) fn tails_of(self, entries: impl Iterator<Item = usize>) -> u64 {
        let tails = match self.gather {
            true => entries.sum::<usize>().div_ceil(8),
            false => entries.map(|words| words.div_ceil(8)).sum(),
        };
        tails as u64
    }

    /// Slots of buffers that each of so many transactions may log, if they begin when a quarter of
    /// the log is free. Besides, each needs a head and a tail for its commit word, and where the
    /// last letter is to be taken there must be room for any.
    pub(super) fn share(self, transactions: u64) -> u64 {
        let of = |ring: u64, most: u64| {
            ((ring / 4).saturating_sub(most + 1) / transactions).saturating_sub(1)
        };
        let (heads, tails) = (of(self.heads, MOST_HEADS), of(self.tails, MOST_TAILS));
        let each = self.each() as u64;
        match (self.pack, self.coalesce) {
            (true, true) => (8 * heads).min(tails / each),
            // Packed, a slot of eight words is eight entries; otherwise a record.
            (true, false) if !self.gather => heads.min(tails / 8),
            (true, false) | (false, true) => heads.min(tails / each),
            (false, false) => heads / 8_u64.div_ceil(8 / (1 + each)),
        }
    }

    /// Heads and tails that so many slots may need. Eight that are packed share a head, unless a
    /// line on its way to memory waits for one of them: then a record is sealed that has fewer.
    /// Between two such seals come slots of eight entries at most, so that these have no more
    /// records than they are; before the first seal there is also what was open. Likewise with
    /// tails. A commit, or a drop, that seals what is open has a head of its own besides.
    pub(super) fn most(self, slots: u64) -> (u64, u64) {
        let each = self.each() as u64;
        match (self.pack, self.coalesce) {
            // Nothing waits for new words.
            (true, true) if self.content == Content::New => (slots.div_ceil(8), slots),
            (true, false) if !self.gather => (slots, 8 * slots),
            (true, _) | (false, true) => (slots, each * slots),
            (false, false) => (slots * 8_u64.div_ceil(8 / (1 + each)), 0),
        }
    }

    /// The line of Log Start.
    pub(super) fn start_line(self) -> u32 {
        self.first
    }

    fn rings(self) -> u64 {
        u64::from(self.first + 1).next_multiple_of(self.run)
    }

    /// The line of a record's head.
    pub(super) fn head_line(self, head: u64) -> u32 {
        (self.rings() + self.spread(head % self.heads, self.heads)) as u32
    }

    /// The line of a tail.
    pub(super) fn tail_line(self, tail: u64) -> u32 {
        (self.rings() + self.heads + self.spread(tail % self.tails, self.tails)) as u32
    }

    /// Neighbours of a ring lie in different banks: one bank would take them one by one.
    fn spread(self, at: u64, ring: u64) -> u64 {
        let fits = |banks: &u64| ring.is_multiple_of(banks * self.run);
        let Some(banks) = (1..=self.banks).rev().find(fits) else { return at };
        let block = banks * self.run;
        at / block * block + at % banks * self.run + at % block / banks
    }

    /// In which lap a head is written.
    pub(super) fn lap(self, head: u64) -> u8 {
        (head / self.heads % LAPS + 1) as u8
    }

    /// The first head, and the first tail, of the lap behind the one behind these.
    pub(super) fn fresh_lap(self, head: u64, tail: u64) -> (u64, u64) {
        let laps = if planted(Mutant::LapsComeAgain) { 0 } else { 2 };
        ((head / self.heads + laps) * self.heads, (tail / self.tails + laps) * self.tails)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_meta_word_is_read_as_it_was_written() {
        let (largest, other) = ((DROPPED, 255, LAST_ID, 63), (DROPPED - 7, 0x81, 0x5_4321, 0x15));
        for (line, mask, id, lap) in [largest, other, (0, 0, 0, 1), (0, 0, 1, 0), (0, 1, 0, 0)] {
            let meta = Meta { line, mask, id, lap };
            assert_eq!(Meta::of(meta.word()), meta);
        }
        assert_eq!(Meta::of(0).lap, 0, "what was never written has no lap");
    }

    #[test]
    fn every_place_of_a_ring_has_a_line_of_its_own_and_neighbours_have_other_banks() {
        for machine in ["redu", "tiny-redu"] {
            let description = Description::builtin(machine).unwrap();
            let layout = Layout::of(&description, 1001, Content::New);
            let tails = (0..layout.tails).map(|tail| layout.tail_line(tail));
            let lines: BTreeSet<u32> =
                (0..layout.heads).map(|head| layout.head_line(head)).chain(tails).collect();
            assert_eq!(lines.len() as u64, layout.heads + layout.tails);
            let last = 1001 + Layout::lines(&description);
            assert!(lines.iter().all(|line| (1002..last).contains(line)), "{machine}");
            let run = |tail| u64::from(layout.tail_line(tail)) / layout.run;
            assert_ne!(run(0) % layout.banks, run(1) % layout.banks, "{machine}");
        }
    }
}
