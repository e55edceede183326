//! The superblocks of a pool, and the head of its log file.
//!
//! # Durable format: superblock
//!
//! Two copies, at bytes 0 and 4096 of NAME. Each update writes one after the other, and both are
//! equal between updates. The valid copy with the higher edition is current, and an open pool
//! writes that copy last. A crash during a write, or damage to one copy, leaves the other one.
//!
//! ```text
//!   word   0      | "LASTWORD"                                         |
//!          1      | feature bits (32)      | format version (32)       |
//!          2      | edition: one more at every write                   |
//!          3      | pool ID                                            |
//!          4      | generation: one more at every open                 |
//!          5      | 1 after a clean shutdown, else 0                   |
//!          6..7   | name of the design that wrote last, zero-padded    |
//!          8..11  | layout name, zero-padded UTF-8                     |
//!          12     | layout version                                     |
//!          13..14 | heap: offset and bytes, in NAME                    |
//!          15     | 1 if the log is in NAME, 0 if in NAME.log          |
//!          16..17 | log: offset and bytes                              |
//!          18     | streams of the log (1)                             |
//!          19     | reproduced ID                                      |
//!          20     | sequence where the log continues                   |
//!          21..22 | name of the pool's last medium, zero-padded        |
//!          23     | most transactions of a combined group; 0: groups   |
//!                 | were not combined                                  |
//!          24     | 1 if groups were compressed where that helped, else 0 |
//!          25     | during a migration, the layout version of the      |
//!                 | content plus 1; else 0                             |
//!          26     | heap bytes that an unfinished growth may have      |
//!                 | allocated in NAME; else 0                          |
//!          27     | log bytes that an unfinished growth may have       |
//!                 | allocated in NAME.log; else 0                      |
//!          28..62 | 0                                                  |
//!          63     | 0 (32)                 | CRC-32C of words 0..62    |
//! ```
//!
//! On mapped media the pages of both copies also have witnesses of the log, from byte 2048 on.
//!
//! Feature bit 0: from byte 8192 to the first area, NAME has the checksums of the heap's pages.
//!
//! Words 23 and 24 are informative: each group describes itself.
//!
//! # Durable format: log head
//!
//! Two copies, at bytes 0 and 4096 of NAME.log, as above. The head ties the log to its pool. Its
//! generation is the superblock's. Opening the pool writes the head of the next generation, then
//! the superblock, then the head with word 5. So a crash may leave a head of one more generation
//! that was not entered. A log of any other generation belongs to another state of the pool: if it
//! is a later one, NAME is an older copy.
//!
//! ```text
//!   word   0      | "LWLOGFIL"                                         |
//!          1      | feature bits (32)      | format version (32)       |
//!          2      | edition                                            |
//!          3      | pool ID                                            |
//!          4      | generation                                         |
//!          5      | 1 after the superblock of this generation, else 0  |
//!          6..62  | 0                                                  |
//!          63     | 0 (32)                 | CRC-32C of words 0..62    |
//! ```

mod checksum_area;
mod growth;
mod paired_block;

use std::sync::Arc;

use medium::mutants::{Mutant, injected};
use medium::{Counts, Emulation, PoolFile};
use zerocopy::IntoBytes;

pub(crate) use growth::{GrowthStep, extend, is_harmless};
pub(crate) use paired_block::{Paired, PairedBlock};

/// Bytes of one copy of a superblock or log head: a page, so that no device write covers both
/// copies.
pub(crate) const COPY_BYTES: u64 = 4096;
/// Bytes of both copies.
pub(crate) const COPIES_BYTES: u64 = 2 * COPY_BYTES;
/// Longest layout name in bytes.
pub(crate) const LAYOUT_BYTES: usize = 32;

