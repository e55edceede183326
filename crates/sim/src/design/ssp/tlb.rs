//! A core's TLB entries as SSP extends them: both physical pages of each mapped page, and the place
//! of each line.
//!
//! The machine's [`Tlb`](crate::machine::tlb::Tlb) decides which pages are mapped and which one is
//! evicted. This module holds SSP's part of the entries.
//!
//! An entry exists from the request that fetches it, with the contents of the SSP cache at that
//! time. Broadcasts reach it from then on (see [`flips`](super::flips)). The request also names the
//! evicted page. The request reaches the controller at once; the reply takes the time of a look-up.

use super::cache::{Found, Slot};
use super::pages::Pages;
use super::write_set::write_set;
use super::{IN_FLIGHT_CYCLES, LEFT, Ssp, WAITS, consolidation, leave};
use crate::machine::Hart;
use crate::machine::tlb::PAGE_LINES;
use crate::machine::when::Time;
use crate::mutants::{Mutant, injected};

/// Marks a page without an entry.
const NONE: u16 = u16::MAX;

/// The TLB entries of a core.
#[derive(Clone, Debug)]
pub(super) struct Tlb {
    /// Mapped pages and their entries.
    entries: Vec<(u32, Pages)>,
    /// The entry of each page of the heap.
    entry_of: Vec<u16>,
}

impl Tlb {
    /// Returns an empty TLB for a heap of `pages` pages.
    pub(super) fn new(pages: u32) -> Tlb {
        Tlb { entries: Vec::new(), entry_of: vec![NONE; pages as usize] }
    }

    /// All entries.
    pub(super) fn entries(&self) -> &[(u32, Pages)] {
        &self.entries
    }

    /// Returns the entry for the page of a line, if it is mapped.
    #[inline]
    pub(super) fn entry(&self, line: u32) -> Option<&Pages> {
        match self.entry_of.get((line / PAGE_LINES) as usize) {
            None | Some(&NONE) => None,
            Some(at) => Some(&self.entries[usize::from(*at)].1),
        }
    }

    /// Returns the same entry for changes.
    pub(super) fn entry_mut(&mut self, line: u32) -> Option<&mut Pages> {
        match self.entry_of.get((line / PAGE_LINES) as usize) {
            None | Some(&NONE) => None,
            Some(at) => Some(&mut self.entries[usize::from(*at)].1),
        }
    }

    fn enter(&mut self, page: u32, slot: &Slot) {
        debug_assert_eq!(self.entry_of[page as usize], NONE, "a page has one entry");
        self.entry_of[page as usize] = self.entries.len() as u16;
        self.entries.push((page, slot.pages));
    }

    fn leave(&mut self, page: u32) {
        let at = std::mem::replace(&mut self.entry_of[page as usize], NONE);
        self.entries.swap_remove(usize::from(at));
        if let Some((moved, _)) = self.entries.get(usize::from(at)) {
            self.entry_of[*moved as usize] = at;
        }
    }
}

/// Returns the time from which a page may leave the core's TLB. Buffered stores and write-backs to
/// its lines must have completed, and the controller must know the lines that the transaction has
/// moved. Otherwise they would find no entry, and a later fetch would return old bits. (The core
/// waits for all its stores and loads then, not only for those of the page.)
pub(super) fn may_leave(hart: &mut Hart<'_, Ssp>, page: u32, time: Time) -> Time {
    let core = hart.core();
    let mut now = time;
    if hart.machine().buffered(core).any(|line| line / PAGE_LINES == page) {
        hart.settle();
        now = now.max(hart.cycle());
    }
    let tx = write_set(hart);
    if !tx.pages.iter().any(|written| written.page == page) || injected(Mutant::SspLeavesEarly) {
        return now;
    }
    let broadcasts = tx.broadcasts.clone();
    let acknowledged = broadcasts.into_iter().map(|broadcast| hart.time_of(broadcast));
    acknowledged.fold(now, Time::max)
}

/// Evicts a page from the core's TLB.
pub(super) fn leaves(hart: &mut Hart<'_, Ssp>, page: u32) {
    let core = hart.core();
    let machine = hart.machine();
    machine.design.tlbs[core].leave(page);
    let number = machine.design.cache.number(page);
    let slot = &mut machine.design.cache.slots[number];
    slot.tlbs -= 1;
    if slot.tlbs == 0 && slot.writers != 0 {
        let now = machine.now();
        machine.rare(LEFT, now, now + IN_FLIGHT_CYCLES);
    }
    leave(machine, number);
}

/// Maps a page in the core's TLB after a look-up in the SSP cache. Returns the cycles that this
/// takes, including a wait for a consolidation of the page.
pub(super) fn enters(hart: &mut Hart<'_, Ssp>, page: u32, time: Time) -> Time {
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
                // The core cannot continue without a slot: it waits for a token that is never
                // completed.
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
    tlbs[core].enter(page, cache.slot(page));
    let active = cache.active;
    machine.counts.most("active_pages_most", active);
    if machine.design.added {
        machine.counts.afterwards += latency;
        return now - time;
    }
    now - time + latency
}
