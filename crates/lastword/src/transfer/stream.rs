//! The stream of an export.
//!
//! # Durable format: export
//!
//! The objects of a pool, independent of the layout of its heap. Every word is little-endian. The
//! header:
//! ```text
//!   word   0      | "LWEXPORT"                                         |
//!          1      | feature bits (32)      | format version (32): 1    |
//!          2      | 0 (48)              | tag of the pool's pointers (16) |
//!          3      | last transaction                                   |
//!          4..5   | name of the design that wrote last, zero-padded    |
//!          6..9   | layout name, zero-padded UTF-8                     |
//!          10     | layout version                                     |
//!          11     | word 25 of the superblock: an unfinished migration |
//!          12..13 | words at offsets 104 and 112 of the heap: progress |
//!          14     | the program's root                                 |
//!          15     | bytes of the heap                                  |
//!          16     | bytes of the log                                   |
//!          17     | bytes up to which the pool has page checksums, or 0|
//!          18     | number of allocations                              |
//!          19     | words of their contents                            |
//!          20     | 1 if the pool was damaged: the content is a salvage |
//!          21     | damaged allocations that were left out             |
//!          22..30 | 0                                                  |
//!          31     | 0 (32)                 | CRC-32C of words 0..30    |
//! ```
//! Frames of 8192 words follow; the last may be shorter. One word follows each frame:
//! ```text
//!                 | 0 (32)                 | CRC-32C (32)              |
//! ```
//! The checksum covers the frame's number (one word, counted from 0), then its words. Together the
//! frames have three words for each allocation, in ascending order of offsets, and
//! then the contents in the same order:
//! ```text
//!   word   0      | offset in the heap, a multiple of 16    | kind (4) |
//!          1      | bytes of an object or a string, or blocks of an array |
//!          2      | prepared blocks of an array, or 0                  |
//! ```
//! Kind 1 is an object, kind 2 a byte string of more than 1024 bytes, kind 3 an array. The content
//! of an allocation is the object, the whole string, or all prepared blocks, in whole words and
//! without headers.
//!
//! A word of kind 1 or 3 is a pointer to an allocation if its upper 16 bits are the tag and its
//! lower 48 bits the offset of the allocation. Words of kind 2 are never pointers.

use std::io::{ErrorKind, Read, Write};

use lw_alloc::{Allocation, Migrated, Size};
use medium::mutants::{Mutant, injected};
use words::{ADDRESS_BITS, TxId};
use zerocopy::IntoBytes;

use crate::error::TransferError;
use crate::superblock::{EXPORT_MAGIC, LAYOUT_BYTES, Superblock, is_padded};

const VERSION: u64 = 1;
const HEADER_WORDS: usize = 32;
const FRAME_WORDS: usize = 8192;
/// Greater than the counts and the ID of a header: `8 * (3 * allocations + words)` fits a word.
const NUMBER_MAX: u64 = 1 << 59;

/// The head of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) tag: u16,
    pub(crate) last: u64,
    pub(crate) design: [u8; 16],
    pub(crate) layout: [u8; LAYOUT_BYTES],
    pub(crate) layout_version: u64,
    pub(crate) migrating: u64,
    pub(crate) migrated: Migrated,
    pub(crate) root: u64,
    pub(crate) heap_bytes: u64,
    pub(crate) log_bytes: u64,
    /// The largest heap that the pool's checksum table covers; 0 without a table.
    pub(crate) checksummed_bytes: u64,
    pub(crate) allocations: u64,
    pub(crate) words: u64,
    /// Whether the pool was damaged.
    pub(crate) salvaged: bool,
    /// Damaged allocations that are not in the export.
    pub(crate) left_out: u64,
}

impl Header {
    /// Returns the header of a pool. Root, migration progress and counts are 0.
    pub(crate) fn of(superblock: &Superblock, last: TxId) -> Header {
        Header {
            tag: superblock.tag(),
            last: last.0,
            design: superblock.design,
            layout: superblock.layout,
            layout_version: superblock.layout_version,
            migrating: superblock.migrating,
            migrated: Migrated::default(),
            root: 0,
            heap_bytes: superblock.heap_bytes,
            log_bytes: superblock.log_bytes,
            checksummed_bytes: superblock.checksums_reach(),
            allocations: 0,
            words: 0,
            salvaged: false,
            left_out: 0,
        }
    }

