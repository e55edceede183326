//! The message of a wait for another transaction that does not end.

use std::time::Duration;

/// `why`: what the transaction of that worker does.
pub(super) fn endless(why: &str, worker: usize, waited: Duration) -> String {
    format!(
        "the transaction of worker {worker} {why} and did not end within {waited:?}; this one had \
         no effect: run it again when that one has ended, keep bodies short, or open the pool with \
         more `Options::patience` (a forgotten transaction ends when its worker is dropped, or \
         when the pool is closed)"
    )
}
