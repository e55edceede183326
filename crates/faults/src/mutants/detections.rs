//! Detections: each injected bug with the cheap tests that detect it.
//!
//! `crates/crash/tests/mutants.rs` runs them. A case is explored by the crash explorer; a part's
//! test is a function there with the same name.

use std::fmt;

use super::Mutant;

/// An injected bug, and a test that detects it.
#[derive(Clone, Copy, Debug)]
pub struct Detection {
    /// The bug.
    pub mutant: Mutant,
    /// The test.
    pub by: By,
}

/// A test that detects an injected bug.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// An exploration of a case.
    Case(&'static str, Search),
    /// A test of one part by itself, by its name.
    Part(&'static str),
}

/// The executions of a case that are explored: the explorer's tiers.
#[derive(Clone, Copy, Debug)]
pub enum Search {
    /// Tier A: all executions.
    All,
    /// Tier B: at most so many contents other than a policy's.
    Near {
        /// The limit.
        deviations: u32,
    },
    /// Tier C: random executions.
    Random {
        /// The first execution's seed.
        seed: u64,
    },
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Search::All => f.write_str("tier A"),
            Search::Near { deviations } => write!(f, "tier B, deviations {deviations}"),
            Search::Random { seed } => write!(f, "tier C, seed {seed}"),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            By::Case(case, search) => write!(f, "{case}; {search}"),
            By::Part(name) => f.write_str(name),
        }
    }
}

const MEMORY: &str = "workload=cells medium=memory transactions=6 moves=16 all_moves=1 crashes=3";
const CACHE: &str = "workload=cells medium=cache transactions=6 moves=16 all_moves=1 crashes=3";
const FILE: &str = "workload=cells medium=file transactions=6 moves=16 all_moves=1 crashes=3";
const BLOCKING: &str =
    "workload=cells medium=file queue=0 transactions=6 moves=16 all_moves=1 crashes=3";
/// No write is durable when it returns: the log's groups and superblocks need a sync each.
const NO_DSYNC: &str =
    "workload=cells medium=file dsync=0 transactions=6 moves=16 all_moves=1 crashes=3";
/// Bursts: several groups are in flight.
const IN_FLIGHT: &str = "workload=cells medium=file transactions=12 moves=16 all_moves=1 crashes=1";
/// Several wraps of the log.
const WRAPS: &str =
    "workload=bulk medium=memory every_word=0 sync=1 transactions=30 moves=40 crashes=1";
/// A case in which a file's log wraps.
const FILE_WRAPS: &str = "workload=bulk medium=file transactions=30 moves=80 crashes=1";
const ALLOCATOR: &str = "workload=churn medium=cache transactions=6 moves=12 crashes=1";
const CREATION: &str = "workload=cells medium=file create=1 transactions=3 moves=6 crashes=2";
/// Only superblocks are torn: the rest is mapped.
const GARBAGE: &str =
    "workload=cells medium=memory garbage=1 transactions=6 moves=16 all_moves=1 crashes=2";
const FAULT: &str = "workload=cells medium=file transactions=1 moves=1 crashes=1 faults=1";
const KILLED: &str = "workload=cells medium=file sync=1 transactions=3 moves=3 crashes=1 faults=1";
const LONG_WRITES: &str =
    "workload=bulk medium=file sync=1 transactions=3 moves=3 crashes=1 faults=1";
const CREATION_UNNAMED: &str =
    "workload=cells medium=memory create=1 transactions=0 moves=0 crashes=1 every_word=0 naming=0";
const CREATION_FAULT: &str =
    "workload=cells medium=file create=1 transactions=3 moves=6 crashes=2 faults=1";

const CREATION_KILLED: &str =
    "workload=cells medium=file create=1 transactions=3 moves=6 crashes=2 kills=1";
const TWICE_KILLED: &str = "workload=cells medium=file transactions=2 moves=4 crashes=2 kills=2";

/// Groups of several transactions.
const COMBINED: &str =
    "workload=cells medium=memory group=4 transactions=8 moves=20 all_moves=1 crashes=3";
