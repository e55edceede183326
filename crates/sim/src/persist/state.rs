//! The persistent state at a cut, the work of batteries, and the changes by recovery.
//!
//! ```text
//!   Powered --cut--> Failing: slots, a cache --batteries are empty--> Persistent --> recovery
//! ```
//! Each stage has a type of its own. Recovery cannot read slots or a cache, and cannot save
//! anything. The work of batteries is no step of recovery.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rustc_hash::FxHashMap;
use thiserror::Error;

use super::Change;
use crate::machine::controller::Id;
use crate::machine::description::Point;
use crate::machine::memory::LineWords;
use crate::machine::sparse::{Pages, Sparse};

/// A write in a controller's slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its number; younger writes have larger numbers.
    pub id: Id,
    /// Its line.
    pub line: u32,
    /// The transaction of the write; 0 for none.
    pub owner: u64,
    /// Its words.
    pub payload: LineWords,
}

/// The error of a recovery that is itself cut by a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("power was cut")]
pub struct Cut;

/// State that is persistent or battery-backed, while there is power.
#[derive(Clone, Debug)]
pub(crate) struct Powered {
    /// The array.
    nvm: Sparse,
    /// The slots of each channel.
    queues: Vec<Vec<Queued>>,
    /// The lines of a persistent cache, by number.
    kept: BTreeMap<u64, Queued>,
    registers: FxHashMap<(u32, u32), u64>,
}

impl Powered {
    /// Returns the state of a machine before its first change.
    pub(crate) fn new(before: Persistent) -> Powered {
        let Persistent { nvm, changed, registers, saved, .. } = before;
        debug_assert!(changed.is_empty(), "recovery's changes are merged into the array first");
        let queues = vec![Vec::new(); saved.len()];
        Powered { nvm, queues, kept: BTreeMap::new(), registers }
    }

    /// Applies a change.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Accepted { channel, queued } => {
                self.queues[usize::from(*channel)].push(queued.clone());
            }
            Change::Merged { channel, into, payload } => {
                let queue = &mut self.queues[usize::from(*channel)];
                let slot = queue.iter_mut().find(|queued| queued.id == *into);
                slot.expect("it has a slot").payload = *payload;
            }
            Change::Durable { channel, id, line, payload } => {
                self.queues[usize::from(*channel)].retain(|queued| queued.id != *id);
                self.nvm.set_line(*line, payload);
            }
            Change::Kept { queued } => drop(self.kept.insert(queued.id, queued.clone())),
            Change::Dropped { number } => drop(self.kept.remove(number)),
            Change::Register { at, value } => drop(self.registers.insert(*at, *value)),
        }
    }

    /// Cuts power: returns a copy of everything except for the array, which moves into the result
    /// until [`back`](Powered::back). Slots are included only where a write is durable from
    /// `Accepted` on; those of other controllers are volatile, and no design may see them.
    pub(crate) fn cut(&mut self, persistent_from: Point) -> Failing {
        let queues = match persistent_from {
            Point::Accepted => self.queues.clone(),
            Point::Media => vec![Vec::new(); self.queues.len()],
        };
        let mut after = Persistent::new(std::mem::take(&mut self.nvm), queues.len());
        after.registers.clone_from(&self.registers);
        Failing { queues, kept: self.kept.clone(), after }
    }

    /// Takes the array back from a state that began with [`cut`](Powered::cut).
    pub(crate) fn back(&mut self, cut: Persistent) {
        self.nvm = cut.nvm;
    }
}

/// The state during a power failure. Batteries save parts of it, without interruption.
#[derive(Clone, Debug)]
pub struct Failing {
    queues: Vec<Vec<Queued>>,
    kept: BTreeMap<u64, Queued>,
    after: Persistent,
}

impl Failing {
    /// Takes the battery-backed slots of each controller, for the code that decides which writes to
    /// save.
    pub fn take_queues(&mut self) -> Vec<Vec<Queued>> {
        let empty = vec![Vec::new(); self.queues.len()];
        std::mem::replace(&mut self.queues, empty)
    }

    /// Takes the lines of a persistent cache, oldest first.
    pub fn take_kept(&mut self) -> Vec<Queued> {
        std::mem::take(&mut self.kept).into_values().collect()
    }

    /// Saves a write separately from the array, after those that were saved before.
    pub fn save(&mut self, channel: usize, queued: Queued) {
        self.after.saved[channel].push(queued);
    }

    /// Saves a line to the array.
    pub fn save_line(&mut self, line: u32, payload: LineWords) {
        self.after.change(line, payload);
    }

    /// Ends the power failure. Everything that the batteries have not saved is lost.
    pub(crate) fn over(self) -> Persistent {
        self.after
    }
}

/// The state that recovery receives: lines, registers, and the writes that batteries have saved.
/// Each change is a step at which power can fail again.
///
/// Changes form an overlay over the array, which can be dropped.
#[derive(Clone, Debug)]
pub struct Persistent {
    /// The array.
    nvm: Sparse,
    /// Lines that were changed after the power failure.
    changed: FxHashMap<u32, LineWords>,
    /// The pages of these lines. Most lines are on none of them and need no look-up.
    changed_in: Pages,
    registers: FxHashMap<(u32, u32), u64>,
    /// The writes of each channel that a battery has saved, oldest first.
    saved: Vec<Vec<Queued>>,
    /// The number of steps until the next power failure.
    left: u64,
    /// A summary of the steps since the last [`cut_after`](Persistent::cut_after).
    done: Done,
}

