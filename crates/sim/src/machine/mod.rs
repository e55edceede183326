//! The machine: cores, caches, network, memory controllers, and the total order of their events.
//!
//! ```text
//!   hart --> core --> store buffer --\
//!     \        \                      >--> private caches --> directory, last cache --> channel
//!      \        `-- loads -----------/            (hierarchy)        network          controller
//!       `- runs a program's transactions, as a coroutine (kernel)
//! ```
//!
//! Invariants:
//! - An event at time t runs after all events before t. Nothing changes memory, a cache, the
//!   directory, a queue or the trace at a time later than the next event of another one of the
//!   [`sources`]. A hit in a private cache changes none of them, and may run ahead by the machine's
//!   `lookahead`.
//! - Among events of equal time, controllers precede engines, engines precede store buffers, and
//!   store buffers precede cores; the smaller number then comes first. The order is total, so a run
//!   is reproducible.

use std::fmt;

use rustc_hash::FxHashMap;

pub(crate) mod agenda;
mod attempt;
pub mod cache;
mod channel;
pub mod controller;
pub mod core;
pub mod counts;
pub mod description;
mod drain;
pub mod hart;
mod hierarchy;
mod isolation;
pub mod kernel;
mod locks;
pub mod memory;
pub mod named;
pub mod network;
pub mod sources;
pub mod sparse;
pub mod tlb;
pub mod transaction;
pub mod validate;
pub mod when;

pub use channel::{Message, Notify};
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

/// The number of background engines that a design may have.
pub const ENGINES: usize = 4;

/// A machine that runs one design.
pub struct Machine<D> {
    /// The machine's parameters.
    pub description: Description,
    /// The machine's memory.
    pub memory: Memory,
    /// The machine's counters.
    pub counts: Counts,
    /// All changes of the persistent state, if recorded.
    pub trace: Option<Trace>,
    /// All committed transactions, if recorded.
    pub history: Option<History>,
    /// All requests to controllers, if recorded.
    pub requests: Option<Vec<Request>>,
    /// The checker of line isolation, if enabled.
    pub isolation: Option<Isolation>,
    /// The state of the design.
    pub design: D,
    /// The time of the current event.
    now: Time,
    sources: Sources,
    tokens: Tokens,
    cores: Vec<Running>,
    l1: Vec<Cache>,
    l2: Vec<Cache>,
    llc: Cache,
    /// The banks of the last-level cache.
    banks: Vec<Timetable>,
    /// Holders of each line: a bit per core, and [`OWNED`].
    directory: Vec<u32>,
    /// Lines in flight into the last-level cache.
    fills: FxHashMap<u32, When>,
    network: Network,
    channels: Vec<Channel>,
    /// The latest arrival from each tile at each channel, which keeps messages in order.
    arrivals: Vec<Time>,
    pending: FxHashMap<Id, Pending>,
    /// A reusable buffer for events of a controller.
    events: Vec<Event>,
    /// Lines with a write in flight: the last such write, and the cores that wait for it.
    unsettled: FxHashMap<u32, (Id, Vec<(usize, When)>)>,
    next_id: Id,
    locks: FxHashMap<u64, Lock>,
    /// How far a private hit may run ahead.
    lookahead: Time,
    /// The failure that ends the run.
    pub(crate) failed: Option<&'static str>,
    /// The next core, when a hart has already determined it.
    next_core: Option<usize>,
}

/// Flag of a directory entry: the single holder may modify the line without a request.
const OWNED: u32 = 1 << 31;

/// A core with its TLB and its waiting state.
pub(crate) struct Running {
    pub(crate) core: Core,
    pub(crate) tlb: Tlb,
    /// The hart waits for any change.
    parked: bool,
    /// Write-backs without a known acknowledgement.
    flushes: Vec<When>,
    /// Write-backs that have drained since the last fence.
    sent: Vec<When>,
    /// The completion of the last drained operation, before which nothing else may drain.
    draining: Option<When>,
    /// The reason for the hart's wait, for the report of a deadlock.
    why: Why,
}

