//! How much a reproduction measures.

use crate::comparison::Comparison;
use crate::machine::Machine;

/// Size of a reproduction.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// Shorter trials, fewer sizes.
    pub(crate) quick: bool,
    pub(crate) rounds: u64,
    /// Seed of the first round's clients.
    pub(crate) seed: u64,
    /// Measurements of foreign systems, where given.
    pub(crate) comparison: Option<Comparison>,
}

impl Budget {
    /// Returns the worker counts of charts over workers, as [`crews`].
    pub(crate) fn crews(&self) -> Vec<u32> {
        crews(Machine::this().cores, self.quick)
    }
}

/// Returns one and two workers, which rows use on every machine; a full run adds powers of two up
/// to the machine's cores.
pub(crate) fn crews(cores: usize, quick: bool) -> Vec<u32> {
    let more =
        (2..=6).map(|power| 1 << power).filter(|workers| !quick && *workers as usize <= cores);
    [1, 2].into_iter().chain(more).collect()
}
