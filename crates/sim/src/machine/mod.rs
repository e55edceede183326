//! The machine: cores, caches, network and memory controllers, and the total order of what they do.
//!
//! ```text
//!   hart --> core --> store buffer --\
//!     \        \                      >--> private caches --> directory, last cache --> channel
//!      \        `-- loads -----------/            (hierarchy)        network          controller
//!       `- runs a program's transactions, as a coroutine (kernel)
//! ```
//!
//! Invariants:
//! - Whoever acts at a time t acts when all that happens before t has happened: nothing changes
//!   memory, a cache, the directory, a queue or the trace at a time later than the first of the
//!   other [`sources`]. A hit in a private cache changes none of them, and may run ahead by the
//!   machine's `lookahead`.
//! - Among equal times controllers come before engines, these before store buffers, these before
//!   cores, and then the smaller number: the order is total, and a run can be repeated.

use std::fmt;

use rustc_hash::FxHashMap;

pub(crate) mod agenda;
mod attempt;
pub mod cache;
mod channel;
pub mod controller;
pub mod core;
pub mod counts;
pub mod describe;
pub mod description;
mod drain;
pub mod hart;
mod hierarchy;
mod isolation;
pub mod kernel;
mod locks;
pub mod memory;
pub mod network;
pub mod sources;
pub mod tlb;
pub mod transaction;
pub mod validate;
pub mod when;

pub use channel::{Message, Tell};
pub use hart::Hart;
pub use isolation::Isolation;

use crate::design::Design;
use crate::persist::requests::Request;
use crate::persist::{History, Trace};
use cache::Cache;
use channel::{Channel, Pending};
use controller::{Event, Id};
use core::Core;
use counts::Counts;
use description::Description;
use locks::Lock;
use memory::Memory;
use network::{Network, Tile, Timetable};
use sources::{Source, Sources};
use tlb::Tlb;
use validate::CORES_MAX;
use when::{NEVER, Time, Tokens, When};

/// Background engines that a design may have.
pub const ENGINES: usize = 4;

/// A machine on which one design runs.
pub struct Machine<D> {
    /// What it is like.
    pub description: Description,
    /// Its memory.
    pub memory: Memory,
    /// What it has counted.
    pub counts: Counts,
    /// Every change of what is persistent, if somebody wants to know.
    pub trace: Option<Trace>,
    /// What transactions have done, if somebody wants to know.
    pub history: Option<History>,
    /// Every request to a controller, if somebody wants to know.
    pub requests: Option<Vec<Request>>,
    /// Which transactions have written which lines, if that is checked.
    pub isolation: Option<Isolation>,
    /// The design's own state.
    pub design: D,
    /// When what happens now happens.
    now: Time,
    sources: Sources,
    tokens: Tokens,
    cores: Vec<Running>,
    l1: Vec<Cache>,
    l2: Vec<Cache>,
    llc: Cache,
    /// Each bank of the last cache.
    banks: Vec<Timetable>,
    /// For each line who has it: a bit for each core, and [`OWNED`].
    directory: Vec<u32>,
    /// Lines that are on their way into the last cache.
    fills: FxHashMap<u32, When>,
    network: Network,
    channels: Vec<Channel>,
    /// When the last message from a tile to a channel arrives: none overtakes another.
    arrivals: Vec<Time>,
    pending: FxHashMap<Id, Pending>,
    /// Room for what a controller tells.
    events: Vec<Event>,
    /// Lines whose last write is not durable: which write that is, and who waits for it.
    unsettled: FxHashMap<u32, (Id, Vec<(usize, When)>)>,
    next_id: Id,
    locks: FxHashMap<u64, Lock>,
    /// How far a private hit may run ahead.
    lookahead: Time,
    /// Why the run cannot go on.
    pub(crate) failed: Option<&'static str>,
    /// The core whose turn it is, when a hart has found out.
    turn: Option<usize>,
}

/// The one core that has it may change it without asking.
const OWNED: u32 = 1 << 31;

