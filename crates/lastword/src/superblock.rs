//! The superblocks of a pool, and the head of its log file.
//!
//! # Durable format: superblock
//!
//! Two copies, at bytes 0 and 4096 of NAME, written one after the other at every change: the valid
//! one with the higher edition counts, and whoever opens the pool writes it last. A crash while one
//! is written leaves the other; damage to one leaves the other, and both say the same.
//!
//! ```text
//!   word   0      | "LASTWORD"                                         |
//!          1      | feature bits (32)      | format version (32)       |
//!          2      | edition: one more at every write                   |
//!          3      | pool ID                                            |
//!          4      | generation: one more at every open                 |
//!          5      | 1 if closed in good order, else 0                  |
//!          6..7   | name of the design that wrote last, zero-padded    |
//!          8..11  | layout name, zero-padded UTF-8                     |
//!          12     | layout version                                     |
//!          13..14 | heap: offset and bytes, in NAME                    |
//!          15     | 1 if the log is in NAME, 0 if in NAME.log          |
//!          16..17 | log: offset and bytes                              |
//!          18     | streams of the log (1)                             |
//!          19     | reproduced ID                                      |
//!          20     | sequence of the log where it goes on               |
//!          21..22 | name of the medium that it was last on, zero-padded |
//!          23..62 | 0                                                  |
//!          63     | 0 (32)                 | CRC-32C of words 0..62    |
//! ```
//!
//! # Durable format: log head
//!
//! Two copies, at bytes 0 and 4096 of NAME.log, as above. It ties the log to its pool: a log whose
//! generation is neither the superblock's nor one more is of another time.
//!
//! ```text
//!   word   0      | "LWLOGFIL"                                         |
//!          1      | feature bits (32)      | format version (32)       |
//!          2      | edition                                            |
//!          3      | pool ID                                            |
//!          4      | generation                                         |
//!          5..62  | 0                                                  |
//!          63     | 0 (32)                 | CRC-32C of words 0..62    |
//! ```

mod copies;

use std::sync::Arc;

use medium::mutants::{Mutant, planted};
use medium::{Counts, Emulation, PoolFile};
use zerocopy::IntoBytes;

pub(crate) use copies::{Copies, Paired};

/// Bytes of one copy of a superblock or log head: a page, so that no device write holds two.
pub(crate) const COPY_BYTES: u64 = 4096;
/// Bytes of both copies.
pub(crate) const COPIES_BYTES: u64 = 2 * COPY_BYTES;
/// Longest layout name in bytes.
pub(crate) const LAYOUT_BYTES: usize = 32;

pub(crate) const FORMAT_VERSION: u64 = 2;
const WORDS: usize = 64;
/// No pool reaches such an edition, generation, ID or sequence; sums with them do not overflow.
const NUMBER_MAX: u64 = 1 << 62;
/// No pool that is opened has one above this: it goes on for as long as anybody lives before it
/// writes a number that is refused when it is read.
const START_MAX: u64 = NUMBER_MAX / 2;
const MAGIC: u64 = u64::from_le_bytes(*b"LASTWORD");
const LOG_MAGIC: u64 = u64::from_le_bytes(*b"LWLOGFIL");
const _: () = assert!(8 * WORDS as u64 <= COPY_BYTES);

type Block = [u64; WORDS];

/// Why a block is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// It does not begin as one, or its checksum is wrong.
    Damaged,
    /// Of a version, or with features, that this program does not know.
    Version(u64),
    /// Both copies are whole, and no update has left one beside the other: of one edition and not
    /// the same, or of two pools.
    Contradiction,
}

/// What a pool says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) edition: u64,
    pub(crate) pool: u64,
    pub(crate) generation: u64,
    pub(crate) clean: bool,
    pub(crate) design: [u8; 16],
    pub(crate) layout: [u8; LAYOUT_BYTES],
    pub(crate) layout_version: u64,
    pub(crate) heap_offset: u64,
    pub(crate) heap_bytes: u64,
    pub(crate) log_inside: bool,
    pub(crate) log_offset: u64,
    pub(crate) log_bytes: u64,
    pub(crate) reproduced: u64,
    pub(crate) log_sequence: u64,
    pub(crate) medium: [u8; 16],
}

