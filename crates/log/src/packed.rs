//! A group as it goes to the medium: its payload as it is stored, and its memory for home.
//!
//! ```text
//!   Group --plain---------------> | header | payload      | zeros |
//!         --compressed----------> | header | LZ4 | zeros |    and the group as it was, for home
//! ```
//!
//! What costs time (compressing, the payload's checksum) is done when it is packed, before its
//! place in the log is known; [`seal`](Packed::seal) is then a few words.

use medium::Buffer;
use medium::mutants::{Mutant, planted};
use zerocopy::IntoBytes;

use crate::group::{
    COMBINED, COMPRESSED, GROUP_HEADER_WORDS, MAGIC, UNIT_BYTES, UNKNOWN, checksum,
};
use crate::{Group, Identity, Lz4};

/// A group that is ready for its place.
#[derive(Debug)]
pub struct Packed {
    /// As it goes to the medium.
    image: Buffer,
    /// Words of the image, whole blocks.
    total: usize,
    /// Words of the image without the zeros behind.
    used: usize,
    flags: u64,
    /// The checksum of the payload as it is stored.
    payload_checksum: u32,
    first: u64,
    last: u64,
    /// The group as it was, when the image is compressed.
    plain: Option<Buffer>,
    /// Words of the group as it was, header included.
    plain_words: usize,
}

impl Packed {
    /// Packs a group as it is, for a medium with blocks of so many words.
    ///
    /// # Panics
    /// When it is empty: nothing is written then.
    pub fn plain(group: Group, block_words: usize) -> Packed {
        assert!(!group.is_empty(), "an empty group is not written");
        let Group { buffer, used, first, last, combined } = group;
        let flags = if combined { COMBINED } else { 0 };
        Packed::of(buffer, used, block_words, flags, (first, last))
    }

    /// Packs a group compressed, into this memory. When that saves no block, it is packed as it is.
    /// Gives memory back that it did not need.
    ///
    /// # Panics
    /// As [`plain`](Packed::plain).
    pub fn compressed(
        group: Group,
        block_words: usize,
        lz4: &mut Lz4,
        mut memory: Buffer,
    ) -> (Packed, Option<Buffer>) {
        let blocks = group.words().div_ceil(block_words);
        if blocks <= GROUP_HEADER_WORDS.div_ceil(block_words) {
            return (Packed::plain(group, block_words), Some(memory));
        }
        let words = lz4.encode(group.payload(), &mut memory, GROUP_HEADER_WORDS);
        let used = GROUP_HEADER_WORDS + words;
        if used.div_ceil(block_words) >= blocks {
            return (Packed::plain(group, block_words), Some(memory));
        }
        let flags = if group.combined { COMBINED | COMPRESSED } else { COMPRESSED };
        let packed = Packed::of(memory, used, block_words, flags, (group.first, group.last));
        (Packed { plain: Some(group.buffer), plain_words: group.used, ..packed }, None)
    }

    fn of(
        mut image: Buffer,
        used: usize,
        block_words: usize,
        flags: u64,
        (first, last): (u64, u64),
    ) -> Packed {
        let total = used.next_multiple_of(block_words);
        image.grow(total);
        let words = image.words_mut();
        words[used..total].fill(0);
        let payload_checksum = crc32c::crc32c(words[GROUP_HEADER_WORDS..used].as_bytes());
        let plain_words = used;
        Packed {
            image,
            total,
            used,
            flags,
            payload_checksum,
            first,
            last,
            plain: None,
            plain_words,
        }
    }

    /// ID of its first transaction.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// ID of its last transaction.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Words that go to the medium, whole blocks.
    pub fn words(&self) -> usize {
        self.total
    }

    /// Words that go to the medium, without the zeros behind.
    pub fn words_used(&self) -> usize {
        self.used
    }

    /// Words of the group that is reproduced, header included.
    pub fn plain_words(&self) -> usize {
        self.plain_words
    }

    /// The writes of the group that is reproduced.
    pub fn plain_payload(&self) -> &[u64] {
        let plain = self.plain.as_ref().unwrap_or(&self.image);
        &plain.words()[GROUP_HEADER_WORDS..self.plain_words]
    }

