//! Consolidation: a background engine that copies all lines of an inactive page into one of its two
//! physical pages.
//!
//! ```text
//!   queue -> batch: lines copied -> durable
//!     -> journaling: journal -> durable -> page table -> durable: free
//! ```
//! [`Cache::leave`](super::cache::Cache::leave) queues a page when the last TLB and the last open
//! transaction have given it up and a committed line lies in its second page. The physical page
//! that holds more of the lines is kept, and the other lines are copied into it.
//! Copies overwrite only places without a committed line, so power may fail at any step. Before the
//! journal's record is durable the page has its old state. Afterwards all its lines are in the kept
//! page. If that is the second one, the pages have changed places, and the page table is updated.
//! Until the update is durable the slot takes no other page, so recovery can find the entry that
//! still names the spare page.
//!
//! The next batch begins when the copies of the last one are durable. A batch's records may be too
//! few for a journal line and then wait in the journal's buffer. If the next batch waited for them,
//! nothing would fill the line when transactions leave no room in theirs, and pages would pile up.
//! Batches append their records in order, and update the page table in order.
//!
//! The records of a batch become durable in parts. Each holds the full state of its slot, so the
//! slot adopts its record at once, bits and pages together. A checkpoint may come before the next
//! part, write the slot, and move the tail past the record. Only the page table waits for the whole
//! batch, since pages share its lines. The batch owns the slots until then.
//!
//! Waiting pages form one batch. Their records share journal lines, also with commits, and their
//! entries share lines of the page table. Only a core that requests one of the pages waits for a
//! batch; its records are then expedited. (The paper uses an operating-system thread on a core
//! outside the measurement. Here it is an engine of which only the traffic is visible.)

use std::collections::VecDeque;

use super::journal::{self, Origin};
use super::layout::{Layout, Record};
use super::pages::Pages;
use super::{CONSOLIDATES, COPY_TAG, PARTS, Ssp, TABLE, TABLE_TAG};
use crate::machine::cache::SHARED;
use crate::machine::controller::{Class, Write};
use crate::machine::tlb::PAGE_LINES;
use crate::machine::when::{Time, When};
use crate::machine::{Machine, Notify};
use crate::mutants::{Mutant, injected};

/// Most pages of a batch: the entries of a core's TLB in the paper. Their records take no more than
/// a quarter of the journal.
const PAGES: usize = 64;

/// Lines that are read at a time: the outstanding misses of a core.
const WINDOW: usize = 16;

/// The number of the engine.
pub(super) const ENGINE: usize = 0;

/// State of the engine.
#[derive(Debug, Default)]
pub(super) struct Consolidation {
    /// The batch whose lines are being copied.
    batch: Option<Batch>,
    /// Batches whose records went to the journal, oldest first. Only the first one is being written
    /// to the page table.
    journaling: VecDeque<Batch>,
    /// Token for the next completed batch, if a core waits for one.
    done: Option<When>,
}

/// A batch of pages that are consolidated together.
#[derive(Debug)]
struct Batch {
    since: Time,
    jobs: Vec<Job>,
    /// Outstanding copies: from, to.
    copies: VecDeque<(u32, u32)>,
    /// Copies whose lines are being read.
    reads: Vec<(u32, u32)>,
    /// Writes that are not durable: of copies, then of the page table.
    writes: usize,
    /// Pages whose records are not durable.
    unknown: usize,
    /// The time at which the journal had the whole batch, if pages have changed places.
    journaled: Option<Time>,
    /// The time at which a checkpoint first wrote slots while the journal had only a part of the
    /// batch.
    parted: Option<Time>,
}

/// The consolidation of a page.
#[derive(Debug)]
struct Job {
    slot: usize,
    /// The physical page that is kept.
    target: u32,
}

/// Expedites the consolidation of a page or slot. Returns a token for the next completed batch.
/// That may be another one, so the waiter must look again.
pub(super) fn done(machine: &mut Machine<Ssp>) -> When {
    journal::expedite(machine);
    match machine.design.consolidation.done {
        Some(done) => done,
        None => {
            let done = machine.open_token();
            machine.design.consolidation.done = Some(done);
            done
        }
    }
}

/// Starts a batch of the waiting pages, unless another batch is being copied. Returns whether any
/// batch is in progress.
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
        return !consolidation.journaling.is_empty();
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
    machine.design.consolidation.batch.as_mut().expect("a batch is being copied")
}

/// Reads lines, up to the window. When all copies are durable, appends the batch's records and
/// starts the next batch.
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
    journal_batch(machine);
    let _ = begin(machine);
}

/// Passes a batch with durable copies to the journal.
fn journal_batch(machine: &mut Machine<Ssp>) {
    let consolidation = &mut machine.design.consolidation;
    let mut batch = consolidation.batch.take().expect("a batch is being copied");
    let (records, is_awaited) = (records(&batch.jobs), consolidation.done.is_some());
    if injected(Mutant::SspTableFirst) {
        batch.unknown = 0;
        consolidation.journaling.push_back(batch);
        return table(machine);
    }
    consolidation.journaling.push_back(batch);
    journal::append_buffered(machine, records);
    if is_awaited {
        journal::expedite(machine);
    }
}

