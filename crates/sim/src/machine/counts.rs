//! What a machine counts.

use std::collections::BTreeMap;

use super::controller::{CLASSES, Class};

/// Counts since the measurement began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses of programs: loads, stores and write-backs.
    pub accesses: u64,
    /// Reads of persistent memory, those included that a queue has answered.
    pub nvm_reads: u64,
    /// Reads of volatile memory.
    pub dram_reads: u64,
    /// Writes to persistent memory, by class.
    pub nvm_writes: [u64; CLASSES],
    /// Writes to volatile memory.
    pub dram_writes: u64,
    /// Misses of the first private cache, and of the last one.
    pub l1_misses: u64,
    /// See `l1_misses`.
    pub llc_misses: u64,
    /// Lines taken from another core.
    pub transfers: u64,
    /// Pages that a core did not know.
    pub tlb_misses: u64,
    /// Fills that did not carry what they had to: always 0, or the design is wrong.
    pub wrong_fills: u64,
    /// Transactions, and what they took: see [`Phases`].
    pub transactions: u64,
    /// Cycles of transactions by phase.
    pub phases: Phases,
    /// Distinct lines that transactions have written: sum and most.
    pub lines: Spread,
    /// Distinct pages.
    pub pages: Spread,
    /// Transactions that had to take the path in software.
    pub fallbacks: u64,
    /// Cycles of all cores that a design adds afterwards: it knows them, and has not let them pass.
    pub afterwards: u64,
    /// What the design counts besides, by its own names.
    pub of_design: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Counts a write to persistent memory.
    pub(crate) fn wrote(&mut self, class: Class) {
        self.nvm_writes[class as usize] += 1;
    }

    /// Counts something of the design's own.
    pub fn add(&mut self, name: &'static str, count: u64) {
        *self.of_design.entry(name).or_default() += count;
    }

    /// Counts the most that there was of something at a time.
    pub fn most(&mut self, name: &'static str, count: u64) {
        let most = self.of_design.entry(name).or_default();
        *most = count.max(*most);
    }

    /// What the design counts, and how often a TLB was asked in vain, by name.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let misses = Some(("tlb_misses", self.tlb_misses)).filter(|(_, misses)| *misses > 0);
        let of_design = self.of_design.iter().map(|(name, count)| (*name, *count));
        of_design.chain(misses).map(|(name, count)| (name.to_owned(), count)).collect()
    }

    /// All writes to persistent memory.
    pub fn nvm_writes_total(&self) -> u64 {
        self.nvm_writes.iter().sum()
    }
}

/// Cycles of transactions: from the end of one to the end of the next, and parts of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// All of it.
    pub total: u64,
    /// Beginning.
    pub begin: u64,
    /// Stores that wait for their log.
    pub log_stall: u64,
    /// The end, until what was written is where it must be for the commit.
    pub prepare: u64,
    /// The commit itself.
    pub commit: u64,
    /// Taking a transaction back.
    pub abort: u64,
    /// Waiting for locks that others had.
    pub locks: u64,
}

/// A part of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between two transactions.
    Outside,
    /// Beginning.
    Begin,
    /// The program itself.
    Body,
    /// A store that waits for its log.
    LogStall,
    /// See [`Phases::prepare`].
    Prepare,
    /// The commit.
    Commit,
    /// Taking it back.
    Abort,
    /// A lock that another core has.
    Lock,
}

impl Phases {
    /// Adds cycles to a phase.
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

/// A sum and the largest part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The sum.
    pub sum: u64,
    /// The largest.
    pub max: u64,
}

impl Spread {
    /// One more.
    pub fn add(&mut self, value: u64) {
        self.sum += value;
        self.max = self.max.max(value);
    }
}
