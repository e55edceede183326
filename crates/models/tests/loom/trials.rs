//! The mutants that loom must detect.

use crate::{
    acknowledging, admitting, claims, finding, gathering, growing, helping, isolation, notifying,
    ordering, paging, publication, recycling, sleeping, snapshots, viewing, waiting, wraps,
};
use models::trials::Trial;

/// All trials of mutants.
pub(crate) const ALL: &[Trial] = models::trials! {
    wraps::records_are_taken_whole, "record": RecordPublishedRelaxed, RingCursorReadRelaxed;
    wraps::moved_records_are_taken_whole, "record": RecordPublishedRelaxed, RingCursorReadRelaxed;
    wraps::idle_release_keeps_claimed_words, "lost": ClaimReleased, ClaimUnlockedEarly;
    wraps::space_is_overwritten_only_after_its_copy, "Causality violation":
        RingSpaceReturnedRelaxed, RingSpaceReadRelaxed;
    claims::only_published_records_are_claimed, "claimed":
        CursorsReadBeforeCommitting, CommittingReadBeforeClock, CommittingClearedBeforePublished,
        CommittingStoredRelaxed, IdleMarkStoredRelaxed, CommittingReadRelaxed, CommittingNotStored;
    isolation::body_never_sees_a_torn_pair, "torn":
        NoFenceAfterOwning, NoFenceInRead, ExtensionNotValidated;
    isolation::run_is_never_torn, "torn": NoFenceInReadOfRun;
    isolation::extended_snapshot_is_consistent, "torn":
        NoFenceInSlowRead, ExtensionReadsClockLast, ExtensionReadsClockRelaxed;
    // A version may be visible before the clock value that it came from: the read then extends its
    // snapshot forever.
    isolation::rolled_back_value_is_never_seen, "exceeded maximum number of branches":
        VersionReleasedRelaxed;
    isolation::rolled_back_value_is_never_seen, "rolled back": AbortReleasesOldVersion;
    isolation::write_skew_never_happens, "skew":
        CommitNotValidated, CommitTrustsClockTooLong, IdAssignedWithoutAcquire;
    publication::commit_is_claimed_with_its_record, "claimed":
        IdAssignedWithoutRelease, IdAssignedBeforeAnnounced;
    waiting::no_wake_up_is_lost, "deadlock":
        NoFenceInEventWait, NoFenceInEventNotify, EventNotifiesWithoutLock, EventEpochRaisedRelaxed,
        EventAwaitedOnce;
    helping::helper_that_finds_step_busy_is_woken, "deadlock":
        EpochReadAfterStep, OnlyWorkNotifies, StepNotifiesBeforeUnlock, NoFenceInSleep,
        NoFenceAtEndOfStep, SleepWithoutSecondLook, OnlyServedAreWoken;
    sleeping::commit_wakes_the_sleeping_thread, "deadlock":
        ClockReadWithoutAddition, ClockReadBeforeAsleep, ClockReadWithoutRelease;
    notifying::durable_id_publishes_its_group, "not seen in the log":
        DurableIdStoredRelaxed, DurableIdReadRelaxed;
    notifying::listener_is_notified_once, "notified once":
        NoFenceInRegister, NoFenceAtEndOfStep, RegisterLooksFirst, RegisterWithoutLook;
    notifying::failure_notifies_all_listeners, "notified once":
        FailureServesDurableAlone, FailureNotNotified;
    notifying::failure_notifies_all_listeners, "the cause is kept before": PoisonFlagBeforeCause;
    growing::full_heap_is_noticed, "deadlock":
        HeapNearlyFullUnnoticed, BudgetStored, GrowthThreadWokenEarly;
    finding::cut_stays_found, "a cut that was found is hidden": FindingStoredAfterUnlock;
    admitting::closed_pool_has_no_users, "in use":
        WorkerAdmittedBeforeLock, CallAdmittedBeforeCounted, CallEndsRelaxed;
    notifying::failure_outside_of_steps_wakes_all, "deadlock":
        FailureEndsNoStep, FailureStoredAfterEnd;
    notifying::waker_of_last_poll_is_called, "deadlock": WakerNotReplaced;
    notifying::dropped_future_leaves_nothing, "none is left": ForgottenListenerCounts;
    notifying::waiting_task_is_woken, "deadlock": NoFenceInRegister;
    recycling::log_is_overwritten_only_after_recycling, "not recycled":
        TailStoredRelaxed, TailReadRelaxed, RoomForOneMore;
    recycling::step_knows_worker_that_registers, "in no ring": SlotsKnownBeforeClock;
    recycling::reproduced_id_publishes_heap_image, "not in the heap image":
        ReproducedStoredRelaxed, ReproducedReadRelaxed;
    recycling::concurrent_reproducers_keep_order, "in the heap image": BatchTakenBeforeLock;
    recycling::superblock_waits_for_all_parts, "not in the heap image":
        PartsAtWorkNotAwaited, PartEndsBeforeBarrier;
    recycling::superblock_waits_for_all_parts, "deadlock": LastPartNotNotified;
    recycling::step_is_woken_after_visitor, "deadlock": VisitNotNotified;
    recycling::failed_part_fails_the_leader, "": FailedPartCountsAsDone;
    recycling::failed_part_fails_the_leader, "a part that fails poisons": FailedPartPoisonsLast;
    recycling::acknowledged_group_is_in_the_queue, "acknowledged, and not in the queue":
        AcknowledgedBeforeQueued;
    recycling::failed_group_is_the_last, "durable, and an earlier group is lost": SentAfterFailure;
    ordering::groups_are_acknowledged_in_order, "the durable ID went back":
        GroupsAcknowledgedAsTheyLand;
    ordering::groups_are_acknowledged_in_order, "all are acknowledged in the end":
        GroupAcknowledgedWithoutLock;
    acknowledging::reported_durable_id_is_durable_and_stays, "reported durable too early":
        SlotCommittingNotStored, SlotIdCountsAsDurable, SlotsReadBeforeClock, SlotIdleStoredRelaxed;
    acknowledging::reported_durable_id_is_durable_and_stays, "acknowledged, and no longer durable":
        SlotAcknowledgementNotStored;
    gathering::every_batch_is_in_one_record, "every batch is in one record": TakenBatchWaitsOn;
    gathering::every_batch_is_in_one_record, "reported durable, and not written":
        BatchesTakenAfterWrite;
    gathering::every_batch_is_in_one_record, "too many leaders":
        OneLeaderTooMany, LeadHandedOnAndEnded;
    gathering::every_batch_is_in_one_record, "deadlock":
        LeadersReadBeforeLock, LeadNotHandedOn, OutcomeNotNotified;
    gathering::failed_write_fails_all_its_batches, "reported durable, and it failed":
        FailureReportedDurable;
    gathering::failed_write_fails_all_its_batches, "written after a failure":
        FailureReportedBeforePoison, LeaderIgnoresPoison;
    paging::read_never_sees_another_pages_word, "another page's word":
        FrameFilledWithoutFence, PlaceCheckedWithoutFence, PlaceNotChecked, PlaceRepeats,
        PlaceStoredRelaxed, PlaceReadRelaxed;
    paging::written_page_stays_and_gets_last_writer, "":
        PinCountsNothing, PinTakenRelaxed, PinReturnedRelaxed, MoveTakenRelaxed;
    paging::written_copy_is_not_dropped, "dropped":
        GracePeriodSkipped, AttemptNotCounted, AttemptBeginsRelaxed, MarksNotReleased,
        WriterKeepsMark, DropIgnoresLastWriter;
    snapshots::snapshot_is_consistent, "not of this snapshot":
        StampWithoutMark, StampWithoutRelease, StartNotAnnounced, StartReadBeforeAnnounced,
        NoFenceBeforeOldest, WriteBackDoesNotWait, NoFenceBeforeUnlink, UnlinkedBeforeWrittenBack,
        LinkReadRelaxed;
    snapshots::copy_space_is_not_reused_under_a_reader, "not of this snapshot": CopiesFreedAtOnce;
    snapshots::worker_sees_its_group_while_another_ends_it, "not of this snapshot": OwnGroupNotSeen;
    snapshots::frontier_is_applied_to_heap_image, "forgotten":
        CommittingClearedBeforeWaiting, ActiveClearedBeforeCommitting, UnfinishedReadBackwards,
        NoFenceBeforeUnfinished, FrontierReadsClockLast;
    snapshots::group_frontier_is_applied_to_heap_image, "forgotten": GroupCommitNotAnnounced;
    snapshots::reported_durable_id_is_durable, "not durable":
        GroupNotAnnounced, GroupIdReadBeforeAnnounced, DurableReadsClockLast, NoFenceBeforePending;
    snapshots::reported_durable_id_is_durable, "no longer": ReportedDurableForgotten;
    snapshots::chunk_release_waits_for_older_transactions, "released memory":
        ChunksFreedBesideWriters;
    snapshots::chunk_release_waits_for_older_groups, "released memory": ChunksFreedBesideGroups;
    snapshots::last_assigned_id_is_durable_after_its_group, "no transaction": GivenIdGuessed;
    snapshots::view_is_as_of_its_transaction, "not of this view":
        ShownOutsideQueue, QueuedWordsIgnored;
    viewing::view_has_all_up_to_its_boundary, "later than the view":
        CommitIgnoresLimit, BoundaryReadBeforeLimit, LimitLiftedBeforeFreeze, WatchEndsBeforeStep;
    viewing::view_has_all_up_to_its_boundary, "missing in the view": BoundaryNotAwaited;
    viewing::view_has_old_words_of_running_transaction, "not of this view":
        NoFenceAfterRecord, NoFenceAfterPageRead;
};
