//! LZ4 compression of a group's payload, with checked decoding. [`Packed`](crate::Packed) decides
//! whether a group is sent compressed.
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
use medium::mutants::{Mutant, injected};
use zerocopy::IntoBytes;

/// Largest factor by which an LZ4 block grows when it is decoded.
const RATIO_MAX: usize = 256;

/// A compressor that keeps its table from group to group.
pub struct Lz4 {
    table: CompressTable,
}

impl Default for Lz4 {
    fn default() -> Lz4 {
        Lz4 { table: CompressTable::large() }
    }
}

impl Lz4 {
    /// Compresses a payload into a buffer, after its first `at` words; returns the words written.
    pub(crate) fn encode(&mut self, payload: &[u64], out: &mut Buffer, at: usize) -> usize {
        let bytes_max = get_maximum_output_size(8 * payload.len());
        out.grow(at + 1 + bytes_max.div_ceil(8));
        let (head, rest) = out.words_mut()[at..].split_first_mut().expect("the buffer has grown");
        let bytes = compress_into_with_table(
            payload.as_bytes(),
            &mut rest.as_mut_bytes()[..bytes_max],
            &mut self.table,
        );
        let bytes = bytes.expect("the buffer holds the largest block");
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

/// Decodes an untrusted payload of at most `words_max` words into `out`.
///
/// Returns its length in words, or `None` when it is not valid. Allocates no more than `words_max`
/// words.
pub(crate) fn decode(stored: &[u64], words_max: usize, out: &mut Buffer) -> Option<usize> {
    let (&head, block) = stored.split_first()?;
    let (bytes, words) = ((head >> 32) as usize, head as u32 as usize);
    // The length must be exact and the padding zero: each payload has one stored form.
    if bytes.div_ceil(8) != block.len() || block.as_bytes()[bytes..].iter().any(|&byte| byte != 0) {
        return None;
    }
    let bound = words <= words_max && 8 * words <= RATIO_MAX * bytes;
    if !bound && !injected(Mutant::DecodedLengthTrusted) {
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
    fn compressed_payload_round_trips() {
        let mut lz4 = Lz4::default();
        let mut out = Buffer::new(0);
        for length in [0, 1, 2, 7, 100, 3000, 65536] {
            let payload: Vec<u64> = (0..length as u64).map(|i| i % 37 * 0x1_0001).collect();
            // One compressor for all: its table keeps no trace of earlier payloads.
            let words = lz4.encode(&payload, &mut out, 8);
            assert_eq!(decoded(&out.words()[8..8 + words]).as_deref(), Some(&payload[..]));
            assert!(length < 100 || words < length / 2, "{length} became {words}");
        }
    }

    #[test]
    fn oversized_length_allocates_no_memory() {
        let mut stored = encoded(&[7; 1000]);
        for words in [1 << 16 | 1, u64::from(u32::MAX)] {
            stored[0] = stored[0] >> 32 << 32 | words;
            let mut out = Buffer::new(0);
            assert_eq!(decode(&stored, 1 << 16, &mut out), None);
            assert!(out.words().is_empty(), "{words}");
        }
    }

    #[test]
    fn wrong_block_length_is_refused() {
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
        fn decoding_garbage_never_panics(
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