    fn encode(&self) -> [u64; HEADER_WORDS] {
        let mut words = [0; HEADER_WORDS];
        words[..4].copy_from_slice(&[EXPORT_MAGIC, VERSION, self.tag.into(), self.last]);
        words[4..6].as_mut_bytes().copy_from_slice(&self.design);
        words[6..10].as_mut_bytes().copy_from_slice(&self.layout);
        words[10..22].copy_from_slice(&[
            self.layout_version,
            self.migrating,
            self.migrated.version,
            self.migrated.progress,
            self.root,
            self.heap_bytes,
            self.log_bytes,
            self.checksummed_bytes,
            self.allocations,
            self.words,
            self.salvaged.into(),
            self.left_out,
        ]);
        words[31] = crc32c::crc32c(words[..31].as_bytes()).into();
        words
    }

    fn decode(words: &[u64; HEADER_WORDS]) -> Result<Header, TransferError> {
        if words[0] != EXPORT_MAGIC {
            return Err(TransferError::NotAnExport);
        }
        if words[1] != VERSION {
            return Err(TransferError::Version { found: words[1], expected: VERSION });
        }
        let mut header = Header {
            tag: words[2] as u16,
            last: words[3],
            design: [0; 16],
            layout: [0; LAYOUT_BYTES],
            layout_version: words[10],
            migrating: words[11],
            migrated: Migrated { version: words[12], progress: words[13] },
            root: words[14],
            heap_bytes: words[15],
            log_bytes: words[16],
            checksummed_bytes: words[17],
            allocations: words[18],
            words: words[19],
            salvaged: words[20] == 1,
            left_out: words[21],
        };
        header.design.copy_from_slice(words[4..6].as_bytes());
        header.layout.copy_from_slice(words[6..10].as_bytes());
        let numbers = [header.last, header.allocations, header.words];
        let is_whole = header.encode() == *words && numbers.iter().all(|&it| it < NUMBER_MAX);
        let sizes = [header.heap_bytes, header.log_bytes, header.checksummed_bytes];
        let has_sizes = sizes.iter().all(|&bytes| bytes <= 1 << ADDRESS_BITS);
        let has_names = is_padded(&header.design) && is_padded(&header.layout);
        if is_whole && has_sizes && has_names && header.tag != 0 {
            Ok(header)
        } else {
            Err(TransferError::Damaged { at: 8 * HEADER_WORDS as u64 })
        }
    }
}

/// The writer of an export.
pub(super) struct Writer<W> {
    out: W,
    frame: Vec<u64>,
    number: u64,
}

impl<W: Write> Writer<W> {
    /// Begins an export.
    pub(super) fn new(out: W, header: &Header) -> Result<Writer<W>, TransferError> {
        let frame = Vec::with_capacity(FRAME_WORDS + 1);
        let mut this = Writer { out, frame, number: 0 };
        this.put(&header.encode())?;
        Ok(this)
    }

    fn put(&mut self, words: &[u64]) -> Result<(), TransferError> {
        let done = self.out.write_all(words.as_bytes());
        done.map_err(|source| TransferError::Write { source })
    }

    fn end_frame(&mut self) -> Result<(), TransferError> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.push(checksum(self.number, &frame));
        self.put(&frame)?;
        self.number += 1;
        frame.clear();
        self.frame = frame;
        Ok(())
    }

    /// Appends a word. The last frame is not written before [`finish`](Writer::finish).
    pub(super) fn word(&mut self, word: u64) -> Result<(), TransferError> {
        if self.frame.len() == FRAME_WORDS {
            self.end_frame()?;
        }
        self.frame.push(word);
        Ok(())
    }

    /// Appends the description of an allocation.
    pub(super) fn allocation(&mut self, allocation: &Allocation) -> Result<(), TransferError> {
        let (kind, size, prepared) = match allocation.size {
            Size::Object(bytes) => (1, bytes, 0),
            Size::String(bytes) => (2, bytes, 0),
            Size::Array { blocks, prepared } => (3, blocks, prepared),
        };
        [allocation.offset | kind, size, prepared].into_iter().try_for_each(|word| self.word(word))
    }

    /// Writes the last frame, and flushes the output.
    pub(super) fn finish(mut self) -> Result<(), TransferError> {
        if !self.frame.is_empty() {
            self.end_frame()?;
        }
        self.out.flush().map_err(|source| TransferError::Write { source })
    }
}

