//! `ssp`: shadow sub-paging, with two physical pages per active page and a bit per line for its
//! place.
//!
//! A transaction writes a line to its other place, and commits when the new bits are durable.
//! Source: Ni, Zhao, Litz, Bittman, Miller, MICRO 2019, sections 3 and 4.
//!
//! ```text
//!   current   0 1 1 0   where a line is now       first store of a transaction: the line gets the
//!   updated   0 0 1 0   lines a core has written   other page's number in the cache, its bits flip
//!   committed 0 1 0 0   committed places           commit: data durable; committed ^= updated, by
//!                                                  a journal; updated = 0
//! ```
//! | file | |
//! |---|---|
//! | `mod` | the core's side: first stores, commit |
//! | `write_set` | the pages that a core's transaction writes, and its abort |
//! | `tlb` | the pages that a TLB maps, and their entry and eviction |
//! | `pages` | both physical pages of a page, and the place of each line |
//! | `flips` | broadcasts of changed places |
//! | `message` | messages from a core to the controller |
//! | `cache` | the controller's SSP cache: slots, bits, references |
//! | `journal` | records of committed bits, durable in order |
//! | `consolidation` | gathers the lines of inactive pages in one physical page |
//! | `checkpoint` | writes slots, so that journal space can be reused |
//! | `layout` | placement and formats in persistent memory |
//! | `recovery` | recovery after a power failure |
//!
//! Invariants:
//! - A committed line lies at the place in memory that its page's committed bit names. Nothing
//!   writes there until a later commit of the line is durable. Lines of open transactions go to the
//!   other place, so caches may write them back at any time.
//! - A transaction's bits enter the journal after all its lines are durable, all bits or none.
//! - While a TLB or an open transaction refers to a page, the page keeps its slot.
//!
//! Caches, directory and memory use physical lines only. Programs use virtual lines, which
//! [`Design::place`] translates when an access happens.

mod cache;
mod checkpoint;
mod consolidation;
mod flips;
mod journal;
mod layout;
mod message;
mod pages;
mod recovery;
mod tlb;
mod write_set;

use words::Stop;

use super::soft_log::{self, SoftLog};
use super::{Design, IN_FLIGHT_CYCLES};
use crate::machine::controller::Class;
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::memory::line_of;
use crate::machine::network::Size;
use crate::machine::tlb::PAGE_LINES;
use crate::machine::when::Time;
use crate::machine::{self, Hart, Machine};
use crate::mutants::{Mutant, injected};
use crate::persist::{Cut, Persistent};
use cache::Cache;
use checkpoint::Checkpoint;
use consolidation::Consolidation;
use journal::{Group, Journal, Origin};
use layout::{Layout, Record};
use message::Message;
use tlb::Tlb;
use write_set::{WriteSet, Written, send, write_set};

// Rarely taken paths.
const COMMITS: &str = "a commit's records take several lines";
const EVICTED: &str = "a line of an open transaction is written to memory";
const CONSOLIDATES: &str = "lines of a page are consolidated";
const TABLE: &str = "pages have changed places in the journal and not in the page table";
const CHECKPOINT: &str = "a checkpoint";
const PARTS: &str = "a checkpoint between two parts of a consolidation";
const LEFT: &str = "no TLB has a page that an open transaction has written";
const SOFTWARE: &str = "software makes a transaction durable";
const WAITS: &str = "a TLB miss waits for a consolidation";
const ROOM: &str = "records wait for room in the journal";
const SHARED: &str = "two transactions write a page";

/// The counter of checkpoints.
const CHECKPOINTS: &str = "checkpoints";

// Kinds of tags, in their upper bits.
const COMMIT_TAG: u64 = 1 << 56;
const COPY_TAG: u64 = 2 << 56;
const TABLE_TAG: u64 = 3 << 56;
const SLOT_TAG: u64 = 4 << 56;
const TAIL_TAG: u64 = 5 << 56;

/// State of the design.
#[derive(Debug)]
pub struct Ssp {
    layout: Layout,
    cache: Cache,
    journal: Journal,
    consolidation: Consolidation,
    checkpoint: Checkpoint,
    /// TLB entries of cores.
    tlbs: Vec<Tlb>,
    flips: flips::InFlight,
    cores: Vec<WriteSet>,
    /// Metadata updates that each core has sent for its commit so far: pages, and written lines.
    updates: Vec<Vec<(u32, u64)>>,
    /// The software log of transactions that exceed a write set.
    soft: SoftLog,
    /// Pages that a transaction may write.
    write_set: usize,
    /// Cycles of a look-up in the SSP cache: on a hit, and on a miss.
    hit: Time,
    miss: Time,
    /// Whether these cycles are counted separately and added to the result.
    added: bool,
    /// Whether consolidation leaves its copies in the last cache.
    leaves_copies: bool,
}