const FILE_COMBINED: &str = "workload=cells medium=file group=4 persist_threads=2 transactions=8 \
    moves=20 all_moves=1 crashes=3";
/// Groups that are large enough to shrink by a block.
const COMPRESSED: &str =
    "workload=bulk medium=memory compress=1 every_word=0 transactions=10 moves=20 crashes=1";
const FILE_COMPRESSED: &str =
    "workload=bulk medium=file compress=1 transactions=10 moves=20 crashes=1";
/// A partitioned heap image, each part a page or more; of five parts the last one is written.
const PARTS_MEMORY: &str =
    "workload=bulk medium=memory every_word=0 partitions=16 transactions=6 moves=16 crashes=2";
const PARTS_CACHE: &str =
    "workload=bulk medium=cache every_word=0 partitions=5 transactions=6 moves=16 crashes=2";
const PARTS_FILE: &str =
    "workload=bulk medium=file partitions=16 transactions=6 moves=16 crashes=2";
const PACED: &str = "workload=bulk medium=file paced=1 transactions=40 moves=120 workers=2 \
     all_moves=1 crashes=2";
const BACKUP: &str =
    "workload=bulk medium=file paced=1 backup=1 transactions=20 moves=60 crashes=2";
const GROWTH: &str = "workload=reuse medium=file grow=1 transactions=20 moves=40 crashes=2";
const LOG_GROWTH: &str =
    "workload=append medium=file grow_log=1 transactions=200 moves=200 crashes=2";
const GROWTH_MEMORY: &str =
    "workload=reuse medium=memory grow=1 transactions=20 moves=40 crashes=2";
const CHECKSUMS_FILE: &str =
    "workload=cells medium=file page_checksums=1 transactions=6 moves=16 all_moves=1 crashes=3";
const CHECKSUMS_MEMORY: &str =
    "workload=cells medium=memory page_checksums=1 transactions=6 moves=16 all_moves=1 crashes=3";
const CHECKSUMS_UNDO: &str = "design=undo workload=cells medium=memory page_checksums=1 \
     transactions=6 moves=16 all_moves=1 crashes=3";
const CHECKSUMS_SNAPSHOT: &str = "design=snapshot workload=cells medium=memory page_checksums=1 \
     transactions=6 moves=16 all_moves=1 crashes=3";
const FEW_PARTS_FILE: &str =
    "workload=bulk medium=file partitions=5 transactions=6 moves=16 crashes=2";
const UNDO_MEMORY: &str =
    "design=undo workload=cells medium=memory transactions=6 moves=16 all_moves=1 crashes=3";
const UNDO_FILE: &str =
    "design=undo workload=cells medium=file transactions=6 moves=16 all_moves=1 crashes=3";
/// Lines that are recorded twice: the allocator's, far apart from each other.
const UNDO_REUSE: &str = "design=undo workload=reuse medium=file workers=2 transactions=12 \
     moves=24 all_moves=1 crashes=3";
const REDO_MEMORY: &str =
    "design=redo workload=cells medium=memory transactions=6 moves=16 all_moves=1 crashes=3";
const REDO_CACHE: &str =
    "design=redo workload=cells medium=cache transactions=6 moves=16 all_moves=1 crashes=3";
const REDO_FILE: &str =
    "design=redo workload=cells medium=file transactions=6 moves=16 all_moves=1 crashes=3";
/// Two slots.
const REDO_TWO: &str = "design=redo workload=cells medium=memory workers=2 transactions=6 moves=16 \
     all_moves=1 crashes=3";
const REDO_FILE_TWO: &str = "design=redo workload=cells medium=file workers=2 transactions=6 \
     moves=16 all_moves=1 crashes=3";
const REDO_WRAPS: &str = "design=redo workload=bulk medium=memory every_word=0 sync=1 \
     transactions=30 moves=40 crashes=1";
const SNAPSHOT_MEMORY: &str =
    "design=snapshot workload=cells medium=memory transactions=6 moves=16 all_moves=1 crashes=3";
