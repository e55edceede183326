//! `ssp`: shadow sub-paging. A page in use has two physical pages, and each of its lines lies in
//! one of them; a transaction writes a line to the other one, and commits by making bits durable.
//! (Ni, Zhao, Litz, Bittman, Miller, MICRO 2019, sections 3 and 4.)
//!
//! ```text
//!   current   0 1 1 0   where a line is now       first store of a transaction: the line gets the
//!   updated   0 0 1 0   what a core has written    other page's number in the cache, its bits flip
//!   committed 0 1 0 0   where it was committed     commit: data durable; committed ^= updated, by
//!                                                  a journal; updated = 0
//! ```
//! | file | |
//! |---|---|
//! | `mod` | the core's side: TLB misses, the write set, first stores, commit |
//! | `cache` | the controller's SSP cache: slots, bits, who refers to them |
//! | `journal` | records of what bits become, durable in order |
//! | `consolidation` | pages that nobody uses get their lines into one page |
//! | `checkpoint` | slots are written, so that the journal can be used again |
//! | `layout` | where that lies in persistent memory, and its formats |
//! | `recovery` | after a power cut |
//!
//! Invariants:
//! - A committed line lies where its page's committed bit says, in the memory itself, and nothing
//!   writes there until a later commit of the line is durable. Lines of open transactions are
//!   written to the other place; so caches may write them back whenever they want.
//! - Bits of a transaction are in the journal when all its lines are durable, all of them or none.
//! - While a TLB or an open transaction refers to a page, its slot stays its own.
//!
//! Caches, directory and memory know physical lines alone; programs name virtual ones, which
//! [`Design::place`] turns into physical ones when the access happens.

mod cache;
mod checkpoint;
mod consolidation;
mod journal;
mod layout;
mod recovery;

use words::Stop;

use super::soft_log::{self, SoftLog};
use super::{Design, ON_ITS_WAY};
use crate::machine::controller::Class;
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::memory::line_of;
use crate::machine::network::Size;
use crate::machine::tlb::PAGE_LINES;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine};
use crate::mutants::{Mutant, planted};
use crate::persist::{Cut, Persistent};
use cache::{Cache, Found};
use checkpoint::Checkpoint;
use consolidation::Consolidation;
use journal::{Group, Journal, Whose};
use layout::{Layout, Record};

// What it does rarely.
const COMMITS: &str = "a commit's records take several lines";
const EVICTED: &str = "a line of an open transaction is written to memory";
const CONSOLIDATES: &str = "lines of a page are copied together";
const TABLE: &str = "the journal knows that pages have changed places, and the page table not yet";
const CHECKPOINT: &str = "a checkpoint";
const PARTS: &str = "a checkpoint between two parts of a consolidation";
const LEFT: &str = "no TLB has a page that an open transaction has written";
const SOFTWARE: &str = "software makes a transaction durable";
const WAITS: &str = "a TLB miss waits until a page is brought together";
const ROOM: &str = "records wait for room in the journal";

/// What checkpoints are counted as.
const CHECKPOINTS: &str = "checkpoints";

// Who wants to know of a write: the upper bits of its tag.
const COMMIT_TAG: u64 = 1 << 56;
const COPY_TAG: u64 = 2 << 56;
const TABLE_TAG: u64 = 3 << 56;
const SLOT_TAG: u64 = 4 << 56;
const TAIL_TAG: u64 = 5 << 56;

/// The design's state.
#[derive(Debug)]
pub struct Ssp {
    layout: Layout,
    cache: Cache,
    journal: Journal,
    consolidation: Consolidation,
    checkpoint: Checkpoint,
    cores: Vec<WriteSet>,
    /// For transactions that a write set cannot hold.
    soft: SoftLog,
    /// Pages that a transaction may write.
    write_set: usize,
    /// Cycles of a lookup that finds a page in the SSP cache, and of one that does not.
    hit: Time,
    miss: Time,
    /// They are counted and added afterwards.
    added: bool,
}

/// A core's write-set buffer.
#[derive(Clone, Debug, Default)]
struct WriteSet {
    /// Stores are those of a transaction.
    runs: bool,
    /// It was too large: its stores are plain ones, behind a log in software; since when.
    soft: bool,
    since: Time,
    pages: Vec<Written>,
    /// Told when the commit is durable.
    done: Option<When>,
}