impl Design for Ssp {
    const NAME: &'static str = "ssp";
    const ABOUT: &'static str = "two physical pages per page, a bit per line selects one (SSP)";
    const MACHINE: &'static str = "ssp";
    const PARAMETERS: &'static [&'static str] = &["ssp"];
    const MOVES: bool = true;
    const ROUNDS: Option<(&'static str, u64)> = Some((CHECKPOINTS, 10));
    const RARE: &'static [&'static str] = &[
        COMMITS,
        EVICTED,
        CONSOLIDATES,
        TABLE,
        CHECKPOINT,
        PARTS,
        LEFT,
        SOFTWARE,
        WAITS,
        ROOM,
        SHARED,
    ];

    fn fits(description: &Description) -> Result<(), &'static str> {
        let slots = description.parameter("ssp", "cache_entries");
        if description.nvm.channels != 1 || !description.llc.inclusive {
            return Err("one controller has all metadata, and lines change numbers in a last \
                        cache that includes the others: `nvm.channels` must be 1 and \
                        `llc.inclusive` true");
        }
        if description.tlb.entries == 0 {
            return Err("a page is active while a TLB maps it: `tlb.entries` must not be 0");
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
            tlbs: vec![Tlb::new(layout.pages); description.cores],
            flips: flips::InFlight::new(),
            cores: vec![WriteSet::default(); description.cores],
            updates: vec![Vec::new(); description.cores],
            soft: SoftLog::new(description, layout.soft),
            write_set: parameter("write_set") as usize,
            hit: parameter("hit_cycles") as Time,
            miss: parameter("miss_cycles") as Time,
            added: parameter("meta_model") != 0.0,
            leaves_copies: parameter("copies_in_cache") != 0.0,
            layout,
        }
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        let mut design = Self::new(description, extra);
        let layout = &design.layout;
        design.cache = Cache::resumed(layout, state);
        design.soft = SoftLog::resumed(description, layout.soft, state);
        // The journal is empty, and continues in a wrap that none of its lines has.
        let tail = state.line(layout.tail)[0];
        (design.journal.tail, design.journal.head) = (tail, tail);
        Some(design)
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        hart.fence();
        write_set(hart).runs = true;
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        let (page, most) = (line_of(word) / PAGE_LINES, hart.machine().design.write_set);
        let pages = &mut write_set(hart).pages;
        if !pages.iter().any(|written| written.page == page) {
            if pages.len() == most {
                return Err(Stop::TooLarge);
            }
            pages.push(Written { page, updated: 0 });
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
        for written in &pages {
            // The page may have left the TLB meanwhile.
            hart.translate_store(written.page * PAGE_LINES);
            written.lines().for_each(|line| hart.write_back(line));
        }
        if !injected(Mutant::SspMetadataFirst) {
            hart.fence();
        }
        if !injected(Mutant::SspEndsEarly) {
            flips::wait(hart);
        }
        hart.enter(Phase::Commit);
        let done = hart.machine().open_token();
        write_set(hart).done = Some(done);
        for (left, Written { page, updated }) in (0..pages.len()).rev().zip(pages) {
            send(hart, Message::Update { page, updated, last: left == 0 });
        }
        hart.wait_for(done);
        write_set(hart).pages.clear();
    }

    fn falls_back(hart: &mut Hart<'_, Self>) {
        write_set::give_up(hart);
    }

    fn software_commits(hart: &mut Hart<'_, Self>) {
        let (since, until) = (write_set(hart).since, hart.cycle());
        hart.machine().rare(SOFTWARE, since, until);
    }

    fn soft_log(&mut self) -> Option<&mut SoftLog> {
        Some(&mut self.soft)
    }

    fn contradictions(&self) -> u64 {
        self.cache.contradictions(&self.tlbs)
    }

    fn class_of(&self, line: u32) -> Class {
        self.soft.class_of(line).unwrap_or(Class::Data)
    }

    fn walked(hart: &mut Hart<'_, Self>, page: u32, left: Option<u32>, time: Time) -> Time {
        let pages = hart.machine().design.layout.pages;
        let mut now = time;
        if let Some(left) = left.filter(|left| *left < pages) {
            now = tlb::may_leave(hart, left, now);
            hart.until(now);
            tlb::leaves(hart, left);
        }
        now - time + if page < pages { tlb::enters(hart, page, now) } else { 0 }
    }

    #[inline]
    fn place(&self, core: usize, line: u32) -> u32 {
        // The program's own accesses have a TLB entry. Lookups for bookkeeping may have none.
        match self.tlbs[core].entry(line) {
            Some(entry) => entry.place(line),
            None => self.cache.place(line),
        }
    }

    fn moves(machine: &mut Machine<Self>, core: usize, line: u32, place: u32) -> u32 {
        let Ssp { cores, tlbs, .. } = &mut machine.design;
        let (page, bit) = (line / PAGE_LINES, 1 << (line % PAGE_LINES));
        let tx = &mut cores[core];
        let written = tx.pages.iter_mut().find(|written| tx.runs && written.page == page);
        let Some(written) = written.filter(|written| written.updated & bit == 0) else {
            return place;
        };
        written.updated |= bit;
        let (to, flip) = tlbs[core].entry(line).expect("a store has an entry").other(line);
        let known = machine.retag(core, place, to);
        flips::broadcast(machine, core, to, flip, known);
        to
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        if machine.trace.is_none() {
            return false;
        }
        let (design, mut cores) = (&machine.design, (0..).zip(&machine.design.cores));
        let is_at = |core, written: &Written| {
            written.lines().any(|named| design.place(core, named) == line)
        };
        if cores.any(|(core, tx)| tx.pages.iter().any(|written| is_at(core, written))) {
            let now = machine.now();
            machine.rare(EVICTED, now, now + IN_FLIGHT_CYCLES);
        }
        false
    }

    fn message(machine: &mut Machine<Self>, _: usize, core: usize, message: machine::Message) {
        let Ssp { cache, updates, .. } = &mut machine.design;
        let last = match Message::of(message) {
            Message::Flip(flip) => {
                if cache.apply_flip(core, flip) {
                    let now = machine.now();
                    machine.rare(SHARED, now, now + IN_FLIGHT_CYCLES);
                }
                return;
            }
            Message::Update { page, updated: 0, .. } => {
                let slot = cache.number(page);
                return leave_core(machine, slot, core);
            }
            Message::Update { page, updated, last } => {
                updates[core].push((page, updated));
                last
            }
        };
        if !last {
            return;
        }
        let record = |(page, updated): (u32, u64)| {
            let slot = cache.number(page) as u32;
            let it = cache.slot(page);
            it.journaled ^= updated;
            Record { slot, p0: it.pages.p0, committed: it.journaled, last: false, number: 0 }
        };
        let records = updates[core].drain(..).map(record).collect();
        journal::append(machine, Origin::Core(core), records);
    }

    fn has_read(machine: &mut Machine<Self>, _: usize, line: u32, _: u64) {
        consolidation::has_read(machine, line);
    }

    fn notified(machine: &mut Machine<Self>, _: usize, _: usize, tag: u64, point: Point) {
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

    fn engine(machine: &mut Machine<Self>, engine: usize) {
        match engine {
            flips::ENGINE => flips::go_on(machine),
            _ => drop(consolidation::begin(machine)),
        }
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        let layout = Layout::new(description, extra);
        recovery::recover(&layout, state)?;
        // The entries name virtual lines, whose places the recovered page table now gives.
        soft_log::recover_moved(description, layout.soft, state, &|state, line| {
            layout.place_in(state, line)
        })
    }

    fn line_map(description: &Description, extra: u32) -> impl Fn(&Persistent, u32) -> u32 + use<> {
        let layout = Layout::new(description, extra);
        move |state, line| layout.place_in(state, line)
    }
}

