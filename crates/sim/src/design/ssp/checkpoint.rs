//! Checkpoints: the persistent SSP cache adopts the journal's records, so that journal space can be
//! reused.
//!
//! ```text
//!   journal is half full -> all before its head is durable -> slots that changed are written
//!     -> they are durable -> the tail becomes that head -> it is durable: room
//! ```
//! A slot is written once, in its state at that time, however often it changed. Recovery derives
//! from its version which records it includes. If power fails before the tail moves, recovery sees
//! older records again. Pages that changed places twice must not be swapped back by the first of
//! two such records.

use std::collections::{BTreeSet, VecDeque};

use super::{SLOT_TAG, Ssp, TAIL_TAG, consolidation, journal};
use crate::machine::controller::{Class, Write};
use crate::machine::when::Time;
use crate::machine::{Machine, Notify};
use crate::mutants::{Mutant, injected};

/// Writes that the engine has in flight at a time: the outstanding misses of its core.
const WINDOW: usize = 16;

/// State of checkpoints.
#[derive(Debug)]
pub(super) struct Checkpoint {
    /// Slots that have changed since the last checkpoint, by the first slot of each line.
    pub(super) changed: BTreeSet<u32>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    since: Time,
    /// The journal's head, and the first group that is not needed.
    head: u64,
    groups: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Waits until the groups before the head are durable.
    Journal,
    /// Writes slots: those that remain, and the number in flight.
    Slots(VecDeque<u32>, usize),
    /// Writes the tail.
    Tail,
}

impl Checkpoint {
    pub(super) fn new() -> Checkpoint {
        Checkpoint { changed: BTreeSet::new(), running: None }
    }
}

/// Starts a checkpoint when half of the journal is used, or records wait for room.
pub(super) fn begin_if_due(machine: &mut Machine<Ssp>) {
    let since = machine.now();
    let Ssp { journal, checkpoint, layout, .. } = &mut machine.design;
    let is_due = 2 * journal.used() >= u64::from(layout.journal.lines()) || journal.is_stuck();
    if checkpoint.running.is_some() || !is_due {
        return;
    }
    journal.end_line();
    let (head, groups) = (journal.head, journal.next_group());
    checkpoint.running = Some(Running { since, head, groups, stage: Stage::Journal });
    go_on(machine);
}

/// Continues the checkpoint once the journal up to its head is durable.
pub(super) fn go_on(machine: &mut Machine<Ssp>) {
    let now = machine.now();
    let Ssp { journal, checkpoint, consolidation, .. } = &mut machine.design;
    let Some(running) = &mut checkpoint.running else { return };
    if matches!(running.stage, Stage::Journal) && journal.is_durable(running.groups) {
        consolidation::is_checkpointed(consolidation, now);
        let changed = std::mem::take(&mut checkpoint.changed);
        running.stage = Stage::Slots(changed.into_iter().collect(), 0);
        write_slots(machine);
    }
}

/// Writes slots, up to the window. When all are durable, writes the tail.
fn write_slots(machine: &mut Machine<Ssp>) {
    loop {
        let Ssp { checkpoint, cache, layout, .. } = &mut machine.design;
        let Some(Running { stage: Stage::Slots(left, in_flight), .. }) = &mut checkpoint.running
        else {
            return;
        };
        if *in_flight == WINDOW {
            return;
        }
        let Some(first) = left.pop_front() else {
            let durable = *in_flight == 0 || injected(Mutant::SspTailFirst);
            return if durable {
                write_tail(machine)
            };
        };
        *in_flight += 1;
        let mut words = [0; 8];
        let pair = [first, first + 1].into_iter().filter(|slot| *slot < layout.slots);
        for (half, slot) in words.chunks_mut(4).zip(pair) {
            half.copy_from_slice(&cache.slots[slot as usize].lasting().words());
        }
        let line = layout.slot_line(first);
        write(machine, line, words, SLOT_TAG);
    }
}

fn write(machine: &mut Machine<Ssp>, line: u32, words: [u64; 8], tag: u64) {
    let write = Write::new(u64::from(line), words, Class::Checkpoint);
    let (home, now) = (machine.home_tile(line), machine.now());
    machine.write_line(write, home, now, Notify::Design(0, tag));
}

fn write_tail(machine: &mut Machine<Ssp>) {
    let running = machine.design.checkpoint.running.as_mut().expect("a checkpoint is running");
    running.stage = Stage::Tail;
    let (head, line) = (running.head, machine.design.layout.tail);
    if injected(Mutant::SspReusedEarly) {
        machine.design.journal.tail = head;
    }
    write(machine, line, [head, 0, 0, 0, 0, 0, 0, 0], TAIL_TAG);
}

/// Notes that a line of slots is durable.
pub(super) fn slots_are_written(machine: &mut Machine<Ssp>) {
    if let Some(Running { stage: Stage::Slots(_, in_flight), .. }) =
        &mut machine.design.checkpoint.running
    {
        *in_flight -= 1;
    }
    write_slots(machine);
}

/// Ends the checkpoint after the tail is durable, and frees journal space.
pub(super) fn tail_is_written(machine: &mut Machine<Ssp>) {
    let running = machine.design.checkpoint.running.take().expect("a checkpoint is running");
    let now = machine.now();
    machine.rare(super::CHECKPOINT, running.since, now);
    machine.counts.add(super::CHECKPOINTS, 1);
    machine.design.journal.tail = running.head;
    journal::append_waiting(machine);
    begin_if_due(machine);
}

/// Notes that a slot's record is durable.
pub(super) fn changed(checkpoint: &mut Checkpoint, slot: u32) {
    checkpoint.changed.insert(slot & !1);
}