/// A core and what stands around it.
pub(crate) struct Running {
    pub(crate) core: Core,
    pub(crate) tlb: Tlb,
    /// Its hart waits for any change.
    parked: bool,
    /// Write-backs that are not known to be acknowledged.
    flushes: Vec<When>,
    /// What drained last is complete then, and not before that does anything else drain.
    draining: Option<When>,
    /// What its hart waits for, for the report of a deadlock.
    why: Why,
}

/// What a hart waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// Its turn.
    Turn,
    /// The bytes of a line, or the acknowledgement of a write-back.
    Line,
    /// An answer to its design.
    Answer,
    /// Room for a miss.
    Miss,
    /// Room in its store buffer.
    Room,
    /// The end of its store buffer.
    Stores,
    /// A lock.
    Lock(u64),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Turn => f.write_str("its turn"),
            Why::Line => f.write_str("a line"),
            Why::Answer => f.write_str("an acknowledgement"),
            Why::Miss => f.write_str("room for a miss"),
            Why::Room => f.write_str("room in its store buffer"),
            Why::Stores => f.write_str("its store buffer to drain"),
            Why::Lock(lock) => write!(f, "lock {lock}"),
        }
    }
}

impl<D: Design> Machine<D> {
    /// A machine at rest with this memory.
    ///
    /// # Panics
    /// When the description was not checked.
    pub fn new(description: Description, memory: Memory, design: D) -> Machine<D> {
        let Description { ref l1, ref l2, ref llc, .. } = description;
        let cores = description.cores;
        assert!(cores > 0 && cores <= CORES_MAX, "1 to {CORES_MAX} cores");
        let network = Network::new(&description.network);
        let channels = Channel::all(&description, &network);
        assert!(channels.len() + ENGINES + 2 * cores <= Sources::MAX, "too many sources");
        let tiles = (description.network.columns * description.network.rows).max(1) as usize;
        let new_core = || Running {
            core: Core::new(&description.core, l1.mshrs),
            tlb: Tlb::new(&description.tlb, memory.lines()),
            parked: false,
            flushes: Vec::new(),
            draining: None,
            why: Why::Turn,
        };
        let lookahead = description.network.interface + l1.latency;
        Machine {
            now: 0,
            sources: Sources::new(),
            tokens: Tokens::new(),
            cores: (0..cores).map(|_| new_core()).collect(),
            l1: vec![Cache::new(l1.bytes, l1.ways); cores],
            l2: l2.iter().flat_map(|l2| vec![Cache::new(l2.bytes, l2.ways); cores]).collect(),
            llc: Cache::new(llc.bytes, llc.ways),
            banks: vec![Timetable::default(); llc.banks as usize],
            directory: vec![0; memory.lines() as usize],
            fills: FxHashMap::default(),
            arrivals: vec![0; tiles * channels.len()],
            pending: FxHashMap::default(),
            events: Vec::new(),
            unsettled: FxHashMap::default(),
            next_id: 0,
            locks: FxHashMap::default(),
            counts: Counts::default(),
            trace: None,
            history: None,
            requests: None,
            isolation: None,
            channels,
            network,
            lookahead,
            failed: None,
            turn: None,
            memory,
            design,
            description,
        }
    }

    /// When what happens now happens.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Cores that run transactions.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Where a core finds a word of the program in memory.
    #[inline]
    pub(crate) fn place_of(&self, core: usize, word: u64) -> u64 {
        match D::MOVES {
            true => u64::from(self.design.place(core, memory::line_of(word))) * 8 + word % 8,
            false => word,
        }
    }

    /// The coherent value of a word of the program, as this core finds it.
    #[inline]
    pub fn word(&self, core: usize, word: u64) -> u64 {
        self.memory.word(self.place_of(core, word))
    }

    /// The time of a token, if it is known.
    pub fn known(&self, when: When) -> Option<Time> {
        self.tokens.time(when)
    }

