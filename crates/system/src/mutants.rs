//! Hooks of injected bugs: the places where product code asks whether to break a guarantee.
//!
//! Code that keeps a guarantee asks [`injected`] whether to break it. Without the feature `mutants`
//! this is a compile-time `false` and leaves no code; only tests enable the feature. A bug is
//! injected into one thread.
//!
//! Product code knows a bug by its variant alone. The registry of injected bugs, `faults::mutants`,
//! has the name and number of each, the guarantee that it breaks, and the tests that detect it.

use std::sync::atomic::Ordering;

/// An injected bug.
#[allow(missing_docs, reason = "the registry in `faults::mutants` describes each of them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    GroupNotWrittenBack,
    GroupNotSynced,
    OnlyFirstLineWrittenBack,
    HeaderNotWrittenBack,
    TakenUnderWay,
    AppliedBeforeLog,
    HeapNotWrittenBack,
    HeapPagesForgotten,
    HeapBarrierSkipped,
    RecycledFirst,
    RecyclingNotSynced,
    ShownFirst,
    TruncatedFirst,
    HeadBeforeHeap,
    FenceLeftToBarrier,
    GroupNotFenced,
    InPlaceFirst,
    EntriesDroppedFirst,
    OldestFirst,
    ChecksumIgnored,
    SequenceIgnored,
    GenerationIgnored,
    LengthTrusted,
    ClearedBeforeApplied,
    OpeningNotSynced,
    ReplayBarrierSkipped,
    BadRecordSkipped,
    SlotOrder,
    AllocatorNotLogged,
    ReadNotCovered,
    TakenOutOfOrder,
    ReleasedFirst,
    HoleSkipped,
    HoleNotRecorded,
    GrowthNotSynced,
    FailedSyncRetried,
    DirectoryNotSynced,
    EmptyNameFirst,
    ShortWriteNotResumed,
    ShortGroupNotResumed,
    BlockRewritten,
    OneSuperblock,
    SuperblocksAtOnce,
    SecondCopyNotSynced,
    LogHeadLast,
    LogEnteredFirst,
    LogNeverEntered,
    AcknowledgedTooLarge,
    AcknowledgedIgnored,
    GenerationKept,
    SequenceKept,
    LogNotSettled,
    CleanKept,
    CleanBeforeApplied,
    ShadowBeforeReplay,
    PoolNamedFirst,
    InterruptedLogKept,
    NameNotSettled,
    SuperblockNotSettled,
    GoodCopyFirst,
    FirstValueKept,
    GroupInPieces,
    DecodedLengthTrusted,
    CompressedTakenPlain,
    RestOfRunLost,
    PageOfTwoParts,
    MarkedAtFirstPart,
    SyncedAtFirstPart,
    LastPartNotWrittenOut,
    LastPartLeftOut,
    OldestWordOfPageWins,
    UnwrittenPagesIgnored,
    FrozenPageNotCopied,
    FrozenWordsIgnored,
    BackupNamedFirst,
    PageChecksumsNotWritten,
    ChangedPageNotMarked,
    PageMarkNotAwaited,
    SealedPageNotDurable,
    DamagedPagesIgnored,
    ReplayedPagesCompared,
    PageNotCompared,
    DamagedPageNotMarked,
    LineChecksumIgnored,
    StringWordTranslated,
    CompactedPoolKeepsTag,
    FrameNumberIgnored,
    GrowthNotAnnounced,
    GrowthNotRecorded,
    OutgrownBound,
    TailAfterHeapSkipped,
    LastStepRepeated,
    HeadLeft,
    StampTooEarly,
    FrontierOfNow,
    RestartedFirst,
    GroupNotifiedFirst,
    LastWriterIgnored,
    LastWriterNotNotified,
    LastWriterTooEarly,
    WrittenNotPinned,
    EvictedKept,
    PlainWriteNotSynced,
    ProcessIgnored,
    NamesIgnored,
    HolesKept,
    StopCounted,
    PlaceholderKept,
    TakenSlotCounted,
    CollectedSlotsStay,
    RemoteFreeNotListed,
    RemoteFreeNotCounted,
    SlabGivenTooEarly,
    UnlinkedSlabKeepsNeighbor,
    RemoteFreesForgotten,
    OwnerForgotten,
    NeighborNotUnlinked,
    EmptyBinNotCleared,
    BeforeNotSet,
    UsedMemoryCountsAsFresh,
    BlockHeadersKept,
    ShorterStringKeepsPiece,
    LongerStringWithoutPieces,
    ClassNotConverted,
    FullHeapNotReclaimed,
    RunGivenBackAtOnce,
    CachedSlotForgotten,
    ArenaNotListed,

    // Between threads: the models in crates/models detect these.
    RecordPublishedRelaxed,
    RingCursorReadRelaxed,
    RingSpaceReturnedRelaxed,
    RingSpaceReadRelaxed,
    CursorsReadBeforeCommitting,
    CommittingReadBeforeClock,
    CommittingClearedBeforePublished,
    CommittingStoredRelaxed,
    IdleMarkStoredRelaxed,
    CommittingReadRelaxed,
    CommittingNotStored,
    NoFenceAfterOwning,
    NoFenceInRead,
    NoFenceInReadOfRun,
    NoFenceInSlowRead,
    ExtensionNotValidated,
    ExtensionReadsClockLast,
    ExtensionReadsClockRelaxed,
    VersionReleasedRelaxed,
    AbortReleasesOldVersion,
    CommitNotValidated,
    CommitTrustsClockTooLong,
    IdAssignedWithoutAcquire,
    IdAssignedWithoutRelease,
    IdAssignedBeforeAnnounced,
    IdAssignedAfterRelease,
    NoOpRecordLeftOut,
    ReadAcknowledgedTooEarly,
    SerialDoesNotWait,
    ReservationIgnored,
    StarvingReservesNothing,
    LossesInPartsForgotten,
    StarvingInPartsNeverAlone,
    NoFenceInEventWait,
    NoFenceInEventNotify,
    EventNotifiesWithoutLock,
    EventEpochRaisedRelaxed,
    EpochReadAfterStep,
    OnlyWorkNotifies,
    StepNotifiesBeforeUnlock,
    StepNotifiesOfFailureAlone,
    FailureNotNotified,
    NoFenceInSleep,
    NoFenceAtEndOfStep,
    SleepWithoutSecondLook,
    OnlyServedAreWoken,
    ClockReadWithoutAddition,
    ClockReadBeforeAsleep,
    ClockReadWithoutRelease,
    ClockNotReadBeforeSleep,
    DurableIdStoredRelaxed,
    DurableIdReadRelaxed,
    NoFenceInRegister,
    RegisterLooksFirst,
    RegisterWithoutLook,
    FailureServesDurableAlone,
    FailureEndsNoStep,
    FailureStoredAfterEnd,
    WakerNotReplaced,
    ForgottenListenerCounts,
    PoisonFlagBeforeCause,
    FindingStoredAfterUnlock,
    WorkerAdmittedBeforeLock,
    CallAdmittedBeforeCounted,
    CallEndsRelaxed,
    TailStoredRelaxed,
    TailReadRelaxed,
    ReproducedStoredRelaxed,
    ReproducedReadRelaxed,
    BatchTakenBeforeLock,
    PartsAtWorkNotAwaited,
    PartEndsBeforeBarrier,
    LastPartNotNotified,
    FailedPartCountsAsDone,
    FailedPartPoisonsLast,
    GroupsAcknowledgedAsTheyLand,
    GroupAcknowledgedWithoutLock,
    GroupAcknowledgedWhenSent,
    SlotCommittingNotStored,
    SlotIdCountsAsDurable,
    SlotsReadBeforeClock,
    SlotIdleStoredRelaxed,
    SlotAcknowledgementNotStored,
    TakenBatchWaitsOn,
    BatchesTakenAfterWrite,
    OneLeaderTooMany,
    LeadersReadBeforeLock,
    LeadNotHandedOn,
    LeadHandedOnAndEnded,
    OutcomeNotNotified,
    FailureReportedDurable,
    FailureReportedBeforePoison,
    LeaderIgnoresPoison,
    FrameFilledWithoutFence,
    PlaceCheckedWithoutFence,
    PlaceNotChecked,
    PlaceRepeats,
    PlaceStoredRelaxed,
    PlaceReadRelaxed,
    PinCountsNothing,
    PinTakenRelaxed,
    PinReturnedRelaxed,
    MoveTakenRelaxed,
    GracePeriodSkipped,
    AttemptNotCounted,
    AttemptBeginsRelaxed,
    MarksNotReleased,
    WriterKeepsMark,
    DropIgnoresLastWriter,
    StampWithoutMark,
    StampWithoutRelease,
    StartNotAnnounced,
    StartReadBeforeAnnounced,
    NoFenceBeforeOldest,
    WriteBackDoesNotWait,
    NoFenceBeforeUnlink,
    UnlinkedBeforeWrittenBack,
    LinkReadRelaxed,
    CopiesFreedAtOnce,
    CommittingClearedBeforeWaiting,
    ActiveClearedBeforeCommitting,
    UnfinishedReadBackwards,
    GroupNotAnnounced,
    GroupIdReadBeforeAnnounced,
    DurableReadsClockLast,
    NoFenceBeforePending,
    ReportedDurableForgotten,
    ChunksFreedBesideWriters,
    ChunksFreedBesideGroups,
    GivenIdGuessed,
    GroupCommitNotAnnounced,
    OwnGroupNotSeen,
    NoFenceBeforeUnfinished,
    FrontierReadsClockLast,
    TaskNotRegistered,
    PollLooksOnce,
    FullLogSpins,
    PersistThreadWakesItself,
    EndedReservationsCloseLock,
    EndedReservationsAreNoLosses,
    ClosingsLookAlike,
    VisitNotNotified,
    RegionEnteredEarly,
    ClaimReleased,
    ClaimUnlockedEarly,
}