const SNAPSHOT_CACHE: &str =
    "design=snapshot workload=cells medium=cache transactions=6 moves=16 all_moves=1 crashes=3";
const SNAPSHOT_FILE: &str =
    "design=snapshot workload=cells medium=file transactions=6 moves=16 all_moves=1 crashes=3";
/// Two slots.
const SNAPSHOT_TWO: &str = "design=snapshot workload=cells medium=memory workers=2 transactions=6 \
     moves=16 all_moves=1 crashes=3";
const SNAPSHOT_FILE_TWO: &str = "design=snapshot workload=cells medium=file workers=2 \
     transactions=6 moves=16 all_moves=1 crashes=3";
/// Groups of two workers at a time.
const SNAPSHOT_GROUPS: &str = "design=snapshot workload=sides medium=memory workers=2 group=2 \
     transactions=6 moves=16 all_moves=1 crashes=3";
const SNAPSHOT_FILE_GROUPS: &str = "design=snapshot workload=sides medium=file workers=2 group=2 \
     transactions=6 moves=16 all_moves=1 crashes=3";
const SNAPSHOT_WRAPS: &str = "design=snapshot workload=bulk medium=memory every_word=0 sync=1 \
     transactions=30 moves=40 crashes=1";
/// A case that writes more pages than the shadow holds.
const SOFTWARE: &str = "design=decoupled-software workload=pages medium=file transactions=12 \
                        moves=24 all_moves=1 crashes=2";
const SOFTWARE_MEMORY: &str = "design=decoupled-software workload=pages medium=cache \
                               transactions=12 moves=24 all_moves=1 crashes=2";
const EVICTING: &str = "design=decoupled-evicting workload=pages medium=file transactions=12 \
                        moves=24 all_moves=1 crashes=2";
const EVICTING_MEMORY: &str = "design=decoupled-evicting workload=pages medium=cache \
                               transactions=12 moves=24 all_moves=1 crashes=2";

/// A heap that is filled, emptied and filled again.
const REUSE: &str =
    "workload=reuse medium=cache workers=2 transactions=12 moves=24 all_moves=1 crashes=1";
/// The same for longer.
const LONG_REUSE: &str = "workload=reuse medium=cache workers=2 transactions=60 moves=80 crashes=1";
const SNAPSHOT_REUSE: &str = "design=snapshot workload=reuse medium=cache workers=2 \
     transactions=12 moves=24 all_moves=1 crashes=1";
/// Maps and sets, which split and join their nodes and buckets.
const TYPED: &str = "workload=typed medium=cache transactions=40 moves=60 crashes=1";

const ALL: Search = Search::All;
const C: Search = Search::Random { seed: 1 };

const fn case(mutant: Mutant, case: &'static str, search: Search) -> Detection {
    Detection { mutant, by: By::Case(case, search) }
}

const fn part(mutant: Mutant, name: &'static str) -> Detection {
    Detection { mutant, by: By::Part(name) }
}