/// A page that a transaction writes.
#[derive(Clone, Copy, Debug)]
struct Written {
    page: u32,
    /// A bit for each line that it has written.
    updated: u64,
}

impl Written {
    /// The program's lines that were written.
    fn lines(self) -> impl Iterator<Item = u32> {
        let bits = (0..PAGE_LINES).filter(move |at| self.updated >> at & 1 != 0);
        bits.map(move |at| self.page * PAGE_LINES + at)
    }
}

impl Design for Ssp {
    const NAME: &'static str = "ssp";
    const ABOUT: &'static str = "two physical pages a page, a bit a line says which (SSP)";
    const MACHINE: &'static str = "ssp";
    const PARAMETERS: &'static [&'static str] = &["ssp"];
    const MOVES: bool = true;
    const ROUNDS: Option<(&'static str, u64)> = Some((CHECKPOINTS, 10));
    const RARE: &'static [&'static str] =
        &[COMMITS, EVICTED, CONSOLIDATES, TABLE, CHECKPOINT, PARTS, LEFT, SOFTWARE, WAITS, ROOM];

    fn fits(description: &Description) -> Result<(), &'static str> {
        let slots = description.parameter("ssp", "cache_entries");
        if description.nvm.channels != 1 || !description.llc.inclusive {
            return Err("one controller has all its metadata, and lines get other numbers in a \
                        last cache that has all lines: `nvm.channels` must be 1 and \
                        `llc.inclusive` true");
        }
        if description.tlb.entries == 0 {
            return Err("pages are in use while a TLB has them: `tlb.entries` must not be 0");
        }
        match (1.0..=f64::from(layout::SLOTS_MAX)).contains(&slots) {
            true => Ok(()),
            false => Err("a record of its journal names one of 4096 slots at most: \
                          `design.ssp.cache_entries` must be from 1 to 4096"),
        }
    }

    fn extra_lines(description: &Description) -> u32 {
        Layout::lines(description)
    }

    fn table_lines(heap: u32) -> u32 {
        Layout::table_lines(heap)
    }

    fn new(description: &Description, extra: u32) -> Ssp {
        let parameter = |key| description.parameter("ssp", key);
        let layout = Layout::new(description, extra);
        Ssp {
            cache: Cache::new(&layout),
            journal: Journal::new(layout.journal.lines()),
            consolidation: Consolidation::default(),
            checkpoint: Checkpoint::new(),
            cores: vec![WriteSet::default(); description.cores],
            soft: SoftLog::new(description, layout.soft),
            write_set: parameter("write_set") as usize,
            hit: parameter("hit_cycles") as Time,
            miss: parameter("miss_cycles") as Time,
            added: parameter("meta_model") != 0.0,
            layout,
        }
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        let mut design = Self::new(description, extra);
        let layout = &design.layout;
        design.cache = Cache::resumed(layout, state);
        design.soft = SoftLog::resumed(description, layout.soft, state);
        // The journal is empty, and goes on in a lap of which none of its lines is.
        let tail = state.line(layout.tail)[0];
        (design.journal.tail, design.journal.head) = (tail, tail);
        Some(design)
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        hart.fence();
        let tx = write_set(hart);
        (tx.runs, tx.soft) = (true, false);
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        let line = line_of(word);
        let page = line / PAGE_LINES;
        if !write_set(hart).pages.iter().any(|written| written.page == page) {
            hart.translate_store(line);
            will_write(hart, page)?;
        }
        hart.store(word, object, value);
        Ok(())
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        hart.fence();
        let tx = write_set(hart);
        tx.runs = false;
        if tx.pages.is_empty() {
            return;
        }
        hart.enter(Phase::Prepare);
        let pages = write_set(hart).pages.clone();
        for line in pages.iter().flat_map(|written| written.lines()) {
            hart.write_back(line);
        }
        if !planted(Mutant::SspMetadataFirst) {
            hart.fence();
        }
        hart.enter(Phase::Commit);
        let core = hart.core();
        let machine = hart.machine();
        let done = machine.open_token();
        machine.design.cores[core].done = Some(done);
        for (left, written) in (0..pages.len()).rev().zip(pages) {
            // The controller has all of a transaction when nothing of it is left.
            machine.send_message(core, 0, u64::from(written.page) << 32 | left as u64);
        }
        hart.wait_for(done);
    }

    fn falls_back(hart: &mut Hart<'_, Self>) {
        give_up(hart);
    }

    fn software_commits(hart: &mut Hart<'_, Self>) {
        let (since, until) = (write_set(hart).since, hart.cycle());
        hart.machine().rare(SOFTWARE, since, until);
    }

    fn soft_log(&mut self) -> Option<&mut SoftLog> {
        Some(&mut self.soft)
    }

    fn class_of(&self, line: u32) -> Class {
        self.soft.class_of(line).unwrap_or(Class::Data)
    }

    fn walked(hart: &mut Hart<'_, Self>, page: u32, left: Option<u32>, time: Time) -> Time {
        let pages = hart.machine().design.layout.pages;
        let mut now = time;
        if let Some(left) = left.filter(|left| *left < pages) {
            if write_set(hart).soft {
                // Nothing else keeps a page in use that plain stores are on their way to.
                hart.settle();
                now = now.max(hart.cycle());
            }
            hart.until(now);
            leave_tlb(hart.machine(), left);
        }
        now - time + if page < pages { look_up(hart, page, now) } else { 0 }
    }

    #[inline]
    fn place(&self, line: u32) -> u32 {
        self.cache.place(line)
    }

    fn moves(machine: &mut Machine<Self>, core: usize, line: u32) -> Option<u32> {
        let Ssp { cache, cores, .. } = &mut machine.design;
        let (page, bit) = (line / PAGE_LINES, 1 << (line % PAGE_LINES));
        let tx = &mut cores[core];
        let written = tx.pages.iter_mut().find(|written| written.page == page)?;
        if !tx.runs || written.updated & bit != 0 {
            return None;
        }
        written.updated |= bit;
        cache.slot(page).current ^= bit;
        let place = cache.place(line);
        machine.counts.add("flips", 1);
        Some(place)
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        let Ssp { cache, cores, .. } = &machine.design;
        let mut written = cores.iter().flat_map(|tx| &tx.pages).flat_map(|it| it.lines());
        if written.any(|named| cache.place(named) == line) {
            let now = machine.now();
            machine.rare(EVICTED, now, now + ON_ITS_WAY);
        }
        false
    }

    fn message(machine: &mut Machine<Self>, _: usize, core: usize, message: u64) {
        let left = message as u32;
        if left > 0 {
            return;
        }
        let Ssp { cache, cores, .. } = &mut machine.design;
        let record = |written: &Written| {
            let slot = cache.number(written.page) as u32;
            let it = cache.slot(written.page);
            it.journaled ^= written.updated;
            Record { slot, p0: it.p0, committed: it.journaled, last: false, number: 0 }
        };
        let records = cores[core].pages.iter().map(record).collect();
        journal::append(machine, Whose::Core(core), records);
    }

    fn has_read(machine: &mut Machine<Self>, _: usize, line: u32, _: u64) {
        consolidation::has_read(machine, line);
    }

    fn told(machine: &mut Machine<Self>, _: usize, _: usize, tag: u64, point: Point) {
        if point != machine.description.persist.point {
            return;
        }
        match tag & !(COMMIT_TAG - 1) {
            COMMIT_TAG => journal::is_written(machine, tag & (COMMIT_TAG - 1)),
            COPY_TAG => consolidation::is_copied(machine),
            TABLE_TAG => consolidation::table_is_written(machine),
            SLOT_TAG => checkpoint::slots_are_written(machine),
            _ => checkpoint::tail_is_written(machine),
        }
    }

    fn engine(machine: &mut Machine<Self>, _: usize) {
        let _ = consolidation::begin(machine);
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        let layout = Layout::new(description, extra);
        recovery::recover(&layout, state)?;
        // Its entries name lines of the program, which lie where the page table says by now.
        soft_log::recover_moved(description, layout.soft, state, &|state, line| {
            layout.place_in(state, line)
        })
    }

    fn finder(description: &Description, extra: u32) -> impl Fn(&Persistent, u32) -> u32 + use<> {
        let layout = Layout::new(description, extra);
        move |state, line| layout.place_in(state, line)
    }
}

