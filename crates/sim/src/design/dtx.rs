//! A durable transaction (*DTX*) as LAD's controller at a first cache knows it, independent of
//! where its lines are staged.
//!
//! [`lad`](super::lad) stages lines in the queues of memory controllers,
//! [`lad_llc`](super::lad_llc) in banks of the last cache. This module calls both *stages*. Each
//! stage has a bank of persistent registers, one per core. A register holds the number of the
//! core's last transaction whose commit the stage knows of.

use crate::design::Design;
use crate::machine::description::Description;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine};
use crate::mutants::{Mutant, injected};
use crate::persist::{Cut, Persistent};

/// The transaction of a core.
#[derive(Clone, Debug, Default)]
pub(super) struct Dtx {
    pub(super) runs: bool,
    pub(super) number: u64,
    /// Flushes that are not known to be acknowledged.
    pub(super) flushes: Vec<When>,
    /// Whether any of its lines was flushed.
    pub(super) staged: bool,
    /// Commits that some stages know of and others do not: the number, the time of the first stage,
    /// and the stages so far.
    partial: Vec<(u64, Time, usize)>,
}

impl Dtx {
    pub(super) fn begin(&mut self) {
        self.number += 1;
        self.runs = true;
        self.staged = false;
    }

    /// Records that another stage knows of a commit. Returns the time of the first stage once all
    /// stages know.
    pub(super) fn note_partial(&mut self, number: u64, now: Time, stages: usize) -> Option<Time> {
        let Some(at) = self.partial.iter().position(|commit| commit.0 == number) else {
            self.partial.push((number, now, 1));
            return None;
        };
        self.partial[at].2 += 1;
        let all = self.partial[at].2 == stages;
        all.then(|| self.partial.swap_remove(at).1)
    }
}

/// Returns a transaction's identifier, made of core and number.
pub(super) fn owner(core: usize, number: u64) -> u64 {
    (core as u64 + 1) << 48 | number
}

/// Returns the core and the number of an identifier.
pub(super) fn parts(owner: u64) -> (u32, u64) {
    ((owner >> 48) as u32 - 1, owner & ((1 << 48) - 1))
}

/// A design that stages transactions.
pub(super) trait Stages: Design {
    fn dtx(&mut self, core: usize) -> &mut Dtx;

    /// Sends a modified line of the core's transaction to its stage. The line was marked.
    fn stage(machine: &mut Machine<Self>, core: usize, line: u32);
}

pub(super) fn dtx<'h, D: Stages>(hart: &'h mut Hart<'_, D>) -> &'h mut Dtx {
    let core = hart.core();
    hart.machine().design.dtx(core)
}

/// Flushes all marked lines, one per cycle and port, and waits until all flushes are acknowledged.
/// These include flushes of lines that left the cache earlier.
pub(super) fn flush<D: Stages>(hart: &mut Hart<'_, D>) {
    let (core, lines, began) = (hart.core(), hart.lines().to_vec(), hart.cycle());
    let mut flushed: u64 = 0;
    for line in lines {
        let ports = u64::from(hart.machine().description.l1.ports);
        hart.at(began + flushed / ports);
        // Unmarking and staging happen at one event. A line that is unmarked but not staged could
        // be evicted and written as a plain line.
        let machine = hart.machine();
        if machine.mark(core, line, false) == Some(true) {
            D::stage(machine, core, line);
            flushed += 1;
        }
    }
    let flushes = std::mem::take(&mut dtx(hart).flushes);
    if !injected(Mutant::LadCommitEarly) {
        flushes.into_iter().for_each(|flush| hart.wait_for(flush));
    }
}

/// Returns, per core, the largest number that any of these register banks holds: the core's last
/// committed transaction.
pub(super) fn committed(
    description: &Description,
    banks: std::ops::Range<u32>,
    state: &Persistent,
) -> Vec<u64> {
    let of = |core| banks.clone().map(|bank| state.register((bank, core))).max().unwrap_or(0);
    (0..description.cores as u32).map(of).collect()
}

/// Continues after the numbers in these register banks. A reused number would count as committed
/// before its transaction commits.
pub(super) fn resume<D: Stages>(
    design: &mut D,
    description: &Description,
    banks: std::ops::Range<u32>,
    state: &Persistent,
) {
    if injected(Mutant::LadForgetsNumbers) {
        return;
    }
    for (core, number) in committed(description, banks, state).into_iter().enumerate() {
        design.dtx(core).number = number;
    }
}

/// Sets all register banks to the committed numbers.
///
/// A recovery that is cut after this step, or starts again, finds the same numbers. Both read the
/// maximum over all banks ([`committed`]), so omitting this step of the paper breaks nothing. No
/// injected bug can therefore cover it.
///
/// # Errors
/// [`Cut`].
pub(super) fn set_committed(
    committed: &[u64],
    banks: std::ops::Range<u32>,
    state: &mut Persistent,
) -> Result<(), Cut> {
    for bank in banks {
        for (core, number) in (0..).zip(committed) {
            state.set_register((bank, core), *number)?;
        }
    }
    Ok(())
}
