//! `reuse`: a small heap that is filled, emptied and filled again with other sizes.
//!
//! A table of slots, each with one of the following. Transactions of one worker change what
//! another has allocated.
//!
//! | kind | in the slot | changes |
//! |---|---|---|
//! | chain | up to 14 objects of one size, 1 to 1024 bytes | allocates or frees some at its front |
//! | string | [`Bytes`] of up to 2.4 KiB | appends, truncates, resizes |
//! | pieces | a byte string of up to 40 KiB | resizes in place, or moves it |
//! | array | up to 130 blocks | prepares some more |
//!
//! Each worker alternates between transactions that rather fill and such that rather free. Some
//! transactions meet a full heap: the pool then reclaims memory and runs them again.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use words::{
    Addr, Allocate, BLOCK_BYTES, Bytes, Objects, PIECE_BYTES, PIECE_STRIDE, Ptr, Stop, Transact,
    Words, block_stride,
};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::{Live, Scenario, generator};

const SLOTS: usize = 18;

/// The most objects of a chain, and the most that a transaction adds.
const CHAIN_MAX: u64 = 14;
const CHAIN_STEP: u64 = 6;

/// The longest [`Bytes`]: a transaction may move two of them.
const STRING_MAX: u64 = 2400;

/// Blocks that a transaction prepares at most.
const PREPARED_STEP: u64 = 5;

/// Sizes of objects, among them the least and the largest.
const SIZES: [u64; 8] = [1, 9, 16, 40, 100, 250, 700, 1024];

/// Blocks of the longest array that the heap holds: all but the first run and the slab of the
/// table, of 2 KiB.
const BLOCKS_MAX: u64 = (Reuse::HEAP_BYTES - (66 << 10) - 64) / 272;

const CHAIN: u64 = 1;
const STRING: u64 = 2;
const PIECES: u64 = 3;
const ARRAY: u64 = 4;

/// The kind for each choice.
const KINDS: [u64; 8] = [CHAIN, CHAIN, STRING, PIECES, ARRAY, CHAIN, ARRAY, CHAIN];

/// A slot.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Entry {
    /// 0 when the slot is empty.
    kind: u64,
    /// Determines the content.
    stamp: u64,
    /// The first object, piece or block.
    at: u64,
    /// Bytes of each object of a chain or of the pieces, or number of blocks.
    len: u64,
    /// Number of objects or of prepared blocks.
    count: u64,
    string: Bytes,
}

const EMPTY: Entry = Entry { kind: 0, stamp: 0, at: 0, len: 0, count: 0, string: Bytes::EMPTY };

type Table = [Entry; SLOTS];

/// The table of slots.
#[derive(Clone, Copy, Debug)]
pub struct Reuse(Ptr<Table>);

/// A change of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    slot: usize,
    /// Whether it rather allocates than frees.
    fills: bool,
    /// Decides between the possible changes.
    choice: u64,
    /// The new size, as a number that each kind scales.
    size: u64,
    stamp: u64,
}

/// A generator of changes of slots.
#[derive(Clone, Debug)]
pub struct Client {
    random: Xoshiro256PlusPlus,
    /// Transactions until it turns from filling to freeing, or back.
    turns_after: u32,
    fills: bool,
    changes: [Change; 2],
}

impl Client {
    fn new(worker: usize, seed: u64) -> Client {
        let fills = worker.is_multiple_of(2);
        let random = generator(worker, seed);
        Client { random, turns_after: 3, fills, changes: [Change::default(); 2] }
    }

    fn next(&mut self) {
        if self.turns_after == 0 {
            (self.turns_after, self.fills) = (self.random.random_range(2..5), !self.fills);
        }
        self.turns_after -= 1;
        for change in &mut self.changes {
            let random = &mut self.random;
            *change = Change {
                slot: random.random_range(0..SLOTS),
                fills: self.fills,
                choice: random.random_range(0..8),
                size: random.random(),
                stamp: random.random(),
            };
        }
    }
}

impl Scenario for Reuse {
    const NAME: &'static str = "reuse";
    const HEAP_BYTES: u64 = 192 << 10;
    /// A transaction writes two strings, the table, and headers of up to 40 pieces each.
    const LOG_BYTES: u64 = 1 << 20;
    const SHADOW_PAGES: u64 = 40;
    const FILLS: bool = true;
    type Client = Client;

