//! The messages of calls that a program should make elsewhere, or in another order.

use words::TxId;

pub(super) fn too_many_workers(design: &str, max: usize, instead: &str) -> String {
    format!(
        "design `{design}` has no free worker, and its limit is {max}: drop a `Worker`, wait until \
         a `Pool::run` returns, or {instead}"
    )
}

pub(super) fn forked(call: &str) -> String {
    format!(
        "`{call}` was called in a forked child: the pool belongs to the process that opened it; \
         use it there, or have the child open a pool of its own"
    )
}

pub(super) fn worker_forgotten(durable: TxId) -> String {
    format!(
        "closed without the transactions after {durable} of a worker that was forgotten inside a \
         transaction: their group was never made durable; drop each worker before its pool"
    )
}
