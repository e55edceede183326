//! The log of the designs that log in hardware: `hw-undo`, `hw-redo`, `hw-undo-redo` and `redu`.
//!
//! ```text
//!   core: stores drain -> buffer of lines --oldest leaves, end--> controller: packs, writes
//!         words of a line become an entry     letters, in order      records -> NVM
//! ```
//! **Records.** A record is a *head* and the *tails* that belong to it, a line each. Heads lie in
//! one ring and tails in another, so that a place that a head may have never has a tail's words:
//! stored values could look like a meta word. A head is written when its tails are durable, and
//! seals them.
//! ```text
//!   Log Start | heads: ring              | tails: ring                            |
//!             | m0 m1 m2 ... m7 |        | w w w w w w w w | w w w 0 0 0 0 0 |
//!               |  |                       |     |
//!               |  `- entry 1              |     `- words of entry 1
//!               `---- entry 0              `------- words of entry 0
//!
//!   meta word     | lap 6 | transaction 20 | mask 8 | line 30 |      which words of which line
//!   commit word   | lap 6 | transaction 20 |    0   | entries |      how many entries it has
//!   drop word     | lap 6 | transaction 20 |    0   | 2^30 - 1|      its lines are what they were
//! ```
//! *Packed* (`log.pack`), up to eight metas share a head, of any transactions, and the words follow
//! each other in the tails, which are written as soon as they are full. The head is written when it
//! is full, or when a transaction ends, with its commit word in it. *Not packed*, an entry begins a
//! line of its own: its meta and seven words are the head, and what is left are tails; a commit
//! word is a head. *Coalesced* (`log.coalesce`), an entry has all words of a line that were stored
//! while the line was in the buffer; otherwise it has one, and those of a line share a head if not
//! packed. Undo entries have old words, redo entries new ones, and undo-redo entries first the old
//! ones.
//!
//! **Laps.** Unused words are 0, laps are counted from 1, and each head says in which lap it was
//! written. What stands in the place of a head that was not written has the lap before. Recovery
//! reads from Log Start to the first head of another lap, and ends with a fresh one, in which the
//! next run goes on. Beside Log Start stands a record before which everything that is committed is
//! at home, though others may still need it: recovery redoes none of that, for software may have
//! written there since.
//!
//! Invariants:
//! - A commit is acknowledged when all records up to that of its commit word are durable. (A
//!   younger record may be durable before an older one, and recovery would stop between them.)
//! - A line that has entries in records that are not durable, or in front of an older one that is
//!   not, is written to memory after them, if the design's entries say what was there.
//! - Whatever is on its way to the log, and the end of every open transaction, has room there.
//! - A place of the log is written again when Log Start, as memory has it, is behind it.
//! - A transaction's name is given again when Log Start, as memory has it, is behind its commit
//!   word, its drop word, or its last entry: so nobody else's entries have it.
//!
//! Choices where the papers are silent: the log is in one channel, and its lines are spread over
//! the rows of all banks. Letters to the controller keep their order, and wait there when the log
//! is full; a transaction begins when a quarter of it is free. Log Start is written to memory when
//! half of the log, or seven eighths of the names, are used, or somebody waits.
//!
//! **A log that memory cannot take.** As many slots of a core may be under way as its buffer has: a
//! slot is until the queue of the controller has accepted the last line that it made the packer
//! write. A store that makes another one leave waits, and those behind it: `log_stall` counts that,
//! whether the core has other things to do meanwhile or not. What a transaction's end leaves in the
//! buffer goes at once, for nothing comes behind it before it is durable; and so does what goes
//! ahead of a line that leaves the caches.

mod buffer;
mod controller;
mod core;
mod names;
mod packer;
mod reader;
mod record;
mod software;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use super::Design;
use super::soft_log::SoftLog;
use crate::machine::controller::{Class, Id};
use crate::machine::description::Description;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine};
use crate::persist::Persistent;
use buffer::Buffer;
use names::Names;
use packer::Packer;
use record::Layout;
use software::{FALLS, Software};

