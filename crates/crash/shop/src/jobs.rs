//! A queue of jobs, and the results of those that are done.

use std::sync::Arc;

use lastword::collections::{BTreeMap, VecDeque};
use lastword::{Error, Pool, Ticket};

/// The jobs that wait, and the results.
pub struct Jobs {
    pool: Arc<Pool>,
    waiting: VecDeque<u64>,
    results: BTreeMap<u64, u64>,
}

impl Jobs {
    pub fn open(pool: Arc<Pool>) -> Result<Jobs, Error> {
        let (waiting, results) = (pool.named("waiting")?, pool.named("results")?);
        Ok(Jobs { pool, waiting, results })
    }

    /// Accepts a job, when the ticket is durable.
    pub fn accept(&self, job: u64) -> Result<Ticket<'_>, Error> {
        Ok(self.pool.run(|tx| self.waiting.push_back(tx, job))?.ticket)
    }

    /// Takes the first job and stores its result. Returns the job.
    pub fn work(&self) -> Result<Option<u64>, Error> {
        let done = self.pool.run(|tx| {
            let Some(job) = self.waiting.pop_front(tx)? else { return Ok(None) };
            self.results.put(tx, job, result(job))?;
            Ok(Some(job))
        })?;
        done.ticket.wait()?;
        Ok(done.value)
    }

    /// The same in two transactions. A power failure between them loses the job.
    pub fn work_in_two(&self) -> Result<Option<u64>, Error> {
        let Some(job) = self.pool.run(|tx| self.waiting.pop_front(tx))?.value else {
            return Ok(None);
        };
        self.pool.run(|tx| self.results.put(tx, job, result(job)))?.ticket.wait()?;
        Ok(Some(job))
    }

    /// Returns how often a job is in the queue, and its result.
    pub fn find(&self, job: u64) -> Result<(usize, Option<u64>), Error> {
        let found = self.pool.run(|tx| {
            let mut times = 0;
            for waiting in self.waiting.iter(tx) {
                times += usize::from(waiting? == job);
            }
            Ok((times, self.results.get(tx, job)?))
        })?;
        Ok(found.value)
    }
}

/// The work.
pub fn result(job: u64) -> u64 {
    job * job
}
