//! The hardware log shared by `hw-undo`, `hw-redo`, `hw-undo-redo` and `redu`.
//!
//! ```text
//!   core: stores drain -> buffer of lines --oldest leaves, commit--> controller: packs, writes
//!         words of a line become an entry     log messages, in order     records -> NVM
//! ```
//! **Records.** A record is a *head* and its *tails*, a line each. Heads lie in one ring and tails
//! in another, so a place for a head never holds a tail's words. Stored values could otherwise look
//! like a meta word. A head is written after its tails are durable, and seals them.
//! ```text
//!   Log Start | heads: ring              | tails: ring                            |
//!             | m0 m1 m2 ... m7 |        | w w w w w w w w | w w w 0 0 0 0 0 |
//!               |  |                       |     |
//!               |  `- entry 1              |     `- words of entry 1
//!               `---- entry 0              `------- words of entry 0
//!
//!   meta word     | wrap 6 | transaction 20 | mask 8 | line 30 |     which words of which line
//!   commit word   | wrap 6 | transaction 20 |    0   | entries |     how many entries it has
//!   drop word     | wrap 6 | transaction 20 |    0   | 2^30 - 1|     its lines are restored
//! ```
//! | setting | with it | without it |
//! |---|---|---|
//! | `log.pack` | up to eight metas of any transactions share a head | an entry begins a new line |
//! | `log.coalesce` | an entry has all words of a line stored while it was buffered | one word |
//!
//! Packed words follow each other in the tails, which are written as soon as they are full. The
//! head is written when it is full, or with the commit word of a transaction that ends. Without
//! packing, an entry's meta and seven words are the head, and its other words are tails; a commit
//! word is a head. Without both settings, the one-word entries of a line share a head. Undo entries
//! hold old words and redo entries new ones. Undo-redo entries hold the old words, then the new
//! ones.
//!
//! **Wraps.** Unused words are 0. Wraps count from 1, and each head holds the number of its wrap.
//! The place of an unwritten head shows the wrap before. Recovery reads from Log Start to the first
//! head of another wrap, and ends with a fresh wrap, in which the next run continues. The line of
//! Log Start also holds the *applied watermark*: the heap image has all commits before that record,
//! although other transactions may still need the records. Recovery redoes none of these commits,
//! since software may have written their lines later.
//!
//! Invariants:
//! - A commit is acknowledged after all records up to that of its commit word are durable. (A
//!   younger record may be durable before an older one, and recovery would stop between them.)
//! - If entries hold old words, a line is written to memory only after its records, and all older
//!   records, are durable.
//! - The log has room for all entries in flight to it, and for the end of every open transaction.
//! - A place of the log is reused only after the durable Log Start has passed it.
//! - A transaction's identifier is reused only after the durable Log Start has passed its commit
//!   word, its drop word, or its last entry. No entries of another transaction then carry it.
//!
//! Choices where the papers are silent:
//! - The log is in one channel, and its lines are spread over the rows of all banks.
//! - Log messages to the controller keep their order, and wait there when the log is full.
//! - A transaction begins when a quarter of the log is free.
//! - Log Start is written to memory when half of the log, or seven eighths of the identifiers, are
//!   used, or when a transaction waits.
//!
//! **Back-pressure.** A core may have as many slots in flight as its buffer has. A slot is in
//! flight until the controller's queue has accepted the last line that the packer wrote for it. A
//! store that would displace another slot waits, and so do the stores behind it. `log_stall` counts
//! that wait, whether or not the core has other work meanwhile. Two kinds of slots leave at once:
//! those that a transaction's end leaves in the buffer, because no store follows before the commit
//! is durable, and those of a line that leaves the caches.

mod controller;
mod core;
mod packer;
mod reader;
mod record;
mod software;
mod transaction_ids;
mod write_combining;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use super::Design;
use super::soft_log::SoftLog;
use crate::machine::controller::{Class, Id};
use crate::machine::description::Description;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine};
use crate::persist::Persistent;
use packer::Packer;
use record::Layout;
use software::{FALLS, Software};
use transaction_ids::TransactionIds;
use write_combining::Buffer;

pub(super) use self::core::{begin, commit, drain, end_body, note, push_out, seal, waits};
pub(super) use controller::{finish, hold_back, message, room_again, trim, write_reached};
pub(super) use record::Content;
pub(super) use software::{
    beside_software, falls_back, lines, look_again, recover, software_commits, store,
};
pub(super) use write_combining::Slot;

/// The message that announces a log message.
const LOG_MESSAGE: u64 = u64::MAX;

/// Kinds of tags, in their highest byte. A design's own begin with [`OWN`].
const HEAD: u64 = 1;
const TAIL: u64 = 2;
const START: u64 = 3;
pub(super) const OWN: u64 = 16;

/// Returns a tag of a kind, with a number.
pub(super) const fn tag(kind: u64, number: u64) -> u64 {
    kind << 56 | number
}

/// Returns the kind and the number of a tag.
pub(super) const fn parts(tag: u64) -> (u64, u64) {
    (tag >> 56, tag & ((1 << 56) - 1))
}

