//! The description of a machine: every number that the simulation depends on. This file has the
//! keys. The values are in `crates/sim/machines/`, which `named.rs` reads.
//!
//! On-chip latencies are cycles of the cores' clock. Memory latencies are nanoseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The machine's name.
    pub name: String,
    /// The cores' clock.
    pub clock_ghz: f64,
    /// The number of cores that run transactions.
    pub cores: usize,
    /// The parameters of each core.
    pub core: Core,
    /// Each core's first-level cache.
    pub l1: Private,
    /// Each core's second-level cache, if any; it includes the first.
    pub l2: Option<Private>,
    /// The last-level cache, which all cores share.
    pub llc: Shared,
    /// The network between cores, banks of the last-level cache and memory controllers.
    pub network: Network,
    /// Address translation.
    pub tlb: Tlb,
    /// The parameters of each memory controller.
    pub mc: Mc,
    /// Persistent memory.
    pub nvm: Memory,
    /// Volatile memory; without it, volatile lines use the channels of persistent memory.
    pub dram: Option<Memory>,
    /// When a write survives a power failure.
    pub persist: Persist,
    /// Parameters of designs: a table of numbers and switches for each.
    #[serde(default)]
    pub design: BTreeMap<String, BTreeMap<String, f64>>,
}

/// An out-of-order core with total store order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Instructions per cycle: the smaller of the issue and retire widths.
    pub width: u32,
    /// Capacity of the reorder buffer, in instructions.
    pub rob: u32,
    /// Capacity of the load queue.
    pub load_queue: u32,
    /// Capacity of the store buffer.
    pub store_buffer: u32,
    /// Simulated instructions for each instruction that a program reports between its accesses.
    pub compute_factor: f64,
    /// Each load waits for the previous one, whatever its address depends on.
    pub serial_loads: bool,
}

/// A private cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Private {
    /// Capacity in bytes of data.
    pub bytes: u64,
    /// Lines per set.
    pub ways: u32,
    /// Hit latency in cycles, from the core.
    pub latency: u64,
    /// Accesses per cycle.
    pub ports: u32,
    /// The number of misses in flight.
    pub mshrs: u32,
}

/// The last-level cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Capacity in bytes of data, over all banks.
    pub bytes: u64,
    /// Lines per set.
    pub ways: u32,
    /// Access latency at the bank, in cycles.
    pub latency: u64,
    /// The number of banks; consecutive lines use consecutive banks.
    pub banks: u32,
    /// Cycles for which an access occupies its bank.
    pub busy: u64,
    /// The cache holds every line that a private cache holds.
    pub inclusive: bool,
    /// Cycles of a directory lookup.
    pub directory: u64,
}

/// The on-chip network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Columns of a mesh of tiles. Tile i has bank i of the last-level cache and, if `first` is 0,
    /// core i. The memory controllers are at the corners. With 0 columns and 0 rows, all parts are
    /// adjacent.
    pub columns: u32,
    /// Rows of the mesh: see `columns`.
    pub rows: u32,
    /// Cycles from a tile to the next.
    pub hop: u64,
    /// Bytes per cycle of a link; 0 for no limit.
    pub link_bytes: u32,
    /// Cycles to enter and to leave the network, together.
    pub interface: u64,
    /// The tile of the first core; the other cores follow.
    pub first: u32,
}

/// Address translation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// TLB entries of each core; 0 for no limit.
    pub entries: u32,
    /// Cycles of a page walk, besides its one access to the caches.
    pub walk: u64,
}

/// A memory controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mc {
    /// Slots of the write queue.
    pub wq: u32,
    /// The age at which a write gives writes priority.
    pub write_age_ns: f64,
    /// Cycles of a request's entry into the controller.
    pub overhead: u64,
    /// Latency in cycles of a read that is forwarded from the write queue.
    pub forward: u64,
    /// Extra latency of each response of channels 2, 3, ..., which are on another socket.
    pub remote_ns: f64,
}

/// Returns how many slots of a queue are not reserved for logs. An eighth is reserved, at least
/// one.
pub fn unkept(slots: usize) -> usize {
    slots - (slots / 8).max(1)
}

