//! Mutants: bugs that a test can inject, to prove that the checks detect them.
//!
//! The code that keeps a promise calls `injected` to learn whether to break it. This crate's own
//! tests enable the feature `mutants`; without it, the call is a constant `false` and leaves no
//! code. A mutant is injected into one thread.
//!
//! docs/internals/mutants.md lists the test that detects each mutant.

/// The registry: each mutant's variant, its name, and the promise that it breaks.
macro_rules! mutants {
    ($($variant:ident $name:literal $what:literal,)*) => {
        /// An injected bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Mutant {
            $(#[doc = $what] $variant,)*
        }

        impl Mutant {
            /// All mutants.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$variant),*];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self { $(Mutant::$variant => $name,)* }
            }

            /// Returns a description of the broken promise.
            pub fn what(self) -> &'static str {
                match self { $(Mutant::$variant => $what,)* }
            }
        }
    };
}

mutants! {
    ForwardingOff "forwarding-off"
        "A controller serves a read from the array although a write of its line waits in its \
         queue.",
    LastCacheDrops "last-cache-drops"
        "A modified line evicted from the last-level cache is not written to memory.",
    CoreDrops "core-drops"
        "A modified line evicted from a core's caches does not reach the last-level cache.",
    WriteOvertakes "write-overtakes"
        "A write overtakes a read of its line in a controller.",
    DutyStays "duty-stays"
        "The core that gets the right to write a line that is modified in the last-level cache \
         leaves the duty to write it back there.",
    LinesOutOfOrder "lines-out-of-order"
        "Writes of one line leave a controller in any order.",
    LadFlushLeavesDirty "lad-flush-leaves-dirty"
        "LAD: the last-level cache's copy of a flushed line stays modified, and is written back \
         without an owner.",
    LadOneController "lad-one-controller"
        "LAD: recovery asks only one controller for committed transactions.",
    LadEightBits "lad-eight-bits"
        "LAD: transaction numbers have eight bits, and their comparison ignores the wrap.",
    LadOldestFirst "lad-oldest-first"
        "LAD: the log is undone from the oldest entry to the newest.",
    LadClearsOldestFirst "lad-clears-oldest-first"
        "LAD: recovery clears the log from the oldest entry to the newest.",
    LadNoLog "lad-no-log"
        "LAD: a line leaves a full queue before its old words are in the log.",
    LadSealFirst "lad-seal-first"
        "LAD: an entry's seal is sent to the log before the old words.",
    LadCommitEarly "lad-commit-early"
        "LAD: the commit does not wait until all flushes are acknowledged.",
    LadRegisterLate "lad-register-late"
        "LAD: a controller acknowledges a commit without recording it.",
    LadSuspendedUnmarks "lad-suspended-unmarks"
        "LAD: a suspended thread clears its marks without flushing the lines.",
    LadPlainWritesHeap "lad-plain-writes-heap"
        "LAD: on a power failure, a plain write queued after a staged one of its line is applied, \
         and not saved separately.",
    LadKeepsSeals "lad-keeps-seals"
        "LAD: recovery does not clear the log.",
    LadKeepsSaved "lad-keeps-saved"
        "LAD: recovery does not clear the saved writes.",
    LadForgetsNumbers "lad-forgets-numbers"
        "LAD: after recovery, transaction numbers start again from the first.",
    LlcOneBank "llc-one-bank"
        "LAD in the last-level cache: recovery asks only one bank for committed transactions.",
    LlcInPlace "llc-in-place"
        "LAD in the last-level cache: a held line overwrites the committed one.",
    LlcNoWait "llc-no-wait"
        "LAD in the last-level cache: a line without a second way does not wait until the older \
         version is accepted.",
    UndoWithoutFence "undo-without-fence"
        "Software logging: stores do not wait for their log.",
    UndoCommitFirst "undo-commit-first"
        "Software logging: the commit word does not wait for the data.",
    CommitBeforeMeta "commit-before-meta"
        "Hardware logs: the commit word is written before the record with the entries.",
    AcknowledgeOwnRecord "acknowledge-own-record"
        "Hardware logs: a commit is acknowledged when its own record is durable.",
    LogReusedEarly "log-reused-early"
        "Hardware logs: space is reused before Log Start is durable.",
    DataBeforeLog "data-before-log"
        "Hardware undo logging: data do not wait for their log.",
    HeldHasSlot "held-has-slot"
        "Hardware undo logging: data that wait for their log have a slot in a controller.",
    CommitBeforeData "commit-before-data"
        "Hardware undo logging: the commit word does not wait for the data.",
    FwbOneScan "fwb-one-scan"
        "Forced write-backs: the log is truncated after one scan.",
    RetireYoungestFirst "retire-youngest-first"
        "Hardware redo logging: the youngest transaction's lines are applied to the heap image \
         first.",
    DramNotLookedUp "dram-not-looked-up"
        "Reads do not look lines up in DRAM.",
    FilterTwice "filter-twice"
        "ReDU: the filter's counters are decremented by two.",
    ReduTrimsEarly "redu-trims-early"
        "ReDU: a transaction that overwrites a committed line does not keep its records.",
    SoftwareEarly "software-early"
        "Hardware logs: software begins before committed lines are applied to the heap image.",
    NameReusedEarly "name-reused-early"
        "Hardware logs: a transaction identifier is reused while recovery can read records of its \
         previous transaction.",
    OpenRecordStays "open-record-stays"
        "Hardware logs: an open record that a line waits for is not ended when software is over, \
         although a core with locks waits for all lines to be applied.",
    CommitsBeside "commits-beside"
        "Hardware logs: a commit ignores a running software transaction.",
    AttemptStays "attempt-stays"
        "Hardware undo logging: software begins before the writes of its hardware attempt are \
         undone.",
    DropWithoutWord "drop-without-word"
        "Hardware undo logging: no drop word exempts a dropped attempt from undo.",
    VictimsStay "victims-stay"
        "Hardware redo logging: lines of a dropped attempt stay in the victim buffer.",
    WrapsRepeat "wraps-repeat"
        "Hardware logs: recovery repeats the wrap number of the power failure.",
    LogBeginsAnew "log-begins-anew"
        "Hardware logs: after recovery, the log starts again from its first wrap.",
    SspMetadataFirst "ssp-metadata-first"
        "SSP: a commit's metadata do not wait for its data.",
    SspJournalFirst "ssp-journal-first"
        "SSP: the journal's records of a consolidation do not wait for the copies.",
    SspSwapsLate "ssp-swaps-late"
        "SSP: pages swap in the SSP cache when the journal has the whole batch, and not together \
         with the bits when it has theirs.",
    SspTableFirst "ssp-table-first"
        "SSP: the page table is written before the journal has the swap of pages.",
    SspNoRedirect "ssp-no-redirect"
        "SSP: recovery does not redirect page table entries that name a spare page.",
    SspPartOfACommit "ssp-part-of-a-commit"
        "SSP: recovery applies a transaction whose records are incomplete.",
    SspSkipsGaps "ssp-skips-gaps"
        "SSP: recovery applies records after a transaction that the journal lacks.",
    SspForgetsWriters "ssp-forgets-writers"
        "SSP: a page is consolidated while an open transaction writes it.",
    SspFlipIsLost "ssp-flip-is-lost"
        "SSP: the other TLBs are not notified of a flipped line.",
    SspTlbsFirst "ssp-tlbs-first"
        "SSP: the other TLBs are notified of a flipped line before the controller.",
    SspFlipsAreTurns "ssp-flips-are-turns"
        "SSP: a broadcast toggles the bit of a line, and does not carry its new value.",
    SspLeavesEarly "ssp-leaves-early"
        "SSP: a page leaves a TLB before its core's broadcasts about it have arrived.",
    SspEndsEarly "ssp-ends-early"
        "SSP: a transaction ends before all TLBs know the lines that it has flipped.",
    SspTurnsBackEarly "ssp-turns-back-early"
        "SSP: an aborted transaction's lines are flipped back before all TLBs know that they were \
         flipped.",
    SspDropsEarly "ssp-drops-early"
        "SSP: the controller is notified of an abort before it is notified that the lines are \
         flipped back.",
    SspOwnLinesOnly "ssp-own-lines-only"
        "SSP: a commit is acknowledged when its own lines of the journal are durable.",
    SspReusedEarly "ssp-reused-early"
        "SSP: the journal's lines are reused before the tail that frees them is durable.",
    SspTailFirst "ssp-tail-first"
        "SSP: the journal's tail moves before the checkpointed slots are durable.",
    SspWrapsRepeat "ssp-wraps-repeat"
        "SSP: recovery starts a wrap without regard to older records in the journal.",
    SspAppliesOldRecords "ssp-applies-old-records"
        "SSP: recovery applies records that the slot already knows.",
    SspRetagsDirty "ssp-retags-dirty"
        "SSP: a line that was modified outside of a transaction is retagged without a write-back.",
    SspForgetsSpares "ssp-forgets-spares"
        "SSP: after recovery, slots use the spare pages that they had initially.",
    SspForgetsNumbers "ssp-forgets-numbers"
        "SSP's logs: after recovery, transaction numbers start again from the first.",
    SspUndoWithoutWaiting "ssp-undo-without-waiting"
        "SSP's undo log: stores do not wait for their entries.",
    SspRedoRecordFirst "ssp-redo-record-first"
        "SSP's redo log: the commit record does not wait for the log.",
    SspRedoTrustsRecords "ssp-redo-trusts-records"
        "SSP's redo log: recovery trusts a commit record written beside its log without checking \
         the log.",
    SspRedoLetsLinesGo "ssp-redo-lets-lines-go"
        "SSP's redo log: the last-level cache does not hold lines of open transactions.",
    SspRedoSoftwareEarly "ssp-redo-software-early"
        "SSP's redo log: software waits for the transactions committed when it begins, and not \
         for those committed before its last lock.",
    SspRedoKeepsNothing "ssp-redo-keeps-nothing"
        "SSP's redo log: a transaction begins without room in its core's log.",
    SspRedoTakesMore "ssp-redo-takes-more"
        "SSP's redo log: a transaction takes more of its core's log than its half.",
}

