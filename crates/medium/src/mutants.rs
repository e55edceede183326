//! Bugs to plant, each by its name: the proof that crash tests find such bugs.
//!
//! A place that keeps a promise asks [`planted`] whether to break it. Without the feature `mutants`
//! the answer is `false` when the program is compiled, and nothing of this is left; only tests
//! enable it. A bug is planted in one thread.
//!
//! docs/internals/mutants.md has what kills each, and what is argued about those that are not here.
//! Numbers up to 42 are the ones of the list there; two bugs have one where it happens in two
//! places.

/// The one list: a variant, its number and name, and what it breaks.
macro_rules! mutants {
    ($($variant:ident $number:literal $name:literal $what:literal,)*) => {
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

            /// Its number in docs/internals/mutants.md.
            pub fn number(self) -> u32 {
                match self { $(Mutant::$variant => $number,)* }
            }

            /// What it breaks.
            pub fn what(self) -> &'static str {
                match self { $(Mutant::$variant => $what,)* }
            }
        }
    };
}

mutants! {
    GroupNotWrittenBack 1 "group-not-written-back"
        "A group of the log is stored into the cache and not written back.",
    GroupNotSynced 1 "group-not-synced"
        "A group of the log is written to the page cache and not made durable.",
    OnlyFirstLineWrittenBack 3 "only-first-line-written-back"
        "Of a group of the log only the first line leaves the cache.",
    HeaderNotWrittenBack 4 "header-not-written-back"
        "The header of a group, with its checksum, does not leave the cache.",
    TakenUnderWay 5 "taken-under-way"
        "A group is acknowledged while it is under way.",
    HomeBeforeLog 6 "home-before-log"
        "A group goes home while it is under way to the log.",
    HomeNotWrittenBack 7 "home-not-written-back"
        "Words at home are stored into the cache and not written back.",
    HomePagesForgotten 7 "home-pages-forgotten"
        "The barrier writes no gathered page home.",
    HomeBarrierSkipped 8 "home-barrier-skipped"
        "No barrier between the words at home and recycling.",
    RecycledFirst 9 "recycled-first"
        "The log is recycled when it is durable, before it is at home.",
    RecyclingNotSynced 10 "recycling-not-synced"
        "The superblock of a reproduce step is not made durable.",
    ShownFirst 6 "shown-first"
        "Words are stored at home before the record that tells of them is durable.",
    TruncatedFirst 9 "truncated-first"
        "A slot's records are forgotten before their words are durable at home.",
    HeadBeforeHome 12 "head-before-home"
        "The superblock says that words are at home before their barrier.",
    FenceLeftToBarrier 13 "fence-left-to-barrier"
        "Who stores words home leaves the fence to who calls the barrier.",
    GroupNotFenced 14 "group-not-fenced"
        "A group is stored past the cache and acknowledged without a fence.",
    InPlaceFirst 15 "in-place-first"
        "A word is written in place before what it was is durable.",
    EntriesDroppedFirst 16 "entries-dropped-first"
        "The records of a transaction are void before its words are durable at home.",
    OldestFirst 17 "oldest-first"
        "Recovery takes back what was written oldest first.",
    ChecksumIgnored 18 "checksum-ignored"
        "Recovery takes a group whose checksum is wrong.",
    SequenceIgnored 19 "sequence-ignored"
        "Recovery takes a group of another lap.",
    GenerationIgnored 19 "generation-ignored"
        "Recovery takes a group of another generation.",
    LengthTrusted 21 "length-trusted"
        "Recovery reads as many words as a header says, before its bound.",
    ClearedBeforeApplied 22 "cleared-before-applied"
        "Recovery begins a generation before it has replayed the log.",
    OpeningNotSynced 24 "opening-not-synced"
        "The superblock of an open is not made durable.",
    ReplayBarrierSkipped 25 "replay-barrier-skipped"
        "No barrier between what recovery brings home and the superblock.",
    BadRecordSkipped 26 "bad-record-skipped"
        "Recovery goes on behind the first bad group.",
    SlotOrder 27 "slot-order"
        "Recovery replays slot by slot instead of in the order of IDs.",
    AllocatorNotLogged 28 "allocator-not-logged"
        "The allocator's words are changed outside of the transaction.",
    ReadNotCovered 33 "read-not-covered"
        "A transaction that only reads is acknowledged before what it has read.",
    TakenOutOfOrder 33 "taken-out-of-order"
        "A group is acknowledged when a later one is durable.",
    ReleasedFirst 33 "released-first"
        "A transaction is acknowledged before it is durable, as are those that read from it.",
    HoleSkipped 34 "hole-skipped"
        "Recovery takes a group of the next lap whose predecessor is missing.",
    HoleNotRecorded 34 "hole-not-recorded"
        "An abort uses up an ID and records nothing for it.",
    GrowthNotSynced 35 "growth-not-synced"
        "A file gets its name before its contents are durable.",
    FailedSyncRetried 36 "failed-sync-retried"
        "A sync that failed is tried again, and believed.",
    DirectoryNotSynced 37 "directory-not-synced"
        "A file's name is not made durable.",
    EmptyNameFirst 95 "empty-name-first"
        "An empty file takes a pool's name before the temporary name beside it is durable.",
    ShortWriteNotResumed 38 "short-write-not-resumed"
        "A write that ends early is taken for whole.",
    ShortGroupNotResumed 38 "short-group-not-resumed"
        "A group whose write ends early is taken for whole.",
    BlockRewritten 39 "block-rewritten"
        "A group begins in the last block of the one before.",
    OneSuperblock 43 "one-superblock"
        "The second copy of the superblock is not written.",
    SuperblocksAtOnce 44 "superblocks-at-once"
        "No barrier between the two copies of the superblock.",
    SecondCopyNotSynced 45 "second-copy-not-synced"
        "The second copy of the superblock is not made durable.",
    LogHeadLast 46 "log-head-last"
        "The log's head is written after the superblock of an open.",
    AcknowledgedTooLarge 47 "acknowledged-too-large"
        "A header says that all before it was acknowledged.",
    AcknowledgedIgnored 48 "acknowledged-ignored"
        "Recovery does not see that something acknowledged is missing.",
    GenerationKept 49 "generation-kept"
        "An open begins no generation.",
    SequenceKept 50 "sequence-kept"
        "An open leaves the superblock's sequence as it was.",
    LogNotSettled 51 "log-not-settled"
        "Recovery brings home what only the page cache has of the log.",
    CleanKept 52 "clean-kept"
        "The superblock of an open leaves the mark of good order.",
    CleanBeforeHome 53 "clean-before-home"
        "The mark of good order is written before everything is at home.",
    ShadowBeforeReplay 54 "shadow-before-replay"
        "The shadow is read before the log is replayed.",
    PoolNamedFirst 55 "pool-named-first"
        "A pool gets its name before its log does.",
    InterruptedLogKept 56 "interrupted-log-kept"
        "What an interrupted creation left is not removed.",
    NameNotSettled 57 "name-not-settled"
        "An open goes on with a name that its maker has not made durable.",
    SuperblockNotSettled 58 "superblock-not-settled"
        "An open acts on a superblock that it can read and that may not be durable.",
    GoodCopyFirst 59 "good-copy-first"
        "Of two copies of a block the one that counts is written first.",
    FirstValueKept 60 "first-value-kept"
        "A combined group keeps the first value of a word that is written twice.",
    GroupInPieces 61 "group-in-pieces"
        "A combined group is written as two, each with some of the words.",
    DecodedLengthTrusted 62 "decoded-length-trusted"
        "Recovery decodes as many words as a compressed group says, before its bound.",
    CompressedTakenPlain 63 "compressed-taken-plain"
        "Recovery takes a compressed group as it is stored.",
    RestOfRunLost 70 "rest-of-run-lost"
        "Of a run that crosses into another part of home only the beginning comes home.",
    PageOfTwoParts 71 "page-of-two-parts"
        "Two parts of home share a page.",
    MarkedAtFirstPart 72 "marked-at-first-part"
        "The superblock is written when one part of home is durable.",
    SyncedAtFirstPart 73 "synced-at-first-part"
        "Home is synced when one part of it is written out.",
    LastPartNotWrittenOut 74 "last-part-not-written-out"
        "The last part of home keeps what it has in hand.",
    LastPartLeftOut 75 "last-part-left-out"
        "A batch is taken for done before its last part was claimed.",
    HeadLeft 90 "head-left"
        "The head of a slot is not made durable.",
    StampTooEarly 91 "stamp-too-early"
        "A record's stamp is where its transaction began.",
    FrontierOfNow 92 "frontier-of-now"
        "Records are forgotten of what is committed and not at home.",
    RestartedFirst 93 "restarted-first"
        "A slot is written from its beginning before its records are forgotten.",
    GroupToldFirst 94 "group-told-first"
        "A worker's group is said to be durable before its record is.",
    TouchingIgnored 80 "touching-ignored"
        "A page of a bounded shadow is forgotten, or read again, before it is at home.",
    TouchingNotTold 81 "touching-not-told"
        "A bounded shadow is not told who has written a page.",
    TouchingTooEarly 82 "touching-too-early"
        "A page's touching ID is that of the transaction before.",
    WrittenNotPinned 83 "written-not-pinned"
        "A page that a running transaction has written may be evicted.",
    EvictedKept 84 "evicted-kept"
        "A page that was evicted is found where it was.",
    PlainWriteNotSynced 110 "plain-write-not-synced"
        "A write where the system knows no durable ones is not followed by a sync.",
    ProcessIgnored 111 "process-ignored"
        "A forked child takes itself for the process that opened the pool.",
    NamesIgnored 112 "names-ignored"
        "A flush does not see that the files have lost their names.",
    HolesKept 113 "holes-kept"
        "An open does not allocate the holes of a sparse copy.",
    StopCounted 114 "stop-counted"
        "A waiter counts the time in which its process was stopped.",
    PlaceholderKept 115 "placeholder-kept"
        "A renewal keeps the empty file that an interrupted one has left in the log's place.",
}

