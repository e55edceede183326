//! The TLB entries of a core as SSP widens them: both physical pages of each page that it knows,
//! and for each line in which of them the core finds it; and how they come and go.
//!
//! The machine's [`Tlb`](crate::machine::tlb::Tlb) says which pages those are, and which one
//! leaves; this is what their entries have besides.
//!
//! An entry stands from the request on that fetches it, with what the SSP cache has then, and
//! broadcasts reach it from then on (see [`flips`](super::flips)). The request also says which page
//! leaves for it. It reaches the controller at once; its answer takes the time of a lookup.

use super::cache::{Found, Slot};
use super::pages::Pages;
use super::write_set::write_set;
use super::{LEFT, ON_ITS_WAY, Ssp, WAITS, consolidation, leave};
use crate::machine::Hart;
use crate::machine::tlb::PAGE_LINES;
use crate::machine::when::Time;
use crate::mutants::{Mutant, planted};

/// No entry.
const NONE: u16 = u16::MAX;

/// What a core knows of pages.
#[derive(Clone, Debug)]
pub(super) struct Tlb {
    /// Pages and what is known of them.
    entries: Vec<(u32, Pages)>,
    /// The entry of each page of the heap.
    entry_of: Vec<u16>,
}

impl Tlb {
    /// One that knows no page of a heap of so many.
    pub(super) fn new(pages: u32) -> Tlb {
        Tlb { entries: Vec::new(), entry_of: vec![NONE; pages as usize] }
    }

    /// All entries.
    pub(super) fn entries(&self) -> &[(u32, Pages)] {
        &self.entries
    }

    /// What is known of the page of a line, if that is known.
    #[inline]
    pub(super) fn entry(&self, line: u32) -> Option<&Pages> {
        match self.entry_of.get((line / PAGE_LINES) as usize) {
            None | Some(&NONE) => None,
            Some(at) => Some(&self.entries[usize::from(*at)].1),
        }
    }

    /// The same, to be changed.
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

/// From when on a page may leave the core's TLB: stores and write-backs on their way to its lines
/// have reached them, and the controller knows which of them the transaction has moved. Else they
/// would find no entry, and who fetches it again would get old bits. (The core waits for all its
/// stores and loads then, not for those of the page alone.)
pub(super) fn may_leave(hart: &mut Hart<'_, Ssp>, page: u32, time: Time) -> Time {
    let core = hart.core();
    let mut now = time;
    if hart.machine().buffered(core).any(|line| line / PAGE_LINES == page) {
        hart.settle();
        now = now.max(hart.cycle());
    }
    let tx = write_set(hart);
    if !tx.pages.iter().any(|written| written.page == page) || planted(Mutant::SspLeavesEarly) {
        return now;
    }
    let broadcasts = tx.broadcasts.clone();
    let acknowledged = broadcasts.into_iter().map(|broadcast| hart.time_of(broadcast));
    acknowledged.fold(now, Time::max)
}

/// A page leaves the core's TLB.
pub(super) fn leaves(hart: &mut Hart<'_, Ssp>, page: u32) {
    let core = hart.core();
    let machine = hart.machine();
    machine.design.tlbs[core].leave(page);
    let number = machine.design.cache.number(page);
    let slot = &mut machine.design.cache.slots[number];
    slot.tlbs -= 1;
    if slot.tlbs == 0 && slot.writers != 0 {
        let now = machine.now();
        machine.rare(LEFT, now, now + ON_ITS_WAY);
    }
    leave(machine, number);
}

/// Looks a page up in the SSP cache at a time; the core's TLB knows it from then on. Answers how
/// long that takes; a page that is being brought together is waited for.
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
    tlbs[core].enter(page, cache.slot(page));
    let active = cache.active;
    machine.counts.most("active_pages_most", active);
    if machine.design.added {
        machine.counts.afterwards += latency;
        return now - time;
    }
    now - time + latency
}
