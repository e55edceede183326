//! The format of log records: rings, meta words and the space that entries need.

use crate::machine::description::Description;
use crate::mutants::{Mutant, injected};

/// Which words of a line an entry keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::design) enum Content {
    /// The old words.
    Old,
    /// The new words.
    New,
    /// The old words, then the new ones.
    Both,
}

/// The largest transaction identifier: 20 bits.
const LAST_ID: u32 = (1 << 20) - 1;

/// The largest line, and the most entries, that fit in a meta word: 30 bits, which cover 64 GiB.
const LAST_LINE: u32 = (1 << 30) - 1;

/// Entry count of a drop word. No transaction has so many entries.
pub(super) const DROPPED: u32 = LAST_LINE;

/// Wraps that a head can distinguish: 6 bits, of which 0 means never written.
const WRAPS: u64 = (1 << 6) - 1;

/// Most tails that a log message may need.
pub(super) const MOST_TAILS: u64 = 18;
/// Most heads that a log message may need.
pub(super) const MOST_HEADS: u64 = 9;

/// A meta word, which describes an entry or a commit.
///
/// ```text
///   | wrap 6 | transaction 20 | mask 8 | line 30 |
/// ```
/// A mask of 0 marks a commit word. `line` is then the number of the transaction's entries, or
/// [`DROPPED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) line: u32,
    pub(super) mask: u8,
    pub(super) id: u32,
    pub(super) wrap: u8,
}

impl Meta {
    pub(super) fn word(self) -> u64 {
        let Meta { line, mask, id, wrap } = self;
        assert!(line <= LAST_LINE && id <= LAST_ID, "{self:?} does not fit in a meta word");
        u64::from(wrap) << 58 | u64::from(id) << 38 | u64::from(mask) << 30 | u64::from(line)
    }

    pub(super) fn of(word: u64) -> Meta {
        Meta {
            line: word as u32 & LAST_LINE,
            mask: (word >> 30) as u8,
            id: (word >> 38) as u32 & LAST_ID,
            wrap: (word >> 58) as u8,
        }
    }
}

/// Placement and settings of the log.
#[derive(Clone, Copy, Debug)]
pub(in crate::design) struct Layout {
    /// The line of Log Start; the ring of heads follows, then that of tails.
    first: u32,
    pub(super) heads: u64,
    pub(super) tails: u64,
    pub(super) content: Content,
    pub(super) coalesce: bool,
    pub(super) pack: bool,
    /// Whether words of several packed entries share a tail.
    pub(super) gather: bool,
    /// Neighbouring lines of one bank, and the banks over which neighbours are spread.
    run: u64,
    banks: u64,
}

impl Layout {
    /// Returns the layout of a log that begins at `extra`.
    pub(in crate::design) fn of(description: &Description, extra: u32, content: Content) -> Layout {
        let switch = |key| description.parameter("log", key) != 0.0;
        let pack = switch("pack");
        let lines = Layout::bytes(description) / 64;
        // Eight packed entries share one head, and have a tail for each eight words.
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

    /// Lines that the log takes: Log Start, then both rings from the first line of a bank on.
    pub(in crate::design) fn lines(description: &Description) -> u32 {
        (Layout::bytes(description) / 64) as u32 + description.nvm.interleave_bytes / 64 + 1
    }

    /// Entry words per stored word.
    pub(super) fn each(self) -> usize {
        if self.content == Content::Both { 2 } else { 1 }
    }

    /// Returns the tails of a packed record whose entries have these word counts.
    pub(super) fn tails_of(self, entries: impl Iterator<Item = usize>) -> u64 {
        let tails = match self.gather {
            true => entries.sum::<usize>().div_ceil(8),
            false => entries.map(|words| words.div_ceil(8)).sum(),
        };
        tails as u64
    }

    /// Returns the slots that each of `transactions` transactions may log if they begin when a
    /// quarter of the log is free. Each transaction also needs a head and a tail for its commit
    /// word. The last log message must find room for the largest message.
    pub(super) fn share(self, transactions: u64) -> u64 {
        let of = |ring: u64, most: u64| {
            ((ring / 4).saturating_sub(most + 1) / transactions).saturating_sub(1)
        };
        let (heads, tails) = (of(self.heads, MOST_HEADS), of(self.tails, MOST_TAILS));
        let each = self.each() as u64;
        match (self.pack, self.coalesce) {
            (true, true) => (8 * heads).min(tails / each),
            // Packed, a slot of eight words is eight entries; otherwise it is a record.
            (true, false) if !self.gather => heads.min(tails / 8),
            (true, false) | (false, true) => heads.min(tails / each),
            (false, false) => heads / 8_u64.div_ceil(8 / (1 + each)),
        }
    }

    /// Returns the most heads and tails that `slots` slots may need.
    ///
    /// Eight packed slots share a head unless a line in flight to memory waits for one of them: its
    /// record is then sealed with fewer entries. At least one slot arrives between two such seals,
    /// so the seals create no more records than there are slots. The record that is open before the
    /// first slot may add one more. The same holds for tails. A commit or drop that seals the open
    /// record has a head of its own besides.
    pub(super) fn most(self, slots: u64) -> (u64, u64) {
        let each = self.each() as u64;
        match (self.pack, self.coalesce) {
            // No line waits for entries with new words.
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

    /// Returns the line of a record's head.
    pub(super) fn head_line(self, head: u64) -> u32 {
        (self.rings() + self.spread(head % self.heads, self.heads)) as u32
    }

    /// Returns the line of a tail.
    pub(super) fn tail_line(self, tail: u64) -> u32 {
        (self.rings() + self.heads + self.spread(tail % self.tails, self.tails)) as u32
    }

    /// Places neighbours of a ring in different banks. A single bank would write them one after
    /// another.
    fn spread(self, at: u64, ring: u64) -> u64 {
        let fits = |banks: &u64| ring.is_multiple_of(banks * self.run);
        let Some(banks) = (1..=self.banks).rev().find(fits) else { return at };
        let block = banks * self.run;
        at / block * block + at % banks * self.run + at % block / banks
    }

    /// Returns the wrap in which a head is written.
    pub(super) fn wrap(self, head: u64) -> u8 {
        (head / self.heads % WRAPS + 1) as u8
    }

    /// Returns the first head and the first tail of the wrap after the next one.
    pub(super) fn fresh_wrap(self, head: u64, tail: u64) -> (u64, u64) {
        let wraps = if injected(Mutant::WrapsRepeat) { 0 } else { 2 };
        ((head / self.heads + wraps) * self.heads, (tail / self.tails + wraps) * self.tails)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn meta_word_round_trips() {
        let (largest, other) = ((DROPPED, 255, LAST_ID, 63), (DROPPED - 7, 0x81, 0x5_4321, 0x15));
        for (line, mask, id, wrap) in [largest, other, (0, 0, 0, 1), (0, 0, 1, 0), (0, 1, 0, 0)] {
            let meta = Meta { line, mask, id, wrap };
            assert_eq!(Meta::of(meta.word()), meta);
        }
        assert_eq!(Meta::of(0).wrap, 0, "an unwritten word has wrap 0");
    }

    #[test]
    fn ring_places_have_own_lines_and_alternate_banks() {
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