pub(super) use self::core::{begin, commit, drain, end_body, note, push_out, seal, waits};
pub(super) use buffer::Slot;
pub(super) use controller::{finish, hold_back, message, room_again, told, trim};
pub(super) use record::Content;
pub(super) use software::{
    beside_software, falls_back, lines, look_again, recover, software_commits, store,
};

/// The message that brings a letter.
const LETTER: u64 = u64::MAX;

/// What a tag is of, in its highest byte; a design's own begin with [`OWN`].
const HEAD: u64 = 1;
const TAIL: u64 = 2;
const START: u64 = 3;
pub(super) const OWN: u64 = 16;

/// A tag of a kind, with a number.
pub(super) const fn tag(kind: u64, number: u64) -> u64 {
    kind << 56 | number
}

/// The kind and the number of a tag.
pub(super) const fn parts(tag: u64) -> (u64, u64) {
    (tag >> 56, tag & ((1 << 56) - 1))
}

// What all of them do rarely.
const AHEAD: &str = "a record is durable before an older one";
const FULL: &str = "a transaction waits for room in the log";
const MOVES: &str = "Log Start is on its way to memory";
pub(super) const WAITS: &str = "a line waits for its log";
pub(super) const RARE: [&str; 4] = [AHEAD, FULL, MOVES, FALLS];

/// A design that logs in hardware.
pub(super) trait Logging: Design {
    /// Its log.
    fn log(&mut self) -> &mut Log;

    /// An entry of a transaction is in the log, in these lines of it.
    fn appended(&mut self, serial: u64, slot: &Slot, places: Vec<u32>) {
        let _ = (serial, slot, places);
    }

    /// A transaction is durable.
    fn committed(machine: &mut Machine<Self>, serial: u64);

    /// A transaction is about to store a word. Whether the design has room for that besides the
    /// log: where it has not, software goes on.
    fn has_place(hart: &mut Hart<'_, Self>, word: u64) -> bool {
        let _ = (hart, word);
        true
    }

    /// What was committed before this record is to go home now. Whether something of it is not
    /// there yet; [`look_again`] says when to ask again.
    fn hurry(machine: &mut Machine<Self>, record: u64) -> bool {
        let _ = (machine, record);
        false
    }

    /// The log has forgotten the attempt of a core that falls back to software: so does the design.
    /// On return nothing of it is on its way.
    fn forgets(hart: &mut Hart<'_, Self>) {
        let _ = hart;
    }

    /// Whether another transaction may begin; [`room_again`] says when.
    fn may_begin(&self) -> bool {
        true
    }

    /// The log is getting full: whatever keeps Log Start where it is had better end.
    fn squeeze(machine: &mut Machine<Self>) {
        let _ = machine;
    }
}

/// What goes from a core to the controller.
#[derive(Debug)]
enum Letter {
    /// Words of a line.
    Entry { core: usize, serial: u64, slot: Slot },
    /// The open record is to be written.
    Seal,
    /// A transaction ends.
    Commit { serial: u64, core: usize, token: When },
    /// A transaction ends without ever being committed: its lines are what they were.
    Drop { serial: u64, core: usize, token: When },
}

/// A transaction whose records are needed.
#[derive(Clone, Copy, Debug)]
struct Live {
    id: u32,
    /// Log Start may not pass this record.
    start: u64,
    entries: u32,
    /// The record of its commit word, or of its drop word.
    end: Option<u64>,
}

/// A core's side.
#[derive(Debug)]
struct Writing {
    buffer: Buffer,
    serial: u64,
    runs: bool,
    has_written: bool,
    /// Stores that were in the store buffer when it began: they are not its own.
    earlier: usize,
    /// Slots that have left the buffer, and whose lines of the log have no place in the
    /// controller's queue yet; and what a store waits for, since when, because they are too many.
    under_way: usize,
    stalled: Option<(When, Time)>,
    /// Slots of its transaction that have left the buffer.
    sent: u64,
    /// Words that are stored back, and what a payload had of them.
    puts_back: FxHashMap<u64, u64>,
}

