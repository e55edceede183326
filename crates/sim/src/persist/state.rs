//! What is persistent at a moment, what batteries save of it, and how recovery changes it.
//!
//! ```text
//!   Powered --cut--> Failing: slots, a cache --batteries are empty--> Persistent --> recovery
//! ```
//! Each moment has a type of its own: recovery has no slots and no cache that it could look into,
//! and can save nothing; and what batteries do is no step of recovery.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use thiserror::Error;

use super::Change;
use crate::machine::controller::Id;
use crate::machine::description::Point;
use crate::machine::memory::{LineWords, copy_of};

/// A write that has a slot in a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its number: younger ones have larger numbers.
    pub id: Id,
    /// Its line.
    pub line: u32,
    /// The transaction whose write it is; 0: nobody's.
    pub owner: u64,
    /// Its words.
    pub payload: LineWords,
}

/// Power was cut again, during recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("power was cut")]
pub struct Cut;

/// What is persistent, or has a battery, while there is power.
#[derive(Clone, Debug)]
pub(crate) struct Powered {
    /// What the array has.
    nvm: Vec<u64>,
    /// Each channel's slots.
    queues: Vec<Vec<Queued>>,
    /// What a persistent cache has, by number.
    kept: BTreeMap<u64, Queued>,
    registers: FxHashMap<(u32, u32), u64>,
}

impl Powered {
    /// The state before the first change of a machine that begins with this.
    pub(crate) fn new(before: Persistent) -> Powered {
        let Persistent { nvm, changed, registers, saved, .. } = before;
        debug_assert!(changed.is_empty(), "no recovery's changes lie over it");
        let queues = vec![Vec::new(); saved.len()];
        Powered { nvm, queues, kept: BTreeMap::new(), registers }
    }

    /// A change happens.
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
                let first = *line as usize * 8;
                if let Some(words) = self.nvm.get_mut(first..first + 8) {
                    words.copy_from_slice(payload);
                }
            }
            Change::Kept { queued } => drop(self.kept.insert(queued.id, queued.clone())),
            Change::Dropped { number } => drop(self.kept.remove(number)),
            Change::Register { at, value } => drop(self.registers.insert(*at, *value)),
        }
    }

    /// Power is cut now: a copy of all but the array, which stays where it is until
    /// [`back`](Powered::back) gives it back. Slots are a part of it only where writes count from
    /// there on: those of other controllers are volatile, and no design gets to see them.
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

/// The moment when power fails: batteries save what they can, and nothing interrupts them.
#[derive(Clone, Debug)]
pub struct Failing {
    queues: Vec<Vec<Queued>>,
    kept: BTreeMap<u64, Queued>,
    after: Persistent,
}

impl Failing {
    /// Each controller's slots, if it has a battery, for whoever decides what that saves of them:
    /// they are empty afterwards.
    pub fn take_queues(&mut self) -> Vec<Vec<Queued>> {
        let empty = vec![Vec::new(); self.queues.len()];
        std::mem::replace(&mut self.queues, empty)
    }

    /// What a persistent cache has, oldest first: it is empty afterwards.
    pub fn take_kept(&mut self) -> Vec<Queued> {
        std::mem::take(&mut self.kept).into_values().collect()
    }

    /// A battery puts a write aside, behind those that it has put aside before.
    pub fn save(&mut self, channel: usize, queued: Queued) {
        self.after.saved[channel].push(queued);
    }

    /// A battery writes a line to the array.
    pub fn save_home(&mut self, line: u32, payload: LineWords) {
        self.after.changed.insert(line, payload);
    }

    /// The batteries are empty. What they have not saved is lost.
    pub(crate) fn over(self) -> Persistent {
        self.after
    }
}