    fn load<T: Transact>(worker: &mut T) -> Result<(), T::Error> {
        // Most of the heap is used, so that a few transactions fill it.
        let kinds = [CHAIN, CHAIN, STRING, CHAIN, PIECES, CHAIN, CHAIN, ARRAY];
        let mut random = generator(0, 0);
        let reuse = Reuse(worker.transact(|tx| tx.alloc([EMPTY; SLOTS]))?);
        for (pair, kinds) in kinds.chunks(2).enumerate() {
            let new = [0, 1].map(|_| (random.random(), random.random()));
            worker.transact(|tx| {
                let mut table = tx.get(reuse.0)?;
                for (index, (&kind, (size, stamp))) in kinds.iter().zip(new).enumerate() {
                    table[2 * (2 * pair + index)] = Entry::new(tx, kind, size, stamp)?;
                }
                tx.set(reuse.0, table)
            })?;
        }
        worker.transact(|tx| tx.set_root_ptr(reuse.0))
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Reuse>, T::Error> {
        let root = worker.transact(|tx| tx.root_ptr::<Table>())?;
        Ok((!root.is_null()).then_some(Reuse(root)))
    }

    fn client(&self, worker: usize, seed: u64) -> Client {
        Client::new(worker, seed)
    }

    fn next(&self, client: &mut Client) {
        client.next();
    }

    fn run<W: Allocate>(&self, client: &Client, tx: &mut W) -> Result<(), Stop> {
        let mut table = tx.get(self.0)?;
        for change in client.changes {
            table[change.slot] = table[change.slot].changed(tx, change)?;
        }
        tx.set(self.0, table)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error> {
        worker.transact(|tx| {
            let mut wrong = Vec::new();
            for (slot, entry) in tx.get(self.0)?.into_iter().enumerate() {
                if let Some(found) = entry.wrong(tx)? {
                    wrong.push(format!("slot {slot}: {found}, {entry:x?}"));
                }
            }
            Ok(wrong)
        })
    }

    fn live<T: Transact>(&self, worker: &mut T) -> Result<Option<Live>, T::Error> {
        let table = worker.transact(|tx| tx.get(self.0))?;
        let mut live =
            Live { objects: 1, object_bytes: size_of::<Table>() as u64, ..Live::default() };
        for Entry { kind, len, count, string, .. } in table {
            match kind {
                CHAIN => {
                    live.objects += count;
                    live.object_bytes += count * len;
                }
                STRING => {
                    live.objects += u64::from(!string.is_empty());
                    live.object_bytes += string.len();
                }
                PIECES => {
                    live.objects += 1;
                    live.object_bytes += len;
                    live.long_strings += u64::from(len > 32 << 10);
                }
                ARRAY => {
                    live.arrays += 1;
                    live.blocks += len;
                    live.blocks_prepared += count;
                }
                _ => {}
            }
        }
        Ok(Some(live))
    }

    /// Frees everything. Then one array must find room in all of the heap, and after it the largest
    /// objects.
    fn end<T: Transact>(&self, worker: &mut T) -> Result<(), T::Error> {
        for slot in 0..SLOTS {
            worker.transact(|tx| {
                let mut table = tx.get(self.0)?;
                table[slot].free(tx)?;
                table[slot] = EMPTY;
                tx.set(self.0, table)
            })?;
        }
        let array = worker.transact(|tx| tx.reserve_blocks(BLOCKS_MAX))?;
        worker.transact(|tx| tx.retire(Addr::new(array, 0), BLOCKS_MAX * BLOCK_BYTES))?;
        for slot in 0..4 {
            worker.transact(|tx| {
                let mut table = tx.get(self.0)?;
                table[slot] = Entry::chain(tx, 1024, CHAIN_MAX, slot as u64)?;
                tx.set(self.0, table)
            })?;
        }
        Ok(())
    }
}

/// Returns the content of a word, of all bits.
fn content(stamp: u64, index: u64) -> u64 {
    (stamp ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index
}

/// Returns bytes of a string's content.
fn text(stamp: u64, from: u64, to: u64) -> Vec<u8> {
    (from..to).map(|index| content(stamp, index) as u8 | 1).collect()
}

/// Returns the word of an object or piece that holds its content: the second, if there is one.
const fn word(bytes: u64) -> u64 {
    if bytes > 8 { 8 } else { 0 }
}

impl Entry {
    /// Fills a slot with something of a kind.
    fn new<W: Allocate>(tx: &mut W, kind: u64, size: u64, stamp: u64) -> Result<Entry, Stop> {
        let entry = Entry { kind, stamp, ..EMPTY };
        Ok(match kind {
            CHAIN => {
                let len = SIZES[size as usize % SIZES.len()];
                return Entry::chain(tx, len, 1 + size / 8 % CHAIN_MAX, stamp);
            }
            STRING => {
                let string = Bytes::new(tx, &text(stamp, 0, 1 + size % STRING_MAX))?;
                Entry { string, ..entry }
            }
            PIECES => {
                let len = pieces_of(size);
                let at = tx.allocate_pieces(len)?;
                let entry = Entry { at, len, ..entry };
                entry.write_pieces(tx, 0)?;
                entry
            }
            _ => {
                // Most are short, so that runs of other kinds serve them later.
                let len = 1 + size % if size.is_multiple_of(3) { 130 } else { 24 };
                let at = tx.reserve_blocks(len)?;
                Entry { at, len, ..entry }.prepared(tx, size / 130)?
            }
        })
    }

    fn chain<W: Allocate>(tx: &mut W, len: u64, count: u64, stamp: u64) -> Result<Entry, Stop> {
        Entry { kind: CHAIN, stamp, len, ..EMPTY }.longer(tx, count)
    }

    fn changed<W: Allocate>(self, tx: &mut W, change: Change) -> Result<Entry, Stop> {
        let Change { fills, choice, size, stamp, .. } = change;
        let frees = if fills { choice == 0 } else { choice > 2 };
        match self.kind {
            0 if frees => Ok(self),
            0 => Entry::new(tx, KINDS[choice as usize], size, stamp),
            _ if frees && choice != 5 => self.free(tx).map(|()| EMPTY),
            CHAIN if frees => self.shorter(tx, 1 + size % CHAIN_MAX),
            CHAIN => self.longer(tx, (1 + size % CHAIN_STEP).min(CHAIN_MAX - self.count)),
            STRING => self.other_string(tx, choice, size),
            PIECES => self.other_pieces(tx, size),
            _ => self.prepared(tx, size),
        }
    }

    /// Adds objects at the front.
    fn longer<W: Allocate>(self, tx: &mut W, more: u64) -> Result<Entry, Stop> {
        let Entry { stamp, len, mut at, mut count, .. } = self;
        for _ in 0..more {
            let object = tx.allocate(len as usize)?;
            tx.write(Addr::new(object, word(len)), content(stamp, count))?;
            // The link is last: in an object of one word it is the content.
            tx.write(Addr::new(object, 0), at)?;
            (at, count) = (object, count + 1);
        }
        Ok(Entry { at, count, ..self })
    }

    /// Frees objects at the front.
    fn shorter<W: Words>(self, tx: &mut W, less: u64) -> Result<Entry, Stop> {
        let Entry { len, mut at, mut count, .. } = self;
        for _ in 0..less.min(count) {
            let next = tx.read(Addr::new(at, 0))?;
            tx.retire(Addr::new(at, 0), len)?;
            (at, count) = (next, count - 1);
        }
        Ok(if count == 0 { EMPTY } else { Entry { at, count, ..self } })
    }

    fn other_string<W: Allocate>(self, tx: &mut W, choice: u64, size: u64) -> Result<Entry, Stop> {
        let Entry { stamp, string, .. } = self;
        let (old, len) = (string.len(), 1 + size % STRING_MAX);
        let string = match choice % 3 {
            0 => string.truncated(tx, len)?,
            1 => string.appended(tx, &text(stamp, old, len.max(old)))?,
            _ => {
                let other = string.resized(tx, len, 0)?;
                other.write_at(tx, old.min(len), &text(stamp, old, len))?;
                other
            }
        };
        Ok(Entry { string, ..self })
    }

    fn other_pieces<W: Allocate>(self, tx: &mut W, size: u64) -> Result<Entry, Stop> {
        // Half of them change little, so that the memory allows it where it is.
        let len = match size % 2 {
            0 => (self.len + size / 2 % 1600).saturating_sub(800).clamp(1032, 40_000) / 8 * 8,
            _ => pieces_of(size / 2),
        };
        if tx.resize(self.at, self.len, len)? {
            let entry = Entry { len, ..self };
            entry.write_pieces(tx, self.len / PIECE_BYTES)?;
            return Ok(entry);
        }
        let entry = Entry { at: tx.allocate_pieces(len)?, len, ..self };
        entry.write_pieces(tx, 0)?;
        self.free(tx)?;
        Ok(entry)
    }

    /// Writes one word of each piece, from a piece on.
    fn write_pieces<W: Words>(self, tx: &mut W, from: u64) -> Result<(), Stop> {
        for piece in from..self.len.div_ceil(PIECE_BYTES) {
            let at = Addr::new(self.at + piece * PIECE_STRIDE, 0);
            tx.write(at, content(self.stamp, piece))?;
        }
        Ok(())
    }

    /// Prepares further blocks, and writes a word of each.
    fn prepared<W: Allocate>(self, tx: &mut W, size: u64) -> Result<Entry, Stop> {
        let most = size % (PREPARED_STEP + 1);
        let count = self.len - tx.prepare_blocks(self.at, most)?;
        for block in self.count..count {
            tx.write(self.block(block), content(self.stamp, block))?;
        }
        Ok(Entry { count, ..self })
    }

    fn block(self, number: u64) -> Addr {
        Addr::new(self.at + number * block_stride(self.at), 0)
    }

    fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        match self.kind {
            0 => Ok(()),
            CHAIN => self.shorter(tx, self.count).map(drop),
            STRING => self.string.free(tx),
            PIECES => tx.retire(Addr::new(self.at, 0), self.len),
            _ => tx.retire(Addr::new(self.at, 0), self.len * BLOCK_BYTES),
        }
    }

    /// Returns what is wrong with the content, as text.
    fn wrong<W: Words>(self, tx: &mut W) -> Result<Option<String>, Stop> {
        let Entry { stamp, len, string, .. } = self;
        let mut wrong = None;
        match self.kind {
            CHAIN => {
                let mut at = self.at;
                for number in (0..self.count).rev() {
                    if word(len) != 0 {
                        wrong = wrong.or(differs(
                            tx,
                            Addr::new(at, word(len)),
                            content(stamp, number),
                        )?);
                    }
                    at = tx.read(Addr::new(at, 0))?;
                }
            }
            STRING if string.read(tx)? != text(stamp, 0, string.len()) => {
                wrong = Some("another text".to_owned());
            }
            PIECES => {
                for piece in 0..len.div_ceil(PIECE_BYTES) {
                    let at = Addr::new(self.at + piece * PIECE_STRIDE, 0);
                    wrong = wrong.or(differs(tx, at, content(stamp, piece))?);
                }
            }
            ARRAY => {
                for block in 0..self.count {
                    let at = self.block(block);
                    wrong = wrong.or(differs(tx, at, content(stamp, block))?);
                    for word in 1..BLOCK_BYTES / 8 {
                        wrong = wrong.or(differs(tx, at.plus(8 * word), 0)?);
                    }
                }
            }
            _ => {}
        }
        Ok(wrong)
    }
}

/// Returns the difference of a word from its expected value, as text.
fn differs<W: Words>(tx: &mut W, at: Addr, expected: u64) -> Result<Option<String>, Stop> {
    let found = tx.read(at)?;
    Ok((found != expected).then(|| format!("{at:x?} is {found:#x}, expected {expected:#x}")))
}

/// Returns a length for pieces: whole words, in a slot or in a run of its own.
fn pieces_of(size: u64) -> u64 {
    let (from, to) = if size.is_multiple_of(3) { (32_776, 40_000) } else { (1032, 12_000) };
    (from + size / 3 % (to - from)) / 8 * 8
}