pub(crate) const FORMAT_VERSION: u64 = 4;
/// The version whose superblock and log are the same, with a heap of format 1: see
/// [`convert`](crate::convert).
pub(crate) const FORMAT_VERSION_3: u64 = 3;
/// In the version's word: the file has checksums of pages.
const PAGE_CHECKSUMS: u64 = 1 << 32;
const WORDS: usize = 64;
/// Greater than every edition, generation, ID or sequence of a pool. Checksums of two such numbers
/// do not overflow.
const NUMBER_MAX: u64 = 1 << 62;
/// The greatest such number of a pool that opens. The distance to `NUMBER_MAX` outlasts any use of
/// the pool, so the pool never writes a number that decoding refuses.
const START_MAX: u64 = NUMBER_MAX / 2;
const MAGIC: u64 = u64::from_le_bytes(*b"LASTWORD");
/// The first word of an export, which is no pool.
pub(crate) const EXPORT_MAGIC: u64 = u64::from_le_bytes(*b"LWEXPORT");
const LOG_MAGIC: u64 = u64::from_le_bytes(*b"LWLOGFIL");
const _: () = assert!(8 * WORDS as u64 <= COPY_BYTES);

type Block = [u64; WORDS];

/// The reason why a block is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// Its magic number or its checksum is wrong.
    Damaged,
    /// It has a version or feature bits that this program does not support.
    Version(u64),
    /// Both copies are valid, and no update leaves such a pair: the same edition with different
    /// contents, or two pools.
    Contradiction,
}

/// The content of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// [`FORMAT_VERSION`], or [`FORMAT_VERSION_3`] of a pool that must be converted.
    pub(crate) version: u64,
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
    /// Transactions of a combined group; 0 without combination.
    pub(crate) group: u64,
    pub(crate) compress: bool,
    /// During a migration, the layout version of the content plus 1; else 0.
    pub(crate) migrating: u64,
    /// The heap bytes up to which an unfinished growth may have extended the file; else 0.
    pub(crate) growing: u64,
    /// The log bytes up to which an unfinished growth may have extended the log's file; else 0.
    pub(crate) log_growing: u64,
    /// Whether the file has checksums of the heap's pages.
    pub(crate) page_checksums: bool,
}

/// Whether a pool can continue after this transaction and be opened again. A log with a greater ID
/// is refused, since no superblock could store it.
pub(crate) fn can_begin_behind(id: u64) -> bool {
    id <= START_MAX
}

/// Returns a name, zero-padded as the format stores it.
pub(crate) fn padded<const N: usize>(name: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    Some(bytes)
}

/// Returns a padded name for display; see [`printable`].
pub(crate) fn name(padded: &[u8]) -> String {
    printable(&exact_name(padded))
}

/// Returns a name as the file has it: the identity of a layout, which a program may open with.
pub(crate) fn exact_name(padded: &[u8]) -> String {
    let end = padded.iter().position(|&byte| byte == 0).unwrap_or(padded.len());
    String::from_utf8_lossy(&padded[..end]).into_owned()
}

/// Returns a name from a pool's file for display.
///
/// Characters that move a terminal's cursor, change its state or reorder text are escaped, since
/// the bytes of a damaged file are arbitrary.
pub fn printable(name: &str) -> String {
    let mut shown = String::new();
    for character in name.chars() {
        match is_shown(character) {
            true => shown.push(character),
            false => shown.extend(character.escape_default()),
        }
    }
    shown
}

/// Whether a character is printed as it is: no control character, and none that sets the direction
/// of text.
fn is_shown(character: char) -> bool {
    let directs = matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !directs
}

/// Whether these bytes are a name followed by zeros, as [`padded`] leaves them.
pub(crate) fn is_padded(padded: &[u8]) -> bool {
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
    // The upper half holds feature bits. With an unknown one the rest cannot be interpreted.
    let known = if magic == MAGIC { PAGE_CHECKSUMS } else { 0 };
    match block[1] {
        FORMAT_VERSION_3 => Ok(()),
        version if version & !known == FORMAT_VERSION => Ok(()),
        version => Err(Invalid::Version(version)),
    }
}

