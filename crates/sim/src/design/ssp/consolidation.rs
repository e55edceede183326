//! Consolidation: a page that nobody uses any more gets all its lines into one of its two pages, in
//! the background.
//!
//! ```text
//!   queue -> batch: lines copied -> durable
//!     -> told: journal -> durable -> page table -> durable: free
//! ```
//! The page that has more of the lines is kept; the others are copied into it. Only places that
//! have no committed line are written, so power may fail at any of it: until the journal's record
//! is durable the page is what it was, and from then on its lines are all in the page that is kept.
//! If that was the second one, the pages have changed places, and the page table is told; until
//! that is durable the slot has no other page, so recovery finds the entry that still names the
//! spare one.
//!
//! The next batch begins when the copies of one are durable. Its records may be too few for a line
//! of the journal, which keeps them until others come: if the next pages waited for that, nobody's
//! records would come where transactions leave no room in their lines, and pages would pile up.
//! Batches have their records appended in order, and are told to the page table in order.
//!
//! A batch's records become durable in parts. Each of them says all of its slot, so the slot is
//! what its record says as soon as that is durable, bits and pages at once: a checkpoint may come
//! before the next part, write the slot, and leave the record behind the tail. Only the page table
//! waits for the whole batch, since pages share its lines; the slots are the batch's until then.
//!
//! The pages that wait are done together: their records share lines of the journal, with those of
//! commits too, and their entries those of the page table. Nobody waits for them but who asks for
//! one of the pages: then their records hurry. (The paper has a thread of the operating system do
//! it, on a core that runs nothing that is measured; here it is an engine whose traffic alone is
//! seen.)

use std::collections::VecDeque;

use super::journal::{self, Whose};
use super::layout::{Layout, Record};
use super::pages::Pages;
use super::{CONSOLIDATES, COPY_TAG, PARTS, Ssp, TABLE, TABLE_TAG};
use crate::machine::controller::{Class, Write};
use crate::machine::tlb::PAGE_LINES;
use crate::machine::when::{Time, When};
use crate::machine::{Machine, Tell};
use crate::mutants::{Mutant, planted};

/// Pages that are done together, at most: as many as a core's TLB of the paper has. Their records
/// take no more than a quarter of the journal.
const PAGES: usize = 64;

/// Lines that are read at a time: the misses of a core.
const WINDOW: usize = 16;

/// The number of the engine.
pub(super) const ENGINE: usize = 0;

/// The engine.
#[derive(Debug, Default)]
pub(super) struct Consolidation {
    /// The batch whose lines are being copied.
    batch: Option<Batch>,
    /// Batches of which the journal is told, oldest first; only the first one is being written to
    /// the page table.
    told: VecDeque<Batch>,
    /// Told when a batch is done, if somebody waits for that.
    done: Option<When>,
}

/// Pages that are being brought together.
#[derive(Debug)]
struct Batch {
    since: Time,
    jobs: Vec<Job>,
    /// Copies that are to be made: from, to.
    copies: VecDeque<(u32, u32)>,
    /// Copies whose lines are being read.
    reads: Vec<(u32, u32)>,
    /// Writes that are not durable: of copies, then of the page table.
    writes: usize,
    /// Pages whose records are not durable.
    unknown: usize,
    /// When the journal had it, if pages have changed places.
    journaled: Option<Time>,
    /// When a checkpoint first wrote slots while the journal had a part of it.
    parted: Option<Time>,
}

/// A page.
#[derive(Debug)]
struct Job {
    slot: usize,
    /// The page that is kept.
    target: u32,
}

/// Somebody waits for a page or a slot of a batch: a token that is told when one is done. It may be
/// another one, so who waits looks again.
pub(super) fn done(machine: &mut Machine<Ssp>) -> When {
    journal::hurry(machine);
    match machine.design.consolidation.done {
        Some(done) => done,
        None => {
            let done = machine.open_token();
            machine.design.consolidation.done = Some(done);
            done
        }
    }
}

