//! The SSP cache: both physical pages of each page that is in use, and which of them has which
//! line.
//!
//! Its transient half is here; the persistent one is what checkpoints have written of it.
//!
//! Invariants:
//! - A slot that a TLB or an open transaction refers to keeps its page, and is not consolidated.
//! - `current` and `committed` differ in the lines of open transactions of which the controller has
//!   heard ([`flips`](super::flips)) and of those whose journal is not durable yet; `journaled` is
//!   what `committed` will be when all of the journal is.
//! - Bits, pages and version of a slot are those of one record, the last one that is durable: a
//!   checkpoint may write the slot whenever it wants.
//! - A slot that may be given to another page has no bit set, and its page's entry in the
//!   persistent page table names `p0`. One whose page is being brought together is `Busy` until
//!   then; it may have changed places while `table` and the persistent one still name `p1`.

use std::collections::VecDeque;

use super::layout::{Lasting, Layout};
use super::message::Flip;
use super::pages::Pages;
use super::tlb::Tlb;
use crate::machine::tlb::PAGE_LINES;
use crate::mutants::{Mutant, planted};
use crate::persist::Persistent;

/// What happens to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It may be given to another page, unless somebody refers to it.
    Free,
    /// It waits until its page is brought together.
    Queued,
    /// That is being done.
    Busy,
}

/// A slot.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The virtual page that has it.
    pub(super) page: Option<u32>,
    pub(super) pages: Pages,
    pub(super) committed: u64,
    pub(super) journaled: u64,
    /// Place in the journal of the last record that is durable.
    pub(super) version: u64,
    /// TLBs that have its page.
    pub(super) tlbs: u32,
    /// A bit for each core that writes it.
    pub(super) writers: u32,
    pub(super) state: Use,
    /// Counts how often nobody has referred to it any more.
    left: u32,
}

impl Slot {
    /// What is persistent of it, or will be when the journal is.
    pub(super) fn lasting(&self) -> Lasting {
        let Slot { page, pages: Pages { p0, p1, .. }, committed, version, .. } = *self;
        Lasting { p0: page.map(|_| p0), p1, committed, version }
    }

    /// All of its page's lines lie in this one of its two pages, which is the first one from here
    /// on: what its record in the journal says.
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

/// What a lookup has found.
pub(super) enum Found {
    /// The page's slot.
    Here,
    /// A slot that had no page, or another one's.
    Taken,
    /// Its page is being brought together, or there is no slot: later.
    Wait,
}

/// All slots, and the pages that have one.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) slots: Vec<Slot>,
    /// The slot of each page of the heap.
    slot_of: Vec<Option<u16>>,
    /// Where each page of the heap lies: the page table.
    pub(super) table: Vec<u32>,
    /// Slots that may be given away, unless they were referred to since: with `left` as it was.
    idle: VecDeque<(u16, u32)>,
    /// Slots to bring together, likewise.
    queue: VecDeque<(u16, u32)>,
    /// Pages that take two physical ones: referred to, or not brought together yet.
    pub(super) active: u64,
}

impl Cache {
    /// No page has a slot.
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

    /// What recovery has left: all pages are together, and nobody refers to any. Which page a slot
    /// had last does not matter: a spare page is nobody's, and is all that a slot needs.
    pub(super) fn resumed(layout: &Layout, state: &Persistent) -> Cache {
        let mut cache = Cache::new(layout);
        for (number, slot) in (0..).zip(&mut cache.slots) {
            let Lasting { p1, version, .. } = layout.slot_in(state, number);
            slot.version = version;
            if !planted(Mutant::SspForgetsSpares) {
                slot.pages.p1 = p1;
            }
        }
        cache.table = (0..layout.pages).map(|page| layout.page_in(state, page)).collect();
        cache
    }

    /// Where a line of the heap lies, as far as the controller knows; others lie where they are.
    pub(super) fn place(&self, line: u32) -> u32 {
        let page = line / PAGE_LINES;
        match self.slot_of.get(page as usize) {
            None => line,
            Some(None) => self.table[page as usize] * PAGE_LINES + line % PAGE_LINES,
            Some(Some(slot)) => self.slots[usize::from(*slot)].pages.place(line),
        }
    }

    /// A line of the heap lies elsewhere from here on, in a page that this core writes. Whether
    /// another one does, too.
    pub(super) fn hear(&mut self, core: usize, flip: Flip) -> bool {
        let slot = self.slot_of[(flip.line / PAGE_LINES) as usize];
        let slot = slot.map(|slot| &mut self.slots[usize::from(slot)]);
        let Some(slot) = slot.filter(|slot| slot.is_referred_to()) else {
            debug_assert!(planted(Mutant::SspLeavesEarly), "what is moved is in use");
            return false;
        };
        slot.pages.hear(flip);
        slot.writers |= 1 << core;
        slot.writers != 1 << core
    }

    /// The slot of a page that is in use.
    pub(super) fn slot(&mut self, page: u32) -> &mut Slot {
        let slot = self.number(page);
        &mut self.slots[slot]
    }

    /// The number of the slot of a page that is in use.
    pub(super) fn number(&self, page: u32) -> usize {
        usize::from(self.slot_of[page as usize].expect("a page in use has a slot"))
    }

    /// A TLB asks for a page.
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

    /// Gives a page a slot that nobody refers to. Whether there was one.
    fn take(&mut self, page: u32) -> bool {
        while let Some((number, left)) = self.idle.pop_front() {
            let slot = &mut self.slots[usize::from(number)];
            if slot.left != left || slot.is_referred_to() || slot.state != Use::Free {
                continue;
            }
            debug_assert!(
                slot.pages.current | slot.committed | slot.journaled == 0,
                "it is together"
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

    /// A TLB, or a core, refers to a slot no more. Whether it has to be brought together.
    pub(super) fn leave(&mut self, number: usize) -> bool {
        let slot = &mut self.slots[number];
        let apart = slot.committed != 0;
        let forgets = planted(Mutant::SspForgetsWriters) && slot.tlbs == 0 && apart;
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

    /// The next slot to bring together.
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

    /// Its page has been brought together.
    pub(super) fn is_together(&mut self, number: usize) {
        self.slots[number].state = Use::Free;
        self.leave(number);
    }

    /// Slots that are not what they must be when nothing is under way: with writers, with bits that
    /// are not committed, or not what TLBs have.
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
