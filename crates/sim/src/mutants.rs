//! Bugs to plant, each by its name: the proof that what looks for such bugs finds them.
//!
//! A place that keeps a promise asks `planted` whether to break it. Without the feature `mutants`
//! (this crate's own tests have it) the answer is `false` when the program is compiled, and nothing
//! of this is left. A bug is planted in one thread.
//!
//! docs/internals/mutants.md has what finds each.

/// The one list: a variant, its name, and what it breaks.
macro_rules! mutants {
    ($($variant:ident $name:literal $what:literal,)*) => {
        /// A bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Mutant {
            $(#[doc = $what] $variant,)*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$variant),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Mutant::$variant => $name,)* }
            }

            /// What it breaks.
            pub fn what(self) -> &'static str {
                match self { $(Mutant::$variant => $what,)* }
            }
        }
    };
}

mutants! {
    ForwardingOff "forwarding-off"
        "A controller answers a read from the array, though a write of its line waits in its \
         queue.",
    LastCacheDrops "last-cache-drops"
        "A modified line that leaves the last cache is not written to memory.",
    CoreDrops "core-drops"
        "A modified line that leaves a core's caches does not go to the last one.",
    WriteOvertakes "write-overtakes"
        "A write overtakes a read of its line in a controller.",
    DutyStays "duty-stays"
        "Who gets the right to write a line that the last cache has modified leaves the duty \
         there.",
    LinesOutOfOrder "lines-out-of-order"
        "Writes of one line leave a controller in any order.",
    LadFlushLeavesDirty "lad-flush-leaves-dirty"
        "LAD: the last cache's copy of a flushed line stays modified, and is written as nobody's.",
    LadOneController "lad-one-controller"
        "LAD: recovery asks one controller what is committed, and not all.",
    LadEightBits "lad-eight-bits"
        "LAD: numbers of transactions have eight bits and are compared plainly.",
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
        "LAD: a controller acknowledges a commit without noting it.",
    LadSuspendedUnmarks "lad-suspended-unmarks"
        "LAD: a thread that is suspended takes its marks away without flushing the lines.",
    LadPlainGoesHome "lad-plain-goes-home"
        "LAD: when power fails a plain write behind a staged one of its line goes home, and is \
         not put aside.",
    LadKeepsSeals "lad-keeps-seals"
        "LAD: recovery does not clear the log.",
    LadKeepsSaved "lad-keeps-saved"
        "LAD: recovery does not forget what was put aside.",
    LadForgetsNumbers "lad-forgets-numbers"
        "LAD: who goes on after recovery counts transactions from the first one on.",
    LlcOneBank "llc-one-bank"
        "LAD in the last cache: recovery asks one bank what is committed, and not all.",
    LlcInPlace "llc-in-place"
        "LAD in the last cache: a held line overwrites the committed one.",
    LlcNoWait "llc-no-wait"
        "LAD in the last cache: a line for which there is no second way does not wait until the \
         older version is accepted.",
    UndoWithoutFence "undo-without-fence"
        "Software logging: stores do not wait for their log.",
    UndoCommitFirst "undo-commit-first"
        "Software logging: the commit word does not wait for the data.",
    CommitBeforeMeta "commit-before-meta"
        "Logs in hardware: the commit word is written before the record with the entries.",
    AcknowledgeOwnRecord "acknowledge-own-record"
        "Logs in hardware: a commit is acknowledged when its own record is durable.",
    LogReusedEarly "log-reused-early"
        "Logs in hardware: space is used again before memory has Log Start.",
    DataBeforeLog "data-before-log"
        "Undo logging in hardware: data do not wait for their log.",
    HeldHasSlot "held-has-slot"
        "Undo logging in hardware: data that wait for their log have a slot in a controller.",
    CommitBeforeData "commit-before-data"
        "Undo logging in hardware: the commit word does not wait for the data.",
    FwbOneScan "fwb-one-scan"
        "Forced write-backs: the log is cut off after one scan.",
    RetireYoungestFirst "retire-youngest-first"
        "Redo logging in hardware: the youngest transaction's lines are written home first.",
    DramNotLookedUp "dram-not-looked-up"
        "Lines in DRAM are not looked for.",
    FilterTwice "filter-twice"
        "ReDU: the filter's counters go down by two.",
    ReduTrimsEarly "redu-trims-early"
        "ReDU: who overwrites a committed line does not keep its records.",
    SoftwareEarly "software-early"
        "Logs in hardware: software begins before what is committed is at home.",
    NameReusedEarly "name-reused-early"
        "Logs in hardware: a transaction gets a name while records of who had it can be read.",
    OpenRecordStays "open-record-stays"
        "Logs in hardware: no open record that a line waits for is ended for who waits with locks \
         until all is at home, when software is over.",
    CommitsBeside "commits-beside"
        "Logs in hardware: a commit does not care whether software runs.",
    AttemptStays "attempt-stays"
        "Undo logging in hardware: software begins before what its attempt has written is taken \
         back.",
    DropWithoutWord "drop-without-word"
        "Undo logging in hardware: no drop word says that an attempt needs not be undone.",
    VictimsStay "victims-stay"
        "Redo logging in hardware: lines of an attempt stay in the victim buffer.",
    LapsComeAgain "laps-come-again"
        "Logs in hardware: recovery begins once more the lap that was cut.",
    LogBeginsAnew "log-begins-anew"
        "Logs in hardware: who goes on after recovery writes the log from its first lap on.",
    SspMetadataFirst "ssp-metadata-first"
        "SSP: the metadata of a commit do not wait for its data.",
    SspJournalFirst "ssp-journal-first"
        "SSP: the journal's records of a consolidation do not wait for the copies.",
    SspSwapsLate "ssp-swaps-late"
        "SSP: pages change places in the cache when the journal has the whole batch, and not with \
         the bits when it has theirs.",
    SspTableFirst "ssp-table-first"
        "SSP: the page table is written before the journal says that pages have changed places.",
    SspNoRedirect "ssp-no-redirect"
        "SSP: recovery does not look for entries of the page table that name a spare page.",
    SspPartOfACommit "ssp-part-of-a-commit"
        "SSP: recovery takes a transaction's records that are there, whether all are or not.",
    SspSkipsGaps "ssp-skips-gaps"
        "SSP: recovery takes what comes behind a transaction that the journal does not have.",
    SspForgetsWriters "ssp-forgets-writers"
        "SSP: a page is brought together though an open transaction writes it.",
    SspFlipIsLost "ssp-flip-is-lost"
        "SSP: the other TLBs do not hear that a line has changed places.",
    SspTlbsFirst "ssp-tlbs-first"
        "SSP: the other TLBs hear that a line has changed places before the controller does.",
    SspFlipsAreTurns "ssp-flips-are-turns"
        "SSP: a broadcast turns the bit of a line over, and does not say what it becomes.",
    SspLeavesEarly "ssp-leaves-early"
        "SSP: a page leaves a TLB before its core's broadcasts about it have arrived.",
    SspEndsEarly "ssp-ends-early"
        "SSP: a transaction ends before all know which lines it has moved.",
    SspTurnsBackEarly "ssp-turns-back-early"
        "SSP: lines of a transaction that is given up are moved back before all know where they \
         went.",
    SspDropsEarly "ssp-drops-early"
        "SSP: the controller hears that a transaction is given up before it hears that lines are \
         where they were.",
    SspOwnLinesOnly "ssp-own-lines-only"
        "SSP: a commit is acknowledged when its own lines of the journal are durable.",
    SspReusedEarly "ssp-reused-early"
        "SSP: the journal's lines are written again before the tail that lets them go is durable.",
    SspTailFirst "ssp-tail-first"
        "SSP: the journal's tail is moved before the slots that it tells are durable.",
    SspLapsComeAgain "ssp-laps-come-again"
        "SSP: recovery begins a lap without a look at what lies in the journal.",
    SspAppliesOldRecords "ssp-applies-old-records"
        "SSP: recovery applies records that the slot already knows.",
    SspRetagsDirty "ssp-retags-dirty"
        "SSP: a line that was modified outside of a transaction gets another number as it is.",
    SspForgetsSpares "ssp-forgets-spares"
        "SSP: who goes on after recovery takes the spare pages that slots had in the beginning.",
    SspForgetsNumbers "ssp-forgets-numbers"
        "SSP's logs: who goes on after recovery counts transactions from the first one on.",
    SspUndoWithoutWaiting "ssp-undo-without-waiting"
        "SSP's undo log: stores do not wait for their entries.",
    SspRedoRecordFirst "ssp-redo-record-first"
        "SSP's redo log: the commit record does not wait for the log.",
    SspRedoTrustsRecords "ssp-redo-trusts-records"
        "SSP's redo log: recovery takes a record that came beside its log as if that were there.",
    SspRedoLetsLinesGo "ssp-redo-lets-lines-go"
        "SSP's redo log: the last cache does not keep lines of open transactions.",
    SspRedoSoftwareEarly "ssp-redo-software-early"
        "SSP's redo log: software waits for what is committed when it begins, and not for what is \
         until it has its last lock.",
    SspRedoKeepsNothing "ssp-redo-keeps-nothing"
        "SSP's redo log: a transaction begins without room in its core's log.",
    SspRedoTakesMore "ssp-redo-takes-more"
        "SSP's redo log: a transaction takes more of its core's log than its half.",
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