/// A name as the format holds it.
pub(crate) fn padded<const N: usize>(name: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    Some(bytes)
}

/// A name as people read it.
pub(crate) fn name(padded: &[u8]) -> String {
    let end = padded.iter().position(|&byte| byte == 0).unwrap_or(padded.len());
    String::from_utf8_lossy(&padded[..end]).into_owned()
}

/// Whether these bytes are a name and zeros, as [`padded`] leaves them.
fn is_padded(padded: &[u8]) -> bool {
    let end = padded.iter().position(|&byte| byte == 0).unwrap_or(padded.len());
    let (name, zeros) = padded.split_at(end);
    std::str::from_utf8(name).is_ok() && zeros.iter().all(|&byte| byte == 0)
}

fn sealed(mut block: Block) -> Block {
    block[WORDS - 1] = u64::from(crc32c::crc32c(block[..WORDS - 1].as_bytes()));
    block
}

fn opened(block: &Block, magic: u64) -> Result<(), Invalid> {
    let crc = u64::from(crc32c::crc32c(block[..WORDS - 1].as_bytes()));
    if block[0] != magic || block[WORDS - 1] != crc {
        return Err(Invalid::Damaged);
    }
    // The upper half are feature bits; one that is not known means that we cannot read on.
    if block[1] != FORMAT_VERSION { Err(Invalid::Version(block[1])) } else { Ok(()) }
}

impl Superblock {
    /// The number above every pointer into this pool.
    pub(crate) fn tag(&self) -> u16 {
        (self.pool % 0xffff) as u16 + 1
    }

    /// Whether its numbers leave room to go on.
    pub(crate) fn can_go_on(&self) -> bool {
        let numbers = [self.edition, self.generation, self.reproduced, self.log_sequence];
        numbers.into_iter().all(|number| number <= START_MAX)
    }

    fn encode(&self) -> Block {
        let mut block = [0; WORDS];
        block[..6].copy_from_slice(&[
            MAGIC,
            FORMAT_VERSION,
            self.edition,
            self.pool,
            self.generation,
            u64::from(self.clean),
        ]);
        block[6..8].as_mut_bytes().copy_from_slice(&self.design);
        block[8..12].as_mut_bytes().copy_from_slice(&self.layout);
        block[12..21].copy_from_slice(&[
            self.layout_version,
            self.heap_offset,
            self.heap_bytes,
            u64::from(self.log_inside),
            self.log_offset,
            self.log_bytes,
            1,
            self.reproduced,
            self.log_sequence,
        ]);
        block[21..23].as_mut_bytes().copy_from_slice(&self.medium);
        sealed(block)
    }

    fn decode(block: &Block) -> Result<Superblock, Invalid> {
        opened(block, MAGIC)?;
        let bool_at = |word: usize| match block[word] {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Invalid::Damaged),
        };
        let counted = [block[2], block[4], block[19], block[20]];
        if counted.iter().any(|&number| number > NUMBER_MAX) {
            return Err(Invalid::Damaged);
        }
        if block[18] != 1 || block[23..WORDS - 1].iter().any(|&word| word != 0) {
            return Err(Invalid::Damaged);
        }
        let mut design = [0; 16];
        design.copy_from_slice(block[6..8].as_bytes());
        let mut medium = [0; 16];
        medium.copy_from_slice(block[21..23].as_bytes());
        let mut layout = [0; LAYOUT_BYTES];
        layout.copy_from_slice(block[8..12].as_bytes());
        if ![&design[..], &medium, &layout].into_iter().all(is_padded) {
            return Err(Invalid::Damaged);
        }
        Ok(Superblock {
            edition: block[2],
            pool: block[3],
            generation: block[4],
            clean: bool_at(5)?,
            design,
            layout,
            layout_version: block[12],
            heap_offset: block[13],
            heap_bytes: block[14],
            log_inside: bool_at(15)?,
            log_offset: block[16],
            log_bytes: block[17],
            reproduced: block[19],
            log_sequence: block[20],
            medium,
        })
    }
}

/// What a log file says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogHead {
    pub(crate) edition: u64,
    pub(crate) pool: u64,
    pub(crate) generation: u64,
}