impl Superblock {
    /// Returns the tag in the upper bits of every pointer into this pool.
    pub(crate) fn tag(&self) -> u16 {
        (self.pool % 0xffff) as u16 + 1
    }

    /// Returns it with a random pool ID whose tag is that of the ID `pool`. Pointers of that pool
    /// are then valid in this one.
    pub(crate) fn with_tag_of(self, pool: u64) -> Superblock {
        // `u64::MAX` is a multiple of 0xffff and has no room above it.
        let own = (self.pool - self.pool % 0xffff).min(u64::MAX - 0xffff);
        Superblock { pool: own + pool % 0xffff, ..self }
    }

    /// Returns it for a copy of the heap of a pool with this ID and generation: with that tag, so
    /// that pointers stay valid, and that generation. The heap may have links of `snapshot` of that
    /// generation. The next opening begins a later one, in which they are void.
    pub(crate) fn for_copy_of(self, pool: u64, generation: u64) -> Superblock {
        Superblock { generation, ..self.with_tag_of(pool) }
    }

    /// Returns it with another pool ID, and so another tag, if its tag is this one.
    pub(crate) fn with_other_tag_than(self, tag: u16) -> Superblock {
        if injected(Mutant::CompactedPoolKeepsTag) {
            return self.with_tag_of(u64::from(tag) - 1);
        }
        if self.tag() == tag { self.with_tag_of(self.pool % 0xffff + 1) } else { self }
    }

    /// Returns the layout version of its content.
    pub(crate) fn content_version(&self) -> u64 {
        self.migrating.checked_sub(1).unwrap_or(self.layout_version)
    }

    /// Returns the greatest length that its file may have.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        self.heap_offset + self.heap_bytes.max(self.growing)
    }

    /// Returns the length of the log's file.
    pub(crate) fn log_file_bytes(&self) -> u64 {
        self.log_offset + self.log_bytes
    }

    /// Whether the log's file may have this length.
    pub(crate) fn is_log_file_length(&self, bytes: u64) -> bool {
        let longest = self.log_offset.saturating_add(self.log_growing).max(self.log_file_bytes());
        (self.log_file_bytes()..=longest).contains(&bytes)
    }

    /// Whether its numbers leave room for the pool to continue.
    pub(crate) fn can_go_on(&self) -> bool {
        let numbers = [self.edition, self.generation, self.reproduced, self.log_sequence];
        numbers.into_iter().all(|number| number <= START_MAX)
    }

    fn encode(&self) -> Block {
        let mut block = [0; WORDS];
        block[..6].copy_from_slice(&[
            MAGIC,
            self.version | if self.page_checksums { PAGE_CHECKSUMS } else { 0 },
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
        let words = [self.group, u64::from(self.compress), self.migrating, self.growing];
        block[23..27].copy_from_slice(&words);
        block[27] = self.log_growing;
        sealed(block)
    }

    fn decode(block: &Block) -> Result<Superblock, Invalid> {
        opened(block, MAGIC)?;
        let bool_at = |word: usize| match block[word] {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Invalid::Damaged),
        };
        let counted = [block[2], block[4], block[19], block[20], block[23]];
        if counted.iter().any(|&number| number > NUMBER_MAX) {
            return Err(Invalid::Damaged);
        }
        if block[18] != 1 || block[28..WORDS - 1].iter().any(|&word| word != 0) {
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
            version: block[1] & !PAGE_CHECKSUMS,
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
            group: block[23],
            compress: bool_at(24)?,
            migrating: block[25],
            growing: block[26],
            log_growing: block[27],
            page_checksums: block[1] & PAGE_CHECKSUMS != 0,
        })
    }
}

/// The content of a log head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogHead {
    pub(crate) edition: u64,
    pub(crate) pool: u64,
    pub(crate) generation: u64,
    /// Whether the superblock of this generation is durable, so that the log may have its records.
    pub(crate) entered: bool,
}