/// What recovery gets: lines, registers, and what batteries have saved. Each change of it is a step
/// at which power can be cut again.
///
/// Its changes lie over what the array had, and can be dropped.
#[derive(Clone, Debug)]
pub struct Persistent {
    /// What the array has.
    nvm: Vec<u64>,
    /// Lines that were changed since power was cut.
    changed: FxHashMap<u32, LineWords>,
    registers: FxHashMap<(u32, u32), u64>,
    /// Each channel's writes that a battery has put aside, oldest first.
    saved: Vec<Vec<Queued>>,
    /// Steps of recovery that are left until power is cut again.
    left: u64,
    /// What recovery has done since somebody looked.
    done: Done,
}

/// What a recovery has done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    /// Its steps.
    pub(crate) steps: u64,
    /// Lines that it has written.
    pub(crate) wrote: BTreeSet<u32>,
    /// A register was given another value.
    pub(crate) set: Option<(u32, u32)>,
    /// Something had been put aside.
    pub(crate) forgot: bool,
}

impl Persistent {
    /// Lines that nobody has written, of a machine with so many channels.
    pub(crate) fn new(nvm: Vec<u64>, channels: usize) -> Persistent {
        Persistent {
            nvm,
            changed: FxHashMap::default(),
            registers: FxHashMap::default(),
            saved: vec![Vec::new(); channels],
            left: u64::MAX,
            done: Done::default(),
        }
    }

    /// The same registers with these lines.
    pub(crate) fn with_lines(&self, nvm: Vec<u64>) -> Persistent {
        let registers = self.registers.clone();
        Persistent { registers, ..Persistent::new(nvm, self.saved.len()) }
    }

    /// All lines as they are.
    pub(crate) fn words(&self) -> Vec<u64> {
        let mut words = copy_of(&self.nvm, self.nvm.len());
        for (line, changed) in &self.changed {
            let first = *line as usize * 8;
            // Batteries save writes of volatile lines, too.
            if let Some(words) = words.get_mut(first..first + 8) {
                words.copy_from_slice(changed);
            }
        }
        words
    }

    /// Its first lines as they were before recovery.
    pub(crate) fn first_lines(&self, lines: u32) -> &[u64] {
        &self.nvm[..lines as usize * 8]
    }

    /// What a channel's battery has put aside, oldest first.
    pub fn saved(&self, channel: usize) -> &[Queued] {
        &self.saved[channel]
    }

    /// Forgets all that batteries have put aside: one step.
    ///
    /// # Errors
    /// [`Cut`].
    pub fn clear_saved(&mut self) -> Result<(), Cut> {
        self.step()?;
        self.done.forgot |= self.saved.iter().any(|saved| !saved.is_empty());
        self.saved.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// Channels.
    pub fn channels(&self) -> usize {
        self.saved.len()
    }

    /// A line.
    pub fn line(&self, line: u32) -> LineWords {
        if let Some(changed) = self.changed.get(&line) {
            return *changed;
        }
        let first = line as usize * 8;
        self.nvm[first..first + 8].try_into().expect("a line has eight words")
    }

    /// Writes a line: one step.
    ///
    /// # Errors
    /// [`Cut`].
    pub fn set_line(&mut self, line: u32, words: LineWords) -> Result<(), Cut> {
        self.step()?;
        self.done.wrote.insert(line);
        self.changed.insert(line, words);
        Ok(())
    }

    /// A register; 0 when it was never set.
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

    fn step(&mut self) -> Result<(), Cut> {
        if self.left == 0 {
            return Err(Cut);
        }
        self.left -= 1;
        self.done.steps += 1;
        Ok(())
    }

    /// Power is cut again after so many steps.
    pub(crate) fn cut_after(&mut self, steps: u64) {
        self.left = steps;
        self.done = Done::default();
    }

    /// What was done since [`cut_after`](Persistent::cut_after), or since power was cut.
    pub(crate) fn done(&self) -> &Done {
        &self.done
    }

    /// Lines that were changed since power was cut.
    pub(crate) fn changed(&self) -> impl Iterator<Item = u32> {
        self.changed.keys().copied()
    }
}
