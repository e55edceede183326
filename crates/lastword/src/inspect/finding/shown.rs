//! Parts of the texts of findings.

use words::TxId;

/// Returns the effect of a log that cannot be read.
pub(super) fn log_lost(needed_after: Option<TxId>) -> String {
    match needed_after {
        Some(TxId(last)) => {
            format!("acknowledged transactions after {last} may be in the log alone")
        }
        None => "no transaction: the pool was closed cleanly, so its heap is whole".into(),
    }
}

/// Returns the effect of groups that are lost before others, or at the end of the log.
pub(super) fn groups_lost(lost: &[(TxId, TxId)], unreached: &[(TxId, TxId)]) -> String {
    let lost = format!("transactions {} are lost", ranges(lost));
    match unreached {
        [] => lost,
        _ => {
            let unreached = ranges(unreached);
            format!("{lost}; {unreached} are intact in the log, but depend on them")
        }
    }
}

/// Names some of these ranges.
pub(super) fn ranges(ranges: &[(TxId, TxId)]) -> String {
    const SHOWN: usize = 8;
    let one = |&(first, last): &(TxId, TxId)| match first == last {
        true => format!("{}", first.0),
        false => format!("{} to {}", first.0, last.0),
    };
    let shown: Vec<String> = ranges.iter().take(SHOWN).map(one).collect();
    let more = ranges.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more ranges") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Names some of these objects.
pub(super) fn objects_shown(objects: &[u64]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = objects.iter().take(SHOWN).map(|one| format!("{one:#x}")).collect();
    match objects.len() {
        0 => "no live object that the heap shows".into(),
        1 => format!("the object {}", shown[0]),
        count if count <= SHOWN => format!("the {count} objects {}", shown.join(", ")),
        count => format!("{count} objects: {} and more", shown.join(", ")),
    }
}