impl LogHead {
    /// Whether its edition leaves room to go on.
    pub(crate) fn can_go_on(&self) -> bool {
        self.edition <= START_MAX
    }

    fn encode(&self) -> Block {
        let mut block = [0; WORDS];
        let words = [LOG_MAGIC, FORMAT_VERSION, self.edition, self.pool, self.generation];
        block[..5].copy_from_slice(&words);
        sealed(block)
    }

    fn decode(block: &Block) -> Result<LogHead, Invalid> {
        opened(block, LOG_MAGIC)?;
        let reserved = block[5..WORDS - 1].iter().any(|&word| word != 0);
        if reserved || block[2] > NUMBER_MAX || block[4] > NUMBER_MAX {
            return Err(Invalid::Damaged);
        }
        Ok(LogHead { edition: block[2], pool: block[3], generation: block[4] })
    }

    /// Where the copy that counts is.
    pub(crate) fn counts(file: &PoolFile) -> Result<u64, medium::Error> {
        Ok(Copies::<LogHead>::read(file)?.counts())
    }

    /// Writes both copies, the one that counts last; durable on return, two persist barriers.
    pub(crate) fn write(&self, file: &PoolFile, counts: u64) -> Result<(), medium::Error> {
        let block = self.encode();
        for copy in [COPY_BYTES - counts, counts] {
            file.write_durable_at(copy, &block)?;
        }
        Ok(())
    }
}

impl Paired for Superblock {
    fn decode(block: &Block) -> Result<Superblock, Invalid> {
        Superblock::decode(block)
    }

    fn edition(&self) -> u64 {
        self.edition
    }

    fn is_akin(&self, other: &Superblock) -> bool {
        let Superblock { edition, generation, clean, design, .. } = *self;
        let Superblock { reproduced, log_sequence, medium, .. } = *self;
        let changing = Superblock {
            edition,
            generation,
            clean,
            design,
            reproduced,
            log_sequence,
            medium,
            ..*other
        };
        changing == *self
    }
}

impl Paired for LogHead {
    fn decode(block: &Block) -> Result<LogHead, Invalid> {
        LogHead::decode(block)
    }

    fn edition(&self) -> u64 {
        self.edition
    }

    fn is_akin(&self, other: &LogHead) -> bool {
        self.pool == other.pool
    }
}

/// The superblocks of an open pool: the current one and where it is written.
#[derive(Debug)]
pub(crate) struct Superblocks {
    file: Arc<PoolFile>,
    current: Superblock,
    /// The copy that counted when it was opened: it is written last. Were it written first, and
    /// torn by a crash that leaves its bytes in no state at all, the other one, which such a crash
    /// has left before, would not be there to help.
    copy: u64,
    counts: Counts,
    /// On emulated memory a superblock costs its barrier like everything else.
    emulation: Option<Arc<Emulation>>,
}

impl Superblocks {
    /// The superblock of a file, if it has a valid one.
    pub(crate) fn read(
        file: &Arc<PoolFile>,
    ) -> Result<Result<Superblocks, Invalid>, medium::Error> {
        let copies = Copies::read(file)?;
        let open =
            |current| Superblocks { copy: copies.counts(), ..Superblocks::new(file, current) };
        Ok(copies.current().map(open))
    }

    /// Writes the first superblock of a new file, both copies.
    pub(crate) fn create(
        file: &Arc<PoolFile>,
        first: Superblock,
    ) -> Result<Superblocks, medium::Error> {
        let mut blocks = Superblocks::new(file, first);
        blocks.update(|_| ())?;
        Ok(blocks)
    }

    pub(crate) fn current(&self) -> &Superblock {
        &self.current
    }

    /// The file that they are in.
    #[cfg(test)]
    pub(crate) fn file(&self) -> &Arc<PoolFile> {
        &self.file
    }

    fn new(file: &Arc<PoolFile>, current: Superblock) -> Superblocks {
        let (file, counts) = (Arc::clone(file), Counts::default());
        Superblocks { file, current, copy: 0, counts, emulation: None }
    }

    /// From here on each write costs what `emulation` says.
    pub(crate) fn emulate(&mut self, emulation: Arc<Emulation>) {
        self.emulation = Some(emulation);
    }