/// Whether this build has the hooks.
pub const ENABLED: bool = cfg!(feature = "mutants");

/// Returns whether this bug is injected here.
#[inline(always)]
pub fn injected(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    return thread::injected() == Some(mutant);
    #[cfg(not(feature = "mutants"))]
    {
        let _ = mutant;
        false
    }
}

/// Returns `order`, or `Relaxed` if this bug is injected here.
#[inline(always)]
pub fn relax(order: Ordering, mutant: Mutant) -> Ordering {
    weaken(order, Ordering::Relaxed, mutant)
}

/// Returns `order`, or the `weaker` one if this bug is injected here.
#[inline(always)]
pub fn weaken(order: Ordering, weaker: Ordering, mutant: Mutant) -> Ordering {
    if injected(mutant) { weaker } else { order }
}

/// Injects a bug into this thread, in place of the one before, or none. A build without hooks
/// ignores it.
pub fn inject(mutant: Option<Mutant>) {
    #[cfg(feature = "mutants")]
    thread::inject(mutant);
    let _ = mutant;
}

#[cfg(feature = "mutants")]
mod thread {
    use std::cell::Cell;

    use super::Mutant;

    thread_local!(static INJECTED: Cell<Option<Mutant>> = const { Cell::new(None) });

    #[inline]
    pub(super) fn injected() -> Option<Mutant> {
        INJECTED.get()
    }

    pub(super) fn inject(mutant: Option<Mutant>) {
        INJECTED.set(mutant);
    }
}