    /// Makes one of the design's engines act at this time, if it would act later.
    pub fn hasten_engine(&mut self, engine: usize, time: Time) {
        assert!(engine < ENGINES);
        self.sources.hasten(self.engine_source(engine), time.max(self.now));
    }

    fn engine_source(&self, engine: usize) -> Source {
        self.channels.len() + engine
    }

    fn buffer_source(&self, core: usize) -> Source {
        self.channels.len() + ENGINES + core
    }

    fn core_source(&self, core: usize) -> Source {
        self.channels.len() + ENGINES + self.cores.len() + core
    }

    /// A token that the design will tell.
    pub fn open_token(&mut self) -> When {
        self.tokens.open()
    }

    /// Tells a token's time, and whoever has asked for it.
    pub fn tell(&mut self, token: When, time: Time) {
        let mut asked = self.tokens.tell(token, time);
        while asked != 0 {
            let core = asked.trailing_zeros() as usize;
            asked &= asked - 1;
            self.sources.hasten(self.buffer_source(core), time.max(self.now));
            self.wake(core, time);
        }
    }

    /// Lets a parked hart look again at this time.
    pub fn wake(&mut self, core: usize, time: Time) {
        if self.cores[core].parked {
            self.sources.hasten(self.core_source(core), time.max(self.now));
        }
    }

    /// The time of a token, if it is known; else the core is told.
    #[inline]
    pub(crate) fn time_for(&mut self, core: usize, when: When) -> Option<Time> {
        let time = self.tokens.time(when);
        if time.is_none() {
            self.tokens.ask(when, core);
        }
        time
    }

    /// Lets a source act that is neither a core nor a store buffer. Answers whose turn it is
    /// otherwise, or nothing when nobody acts any more.
    fn step(&mut self) -> Turn {
        let (time, source) = self.sources.first();
        if time == NEVER {
            return Turn::Nobody;
        }
        debug_assert!(time >= self.now, "time goes on");
        self.now = time;
        let (channels, cores) = (self.channels.len(), self.cores.len());
        self.sources.set(source, NEVER);
        match source {
            channel if channel < channels => self.run_channel(channel),
            engine if engine < channels + ENGINES => D::engine(self, engine - channels),
            buffer if buffer < channels + ENGINES + cores => {
                self.drain(buffer - channels - ENGINES);
            }
            core => return Turn::Core(core - channels - ENGINES - cores),
        }
        Turn::Done
    }

    /// Lines that are not in persistent memory yet: modified in caches, queued or on their way.
    pub fn backlog(&self) -> u64 {
        self.modified().count() as u64 + self.writes_waiting() + self.design.backlog()
    }

    /// Persistent lines that are modified in a cache, for each cache in which they are.
    fn modified(&self) -> impl Iterator<Item = u32> {
        let caches = self.l1.iter().chain(&self.l2).chain([&self.llc]);
        let own = caches.flat_map(Cache::lines).filter(|(_, line, state)| {
            self.memory.is_nvm(*line) && state & cache::COHERENCE == cache::MODIFIED
        });
        own.map(|(_, line, _)| line)
    }

    /// Persistent lines that are modified in any cache, in order.
    pub fn modified_lines(&self) -> Vec<u32> {
        let mut lines: Vec<u32> = self.modified().collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// Cycles of a walk of the page table, its one access to the caches included.
    fn walk(&self) -> Time {
        let l2 = self.description.l2.as_ref().map(|l2| l2.latency);
        self.description.tlb.walk + l2.unwrap_or(self.description.llc.latency)
    }

    /// The run cannot go on; it ends with this error.
    pub fn fail(&mut self, why: &'static str) {
        self.failed.get_or_insert(why);
    }

    /// The tile of a line's bank of the last cache.
    pub fn home(&self, line: u32) -> Tile {
        match self.description.network.columns {
            0 => 0,
            _ => line as usize % self.banks.len(),
        }
    }
}

/// Whose turn it was, or is.
enum Turn {
    /// It has been.
    Done,
    /// This core's hart goes on.
    Core(usize),
    /// Nobody acts any more.
    Nobody,
}
