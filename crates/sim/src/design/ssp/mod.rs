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
//! | `tlb` | what a core's TLB knows of pages: both, and which line is in which |
//! | `flips` | all hear that a line has changed places |
//! | `message` | what a core tells the controller |
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
mod flips;
mod journal;
mod layout;
mod message;
mod recovery;
mod tlb;

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
use crate::machine::{self, Hart, Machine};
use crate::mutants::{Mutant, planted};
use crate::persist::{Cut, Persistent};
use cache::{Cache, Found};
use checkpoint::Checkpoint;
use consolidation::Consolidation;
use journal::{Group, Journal, Whose};
use layout::{Layout, Record};
use message::Message;
use tlb::Tlb;

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
    /// TLB entries of cores.
    tlbs: Vec<Tlb>,
    flips: flips::UnderWay,
    cores: Vec<WriteSet>,
    /// What each core's transaction has said of its end: pages, and the lines it has written.
    updates: Vec<Vec<(u32, u64)>>,
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
    /// It was too large: since when its stores are plain ones, behind a log in software.
    since: Time,
    pages: Vec<Written>,
    /// When all know of the lines that it has moved.
    acknowledged: Time,
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
            tlbs: vec![Tlb::new(layout.pages); description.cores],
            flips: flips::UnderWay::new(),
            cores: vec![WriteSet::default(); description.cores],
            updates: vec![Vec::new(); description.cores],
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
            // It may have left the TLB since.
            hart.translate_store(written.page * PAGE_LINES);
            written.lines().for_each(|line| hart.write_back(line));
        }
        if !planted(Mutant::SspMetadataFirst) {
            hart.fence();
        }
        flips::wait(hart);
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
            now = may_leave(hart, left, now);
            hart.until(now);
            leave_tlb(hart, left);
        }
        now - time + if page < pages { look_up(hart, page, now) } else { 0 }
    }

    #[inline]
    fn place(&self, core: usize, line: u32) -> u32 {
        self.tlbs[core].place(line).unwrap_or_else(|| self.cache.place(line))
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
        let (to, flip) = tlbs[core].other(line);
        let known = machine.retag(core, place, to);
        flips::broadcast(machine, core, to, flip, known);
        to
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        let (design, mut cores) = (&machine.design, (0..).zip(&machine.design.cores));
        let is_at = |core, written: &Written| {
            written.lines().any(|named| design.place(core, named) == line)
        };
        if cores.any(|(core, tx)| tx.pages.iter().any(|written| is_at(core, written))) {
            let now = machine.now();
            machine.rare(EVICTED, now, now + ON_ITS_WAY);
        }
        false
    }

    fn message(machine: &mut Machine<Self>, _: usize, core: usize, message: machine::Message) {
        let Ssp { cache, updates, .. } = &mut machine.design;
        let last = match Message::of(message) {
            Message::Flip(flip) => return cache.hears(core, flip),
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
            Record { slot, p0: it.p0, committed: it.journaled, last: false, number: 0 }
        };
        let records = updates[core].drain(..).map(record).collect();
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

    fn engine(machine: &mut Machine<Self>, engine: usize) {
        match engine {
            flips::ENGINE => flips::arrive(machine),
            _ => drop(consolidation::begin(machine)),
        }
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

/// Tells the controller something.
fn send(hart: &mut Hart<'_, Ssp>, message: Message) {
    let core = hart.core();
    hart.machine().send_message(core, 0, message.words());
}

/// What was written is given up, and the lines are where they were: all know that before software
/// goes on.
fn give_up(hart: &mut Hart<'_, Ssp>) {
    flips::wait(hart);
    let (core, since) = (hart.core(), hart.cycle());
    let tx = write_set(hart);
    (tx.runs, tx.since) = (false, since);
    let pages = tx.pages.clone();
    for written in &pages {
        let time = hart.cycle();
        let takes = hart.translate(written.page * PAGE_LINES, time);
        hart.at(time + takes);
        let machine = hart.machine();
        for line in written.lines() {
            machine.discard(machine.design.place(core, line));
            let (to, flip) = machine.design.tlbs[core].other(line);
            let known = machine.tell_home(core, to);
            flips::broadcast(machine, core, to, flip, known);
        }
    }
    flips::wait(hart);
    write_set(hart).pages.clear();
    for Written { page, .. } in pages {
        send(hart, Message::Update { page, updated: 0, last: false });
    }
}

/// From when on a page may leave the core's TLB: stores and write-backs on their way to its lines
/// have reached them, and the controller knows which of them the transaction has moved. Else they
/// would find no entry, and who fetches it again would get old bits.
fn may_leave(hart: &mut Hart<'_, Ssp>, page: u32, time: Time) -> Time {
    let core = hart.core();
    let mut now = time;
    if hart.machine().buffered(core).any(|line| line / PAGE_LINES == page) {
        hart.settle();
        now = now.max(hart.cycle());
    }
    let WriteSet { pages, acknowledged, .. } = write_set(hart);
    let is_written = pages.iter().any(|written| written.page == page);
    let waits = is_written && !planted(Mutant::SspLeavesEarly);
    now.max(if waits { *acknowledged } else { 0 })
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
    let core = hart.core();
    let machine = hart.machine();
    let Ssp { cache, tlbs, .. } = &mut machine.design;
    tlbs[core].enters(page, cache.slot(page));
    let active = machine.design.cache.active;
    machine.counts.most("active_pages_most", active);
    if machine.design.added {
        machine.counts.afterwards += latency;
        return now - time;
    }
    now - time + latency
}

/// A page has left the core's TLB.
fn leave_tlb(hart: &mut Hart<'_, Ssp>, page: u32) {
    let core = hart.core();
    let machine = hart.machine();
    machine.design.tlbs[core].leaves(page);
    let number = machine.design.cache.number(page);
    let slot = &mut machine.design.cache.slots[number];
    slot.tlbs -= 1;
    if slot.tlbs == 0 && slot.writers != 0 {
        let now = machine.now();
        machine.rare(LEFT, now, now + ON_ITS_WAY);
    }
    leave(machine, number);
}

/// A core does not write a slot's page any more.
fn leave_core(machine: &mut Machine<Ssp>, number: usize, core: usize) {
    let writers = &mut machine.design.cache.slots[number].writers;
    // Without a planted bug it is there.
    if *writers >> core & 1 != 0 {
        *writers &= !(1 << core);
        leave(machine, number);
    }
}

fn leave(machine: &mut Machine<Ssp>, number: usize) {
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
    for (record, _) in &group.records {
        leave_core(machine, record.slot as usize, core);
    }
    let there = machine.answer(0, core, Size::Control);
    let done = machine.design.cores[core].done.take().expect("it waits");
    machine.tell(done, there);
}

#[cfg(test)]
mod tests;
