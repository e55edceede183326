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

use std::sync::Barrier;
use std::time::{Duration, Instant};

use lastword::{Design, Error, Pool, TxId};
use workloads::{Violation, Workload};

use crate::driver::Position;
use crate::failure::is_damage;
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
    violations: Vec<Violation>,
    /// What kept the pool from being opened or read.
    damage: Option<Error>,
}

impl Losses {
    pub(crate) fn is_empty(&self) -> bool {
        self.missing == 0
            && self.short.is_none()
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
        if self.missing > 0 {
            lines.push(format!("{} acknowledged transactions are lost", self.missing));
        }
        lines.extend(self.violations.iter().take(SHOWN).map(ToString::to_string));
        lines
    }
}

/// Leaves the pool as a crash would, in the middle of a tail of transactions; opens and checks it.
/// Designs that keep nothing are checked where they are.
///
/// # Errors
/// What kept the check from being done; damage is a loss, not an error.
pub(crate) fn crash_and_check<D: Design, W: Workload>(
    ready: Ready<D, W>,
    positions: &[Position<W::Client>],
) -> Result<Losses, Error> {
    let Ready { pool, workload, options, place, .. } = ready;
    let tails = run_tails(&pool, &workload, positions)?;
    if !D::DURABLE {
        let everything = TxId(u64::MAX);
        return damage_is_loss(check::<D, W>(&pool, &workload, positions, &tails, everything));
    }
    let acknowledged = pool.durable_id();
    drop(workload);
    pool.abandon();
    let reopened = || {
        let pool = Pool::<D>::open_as(place.path(), options)?;
        let recovered = pool.committed_id();
        let Some(workload) = W::open(&mut pool.worker()?)? else {
            return Ok(Losses { short: Some((recovered, acknowledged)), ..Losses::default() });
        };
        let mut losses = check::<D, W>(&pool, &workload, positions, &tails, acknowledged)?;
        if recovered < acknowledged {
            losses.short = Some((recovered, acknowledged));
        }
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
fn run_tails<D: Design, W: Workload>(
    pool: &Pool<D>,
    workload: &W,
    positions: &[Position<W::Client>],
) -> Result<Vec<Vec<TxId>>, Error> {
    let barrier = Barrier::new(positions.len());
    let workers = positions.iter().map(|_| pool.worker()).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (mut worker, position) in workers.into_iter().zip(positions) {
            let (barrier, mut client) = (&barrier, position.client.clone());
            handles.push(scope.spawn(move || {
                let mut ids = Vec::new();
                barrier.wait();
                let start = Instant::now();
                while ids.len() < TAIL_MAX && start.elapsed() < TAIL {
                    workload.next(&mut client);
                    ids.push(worker.run(|tx| workload.run(&client, tx))?.ticket.id());
                }
                Ok(ids)
            }));
        }
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).collect()
    })
}

/// Looks for the last transactions of every worker, and runs the workload's check.
fn check<D: Design, W: Workload>(
    pool: &Pool<D>,
    workload: &W,
    positions: &[Position<W::Client>],
    tails: &[Vec<TxId>],
    acknowledged: TxId,
) -> Result<Losses, Error> {
    let mut worker = pool.worker()?;
    let mut missing = 0;
    for (position, ids) in positions.iter().zip(tails) {
        let (mut client, from) = position.recent[0].clone();
        // What was timed was flushed: all of it is acknowledged.
        let timed = (from..position.count).map(|_| TxId::NONE);
        for id in timed.chain(ids.iter().copied()) {
            workload.next(&mut client);
            if id <= acknowledged {
                let is_there = worker.read(|tx| workload.is_present(&client, tx))?.value;
                missing += u64::from(!is_there);
            }
        }
    }
    let violations = workload.check(&mut worker)?;
    Ok(Losses { missing, violations, ..Losses::default() })
}
