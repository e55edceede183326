//! The write-set buffer of a core: pages that its transaction writes, and which lines of them.

use super::Ssp;
use super::flips;
use super::message::Message;
use crate::machine::Hart;
use crate::machine::tlb::PAGE_LINES;
use crate::machine::when::{Time, When};
use crate::mutants::{Mutant, planted};

/// A core's write-set buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteSet {
    /// Stores are those of a transaction.
    pub(super) runs: bool,
    /// It was too large: since when its stores are plain ones, behind a log in software.
    pub(super) since: Time,
    pub(super) pages: Vec<Written>,
    /// Told when all know of a line that it has moved.
    pub(super) broadcasts: Vec<When>,
    /// Told when the commit is durable.
    pub(super) done: Option<When>,
}

/// A page that a transaction writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) page: u32,
    /// A bit for each line that it has written.
    pub(super) updated: u64,
}

impl Written {
    /// The program's lines that were written.
    pub(super) fn lines(self) -> impl Iterator<Item = u32> {
        let bits = (0..PAGE_LINES).filter(move |at| self.updated >> at & 1 != 0);
        bits.map(move |at| self.page * PAGE_LINES + at)
    }
}

/// That of a core.
pub(super) fn write_set<'h>(hart: &'h mut Hart<'_, Ssp>) -> &'h mut WriteSet {
    let core = hart.core();
    &mut hart.machine().design.cores[core]
}

/// Tells the controller something.
pub(super) fn send(hart: &mut Hart<'_, Ssp>, message: Message) {
    let core = hart.core();
    hart.machine().send_message(core, 0, message.words());
}

/// What was written is given up, and the lines are where they were. All know that before the
/// lines' other places are forgotten, and before the controller is told that the core writes the
/// pages no more: that goes another way, and would be the first there.
///
/// They are moved back when all know where they went: the two places of a line may have two homes,
/// and the second broadcast would overtake the first.
pub(super) fn give_up(hart: &mut Hart<'_, Ssp>) {
    if !planted(Mutant::SspTurnsBackEarly) {
        flips::wait(hart);
    }
    let (core, since) = (hart.core(), hart.cycle());
    let tx = write_set(hart);
    (tx.runs, tx.since) = (false, since);
    let pages = tx.pages.clone();
    let mut given_up = Vec::new();
    for written in &pages {
        let time = hart.cycle();
        let takes = hart.translate(written.page * PAGE_LINES, time);
        hart.at(time + takes);
        let machine = hart.machine();
        for line in written.lines() {
            let entry = *machine.design.tlbs[core].entry(line).expect("it was translated");
            let (to, flip) = entry.other(line);
            given_up.push(entry.place(line));
            let known = machine.tell_home(core, to);
            flips::broadcast(machine, core, to, flip, known);
        }
    }
    if !planted(Mutant::SspDropsEarly) {
        flips::wait(hart);
    }
    given_up.into_iter().for_each(|place| hart.machine().discard(place));
    write_set(hart).pages.clear();
    for Written { page, .. } in pages {
        send(hart, Message::Update { page, updated: 0, last: false });
    }
}
