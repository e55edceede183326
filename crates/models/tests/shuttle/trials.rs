//! The mutants that shuttle must detect.

use crate::{closing, history, lists, merging, regions, starving};
use models::trials::Trial;

/// All trials of mutants.
pub(crate) const ALL: &[Trial] = models::trials! {
    history::stm_is_serializable_in_id_order, "history":
        CommitNotValidated, ExtensionNotValidated, AbortReleasesOldVersion, IdAssignedAfterRelease;
    history::serial_is_serializable_in_id_order, "history": SerialDoesNotWait;
    starving::starving_transaction_commits_before_pool_waits, "starves":
        ReservationIgnored, StarvingReservesNothing;
    starving::starving_transaction_in_parts_closes_lock, "starves":
        LossesInPartsForgotten, StarvingInPartsNeverAlone;
    closing::ended_reservations_leave_lock_open, "ended reservations close the lock":
        EndedReservationsCloseLock;
    closing::ended_reservations_leave_lock_open, "outcomes reached and expected":
        EndedReservationsAreNoLosses;
    closing::closed_lock_wait_sees_each_closing, "two closings of the lock seem to be one":
        ClosingsLookAlike;
    merging::merged_log_is_the_history, "in no ring":
        CommittingNotStored, CursorsReadBeforeCommitting, NoOpRecordLeftOut;
    merging::merged_log_is_the_history, "deadlock":
        StepNotifiesOfFailureAlone, ClockNotReadBeforeSleep;
    regions::records_survive_moves_between_regions, "":
        RegionEnteredEarly, ClaimReleased, ClaimUnlockedEarly;
    lists::every_crash_leaves_a_prefix_of_a_serial_history, "crash: Unfounded":
        ReadAcknowledgedTooEarly;
    lists::every_crash_leaves_a_prefix_of_a_serial_history, "crash":
        GroupAcknowledgedWhenSent, HeadBeforeHeap, RecycledFirst;
    lists::every_crash_leaves_a_prefix_of_a_serial_history, "":
        PartsAtWorkNotAwaited, BatchTakenBeforeLock, RegisterWithoutLook;
    lists::every_crash_leaves_a_prefix_of_a_serial_history, "deadlock":
        TaskNotRegistered, PollLooksOnce;
    lists::every_crash_leaves_a_prefix_of_a_serial_history, "exceeded max_steps":
        FullLogSpins, PersistThreadWakesItself;
};
