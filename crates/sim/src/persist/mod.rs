//! What survives a power cut: when it changes, what it is at any cycle, and what recovery makes of
//! it.
//!
//! ```text
//!   Trace: every change, and its time --prefix up to a cut--> Failing --> Persistent --recover-->
//! ```
//! Everything here follows from the [`Trace`] of one run, so thousands of cuts cost one
//! simulation. A design's batteries get a [`Failing`], its recovery a [`Persistent`], and neither
//! anything else: what was volatile is out of their reach.

pub mod history;
pub mod requests;
mod state;

pub use history::History;
pub use state::{Cut, Failing, Persistent, Queued};
pub(crate) use state::{Done, Powered};

use crate::machine::controller::Id;
use crate::machine::memory::LineWords;
use crate::machine::when::Time;

/// One change of what may survive a power cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A controller has accepted a write: it has a slot.
    Accepted {
        /// Which channel's.
        channel: u8,
        /// The write.
        queued: Queued,
    },
    /// The write in this slot was given other words.
    Merged {
        /// Which channel's.
        channel: u8,
        /// The slot's write.
        into: Id,
        /// Its words from here on.
        payload: LineWords,
    },
    /// The array has a line; its slot is free.
    Durable {
        /// Which channel's.
        channel: u8,
        /// Which write.
        id: Id,
        /// Which line.
        line: u32,
        /// Its words.
        payload: LineWords,
    },
    /// A cache that is persistent has a line.
    Kept {
        /// The line; it is numbered.
        queued: Queued,
    },
    /// It has it no longer.
    Dropped {
        /// Which one.
        number: u64,
    },
    /// A persistent register of the design.
    Register {
        /// Which one: a bank, and an index in it.
        at: (u32, u32),
        /// Its value from here on.
        value: u64,
    },
}

/// All changes, in the order in which they happened.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    changes: Vec<(Time, Change)>,
    /// Where a design did what it does rarely: its name for that, from when and until when.
    rare: Vec<(&'static str, Time, Time)>,
}

impl Trace {
    /// One more.
    pub fn push(&mut self, time: Time, change: Change) {
        debug_assert!(self.changes.last().is_none_or(|last| last.0 <= time), "in order");
        self.changes.push((time, change));
    }

    /// All of them.
    pub fn changes(&self) -> &[(Time, Change)] {
        &self.changes
    }

    /// A design did something that it does rarely, from `from` until `until`.
    pub fn rare(&mut self, name: &'static str, from: Time, until: Time) {
        self.rare.push((name, from, until));
    }

    /// All of that.
    pub fn rare_paths(&self) -> &[(&'static str, Time, Time)] {
        &self.rare
    }
}
