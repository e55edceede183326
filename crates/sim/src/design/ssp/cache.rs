//! The SSP cache: both physical pages of each active page, and the place of each line.
//!
//! This module is its transient half. Its persistent half is written by checkpoints.
//!
//! Invariants:
//! - A slot that a TLB or an open transaction refers to keeps its page, and is not consolidated.
//! - `current` and `committed` differ in two kinds of lines: those of open transactions whose
//!   [`flips`](super::flips) have reached the controller, and those whose journal records are not
//!   durable. `journaled` is the value of `committed` after all of the journal is durable.
//! - Bits, pages and version of a slot are those of one record, its last durable one. A checkpoint
//!   may therefore write the slot at any time.
//! - A slot that may be reassigned has no bit set, and its page's entry in the persistent page
//!   table names `p0`. A slot is `Busy` from the start of its page's consolidation until then. Its
//!   pages may have changed places while `table` and the persistent page table still name `p1`.

use std::collections::VecDeque;

use super::layout::{Lasting, Layout};
use super::message::Flip;
use super::pages::Pages;
use super::tlb::Tlb;
use crate::machine::tlb::PAGE_LINES;
use crate::mutants::{Mutant, injected};
use crate::persist::Persistent;

/// The consolidation state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The slot may be reassigned to another page, unless a TLB or a writer refers to it.
    Free,
    /// It waits for consolidation.
    Queued,
    /// Its page is being consolidated.
    Busy,
}

/// A slot of the SSP cache.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The virtual page that has it.
    pub(super) page: Option<u32>,
    pub(super) pages: Pages,
    pub(super) committed: u64,
    pub(super) journaled: u64,
    /// Journal position of its last durable record.
    pub(super) version: u64,
    /// TLBs that map its page.
    pub(super) tlbs: u32,
    /// A bit for each core that writes its page.
    pub(super) writers: u32,
    pub(super) state: Use,
    /// Counts how often its last reference was dropped.
    left: u32,
}

impl Slot {
    /// Returns the slot's persistent state once its last durable record is checkpointed.
    pub(super) fn lasting(&self) -> Lasting {
        let Slot { page, pages: Pages { p0, p1, .. }, committed, version, .. } = *self;
        Lasting { p0: page.map(|_| p0), p1, committed, version }
    }

    /// Applies the record of a consolidation: all lines of the page lie in `target`, which becomes
    /// its first physical page.
    pub(super) fn is_kept_in(&mut self, target: u32) {
        let Pages { p0, p1, .. } = self.pages;
        let (p0, p1) = if target == p1 { (p1, p0) } else { (p0, p1) };
        self.pages = Pages { p0, p1, current: 0 };
        (self.committed, self.journaled) = (0, 0);
    }

    fn is_referred_to(&self) -> bool {
        self.tlbs > 0 || self.writers != 0
    }
}

/// The result of a look-up.
pub(super) enum Found {
    /// The page's slot.
    Here,
    /// A slot that was free or has been taken from another page.
    Taken,
    /// The page is being consolidated, or no slot is free: try again later.
    Wait,
}

/// All slots, and the pages that have one.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) slots: Vec<Slot>,
    /// The slot of each page of the heap.
    slot_of: Vec<Option<u16>>,
    /// The page table: the place of each page of the heap.
    pub(super) table: Vec<u32>,
    /// Slots that may be reassigned if `left` is unchanged, which means no reference since.
    idle: VecDeque<(u16, u32)>,
    /// Slots to consolidate, under the same condition.
    queue: VecDeque<(u16, u32)>,
    /// Pages that occupy two physical pages: referred to, or not consolidated yet.
    pub(super) active: u64,
}

impl Cache {
    /// Returns a cache in which no page has a slot.
    pub(super) fn new(layout: &Layout) -> Cache {
        let slot = |slot| Slot {
            page: None,
            pages: Pages { p1: layout.spare(slot), ..Pages::default() },
            committed: 0,
            journaled: 0,
            version: 0,
            tlbs: 0,
            writers: 0,
            state: Use::Free,
            left: 0,
        };
        Cache {
            slots: (0..layout.slots).map(slot).collect(),
            slot_of: vec![None; layout.pages as usize],
            table: (0..layout.pages).collect(),
            idle: (0..layout.slots as u16).map(|slot| (slot, 0)).collect(),
            queue: VecDeque::new(),
            active: 0,
        }
    }

    /// Returns the cache after recovery: all pages are consolidated and unreferenced. The previous
    /// pages of slots do not matter. A spare page belongs to no virtual page, and a slot needs
    /// nothing else.
    pub(super) fn resumed(layout: &Layout, state: &Persistent) -> Cache {
        let mut cache = Cache::new(layout);
        for (number, slot) in (0..).zip(&mut cache.slots) {
            let Lasting { p1, version, .. } = layout.slot_in(state, number);
            slot.version = version;
            if !injected(Mutant::SspForgetsSpares) {
                slot.pages.p1 = p1;
            }
        }
        cache.table = (0..layout.pages).map(|page| layout.page_in(state, page)).collect();
        cache
    }