/// Every detection, in the order of docs/internals/mutants.md.
pub const DETECTIONS: &[Detection] = &[
    case(Mutant::GroupNotWrittenBack, MEMORY, C),
    case(Mutant::GroupNotSynced, BLOCKING, C),
    case(Mutant::PlainWriteNotSynced, NO_DSYNC, C),
    case(Mutant::OnlyFirstLineWrittenBack, MEMORY, C),
    case(Mutant::HeaderNotWrittenBack, MEMORY, C),
    case(Mutant::TakenUnderWay, FILE, C),
    case(Mutant::AppliedBeforeLog, FILE, C),
    case(Mutant::HeapNotWrittenBack, MEMORY, ALL),
    case(Mutant::HeapPagesForgotten, FILE, ALL),
    case(Mutant::HeapBarrierSkipped, MEMORY, ALL),
    case(Mutant::HeapBarrierSkipped, CACHE, ALL),
    case(Mutant::HeapBarrierSkipped, FILE, ALL),
    case(Mutant::RecycledFirst, WRAPS, C),
    case(Mutant::RecyclingNotSynced, WRAPS, ALL),
    case(Mutant::RecyclingNotSynced, FILE_WRAPS, Search::Near { deviations: 1 }),
    case(Mutant::HeadBeforeHeap, CACHE, C),
    case(Mutant::HeadBeforeHeap, FILE, C),
    part(Mutant::FenceLeftToBarrier, "heap image of two threads"),
    part(Mutant::FenceLeftToBarrier, "combined heap image of two threads"),
    case(Mutant::GroupNotFenced, MEMORY, C),
    case(Mutant::ChecksumIgnored, WRAPS, C),
    case(Mutant::SequenceIgnored, FILE_WRAPS, C),
    case(Mutant::SequenceIgnored, WRAPS, C),
    case(Mutant::GenerationIgnored, MEMORY, C),
    case(Mutant::GenerationIgnored, FILE, C),
    part(Mutant::LengthTrusted, "a header that lies"),
    case(Mutant::ClearedBeforeApplied, MEMORY, C),
    case(Mutant::OpeningNotSynced, MEMORY, C),
    case(Mutant::OpeningNotSynced, FILE, C),
    case(Mutant::ReplayBarrierSkipped, CACHE, C),
    case(Mutant::ReplayBarrierSkipped, FILE, C),
    part(Mutant::BadRecordSkipped, "a group that never was"),
    case(Mutant::AllocatorNotLogged, ALLOCATOR, C),
    case(Mutant::ReadNotCovered, MEMORY, C),
    case(Mutant::ReadNotCovered, FILE, C),
    case(Mutant::TakenOutOfOrder, IN_FLIGHT, C),
    part(Mutant::HoleSkipped, "a wrap that ends too early"),
    case(Mutant::HoleNotRecorded, FILE, C),
    part(Mutant::GrowthNotSynced, "a published file"),
    case(Mutant::FailedSyncRetried, FAULT, ALL),
    case(Mutant::DirectoryNotSynced, CREATION, ALL),
    case(Mutant::EmptyNameFirst, CREATION_UNNAMED, ALL),
    case(Mutant::ShortWriteNotResumed, CREATION_FAULT, C),
    case(Mutant::ShortGroupNotResumed, LONG_WRITES, C),
    case(Mutant::BlockRewritten, MEMORY, C),
    case(Mutant::BlockRewritten, FILE, C),
    case(Mutant::OneSuperblock, GARBAGE, ALL),
    case(Mutant::SuperblocksAtOnce, GARBAGE, ALL),
    case(Mutant::SecondCopyNotSynced, GARBAGE, ALL),
    case(Mutant::LogHeadLast, FILE, ALL),
    case(Mutant::LogEnteredFirst, FILE, ALL),
    part(Mutant::LogNeverEntered, "an older copy"),
    part(Mutant::AcknowledgedTooLarge, "a group that never was"),
    case(Mutant::AcknowledgedTooLarge, IN_FLIGHT, C),
    part(Mutant::AcknowledgedIgnored, "a group that is gone"),
    case(Mutant::GenerationKept, MEMORY, ALL),
    case(Mutant::GenerationKept, FILE, ALL),
    case(Mutant::SequenceKept, MEMORY, C),
    case(Mutant::SequenceKept, FILE, C),
    case(Mutant::LogNotSettled, KILLED, Search::Random { seed: 1500 }),
    case(Mutant::CleanKept, MEMORY, C),
    case(Mutant::CleanBeforeApplied, FILE, C),
    case(Mutant::ShadowBeforeReplay, MEMORY, C),
    case(Mutant::PoolNamedFirst, CREATION, C),
    case(Mutant::InterruptedLogKept, CREATION, C),
    case(Mutant::NameNotSettled, CREATION_KILLED, C),
    case(Mutant::SuperblockNotSettled, TWICE_KILLED, C),
    case(Mutant::GoodCopyFirst, GARBAGE, C),
    case(Mutant::FirstValueKept, COMBINED, C),
    case(Mutant::FirstValueKept, FILE_COMBINED, C),
    case(Mutant::GroupInPieces, COMBINED, C),
    case(Mutant::GroupInPieces, FILE_COMBINED, C),
    part(Mutant::DecodedLengthTrusted, "a payload that explodes"),
    case(Mutant::CompressedTakenPlain, COMPRESSED, C),
    case(Mutant::CompressedTakenPlain, FILE_COMPRESSED, C),
    part(Mutant::RestOfRunLost, "a run across parts"),
    part(Mutant::PageOfTwoParts, "a page between parts"),
    case(Mutant::MarkedAtFirstPart, PARTS_MEMORY, C),
    case(Mutant::MarkedAtFirstPart, PARTS_FILE, C),
    case(Mutant::SyncedAtFirstPart, FEW_PARTS_FILE, C),
    case(Mutant::LastPartNotWrittenOut, PARTS_CACHE, C),
    case(Mutant::LastPartNotWrittenOut, FEW_PARTS_FILE, C),
    case(Mutant::LastPartLeftOut, PARTS_CACHE, C),
    case(Mutant::LastPartLeftOut, FEW_PARTS_FILE, C),
    part(Mutant::OldestWordOfPageWins, "a page with hot words"),
    part(Mutant::UnwrittenPagesIgnored, "pages that wait"),
    case(Mutant::UnwrittenPagesIgnored, PACED, C),
    part(Mutant::RegionOldestTooNew, "pages that wait"),
    part(Mutant::FrozenPageNotCopied, "a view of changing pages"),
    part(Mutant::FrozenWordsIgnored, "a view of changing pages"),
    case(Mutant::FrozenWordsIgnored, BACKUP, C),
    part(Mutant::WatchedBeforeImage, "a store beside a new view"),
    part(Mutant::WatchedPageNotCopied, "a view beside a transaction"),
    part(Mutant::LiveRecordsIgnored, "a view beside a transaction"),
    part(Mutant::RecordsVoidedBeforeCopy, "a view beside a transaction"),
    part(Mutant::QueuedWordsIgnored, "a view beside a transaction"),
    case(Mutant::BackupNamedFirst, BACKUP, C),
    case(Mutant::GrowthNotAnnounced, GROWTH, C),
    case(Mutant::GrowthNotAnnounced, GROWTH_MEMORY, C),
    case(Mutant::GrowthNotRecorded, GROWTH, C),
    case(Mutant::GrowthNotRecorded, GROWTH_MEMORY, C),
    case(Mutant::LogGrowthNotAnnounced, LOG_GROWTH, C),
    case(Mutant::LogGrowthNotRecorded, LOG_GROWTH, C),
    part(Mutant::LogGrownInSecondHalf, "a log that grows"),
    part(Mutant::LogGrowthUnbounded, "a log that grows"),
    part(Mutant::HeapNearlyFullUnnoticed, "a heap that is nearly full"),
    part(Mutant::FailedGrowthRepeated, "a heap on a full disk"),
    part(Mutant::OutgrownBound, "a heap that grows meanwhile"),
    part(Mutant::TailAfterHeapSkipped, "a reader beside its owner"),
    case(Mutant::PageChecksumsNotWritten, CHECKSUMS_FILE, C),
    case(Mutant::ChangedPageNotMarked, CHECKSUMS_MEMORY, C),
    case(Mutant::ChangedPageNotMarked, CHECKSUMS_UNDO, C),
    case(Mutant::PageMarkNotAwaited, CHECKSUMS_MEMORY, C),
    case(Mutant::PageMarkNotAwaited, CHECKSUMS_UNDO, C),
    case(Mutant::SealedPageNotDurable, CHECKSUMS_SNAPSHOT, C),
    part(Mutant::DamagedPagesIgnored, "damaged pages"),
    case(Mutant::ReplayedPagesCompared, CHECKSUMS_FILE, C),
    part(Mutant::PageNotCompared, "damaged pages"),
    part(Mutant::DamagedPageNotMarked, "damaged pages"),
    part(Mutant::PageMarkNotAwaited, "stores of checksums"),
    part(Mutant::ChecksumsIntoCache, "stores of checksums"),
    part(Mutant::StoresNotFenced, "stores of checksums"),
    part(Mutant::LineInPlaceNotWrittenBack, "stores of checksums"),
    part(Mutant::NewChecksumsNotAwaited, "stores of new checksums"),
    part(Mutant::SealNotAwaited, "stores of checksums"),
    part(Mutant::ScrubMarkNotAwaited, "stores of a scrub"),
    part(Mutant::PageChecksumsNotWritten, "calls of checksums"),
    part(Mutant::KernelDataNotSynced, "calls of checksums"),
    part(Mutant::KernelWriteNotDurable, "calls of checksums"),
    part(Mutant::FailureMarkNotSynced, "calls of a damaged page"),
    part(Mutant::LineChecksumIgnored, "damaged pages"),
    part(Mutant::StringWordTranslated, "a compacted pool"),
    part(Mutant::CompactedPoolKeepsTag, "a compacted pool"),
    part(Mutant::FrameNumberIgnored, "a compacted pool"),
    part(Mutant::LastStepRepeated, "an interrupted migration"),
    case(Mutant::InPlaceFirst, UNDO_MEMORY, C),
    case(Mutant::InPlaceFirst, UNDO_FILE, C),
    case(Mutant::EntriesDroppedFirst, UNDO_MEMORY, C),
    case(Mutant::EntriesDroppedFirst, UNDO_FILE, C),
    case(Mutant::OldestFirst, UNDO_REUSE, C),
    case(Mutant::ChecksumIgnored, UNDO_MEMORY, C),
    case(Mutant::ChecksumIgnored, REDO_MEMORY, C),
    case(Mutant::ShownFirst, REDO_MEMORY, C),
    case(Mutant::ShownFirst, REDO_CACHE, C),
    case(Mutant::TruncatedFirst, REDO_MEMORY, C),
    case(Mutant::TruncatedFirst, REDO_FILE, C),
    case(Mutant::SlotOrder, REDO_TWO, C),
    case(Mutant::SlotOrder, REDO_FILE_TWO, C),
    case(Mutant::ReleasedFirst, REDO_MEMORY, C),
    case(Mutant::ReleasedFirst, REDO_FILE, C),
    case(Mutant::HeadLeft, UNDO_MEMORY, C),
    case(Mutant::HeadLeft, UNDO_FILE, C),
    case(Mutant::HeadLeft, REDO_WRAPS, C),
    case(Mutant::ShownFirst, SNAPSHOT_MEMORY, C),
    case(Mutant::ShownFirst, SNAPSHOT_CACHE, C),
    case(Mutant::ReleasedFirst, SNAPSHOT_MEMORY, C),
    case(Mutant::ReleasedFirst, SNAPSHOT_FILE, C),
    case(Mutant::TruncatedFirst, SNAPSHOT_MEMORY, C),
    case(Mutant::TruncatedFirst, SNAPSHOT_FILE, C),
    case(Mutant::SlotOrder, SNAPSHOT_TWO, C),
    case(Mutant::SlotOrder, SNAPSHOT_FILE_TWO, C),
    case(Mutant::ChecksumIgnored, SNAPSHOT_MEMORY, C),
    case(Mutant::HeadLeft, SNAPSHOT_WRAPS, C),
    case(Mutant::ReplayBarrierSkipped, SNAPSHOT_CACHE, C),
    case(Mutant::ReplayBarrierSkipped, SNAPSHOT_FILE, C),
    case(Mutant::StampTooEarly, SNAPSHOT_MEMORY, C),
    case(Mutant::StampTooEarly, SNAPSHOT_FILE_TWO, C),
    part(Mutant::FrontierOfNow, "a reader that stays"),
    part(Mutant::RestartedFirst, "a reader that stays"),
    case(Mutant::ShownFirst, SNAPSHOT_GROUPS, C),
    case(Mutant::ReleasedFirst, SNAPSHOT_FILE_GROUPS, C),
    case(Mutant::SlotOrder, SNAPSHOT_FILE_GROUPS, C),
    case(Mutant::GroupNotifiedFirst, SNAPSHOT_GROUPS, C),
    case(Mutant::GroupNotifiedFirst, SNAPSHOT_FILE_GROUPS, C),
    case(Mutant::LastWriterIgnored, SOFTWARE, C),
    case(Mutant::LastWriterIgnored, SOFTWARE_MEMORY, C),
    case(Mutant::LastWriterIgnored, EVICTING, C),
    case(Mutant::LastWriterIgnored, EVICTING_MEMORY, C),
    case(Mutant::LastWriterNotNotified, SOFTWARE, C),
    case(Mutant::LastWriterNotNotified, EVICTING, C),
    case(Mutant::LastWriterTooEarly, SOFTWARE, C),
    case(Mutant::LastWriterTooEarly, EVICTING, C),
    case(Mutant::WrittenNotPinned, SOFTWARE, C),
    case(Mutant::EvictedKept, SOFTWARE, C),
    part(Mutant::ProcessIgnored, "a forked child"),
    part(Mutant::NamesIgnored, "a removed pool"),
    part(Mutant::HolesKept, "a sparse copy"),
    part(Mutant::StopCounted, "a stopped process"),
    part(Mutant::PlaceholderKept, "an interrupted renewal"),
    case(Mutant::TakenSlotCounted, REUSE, C),
    case(Mutant::CollectedSlotsStay, LONG_REUSE, C),
    case(Mutant::RemoteFreeNotListed, REUSE, C),
    case(Mutant::RemoteFreeNotCounted, REUSE, C),
    case(Mutant::SlabGivenTooEarly, REUSE, C),
    case(Mutant::UnlinkedSlabKeepsNeighbor, REUSE, C),
    case(Mutant::RemoteFreesForgotten, LONG_REUSE, C),
    case(Mutant::OwnerForgotten, REUSE, C),
    case(Mutant::NeighborNotUnlinked, REUSE, C),
    case(Mutant::EmptyBinNotCleared, REUSE, C),
    case(Mutant::BeforeNotSet, REUSE, C),
    case(Mutant::UsedMemoryCountsAsFresh, LONG_REUSE, C),
    case(Mutant::ShorterStringKeepsPiece, REUSE, C),
    case(Mutant::LongerStringWithoutPieces, LONG_REUSE, C),
    case(Mutant::FullHeapNotReclaimed, REUSE, C),
    case(Mutant::RunGivenBackAtOnce, SNAPSHOT_REUSE, C),
    case(Mutant::CachedSlotForgotten, REUSE, C),
    case(Mutant::ArenaNotListed, REUSE, C),
    part(Mutant::BlockHeadersKept, "a freed array"),
    part(Mutant::ClassNotConverted, "a heap of format 1"),
    part(Mutant::SplitLeavesKey, "filled and freed collections"),
    part(Mutant::JoinedNodeLeaks, "filled and freed collections"),
    part(Mutant::AbsentKeyNotProtected, "concurrent transactions"),
    part(Mutant::EmptyTreeNotProtected, "concurrent transactions"),
    part(Mutant::AbsentPairNotProtected, "concurrent transactions"),
    part(Mutant::DoublingSkipsBucket, "filled and freed collections"),
    case(Mutant::MergedSlotsKept, TYPED, C),
    part(Mutant::FreedSlotsForgotten, "filled and freed collections"),
    case(Mutant::StripeNotUpdated, TYPED, C),
    part(Mutant::LongValueLeaks, "filled and freed collections"),
    part(Mutant::FullChunkNotProtected, "concurrent transactions"),
    part(Mutant::EmptyChunkNotProtected, "concurrent transactions"),
    part(Mutant::LastChunkNotProtected, "concurrent transactions"),
    part(Mutant::QueueFrontNotProtected, "concurrent transactions"),
    part(Mutant::ClearedEndsNotProtected, "concurrent transactions"),
    part(Mutant::StoredLengthsIgnored, "a refused name"),
    part(Mutant::OwnRootReplaced, "a refused name"),
    part(Mutant::ReplacedTypesLeak, "filled and freed collections"),
    part(Mutant::UnmovedValuesForgotten, "filled and freed collections"),
    part(Mutant::UnmovedValuesForgotten, "an interrupted conversion"),
    part(Mutant::KernelWriteNotDurable, "calls of a file pool"),
    part(Mutant::QueuedWriteNotDurable, "a write for io_uring"),
    part(Mutant::KernelDataNotSynced, "calls of a file pool"),
    part(Mutant::KernelFileNotSynced, "calls of a new pool"),
    part(Mutant::KernelDirectoryNotSynced, "calls of a new pool"),
    part(Mutant::KernelPagesKept, "calls of an opening"),
    part(Mutant::StreamedIntoCache, "stores of commits"),
    part(Mutant::LineNotWrittenBack, "stores of a heap image"),
    part(Mutant::LineInPlaceNotWrittenBack, "stores of commits"),
    part(Mutant::StoresNotFenced, "stores of commits"),
    part(Mutant::RunBoundsIgnored, "a group outside the heap"),
    part(Mutant::ReclaimedArenaNotProtected, "concurrent allocations"),
    part(Mutant::FreedPiecesNotProtected, "a write to a freed string"),
    part(Mutant::GroupWitnessLeftOut, "a lost end of a log"),
    case(Mutant::GroupWitnessFirst, MEMORY, C),
    part(Mutant::GroupWitnessIgnored, "a lost end of a log"),
    part(Mutant::GroupWitnessIntoCache, "a lost page after a power failure"),
    part(Mutant::PageWitnessLeftOut, "a lost page after a power failure"),
    part(Mutant::CheckpointVoidsWitness, "a lost page after a checkpoint"),
    part(Mutant::WitnessNotKept, "a lost page after a checkpoint"),
    part(Mutant::ReproducedBeforeReplicated, "a stream that lacks transactions"),
    part(Mutant::CopiedGroupGrows, "a stream that lacks transactions"),
    part(Mutant::SuffixReplayed, "a deposed primary"),
    part(Mutant::ConfirmedBeforeReply, "a stream without replies"),
    part(Mutant::UnknownTakenForYes, "a stream without replies"),
    part(Mutant::FenceIgnored, "a new primary"),
    part(Mutant::PartAppliedAlone, "a group in parts"),
    part(Mutant::TermNotChecked, "a message of an old term"),
    part(Mutant::FormerPrimaryTrusted, "a former primary that follows"),
    part(Mutant::LogReadUnsettled, "calls of a log read"),
    part(Mutant::LagUnbounded, "a stream that lags"),
    part(Mutant::AppliedBeforeChecked, "a refused opening"),
    part(Mutant::ReaderIgnoresWitness, "a lost end beside its owner"),
    part(Mutant::RemovalNotSynced, "calls of a removal"),
    part(Mutant::ColourNotProtected, "concurrent changes of a tree"),
    part(Mutant::PagesNotProtected, "a run freed to a used bin"),
    part(Mutant::WitnessLeftOut, "a lost end of a slot"),
    case(Mutant::WitnessBeforeRecord, UNDO_MEMORY, C),
    case(Mutant::WitnessBeforeRecord, REDO_MEMORY, C),
    case(Mutant::WitnessBeforeRecord, SNAPSHOT_MEMORY, C),
    part(Mutant::WitnessIgnored, "a lost end of a slot"),
    part(Mutant::HeadNotDoubled, "lost pages of undo"),
    part(Mutant::SlotPageWitnessLeftOut, "lost pages of undo"),
    part(Mutant::SlotPageWitnessLeftOut, "lost pages of redo"),
    part(Mutant::SlotPageWitnessLeftOut, "lost pages of snapshot"),
    part(Mutant::SlotPageWitnessIntoCache, "lost pages of redo"),
    part(Mutant::TruncationVoidsWitness, "lost pages of redo"),
    part(Mutant::SlotWitnessNotKept, "lost pages of snapshot"),
    part(Mutant::GapsIgnored, "a lost record of another slot"),
];
