//! Recovery after a power failure: bits, page table, and a consolidation of every page.
//!
//! ```text
//!   1  slots: persistent SSP cache, then the journal's records from the tail on
//!   2  slots that differ are written; then the tail, at the next wrap, which has no line yet
//!   3  an entry of the page table that names a slot's spare page gets the other one
//!   4  each slot with a bit set is consolidated: lines, slot, page table
//! ```
//! Power may fail at any step; the next recovery starts again. After step 2, versions show which
//! records a slot includes, so repeated records change nothing. Step 3 repairs a cut between
//! journal and page table, in a consolidation or in step 4. No record names the virtual page of a
//! slot. However, a spare page belongs to no virtual page, so an entry that names one is stale, and
//! both pages are the slot's.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{self, Lasting, Layout, RECORDS, Record};
use crate::machine::tlb::PAGE_LINES;
use crate::mutants::{Mutant, injected};
use crate::persist::{Cut, Persistent};

pub(super) fn recover(layout: &Layout, state: &mut Persistent) -> Result<(), Cut> {
    let mut slots: Vec<Lasting> = (0..layout.slots).map(|at| layout.slot_in(state, at)).collect();
    let end = replay(layout, state, &mut slots);
    for slot in 0..layout.slots {
        set_slots(layout, state, &slots, slot)?;
    }
    // Also for an empty journal: a line after a gap must not pass for the next one.
    let end = end.unwrap_or_else(|| state.line(layout.tail)[0]);
    let next = clear_next_wrap(layout, state, end)?;
    state.set_line(layout.tail, [next, 0, 0, 0, 0, 0, 0, 0])?;
    let named = redirect(layout, state, &slots)?;
    for slot in 0..layout.slots {
        if slots[slot as usize].committed != 0 {
            consolidate(layout, state, &mut slots, slot, &named)?;
        }
    }
    Ok(())
}

/// Applies the journal's complete groups, up to the first gap. Returns the line after its last one,
/// if it has any.
///
/// A missing line is not the only gap. A line with room was rewritten with another transaction's
/// records. Power may fail when memory has its old version and already the next line. That line's
/// records hold full slot states, so they contain a part of the missing changes. The consecutive
/// group numbers reveal the gap.
fn replay(layout: &Layout, state: &Persistent, slots: &mut [Lasting]) -> Option<u64> {
    let capacity = layout.journal.lines();
    let tail = state.line(layout.tail)[0];
    let (mut open, mut end): (Vec<(Record, u64)>, Option<u64>) = (Vec::new(), None);
    let mut whole: Option<u8> = None;
    for line in tail..tail + u64::from(capacity) {
        let words = state.line(layout.journal.line(line));
        let records = layout::records(&words, line, capacity);
        if records.is_empty() {
            break;
        }
        end = Some(line + 1);
        for (at, record) in (1..).zip(records) {
            let follows = match open.first() {
                Some((first, _)) => first.number == record.number,
                None => whole.is_none_or(|before| before.wrapping_add(1) == record.number),
            };
            if !follows && !injected(Mutant::SspSkipsGaps) {
                return end;
            }
            open.push((record, line * RECORDS as u64 + at));
            if record.last || injected(Mutant::SspPartOfACommit) {
                whole = Some(record.number);
                for (record, version) in open.drain(..) {
                    let slot = &mut slots[record.slot as usize];
                    if version > slot.version || injected(Mutant::SspAppliesOldRecords) {
                        slot.apply(&record, version);
                    }
                }
            }
        }
    }
    end
}

/// Clears journal lines that could pass for lines of the next wrap, and returns the first line of
/// that wrap. Wrap numbers repeat, and each recovery starts a new wrap. After many recoveries in
/// sequence, remnants of an old wrap would otherwise match.
fn clear_next_wrap(layout: &Layout, state: &mut Persistent, end: u64) -> Result<u64, Cut> {
    let capacity = layout.journal.lines();
    if injected(Mutant::SspWrapsRepeat) {
        return Ok((end / u64::from(capacity) + 3) * u64::from(capacity));
    }
    let next = layout::next_wrap(end, capacity);
    for line in next..next + u64::from(capacity) {
        let at = layout.journal.line(line);
        if !layout::records(&state.line(at), line, capacity).is_empty() {
            state.set_line(at, [0; 8])?;
        }
    }
    Ok(next)
}

/// Writes the line of a slot, if the slot differs.
fn set_slots(
    layout: &Layout,
    state: &mut Persistent,
    slots: &[Lasting],
    slot: u32,
) -> Result<(), Cut> {
    let (line, first) = (layout.slot_line(slot), slot & !1);
    let differs = layout.slot_in(state, slot) != slots[slot as usize];
    if !differs {
        return Ok(());
    }
    let mut words = [0; 8];
    for (half, slot) in words.chunks_mut(4).zip(&slots[first as usize..]) {
        half.copy_from_slice(&slot.words());
    }
    state.set_line(line, words)
}

/// Repairs the entries of the page table that name a slot's spare page. Returns the virtual pages
/// of the slots that need consolidation, by first physical page.
fn redirect(
    layout: &Layout,
    state: &mut Persistent,
    slots: &[Lasting],
) -> Result<BTreeMap<u32, u32>, Cut> {
    let spares: BTreeMap<u32, &Lasting> = slots.iter().map(|slot| (slot.p1, slot)).collect();
    let apart = slots.iter().filter(|slot| slot.committed != 0);
    let wanted: BTreeSet<u32> = apart.filter_map(|slot| slot.p0).collect();
    let mut named = BTreeMap::new();
    for page in 0..layout.pages {
        let mut physical = layout.page_in(state, page);
        if let Some(p0) = spares.get(&physical).and_then(|slot| slot.p0)
            && !injected(Mutant::SspNoRedirect)
        {
            layout.set_page(state, page, p0)?;
            physical = p0;
        }
        if wanted.contains(&physical) {
            named.insert(physical, page);
        }
    }
    Ok(named)
}

/// Consolidates a slot's page, as the background engine does.
fn consolidate(
    layout: &Layout,
    state: &mut Persistent,
    slots: &mut [Lasting],
    number: u32,
    named: &BTreeMap<u32, u32>,
) -> Result<(), Cut> {
    let slot = slots[number as usize];
    let p0 = slot.p0.expect("a slot with lines has a page");
    let keeps_first = slot.committed.count_ones() <= PAGE_LINES / 2;
    let (from, to, moves) = match keeps_first {
        true => (slot.p1, p0, slot.committed),
        false => (p0, slot.p1, !slot.committed),
    };
    for at in (0..PAGE_LINES).filter(|at| moves >> at & 1 != 0) {
        let words = state.line(from * PAGE_LINES + at);
        state.set_line(to * PAGE_LINES + at, words)?;
    }
    let slot = &mut slots[number as usize];
    (slot.p0, slot.p1, slot.committed) = (Some(to), from, 0);
    set_slots(layout, state, slots, number)?;
    match named.get(&p0) {
        Some(page) if !keeps_first => layout.set_page(state, *page, to),
        _ => Ok(()),
    }
}
