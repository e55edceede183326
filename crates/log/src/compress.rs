//! LZ4 over a group's payload, and the checked way back.
//!
//! ```text
//!   word   63                   32 31                         0
//!   0      | bytes of LZ4 block    | words it decodes to       |
//!   1..    | the block, zeros up to a whole word               |
//! ```
//!
//! (DudeTM, section 3.3.)

use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use medium::Buffer;
use medium::mutants::{Mutant, planted};
use zerocopy::IntoBytes;

/// LZ4's blocks do not grow more than this when they are decoded.
const RATIO_MAX: usize = 256;

/// What compresses; keeps its table from group to group.
pub struct Lz4 {
    table: CompressTable,
}

impl Default for Lz4 {
    fn default() -> Lz4 {
        Lz4 { table: CompressTable::large() }
    }
}

impl Lz4 {
    /// Writes a payload, compressed, behind the first `at` words of a buffer; answers its words.
    pub(crate) fn encode(&mut self, payload: &[u64], out: &mut Buffer, at: usize) -> usize {
        let bytes_max = get_maximum_output_size(8 * payload.len());
        out.grow(at + 1 + bytes_max.div_ceil(8));
        let (head, rest) = out.words_mut()[at..].split_first_mut().expect("there is room");
        let bytes = compress_into_with_table(
            payload.as_bytes(),
            &mut rest.as_mut_bytes()[..bytes_max],
            &mut self.table,
        );
        let bytes = bytes.expect("there is room for any block");
        *head = (bytes as u64) << 32 | payload.len() as u64;
        let words = bytes.div_ceil(8);
        rest.as_mut_bytes()[bytes..8 * words].fill(0);
        1 + words
    }
}

impl std::fmt::Debug for Lz4 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lz4")
    }
}

/// Decodes a payload that may have been written by anybody, to `words_max` words at most; answers
/// how many they are, or nothing when it is none. Memory is taken for no more than that.
pub(crate) fn decode(stored: &[u64], words_max: usize, out: &mut Buffer) -> Option<usize> {
    let (&head, block) = stored.split_first()?;
    let (bytes, words) = ((head >> 32) as usize, head as u32 as usize);
    // As it is written and no longer: each payload has one form.
    if bytes.div_ceil(8) != block.len() || block.as_bytes()[bytes..].iter().any(|&byte| byte != 0) {
        return None;
    }
    let bound = words <= words_max && 8 * words <= RATIO_MAX * bytes;
    if !bound && !planted(Mutant::DecodedLengthTrusted) {
        return None;
    }
    out.grow(words);
    let decoded = decompress_into(
        &block.as_bytes()[..bytes],
        &mut out.words_mut().as_mut_bytes()[..8 * words],
    );
    (decoded.ok()? == 8 * words).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(payload: &[u64]) -> Vec<u64> {
        let mut out = Buffer::new(0);
        let words = Lz4::default().encode(payload, &mut out, 8);
        out.words()[8..8 + words].to_vec()
    }

    fn decoded(stored: &[u64]) -> Option<Vec<u64>> {
        let mut out = Buffer::new(0);
        let words = decode(stored, 1 << 16, &mut out)?;
        Some(out.words()[..words].to_vec())
    }

    #[test]
    fn what_is_compressed_comes_back() {
        let mut lz4 = Lz4::default();
        let mut out = Buffer::new(0);
        for length in [0, 1, 2, 7, 100, 3000, 65536] {
            let payload: Vec<u64> = (0..length as u64).map(|i| i % 37 * 0x1_0001).collect();
            // One compressor for all: nothing of the one before is left in it.
            let words = lz4.encode(&payload, &mut out, 8);
            assert_eq!(decoded(&out.words()[8..8 + words]).as_deref(), Some(&payload[..]));
            assert!(length < 100 || words < length / 2, "{length} became {words}");
        }
    }

    #[test]
    fn a_length_beyond_the_bound_takes_no_memory() {
        let mut stored = encoded(&[7; 1000]);
        for words in [1 << 16 | 1, u64::from(u32::MAX)] {
            stored[0] = stored[0] >> 32 << 32 | words;
            let mut out = Buffer::new(0);
            assert_eq!(decode(&stored, 1 << 16, &mut out), None);
            assert!(out.words().is_empty(), "{words}");
        }
    }

    #[test]
    fn a_length_that_is_not_the_blocks_is_refused() {
        let stored = encoded(&[7; 1000]);
        for words in [0, 1, 999, 1001, 2000] {
            let mut other = stored.clone();
            other[0] = other[0] >> 32 << 32 | words;
            assert_eq!(decoded(&other), None, "{words} words");
        }
        for bytes in 0..8 * stored.len() as u64 + 9 {
            let mut other = stored.clone();
            other[0] = bytes << 32 | 1000;
            assert_eq!(decoded(&other).is_some(), other == stored, "{bytes} bytes");
        }
        assert_eq!(decoded(&[]), None);
    }

    proptest! {
        #[test]
        fn whatever_is_decoded_is_a_value_or_nothing(
            changes in prop::collection::vec((0..200_usize, any::<u64>()), 1..6),
            length in 0..400_usize,
        ) {
            let payload: Vec<u64> = (0..length as u64).map(|i| i / 9).collect();
            let mut stored = encoded(&payload);
            for (at, value) in changes {
                let at = at % stored.len();
                stored[at] ^= value;
            }
            if let Some(words) = decoded(&stored) {
                prop_assert!(words.len() <= 1 << 16);
            }
        }
    }
}
