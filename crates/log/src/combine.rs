//! Log combination, which keeps only the last value of each word that a group writes.
//!
//! ```text
//!   records, by ID:    (3: a=1 b=2)  (4: a=5)  (5: c=7 a=6)
//!   combined group 3..5:             a=6 b=2 c=7, by address, neighbours as one run
//! ```
//!
//! Words are kept in blocks of [`BLOCK_WORDS`] neighbours, each with a mask of its written words.
//! An open-addressed table maps a block's number to its place. Sorting the blocks puts the words in
//! order, and the masks then give the runs.
//!
//! Invariants:
//! - A later value of a word replaces an earlier one, because records are added in ID order.
//! - The largest group bounds the memory, which the next groups reuse.
//!
//! (DudeTM, section 3.3.)

use medium::Buffer;
use medium::mutants::{Mutant, injected};
use medium::writes::{Piece, Pieces, RUN_WORDS_MAX, run};
use words::TxId;

use crate::{GROUP_HEADER_WORDS, Group};

/// Words of a block: a cache line. Measured with `cargo bench -p lastword-log --bench
/// combine`, in ns a word for groups of 1 000 and 100 000 transactions (a block of one word is a
/// table from words to values):
///
/// | runs              | 1 word        | 8 words       | 64 words      |
/// |-------------------|---------------|---------------|---------------|
/// | 13 words, Zipf    | 15.6 and 41.7 | 3.7 and 31.3  | 4.5 and 29.2  |
/// | 13 words, uniform | 26.0 and 103  | 10.1 and 56   | 6.8 and 71    |
/// | 1 word, Zipf      | 12.2 and 25.2 | 20.9 and 54.8 | 24.7 and 187  |
/// | 1 word, uniform   | 15.4 and 51   | 25.4 and 220  | 35.7 and 305  |
const BLOCK_WORDS: usize = 8;
/// Size of the smallest table.
const TABLE_MIN: usize = 1 << 10;

/// Neighbouring words, some of them written.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Index of its first word in blocks.
    number: u64,
    /// One bit for each written word.
    mask: u64,
    values: [u64; BLOCK_WORDS],
}

/// Combines the writes of one group after another.
#[derive(Debug)]
pub struct Combiner {
    /// In order of first write.
    blocks: Vec<Block>,
    /// Place of a block plus one, or 0. The size is a power of two, and at most half is used.
    table: Vec<u32>,
    /// Numbers and places of the blocks, sorted when the group ends.
    order: Vec<(u64, u32)>,
    /// Number of distinct words written.
    words: usize,
    /// The place of the block that was written last.
    recent: usize,
}

impl Default for Combiner {
    fn default() -> Combiner {
        let (blocks, order) = (Vec::new(), Vec::new());
        Combiner { blocks, table: vec![0; TABLE_MIN], order, words: 0, recent: 0 }
    }
}

impl Combiner {
    /// Returns the largest size of the combined payload in words: each word alone, with its head.
    pub fn words_max(&self) -> usize {
        2 * self.words
    }

    /// Adds the runs of the next transaction in ID order.
    pub fn add(&mut self, runs: &[u64]) {
        for piece in Pieces::new(runs) {
            if let Piece::Run(index, mut values) = piece {
                let mut index = index;
                while !values.is_empty() {
                    let inside = (index % BLOCK_WORDS as u64) as usize;
                    let (here, rest) = values.split_at(values.len().min(BLOCK_WORDS - inside));
                    self.put(index / BLOCK_WORDS as u64, inside, here);
                    index += here.len() as u64;
                    values = rest;
                }
            }
        }
    }

    /// Puts neighbouring words into one block.
    #[inline]
    fn put(&mut self, number: u64, first: usize, values: &[u64]) {
        // Most writes follow their neighbours: try the last block before a lookup.
        if self.blocks.get(self.recent).is_none_or(|block| block.number != number) {
            self.recent = self.find(number);
        }
        let block = &mut self.blocks[self.recent];
        for (place, &value) in values.iter().enumerate() {
            let bit = 1 << (first + place);
            if injected(Mutant::FirstValueKept) && block.mask & bit != 0 {
                continue;
            }
            self.words += usize::from(block.mask & bit == 0);
            block.mask |= bit;
            block.values[first + place] = value;
        }
    }

    /// Returns the place of a block; adds the block first if it is missing.
    fn find(&mut self, number: u64) -> usize {
        // At most half full, so that probe sequences stay short.
        if 2 * (self.blocks.len() + 1) > self.table.len() {
            self.rebuild(2 * self.table.len());
        }
        let mask = self.table.len() - 1;
        let mut at = start(number, mask);
        loop {
            match self.table[at] {
                0 => break,
                place if self.blocks[place as usize - 1].number == number => {
                    return place as usize - 1;
                }
                _ => at = (at + 1) & mask,
            }
        }
        self.blocks.push(Block { number, mask: 0, values: [0; BLOCK_WORDS] });
        self.table[at] = u32::try_from(self.blocks.len()).expect("a group has fewer blocks");
        self.blocks.len() - 1
    }