/// Notes that a core no longer writes a slot's page.
fn leave_core(machine: &mut Machine<Ssp>, number: usize, core: usize) {
    let writers = &mut machine.design.cache.slots[number].writers;
    if *writers >> core & 1 == 0 {
        debug_assert!(
            injected(Mutant::SspLeavesEarly) || injected(Mutant::SspDropsEarly),
            "the core was a writer"
        );
        return;
    }
    *writers &= !(1 << core);
    leave(machine, number);
}

fn leave(machine: &mut Machine<Ssp>, number: usize) {
    if machine.design.cache.leave(number) {
        let now = machine.now();
        machine.schedule_engine(consolidation::ENGINE, now);
    }
}

/// Completes a group of records that has become durable.
fn finished(machine: &mut Machine<Ssp>, group: Group) {
    let now = machine.now();
    for (record, version) in &group.records {
        let slot = &mut machine.design.cache.slots[record.slot as usize];
        slot.committed = record.committed;
        slot.version = *version;
        if group.origin == Origin::Pages && !consolidation::is_late() {
            slot.is_kept_in(record.p0);
        }
        checkpoint::changed(&mut machine.design.checkpoint, record.slot);
    }
    let Origin::Core(core) = group.origin else {
        return consolidation::is_journaled(machine, group.records.len());
    };
    if group.lines > 1 {
        machine.rare(COMMITS, group.since, now);
    }
    for (record, _) in &group.records {
        leave_core(machine, record.slot as usize, core);
    }
    let there = machine.answer(0, core, Size::Control);
    let done = machine.design.cores[core].done.take().expect("the core waits for its commit");
    machine.notify(done, there);
}

#[cfg(test)]
mod tests;
