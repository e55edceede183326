//! Lines of persistent memory that lie in DRAM for a while, and what it costs to look for one and
//! to put one there: `hw-redo`'s victim buffer and `redu`'s DRAM cache.
//!
//! ```text
//!   | table: a line for each bucket of 8 | lines, at fixed places |
//!
//!   look up   table --there--> line          put   table -> table, line: accepted
//!                   `-not----> NVM
//! ```
//! What is there is decided when a request arrives, in the order of arrival; reads and writes of
//! DRAM take their time behind that. So a line that is put is found by whoever comes later.

use rustc_hash::FxHashMap;

use super::Design;
use super::log::{OWN, parts, tag};
use crate::machine::controller::{Class, Id, Write};
use crate::machine::description::{Description, Point};
use crate::machine::memory::LineWords;
use crate::machine::network::Size;
use crate::machine::when::When;
use crate::machine::{Machine, Tell};

/// Lines that a bucket has.
pub(super) const WAYS: usize = 8;

// What a tag is of.
const LOOK: u64 = OWN;
const FOUND: u64 = OWN + 1;
const BESIDE: u64 = OWN + 2;
const PUT: u64 = OWN + 3;
const THERE: u64 = OWN + 4;
const NOTHING: u64 = OWN + 5;
/// A design's own kinds begin here.
pub(super) const MORE: u64 = OWN + 6;

/// A design that has lines in DRAM.
pub(super) trait InDram: Design {
    /// What is under way there.
    fn dram(&mut self) -> &mut Dram;
}

/// What is under way, and where it is.
#[derive(Debug)]
pub(super) struct Dram {
    first: u32,
    pub(super) buckets: u32,
    numbers: u64,
    looks: FxHashMap<u64, Look>,
    puts: FxHashMap<u64, Put>,
}

/// A core's read that is looked up.
#[derive(Debug)]
struct Look {
    read: Id,
    line: u32,
    /// Its place in DRAM.
    slot: Option<usize>,
    /// What it is, if that is kept.
    words: Option<LineWords>,
    /// Reads that it still waits for.
    left: u32,
    /// One of them is of persistent memory.
    beside: bool,
}

/// A line that is put there.
#[derive(Clone, Copy, Debug)]
struct Put {
    slot: usize,
    /// Who waits for that.
    who: Option<(usize, When)>,
}

impl Dram {
    /// Of a machine's DRAM.
    pub(super) fn new(description: &Description, first: u32) -> Dram {
        let buckets = Dram::buckets(description);
        Dram { first, buckets, numbers: 0, looks: FxHashMap::default(), puts: FxHashMap::default() }
    }

    fn buckets(description: &Description) -> u32 {
        let bytes = description.parameter("redu", "dram_cache_bytes");
        ((bytes as u64 / 64 / WAYS as u64) as u32).max(1)
    }

    /// Volatile lines that it needs.
    pub(super) fn lines(description: &Description) -> u32 {
        (WAYS as u32 + 1) * Dram::buckets(description)
    }

    /// The bucket of a line.
    pub(super) fn bucket(&self, line: u32) -> usize {
        // A multiplicative hash: neighbours lie in other buckets.
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

/// Looks a line up in DRAM for a core's read of it: its table first, then the line, or else
/// persistent memory. `beside` that, persistent memory is asked at once.
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
        // Where DRAM has the line nobody waits for this one.
        let kind = if slot.is_none() { BESIDE } else { NOTHING };
        machine.read_below(line, tag(kind, number));
    }
}

/// Puts a line into DRAM: its table is read, then both are written. Whoever waits is answered when
/// these are accepted.
pub(super) fn put<D: InDram>(machine: &mut Machine<D>, slot: usize, who: Option<(usize, When)>) {
    let dram = machine.design.dram();
    let (number, table) = (dram.number(), dram.table_line(slot));
    dram.puts.insert(number, Put { slot, who });
    machine.read_below(table, tag(PUT, number));
}

/// Reads a line from DRAM for the design: its tag comes back.
pub(super) fn fetch<D: InDram>(machine: &mut Machine<D>, slot: usize, tag: u64) {
    let line = machine.design.dram().data_line(slot);
    machine.read_below(line, tag);
}

/// A line is in DRAM no longer: its table is written.
pub(super) fn forget<D: InDram>(machine: &mut Machine<D>, slot: usize) {
    let line = machine.design.dram().table_line(slot);
    write(machine, line, Tell::Nobody);
}

fn write<D: Design>(machine: &mut Machine<D>, line: u32, tell: Tell) {
    let channel = machine.channel_of(line);
    let words = machine.memory.line(line);
    machine.log(channel, Write::new(u64::from(line), words, Class::Other), tell);
}

/// Something has been read for the design. Whether it was for this.
pub(super) fn has_read<D: InDram>(machine: &mut Machine<D>, read: u64) -> bool {
    let (kind, number) = parts(read);
    match kind {
        LOOK => {
            let look = &machine.design.dram().looks[&number];
            let (slot, line, read, beside) = (look.slot, look.line, look.read, look.beside);
            match slot {
                Some(slot) => fetch(machine, slot, tag(FOUND, number)),
                // The other read may be over already.
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
            write(machine, table, Tell::Nobody);
            write(machine, data, Tell::Design(0, tag(THERE, number)));
        }
        NOTHING => {}
        _ => return false,
    }
    true
}

/// One of the reads that a look-up waits for is over; after the last one the core is answered.
fn look_is_over<D: InDram>(machine: &mut Machine<D>, number: u64) {
    let looks = &mut machine.design.dram().looks;
    let look = looks.get_mut(&number).expect("it is under way");
    look.left -= 1;
    if look.left == 0 {
        let Look { read, words, .. } = looks.remove(&number).expect("it is under way");
        machine.fill_with(0, read, words);
    }
}

/// A write of the design's has got somewhere. Whether it was for this.
pub(super) fn told<D: InDram>(machine: &mut Machine<D>, told: u64, point: Point) -> bool {
    let (kind, number) = parts(told);
    if kind == THERE && point == Point::Accepted {
        let put = machine.design.dram().puts.remove(&number).expect("it is put once");
        if let Some((core, token)) = put.who {
            let there = machine.answer(0, core, Size::Control);
            machine.tell(token, there);
        }
    }
    kind == THERE
}
