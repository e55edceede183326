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
//! - A core waits for the acknowledgements of all its broadcasts before a page that it has written
//!   leaves its TLB (it would fetch the old bits of its own lines), before it tells the controller
//!   that the transaction ends (whoever has its locks then must find the lines), before lines of
//!   one that is given up are moved back (the second broadcast about a line may go another way, and
//!   overtake the first), and before it tells that it is given up (the controller would take it for
//!   one that still writes).

use super::Ssp;
use super::message::{Flip, Message};
use super::write_set::write_set;
use crate::machine::agenda::Agenda;
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine};
use crate::mutants::{Mutant, planted};

/// The engine by which broadcasts go on.
pub(super) const ENGINE: usize = 1;

/// Broadcasts under way.
pub(super) type UnderWay = Agenda<Time, Step>;

/// What happens to a broadcast.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The home of a core's line, which lies at this place now, tells the controller.
    Home { core: usize, place: u32, flip: Flip, acknowledged: When },
    /// It has reached the TLB of this core.
    Arrives { core: usize, flip: Flip },
}

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
    let acknowledged = machine.open_token();
    let Ssp { tlbs, flips, cores, .. } = &mut machine.design;
    tlbs[core].entry_mut(flip.line).expect("what is moved is known").hear(flip);
    cores[core].broadcasts.push(acknowledged);
    flips.add(known, Step::Home { core, place, flip, acknowledged });
    machine.hasten_engine(ENGINE, known);
    if planted(Mutant::SspTlbsFirst) {
        let now = machine.now();
        (0..machine.cores()).for_each(|other| arrives_at(machine, other, flip, now));
    }
}

/// Broadcasts go on.
pub(super) fn go_on(machine: &mut Machine<Ssp>) {
    let now = machine.now();
    while machine.design.flips.first().is_some_and(|first| first <= now)
        && let Some(step) = machine.design.flips.take_first()
    {
        match step {
            Step::Home { core, place, flip, acknowledged } => {
                let there = leaves_home(machine, core, place, flip);
                machine.tell(acknowledged, there);
            }
            Step::Arrives { core, flip } => arrives(machine, core, flip),
        }
    }
    if let Some(next) = machine.design.flips.first() {
        machine.hasten_engine(ENGINE, next);
    }
}

/// The controller is told, and the other TLBs from there. Answers when all have acknowledged that
/// to the core.
fn leaves_home(machine: &mut Machine<Ssp>, core: usize, place: u32, flip: Flip) -> Time {
    let now = machine.now();
    let message = Message::Flip(flip).words();
    let told = machine.send_from_home(core, (place, Size::Control), now, message);
    let mut acknowledged = machine.answer_at(0, core, Size::Control, told);
    for other in (0..machine.cores()).filter(|other| *other != core) {
        let there = machine.answer_at(0, other, Size::Control, told);
        let (from, to) = (machine.tile(other), machine.tile(core));
        acknowledged = acknowledged.max(machine.send_at(from, to, Size::Control, there + 1));
        if !planted(Mutant::SspFlipIsLost) && !planted(Mutant::SspTlbsFirst) {
            arrives_at(machine, other, flip, there);
        }
    }
    acknowledged
}

/// It will have reached the TLB of this core then.
fn arrives_at(machine: &mut Machine<Ssp>, core: usize, flip: Flip, time: Time) {
    machine.design.flips.add(time, Step::Arrives { core, flip });
    machine.hasten_engine(ENGINE, time);
}

fn arrives(machine: &mut Machine<Ssp>, core: usize, flip: Flip) {
    match machine.design.tlbs[core].entry_mut(flip.line) {
        None => {}
        Some(entry) if planted(Mutant::SspFlipsAreTurns) => entry.turn(flip),
        Some(entry) => entry.hear(flip),
    }
}

/// Waits until all know what the core has broadcast.
pub(super) fn wait(hart: &mut Hart<'_, Ssp>) {
    for broadcast in std::mem::take(&mut write_set(hart).broadcasts) {
        hart.wait_for(broadcast);
    }
}
