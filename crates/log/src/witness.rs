//! Witnesses: proofs beside a mapped log that its groups were durable.
//!
//! The loss of a group is proved by a later group that was sealed when it was acknowledged. The
//! last group of a log has none. Without a witness a log whose last page was lost would look like
//! that of a crash before the groups on that page.
//!
//! # Durable format: log witness
//!
//! On mapped media the pages of both superblocks have eight witnesses each, each in a line of its
//! own. A witness says that all transactions up to an ID were durable. Witnesses 0 to 13 are of
//! groups that were the first to reach a page of 4 KiB of the log, or the first after a checkpoint.
//! 14 and 15 are of all groups. Both kinds use their lines in turn, so the loss of one page leaves
//! witnesses in the other one.
//!
//! ```text
//!   bytes  2048 + 64 * n       | witness 2 * n     |   n is 0 to 7
//!          6144 + 64 * n       | witness 2 * n + 1 |
//!
//!   word   0      | last ID of a durable group                         |
//!          1      | check (32)             | generation (low 32)       |
//!          2..7   | 0                                                  |
//! ```
//!
//! `check` is the upper half of ((ID ^ p) * m) modulo 2^64. Here p is the CRC-32C of pool ID,
//! generation and stream, a word each, and m is 0x9e3779b97f4a7c15.
//!
//! A witness is stored after its group's barrier. So it never claims a group that was not durable.
//! The barrier of the next group makes the witness of a page durable, and a checkpoint those of all
//! groups. Apart from that no barrier waits for the witness of a group, which a power failure may
//! lose. An invalid witness says nothing. A program that knows no witnesses neither reads nor
//! writes these bytes.
//!
//! After the end of a process, the loss of any last groups is found. After a power failure, the
//! loss of a page is found if its first group was acknowledged before a later group was sent and
//! made durable. If a checkpoint has passed that group, the first group after it counts instead.
//! Lost groups on the last page are found if an intact group follows that was sent after their
//! acknowledgement.

use zerocopy::IntoBytes;

use crate::Identity;

/// Offsets of the witnesses in the file with the superblocks, in the order of their use: those of
/// pages, and the last two, which are of all groups.
pub const WITNESSES: [u64; 16] = {
    let mut places = [0; 16];
    let mut number = 0;
    while number < 16 {
        let (page, line) = (number as u64 % 2, number as u64 / 2);
        places[number] = 4096 * page + 2048 + 64 * line;
        number += 1;
    }
    places
};

/// The identity that a log's witnesses are sealed with.
#[derive(Clone, Copy, Debug)]
pub struct WitnessKey {
    generation: u64,
    /// CRC-32C of the identity.
    seed: u64,
}

impl WitnessKey {
    /// Returns the key of the log with this identity.
    pub fn new(Identity { pool, generation, stream }: Identity) -> WitnessKey {
        let seed = crc32c::crc32c([pool, generation, u64::from(stream)].as_bytes());
        WitnessKey { generation, seed: u64::from(seed) }
    }

    /// Returns the line that says that the transactions up to this ID were durable.
    #[inline]
    pub fn line(&self, last: u64) -> [u64; 8] {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let check = (last ^ self.seed).wrapping_mul(SPREAD) >> 32 << 32;
        [last, check | self.generation & 0xffff_ffff, 0, 0, 0, 0, 0, 0]
    }

    /// Returns the ID that a witness of this key names.
    pub fn open(&self, line: &[u64; 8]) -> Option<u64> {
        (*line == self.line(line[0])).then_some(line[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity { pool: 9, generation: 3, stream: 0 };

    #[test]
    fn witness_layout_is_format_4() {
        let line = WitnessKey::new(IDENTITY).line(77);
        assert_eq!(line, [77, 0xd44e_d34c_0000_0003, 0, 0, 0, 0, 0, 0]);
        assert_eq!(WITNESSES[..4], [2048, 6144, 2112, 6208]);
        assert_eq!(WITNESSES[15], 6144 + 7 * 64);
    }

    #[test]
    fn witness_with_any_bit_flipped_is_refused() {
        let key = WitnessKey::new(IDENTITY);
        let line = key.line(77);
        assert_eq!(key.open(&line), Some(77));
        for bit in 0..512 {
            let mut changed = line;
            changed[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(key.open(&changed), None, "bit {bit}");
        }
        assert_eq!(key.open(&[0; 8]), None);
        for other in [
            Identity { pool: 8, ..IDENTITY },
            Identity { generation: 4, ..IDENTITY },
            Identity { stream: 1, ..IDENTITY },
        ] {
            assert_eq!(WitnessKey::new(other).open(&line), None);
        }
    }
}
