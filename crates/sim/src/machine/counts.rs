//! The counters of a machine.

use std::collections::BTreeMap;

use super::controller::{CLASSES, Class};

/// Counters since the measurement began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses of programs: loads, stores and write-backs.
    pub accesses: u64,
    /// Reads of persistent memory, including those served from a write queue.
    pub nvm_reads: u64,
    /// Reads of volatile memory.
    pub dram_reads: u64,
    /// Writes to persistent memory, by class.
    pub nvm_writes: [u64; CLASSES],
    /// Writes to volatile memory.
    pub dram_writes: u64,
    /// Misses of the first private cache; `llc_misses` counts those of the last-level cache.
    pub l1_misses: u64,
    /// See `l1_misses`.
    pub llc_misses: u64,
    /// Lines transferred from another core.
    pub transfers: u64,
    /// TLB misses.
    pub tlb_misses: u64,
    /// Fills that carried a wrong value. Any count but 0 is a bug of the design.
    pub wrong_fills: u64,
    /// Completed transactions.
    pub transactions: u64,
    /// Cycles of transactions by phase.
    pub phases: Phases,
    /// Distinct lines written by each transaction: sum and maximum.
    pub lines: Spread,
    /// Distinct pages written by each transaction: sum and maximum.
    pub pages: Spread,
    /// Transactions that fell back to the software log.
    pub fallbacks: u64,
    /// Cycles of all cores that the design accounts for afterwards, without simulating them.
    pub afterwards: u64,
    /// Counters of the design, by its own names.
    pub of_design: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Counts a write to persistent memory.
    pub(crate) fn wrote(&mut self, class: Class) {
        self.nvm_writes[class as usize] += 1;
    }

    /// Adds to a counter of the design.
    pub fn add(&mut self, name: &'static str, count: u64) {
        *self.of_design.entry(name).or_default() += count;
    }

    /// Raises a counter of the design to the largest value so far.
    pub fn most(&mut self, name: &'static str, count: u64) {
        let most = self.of_design.entry(name).or_default();
        *most = count.max(*most);
    }

    /// Returns the design's counters and the TLB misses, by name.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let misses = Some(("tlb_misses", self.tlb_misses)).filter(|(_, misses)| *misses > 0);
        let of_design = self.of_design.iter().map(|(name, count)| (*name, *count));
        of_design.chain(misses).map(|(name, count)| (name.to_owned(), count)).collect()
    }

    /// Returns the number of writes to persistent memory.
    pub fn nvm_writes_total(&self) -> u64 {
        self.nvm_writes.iter().sum()
    }
}

/// Cycles of transactions by phase; a transaction counts from the end of its predecessor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// All cycles.
    pub total: u64,
    /// The start of transactions.
    pub begin: u64,
    /// Stores that wait for their log.
    pub log_stall: u64,
    /// The end of transactions, until their writes are where the commit needs them.
    pub prepare: u64,
    /// The commit itself.
    pub commit: u64,
    /// Aborts.
    pub abort: u64,
    /// Waits for locks held by other cores.
    pub locks: u64,
}

/// A phase of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between two transactions.
    Outside,
    /// The start of a transaction.
    Begin,
    /// The program's body.
    Body,
    /// A store that waits for its log.
    LogStall,
    /// See [`Phases::prepare`].
    Prepare,
    /// The commit.
    Commit,
    /// An abort.
    Abort,
    /// A wait for another core's lock.
    Lock,
}

impl Phases {
    /// Adds cycles to a phase and to the total.
    pub(crate) fn add(&mut self, phase: Phase, cycles: u64) {
        self.total += cycles;
        match phase {
            Phase::Outside | Phase::Body => {}
            Phase::Begin => self.begin += cycles,
            Phase::LogStall => self.log_stall += cycles,
            Phase::Prepare => self.prepare += cycles,
            Phase::Commit => self.commit += cycles,
            Phase::Abort => self.abort += cycles,
            Phase::Lock => self.locks += cycles,
        }
    }
}

/// A sum and the largest value in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The sum.
    pub sum: u64,
    /// The largest value.
    pub max: u64,
}

impl Spread {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.sum += value;
        self.max = self.max.max(value);
    }
}