    /// What writing them has cost.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// What a planted bug does to a copy: it is left out, or not made durable.
    fn mutant(&self, next: &Superblock, copy: u64) -> Option<Mutant> {
        let opening = next.generation > self.current.generation;
        [
            (Mutant::OneSuperblock, copy == self.copy),
            (Mutant::SuperblocksAtOnce, copy == COPY_BYTES - self.copy),
            (Mutant::SecondCopyNotSynced, copy == self.copy),
            (Mutant::OpeningNotSynced, opening),
            (Mutant::RecyclingNotSynced, !opening),
        ]
        .into_iter()
        .find_map(|(mutant, here)| (here && planted(mutant)).then_some(mutant))
    }

    /// Changes the superblock; durable on return, two persist barriers. With one copy only, its
    /// damage would lead recovery to the older one, to a place of the log that is recycled.
    pub(crate) fn update(
        &mut self,
        change: impl FnOnce(&mut Superblock),
    ) -> Result<(), medium::Error> {
        let mut next = self.current;
        change(&mut next);
        next.edition += 1;
        let block = next.encode();
        for copy in [COPY_BYTES - self.copy, self.copy] {
            match self.mutant(&next, copy) {
                Some(Mutant::OneSuperblock) => continue,
                Some(_) => self.file.write_at(copy, &block)?,
                None => self.file.write_durable_at(copy, &block)?,
            }
            self.counts.bytes += 8 * WORDS as u64;
            self.counts.device_writes += 1;
            self.counts.persist_barriers += 1;
            if let Some(emulation) = &self.emulation {
                let cycles = emulation.wait(8 * WORDS as u64);
                self.counts.emulated_delay_ns += medium::cpu::cycles_to_ns(cycles);
            }
        }
        self.current = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock {
            edition: 7,
            pool: 0x1234_5678_9abc_def0,
            generation: 3,
            clean: true,
            design: padded("decoupled").unwrap(),
            layout: padded("bank").unwrap(),
            layout_version: 2,
            heap_offset: 1 << 21,
            heap_bytes: 1 << 26,
            log_inside: false,
            log_offset: 8192,
            log_bytes: 1 << 24,
            reproduced: 99,
            log_sequence: 4096,
            medium: padded("persistent_cache").unwrap(),
        }
    }

    #[test]
    fn a_superblock_reads_back_as_it_was_written() {
        let block = superblock().encode();
        assert_eq!(Superblock::decode(&block), Ok(superblock()));
        assert_eq!(name(&superblock().layout), "bank");
    }

    /// The words as they were when format 2 was set: another result is another format.
    #[test]
    fn a_superblock_is_laid_out_as_format_2_says() {
        let mut golden = [0; WORDS];
        golden[..23].copy_from_slice(&[
            0x4452_4f57_5453_414c,
            0x0000_0000_0000_0002,
            0x0000_0000_0000_0007,
            0x1234_5678_9abc_def0,
            0x0000_0000_0000_0003,
            0x0000_0000_0000_0001,
            0x656c_7075_6f63_6564,
            0x0000_0000_0000_0064,
            0x0000_0000_6b6e_6162,
            0x0000_0000_0000_0000,
            0x0000_0000_0000_0000,
            0x0000_0000_0000_0000,
            0x0000_0000_0000_0002,
            0x0000_0000_0020_0000,
            0x0000_0000_0400_0000,
            0x0000_0000_0000_0000,
            0x0000_0000_0000_2000,
            0x0000_0000_0100_0000,
            0x0000_0000_0000_0001,
            0x0000_0000_0000_0063,
            0x0000_0000_0000_1000,
            0x6574_7369_7372_6570,
            0x6568_6361_635f_746e,
        ]);
        golden[WORDS - 1] = 0x0000_0000_b0e4_1ce0;
        assert_eq!(superblock().encode(), golden);
        assert_eq!(Superblock::decode(&golden), Ok(superblock()));
    }

