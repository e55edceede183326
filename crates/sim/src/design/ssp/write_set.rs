//! The write-set buffer of a core: the pages that its transaction writes, and their written lines.

use super::Ssp;
use super::flips;
use super::message::Message;
use crate::machine::Hart;
use crate::machine::tlb::PAGE_LINES;
use crate::machine::when::{Time, When};
use crate::mutants::{Mutant, injected};

/// The write-set buffer of a core.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteSet {
    /// Whether stores belong to a transaction.
    pub(super) runs: bool,
    /// The time at which an oversized transaction fell back to the software log.
    pub(super) since: Time,
    pub(super) pages: Vec<Written>,
    /// Acknowledgements of the lines that it has moved.
    pub(super) broadcasts: Vec<When>,
    /// Token for the durability of the commit.
    pub(super) done: Option<When>,
}

/// A page that a transaction writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) page: u32,
    /// A bit for each written line.
    pub(super) updated: u64,
}

impl Written {
    /// Returns the program lines that were written.
    pub(super) fn lines(self) -> impl Iterator<Item = u32> {
        let bits = (0..PAGE_LINES).filter(move |at| self.updated >> at & 1 != 0);
        bits.map(move |at| self.page * PAGE_LINES + at)
    }
}

/// Returns the write-set buffer of a core.
pub(super) fn write_set<'h>(hart: &'h mut Hart<'_, Ssp>) -> &'h mut WriteSet {
    let core = hart.core();
    &mut hart.machine().design.cores[core]
}

/// Sends a message to the controller.
pub(super) fn send(hart: &mut Hart<'_, Ssp>, message: Message) {
    let core = hart.core();
    hart.machine().send_message(core, 0, message.words());
}

/// Abandons the transaction's writes and moves its lines back.
///
/// The lines are moved back only after all copies know their new places. The two places of a line
/// may have different home tiles, so the second broadcast could overtake the first. All copies must
/// know of the second move before the abandoned places are discarded, and before the controller
/// hears that the core no longer writes the pages. That message takes another route and would
/// otherwise arrive first.
pub(super) fn give_up(hart: &mut Hart<'_, Ssp>) {
    if !injected(Mutant::SspTurnsBackEarly) {
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
            let entry =
                *machine.design.tlbs[core].entry(line).expect("the page was just translated");
            let (to, flip) = entry.other(line);
            given_up.push(entry.place(line));
            let known = machine.notify_home_tile(core, to);
            flips::broadcast(machine, core, to, flip, known);
        }
    }
    if !injected(Mutant::SspDropsEarly) {
        flips::wait(hart);
    }
    given_up.into_iter().for_each(|place| hart.machine().discard(place));
    write_set(hart).pages.clear();
    for Written { page, .. } in pages {
        send(hart, Message::Update { page, updated: 0, last: false });
    }
}
