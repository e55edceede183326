//! The messages of waits for another transaction that does not end.

use std::time::Duration;

use words::TxId;

/// `why`: what the transaction of that worker does.
pub(super) fn endless(why: &str, worker: usize, waited: Duration) -> String {
    format!(
        "the transaction of worker {worker} {why} and did not end within {waited:?}; this one had \
         no effect: run it again when that one has ended, keep bodies short, or open the pool with \
         more `Options::patience` (a forgotten transaction ends when its worker is dropped, or \
         when the pool is closed)"
    )
}

/// `what`: the resource that the transaction retains.
pub(super) fn held_up(
    what: &str,
    limit_bytes: Option<u64>,
    since: TxId,
    waited: Duration,
    instead: &str,
) -> String {
    let bytes = limit_bytes.map(|bytes| format!(" ({bytes} bytes)")).unwrap_or_default();
    format!(
        "{what}{bytes}, even after a wait of {waited:?}: a transaction that began when {since} was \
         the last ID still runs and retains everything committed since. End it, or {instead}"
    )
}
