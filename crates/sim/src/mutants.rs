//! Bugs to plant, each by its name: the proof that what looks for such bugs finds them.
//!
//! A place that keeps a promise asks [`planted`] whether to break it. Without the feature `mutants`
//! (this crate's own tests have it) the answer is `false` when the program is compiled, and nothing
//! of this is left. A bug is planted in one thread.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mutant {
    /// A controller answers a read from the array, though a write of its line waits in its queue.
    ForwardingOff,
    /// A modified line that leaves the last cache is not written to memory.
    LastCacheDrops,
    /// A modified line that leaves a core's caches does not go to the last one.
    CoreDrops,
    /// A write overtakes a read of its line in a controller.
    WriteOvertakes,
    /// Who gets the right to write a line that the last cache has modified leaves the duty there.
    DutyStays,
    /// Writes of one line leave a controller in any order.
    LinesOutOfOrder,
    /// LAD: the last cache's copy of a flushed line stays modified, and is written as nobody's.
    LadFlushLeavesDirty,
    /// LAD: recovery asks one controller what is committed, and not all.
    LadOneController,
    /// LAD: numbers of transactions have eight bits and are compared plainly.
    LadEightBits,
    /// LAD: the log is undone from the oldest entry to the newest.
    LadOldestFirst,
    /// LAD: recovery clears the log from the oldest entry to the newest.
    LadClearsOldestFirst,
    /// LAD: a line leaves a full queue before its old words are in the log.
    LadNoLog,
    /// LAD: an entry's seal is sent to the log before the old words.
    LadSealFirst,
    /// LAD: the commit does not wait until all flushes are acknowledged.
    LadCommitEarly,
    /// LAD: a controller acknowledges a commit without noting it.
    LadRegisterLate,
    /// LAD: a thread that is suspended takes its marks away without flushing the lines.
    LadSuspendedUnmarks,
    /// LAD: when power fails a plain write behind a staged one of its line goes home, and is not
    /// put aside.
    LadPlainGoesHome,
    /// LAD: recovery does not clear the log.
    LadKeepsSeals,
    /// LAD: recovery does not forget what was put aside.
    LadKeepsSaved,
    /// LAD: who goes on after recovery counts transactions from the first one on.
    LadForgetsNumbers,
    /// LAD in the last cache: recovery asks one bank what is committed, and not all.
    LlcOneBank,
    /// LAD in the last cache: a held line overwrites the committed one.
    LlcInPlace,
    /// LAD in the last cache: a line for which there is no second way does not wait until the older
    /// version is accepted.
    LlcNoWait,
    /// Software logging: stores do not wait for their log.
    UndoWithoutFence,
    /// Software logging: the commit word does not wait for the data.
    UndoCommitFirst,
    /// Logs in hardware: the commit word is written before the record with the entries.
    CommitBeforeMeta,
    /// Logs in hardware: a commit is acknowledged when its own record is durable.
    AcknowledgeOwnRecord,
    /// Logs in hardware: space is used again before memory has Log Start.
    LogReusedEarly,
    /// Undo logging in hardware: data do not wait for their log.
    DataBeforeLog,
    /// Undo logging in hardware: data that wait for their log have a slot in a controller.
    HeldHasSlot,
    /// Undo logging in hardware: the commit word does not wait for the data.
    CommitBeforeData,
    /// Forced write-backs: the log is cut off after one scan.
    FwbOneScan,
    /// Redo logging in hardware: the youngest transaction's lines are written home first.
    RetireYoungestFirst,
    /// Lines in DRAM are not looked for.
    DramNotLookedUp,
    /// ReDU: the filter's counters go down by two.
    FilterTwice,
    /// ReDU: who overwrites a committed line does not keep its records.
    ReduTrimsEarly,
    /// Logs in hardware: software begins before what is committed is at home.
    SoftwareEarly,
    /// Logs in hardware: a commit does not care whether software runs.
    CommitsBeside,
    /// Undo logging in hardware: software begins before what its attempt has written is taken back.
    AttemptStays,
    /// Undo logging in hardware: no drop word says that an attempt needs not be undone.
    DropWithoutWord,
    /// Redo logging in hardware: lines of an attempt stay in the victim buffer.
    VictimsStay,
    /// SSP: the metadata of a commit do not wait for its data.
    SspMetadataFirst,
    /// SSP: pages change places in the cache when the journal has the whole batch, and not with the
    /// bits when it has theirs.
    SspSwapsLate,
    /// SSP: the page table is written before the journal says that pages have changed places.
    SspTableFirst,
    /// SSP: recovery takes a transaction's records that are there, whether all are or not.
    SspPartOfACommit,
    /// SSP: a page is brought together though an open transaction writes it.
    SspForgetsWriters,
    /// SSP: the journal's tail is moved before the slots that it tells are durable.
    SspTailFirst,
    /// SSP: recovery begins a lap without a look at what lies in the journal.
    SspLapsComeAgain,
    /// SSP: recovery applies records that the slot already knows.
    SspAppliesOldRecords,
    /// SSP: a line that was modified outside of a transaction gets another number as it is.
    SspRetagsDirty,
    /// SSP's undo log: stores do not wait for their entries.
    SspUndoWithoutWaiting,
    /// SSP's redo log: the commit record does not wait for the log.
    SspRedoRecordFirst,
    /// SSP's redo log: the last cache does not keep lines of open transactions.
    SspRedoLetsLinesGo,
    /// SSP's redo log: software waits for what is committed when it begins, and not for what is
    /// until it has its last lock.
    SspRedoSoftwareEarly,
}