/// The reason why a hart waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// For earlier events.
    Events,
    /// For a line's data, or the acknowledgement of a write-back.
    Line,
    /// For an acknowledgement to its design.
    Answer,
    /// For a free miss register.
    Miss,
    /// For room in its store buffer.
    Room,
    /// For its store buffer to drain.
    Stores,
    /// For a lock.
    Lock(u64),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Events => f.write_str("earlier events"),
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
    /// Returns an idle machine with this memory.
    ///
    /// # Panics
    /// When the description has not been validated.
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
            sent: Vec::new(),
            draining: None,
            why: Why::Events,
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
            next_core: None,
            memory,
            design,
            description,
        }
    }

    /// Returns the time of the current event.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the number of cores.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Returns the place in memory where a core finds a word of the program.
    #[inline]
    pub(crate) fn place_of(&self, core: usize, word: u64) -> u64 {
        match D::MOVES {
            true => u64::from(self.design.place(core, memory::line_of(word))) * 8 + word % 8,
            false => word,
        }
    }

    /// Returns the coherent value of a word of the program, as this core sees it.
    #[inline]
    pub fn word(&self, core: usize, word: u64) -> u64 {
        self.memory.word(self.place_of(core, word))
    }

    /// Returns the time of a token, if it is known.
    pub fn known(&self, when: When) -> Option<Time> {
        self.tokens.time(when)
    }

    /// Schedules one of the design's engines at this time, or earlier if it already is.
    pub fn schedule_engine(&mut self, engine: usize, time: Time) {
        assert!(engine < ENGINES);
        self.sources.lower(self.engine_source(engine), time.max(self.now));
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

    /// Returns a new token, which the design will complete.
    pub fn open_token(&mut self) -> When {
        self.tokens.open()
    }

    /// Completes a token and wakes the cores that wait for it.
    pub fn notify(&mut self, token: When, time: Time) {
        let mut asked = self.tokens.notify(token, time);
        while asked != 0 {
            let core = asked.trailing_zeros() as usize;
            asked &= asked - 1;
            self.sources.lower(self.buffer_source(core), time.max(self.now));
            self.wake(core, time);
        }
    }

    /// Wakes a parked hart at this time.
    pub fn wake(&mut self, core: usize, time: Time) {
        if self.cores[core].parked {
            self.sources.lower(self.core_source(core), time.max(self.now));
        }
    }

    /// Returns the time of a token, or registers the core as a waiter when the time is unknown.
    #[inline]
    pub(crate) fn time_for(&mut self, core: usize, when: When) -> Option<Time> {
        let time = self.tokens.time(when);
        if time.is_none() {
            self.tokens.ask(when, core);
        }
        time
    }

    /// Runs the next event of a controller, engine or store buffer. Returns the core that is next
    /// instead, or `Step::None` when no event is left.
    fn step(&mut self) -> Step {
        let (time, source) = self.sources.first();
        if time == NEVER {
            return Step::None;
        }
        debug_assert!(time >= self.now, "time never goes backwards");
        self.now = time;
        let (channels, cores) = (self.channels.len(), self.cores.len());
        self.sources.set(source, NEVER);
        match source {
            channel if channel < channels => self.run_channel(channel),
            engine if engine < channels + ENGINES => D::engine(self, engine - channels),
            buffer if buffer < channels + ENGINES + cores => {
                self.drain(buffer - channels - ENGINES);
            }
            core => return Step::Core(core - channels - ENGINES - cores),
        }
        Step::Done
    }

    /// Returns the number of lines that are not yet in persistent memory: modified in caches,
    /// queued or in flight.
    pub fn backlog(&self) -> u64 {
        self.modified().count() as u64 + self.writes_waiting() + self.design.backlog()
    }

    /// Iterates over persistent lines that are modified in a cache, once per cache.
    fn modified(&self) -> impl Iterator<Item = u32> {
        let caches = self.l1.iter().chain(&self.l2).chain([&self.llc]);
        let own = caches.flat_map(Cache::lines).filter(|(_, line, state)| {
            self.memory.is_nvm(*line) && state & cache::COHERENCE == cache::MODIFIED
        });
        own.map(|(_, line, _)| line)
    }

    /// Returns the persistent lines that are modified in any cache, sorted and without duplicates.
    pub fn modified_lines(&self) -> Vec<u32> {
        let mut lines: Vec<u32> = self.modified().collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// Returns the latency of a page walk, including its one access to the caches.
    fn walk(&self) -> Time {
        let l2 = self.description.l2.as_ref().map(|l2| l2.latency);
        self.description.tlb.walk + l2.unwrap_or(self.description.llc.latency)
    }

    /// Fails the run: it ends with this error.
    pub fn fail(&mut self, why: &'static str) {
        self.failed.get_or_insert(why);
    }

    /// Returns the home tile of a line: that of its bank of the last-level cache.
    pub fn home_tile(&self, line: u32) -> Tile {
        match self.description.network.columns {
            0 => 0,
            _ => line as usize % self.banks.len(),
        }
    }
}

/// The result of a step of the event loop.
enum Step {
    /// An event has run.
    Done,
    /// The hart of this core is next.
    Core(usize),
    /// No event is left.
    None,
}