impl LogHead {
    /// Whether its edition leaves room for the pool to continue.
    pub(crate) fn can_go_on(&self) -> bool {
        self.edition <= START_MAX
    }

    /// Whether an opening of the pool wrote this head, of the next generation, and crashed before
    /// the superblock. If the generation was entered, an older copy of the pool's file is in its
    /// place.
    pub(crate) fn is_before_superblock(&self, generation: u64) -> bool {
        !self.entered && self.generation.checked_sub(1) == Some(generation)
    }

    fn encode(&self) -> Block {
        let mut block = [0; WORDS];
        let LogHead { edition, pool, generation, entered } = *self;
        let words = [LOG_MAGIC, FORMAT_VERSION, edition, pool, generation, u64::from(entered)];
        block[..6].copy_from_slice(&words);
        sealed(block)
    }

    fn decode(block: &Block) -> Result<LogHead, Invalid> {
        opened(block, LOG_MAGIC)?;
        let reserved = block[6..WORDS - 1].iter().any(|&word| word != 0);
        if reserved || block[2] > NUMBER_MAX || block[4] > NUMBER_MAX || block[5] > 1 {
            return Err(Invalid::Damaged);
        }
        let (edition, pool, generation, entered) = (block[2], block[3], block[4], block[5] != 0);
        Ok(LogHead { edition, pool, generation, entered })
    }

    /// Returns the offset of the current copy.
    pub(crate) fn counts(file: &PoolFile) -> Result<u64, medium::Error> {
        Ok(PairedBlock::<LogHead>::read(file)?.counts())
    }

    /// Writes both copies, the current one last. Durable on return, at two persist barriers.
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
        let Superblock { reproduced, log_sequence, medium, group, compress, .. } = *self;
        let Superblock { layout_version, migrating, heap_bytes, growing, .. } = *self;
        let Superblock { log_bytes, log_growing, .. } = *self;
        let changing = Superblock {
            heap_bytes,
            growing,
            log_bytes,
            log_growing,
            layout_version,
            migrating,
            edition,
            generation,
            clean,
            design,
            reproduced,
            log_sequence,
            medium,
            group,
            compress,
            ..*other
        };
        changing == *self && self.has_sizes_beside(other)
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
    /// Offset of the copy that was current at opening, which is written last. Were it written first
    /// and torn by a crash, the other copy might be missing: an earlier crash may have torn that
    /// one.
    copy: u64,
    counts: Counts,
    /// Makes a superblock write cost a barrier, on emulated memory.
    emulation: Option<Arc<Emulation>>,
}

impl Superblocks {
    /// Returns the superblocks of a file whose copies were read, if one is current.
    pub(crate) fn of(
        file: &Arc<PoolFile>,
        copies: &PairedBlock<Superblock>,
    ) -> Option<Superblocks> {
        let open =
            |current| Superblocks { copy: copies.counts(), ..Superblocks::new(file, current) };
        copies.current().ok().map(open)
    }

    /// Writes both copies of the first superblock of a new file.
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

    /// Returns the file that holds them.
    #[cfg(test)]
    pub(crate) fn file(&self) -> &Arc<PoolFile> {
        &self.file
    }

    fn new(file: &Arc<PoolFile>, current: Superblock) -> Superblocks {
        let (file, counts) = (Arc::clone(file), Counts::default());
        Superblocks { file, current, copy: 0, counts, emulation: None }
    }

    /// Makes each later write cost what `emulation` charges.
    pub(crate) fn emulate(&mut self, emulation: Arc<Emulation>) {
        self.emulation = Some(emulation);
    }

    /// Returns the cost of the writes so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the injected bug that applies to this copy: its write is skipped, or not made
    /// durable.
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
        .find_map(|(mutant, here)| (here && injected(mutant)).then_some(mutant))
    }

    /// Updates both copies. Durable on return, at two persist barriers. If only one copy were
    /// updated, its damage would lead recovery to the older copy, and so to recycled space of the
    /// log.
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
pub(crate) mod tests;
