//! The moves of a boot while the power is on, each chosen by the picker.

use std::path::Path;

use lastword::{Allocate, AnyPool, AnyWorker, ErasedTx, Error, Stop};

use super::{Backup, Execution, Stopped, check_order};
use crate::Violation;
use crate::case::GROWTH_BYTES;
use crate::oracle::Words;
use crate::workload::Scenario;

impl Execution<'_> {
    /// Makes moves until a limit is reached.
    pub(super) fn live<'p, S: Scenario>(
        &mut self,
        pool: &'p dyn AnyPool,
        scenario: &S,
        mut workers: Vec<Box<dyn AnyWorker + 'p>>,
        seed: u64,
    ) -> Result<(), Stopped> {
        let mut clients: Vec<S::Client> =
            (0..workers.len()).map(|worker| scenario.client(worker, 1 + seed)).collect();
        while self.moves < self.case.moves {
            self.moves += 1;
            let turn = self.picker.pick(workers.len());
            self.turn = turn;
            let (worker, client) = (&mut *workers[turn], &mut clients[turn]);
            let steps = self.steps(pool).len();
            let others = if self.case.all_moves { 5 } else { 0 };
            // The last move, so that the others keep their numbers.
            let backups = usize::from(self.case.backup);
            let growths = usize::from(self.case.grow);
            let log_growths = usize::from(self.case.grow_log);
            let last = 2 + steps + others + backups + growths;
            match self.picker.pick(last + log_growths) {
                0 => self.transaction(pool, scenario, worker, client)?,
                1 => self.wait(pool)?,
                step if step < 2 + steps => self.step(pool, self.steps(pool)[step - 2])?,
                other if other >= last => self.grow_log(pool)?,
                other if other >= 2 + steps + others + backups => self.grow(pool)?,
                other if other >= 2 + steps + others => self.backup(pool)?,
                other => match other - steps - 2 {
                    0 => self.abort(pool, scenario, worker, client)?,
                    1 => self.read(pool, worker)?,
                    2 => self.checkpoint(pool)?,
                    3 => self.burst(pool, scenario, worker, client)?,
                    _ => {
                        workers[turn] =
                            pool.any_worker().map_err(|error| self.broken("worker", &error))?;
                    }
                },
            }
            check_order(pool)?;
            // The new size is durable before a transaction uses it.
            self.heap_bytes = self.heap_bytes.max(pool.info().heap_bytes);
        }
        Ok(())
    }

    /// Commits a transaction, and acknowledges it if the pool is opened with `sync`.
    fn transaction<S: Scenario>(
        &mut self,
        pool: &dyn AnyPool,
        scenario: &S,
        worker: &mut dyn AnyWorker,
        client: &mut S::Client,
    ) -> Result<(), Stopped> {
        if self.transactions == self.case.transactions {
            return Ok(());
        }
        self.transactions += 1;
        scenario.next(client);
        if self.is_apart() {
            // Later transactions may rely on all that is durable now.
            self.states().acknowledge(pool.durable_id().0);
        }
        let mut noted = Ok(());
        let done =
            worker.run_any(false, &mut |tx| self.attempt(pool, scenario, client, tx, &mut noted));
        noted?;
        let id = match done {
            Err(Error::Full { .. }) if S::FILLS => return self.stays_full(pool),
            done => {
                self.note_commit(pool);
                done.map_err(|error| self.broken("transaction", &error))?.0
            }
        };
        self.picker.log(format_args!("transaction {id} is committed"));
        if self.case.sync {
            self.acknowledged(id);
        }
        Ok(())
    }

    /// Runs the body of a transaction. Before that it notes what the pool has reclaimed since the
    /// last attempt has met a full heap.
    fn attempt<S: Scenario>(
        &mut self,
        pool: &dyn AnyPool,
        scenario: &S,
        client: &S::Client,
        tx: &mut dyn Allocate,
        noted: &mut Result<(), Violation>,
    ) -> Result<(), Stop> {
        let again = std::mem::take(&mut self.is_full);
        if again {
            let words = self.words_of(pool);
            *noted = self.states().reclaimed(pool.committed_id().0, words);
        }
        let done = scenario.run(client, &mut ErasedTx::new(tx));
        self.is_full = S::FILLS && done == Err(Stop::Full);
        self.report.met_full += u64::from(self.is_full && !again);
        self.report.served += u64::from(!self.is_full && again);
        done
    }

    /// Ends a transaction that reclaimed memory has not helped.
    fn stays_full(&mut self, pool: &dyn AnyPool) -> Result<(), Stopped> {
        self.is_full = false;
        self.picker.log(format_args!("the heap is full"));
        let words = self.words_of(pool);
        Ok(self.states().reclaimed(pool.committed_id().0, words)?)
    }

    /// Sends several transactions at once, so that several groups are in flight.
    fn burst<S: Scenario>(
        &mut self,
        pool: &dyn AnyPool,
        scenario: &S,
        worker: &mut dyn AnyWorker,
        client: &mut S::Client,
    ) -> Result<(), Stopped> {
        for _ in 0..2 {
            self.transaction(pool, scenario, worker, client)?;
            if self.steps(pool).contains(&"help") {
                self.step(pool, "help")?;
            }
        }
        Ok(())
    }

    /// Aborts a transaction after its writes; its ID becomes a no-op record.
    fn abort<S: Scenario>(
        &mut self,
        pool: &dyn AnyPool,
        scenario: &S,
        worker: &mut dyn AnyWorker,
        client: &mut S::Client,
    ) -> Result<(), Stopped> {
        scenario.next(client);
        let (mut before, mut noted) = (self.words_of(pool), Ok(()));
        let mut body = |tx: &mut dyn Allocate| {
            if self.is_full {
                // The pool has reclaimed memory, which no abort takes back.
                before = self.words_of(pool);
            }
            self.attempt(pool, scenario, client, tx, &mut noted)
        };
        let aborted = worker.abort_any("as asked", &mut body);
        noted?;
        let states = self.states.as_ref().expect("the pool has been open");
        let is_same = |a: &Words, b: &Words| states.first_difference(a, b).is_none();
        match aborted {
            Err(Error::Full { .. }) if S::FILLS => self.stays_full(pool),
            Err(Error::Aborted { .. }) if is_same(&before, &self.words_of(pool)) => Ok(()),
            Err(Error::Aborted { .. }) => {
                let wrong = "an abort has left a change".to_owned();
                Err(Violation::Workload { wrong }.into())
            }
            Err(error) => Err(self.broken("abort", &error)),
        }
    }

    /// Runs a read-only transaction; its ticket acknowledges the transactions that it has read.
    fn read(&mut self, pool: &dyn AnyPool, worker: &mut dyn AnyWorker) -> Result<(), Stopped> {
        let seen = worker.run_any(true, &mut |tx| tx.root().map(drop));
        let seen = seen.map_err(|error| self.broken("read", &error))?;
        if seen <= pool.durable_id() {
            // It has read all committed transactions; of other workers' groups, the visible ones.
            let known = if self.is_apart() { seen.0 } else { pool.committed_id().0 };
            self.acknowledged(known);
        }
        Ok(())
    }

    /// Backs up the pool. From here on a copy at the path must have this state. It may be missing
    /// until the call has returned.
    fn backup(&mut self, pool: &dyn AnyPool) -> Result<(), Stopped> {
        let path = format!("/copy{}", self.backups.len());
        self.picker.log(format_args!("backup to {path}"));
        let (id, words) = (pool.committed_id().0, self.words_of(pool));
        self.backups.push(Backup { path: path.clone().into(), id, words, is_done: false });
        let copied =
            pool.backup(Path::new(&path)).map_err(|error| self.broken("backup", &error))?;
        if copied.0 != id {
            return Err(Violation::Lost { found: copied.0, acknowledged: id }.into());
        }
        self.backups.last_mut().expect("it was added above").is_done = true;
        self.acknowledged(id);
        Ok(())
    }

    /// Makes the heap larger. From here on every opening must find it so.
    fn grow(&mut self, pool: &dyn AnyPool) -> Result<(), Stopped> {
        let bytes = pool.info().heap_bytes + GROWTH_BYTES;
        self.picker.log(format_args!("the heap grows to {bytes} bytes"));
        match pool.grow(bytes) {
            Err(Error::NoGrowth { .. }) => Ok(()),
            grown => {
                self.heap_bytes = grown.map_err(|error| self.broken("grow", &error))?;
                Ok(())
            }
        }
    }

    /// Doubles the log. From here on every opening must find it so.
    fn grow_log(&mut self, pool: &dyn AnyPool) -> Result<(), Stopped> {
        let bytes = pool.info().log_bytes;
        if bytes < self.log_bytes_max {
            self.picker.log(format_args!("the log grows from {bytes} bytes"));
            let grown = pool.grow_log(2 * bytes);
            self.log_bytes = grown.map_err(|error| self.broken("grow_log", &error))?;
        }
        Ok(())
    }

    /// Waits until every committed transaction is durable, as a program does.
    fn wait(&mut self, pool: &dyn AnyPool) -> Result<(), Stopped> {
        let awaited = pool.committed_id().0;
        // First by steps, which must suffice, since `flush` would wait for ever. A combined group
        // is an exception: it waits for more transactions until a caller waits for it.
        let by_steps = !self.case.sync && self.case.group == 0;
        let mut idle = 0;
        while by_steps && self.steps(pool).first() == Some(&"persist") && idle < 3 {
            if pool.durable_id().0 >= awaited {
                break;
            }
            let moved = self
                .steps(pool)
                .into_iter()
                .try_fold(false, |moved, step| run(pool, step).map(|more| more || moved));
            let moved = moved.map_err(|error| self.broken("step", &error))?;
            idle = if moved { 0 } else { idle + 1 };
        }
        let durable = pool.durable_id().0;
        if idle == 3 && durable < awaited {
            return Err(Violation::Stalled { durable, awaited }.into());
        }
        pool.flush().map_err(|error| self.broken("flush", &error))?;
        self.acknowledged(awaited);
        Ok(())
    }

    /// Returns the steps of the pool that this case chooses from.
    fn steps(&self, pool: &dyn AnyPool) -> Vec<&'static str> {
        let is_paced = self.case.paced && pool.steps().contains(&"pace");
        let left_out = if is_paced { "reproduce" } else { "pace" };
        pool.steps().iter().copied().filter(|step| *step != left_out).collect()
    }

    fn step(&mut self, pool: &dyn AnyPool, step: &str) -> Result<(), Stopped> {
        self.picker.log(format_args!("step: {step}"));
        let stepped = run(pool, step);
        stepped.map_err(|error| self.broken("step", &error))?;
        // Reading the durable ID is an acknowledgement.
        let durable = pool.durable_id().0;
        if durable > self.states().acknowledged() {
            self.acknowledged(durable);
        }
        Ok(())
    }

    fn checkpoint(&mut self, pool: &dyn AnyPool) -> Result<(), Stopped> {
        let committed = pool.committed_id().0;
        pool.checkpoint().map_err(|error| self.broken("checkpoint", &error))?;
        self.acknowledged(committed);
        Ok(())
    }

    /// Marks an acknowledgement, at which the power may fail.
    fn acknowledged(&mut self, id: u64) {
        self.picker.log(format_args!("up to {id} is acknowledged"));
        self.states().acknowledge(id);
        self.recorder.crash_point();
    }
}

/// Runs a step of the pool. Returns whether it did anything.
fn run(pool: &dyn AnyPool, step: &str) -> Result<bool, Error> {
    let number = pool.steps().iter().position(|known| *known == step);
    pool.step(number.expect("a step of the pool"))
}