/// A commit word, or a drop word, that is on its way to memory.
#[derive(Clone, Copy, Debug)]
struct Commit {
    record: u64,
    serial: u64,
    core: usize,
    token: When,
    is_dropped: bool,
}

/// A log.
#[derive(Debug)]
pub(super) struct Log {
    content: Content,
    packer: Packer,
    cores: Vec<Writing>,
    /// Slots of each core that may be under way when a store sends another one.
    places: usize,
    /// Whose slot is under way until this line of the log has a place in the queue: by its tag.
    last_lines: FxHashMap<u64, usize>,
    /// On their way to the controller, and there.
    letters: VecDeque<Letter>,
    inbox: VecDeque<Letter>,
    /// Tails of the open record that memory does not have, by number; and how many there were.
    tails: BTreeMap<u64, Id>,
    written: u64,
    live: BTreeMap<u64, Live>,
    /// The same by `start`.
    starts: BTreeSet<(u64, u64)>,
    /// Log Start may not pass this record either.
    floor: u64,
    serials: u64,
    /// Transactions that have begun, and whose end the controller has not seen.
    open: u64,
    names: Names,
    commits: VecDeque<Commit>,
    /// Lines with entries that are not durable: the last record of each, or [`u64::MAX`].
    unsafe_lines: FxHashMap<u32, u64>,
    /// Writes of such lines, and since when they wait.
    held: Vec<(Id, u32, Time)>,
    /// Who waits to begin, and since when Log Start is on its way.
    waiting: Vec<When>,
    mirrors: Time,
    /// Slots that a transaction may log.
    share: u64,
    /// Cores that wait until memory knows what is at home, with the record up to which.
    marks: Vec<(u64, usize, When)>,
    software: Software,
}

impl Log {
    /// A log that begins at this line, with software's behind it.
    pub(super) fn new(description: &Description, extra: u32, content: Content) -> Log {
        let layout = Layout::of(description, extra, content);
        let room = description.parameter("log", "buffer_lines") as usize;
        let coalesce = description.parameter("log", "coalesce") != 0.0;
        let core = || Writing {
            buffer: Buffer::new(room, coalesce),
            serial: 0,
            runs: false,
            has_written: false,
            earlier: 0,
            under_way: 0,
            stalled: None,
            sent: 0,
            puts_back: FxHashMap::default(),
        };
        Log {
            content,
            packer: Packer::new(layout),
            cores: (0..description.cores).map(|_| core()).collect(),
            places: room.max(1),
            last_lines: FxHashMap::default(),
            letters: VecDeque::new(),
            inbox: VecDeque::new(),
            tails: BTreeMap::new(),
            written: 0,
            live: BTreeMap::new(),
            starts: BTreeSet::new(),
            floor: u64::MAX,
            serials: 0,
            open: 0,
            names: Names::new(description.parameter("log", "names") as u32),
            commits: VecDeque::new(),
            unsafe_lines: FxHashMap::default(),
            held: Vec::new(),
            waiting: Vec::new(),
            mirrors: 0,
            share: layout.share(description.cores as u64),
            marks: Vec::new(),
            software: Software::new(description, extra + Layout::lines(description)),
        }
    }

    /// Goes on behind a recovery, which has emptied both logs. Nobody's name is in what may be read
    /// from Log Start on, so all are free.
    fn resume(&mut self, description: &Description, extra: u32, state: &Persistent) {
        self.packer.resume(state);
        let first = extra + Layout::lines(description);
        *self.software.log() = SoftLog::resumed(description, first, state);
    }

    /// That of transactions that the hardware cannot hold.
    pub(super) fn soft_log(&mut self) -> &mut SoftLog {
        self.software.log()
    }

    /// What a line is for that caches write to memory.
    pub(super) fn class_of(&self, line: u32) -> Class {
        self.software.class_of(line)
    }

    /// The transaction that a core runs.
    pub(super) fn running(&self, core: usize) -> Option<u64> {
        let Writing { serial, runs, .. } = self.cores[core];
        runs.then_some(serial)
    }

    /// The transaction that a core has begun last.
    pub(super) fn last(&self, core: usize) -> u64 {
        self.cores[core].serial
    }