fn write_set<'h>(hart: &'h mut Hart<'_, Ssp>) -> &'h mut WriteSet {
    let core = hart.core();
    &mut hart.machine().design.cores[core]
}

/// The transaction writes a page for the first time: it is in the core's write set, and in use
/// until the commit is durable.
fn will_write(hart: &mut Hart<'_, Ssp>, page: u32) -> Result<(), Stop> {
    let most = hart.machine().design.write_set;
    if write_set(hart).pages.len() == most {
        return Err(Stop::TooLarge);
    }
    let cycle = hart.cycle();
    hart.until(cycle);
    hart.machine().design.cache.slot(page).cores += 1;
    write_set(hart).pages.push(Written { page, updated: 0 });
    Ok(())
}

/// What was written is given up, and the lines are where they were.
fn give_up(hart: &mut Hart<'_, Ssp>) {
    let (core, since) = (hart.core(), hart.cycle());
    let machine = hart.machine();
    let tx = &mut machine.design.cores[core];
    (tx.runs, tx.soft, tx.since) = (false, true, since);
    for written in std::mem::take(&mut tx.pages) {
        for line in written.lines() {
            let place = machine.design.cache.place(line);
            machine.discard(place);
        }
        let slot = machine.design.cache.slot(written.page);
        slot.current ^= written.updated;
        leave_core(machine, written.page);
    }
}

