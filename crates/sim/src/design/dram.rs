//! Lines of persistent memory that reside in DRAM for a while: `hw-redo`'s victim buffer and
//! `redu`'s DRAM cache.
//!
//! This module models the cost of looking a line up and of inserting one.
//!
//! ```text
//!   | table: a line for each bucket of 8 | lines, at fixed places |
//!
//!   look up   table --hit----> line          put   table -> table, line: accepted
//!                  `-miss----> NVM
//! ```
//! A request sees the contents of DRAM in the order of arrival at the controller; the reads and
//! writes of DRAM then take their time. A look-up that arrives after an insertion therefore finds
//! the line.

use rustc_hash::FxHashMap;

use super::Design;
use super::log::{OWN, parts, tag};
use crate::machine::controller::{Class, Id, Write};
use crate::machine::description::{Description, Point};
use crate::machine::memory::LineWords;
use crate::machine::network::Size;
use crate::machine::when::When;
use crate::machine::{Machine, Notify};

/// Lines of a bucket.
pub(super) const WAYS: usize = 8;

// Kinds of tags.
const LOOK: u64 = OWN;
const FOUND: u64 = OWN + 1;
const BESIDE: u64 = OWN + 2;
const PUT: u64 = OWN + 3;
const WRITTEN: u64 = OWN + 4;
const DISCARDED: u64 = OWN + 5;
/// First kind of tag that a design may use for itself.
pub(super) const MORE: u64 = OWN + 6;

/// A design that keeps lines in DRAM.
pub(super) trait InDram: Design {
    /// The state of look-ups and insertions.
    fn dram(&mut self) -> &mut Dram;
}

/// Look-ups and insertions in flight, and the layout of DRAM.
#[derive(Debug)]
pub(super) struct Dram {
    first: u32,
    pub(super) buckets: u32,
    numbers: u64,
    looks: FxHashMap<u64, Look>,
    puts: FxHashMap<u64, Put>,
}

/// A core's read that is being looked up.
#[derive(Debug)]
struct Look {
    read: Id,
    line: u32,
    /// Its place in DRAM, on a hit.
    slot: Option<usize>,
    /// Its contents, if the simulation keeps contents.
    words: Option<LineWords>,
    /// Reads that are still outstanding.
    left: u32,
    /// One of these reads goes to persistent memory.
    beside: bool,
}

/// An insertion of a line.
#[derive(Clone, Copy, Debug)]
struct Put {
    slot: usize,
    /// The core to notify, with its token.
    waiter: Option<(usize, When)>,
}

impl Dram {
    /// Returns the idle state for a machine whose DRAM lines begin at `first`.
    pub(super) fn new(description: &Description, first: u32) -> Dram {
        let buckets = Dram::buckets(description);
        Dram { first, buckets, numbers: 0, looks: FxHashMap::default(), puts: FxHashMap::default() }
    }

    fn buckets(description: &Description) -> u32 {
        let bytes = description.parameter("redu", "dram_cache_bytes");
        ((bytes as u64 / 64 / WAYS as u64) as u32).max(1)
    }

    /// Volatile lines that the table and the lines need.
    pub(super) fn lines(description: &Description) -> u32 {
        (WAYS as u32 + 1) * Dram::buckets(description)
    }

