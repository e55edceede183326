//! The timing parameters of a channel.

use crate::machine::when::Time;

/// The number of a memory line.
pub type Line = u64;

/// The timing parameters of a channel's banks. A constraint of 0 does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The number of banks.
    pub banks: u64,
    /// Ranks, each with an equal part of the banks.
    pub ranks: u64,
    /// Groups of banks of a rank; neighbouring banks are in different ones.
    pub groups: u64,
    /// Lines per row.
    pub row_lines: u64,
    /// Consecutive lines in one bank before the next bank follows. All of them share a row.
    pub interleave_lines: u64,
    /// Latency of a read from its start to its burst, when its row is open.
    pub read_hit: Time,
    /// The same when the row is closed.
    pub read_miss: Time,
    /// Latency of a write from the end of its burst until the array has it, when its row is open.
    pub write_hit: Time,
    /// The same when the row is closed.
    pub write_miss: Time,
    /// A write keeps its bank until the array has it, whatever row is open. Otherwise it changes
    /// the open row, and its burst follows its command as a read's does.
    pub write_keeps_bank: bool,
    /// Bus time of one line: the least distance of column commands.
    pub burst: Time,
    /// The least distance of column commands in a group of banks (tCCD_L).
    pub ccd_l: Time,
    /// The least distance of activations in a rank (tRRD_S).
    pub rrd_s: Time,
    /// The same in a group of banks (tRRD_L).
    pub rrd_l: Time,
    /// The least time for five activations in a rank (tFAW).
    pub faw: Time,
    /// The least distance of activations of a bank (tRC, which is tRAS + tRP).
    pub rc: Time,
    /// From a read to the next activation of its bank (tRTP).
    pub rtp: Time,
    /// From the end of a write's burst to a read (tWTR_S).
    pub wtr_s: Time,
    /// The same in a group of banks (tWTR_L).
    pub wtr_l: Time,
    /// From a read to a write.
    pub rtw: Time,
    /// The period of refreshes (tREFI); 0 for none.
    pub refi: Time,
    /// The length of a refresh (tRFC).
    pub rfc: Time,
    /// Latency of a read that is forwarded from the write queue.
    pub forward: Time,
}

impl Timing {
    /// Returns the time from an activation to a column command.
    pub(super) fn activation(&self) -> Time {
        self.read_miss - self.read_hit
    }
}
