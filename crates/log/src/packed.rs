//! A group in its stored form, with the payload that the reproduce step needs.
//!
//! ```text
//!   Group --plain---------------> | header | payload      | zeros |
//!         --compressed----------> | header | LZ4 | zeros |    and the plain group, to reproduce
//! ```
//!
//! Packing does the slow work (compression, the payload's checksum) before the group's place in the
//! log is known. [`seal`](Packed::seal) then writes only a few words.

use medium::Buffer;
use medium::mutants::{Mutant, injected};
use zerocopy::IntoBytes;

use crate::group::{
    COMBINED, COMPRESSED, GROUP_HEADER_WORDS, MAGIC, UNIT_BYTES, UNKNOWN, checksum,
};
use crate::{Group, Identity, Lz4};

/// A group that is ready to be placed in the log.
#[derive(Debug)]
pub struct Packed {
    /// The words written to the medium.
    image: Buffer,
    /// Words of the image, whole blocks.
    total: usize,
    /// Words of the image without its padding.
    used: usize,
    flags: u64,
    /// The checksum of the payload as stored.
    payload_checksum: u32,
    first: u64,
    last: u64,
    /// The plain group, when the image is compressed.
    plain: Option<Buffer>,
    /// Words of the plain group, header included.
    plain_words: usize,
}

impl Packed {
    /// Packs a group without compression, for a medium with blocks of `block_words` words.
    ///
    /// # Panics
    /// When the group is empty, as an empty group is never written.
    pub fn plain(group: Group, block_words: usize) -> Packed {
        assert!(!group.is_empty(), "an empty group is never written");
        let Group { buffer, used, first, last, combined } = group;
        let flags = if combined { COMBINED } else { 0 };
        Packed::of(buffer, used, block_words, flags, (first, last))
    }

    /// Packs a group with compression, into `memory`. If that saves no block, the group is packed
    /// plain, and `memory` is returned.
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
        // The header alone takes this many blocks, so compression cannot save one.
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

    /// Returns the ID of its first transaction.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the ID of its last transaction.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number of words written to the medium, whole blocks.
    pub fn words(&self) -> usize {
        self.total
    }

    /// Returns the number of words written to the medium, without padding.
    pub fn words_used(&self) -> usize {
        self.used
    }

    /// Returns the words of the plain group, header included.
    pub fn plain_words(&self) -> usize {
        self.plain_words
    }

    /// Returns the payload of the plain group, which the reproduce step applies.
    pub fn plain_payload(&self) -> &[u64] {
        let plain = self.plain.as_ref().unwrap_or(&self.image);
        &plain.words()[GROUP_HEADER_WORDS..self.plain_words]
    }

    /// Returns the words to write to the medium; valid once the group is sealed.
    pub fn image(&self) -> &[u64] {
        &self.image.words()[..self.total]
    }

    /// Returns the image, and the plain group if it is a separate one.
    pub fn into_image(self) -> (Buffer, Option<Buffer>) {
        (self.image, self.plain)
    }

    /// Writes the header for the place `sequence`. `acknowledged` is the end of the last group
    /// known to be durable.
    pub fn seal(&mut self, identity: Identity, sequence: u64, acknowledged: u64) {
        let acknowledged =
            if injected(Mutant::AcknowledgedTooLarge) { sequence } else { acknowledged };
        let in_flight = (sequence - acknowledged).div_ceil(UNIT_BYTES).min(UNKNOWN);
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
            in_flight << 32,
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

    /// Makes a group whose transactions write eight equal words each.
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
    fn group_is_compressed_if_that_saves_a_block() {
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
        assert!(packed.plain.is_none() && spare.is_some(), "noise is stored plain");
        let (packed, spare) = Packed::compressed(group(8), 512, &mut lz4, Buffer::new(0));
        assert!(packed.plain.is_none() && spare.is_some(), "a group of one block is stored plain");
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

    /// The bytes of format 3. A different result is a different format.
    #[test]
    fn combined_group_layout_is_format_3() {
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
