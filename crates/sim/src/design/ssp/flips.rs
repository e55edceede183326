//! flip-current-bit: whoever knows a page hears that one of its lines has changed places.
//!
//! ```text
//!   core: the line's number in its cache, and the bit in its TLB, at once
//!     -> home of the line (with the directory's transaction that the number takes)
//!       -> controller: SSP cache -> the other TLBs -> the core: acknowledged
//! ```
//! Nothing waits for it in the store buffer. Until it has arrived another core finds the line where
//! it was committed: what it reads there is what it would have read before. (Whoever may read what
//! the transaction writes comes behind its end, by the locks of the program.)
//!
//! Three orders keep all entries alike:
//! - The controller hears it before any other TLB. A TLB that fetches its entry before that gets
//!   the old bit, and the broadcast comes behind; one that fetches it later has the new bit. If a
//!   TLB could hear it first, it would have no entry yet, and fetch the old bit behind that.
//! - It says what the bit becomes, and not that it turns: who has fetched the new bit hears of it
//!   all the same.
//! - A core waits for the acknowledgements of all its broadcasts before it tells the controller
//!   that the transaction ends, before it drops it, and before a page that it has written leaves
//!   its TLB: it would fetch the old bits of its own lines. So two broadcasts about one line never
//!   are under way.

use super::message::{Flip, Message};
use super::{Ssp, write_set};
use crate::machine::agenda::Agenda;
use crate::machine::network::Size;
use crate::machine::when::Time;
use crate::machine::{Hart, Machine};
use crate::mutants::{Mutant, planted};

/// The engine that lets broadcasts arrive.
pub(super) const ENGINE: usize = 1;

/// Broadcasts that have not reached these TLBs.
pub(super) type UnderWay = Agenda<Time, (usize, Flip)>;

/// A line is where a core has just moved it to, this place: the core's own TLB knows at once, all
/// others are told when the place's home is, at this time.
pub(super) fn broadcast(
    machine: &mut Machine<Ssp>,
    core: usize,
    place: u32,
    flip: Flip,
    known: Time,
) {
    machine.counts.add("flips", 1);
    machine.design.tlbs[core].hears(flip);
    let message = Message::Flip(flip).words();
    let told = machine.send_from_home(core, (place, Size::Control), known, message);
    let mut acknowledged = machine.answer_at(0, core, Size::Control, told);
    for other in (0..machine.cores()).filter(|other| *other != core) {
        let there = machine.answer_at(0, other, Size::Control, told);
        let (from, to) = (machine.tile(other), machine.tile(core));
        acknowledged = acknowledged.max(machine.send_at(from, to, Size::Control, there + 1));
        let there = if planted(Mutant::SspTlbsFirst) { machine.now() } else { there };
        if !planted(Mutant::SspFlipIsLost) {
            machine.design.flips.add(there, (other, flip));
            machine.hasten_engine(ENGINE, there);
        }
    }
    let tx = &mut machine.design.cores[core];
    tx.acknowledged = tx.acknowledged.max(acknowledged);
}

/// Broadcasts reach TLBs.
pub(super) fn arrive(machine: &mut Machine<Ssp>) {
    let now = machine.now();
    let Ssp { flips, tlbs, .. } = &mut machine.design;
    while flips.first().is_some_and(|first| first <= now)
        && let Some((core, flip)) = flips.take_first()
    {
        match tlbs[core].is_in_second(flip.line) {
            Some(in_second) if planted(Mutant::SspFlipsAreTurns) => {
                tlbs[core].hears(Flip { in_second: !in_second, ..flip });
            }
            _ => tlbs[core].hears(flip),
        }
    }
    if let Some(next) = flips.first() {
        machine.hasten_engine(ENGINE, next);
    }
}

/// Waits until all know what the core has broadcast.
pub(super) fn wait(hart: &mut Hart<'_, Ssp>) {
    let acknowledged = write_set(hart).acknowledged;
    hart.at(acknowledged);
}