impl Mutant {
    /// The machine's mutants. All others are in designs, and power cuts detect them.
    pub const OF_THE_MACHINE: &'static [Mutant] = &[
        Mutant::ForwardingOff,
        Mutant::LastCacheDrops,
        Mutant::CoreDrops,
        Mutant::WriteOvertakes,
        Mutant::DutyStays,
    ];
}

/// Returns whether this mutant is injected into the current thread.
#[inline(always)]
pub(crate) fn injected(mutant: Mutant) -> bool {
    #[cfg(any(test, feature = "mutants"))]
    return thread::PLANTED.get() == Some(mutant);
    #[cfg(not(any(test, feature = "mutants")))]
    {
        let _ = mutant;
        false
    }
}

#[cfg(any(test, feature = "mutants"))]
pub use thread::{Injected, inject};

#[cfg(any(test, feature = "mutants"))]
mod thread {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        pub(super) static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// A guard: the mutant stays injected into this thread for its lifetime.
    #[derive(Debug)]
    #[must_use]
    pub struct Injected(());

    /// Injects a mutant into this thread.
    pub fn inject(mutant: Mutant) -> Injected {
        PLANTED.set(Some(mutant));
        Injected(())
    }

    impl Drop for Injected {
        fn drop(&mut self) {
            PLANTED.set(None);
        }
    }
}

#[cfg(test)]
mod tests;