// Rarely taken paths of every design with this log.
const AHEAD: &str = "a record is durable before an older one";
const FULL: &str = "a transaction waits for room in the log";
const MOVES: &str = "Log Start is being written to memory";
pub(super) const WAITS: &str = "a line waits for its log entries";
pub(super) const RARE: [&str; 4] = [AHEAD, FULL, MOVES, FALLS];

/// A design that logs in hardware.
pub(super) trait Logging: Design {
    /// The design's log.
    fn log(&mut self) -> &mut Log;

    /// Notes that a transaction's entry is in these lines of the log.
    fn appended(&mut self, serial: u64, slot: &Slot, places: Vec<u32>) {
        let _ = (serial, slot, places);
    }

    /// Reacts to a transaction's commit becoming durable.
    fn committed(machine: &mut Machine<Self>, serial: u64);

    /// Reserves room outside of the log for a store of this word. Without room, the transaction
    /// falls back to software.
    fn has_place(hart: &mut Hart<'_, Self>, word: u64) -> bool {
        let _ = (hart, word);
        true
    }

    /// Expedites the write-back of commits before this record. Returns whether any is still missing
    /// from the heap image; [`look_again`] says when to ask again.
    fn expedite(machine: &mut Machine<Self>, record: u64) -> bool {
        let _ = (machine, record);
        false
    }

    /// Forgets the attempt of a core that falls back to software, after the log has forgotten it.
    /// On return, nothing of the attempt is in flight.
    fn forgets(hart: &mut Hart<'_, Self>) {
        let _ = hart;
    }

    /// Whether another transaction may begin; [`room_again`] says when to ask again.
    fn may_begin(&self) -> bool {
        true
    }

    /// Requests the write-backs that let Log Start advance, because the log runs low.
    fn request_write_backs(machine: &mut Machine<Self>) {
        let _ = machine;
    }
}

/// A log message from a core to the controller.
#[derive(Debug)]
enum LogMessage {
    /// Words of a line.
    Entry { core: usize, serial: u64, slot: Slot },
    /// The open record is to be written.
    Seal,
    /// A transaction commits.
    Commit { serial: u64, core: usize, token: When },
    /// A transaction is abandoned, and its lines are restored.
    Drop { serial: u64, core: usize, token: When },
}

/// A transaction whose records are needed.
#[derive(Clone, Copy, Debug)]
struct Live {
    id: u32,
    /// Its first record, which Log Start may not pass.
    start: u64,
    entries: u32,
    /// The record of its commit word or drop word.
    end: Option<u64>,
}

/// A core's side of the log.
#[derive(Debug)]
struct Writing {
    buffer: Buffer,
    serial: u64,
    runs: bool,
    has_written: bool,
    /// Stores that were in the store buffer at its begin, which belong to earlier work.
    earlier: usize,
    /// Slots that have left the buffer and whose log lines are not yet in the controller's queue. A
    /// store that too many such slots block waits for the token, since that time.
    in_flight: usize,
    stalled: Option<(When, Time)>,
    /// Slots of the transaction that have left the buffer.
    sent: u64,
    /// Payloads of the words that the fallback restores.
    puts_back: FxHashMap<u64, u64>,
}

/// A commit word or drop word in flight to memory.
#[derive(Clone, Copy, Debug)]
struct Commit {
    record: u64,
    serial: u64,
    core: usize,
    token: When,
    is_dropped: bool,
}

/// The log of a machine.
#[derive(Debug)]
pub(super) struct Log {
    content: Content,
    packer: Packer,
    cores: Vec<Writing>,
    /// Slots of each core that may be in flight when a store sends another one.
    places: usize,
    /// Core whose slot is in flight until the queue has this log line, by the line's tag.
    last_lines: FxHashMap<u64, usize>,
    /// Log messages in flight to the controller, and those that wait there.
    log_messages: VecDeque<LogMessage>,
    inbox: VecDeque<LogMessage>,
    /// Writes of tails of the open record that are not in the media, by number; and the number of
    /// all tails.
    tails: BTreeMap<u64, Id>,
    written: u64,
    live: BTreeMap<u64, Live>,
    /// Live transactions, ordered by `start`.
    starts: BTreeSet<(u64, u64)>,
    /// Another record that Log Start may not pass.
    floor: u64,
    serials: u64,
    /// Transactions that have begun, and whose end the controller has not seen.
    open: u64,
    ids: TransactionIds,
    commits: VecDeque<Commit>,
    /// Lines with entries that are not durable: the last record of each, or [`u64::MAX`].
    unsafe_lines: FxHashMap<u32, u64>,
    /// Held writes of such lines, and since when.
    held: Vec<(Id, u32, Time)>,
    /// Tokens of transactions that wait to begin, and the time of the last write of Log Start.
    waiting: Vec<When>,
    mirrors: Time,
    /// Slots that a transaction may log.
    share: u64,
    /// Cores that wait for the durable applied watermark, with the records that they need.
    watermark_waiters: Vec<(u64, usize, When)>,
    software: Software,
}

