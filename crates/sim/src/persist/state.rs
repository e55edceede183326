//! What is persistent at a moment, and how recovery changes it.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use thiserror::Error;

use super::Change;
use crate::machine::controller::Id;
use crate::machine::memory::LineWords;

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

/// What is persistent: lines, registers, and what batteries have saved of the controllers' queues.
///
/// Recovery's changes lie over what the array had, and can be dropped.
#[derive(Clone, Debug)]
pub struct Persistent {
    /// What the array has.
    nvm: Vec<u64>,
    /// Lines that were changed since power was cut.
    changed: FxHashMap<u32, LineWords>,
    /// Each channel's slots.
    queues: Vec<Vec<Queued>>,
    /// What a persistent cache has, by number.
    kept: BTreeMap<u64, Queued>,
    registers: FxHashMap<(u32, u32), u64>,
    /// Each channel's writes that a battery has put aside, oldest first.
    saved: Vec<Vec<Queued>>,
    /// Steps of recovery that are left until power is cut again.
    left: u64,
    steps: u64,
}

impl Persistent {
    /// The state before the first change.
    pub fn new(nvm: Vec<u64>, channels: usize) -> Persistent {
        Persistent {
            nvm,
            changed: FxHashMap::default(),
            queues: vec![Vec::new(); channels],
            kept: BTreeMap::new(),
            registers: FxHashMap::default(),
            saved: vec![Vec::new(); channels],
            left: u64::MAX,
            steps: 0,
        }
    }

    /// A change happens, while there is power.
    pub fn apply(&mut self, change: &Change) {
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

    /// What recovery sees when power is cut now: a copy of all but the array, which stays where it
    /// is until [`back`](Persistent::back) gives it back.
    pub fn cut(&mut self) -> Persistent {
        Persistent {
            nvm: std::mem::take(&mut self.nvm),
            changed: FxHashMap::default(),
            queues: self.queues.clone(),
            kept: self.kept.clone(),
            registers: self.registers.clone(),
            saved: vec![Vec::new(); self.queues.len()],
            left: u64::MAX,
            steps: 0,
        }
    }

    /// Takes the array back from a state that [`cut`](Persistent::cut) has made.
    pub fn back(&mut self, cut: Persistent) {
        self.nvm = cut.nvm;
    }

    // What batteries do when power fails, and recovery.

    /// Each controller's slots, for whoever decides what its battery saves of them: they are empty
    /// afterwards.
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
        self.saved[channel].push(queued);
    }

    /// A battery writes a line to the array.
    pub fn save_home(&mut self, line: u32, payload: LineWords) {
        self.changed.insert(line, payload);
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
        self.saved.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// Channels.
    pub fn channels(&self) -> usize {
        self.queues.len()
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
        self.registers.insert(at, value);
        Ok(())
    }

    fn step(&mut self) -> Result<(), Cut> {
        if self.left == 0 {
            return Err(Cut);
        }
        self.left -= 1;
        self.steps += 1;
        Ok(())
    }

    /// Power is cut again after so many steps.
    pub fn cut_after(&mut self, steps: u64) {
        self.left = steps;
        self.steps = 0;
    }

    /// Steps since [`cut_after`](Persistent::cut_after), or since power was cut.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Lines that were changed since power was cut.
    pub fn changed(&self) -> impl Iterator<Item = u32> {
        self.changed.keys().copied()
    }

    /// What the array had when power was cut.
    pub fn array(&self) -> &[u64] {
        &self.nvm
    }
}