    /// The first record that a transaction from here on may have.
    pub(super) fn next(&self) -> u64 {
        self.packer.next()
    }

    /// The first record that an open transaction may have.
    pub(super) fn first_open(&self) -> u64 {
        let open = self.starts.iter().find(|(_, serial)| self.live[serial].end.is_none());
        open.map_or(self.next(), |(start, _)| *start)
    }

    /// Transactions whose records are needed, those first that keep Log Start where it is.
    pub(super) fn keepers(&self) -> impl Iterator<Item = u64> {
        self.starts.iter().map(|(_, serial)| *serial)
    }

    /// Whether a transaction's records are needed.
    pub(super) fn is_live(&self, serial: u64) -> bool {
        self.live.contains_key(&serial)
    }

    /// The record of a transaction's commit word, if its records are needed and it has one.
    pub(super) fn end_of(&self, serial: u64) -> Option<u64> {
        self.live.get(&serial)?.end
    }

    /// Transactions with a commit word before this record whose own records are needed.
    pub(super) fn ended_before(&self, record: u64) -> Vec<u64> {
        let ended = |live: &Live| live.end.is_some_and(|end| end < record);
        self.live.iter().filter(|(_, live)| ended(live)).map(|(serial, _)| *serial).collect()
    }

    /// Whether less than half of the log is free, or too few names, which Log Start keeps where it
    /// is.
    pub(super) fn is_low(&self) -> bool {
        !self.packer.is_free(2) || self.names.are_few() && self.packer.is_mirrored()
    }

    /// Whether half of the log, or more, lies behind the first record that a transaction needs.
    pub(super) fn is_old(&self, serial: u64) -> bool {
        self.live.get(&serial).is_some_and(|live| self.packer.is_old(live.start))
    }

    /// Whether the log has been written once round, or is not written at all.
    pub(super) fn has_wrapped(&self) -> bool {
        self.packer.has_wrapped()
    }

    /// Log Start may not pass this record.
    pub(super) fn set_floor(&mut self, record: u64) {
        self.floor = record;
    }

    /// A transaction needs the records that another one needs, too.
    pub(super) fn inherit(&mut self, serial: u64, from: u64) {
        let Some(start) = self.live.get(&from).map(|live| live.start) else { return };
        let Some(live) = self.live.get_mut(&serial) else { return };
        if start < live.start {
            self.starts.remove(&(live.start, serial));
            live.start = start;
            self.starts.insert((start, serial));
        }
    }

    fn begin(&mut self, core: usize, id: u32, earlier: usize) {
        self.serials += 1;
        self.open += 1;
        let (serial, start) = (self.serials, self.packer.next());
        self.live.insert(serial, Live { id, start, entries: 0, end: None });
        self.starts.insert((start, serial));
        let writing = &mut self.cores[core];
        (writing.serial, writing.runs, writing.has_written) = (serial, true, false);
        (writing.earlier, writing.sent) = (earlier, 0);
    }
}

/// A design at rest on a machine that begins with what its recovery has left: of what was committed
/// all is at home.
pub(super) fn resumed<D: Logging>(description: &Description, extra: u32, state: &Persistent) -> D {
    let mut design = D::new(description, extra);
    design.log().resume(description, extra, state);
    design
}

/// What a machine must be for a log in hardware.
pub(super) fn fits(description: &Description) -> Result<(), &'static str> {
    if description.network.columns != 0 || description.nvm.channels != 1 {
        return Err("lines must not overtake their log on the way to its controller: \
                    `network.columns` must be 0 and `nvm.channels` 1");
    }
    Ok(())
}

/// Lines that may be on their way home behind transactions: retired, written back from DRAM, or
/// forced out of the caches by a scan.
pub(super) fn window(description: &Description) -> usize {
    (description.parameter("log", "window") as usize).max(1)
}

/// The one place that is told when the hardware cannot hold a transaction.
pub(super) fn cannot_hold<D: Logging>(machine: &mut Machine<D>) {
    machine.fail("the hardware cannot hold a transaction: its log or its buffer is full");
}