impl Mutant {
    /// Those of the machine; the others are in designs, and found by cuts of power.
    pub const OF_THE_MACHINE: &'static [Mutant] = &[
        Mutant::ForwardingOff,
        Mutant::LastCacheDrops,
        Mutant::CoreDrops,
        Mutant::WriteOvertakes,
        Mutant::DutyStays,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mutant::ForwardingOff => "forwarding-off",
            Mutant::LastCacheDrops => "last-cache-drops",
            Mutant::CoreDrops => "core-drops",
            Mutant::WriteOvertakes => "write-overtakes",
            Mutant::DutyStays => "duty-stays",
            Mutant::LinesOutOfOrder => "lines-out-of-order",
            Mutant::LadFlushLeavesDirty => "lad-flush-leaves-dirty",
            Mutant::LadOneController => "lad-one-controller",
            Mutant::LadEightBits => "lad-eight-bits",
            Mutant::LadOldestFirst => "lad-oldest-first",
            Mutant::LadClearsOldestFirst => "lad-clears-oldest-first",
            Mutant::LadNoLog => "lad-no-log",
            Mutant::LadSealFirst => "lad-seal-first",
            Mutant::LadCommitEarly => "lad-commit-early",
            Mutant::LadRegisterLate => "lad-register-late",
            Mutant::LadSuspendedUnmarks => "lad-suspended-unmarks",
            Mutant::LadPlainGoesHome => "lad-plain-goes-home",
            Mutant::LadKeepsSeals => "lad-keeps-seals",
            Mutant::LadKeepsSaved => "lad-keeps-saved",
            Mutant::LadForgetsNumbers => "lad-forgets-numbers",
            Mutant::LlcOneBank => "llc-one-bank",
            Mutant::LlcNoWait => "llc-no-wait",
            Mutant::LlcInPlace => "llc-in-place",
            Mutant::UndoWithoutFence => "undo-without-fence",
            Mutant::UndoCommitFirst => "undo-commit-first",
            Mutant::CommitBeforeMeta => "commit-before-meta",
            Mutant::AcknowledgeOwnRecord => "acknowledge-own-record",
            Mutant::LogReusedEarly => "log-reused-early",
            Mutant::DataBeforeLog => "data-before-log",
            Mutant::HeldHasSlot => "held-has-slot",
            Mutant::CommitBeforeData => "commit-before-data",
            Mutant::FwbOneScan => "fwb-one-scan",
            Mutant::RetireYoungestFirst => "retire-youngest-first",
            Mutant::DramNotLookedUp => "dram-not-looked-up",
            Mutant::FilterTwice => "filter-twice",
            Mutant::ReduTrimsEarly => "redu-trims-early",
            Mutant::SoftwareEarly => "software-early",
            Mutant::CommitsBeside => "commits-beside",
            Mutant::AttemptStays => "attempt-stays",
            Mutant::DropWithoutWord => "drop-without-word",
            Mutant::VictimsStay => "victims-stay",
            Mutant::SspMetadataFirst => "ssp-metadata-first",
            Mutant::SspSwapsLate => "ssp-swaps-late",
            Mutant::SspTableFirst => "ssp-table-first",
            Mutant::SspPartOfACommit => "ssp-part-of-a-commit",
            Mutant::SspForgetsWriters => "ssp-forgets-writers",
            Mutant::SspTailFirst => "ssp-tail-first",
            Mutant::SspLapsComeAgain => "ssp-laps-come-again",
            Mutant::SspAppliesOldRecords => "ssp-applies-old-records",
            Mutant::SspRetagsDirty => "ssp-retags-dirty",
            Mutant::SspUndoWithoutWaiting => "ssp-undo-without-waiting",
            Mutant::SspRedoRecordFirst => "ssp-redo-record-first",
            Mutant::SspRedoLetsLinesGo => "ssp-redo-lets-lines-go",
            Mutant::SspRedoSoftwareEarly => "ssp-redo-software-early",
        }
    }
}

/// Whether this bug is planted here.
#[inline(always)]
pub(crate) fn planted(mutant: Mutant) -> bool {
    #[cfg(any(test, feature = "mutants"))]
    return thread::PLANTED.get() == Some(mutant);
    #[cfg(not(any(test, feature = "mutants")))]
    {
        let _ = mutant;
        false
    }
}

#[cfg(any(test, feature = "mutants"))]
pub use thread::{Planted, plant};

#[cfg(any(test, feature = "mutants"))]
mod thread {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        pub(super) static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// As long as it lives the bug is planted in this thread.
    #[derive(Debug)]
    #[must_use]
    pub struct Planted(());

    /// Plants a bug in this thread.
    pub fn plant(mutant: Mutant) -> Planted {
        PLANTED.set(Some(mutant));
        Planted(())
    }

    impl Drop for Planted {
        fn drop(&mut self) {
            PLANTED.set(None);
        }
    }
}

#[cfg(test)]
mod tests;