/// Begins with the pages that wait, unless others are being copied. Whether any are being done.
pub(super) fn begin(machine: &mut Machine<Ssp>) -> bool {
    let since = machine.now();
    let Ssp { consolidation, cache, layout, .. } = &mut machine.design;
    if consolidation.batch.is_some() {
        return true;
    }
    let most = PAGES.min(layout.journal.lines() as usize);
    let (mut jobs, mut copies) = (Vec::new(), VecDeque::new());
    while jobs.len() < most
        && let Some(number) = cache.next_queued()
    {
        let slot = &cache.slots[number];
        let Pages { p0, p1, .. } = slot.pages;
        let in_second = slot.committed.count_ones();
        let keeps_first = in_second <= PAGE_LINES / 2;
        let (from, target, moves) = match keeps_first {
            true => (p1, p0, slot.committed),
            false => (p0, p1, !slot.committed),
        };
        let lines = (0..PAGE_LINES).filter(|at| moves >> at & 1 != 0);
        copies.extend(lines.map(|at| (from * PAGE_LINES + at, target * PAGE_LINES + at)));
        jobs.push(Job { slot: number, target });
    }
    if jobs.is_empty() {
        return !consolidation.told.is_empty();
    }
    let (pages, lines) = (jobs.len() as u64, copies.len() as u64);
    let (reads, unknown) = (Vec::new(), jobs.len());
    let (journaled, parted) = (None, None);
    let batch = Batch { since, jobs, copies, reads, writes: 0, unknown, journaled, parted };
    consolidation.batch = Some(batch);
    machine.counts.add("consolidations", pages);
    machine.counts.add("lines_copied", lines);
    copy(machine);
    true
}

fn batch(machine: &mut Machine<Ssp>) -> &mut Batch {
    machine.design.consolidation.batch.as_mut().expect("pages are being brought together")
}

/// Reads lines, as many as may be under way; when all copies are durable, tells the journal, and
/// goes on with the next pages.
fn copy(machine: &mut Machine<Ssp>) {
    while batch(machine).reads.len() < WINDOW
        && let Some((from, to)) = batch(machine).copies.pop_front()
    {
        if machine.is_cached(from) {
            let there = machine.now() + machine.description.llc.latency;
            write(machine, from, to, there);
        } else {
            batch(machine).reads.push((from, to));
            machine.read_array(from, 0);
        }
    }
    let Batch { since, ref copies, ref reads, writes, .. } = *batch(machine);
    if !copies.is_empty() || !reads.is_empty() || writes > 0 {
        return;
    }
    let now = machine.now();
    machine.rare(CONSOLIDATES, since, now);
    tell(machine);
    let _ = begin(machine);
}

/// The copies of a batch are durable: the journal is told.
fn tell(machine: &mut Machine<Ssp>) {
    let consolidation = &mut machine.design.consolidation;
    let mut batch = consolidation.batch.take().expect("pages are being brought together");
    let (records, hurries) = (records(&batch.jobs), consolidation.done.is_some());
    if planted(Mutant::SspTableFirst) {
        batch.unknown = 0;
        consolidation.told.push_back(batch);
        return table(machine);
    }
    consolidation.told.push_back(batch);
    journal::append_patiently(machine, records);
    if hurries {
        journal::hurry(machine);
    }
}

/// What the journal has to say of pages that were brought together.
fn records(jobs: &[Job]) -> Vec<Record> {
    let record = |job: &Job| {
        let (slot, p0) = (job.slot as u32, job.target);
        Record { slot, p0, committed: 0, last: false, number: 0 }
    };
    jobs.iter().map(record).collect()
}

/// A line that is copied has been read.
pub(super) fn has_read(machine: &mut Machine<Ssp>, line: u32) {
    let reads = &mut batch(machine).reads;
    let at = reads.iter().position(|(from, _)| *from == line).expect("it was asked for");
    let (from, to) = reads.swap_remove(at);
    let now = machine.now();
    write(machine, from, to, now);
    copy(machine);
}

/// Writes a line to where it is kept. Nobody uses its page; copies of what was there are stale.
fn write(machine: &mut Machine<Ssp>, from: u32, to: u32, time: Time) {
    machine.discard(to);
    machine.memory.copy_line(from, to);
    let words = machine.memory.line(to);
    let write = Write::new(u64::from(to), words, Class::Consolidation);
    let home = machine.home(to);
    let waits = !planted(Mutant::SspJournalFirst);
    batch(machine).writes += usize::from(waits);
    let tell = if waits { Tell::Design(0, COPY_TAG) } else { Tell::Nobody };
    machine.write_line(write, home, time, tell);
}

