//! flip-current-bit: the broadcast of a line's new place to every copy of its page's entry.
//!
//! ```text
//!   core: the line's number in its cache, and the bit in its TLB, at once
//!     -> home tile of the line (with the directory's transaction for the new number)
//!       -> controller: SSP cache -> the other TLBs -> the core: acknowledged
//! ```
//! No store waits for the broadcast in the store buffer. Until it arrives, another core finds the
//! line at its committed place and reads the same words as before. A core that may read the
//! transaction's writes runs after its end, by the program's locks.
//!
//! Three orders keep all entries consistent:
//! - *The controller receives a flip before any other TLB.* A TLB that fetches its entry earlier
//!   gets the old bit, and the broadcast follows. A TLB that fetches it later gets the new bit.
//!   Otherwise, a TLB without the entry could miss the broadcast and then fetch the old bit.
//! - *A flip carries the new value of the bit, not a toggle.* A TLB that has fetched the new bit
//!   may receive the flip too.
//! - *A core waits for the acknowledgements of all its broadcasts* at four points:
//!   - before a page that it has written leaves its TLB: it would otherwise fetch old bits of its
//!     own lines;
//!   - before it sends the transaction's updates: the next holder of the locks must find the lines;
//!   - before it moves lines of an abandoned transaction back: the second broadcast for a line may
//!     take another route and overtake the first;
//!   - before it reports that the transaction is abandoned: the controller would otherwise count
//!     the core as a writer.

use super::Ssp;
use super::message::{Flip, Message};
use super::write_set::write_set;
use crate::machine::agenda::Agenda;
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine};
use crate::mutants::{Mutant, injected};

/// The engine that advances broadcasts.
pub(super) const ENGINE: usize = 1;

/// Broadcasts in flight.
pub(super) type InFlight = Agenda<Time, Step>;

/// A step of a broadcast.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The home tile of a core's line at this place sends the flip to the controller.
    AtHomeTile { core: usize, place: u32, flip: Flip, acknowledged: When },
    /// The flip reaches the TLB of this core.
    Arrives { core: usize, flip: Flip },
}

/// Broadcasts that a core has moved a line to this place. The core's own TLB learns it at once. The
/// other TLBs are notified after the home tile of the place knows, at time `known`.
pub(super) fn broadcast(
    machine: &mut Machine<Ssp>,
    core: usize,
    place: u32,
    flip: Flip,
    known: Time,
) {
    machine.counts.add("flips", 1);
    let acknowledged = machine.open_token();
    let Ssp { tlbs, flips, cores, .. } = &mut machine.design;
    tlbs[core].entry_mut(flip.line).expect("a moved line has an entry").apply(flip);
    cores[core].broadcasts.push(acknowledged);
    flips.add(known, Step::AtHomeTile { core, place, flip, acknowledged });
    machine.schedule_engine(ENGINE, known);
    if injected(Mutant::SspTlbsFirst) {
        let now = machine.now();
        (0..machine.cores()).for_each(|other| arrives_at(machine, other, flip, now));
    }
}

/// Runs the steps of broadcasts that are due.
pub(super) fn go_on(machine: &mut Machine<Ssp>) {
    let now = machine.now();
    while machine.design.flips.first().is_some_and(|first| first <= now)
        && let Some(step) = machine.design.flips.take_first()
    {
        match step {
            Step::AtHomeTile { core, place, flip, acknowledged } => {
                let there = leaves_home_tile(machine, core, place, flip);
                machine.notify(acknowledged, there);
            }
            Step::Arrives { core, flip } => arrives(machine, core, flip),
        }
    }
    if let Some(next) = machine.design.flips.first() {
        machine.schedule_engine(ENGINE, next);
    }
}

/// Sends a flip from the home tile to the controller, and on to the other TLBs. Returns the time at
/// which the core has all acknowledgements.
fn leaves_home_tile(machine: &mut Machine<Ssp>, core: usize, place: u32, flip: Flip) -> Time {
    let now = machine.now();
    let message = Message::Flip(flip).words();
    let at_controller = machine.send_from_home_tile(core, (place, Size::Control), now, message);
    let mut acknowledged = machine.answer_at(0, core, Size::Control, at_controller);
    for other in (0..machine.cores()).filter(|other| *other != core) {
        let there = machine.answer_at(0, other, Size::Control, at_controller);
        let (from, to) = (machine.tile(other), machine.tile(core));
        acknowledged = acknowledged.max(machine.send_at(from, to, Size::Control, there + 1));
        if !injected(Mutant::SspFlipIsLost) && !injected(Mutant::SspTlbsFirst) {
            arrives_at(machine, other, flip, there);
        }
    }
    acknowledged
}

/// Schedules a flip's arrival at the TLB of this core.
fn arrives_at(machine: &mut Machine<Ssp>, core: usize, flip: Flip, time: Time) {
    machine.design.flips.add(time, Step::Arrives { core, flip });
    machine.schedule_engine(ENGINE, time);
}

fn arrives(machine: &mut Machine<Ssp>, core: usize, flip: Flip) {
    match machine.design.tlbs[core].entry_mut(flip.line) {
        None => {}
        Some(entry) if injected(Mutant::SspFlipsAreTurns) => entry.toggle(flip),
        Some(entry) => entry.apply(flip),
    }
}

/// Waits for the acknowledgements of all the core's broadcasts.
pub(super) fn wait(hart: &mut Hart<'_, Ssp>) {
    for broadcast in std::mem::take(&mut write_set(hart).broadcasts) {
        hart.wait_for(broadcast);
    }
}