    #[test]
    fn a_superblock_with_any_bit_changed_is_refused() {
        for bit in 0..WORDS * 64 {
            let mut block = superblock().encode();
            block[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(Superblock::decode(&block), Err(Invalid::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn an_unknown_version_or_feature_is_named() {
        for version in [1, 3, 1 << 32 | 2] {
            let mut block = superblock().encode();
            block[1] = version;
            let block = sealed(block);
            assert_eq!(Superblock::decode(&block), Err(Invalid::Version(version)));
        }
    }

    #[test]
    fn a_reserved_word_that_is_not_zero_is_refused() {
        let mut block = superblock().encode();
        block[40] = 1;
        assert_eq!(Superblock::decode(&sealed(block)), Err(Invalid::Damaged));
    }

    /// One layout name would be told as another, or as none, and never match what is asked for.
    #[test]
    fn a_name_with_something_behind_its_end_is_refused() {
        for (word, value) in [(8, 0x61_0000), (7, 1 << 32), (9, 1 << 40), (22, 1 << 63), (10, 0xff)]
        {
            let mut block = superblock().encode();
            block[word] = value;
            assert_eq!(Superblock::decode(&sealed(block)), Err(Invalid::Damaged), "word {word}");
        }
    }

    #[test]
    fn numbers_that_no_pool_reaches_are_refused() {
        for word in [2, 4, 19, 20] {
            let mut block = superblock().encode();
            block[word] = u64::MAX - 1;
            assert_eq!(Superblock::decode(&sealed(block)), Err(Invalid::Damaged), "word {word}");
        }
    }

    #[test]
    fn the_newer_valid_copy_counts() {
        let of = |edition| Ok(Superblock { edition, generation: edition, ..superblock() });
        let current = |decoded| Copies { blocks: [[0; WORDS]; 2], decoded }.current();
        let damaged = Err(Invalid::Damaged);
        assert_eq!(current([of(3), of(4)]), of(4));
        assert_eq!(current([of(4), of(3)]), of(4));
        assert_eq!(current([of(4), of(4)]), of(4));
        assert_eq!(current([damaged, of(3)]), of(3));
        assert_eq!(current([of(3), damaged]), of(3));
        assert_eq!(current([damaged, damaged]), damaged);
        let version = Err(Invalid::Version(9));
        for other in [damaged, of(3)] {
            assert_eq!(current([other, version]), version);
            assert_eq!(current([version, other]), version);
        }
    }

    #[test]
    fn copies_that_no_update_leaves_contradict_each_other() {
        let current = |decoded| Copies { blocks: [[0; WORDS]; 2], decoded }.current();
        let one = superblock();
        let same_edition = Superblock { reproduced: 100, ..one };
        let other_pool = Superblock { edition: 8, pool: 1, ..one };
        let other_size = Superblock { edition: 8, heap_bytes: 1 << 27, ..one };
        for other in [same_edition, other_pool, other_size] {
            assert_eq!(current([Ok(one), Ok(other)]), Err(Invalid::Contradiction), "{other:?}");
            assert_eq!(current([Ok(other), Ok(one)]), Err(Invalid::Contradiction), "{other:?}");
        }
    }

    #[test]
    fn the_copy_that_counts_is_known_and_written_last() {
        let of = |edition| Ok(Superblock { edition, generation: edition, ..superblock() });
        let damaged = Err(Invalid::Damaged);
        for (a, b, place) in [
            (of(4), of(4), 0),
            (of(4), of(3), 0),
            (of(3), of(4), COPY_BYTES),
            (of(4), damaged, 0),
            (damaged, of(4), COPY_BYTES),
        ] {
            let copies = Copies { blocks: [[0; WORDS]; 2], decoded: [a, b] };
            assert_eq!(copies.counts(), place, "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_log_head_is_not_a_superblock() {
        let head = LogHead { edition: 1, pool: 2, generation: 3 };
        assert_eq!(LogHead::decode(&head.encode()), Ok(head));
        assert_eq!(Superblock::decode(&head.encode()), Err(Invalid::Damaged));
        assert_eq!(LogHead::decode(&superblock().encode()), Err(Invalid::Damaged));
    }

    #[test]
    fn a_tag_is_never_zero() {
        for pool in [0, 0xfffe, 0xffff, u64::MAX] {
            assert_ne!(Superblock { pool, ..superblock() }.tag(), 0);
        }
    }
}