/// Returns the journal records of consolidated pages.
fn records(jobs: &[Job]) -> Vec<Record> {
    let record = |job: &Job| {
        let (slot, p0) = (job.slot as u32, job.target);
        Record { slot, p0, committed: 0, last: false, number: 0 }
    };
    jobs.iter().map(record).collect()
}

/// Receives a line that was read for its copy.
pub(super) fn has_read(machine: &mut Machine<Ssp>, line: u32) {
    let reads = &mut batch(machine).reads;
    let at = reads.iter().position(|(from, _)| *from == line).expect("the read belongs to a copy");
    let (from, to) = reads.swap_remove(at);
    let now = machine.now();
    write(machine, from, to, now);
    copy(machine);
}

/// Writes a copy to the kept page. No core uses the page, so cached copies of that place are stale.
/// The paper's engine is a thread that loads and stores, so the last cache has both lines
/// afterwards, clean because the thread writes them back.
fn write(machine: &mut Machine<Ssp>, from: u32, to: u32, time: Time) {
    machine.discard(to);
    machine.memory.copy_line(from, to);
    if machine.design.leaves_copies {
        machine.put_llc(from, SHARED);
        machine.put_llc(to, SHARED);
    }
    let words = machine.memory.line(to);
    let write = Write::new(u64::from(to), words, Class::Consolidation);
    let home = machine.home_tile(to);
    let waits = !injected(Mutant::SspJournalFirst);
    batch(machine).writes += usize::from(waits);
    let notify = if waits { Notify::Design(0, COPY_TAG) } else { Notify::None };
    machine.write_line(write, home, time, notify);
}

/// Notes that a copy is durable.
pub(super) fn is_copied(machine: &mut Machine<Ssp>) {
    batch(machine).writes -= 1;
    copy(machine);
}

/// Whether an injected bug delays the slots: they adopt their records with the whole batch, or
/// before the journal has it.
pub(super) fn is_late() -> bool {
    injected(Mutant::SspSwapsLate) || injected(Mutant::SspTableFirst)
}

/// Notes that a checkpoint starts to write slots.
pub(super) fn is_checkpointed(consolidation: &mut Consolidation, now: Time) {
    for batch in &mut consolidation.journaling {
        if (1..batch.jobs.len()).contains(&batch.unknown) {
            batch.parted.get_or_insert(now);
        }
    }
}

/// Notes that the journal has `count` more records, those of the oldest batches. A complete batch
/// goes on to the page table.
pub(super) fn is_journaled(machine: &mut Machine<Ssp>, mut count: usize) {
    if injected(Mutant::SspTableFirst) {
        return;
    }
    for batch in &mut machine.design.consolidation.journaling {
        let of_it = count.min(batch.unknown);
        batch.unknown -= of_it;
        count -= of_it;
    }
    debug_assert_eq!(count, 0, "the records of batches come in their order");
    table(machine);
}

/// Updates the page table where pages of the oldest batch have changed places. The journal must
/// have the whole batch, and no write of it may be outstanding.
fn table(machine: &mut Machine<Ssp>) {
    let now = machine.now();
    let Ssp { consolidation, cache, layout, .. } = &mut machine.design;
    let Some(batch) = consolidation.journaling.front_mut() else { return };
    if batch.unknown > 0 || batch.writes > 0 {
        return;
    }
    let mut lines = Vec::new();
    for Job { slot, target } in &batch.jobs {
        let slot = &mut cache.slots[*slot];
        let page = slot.page.expect("a slot in a batch has a page");
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
        let (home, now) = (machine.home_tile(line), machine.now());
        machine.write_line(write, home, now, Notify::Design(0, TABLE_TAG));
        machine.counts.add("page_table_lines", 1);
    }
    end_if_durable(machine);
}

/// Notes that a line of the page table is durable.
pub(super) fn table_is_written(machine: &mut Machine<Ssp>) {
    let journaling = &mut machine.design.consolidation.journaling;
    journaling.front_mut().expect("the oldest batch is being written").writes -= 1;
    end_if_durable(machine);
}

/// Ends the oldest batch when the page table is durable, and continues with the next one.
fn end_if_durable(machine: &mut Machine<Ssp>) {
    let now = machine.now();
    let Ssp { consolidation, cache, journal, .. } = &mut machine.design;
    let Some(batch) = consolidation.journaling.pop_front_if(|batch| batch.writes == 0) else {
        return;
    };
    batch.jobs.iter().for_each(|job| cache.finish_consolidation(job.slot));
    let done = consolidation.done.take();
    if injected(Mutant::SspTableFirst) {
        // The records are appended with the next records.
        journal.waiting.push_back((Origin::Pages, records(&batch.jobs), now));
    }
    if let Some(journaled) = batch.journaled {
        machine.rare(TABLE, journaled, now);
    }
    if let Some(parted) = batch.parted {
        machine.rare(PARTS, parted, now);
    }
    if let Some(done) = done {
        machine.notify(done, now);
    }
    table(machine);
}