    /// Returns the place of a heap line as the controller knows it. Other lines lie under their own
    /// numbers.
    pub(super) fn place(&self, line: u32) -> u32 {
        let page = line / PAGE_LINES;
        match self.slot_of.get(page as usize) {
            None => line,
            Some(None) => self.table[page as usize] * PAGE_LINES + line % PAGE_LINES,
            Some(Some(slot)) => self.slots[usize::from(*slot)].pages.place(line),
        }
    }

    /// Applies a flip of a line in a page that this core writes. Returns whether another core
    /// writes the page too.
    pub(super) fn apply_flip(&mut self, core: usize, flip: Flip) -> bool {
        let slot = self.slot_of[(flip.line / PAGE_LINES) as usize];
        let slot = slot.map(|slot| &mut self.slots[usize::from(slot)]);
        let Some(slot) = slot.filter(|slot| slot.is_referred_to()) else {
            debug_assert!(injected(Mutant::SspLeavesEarly), "a moved line has an active page");
            return false;
        };
        slot.pages.apply(flip);
        slot.writers |= 1 << core;
        slot.writers != 1 << core
    }

    /// Returns the slot of an active page.
    pub(super) fn slot(&mut self, page: u32) -> &mut Slot {
        let slot = self.number(page);
        &mut self.slots[slot]
    }

    /// Returns the number of an active page's slot.
    pub(super) fn number(&self, page: u32) -> usize {
        usize::from(self.slot_of[page as usize].expect("an active page has a slot"))
    }

    /// Adds a TLB's reference to a page.
    pub(super) fn refer(&mut self, page: u32) -> Found {
        let found = match self.slot_of[page as usize] {
            Some(slot) if self.slots[usize::from(slot)].state == Use::Busy => return Found::Wait,
            Some(_) => Found::Here,
            None => match self.take(page) {
                true => Found::Taken,
                false => return Found::Wait,
            },
        };
        let slot = self.slot(page);
        let was_active = slot.is_referred_to() || slot.state != Use::Free;
        slot.tlbs += 1;
        slot.state = Use::Free;
        self.active += u64::from(!was_active);
        found
    }

    /// Assigns an unreferenced slot to a page. Returns whether one was free.
    fn take(&mut self, page: u32) -> bool {
        while let Some((number, left)) = self.idle.pop_front() {
            let slot = &mut self.slots[usize::from(number)];
            if slot.left != left || slot.is_referred_to() || slot.state != Use::Free {
                continue;
            }
            debug_assert!(
                slot.pages.current | slot.committed | slot.journaled == 0,
                "an idle slot is consolidated"
            );
            let p0 = self.table[page as usize];
            let before = slot.page.replace(page);
            slot.pages.p0 = p0;
            if let Some(before) = before {
                self.slot_of[before as usize] = None;
            }
            self.slot_of[page as usize] = Some(number);
            return true;
        }
        false
    }

    /// Updates a slot after a TLB or a core has dropped its reference. Returns whether the slot
    /// needs consolidation.
    pub(super) fn leave(&mut self, number: usize) -> bool {
        let slot = &mut self.slots[number];
        let apart = slot.committed != 0;
        let forgets = injected(Mutant::SspForgetsWriters) && slot.tlbs == 0 && apart;
        if slot.state == Use::Busy || slot.is_referred_to() && !forgets {
            return false;
        }
        slot.left += 1;
        let entry = (number as u16, slot.left);
        slot.state = if apart { Use::Queued } else { Use::Free };
        if apart {
            self.queue.push_back(entry);
        } else {
            self.idle.push_back(entry);
            self.active -= 1;
        }
        apart
    }

    /// Returns the next slot to consolidate.
    pub(super) fn next_queued(&mut self) -> Option<usize> {
        while let Some((number, left)) = self.queue.pop_front() {
            let slot = &mut self.slots[usize::from(number)];
            if slot.left == left && slot.state == Use::Queued {
                slot.state = Use::Busy;
                return Some(usize::from(number));
            }
        }
        None
    }

    /// Completes the consolidation of a slot's page.
    pub(super) fn finish_consolidation(&mut self, number: usize) {
        self.slots[number].state = Use::Free;
        self.leave(number);
    }

    /// Counts inconsistent slots when no transaction is in flight: slots with writers, with
    /// uncommitted bits, or with contents that differ from those of TLBs.
    pub(super) fn contradictions(&self, tlbs: &[Tlb]) -> u64 {
        let differs = |(number, slot): (u16, &Slot)| {
            let has_it = |page| self.slot_of[page as usize] == Some(number);
            let entries = tlbs.iter().flat_map(Tlb::entries).filter(|(page, _)| has_it(*page));
            let (same, other): (Vec<&Pages>, Vec<&Pages>) =
                entries.map(|(_, pages)| pages).partition(|pages| **pages == slot.pages);
            let is_settled = slot.pages.current == slot.committed
                && (slot.committed, slot.writers) == (slot.journaled, 0);
            !is_settled || !other.is_empty() || same.len() as u32 != slot.tlbs
        };
        (0..).zip(&self.slots).filter(|it| differs(*it)).count() as u64
    }
}
