//! What a machine is like: every number that the simulation goes by.
//!
//! Latencies inside the chip are cycles of the cores' clock; those of memories are nanoseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// What it is called.
    pub name: String,
    /// The cores' clock.
    pub clock_ghz: f64,
    /// Cores that run transactions.
    pub cores: usize,
    /// Each core.
    pub core: Core,
    /// Each core's first cache.
    pub l1: Private,
    /// Each core's second cache, inclusive of the first, if there is one.
    pub l2: Option<Private>,
    /// The last cache, which all cores share.
    pub llc: Shared,
    /// Between cores, banks of the last cache and memory controllers.
    pub network: Network,
    /// Translation of addresses.
    pub tlb: Tlb,
    /// Each memory controller.
    pub mc: Mc,
    /// Persistent memory.
    pub nvm: Memory,
    /// Volatile memory; without one, volatile lines lie in channels of persistent memory.
    pub dram: Option<Memory>,
    /// When a write survives a power cut.
    pub persist: Persist,
    /// What designs need beyond the machine: a table of numbers and switches for each.
    #[serde(default)]
    pub design: BTreeMap<String, BTreeMap<String, f64>>,
}

/// A core: out of order, total store order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Instructions a cycle: the smaller of what is issued and what is retired.
    pub width: u32,
    /// Instructions in flight.
    pub rob: u32,
    /// Loads in flight.
    pub load_queue: u32,
    /// Stores that have not reached the cache.
    pub store_buffer: u32,
    /// Instructions for each one that a program says it executes between its accesses.
    pub compute_factor: f64,
    /// Whether a load waits for the one before, whatever its address depends on.
    pub serial_loads: bool,
}

/// A private cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Private {
    /// Bytes of data.
    pub bytes: u64,
    /// Lines of a set.
    pub ways: u32,
    /// Cycles of a hit, from the core.
    pub latency: u64,
    /// Accesses a cycle.
    pub ports: u32,
    /// Misses in flight.
    pub mshrs: u32,
}

/// The last cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Bytes of data, over all banks.
    pub bytes: u64,
    /// Lines of a set.
    pub ways: u32,
    /// Cycles of an access at the bank.
    pub latency: u64,
    /// Banks; neighbouring lines lie in neighbouring ones.
    pub banks: u32,
    /// Cycles for which an access keeps its bank.
    pub busy: u64,
    /// Whether a line that a private cache has is in here too.
    pub inclusive: bool,
    /// Cycles to look a line up in the directory.
    pub directory: u64,
}

/// Between the parts of the chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Columns and rows of a mesh of tiles: tile i has bank i of the last cache and, as long as
    /// `first` is 0, core i; the memory controllers are at the corners. 0 and 0: every part is
    /// next to every other.
    pub columns: u32,
    /// See `columns`.
    pub rows: u32,
    /// Cycles from a tile to the next.
    pub hop: u64,
    /// Bytes that a link carries in a cycle; 0: as many as there are.
    pub link_bytes: u32,
    /// Cycles to enter and to leave it, both together.
    pub interface: u64,
    /// The tile of the first core; the others follow.
    pub first: u32,
}

/// Translation of addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Pages that a core knows; 0: all.
    pub entries: u32,
    /// Cycles of a walk besides its one access to the caches.
    pub walk: u64,
}

/// A memory controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mc {
    /// Slots for writes.
    pub wq: u32,
    /// A write that is older makes the controller write.
    pub write_age_ns: f64,
    /// Cycles that a request takes on its way in.
    pub overhead: u64,
    /// Cycles of a read that finds its line among the writes.
    pub forward: u64,
    /// Added to each answer of channels 2, 3, ...: another socket.
    pub remote_ns: f64,
}

/// Slots of a queue of so many that are not kept for logs: an eighth is, at least one.
pub fn unkept(slots: usize) -> usize {
    slots - (slots / 8).max(1)
}

/// A memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Channels, each with a controller; neighbouring lines lie in neighbouring ones.
    pub channels: u32,
    /// Banks of a channel.
    pub banks: u32,
    /// Bytes of a row.
    pub row_bytes: u32,
    /// Neighbouring bytes of a channel that lie in one row of a bank before those of the next bank.
    pub interleave_bytes: u32,
    /// From the start of a read to its burst, when its row is open.
    pub read_hit_ns: f64,
    /// The same when its row is not open.
    pub read_miss_ns: f64,
    /// From the end of a write's burst until the array has it, when its row is open.
    pub write_hit_ns: f64,
    /// The same when its row is not open.
    pub write_ns: f64,
    /// A line on the channel.
    pub burst_ns: f64,
}

/// When a write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Persist {
    /// Where it must be for that.
    pub point: Point,
}

/// Where a write must be to survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Point {
    /// A memory controller has accepted it: it has a battery.
    Accepted,
    /// The memory itself has it.
    Media,
}
