//! Registry of injected bugs: mutants that prove that the crash tests detect such bugs.
//!
//! ```text
//!   system::mutants     a variant and a hook in product code       injected(Mutant::HeadLeft)
//!   mutants (here)      number, name, broken guarantee             a row for each variant
//!   detections          tests that detect it                       a case or a part's test
//!   docs/internals/mutants.md      the same as a page, and arguments about the bugs not here
//! ```
//!
//! A variant without a row does not compile. A bug without a detection fails `cargo test -p
//! lastword-crash-tests --test mutants`, which runs every detection with the bug and without it.

#[macro_use]
mod between_threads;
mod detections;
mod injection;
pub mod page;

pub use detections::{By, DETECTIONS, Detection, Search};
pub use injection::{Injected, by_name, inject};
pub use system::mutants::Mutant;

/// A row of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The bug.
    pub mutant: Mutant,
    /// Its number in docs/internals/mutants.md. Two bugs with two places each have two variants.
    pub number: u32,
    /// Its name in cases, traces and on the command line.
    pub name: &'static str,
    /// The guarantee that it breaks.
    pub breaks: &'static str,
}

/// Builds the registry from its rows, with those that `with_between_threads` adds. The `match`
/// needs a row for each variant.
macro_rules! registry {
    ($($variant:ident $number:literal $name:literal $breaks:literal,)*
     ; $($between:ident $between_number:literal $between_name:literal,)*) => {
        /// The bugs that crash tests must detect.
        pub const ALL: &[Entry] = &[$(entry(Mutant::$variant)),*];

        /// The bugs between threads, which the models in crates/models must detect.
        pub const BETWEEN_THREADS: &[Entry] = &[$(entry(Mutant::$between)),*];

        /// Returns a bug's row.
        pub const fn entry(mutant: Mutant) -> Entry {
            let (number, name, breaks) = match mutant {
                $(Mutant::$variant => ($number, $name, $breaks),)*
                $(Mutant::$between => ($between_number, $between_name, $between_name),)*
            };
            Entry { mutant, number, name, breaks }
        }
    };
}