    /// Empties the table, sets its size, and inserts all blocks.
    fn rebuild(&mut self, size: usize) {
        self.table.clear();
        self.table.resize(size, 0);
        for (place, block) in self.blocks.iter().enumerate() {
            let mut at = start(block.number, size - 1);
            while self.table[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.table[at] = place as u32 + 1;
        }
    }

    /// Builds the combined group of the transactions `first` to `last` in `buffer`, and empties the
    /// combiner.
    pub fn finish(&mut self, first: TxId, last: TxId, buffer: Buffer) -> Group {
        let mut group = Group::new(buffer);
        (group.first, group.last, group.combined) = (first.0, last.0, true);
        assert!(group.has_bounded_ids(), "a group's ID range exceeds the limit of the format");
        group.buffer.grow(GROUP_HEADER_WORDS + self.words_at_most());
        self.order.clear();
        let numbers = self.blocks.iter().enumerate();
        self.order.extend(numbers.map(|(place, block)| (block.number, place as u32)));
        self.order.sort_unstable();
        let used = self.write(group.buffer.words_mut());
        group.used = used;
        // Size the table for a next group that is as large as this one.
        let size = (2 * self.blocks.len()).next_power_of_two().max(TABLE_MIN);
        self.blocks.clear();
        (self.words, self.recent) = (0, 0);
        self.rebuild(size);
        group
    }

    /// Returns an upper bound of the words of all runs, reached when no run crosses a block's end.
    fn words_at_most(&self) -> usize {
        let begins = self.blocks.iter().map(|block| (block.mask & !(block.mask << 1)).count_ones());
        begins.sum::<u32>() as usize + self.words / RUN_WORDS_MAX + self.words
    }

    /// Writes the runs after the header; returns the number of words then in use.
    fn write(&self, out: &mut [u64]) -> usize {
        let mut used = GROUP_HEADER_WORDS;
        // The head of the current run, and the index of the word that would extend it.
        let (mut head, mut next) = (0, u64::MAX);
        for &(number, place) in &self.order {
            let block = &self.blocks[place as usize];
            let mut mask = block.mask;
            while mask != 0 {
                let inside = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let index = number * BLOCK_WORDS as u64 + inside as u64;
                // A run's count is bounded: after that many words it continues under a new head.
                if index == next && used - head <= RUN_WORDS_MAX {
                    out[head] += 1; // the count is in the lowest bits
                } else {
                    (head, out[used]) = (used, run(index, 1));
                    used += 1;
                }
                out[used] = block.values[inside];
                (used, next) = (used + 1, index + 1);
            }
        }
        used
    }
}

/// Returns the first place of a block's probe sequence.
#[inline]
fn start(number: u64, mask: usize) -> usize {
    // The upper bits of the product depend on all bits of the number.
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn words(payload: &[u64]) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        let mut pieces = Pieces::new(payload);
        for piece in pieces.by_ref() {
            let Piece::Run(index, words) = piece else { panic!("a combined payload has no marks") };
            all.extend(words.iter().enumerate().map(|(at, &word)| (index + at as u64, word)));
        }
        assert!(pieces.is_whole());
        all
    }

    #[test]
    fn combined_group_keeps_last_values_as_runs() {
        let mut combiner = Combiner::default();
        combiner.add(&[run(30, 1), 1, run(7, 3), 10, 11, 12]);
        combiner.add(&[run(10, 1), 13, run(8, 1), 14]);
        let group = combiner.finish(TxId(3), TxId(4), Buffer::new(0));
        assert_eq!((group.first(), group.last()), (TxId(3), TxId(4)));
        assert_eq!(group.payload(), [run(7, 4), 10, 14, 12, 13, run(30, 1), 1]);
        // The combiner is empty. A group of no-op records alone is a group too.
        let group = combiner.finish(TxId(5), TxId(9), Buffer::new(0));
        assert!(group.payload().is_empty() && !group.is_empty());
    }

    #[test]
    fn combined_run_length_is_bounded() {
        let mut combiner = Combiner::default();
        let ones = vec![1; RUN_WORDS_MAX];
        for start in [0, RUN_WORDS_MAX as u64] {
            combiner.add(&[&[run(start, RUN_WORDS_MAX)], &ones[..]].concat());
        }
        combiner.add(&[run(2 * RUN_WORDS_MAX as u64, 1), 2]);
        let group = combiner.finish(TxId(1), TxId(3), Buffer::new(0));
        assert_eq!(group.payload().len(), 2 * RUN_WORDS_MAX + 1 + 3);
        let all = words(group.payload());
        assert!(all.iter().enumerate().all(|(at, word)| word.0 == at as u64));
    }

    proptest! {
        #[test]
        fn combined_group_equals_its_transactions(
            groups in prop::collection::vec(
                prop::collection::vec((0..20_000_u64, 1..40_usize), 0..200), 1..5),
        ) {
            let mut combiner = Combiner::default();
            let mut value = 0;
            for (number, group) in groups.iter().enumerate() {
                let mut model = BTreeMap::new();
                for &(index, count) in group {
                    let mut runs = vec![run(index, count)];
                    for word in index..index + count as u64 {
                        value += 1;
                        runs.push(value);
                        model.insert(word, value);
                    }
                    combiner.add(&runs);
                }
                let model_words = model.len();
                prop_assert_eq!(combiner.words_max(), 2 * model_words);
                let id = TxId(number as u64 + 1);
                let combined = combiner.finish(id, id, Buffer::new(0));
                prop_assert!(words(combined.payload()).into_iter().eq(model));
                prop_assert!(combined.payload().len() <= 2 * model_words);
            }
        }
    }
}
