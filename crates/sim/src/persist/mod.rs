//! The persistent state: its changes, its value at any cycle, and its form for recovery.
//!
//! ```text
//!   Trace: every change, and its time --prefix up to a cut--> Failing --> Persistent --recover-->
//! ```
//! The state at any cycle follows from the [`Trace`] of one run, so thousands of cuts cost a single
//! simulation. A design's batteries get a [`Failing`] and its recovery a [`Persistent`], and
//! nothing else: volatile state is out of their reach.

pub mod history;
pub mod requests;
mod state;

pub use history::History;
pub use state::{Cut, Failing, Persistent, Queued};
pub(crate) use state::{Done, Powered};

use crate::machine::controller::Id;
use crate::machine::memory::LineWords;
use crate::machine::when::Time;

/// A change of the state that may survive a power failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A controller has accepted a write into a slot.
    Accepted {
        /// The controller's channel.
        channel: u8,
        /// The write.
        queued: Queued,
    },
    /// The write in a slot has got other words.
    Merged {
        /// The controller's channel.
        channel: u8,
        /// The slot's write.
        into: Id,
        /// Its new words.
        payload: LineWords,
    },
    /// The array has a line, and its slot is free.
    Durable {
        /// The controller's channel.
        channel: u8,
        /// The write.
        id: Id,
        /// The line.
        line: u32,
        /// The words.
        payload: LineWords,
    },
    /// A persistent cache has got a line.
    Kept {
        /// The line, with its number.
        queued: Queued,
    },
    /// A persistent cache has dropped a line.
    Dropped {
        /// The line's number.
        number: u64,
    },
    /// A persistent register of the design has changed.
    Register {
        /// The register: its bank, and its index in that.
        at: (u32, u32),
        /// Its new value.
        value: u64,
    },
}

/// All changes in order of time.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    changes: Vec<(Time, Change)>,
    /// Uses of the design's rare paths: the path's name, the start and the end.
    rare: Vec<(&'static str, Time, Time)>,
}

impl Trace {
    /// Appends a change.
    pub fn push(&mut self, time: Time, change: Change) {
        debug_assert!(self.changes.last().is_none_or(|last| last.0 <= time), "in order");
        self.changes.push((time, change));
    }

    /// Returns all changes.
    pub fn changes(&self) -> &[(Time, Change)] {
        &self.changes
    }

    /// Records that a rare path of the design was in use from `from` to `until`.
    pub fn rare(&mut self, name: &'static str, from: Time, until: Time) {
        self.rare.push((name, from, until));
    }

    /// Returns all uses of rare paths.
    pub fn rare_paths(&self) -> &[(&'static str, Time, Time)] {
        &self.rare
    }
}
