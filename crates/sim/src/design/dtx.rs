//! A transaction as LAD's controller at a first cache knows it (a *DTX*), wherever it is staged: in
//! the queues of memory controllers ([`lad`](super::lad)) or in banks of the last cache
//! ([`lad_llc`](super::lad_llc)). Both are *stages* here: each has a bank of persistent registers,
//! one register a core, with the number of that core's last transaction of whose commit it knows.

use crate::design::Design;
use crate::machine::description::Description;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine};
use crate::mutants::{Mutant, planted};
use crate::persist::{Cut, Persistent};

/// A core's transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Dtx {
    pub(super) runs: bool,
    pub(super) number: u64,
    /// Flushes that are not known to be acknowledged.
    pub(super) flushes: Vec<When>,
    /// Whether any line of it was flushed.
    pub(super) staged: bool,
    /// Commits that some stages know of and others do not: which, since when, and how many do.
    partial: Vec<(u64, Time, usize)>,
}

impl Dtx {
    pub(super) fn begin(&mut self) {
        self.number += 1;
        self.runs = true;
        self.staged = false;
    }

    /// Another stage knows of a commit. When all do: since when some have.
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

/// A transaction's name: of core and number.
pub(super) fn owner(core: usize, number: u64) -> u64 {
    (core as u64 + 1) << 48 | number
}

/// The core and the number in a name.
pub(super) fn parts(owner: u64) -> (u32, u64) {
    ((owner >> 48) as u32 - 1, owner & ((1 << 48) - 1))
}

/// A design that stages transactions.
pub(super) trait Stages: Design {
    fn dtx(&mut self, core: usize) -> &mut Dtx;

    /// Sends a line of the core's transaction, which was marked and is modified, to its stage.
    fn stage(machine: &mut Machine<Self>, core: usize, line: u32);
}

pub(super) fn dtx<'h, D: Stages>(hart: &'h mut Hart<'_, D>) -> &'h mut Dtx {
    let core = hart.core();
    hart.machine().design.dtx(core)
}

/// Flushes all marked lines, one a cycle and port, and waits until all flushes are acknowledged:
/// also those of lines that have left the cache before.
pub(super) fn flush<D: Stages>(hart: &mut Hart<'_, D>) {
    let (core, lines, began) = (hart.core(), hart.lines().to_vec(), hart.cycle());
    let mut flushed: u64 = 0;
    for line in lines {
        let ports = u64::from(hart.machine().description.l1.ports);
        hart.at(began + flushed / ports);
        // From here on nobody else acts: a line that were not marked any more, and not staged yet,
        // could be taken and written as nobody's.
        let machine = hart.machine();
        if machine.mark(core, line, false) == Some(true) {
            D::stage(machine, core, line);
            flushed += 1;
        }
    }
    let flushes = std::mem::take(&mut dtx(hart).flushes);
    if !planted(Mutant::LadCommitEarly) {
        flushes.into_iter().for_each(|flush| hart.wait_for(flush));
    }
}

/// For each core the number of its last transaction of whose commit any of these banks of registers
/// knows.
pub(super) fn committed(
    description: &Description,
    banks: std::ops::Range<u32>,
    state: &Persistent,
) -> Vec<u64> {
    let of = |core| banks.clone().map(|bank| state.register((bank, core))).max().unwrap_or(0);
    (0..description.cores as u32).map(of).collect()
}

/// Goes on behind the numbers that these banks know: a number that comes again would be committed
/// before its transaction is.
pub(super) fn resume<D: Stages>(
    design: &mut D,
    description: &Description,
    banks: std::ops::Range<u32>,
    state: &Persistent,
) {
    if planted(Mutant::LadForgetsNumbers) {
        return;
    }
    for (core, number) in committed(description, banks, state).into_iter().enumerate() {
        design.dtx(core).number = number;
    }
}

/// Lets all banks know of what is committed.
///
/// Recovery that is cut behind this, or begins once more, finds the same numbers. As both read the
/// largest number of all banks ([`committed`]) nothing goes wrong without this step of the paper's:
/// no bug can be planted here.
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