    /// The words that go to the medium, once it is sealed.
    pub fn image(&self) -> &[u64] {
        &self.image.words()[..self.total]
    }

    /// What goes to the medium, and the group for home where that is another.
    pub fn into_image(self) -> (Buffer, Option<Buffer>) {
        (self.image, self.plain)
    }

    /// Writes the header for this place. `acknowledged` is the sequence behind the last group that
    /// is known to be durable.
    pub fn seal(&mut self, identity: Identity, sequence: u64, acknowledged: u64) {
        let acknowledged =
            if planted(Mutant::AcknowledgedTooLarge) { sequence } else { acknowledged };
        let under_way = (sequence - acknowledged).div_ceil(UNIT_BYTES).min(UNKNOWN);
        let payload_words = (self.used - GROUP_HEADER_WORDS) as u64;
        debug_assert!(payload_words <= u64::from(u32::MAX), "a group's length has 32 bits");
        let mut head = [
            MAGIC,
            identity.generation,
            u64::from(identity.stream) << 48 | self.flags << 32 | payload_words,
            sequence,
            self.first,
            self.last,
            identity.pool,
            under_way << 32,
        ];
        head[7] |= u64::from(checksum(self.payload_checksum, head));
        self.image.words_mut()[..GROUP_HEADER_WORDS].copy_from_slice(&head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Combiner;
    use crate::group::Header;
    use medium::writes::run;
    use words::TxId;

    const IDENTITY: Identity = Identity { pool: 9, generation: 3, stream: 0 };

    /// Eight equal words a transaction.
    fn group(words: u64) -> Group {
        let mut group = Group::new(Buffer::new(64));
        for id in 0..words / 8 {
            let runs = group.push(TxId(5 + id), 9);
            runs[0] = run(100 * id, 8);
            runs[1..].fill(7);
        }
        group
    }

    #[test]
    fn a_group_is_compressed_when_that_saves_a_block() {
        let mut lz4 = Lz4::default();
        let mut noise = Group::new(Buffer::new(0));
        let runs = noise.push(TxId(5), 101);
        runs[0] = run(7, 100);
        let mut word = 1_u64;
        runs[1..].fill_with(|| {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            word ^ word >> 29
        });
        let (packed, spare) = Packed::compressed(noise, 8, &mut lz4, Buffer::new(0));
        assert!(packed.plain.is_none() && spare.is_some(), "noise is stored as it is");
        let (packed, spare) = Packed::compressed(group(8), 512, &mut lz4, Buffer::new(0));
        assert!(packed.plain.is_none() && spare.is_some(), "a block is a block");
        let plain = group(800);
        let payload = plain.payload().to_vec();
        let (mut packed, spare) = Packed::compressed(plain, 8, &mut lz4, Buffer::new(0));
        assert!(spare.is_none() && packed.words() * 2 < payload.len());
        packed.seal(IDENTITY, 64, 64);
        let header = Header::read(packed.image()).unwrap();
        assert_eq!(header.flags, COMPRESSED);
        let stored = header.stored(packed.image()).unwrap();
        let mut out = Buffer::new(0);
        let words = crate::compress::decode(stored, 1 << 16, &mut out).unwrap();
        assert_eq!(out.words()[..words], payload[..]);
        assert!(header.is_well_formed(&out.words()[..words]));
    }

    /// The bytes as they were when format 3 was set: another result is another format.
    #[test]
    fn a_combined_group_is_laid_out_as_format_3_says() {
        let mut combiner = Combiner::default();
        combiner.add(&[run(10, 2), 1, 2]);
        combiner.add(&[run(11, 2), 3, 4]);
        let mut packed = Packed::plain(combiner.finish(TxId(5), TxId(6), Buffer::new(64)), 8);
        packed.seal(IDENTITY, 4096, 4096);
        let golden = [
            0x3350_554f_5247_574c,
            3,
            0x0000_0001_0000_0004,
            0x1000,
            5,
            6,
            9,
            0x0000_0000_c7b0_2a03,
            0x000a_0003,
            1,
            3,
            4,
            0,
            0,
            0,
            0,
        ];
        assert_eq!(packed.image(), golden);
    }
}