with_between_threads! {
    GroupNotWrittenBack 1 "group-not-written-back"
        "A group of the log is stored into the cache and not written back.",
    GroupNotSynced 1 "group-not-synced"
        "A group of the log is written to the page cache and not made durable.",
    OnlyFirstLineWrittenBack 3 "only-first-line-written-back"
        "Of a group of the log only the first line leaves the cache.",
    HeaderNotWrittenBack 4 "header-not-written-back"
        "The header of a group, with its checksum, does not leave the cache.",
    TakenUnderWay 5 "taken-under-way"
        "A group is acknowledged while it is in flight.",
    AppliedBeforeLog 6 "applied-before-log"
        "A group is applied to the heap image while its log write is in flight.",
    HeapNotWrittenBack 7 "heap-not-written-back"
        "Words of the heap image are stored into the cache and not written back.",
    HeapPagesForgotten 7 "heap-pages-forgotten"
        "The barrier writes no gathered page.",
    HeapBarrierSkipped 8 "heap-barrier-skipped"
        "No barrier between writes to the heap image and recycling.",
    RecycledFirst 9 "recycled-first"
        "The log is recycled when it is durable, before it is reproduced.",
    RecyclingNotSynced 10 "recycling-not-synced"
        "The superblock of a reproduce step is not made durable.",
    ShownFirst 6 "shown-first"
        "Words are stored into the heap image before their record is durable.",
    TruncatedFirst 9 "truncated-first"
        "A slot's records are truncated before their words are durable in the heap image.",
    HeadBeforeHeap 12 "head-before-heap"
        "The superblock says that words are reproduced before their barrier.",
    FenceLeftToBarrier 13 "fence-left-to-barrier"
        "The thread that stores words leaves the fence to the caller of the barrier.",
    GroupNotFenced 14 "group-not-fenced"
        "A group is stored past the cache and acknowledged without a fence.",
    InPlaceFirst 15 "in-place-first"
        "A word is written in place before its old value is durable.",
    EntriesDroppedFirst 16 "entries-dropped-first"
        "The records of a transaction are void before its words are durable in place.",
    OldestFirst 17 "oldest-first"
        "Recovery undoes writes oldest first.",
    ChecksumIgnored 18 "checksum-ignored"
        "Recovery takes a group whose checksum is wrong.",
    SequenceIgnored 19 "sequence-ignored"
        "Recovery takes a group of another wrap of the log.",
    GenerationIgnored 19 "generation-ignored"
        "Recovery takes a group of another generation.",
    LengthTrusted 21 "length-trusted"
        "Recovery reads as many words as a header says, before its bound.",
    ClearedBeforeApplied 22 "cleared-before-applied"
        "Recovery begins a generation before it has replayed the log.",
    OpeningNotSynced 24 "opening-not-synced"
        "The superblock of an open is not made durable.",
    ReplayBarrierSkipped 25 "replay-barrier-skipped"
        "No barrier between recovery's writes to the heap image and the superblock.",
    BadRecordSkipped 26 "bad-record-skipped"
        "Recovery continues after the first bad group.",
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
        "Recovery takes a group of the next wrap whose predecessor is missing.",
    HoleNotRecorded 34 "hole-not-recorded"
        "An abort uses up an ID and records nothing for it.",
    GrowthNotSynced 35 "growth-not-synced"
        "A file gets its name before its contents are durable.",
    FailedSyncRetried 36 "failed-sync-retried"
        "A failed sync is retried, and its success is trusted.",
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
    LogEnteredFirst 360 "log-entered-first"
        "The log's head says that its generation was entered before the superblock has it.",
    LogNeverEntered 361 "log-never-entered"
        "The log's head does not say that its generation was entered.",
    AcknowledgedTooLarge 47 "acknowledged-too-large"
        "A header says that all before it was acknowledged.",
    AcknowledgedIgnored 48 "acknowledged-ignored"
        "Recovery does not detect that an acknowledged record is missing.",
    GenerationKept 49 "generation-kept"
        "An open begins no generation.",
    SequenceKept 50 "sequence-kept"
        "An open leaves the superblock's sequence as it was.",
    LogNotSettled 51 "log-not-settled"
        "Recovery replays log records that only the page cache has.",
    CleanKept 52 "clean-kept"
        "The superblock of an open keeps the flag of a clean shutdown.",
    CleanBeforeApplied 53 "clean-before-applied"
        "The flag of a clean shutdown is written before everything is reproduced.",
    ShadowBeforeReplay 54 "shadow-before-replay"
        "The shadow is read before the log is replayed.",
    PoolNamedFirst 55 "pool-named-first"
        "A pool gets its name before its log does.",
    InterruptedLogKept 56 "interrupted-log-kept"
        "The leftover of an interrupted creation is not removed.",
    NameNotSettled 57 "name-not-settled"
        "An open goes on with a name that its maker has not made durable.",
    SuperblockNotSettled 58 "superblock-not-settled"
        "An open acts on a superblock that it can read and that may not be durable.",
    GoodCopyFirst 59 "good-copy-first"
        "Of two copies of a block the valid copy is written first.",
    FirstValueKept 60 "first-value-kept"
        "A combined group keeps the first value of a word that is written twice.",
    GroupInPieces 61 "group-in-pieces"
        "A combined group is written as two, each with some of the words.",
    DecodedLengthTrusted 62 "decoded-length-trusted"
        "Recovery decodes as many words as a compressed group says, before its bound.",
    CompressedTakenPlain 63 "compressed-taken-plain"
        "Recovery takes a compressed group as it is stored.",
    RestOfRunLost 70 "rest-of-run-lost"
        "A run that crosses into another part of the heap image is applied only up to there.",
    PageOfTwoParts 71 "page-of-two-parts"
        "Two parts of the heap image share a page.",
    MarkedAtFirstPart 72 "marked-at-first-part"
        "The superblock is written when one part of the heap image is durable.",
    SyncedAtFirstPart 73 "synced-at-first-part"
        "The heap image is synced when one part of it is written out.",
    LastPartNotWrittenOut 74 "last-part-not-written-out"
        "The last part of the heap image keeps its gathered writes.",
    LastPartLeftOut 75 "last-part-left-out"
        "A batch counts as done before its last part was claimed.",
    OldestWordOfPageWins 76 "oldest-word-of-page-wins"
        "A page is written with the first value of a word since its last write.",
    UnwrittenPagesIgnored 77 "unwritten-pages-ignored"
        "The log is recycled up to the groups taken in, with pages that wait to be written.",
    FrozenPageNotCopied 78 "frozen-page-not-copied"
        "A page of the heap image is not copied for a view before it changes.",
    FrozenWordsIgnored 79 "frozen-words-ignored"
        "A view misses the words that were gathered and not yet written.",
    WatchedPageNotCopied 85 "watched-page-not-copied"
        "A worker stores to a page before the page is copied for a view.",
    LiveRecordsIgnored 86 "live-records-ignored"
        "A view of undo has words of transactions that were running.",
    RecordsVoidedBeforeCopy 87 "records-voided-before-copy"
        "A transaction of undo voids its records before its pages are copied for a view.",
    QueuedWordsIgnored 88 "queued-words-ignored"
        "A view of snapshot misses transactions that an older reader keeps from the heap.",
    HeadLeft 90 "head-left"
        "The head of a slot is not made durable.",
    StampTooEarly 91 "stamp-too-early"
        "A record's stamp is where its transaction began.",
    FrontierOfNow 92 "frontier-of-now"
        "Records of transactions that are committed and not reproduced are truncated.",
    RestartedFirst 93 "restarted-first"
        "A slot is written from its beginning before its records are forgotten.",
    GroupNotifiedFirst 94 "group-notified-first"
        "A worker's group is reported durable before its record is.",
    LastWriterIgnored 80 "last-writer-ignored"
        "A page of a bounded shadow is forgotten, or read again, before it is reproduced.",
    LastWriterNotNotified 81 "last-writer-not-notified"
        "A bounded shadow does not learn the last writer of a page.",
    LastWriterTooEarly 82 "last-writer-too-early"
        "A page's last-writer ID is that of the transaction before.",
    WrittenNotPinned 83 "written-not-pinned"
        "A page that a running transaction has written may be evicted.",
    EvictedKept 84 "evicted-kept"
        "An evicted page is still found in its old frame.",
    PlainWriteNotSynced 110 "plain-write-not-synced"
        "A write on a system without durable writes is not followed by a sync.",
    ProcessIgnored 111 "process-ignored"
        "A forked child counts as the process that opened the pool.",
    NamesIgnored 112 "names-ignored"
        "A flush does not detect that the files have lost their names.",
    HolesKept 113 "holes-kept"
        "An open does not allocate the holes of a sparse copy.",
    StopCounted 114 "stop-counted"
        "A waiter counts the time in which its process was stopped.",
    PlaceholderKept 115 "placeholder-kept"
        "A renewal keeps the empty file that an interrupted one has left in the log's place.",
    TakenSlotCounted 116 "taken-slot-counted"
        "A slot that an allocation takes still counts as free.",
    CollectedSlotsStay 117 "collected-slots-stay"
        "Slots that an arena collects from the head of a slab stay there too.",
    RemoteFreeNotListed 118 "remote-free-not-listed"
        "A slot that returns to its slab is put on no list.",
    RemoteFreeNotCounted 119 "remote-free-not-counted"
        "A slot that returns to its slab is not counted.",
    SlabGivenTooEarly 120 "slab-given-too-early"
        "A slab becomes a free run while one of its objects is live.",
    UnlinkedSlabKeepsNeighbor 121 "unlinked-slab-keeps-neighbor"
        "The next slab of a list keeps its link to a slab that has left the list.",
    RemoteFreesForgotten 122 "remote-frees-forgotten"
        "Reclaiming a slab from its arena loses the slots that returned to it.",
    OwnerForgotten 123 "owner-forgotten"
        "Reclaiming strikes an arena off in one transaction, and never takes its slabs.",
    NeighborNotUnlinked 124 "neighbor-not-unlinked"
        "A free run that is merged with the one before it stays in its bin.",
    EmptyBinNotCleared 125 "empty-bin-not-cleared"
        "The bitmap still names a bin whose last run was taken.",
    BeforeNotSet 126 "before-not-set"
        "The run behind a free run does not learn that a part of that was taken.",
    UsedMemoryCountsAsFresh 127 "used-memory-counts-as-fresh"
        "An array in used memory is not filled with zeros.",
    BlockHeadersKept 128 "block-headers-kept"
        "The blocks of a freed array keep their headers.",
    ShorterStringKeepsPiece 129 "shorter-string-keeps-piece"
        "The last piece of a byte string that was shortened in place keeps its size.",
    LongerStringWithoutPieces 130 "longer-string-without-pieces"
        "A byte string that was lengthened in place has no headers of the new pieces.",
    ClassNotConverted 131 "class-not-converted"
        "The conversion of a heap of format 1 leaves out the slots of the largest class.",
    FullHeapNotReclaimed 132 "full-heap-not-reclaimed"
        "A transaction that meets a full heap ends without an attempt to reclaim memory.",
    RunGivenBackAtOnce 133 "run-given-back-at-once"
        "Where a design isolates objects, a freed run serves others before the body ends.",
    CachedSlotForgotten 134 "cached-slot-forgotten"
        "A freed slot is counted in the worker's cache and not linked there.",
    BackupNamedFirst 136 "backup-named-first"
        "A backup has its name before it has its content.",
    GrowthNotAnnounced 138 "growth-not-announced"
        "The file becomes longer before the superblock allows it.",
    GrowthNotRecorded 139 "growth-not-recorded"
        "Transactions use new memory of the heap before the superblock has its size.",
    WatchedBeforeImage 420 "watched-before-image"
        "Pages are watched for a view before a store to them finds the view.",
    HeapNearlyFullUnnoticed 421 "heap-nearly-full-unnoticed"
        "The thread that grows a heap is not woken when the heap is nearly full.",
    FailedGrowthRepeated 422 "failed-growth-repeated"
        "A growth that failed is tried again at once.",
    LogGrowthNotAnnounced 377 "log-growth-not-announced"
        "The log's file becomes longer before the superblock allows it.",
    LogGrowthNotRecorded 378 "log-growth-not-recorded"
        "Groups use new bytes of the log before the superblock has its size.",
    LogGrowthUnbounded 379 "log-growth-unbounded"
        "Groups wrap by the old size of the log while the new one is recorded.",
    LogGrownInSecondHalf 380 "log-grown-in-second-half"
        "The log doubles while groups in use have other places in the larger one.",
    OutgrownBound 140 "outgrown-bound"
        "A transaction that began before a growth fails when it meets new memory.",
    TailAfterHeapSkipped 142 "tail-after-heap-skipped"
        "A reader of a pool in use does not read on in the log after the last page of the heap.",
    PageChecksumsNotWritten 143 "page-checksums-not-written"
        "The checksums of changed pages are not written before the sync of the pages.",
    ChangedPageNotMarked 144 "changed-page-not-marked"
        "A mapped page changes while its checksum is valid.",
    PageMarkNotAwaited 145 "page-mark-not-awaited"
        "A mapped page changes before its mark is durable.",
    SealedPageNotDurable 146 "sealed-page-not-durable"
        "A mapped page gets a checksum before its content is durable.",
    DamagedPagesIgnored 147 "damaged-pages-ignored"
        "Opening and checking a pool ignore pages that differ from their checksums.",
    ReplayedPagesCompared 148 "replayed-pages-compared"
        "After a crash, pages that recovery writes to are compared with their old checksums.",
    PageNotCompared 149 "page-not-compared"
        "A page is not compared with its checksum before it gets a new one.",
    ChecksumsIntoCache 495 "checksums-into-cache" "A line of checksums stays in the cache.",
    NewChecksumsNotAwaited 496 "new-checksums-not-awaited"
        "The checksums of a new mapped pool are not made durable.",
    SealNotAwaited 497 "seal-not-awaited" "The checksums of a seal are not made durable.",
    ScrubMarkNotAwaited 498 "scrub-mark-not-awaited"
        "The mark of a page that a scrub finds damaged is not made durable.",
    FailureMarkNotSynced 499 "failure-mark-not-synced"
        "The mark of a damaged page that poisons the pool is not made durable.",
    DamagedPageNotMarked 150 "damaged-page-not-marked"
        "A page that was found damaged when it was about to change is not marked.",
    LineChecksumIgnored 151 "line-checksum-ignored"
        "A line of the checksum table is accepted although its own checksum is wrong.",
    StringWordTranslated 152 "string-word-translated"
        "Compaction changes a part of a long byte string that is equal to a pointer.",
    CompactedPoolKeepsTag 153 "compacted-pool-keeps-tag"
        "A compacted pool has the tag of the old one, so old pointers lead to other objects.",
    FrameNumberIgnored 154 "frame-number-ignored"
        "An import accepts frames of an export in another order.",
    LastStepRepeated 137 "last-step-repeated"
        "A migration that a crash ended after its last step runs that step again.",
    SplitLeavesKey 155 "split-leaves-key"
        "A B-tree node that splits keeps a key of the new right half.",
    JoinedNodeLeaks 156 "joined-node-leaks"
        "A B-tree node that was emptied by a join is not freed.",
    AbsentKeyNotProtected 157 "absent-key-not-protected"
        "An operation on an ordered map that changes nothing does not protect its key's place.",
    EmptyTreeNotProtected 158 "empty-tree-not-protected"
        "A pop from an empty ordered map does not protect the root.",
    AbsentPairNotProtected 159 "absent-pair-not-protected"
        "An operation on a hash map that changes nothing does not protect its key's place.",
    DoublingSkipsBucket 160 "doubling-skips-bucket"
        "A directory that doubles leaves out the new bucket of the split.",
    MergedSlotsKept 161 "merged-slots-kept"
        "A merge of two buckets leaves the freed one in the directory's slots.",
    FreedSlotsForgotten 162 "freed-slots-forgotten"
        "A step that frees pairs of a hash map does not note its progress.",
    StripeNotUpdated 163 "stripe-not-updated"
        "A removal from a hash map leaves the stripe of the length as it was.",
    LongValueLeaks 164 "long-value-leaks"
        "A freed entry leaves the pieces of a long key or value.",
    FullChunkNotProtected 165 "full-chunk-not-protected"
        "A push that adds a chunk does not protect the full one beside it.",
    EmptyChunkNotProtected 166 "empty-chunk-not-protected"
        "A pop beside an empty chunk does not protect the empty one.",
    LastChunkNotProtected 167 "last-chunk-not-protected"
        "A pop that empties a chunk does not protect the last chunk with elements.",
    QueueFrontNotProtected 168 "queue-front-not-protected"
        "A change of an element by its index does not protect the front of a queue.",
    ClearedEndsNotProtected 169 "cleared-ends-not-protected"
        "The first step that clears a queue does not protect its ends.",
    StoredLengthsIgnored 170 "stored-lengths-ignored"
        "The catalog ignores the stored lengths of a named collection.",
    OwnRootReplaced 171 "own-root-replaced"
        "The catalog replaces a program's own root.",
    ReplacedTypesLeak 172 "replaced-types-leak"
        "Types in the catalog that were replaced are not freed.",
    UnmovedValuesForgotten 173 "unmoved-values-forgotten"
        "The last step of a conversion runs while the old collection has values.",
    RegionOldestTooNew 190 "region-oldest-too-new"
        "The words of a region count from the time when the page writes left it.",
    ArenaNotListed 135 "arena-not-listed"
        "The bitmap of owners misses the arena of a worker that frees and never allocates.",
    KernelWriteNotDurable 362 "kernel-write-not-durable"
        "A write that must be durable on return is passed to the kernel without RWF_DSYNC.",
    QueuedWriteNotDurable 363 "queued-write-not-durable" "io_uring gets no RWF_DSYNC.",
    KernelDataNotSynced 364 "kernel-data-not-synced"
        "The kernel's fdatasync is not called.",
    KernelFileNotSynced 365 "kernel-file-not-synced"
        "The kernel's fsync of a file is not called.",
    KernelDirectoryNotSynced 366 "kernel-directory-not-synced"
        "The kernel's fsync of a directory is not called.",
    KernelPagesKept 367 "kernel-pages-kept"
        "The page cache keeps pages that must be read from the disk.",
    StreamedIntoCache 368 "streamed-into-cache"
        "Words that must bypass the processor's cache are stored into it.",
    LineNotWrittenBack 369 "line-not-written-back"
        "No instruction writes a line of the heap image back.",
    LineInPlaceNotWrittenBack 370 "line-in-place-not-written-back"
        "No instruction writes a line back that a transaction has stored in place.",
    StoresNotFenced 371 "stores-not-fenced"
        "No instruction waits for write-backs and for stores past the cache.",
    RunBoundsIgnored 394 "run-bounds-ignored"
        "Recovery takes a group that writes outside the heap.",
    ReclaimedArenaNotProtected 395 "reclaimed-arena-not-protected"
        "A reclaim does not protect the objects of the arena.",
    FreedPiecesNotProtected 396 "freed-pieces-not-protected"
        "A transaction that frees a byte string does not protect its pieces.",
    GroupWitnessLeftOut 390 "group-witness-left-out" "A durable group leaves no witness.",
    GroupWitnessFirst 391 "group-witness-first" "A group has its witness before it is durable.",
    GroupWitnessIgnored 392 "group-witness-ignored" "Recovery ignores the groups' witnesses.",
    GroupWitnessIntoCache 393 "group-witness-into-cache" "A page's witness stays in the cache.",
    PageWitnessLeftOut 430 "page-witness-left-out" "No witness of a page of the log is stored.",
    CheckpointVoidsWitness 445 "checkpoint-voids-witness"
        "No group after a checkpoint leaves a witness before the next page of the log.",
    WitnessNotKept 446 "witness-not-kept" "A checkpoint leaves the last witness in the cache.",
    ReproducedBeforeReplicated 460 "reproduced-before-replicated"
        "Reproduction takes groups that the required stream lacks.",
    CopiedGroupGrows 461 "copied-group-grows" "A group grows after the feed has copied it.",
    SuffixReplayed 476 "suffix-replayed"
        "A pool that rejoins applies the transactions that it should drop.",
    ConfirmedBeforeReply 470 "confirmed-before-reply"
        "A group is confirmed before the stream has it.",
    UnknownTakenForYes 471 "unknown-taken-for-yes" "A lost reply counts as a confirmation.",
    FenceIgnored 472 "fence-ignored" "A primary appends behind the term of another one.",
    PartAppliedAlone 473 "part-applied-alone" "A follower applies a part of a group.",
    TermNotChecked 474 "term-not-checked" "A follower applies messages of an ended term.",
    FormerPrimaryTrusted 475 "former-primary-trusted"
        "A deposed primary keeps the end of its log when it follows.",
    LogReadUnsettled 477 "log-read-unsettled"
        "A log is read for the stream from a page cache that the disk may lack.",
    LagUnbounded 478 "lag-unbounded" "The stream may lack any number of bytes.",
    AppliedBeforeChecked 431 "applied-before-checked" "Records are applied before all are read.",
    ReaderIgnoresWitness 432 "reader-ignores-witness" "Readers of a pool in use ignore witnesses.",
    RemovalNotSynced 437 "removal-not-synced" "The removal of a file's name is not made durable.",
    ColourNotProtected 438 "colour-not-protected" "A red-black tree protects no unwritten node.",
    PagesNotProtected 433 "pages-not-protected" "No transaction protects the page object.",
    WitnessLeftOut 372 "witness-left-out" "A durable record of a slot leaves no witness.",
    GapsIgnored 374 "gaps-ignored" "Recovery takes records behind the gap of another slot.",
    WitnessBeforeRecord 375 "witness-before-record" "A record of a slot has its witness too early.",
    WitnessIgnored 373 "witness-ignored"
        "Recovery takes a slot that ends before the record that was durable last.",
    HeadNotDoubled 490 "head-not-doubled" "A slot's head on mapped media has one copy.",
    SlotPageWitnessLeftOut 491 "slot-page-witness-left-out"
        "No witness of a page of a slot is stored.",
    SlotPageWitnessIntoCache 492 "slot-page-witness-into-cache"
        "The witness of a page of a slot stays in the cache.",
    TruncationVoidsWitness 493 "truncation-voids-witness"
        "No record after a truncation leaves a witness before the next page of its slot.",
    SlotWitnessNotKept 494 "slot-witness-not-kept"
        "A truncation leaves the witnesses of the last records in the cache.",
}

#[cfg(test)]
mod tests;
