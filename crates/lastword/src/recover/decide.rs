//! The recovery decision tables: what opening a pool does, and where the scan of its log ends.
//!
//! The rows are tried in order; the first match decides. The tables are complete: the last row of
//! each matches everything. Tests check every row.

/// The state of the log's head relative to the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogState {
    /// The log is in the pool's own file. It has no head; its groups carry pool and generation.
    Inside,
    /// This pool and generation.
    Same,
    /// One generation later and not entered: an open wrote the log's head and stopped before the
    /// superblock.
    OneLater,
    /// This pool, any other generation. If it is a later one, the pool's file is an older copy.
    OtherTime,
    /// Another pool.
    OtherPool,
    /// Both copies of the head are damaged or contradict each other.
    Damaged,
    /// A program of another version wrote the head.
    Newer,
    /// The log is shorter than the superblock says.
    Short,
    /// The file is missing.
    Missing,
}

/// The action that opens a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start at once: after a clean shutdown the heap image is complete and the log is empty.
    Start,
    /// Replay the log from the superblock's sequence on.
    Replay,
    /// Make a new, empty log, then start: a clean shutdown came before the log was lost. See
    /// `storage::renew`.
    Renew,
    /// Return an error that says what is wrong.
    Refuse,
}

/// A row: matches if every given part does.
struct Row {
    log: &'static [LogState],
    clean: Option<bool>,
    /// Whether the program accepts a pool without its log.
    without_log: Option<bool>,
    action: Action,
}

const LOST: &[LogState] = &[
    LogState::Missing,
    LogState::Damaged,
    LogState::Short,
    LogState::OtherPool,
    LogState::OtherTime,
];
const OURS: &[LogState] = &[LogState::Inside, LogState::Same, LogState::OneLater];

const TABLE: &[Row] = &[
    // The heap image is complete, the log was empty, and the program allows its replacement. Only
    // on request: if the pool's file is an older copy, its own log may hold later transactions.
    Row { log: LOST, clean: Some(true), without_log: Some(true), action: Action::Renew },
    // The log is missing or not this pool's. Replaying nothing could lose acknowledged
    // transactions.
    Row { log: LOST, clean: None, without_log: None, action: Action::Refuse },
    // Clean shutdown: every record was in the heap image before the mark was written.
    Row { log: OURS, clean: Some(true), without_log: None, action: Action::Start },
    // No clean shutdown. `OneLater`: an open crashed between the log's head and the superblock.
    // Records of the superblock's generation are still there, because new ones come only after
    // both.
    Row { log: OURS, clean: Some(false), without_log: None, action: Action::Replay },
    // A log of a newer program must not be replaced.
    Row { log: &[], clean: None, without_log: None, action: Action::Refuse },
];

/// Looks up the action for a pool.
pub(crate) fn decide(log: LogState, clean: bool, without_log: bool) -> Action {
    let fits = |row: &&Row| {
        (row.log.is_empty() || row.log.contains(&log))
            && row.clean.is_none_or(|is| is == clean)
            && row.without_log.is_none_or(|is| is == without_log)
    };
    TABLE.iter().find(fits).map_or(Action::Refuse, |row| row.action)
}

/// The action at one place of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Apply its words to the heap image and scan on.
    Apply,
    /// End the scan: every acknowledged transaction lies before. Later bytes were never
    /// acknowledged.
    End,
    /// Refuse: no crash leaves this state.
    Refuse,
}

/// Looks up the action for one place of the log.
pub(crate) fn decide_next(found: &lw_log::Found) -> Next {
    use lw_log::Found;
    match found {
        // A whole group, at its place, with the next ID.
        Found::Group { .. } => Next::Apply,
        // Not written in this log, or of an older wrap or generation.
        Found::End => Next::End,
        // A torn write. Groups are acknowledged in order, so no later one was.
        Found::Torn { .. } => Next::End,
        // A whole group that does not follow, or an end with a whole group after it. The missing
        // group may have been acknowledged: replaying without it would lose it silently.
        Found::Damaged { .. } => Next::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LogState::*;

    #[test]
    fn recovery_table_covers_every_state() {
        for (clean, without_log) in [(true, false), (false, false), (false, true)] {
            for log in [OtherTime, OtherPool, Damaged, Newer, Short, Missing] {
                assert_eq!(decide(log, clean, without_log), Action::Refuse, "{log:?}");
            }
        }
        for log in [OtherTime, OtherPool, Damaged, Short, Missing] {
            assert_eq!(decide(log, true, true), Action::Renew, "{log:?}");
        }
        assert_eq!(decide(Newer, true, true), Action::Refuse);
        for (log, without_log) in
            [Inside, Same, OneLater].into_iter().flat_map(|log| [(log, false), (log, true)])
        {
            assert_eq!(decide(log, true, without_log), Action::Start, "{log:?}");
            assert_eq!(decide(log, false, without_log), Action::Replay, "{log:?}");
        }
    }

    #[test]
    fn only_whole_group_is_applied() {
        use lw_log::Found;
        use words::TxId;
        let group = Found::Group { first: TxId(1), last: TxId(2) };
        assert_eq!(decide_next(&group), Next::Apply);
        assert_eq!(decide_next(&Found::End), Next::End);
        assert_eq!(decide_next(&Found::Torn { at: 0 }), Next::End);
        assert_eq!(decide_next(&Found::Damaged { at: 0 }), Next::Refuse);
    }
}
