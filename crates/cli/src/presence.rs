//! Checks that acknowledged transactions survive a crash.
//!
//! ```text
//!   timed region        | flush | tail, untimed, 50 ms       | abandon | open, recover
//!       ~ 4096 to 8192  |       |  acknowledged | the rest   |
//!       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ looked for
//! ```
//!
//! The measured run ends durable, so a crash there would lose nothing. A tail of further
//! transactions follows; their IDs are recorded, and the pool is abandoned in the middle of it. A
//! transaction is acknowledged if its ID is at most the pool's durable ID just before. After
//! recovery a copy of each client, taken near the end of the timed region, generates its
//! transactions again: the workload knows the effect of each. In sync mode every commit of the tail
//! is acknowledged.
//!
//! Invariants that are checked: the recovered ID is not below the acknowledged one; every
//! acknowledged transaction is present; the workload's own check holds.

use std::time::{Duration, Instant};

use lastword::{AnyPool, AnyWorker, Erased, ErasedTx, Error, Stop, TxId};
use workloads::{AnyClient, AnyWorkload, Violation};

use crate::driver::Position;
use crate::erased::own;
use crate::failure::is_damage;
use crate::setup::Ready;
use crate::start_barrier::{self, StartBarrier};

/// Duration of the tail.
const TAIL: Duration = Duration::from_millis(50);

/// Bound on a worker's tail, and so on the cost of generating it again.
const TAIL_MAX: usize = 1 << 16;

/// Maximum number of violations shown.
const SHOWN: usize = 10;

/// Result of a check. Empty: everything holds.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Number of lost acknowledged transactions.
    missing: u64,
    /// Recovery ended below the acknowledged ID: (recovered, acknowledged).
    short: Option<(TxId, TxId)>,
    /// The pool holds no workload any more.
    gone: bool,
    violations: Vec<Violation>,
    /// The error that kept the pool from being opened or read.
    damage: Option<Error>,
}

impl Losses {
    pub(crate) fn is_empty(&self) -> bool {
        self.missing == 0
            && self.short.is_none()
            && !self.gone
            && self.violations.is_empty()
            && self.damage.is_none()
    }

    /// Returns one line for each loss.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(damage) = &self.damage {
            lines.push(damage.to_string());
        }
        if let Some((recovered, acknowledged)) = self.short {
            lines.push(format!("recovered up to {recovered}, acknowledged up to {acknowledged}"));
        }
        if self.gone {
            lines.push("the workload is gone".into());
        }
        if self.missing > 0 {
            lines.push(format!("{} acknowledged transactions are lost", self.missing));
        }
        lines.extend(self.violations.iter().take(SHOWN).map(ToString::to_string));
        lines
    }
}

/// Abandons the pool in the middle of a tail of transactions, as a crash would; opens and checks
/// it. A design without a pool is checked in memory.
///
/// # Errors
/// The check cannot run; damage is a loss, not an error.
pub(crate) fn crash_and_check(
    ready: Ready,
    positions: &[Position<AnyClient>],
) -> Result<Losses, Error> {
    let tails = run_tails(&ready, positions)?;
    let Ready { design, reopens, pool, workload, options, place, .. } = ready;
    if !reopens {
        let everything = TxId(u64::MAX);
        return damage_is_loss(check(&*pool, &workload, positions, &tails, everything));
    }
    let acknowledged = pool.durable_id();
    let kind = workload.kind();
    pool.abandon();
    let reopened = || {
        let pool = design.open(place.path(), options)?;
        let recovered = pool.committed_id();
        let mut worker = pool.any_worker()?;
        let opened = kind.open(&mut Erased::any(&mut worker.erased())).map_err(own)?;
        drop(worker);
        let mut losses = match opened {
            Some(workload) => check(&*pool, &workload, positions, &tails, acknowledged)?,
            None => Losses { gone: true, ..Losses::default() },
        };
        losses.short = (recovered < acknowledged).then_some((recovered, acknowledged));
        pool.close()?;
        Ok(losses)
    };
    damage_is_loss(reopened())
}

fn damage_is_loss(checked: Result<Losses, Error>) -> Result<Losses, Error> {
    match checked {
        Err(error) if is_damage(&error) => Ok(Losses { damage: Some(error), ..Losses::default() }),
        checked => checked,
    }
}