    /// Returns the bucket of a line.
    pub(super) fn bucket(&self, line: u32) -> usize {
        // A multiplicative hash spreads neighbouring lines over the buckets.
        let hash = u64::from(line).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash * u64::from(self.buckets)) >> 32) as usize
    }

    fn table_line(&self, slot: usize) -> u32 {
        self.first + (slot / WAYS) as u32
    }

    fn data_line(&self, slot: usize) -> u32 {
        self.first + self.buckets + slot as u32
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

/// Looks a line up in DRAM for a core's read: first the table, then the line or else persistent
/// memory. With `beside`, the read of persistent memory starts together with the look-up.
pub(super) fn look_up<D: InDram>(
    machine: &mut Machine<D>,
    line: u32,
    read: Id,
    found: Option<(usize, LineWords)>,
    beside: bool,
) {
    let words = match found {
        Some((_, words)) => Some(words),
        None => machine.stored_line(0, line),
    };
    let dram = machine.design.dram();
    let number = dram.number();
    let slot = found.map(|(slot, _)| slot);
    let table = dram.table_line(slot.unwrap_or(dram.bucket(line) * WAYS));
    let both = beside && slot.is_none();
    let left = if both { 2 } else { 1 };
    dram.looks.insert(number, Look { read, line, slot, words, left, beside: both });
    machine.read_below(table, tag(LOOK, number));
    if beside {
        // On a hit, no look-up waits for this read.
        let kind = if slot.is_none() { BESIDE } else { DISCARDED };
        machine.read_below(line, tag(kind, number));
    }
}

/// Inserts a line into DRAM: reads its table line, then writes both. The waiter is notified when
/// the channel has accepted the line.
pub(super) fn put<D: InDram>(machine: &mut Machine<D>, slot: usize, waiter: Option<(usize, When)>) {
    let dram = machine.design.dram();
    let (number, table) = (dram.number(), dram.table_line(slot));
    dram.puts.insert(number, Put { slot, waiter });
    machine.read_below(table, tag(PUT, number));
}

/// Reads a line from DRAM for the design. The read returns with this tag.
pub(super) fn fetch<D: InDram>(machine: &mut Machine<D>, slot: usize, tag: u64) {
    let line = machine.design.dram().data_line(slot);
    machine.read_below(line, tag);
}

/// Removes a line from DRAM by a write of its table line.
pub(super) fn forget<D: InDram>(machine: &mut Machine<D>, slot: usize) {
    let line = machine.design.dram().table_line(slot);
    write(machine, line, Notify::None);
}

fn write<D: Design>(machine: &mut Machine<D>, line: u32, notify: Notify) {
    let channel = machine.channel_of(line);
    let words = machine.memory.line(line);
    machine.log(channel, Write::new(u64::from(line), words, Class::Other), notify);
}

/// Receives a read's result. Returns whether the read belongs to this module.
pub(super) fn has_read<D: InDram>(machine: &mut Machine<D>, read: u64) -> bool {
    let (kind, number) = parts(read);
    match kind {
        LOOK => {
            let look = &machine.design.dram().looks[&number];
            let (slot, line, read, beside) = (look.slot, look.line, look.read, look.beside);
            match slot {
                Some(slot) => fetch(machine, slot, tag(FOUND, number)),
                // The parallel read of persistent memory may be complete already.
                None if beside => look_is_over(machine, number),
                None => {
                    machine.design.dram().looks.remove(&number);
                    machine.fill_from_array(0, line, read);
                }
            }
        }
        FOUND | BESIDE => look_is_over(machine, number),
        PUT => {
            let dram = machine.design.dram();
            let slot = dram.puts[&number].slot;
            let (table, data) = (dram.table_line(slot), dram.data_line(slot));
            write(machine, table, Notify::None);
            write(machine, data, Notify::Design(0, tag(WRITTEN, number)));
        }
        DISCARDED => {}
        _ => return false,
    }
    true
}

/// Completes one read of a look-up. The last one completes the core's read.
fn look_is_over<D: InDram>(machine: &mut Machine<D>, number: u64) {
    let looks = &mut machine.design.dram().looks;
    let look = looks.get_mut(&number).expect("a look-up lasts until its last read");
    look.left -= 1;
    if look.left == 0 {
        let Look { read, words, .. } =
            looks.remove(&number).expect("a look-up lasts until its last read");
        machine.fill_with(0, read, words);
    }
}

/// Receives a write's progress. Returns whether the write belongs to this module.
pub(super) fn write_reached<D: InDram>(
    machine: &mut Machine<D>,
    write_tag: u64,
    point: Point,
) -> bool {
    let (kind, number) = parts(write_tag);
    if kind == WRITTEN && point == Point::Accepted {
        let put = machine.design.dram().puts.remove(&number).expect("an insertion completes once");
        if let Some((core, token)) = put.waiter {
            let there = machine.answer(0, core, Size::Control);
            machine.notify(token, there);
        }
    }
    kind == WRITTEN
}