/// Whether this bug is planted here.
#[inline(always)]
pub fn planted(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    return thread::is_planted(mutant);
    #[cfg(not(feature = "mutants"))]
    {
        let _ = mutant;
        false
    }
}

/// The mutant of this name, where this build has them.
pub fn by_name(name: &str) -> Option<Mutant> {
    let all = if cfg!(feature = "mutants") { Mutant::ALL } else { &[] };
    all.iter().copied().find(|mutant| mutant.name() == name)
}

/// As long as it lives the bug is planted in this thread.
#[derive(Debug)]
#[must_use]
pub struct Planted(());

/// Plants a bug in this thread, or none.
///
/// # Panics
/// When there is no such bug; ask [`by_name`] first.
pub fn plant(name: Option<&str>) -> Planted {
    let mutant = name.map(|name| by_name(name).expect("this build has the mutant"));
    #[cfg(feature = "mutants")]
    thread::put(mutant);
    let _ = mutant;
    Planted(())
}

impl Drop for Planted {
    fn drop(&mut self) {
        #[cfg(feature = "mutants")]
        thread::put(None);
    }
}

#[cfg(feature = "mutants")]
mod thread {
    use std::cell::Cell;

    use super::Mutant;

    thread_local!(static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) });

    #[inline]
    pub(super) fn is_planted(mutant: Mutant) -> bool {
        PLANTED.get() == Some(mutant)
    }

    pub(super) fn put(mutant: Option<Mutant>) {
        PLANTED.set(mutant);
    }
}