/// The changes since the power failure. Two states with equal arrays and overlays are equal.
#[derive(Debug)]
pub(crate) struct Overlay {
    changed: FxHashMap<u32, LineWords>,
    registers: FxHashMap<(u32, u32), u64>,
    saved: Vec<Vec<Queued>>,
}

/// A summary of a recovery.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    /// The number of steps.
    pub(crate) steps: u64,
    /// Lines that were written.
    pub(crate) wrote: BTreeSet<u32>,
    /// A register whose value changed.
    pub(crate) set: Option<(u32, u32)>,
    /// Saved writes were cleared.
    pub(crate) forgot: bool,
}

impl Persistent {
    /// Returns an unchanged state with these lines, for a machine with so many channels.
    pub(crate) fn new(nvm: impl Into<Sparse>, channels: usize) -> Persistent {
        Persistent {
            nvm: nvm.into(),
            changed: FxHashMap::default(),
            changed_in: Pages::default(),
            registers: FxHashMap::default(),
            saved: vec![Vec::new(); channels],
            left: u64::MAX,
            done: Done::default(),
        }
    }

    /// Returns a state with the same registers and other lines.
    pub(crate) fn with_lines(&self, nvm: Sparse) -> Persistent {
        let registers = self.registers.clone();
        Persistent { registers, ..Persistent::new(nvm, self.saved.len()) }
    }

    /// Returns the current value of all lines.
    pub(crate) fn words(&self) -> Sparse {
        let mut words = Sparse::default();
        self.words_into(&mut words);
        words
    }

    /// Writes the current value of all lines over these words.
    pub(crate) fn words_into(&self, words: &mut Sparse) {
        self.nvm.copy_over(words);
        // Batteries also save writes to volatile lines, which are not in `words`.
        self.changed.iter().for_each(|(line, changed)| words.set_line(*line, changed));
    }

    /// Returns the pages of the array that may have words other than the blank ones.
    pub(crate) fn used(&self) -> Pages {
        let mut used = self.nvm.used().clone();
        used.add_all(&self.changed_in);
        used
    }

    /// Returns a copy of the changes since the power failure.
    pub(crate) fn overlay(&self) -> Overlay {
        let Persistent { changed, registers, saved, .. } = self;
        Overlay { changed: changed.clone(), registers: registers.clone(), saved: saved.clone() }
    }

    /// Whether the changes since the power failure are these.
    pub(crate) fn has_overlay(&self, other: &Overlay) -> bool {
        let Overlay { changed, registers, saved } = other;
        self.changed == *changed && self.registers == *registers && self.saved == *saved
    }

    /// Returns the array.
    pub(crate) fn into_lines(self) -> Sparse {
        self.nvm
    }

    /// Returns a copy of the first lines as they were before recovery.
    pub(crate) fn first_lines(&self, lines: u32) -> Sparse {
        self.nvm.copy(lines as usize * 8)
    }

    /// Returns the writes that a channel's battery has saved, oldest first.
    pub fn saved(&self, channel: usize) -> &[Queued] {
        &self.saved[channel]
    }

    /// Clears all saved writes: one step.
    ///
    /// # Errors
    /// [`Cut`].
    pub fn clear_saved(&mut self) -> Result<(), Cut> {
        self.step()?;
        self.done.forgot |= self.saved.iter().any(|saved| !saved.is_empty());
        self.saved.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// Returns the number of channels.
    pub fn channels(&self) -> usize {
        self.saved.len()
    }

    /// Returns a line.
    pub fn line(&self, line: u32) -> LineWords {
        if self.changed_in.has_word(line as usize * 8)
            && let Some(changed) = self.changed.get(&line)
        {
            return *changed;
        }
        self.nvm.line(line).expect("the array has the line")
    }

    /// Returns the lines of a range that may not be blank, in order.
    pub fn used_lines(&self, lines: Range<u32>) -> Vec<u32> {
        let is_used = |word| self.nvm.used().has_word(word) || self.changed_in.has_word(word);
        lines.filter(|line| is_used(*line as usize * 8)).collect()
    }

    /// Writes a line: one step.
    ///
    /// # Errors
    /// [`Cut`].
    pub fn set_line(&mut self, line: u32, words: LineWords) -> Result<(), Cut> {
        self.step()?;
        self.done.wrote.insert(line);
        self.change(line, words);
        Ok(())
    }

    /// Returns a register, which is 0 when it was never set.
    pub fn register(&self, at: (u32, u32)) -> u64 {
        self.registers.get(&at).copied().unwrap_or(0)
    }

    /// Sets a register: one step.
    ///
    /// # Errors
    /// [`Cut`].
    pub fn set_register(&mut self, at: (u32, u32), value: u64) -> Result<(), Cut> {
        self.step()?;
        if self.registers.insert(at, value).unwrap_or(0) != value {
            self.done.set = Some(at);
        }
        Ok(())
    }

    fn change(&mut self, line: u32, words: LineWords) {
        self.changed_in.add_word(line as usize * 8);
        self.changed.insert(line, words);
    }

    fn step(&mut self) -> Result<(), Cut> {
        if self.left == 0 {
            return Err(Cut);
        }
        self.left -= 1;
        self.done.steps += 1;
        Ok(())
    }

    /// Makes power fail again after so many steps, and clears the summary.
    pub(crate) fn cut_after(&mut self, steps: u64) {
        self.left = steps;
        self.done = Done::default();
    }

    /// Returns the summary since [`cut_after`](Persistent::cut_after), or since the power failure.
    pub(crate) fn done(&self) -> &Done {
        &self.done
    }

    /// Iterates over the lines that were changed after the power failure.
    pub(crate) fn changed(&self) -> impl Iterator<Item = u32> {
        self.changed.keys().copied()
    }
}
