//! Whether what was acknowledged is there, after a crash.
//!
//! ```text
//!   timed region        | flush | tail, untimed, 50 ms       | abandon | open, recover
//!       ~ 4096 to 8192  |       |  acknowledged | the rest   |
//!       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ looked for
//! ```
//!
//! The measured run ends durable, so what a crash may tear is made afterwards: a tail of further
//! transactions, each one's ID kept, and the pool is left in the middle of it. A transaction is
//! acknowledged when its ID is at most the pool's durable ID just before. After recovery clients
//! are drawn again from a copy made near the end of the timed region: the workload knows what each
//! of their transactions must have left. In sync mode every commit of the tail is acknowledged.
//!
//! Invariants that are checked: the recovered ID is not below the acknowledged one; every
//! transaction looked for is present; the workload's own check.

use std::time::{Duration, Instant};

use lastword::{AnyPool, AnyWorker, Erased, ErasedTx, Error, Stop, TxId};
use workloads::{AnyClient, AnyWorkload, Violation};

use crate::driver::Position;
use crate::erased::own;
use crate::failure::is_damage;
use crate::gate::{self, Gate};
use crate::setup::Ready;

/// How long the tail runs.
const TAIL: Duration = Duration::from_millis(50);

/// Most transactions of a worker's tail: what regenerating them may take.
const TAIL_MAX: usize = 1 << 16;

/// Violations that are shown.
const SHOWN: usize = 10;

/// What a check has found. Empty: everything holds.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Acknowledged transactions that are not there.
    missing: u64,
    /// Recovered up to here, though more was acknowledged: (recovered, acknowledged).
    short: Option<(TxId, TxId)>,
    /// There is no workload in the pool any more.
    gone: bool,
    violations: Vec<Violation>,
    /// What kept the pool from being opened or read.
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

    /// One line for each.
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

/// Leaves the pool as a crash would, in the middle of a tail of transactions; opens and checks it.
/// Designs of which nothing is there again are checked where they are.
///
/// # Errors
/// What kept the check from being done; damage is a loss, not an error.
pub(crate) fn crash_and_check(
    ready: Ready,
    positions: &[Position<AnyClient>],
) -> Result<Losses, Error> {
    let tails = run_tails(&ready, positions)?;
    let Ready { design, pool, workload, options, place, .. } = ready;
    if !design.reopens {
        let everything = TxId(u64::MAX);
        return damage_is_loss(check(&*pool, &workload, positions, &tails, everything));
    }
    let acknowledged = pool.durable_id();
    let kind = workload.kind();
    pool.abandon();
    let reopened = || {
        let pool = (design.open)(place.path(), options)?;
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

/// Runs every worker on for a while; answers the IDs of its transactions.
fn run_tails(ready: &Ready, positions: &[Position<AnyClient>]) -> Result<Vec<Vec<TxId>>, Error> {
    let Ready { design, pool, workload, .. } = ready;
    let (gate, rolls_back) = (Gate::default(), design.rolls_back);
    let workers = positions.iter().map(|_| pool.any_worker()).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        let mut missing = None;
        for (mut worker, position) in workers.into_iter().zip(positions) {
            let (gate, mut client) = (&gate, position.client.clone());
            let tail = gate::spawn(scope, move || {
                let mut ids = Vec::new();
                let goes = gate.pass();
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
            None => gate.open(positions.len()),
            Some(_) => gate.call_off(),
        }
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let tails = handles.into_iter().map(join).collect();
        missing.map_or(tails, Err)
    })
}

/// Runs the client's current transaction as [`crate::driver::transact`] does; answers its ID. One
/// that gave itself up has nothing to be looked for, and no ID.
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

/// Looks for the last transactions of every worker, and runs the workload's check.
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
        // What was timed was flushed: all of it is acknowledged.
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

    /// A bank in memory, and the positions of two workers that have run so many transfers.
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
    fn what_was_run_is_found() {
        let (pool, bank, positions) = bank(100);
        let losses = check(&pool, &bank, &positions, &[vec![], vec![]], TxId(0)).unwrap();
        assert!(losses.is_empty(), "{:?}", losses.lines());
    }

    #[test]
    fn what_was_counted_and_never_run_is_missed() {
        let (pool, bank, mut positions) = bank(100);
        positions[1].count += 3;
        let losses = check(&pool, &bank, &positions, &[vec![], vec![]], TxId(0)).unwrap();
        assert_eq!(losses.missing, 3);
        assert_eq!(losses.lines(), ["3 acknowledged transactions are lost"]);
    }

    #[test]
    fn of_the_tail_only_what_was_acknowledged_is_missed() {
        let (pool, bank, positions) = bank(100);
        let tails = [vec![TxId(900), TxId(902)], vec![TxId(901), TxId(903)]];
        let losses = check(&pool, &bank, &positions, &tails, TxId(901)).unwrap();
        assert_eq!(losses.missing, 2);
    }
}