/// Runs a tail on every worker; returns the IDs of its transactions.
fn run_tails(ready: &Ready, positions: &[Position<AnyClient>]) -> Result<Vec<Vec<TxId>>, Error> {
    let Ready { design, pool, workload, .. } = ready;
    let (barrier, rolls_back) = (StartBarrier::default(), design.rolls_back);
    let workers = positions.iter().map(|_| pool.any_worker()).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        let mut missing = None;
        for (mut worker, position) in workers.into_iter().zip(positions) {
            let (barrier, mut client) = (&barrier, position.client.clone());
            let tail = start_barrier::spawn(scope, move || {
                let mut ids = Vec::new();
                let goes = barrier.wait();
                let start = Instant::now();
                while goes && ids.len() < TAIL_MAX && start.elapsed() < TAIL {
                    workload.next(&mut client);
                    ids.push(transact(&mut *worker, rolls_back, workload, &client)?);
                }
                Ok(ids)
            });
            match tail {
                Ok(handle) => handles.push(handle),
                Err(error) => missing = Some(error),
            }
        }
        match missing {
            None => barrier.release(positions.len()),
            Some(_) => barrier.cancel(),
        }
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let tails = handles.into_iter().map(join).collect();
        missing.map_or(tails, Err)
    })
}

/// Runs the client's current transaction as [`crate::driver::transact`] does; returns its ID. A
/// transaction that aborted itself has no ID.
fn transact(
    worker: &mut dyn AnyWorker,
    rolls_back: bool,
    workload: &AnyWorkload,
    client: &AnyClient,
) -> Result<TxId, Error> {
    if !rolls_back && workload.gives_up(client) {
        return Ok(TxId::NONE);
    }
    let reads_only = workload.reads_only(client);
    match worker.run_any(reads_only, &mut |tx| workload.run(client, &mut ErasedTx::new(tx))) {
        Err(Error::Stopped { stop: Stop::Aborted }) if workload.gives_up(client) => Ok(TxId::NONE),
        done => done,
    }
}

/// Looks up the last transactions of every worker, and runs the workload's check.
fn check(
    pool: &dyn AnyPool,
    workload: &AnyWorkload,
    positions: &[Position<AnyClient>],
    tails: &[Vec<TxId>],
    acknowledged: TxId,
) -> Result<Losses, Error> {
    let mut worker = pool.any_worker()?;
    let mut missing = 0;
    for (position, ids) in positions.iter().zip(tails) {
        let (mut client, from) = position.recent[0].clone();
        // The timed region was flushed: all of it is acknowledged.
        let timed = (from..position.count).map(|_| TxId::NONE);
        for id in timed.chain(ids.iter().copied()) {
            workload.next(&mut client);
            if id <= acknowledged {
                let mut is_there = false;
                worker.run_any(true, &mut |tx| {
                    is_there = workload.is_present(&client, &mut ErasedTx::new(tx))?;
                    Ok(())
                })?;
                missing += u64::from(!is_there);
            }
        }
    }
    let violations = workload.check(&mut Erased::any(&mut worker.erased())).map_err(own)?;
    Ok(Losses { missing, violations, ..Losses::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastword::{Options, Pool, Volatile};
    use workloads::Kind;

    /// A bank in memory, and the positions of two workers after this many transfers.
    fn bank(transfers: u64) -> (Pool<Volatile>, AnyWorkload, Vec<Position<AnyClient>>) {
        let options = workloads::Options { scale: 0.001, ..workloads::Options::default() };
        let kind = Kind::by_name("bank").unwrap();
        let bytes = kind.heap_bytes(&options);
        let pool = Pool::<Volatile>::create_as("", Options::new().bytes(bytes)).unwrap();
        let mut worker = pool.worker().unwrap();
        let bank = kind.load(&mut Erased::any(&mut worker), &options).unwrap();
        let mut positions: Vec<_> =
            (0..2).map(|index| Position::new(bank.client(index, 1))).collect();
        for position in &mut positions {
            for _ in 0..transfers {
                bank.next(&mut position.client);
                let _ =
                    worker.run(|tx| bank.run(&position.client, &mut ErasedTx::new(tx))).unwrap();
            }
            position.count = transfers;
        }
        drop(worker);
        (pool, bank, positions)
    }

    #[test]
    fn executed_transactions_are_present() {
        let (pool, bank, positions) = bank(100);
        let losses = check(&pool, &bank, &positions, &[vec![], vec![]], TxId(0)).unwrap();
        assert!(losses.is_empty(), "{:?}", losses.lines());
    }

    #[test]
    fn counted_but_missing_transactions_are_lost() {
        let (pool, bank, mut positions) = bank(100);
        positions[1].count += 3;
        let losses = check(&pool, &bank, &positions, &[vec![], vec![]], TxId(0)).unwrap();
        assert_eq!(losses.missing, 3);
        assert_eq!(losses.lines(), ["3 acknowledged transactions are lost"]);
    }

    #[test]
    fn unacknowledged_tail_may_be_lost() {
        let (pool, bank, positions) = bank(100);
        let tails = [vec![TxId(900), TxId(902)], vec![TxId(901), TxId(903)]];
        let losses = check(&pool, &bank, &positions, &tails, TxId(901)).unwrap();
        assert_eq!(losses.missing, 2);
    }
}
