//! What to do with a pool that is opened: a table, which the code looks up.
//!
//! The rows are tried in order; the first that fits decides. They are complete: the last row of
//! each table fits everything. Tests go through them row by row.

/// How the log's head fits the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogState {
    /// The log is in the pool's own file: it has no head, its groups name pool and generation.
    Inside,
    /// Of this pool and generation.
    Same,
    /// One generation later: an open got as far as the log's head and no further.
    OneLater,
    /// Of this pool and any other generation.
    OtherTime,
    /// Of another pool.
    OtherPool,
    /// Both copies of the head are damaged, or contradict each other.
    Damaged,
    /// A program of another version has written its head.
    Newer,
    /// Shorter than the superblock says.
    Short,
    /// There is no such file.
    Missing,
}

/// What to do with a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It was closed in good order: everything is at home, the log holds nothing.
    Start,
    /// Replay the log from the superblock's sequence on.
    Replay,
    /// It was closed cleanly and its log is lost: make a new log, which holds nothing, then
    /// start. See `storage::renew`.
    Renew,
    /// Answer an error that says what is wrong.
    Refuse,
}

/// A row: fits if every given part does.
struct Row {
    log: &'static [LogState],
    clean: Option<bool>,
    /// Whether the program takes a pool without its log.
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
    // The heap is whole, the log held nothing, and the program says that it may be replaced. Only
    // on demand: where the pool's file is an older copy, its own log may hold what came after it.
    Row { log: LOST, clean: Some(true), without_log: Some(true), action: Action::Renew },
    // A log that is not there or not ours: replaying nothing could lose what was acknowledged.
    Row { log: LOST, clean: None, without_log: None, action: Action::Refuse },
    // Closed in good order: every record was at home before the mark was written.
    Row { log: OURS, clean: Some(true), without_log: None, action: Action::Start },
    // Not closed. `OneLater`: a crash between the log's head and the superblock of an open; records
    // of the superblock's generation are still there, because new ones come only after both.
    Row { log: OURS, clean: Some(false), without_log: None, action: Action::Replay },
    // What a newer program has written is not ours to replace.
    Row { log: &[], clean: None, without_log: None, action: Action::Refuse },
];

/// Decides by the table.
pub(crate) fn decide(log: LogState, clean: bool, without_log: bool) -> Action {
    let fits = |row: &&Row| {
        (row.log.is_empty() || row.log.contains(&log))
            && row.clean.is_none_or(|is| is == clean)
            && row.without_log.is_none_or(|is| is == without_log)
    };
    TABLE.iter().find(fits).map_or(Action::Refuse, |row| row.action)
}

/// What to do with what lies next in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Bring its words home and look further.
    Apply,
    /// The log ends here: everything acknowledged lies before. What follows never happened.
    End,
    /// No crash leaves this.
    Refuse,
}

/// Decides about one place of the log.
pub(crate) fn decide_next(found: &lw_log::Found) -> Next {
    use lw_log::Found;
    match found {
        // Whole, at its place, the ID that follows.
        Found::Group { .. } => Next::Apply,
        // Nothing of this log was written here; or an older lap or generation.
        Found::End => Next::End,
        // A write cut short. Groups are acknowledged in order, so nothing behind it was.
        Found::Torn { .. } => Next::End,
        // Whole, and not what follows; or an end with something whole behind it. What is missing
        // was acknowledged, perhaps: replaying without it would lose it silently.
        Found::Damaged { .. } => Next::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LogState::*;

    #[test]
    fn every_row_decides_what_it_says() {
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
    fn only_a_whole_group_is_applied() {
        use lw_log::Found;
        use words::TxId;
        let group = Found::Group { first: TxId(1), last: TxId(2) };
        assert_eq!(decide_next(&group), Next::Apply);
        assert_eq!(decide_next(&Found::End), Next::End);
        assert_eq!(decide_next(&Found::Torn { at: 0 }), Next::End);
        assert_eq!(decide_next(&Found::Damaged { at: 0 }), Next::Refuse);
    }
}