impl Log {
    /// Returns a log that begins at this line, followed by the software log.
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
            in_flight: 0,
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
            log_messages: VecDeque::new(),
            inbox: VecDeque::new(),
            tails: BTreeMap::new(),
            written: 0,
            live: BTreeMap::new(),
            starts: BTreeSet::new(),
            floor: u64::MAX,
            serials: 0,
            open: 0,
            ids: TransactionIds::new(description.parameter("log", "names") as u32),
            commits: VecDeque::new(),
            unsafe_lines: FxHashMap::default(),
            held: Vec::new(),
            waiting: Vec::new(),
            mirrors: 0,
            share: layout.share(description.cores as u64),
            watermark_waiters: Vec::new(),
            software: Software::new(description, extra + Layout::lines(description)),
        }
    }

    /// Continues after a recovery that has emptied both logs. The log from Log Start on holds no
    /// identifier, so all are free.
    fn resume(&mut self, description: &Description, extra: u32, state: &Persistent) {
        self.packer.resume(state);
        let first = extra + Layout::lines(description);
        *self.software.log() = SoftLog::resumed(description, first, state);
    }

    /// The software log of transactions that the hardware cannot hold.
    pub(super) fn soft_log(&mut self) -> &mut SoftLog {
        self.software.log()
    }

    /// Returns the purpose of a line that caches write to memory.
    pub(super) fn class_of(&self, line: u32) -> Class {
        self.software.class_of(line)
    }

    /// Returns the transaction that a core is running.
    pub(super) fn running(&self, core: usize) -> Option<u64> {
        let Writing { serial, runs, .. } = self.cores[core];
        runs.then_some(serial)
    }

    /// Returns the last transaction that a core began.
    pub(super) fn last(&self, core: usize) -> u64 {
        self.cores[core].serial
    }

    /// Returns the first record that a new transaction may have.
    pub(super) fn next(&self) -> u64 {
        self.packer.next()
    }

    /// Returns the first record that an open transaction may have.
    pub(super) fn first_open(&self) -> u64 {
        let open = self.starts.iter().find(|(_, serial)| self.live[serial].end.is_none());
        open.map_or(self.next(), |(start, _)| *start)
    }

    /// Live transactions, in the order in which they block Log Start.
    pub(super) fn keepers(&self) -> impl Iterator<Item = u64> {
        self.starts.iter().map(|(_, serial)| *serial)
    }

    /// Whether a transaction's records are needed.
    pub(super) fn is_live(&self, serial: u64) -> bool {
        self.live.contains_key(&serial)
    }

    /// Returns the record of a live transaction's commit word, if it has one.
    pub(super) fn end_of(&self, serial: u64) -> Option<u64> {
        self.live.get(&serial)?.end
    }

    /// Returns live transactions whose commit word lies before this record.
    pub(super) fn ended_before(&self, record: u64) -> Vec<u64> {
        let ended = |live: &Live| live.end.is_some_and(|end| end < record);
        self.live.iter().filter(|(_, live)| ended(live)).map(|(serial, _)| *serial).collect()
    }

    /// Whether less than half of the log is free, or too few identifiers are free because Log Start
    /// has not advanced.
    pub(super) fn is_low(&self) -> bool {
        !self.packer.is_free(2) || self.ids.are_few() && self.packer.is_mirrored()
    }

    /// Whether at least half of the log lies after the first record that a transaction needs.
    pub(super) fn is_old(&self, serial: u64) -> bool {
        self.live.get(&serial).is_some_and(|live| self.packer.is_old(live.start))
    }

    /// Whether the log has wrapped since its start, or is empty.
    pub(super) fn has_wrapped(&self) -> bool {
        self.packer.has_wrapped()
    }

    /// Sets another record that Log Start may not pass.
    pub(super) fn set_floor(&mut self, record: u64) {
        self.floor = record;
    }

    /// Extends a transaction's needs to the records that another one needs.
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

/// Returns an idle design on a machine that starts from the state that recovery has left. The heap
/// image has all commits.
pub(super) fn resumed<D: Logging>(description: &Description, extra: u32, state: &Persistent) -> D {
    let mut design = D::new(description, extra);
    design.log().resume(description, extra, state);
    design
}

/// Checks that a machine suits a hardware log.
pub(super) fn fits(description: &Description) -> Result<(), &'static str> {
    if description.network.columns != 0 || description.nvm.channels != 1 {
        return Err("lines must not overtake their log entries on the way to the controller: \
                    `network.columns` must be 0 and `nvm.channels` 1");
    }
    Ok(())
}

/// Write-backs that may be in flight after commits: retired lines, lines from the DRAM cache, or
/// lines that a scan has forced out of the caches.
pub(super) fn window(description: &Description) -> usize {
    (description.parameter("log", "window") as usize).max(1)
}

/// Stops the run when the hardware cannot hold a transaction. All paths report this here.
pub(super) fn cannot_hold<D: Logging>(machine: &mut Machine<D>) {
    machine.fail("the hardware cannot hold a transaction: its log or its buffer is full");
}