/// A memory technology. A time of 0 between commands is no constraint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Channels, each with a controller; consecutive lines use consecutive channels.
    pub channels: u32,
    /// The channel of a line also depends on the higher bits of its address: [`Interleaving`].
    pub channel_hash: bool,
    /// Banks per channel.
    pub banks: u32,
    /// Ranks per channel, each with an equal part of the banks.
    pub ranks: u32,
    /// Groups of banks per rank. Neighbouring banks are in different groups.
    pub bank_groups: u32,
    /// Bytes per row.
    pub row_bytes: u32,
    /// Consecutive bytes of a channel in one row of a bank, before the next bank follows.
    pub interleave_bytes: u32,
    /// Latency of a read from its start to its burst, when its row is open.
    pub read_hit_ns: f64,
    /// The same when the row is closed.
    pub read_miss_ns: f64,
    /// Latency of a write from the end of its burst until the array has it, when its row is open.
    pub write_hit_ns: f64,
    /// The same when the row is closed.
    pub write_ns: f64,
    /// A write keeps its bank until the array has it. Otherwise it changes the open row, and other
    /// accesses of this row follow at once.
    pub write_keeps_bank: bool,
    /// Bus time of one line.
    pub burst_ns: f64,
    /// tCCD_L, between accesses of a group of banks.
    pub ccd_l_ns: f64,
    /// tRRD_S, between activations of a rank.
    pub rrd_s_ns: f64,
    /// tRRD_L, between activations of a group of banks.
    pub rrd_l_ns: f64,
    /// tFAW or tXAW, for five activations of a rank.
    pub faw_ns: f64,
    /// tRC, between activations of a bank: tRAS + tRP.
    pub rc_ns: f64,
    /// tRTP, from a read to the next activation of its bank.
    pub rtp_ns: f64,
    /// tWTR_S, from the end of a write's burst to a read.
    pub wtr_s_ns: f64,
    /// tWTR_L, the same in a group of banks.
    pub wtr_l_ns: f64,
    /// From a read to a write.
    pub rtw_ns: f64,
    /// tREFI, the period of refreshes; 0 for none.
    pub refi_ns: f64,
    /// tRFC, the length of a refresh.
    pub rfc_ns: f64,
}

impl Memory {
    /// Returns how lines are spread over the channels.
    pub fn interleaving(&self) -> Interleaving {
        Interleaving { channels: self.channels, hash: self.channel_hash }
    }
}

/// The assignment of lines to channels.
///
/// Each aligned group of lines, as many as there are channels, has a line in each channel. Without
/// the hash the groups are alike. Then records of a group's size begin in the same channel, and it
/// has most of the traffic if most accesses are to the records' first line. With the hash the
/// number of the group, folded to a few bits by exclusive or, rotates or permutes the channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleaving {
    /// The number of channels.
    pub channels: u32,
    /// Whether higher bits of the address count.
    pub hash: bool,
}

impl Interleaving {
    /// Returns the channel of a line.
    #[inline]
    pub fn channel(self, line: u32) -> u32 {
        let (low, group) = (line % self.channels, line / self.channels);
        match (self.hash, self.channels.is_power_of_two()) {
            (false, _) => low,
            (true, true) => low ^ fold(group) & (self.channels - 1),
            (true, false) => (low + fold(group)) % self.channels,
        }
    }

    /// Returns the number of a line in its channel.
    #[inline]
    pub fn local(self, line: u32) -> u32 {
        line / self.channels
    }

    /// Returns the line of a channel with this number.
    #[inline]
    pub fn line(self, channel: u32, local: u32) -> u32 {
        let low = match (self.hash, self.channels.is_power_of_two()) {
            (false, _) => channel,
            (true, true) => channel ^ fold(local) & (self.channels - 1),
            (true, false) => {
                (channel + self.channels - fold(local) % self.channels) % self.channels
            }
        };
        local * self.channels + low
    }
}

/// Folds a number to a few bits by exclusive or.
#[inline]
fn fold(mut number: u32) -> u32 {
    for shift in [16, 8, 4, 2] {
        number ^= number >> shift;
    }
    number & 0xff
}

/// The durability rule of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Persist {
    /// The point at which a write is durable.
    pub point: Point,
}

/// A point on a write's path at which it can become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Point {
    /// A memory controller with a battery-backed queue has accepted the write.
    Accepted,
    /// The memory array has the write.
    Media,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaving_is_a_bijection_that_spreads_records() {
        for channels in 1..=7 {
            for hash in [false, true] {
                let lines = Interleaving { channels, hash };
                let mut of = vec![0; channels as usize];
                for line in 0..channels * 4096 {
                    let channel = lines.channel(line);
                    assert_eq!(lines.line(channel, lines.local(line)), line);
                    // The first lines of records of a group's size.
                    of[channel as usize] += u32::from(line % channels == 0);
                }
                let most = of.iter().max().expect("a channel");
                let even = 4096 / channels;
                assert!(if hash { *most < even + even / 8 + 2 } else { *most == 4096 }, "{of:?}");
            }
        }
    }
}