/// Looks a page up in the SSP cache at a time after which it is known to the core's TLB. Answers
/// how long that takes; a page that is being brought together is waited for.
fn look_up(hart: &mut Hart<'_, Ssp>, page: u32, time: Time) -> Time {
    hart.until(time);
    let (mut now, mut has_waited) = (time, false);
    let latency = loop {
        let machine = hart.machine();
        let Ssp { hit, miss, .. } = machine.design;
        match machine.design.cache.refer(page) {
            Found::Here => {
                machine.counts.add("ssp_cache_hits", 1);
                break hit;
            }
            Found::Taken => {
                machine.counts.add("ssp_cache_misses", 1);
                break miss;
            }
            Found::Wait if !consolidation::begin(machine) => {
                machine.fail("all slots are in use: make `design.ssp.cache_entries` larger");
                // Without a slot it cannot go on: it waits for what nobody will tell.
                let never = machine.open_token();
                hart.wait_for(never);
            }
            Found::Wait => {
                machine.counts.add("waits_for_consolidation", u64::from(!has_waited));
                has_waited = true;
                let done = consolidation::done(machine);
                let there = hart.time_of(done);
                hart.until(there);
                hart.machine().rare(WAITS, now, there.max(now));
                now = there.max(now);
            }
        }
    };
    let machine = hart.machine();
    let active = machine.design.cache.active;
    machine.counts.most("active_pages_most", active);
    if machine.design.added {
        machine.counts.afterwards += latency;
        return now - time;
    }
    now - time + latency
}

/// A page has left a TLB.
fn leave_tlb(machine: &mut Machine<Ssp>, page: u32) {
    let slot = machine.design.cache.slot(page);
    slot.tlbs -= 1;
    if slot.tlbs == 0 && slot.cores > 0 {
        let now = machine.now();
        machine.rare(LEFT, now, now + ON_ITS_WAY);
    }
    leave(machine, page);
}

/// A core does not write a page any more.
fn leave_core(machine: &mut Machine<Ssp>, page: u32) {
    machine.design.cache.slot(page).cores -= 1;
    leave(machine, page);
}

fn leave(machine: &mut Machine<Ssp>, page: u32) {
    let number = machine.design.cache.number(page);
    if machine.design.cache.leave(number) {
        let now = machine.now();
        machine.hasten_engine(0, now);
    }
}

/// Records that belong together are durable.
fn finished(machine: &mut Machine<Ssp>, group: Group) {
    let now = machine.now();
    for (record, version) in &group.records {
        let slot = &mut machine.design.cache.slots[record.slot as usize];
        slot.committed = record.committed;
        slot.version = *version;
        if group.whose == Whose::Pages && !consolidation::is_late() {
            slot.is_kept_in(record.p0);
        }
        checkpoint::changed(&mut machine.design.checkpoint, record.slot);
    }
    let Whose::Core(core) = group.whose else {
        return consolidation::is_journaled(machine, group.records.len());
    };
    if group.lines > 1 {
        machine.rare(COMMITS, group.since, now);
    }
    for written in std::mem::take(&mut machine.design.cores[core].pages) {
        leave_core(machine, written.page);
    }
    let there = machine.answer(0, core, Size::Control);
    let done = machine.design.cores[core].done.take().expect("it waits");
    machine.tell(done, there);
}

#[cfg(test)]
mod tests;