/// The reader of an export.
pub(super) struct Reader<R> {
    input: R,
    pub(super) header: Header,
    frame: Vec<u64>,
    /// The next word in the frame.
    next: usize,
    number: u64,
    /// Words after the frame.
    left: u64,
    /// Bytes that were read.
    at: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub(super) fn new(mut input: R) -> Result<Reader<R>, TransferError> {
        let (mut words, mut at) = ([0; HEADER_WORDS], 0);
        match read(&mut input, &mut words, &mut at) {
            Err(TransferError::Incomplete { .. }) if words[0] != EXPORT_MAGIC => {
                return Err(TransferError::NotAnExport);
            }
            done => done?,
        }
        let header = Header::decode(&words)?;
        let left = 3 * header.allocations + header.words;
        Ok(Reader { input, header, frame: Vec::new(), next: 0, number: 0, left, at })
    }

    /// Returns the error of damage in the last frame.
    pub(super) fn damaged(&self) -> TransferError {
        TransferError::Damaged { at: self.at }
    }

    /// Returns the next word.
    pub(super) fn word(&mut self) -> Result<u64, TransferError> {
        if self.next == self.frame.len() {
            self.read_frame()?;
        }
        self.next += 1;
        Ok(self.frame[self.next - 1])
    }

    fn read_frame(&mut self) -> Result<(), TransferError> {
        let words = self.left.min(FRAME_WORDS as u64);
        if words == 0 {
            return Err(self.damaged());
        }
        self.left -= words;
        self.frame.resize(words as usize + 1, 0);
        read(&mut self.input, &mut self.frame, &mut self.at)?;
        let sum = self.frame.pop();
        if sum != Some(checksum(self.number, &self.frame)) {
            return Err(self.damaged());
        }
        self.number += 1;
        self.next = 0;
        Ok(())
    }

    /// Returns the next description of an allocation, which must begin at or after `least`.
    pub(super) fn allocation(&mut self, least: u64) -> Result<Allocation, TransferError> {
        let (first, bytes, prepared) = (self.word()?, self.word()?, self.word()?);
        let (offset, heap_bytes) = (first & !0xf, self.header.heap_bytes);
        let size = match first & 0xf {
            1 => Size::Object(bytes),
            2 => Size::String(bytes),
            3 => Size::Array { blocks: bytes, prepared },
            _ => return Err(self.damaged()),
        };
        let is_known = matches!(size, Size::Array { .. }) || prepared == 0;
        // The allocations of the exported heap do not overlap.
        let fits = size.is_valid() && offset >= least && offset < heap_bytes;
        match is_known && fits && size.bytes_min() <= heap_bytes - offset {
            true => Ok(Allocation { offset, size }),
            false => Err(self.damaged()),
        }
    }

    /// Verifies that the export ends here.
    pub(super) fn finish(mut self) -> Result<(), TransferError> {
        let is_read = self.left == 0 && self.next == self.frame.len();
        let mut byte = [0];
        loop {
            return match self.input.read(&mut byte) {
                Ok(0) if is_read => Ok(()),
                Ok(_) => Err(self.damaged()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(source) => Err(TransferError::Read { at: self.at, source }),
            };
        }
    }
}

/// Reads words, and counts their bytes.
fn read(input: &mut impl Read, words: &mut [u64], at: &mut u64) -> Result<(), TransferError> {
    let mut bytes = words.as_mut_bytes();
    while !bytes.is_empty() {
        match input.read(bytes) {
            Ok(0) => return Err(TransferError::Incomplete { at: *at }),
            Ok(read) => {
                *at += read as u64;
                bytes = &mut bytes[read..];
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(TransferError::Read { at: *at, source }),
        }
    }
    Ok(())
}

/// Returns the word that follows a frame.
fn checksum(number: u64, words: &[u64]) -> u64 {
    let number = if injected(Mutant::FrameNumberIgnored) { 0 } else { number };
    crc32c::crc32c_append(crc32c::crc32c(number.as_bytes()), words.as_bytes()).into()
}