/// A copy is durable.
pub(super) fn is_copied(machine: &mut Machine<Ssp>) {
    batch(machine).writes -= 1;
    copy(machine);
}

/// A bug is planted: slots are what the journal says of them with the whole batch, or before it has
/// that at all.
pub(super) fn is_late() -> bool {
    planted(Mutant::SspSwapsLate) || planted(Mutant::SspTableFirst)
}

/// A checkpoint begins to write slots.
pub(super) fn is_checkpointed(consolidation: &mut Consolidation, now: Time) {
    for batch in &mut consolidation.told {
        if (1..batch.jobs.len()).contains(&batch.unknown) {
            batch.parted.get_or_insert(now);
        }
    }
}

/// The journal has so many records more, those of the oldest batches: of which it has all, the page
/// table is told.
pub(super) fn is_journaled(machine: &mut Machine<Ssp>, mut count: usize) {
    if planted(Mutant::SspTableFirst) {
        return;
    }
    for batch in &mut machine.design.consolidation.told {
        let of_it = count.min(batch.unknown);
        batch.unknown -= of_it;
        count -= of_it;
    }
    debug_assert_eq!(count, 0, "the records of batches come in their order");
    table(machine);
}

/// Writes the page table where pages of the oldest batch have changed places, if the journal has
/// all of that batch and nothing has been written of it.
fn table(machine: &mut Machine<Ssp>) {
    let now = machine.now();
    let Ssp { consolidation, cache, layout, .. } = &mut machine.design;
    let Some(batch) = consolidation.told.front_mut() else { return };
    if batch.unknown > 0 || batch.writes > 0 {
        return;
    }
    let mut lines = Vec::new();
    for Job { slot, target } in &batch.jobs {
        let slot = &mut cache.slots[*slot];
        let page = slot.page.expect("it has one");
        if is_late() {
            slot.is_kept_in(*target);
        }
        if cache.table[page as usize] != *target {
            cache.table[page as usize] = *target;
            lines.push((layout.table_line(page), page));
        }
    }
    lines.sort_unstable();
    lines.dedup_by_key(|(line, _)| *line);
    batch.writes = lines.len();
    batch.journaled = (!lines.is_empty()).then_some(now);
    for (line, page) in lines {
        let cache = &machine.design.cache;
        let mut words = [0; 8];
        for (word, page) in words.iter_mut().zip(Layout::neighbours(page)) {
            let physical = cache.table.get(page as usize).filter(|at| **at != page);
            *word = physical.map_or(0, |at| u64::from(*at) + 1);
        }
        let write = Write::new(u64::from(line), words, Class::Consolidation);
        let (home, now) = (machine.home(line), machine.now());
        machine.write_line(write, home, now, Tell::Design(0, TABLE_TAG));
        machine.counts.add("page_table_lines", 1);
    }
    end_if_durable(machine);
}

/// A line of the page table is durable.
pub(super) fn table_is_written(machine: &mut Machine<Ssp>) {
    let told = &mut machine.design.consolidation.told;
    told.front_mut().expect("it is being written").writes -= 1;
    end_if_durable(machine);
}

/// Ends the oldest batch when the page table is durable, and goes on with the one behind it.
fn end_if_durable(machine: &mut Machine<Ssp>) {
    let now = machine.now();
    let Ssp { consolidation, cache, journal, .. } = &mut machine.design;
    let Some(batch) = consolidation.told.pop_front_if(|batch| batch.writes == 0) else { return };
    batch.jobs.iter().for_each(|job| cache.is_together(job.slot));
    let done = consolidation.done.take();
    if planted(Mutant::SspTableFirst) {
        // They go out with the next ones.
        journal.waiting.push_back((Whose::Pages, records(&batch.jobs), now));
    }
    if let Some(journaled) = batch.journaled {
        machine.rare(TABLE, journaled, now);
    }
    if let Some(parted) = batch.parted {
        machine.rare(PARTS, parted, now);
    }
    if let Some(done) = done {
        machine.tell(done, now);
    }
    table(machine);
}
