//! The process that is killed: runs a pool's workload and acknowledges durable transactions on
//! stdout.
//!
//! Invariant: a transaction is acknowledged only after its commit returned (sync mode) or its
//! ticket reported it durable (async mode). See `kill_round` for the messages.
//!
//! Acknowledgements are sent less often than transactions commit. So a kill usually finds some
//! transactions that are durable and not acknowledged, and in async mode some that are committed
//! and lost: recovery must handle both.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use lastword::{Durability, Erased, Error, Pool, Ticket};
use workloads::Kind;

use crate::args::KillWriter;
use crate::driver::transact;
use crate::erased::own;
use crate::failure::{Failure, Verdict};
use crate::kill_round::Message;
use crate::setup;
use crate::start_barrier::{self, StartBarrier};

/// Runs until the process is killed, or until stdout has no reader.
///
/// # Errors
/// The pool cannot be opened or holds no workload, or a transaction fails.
pub(crate) fn run(arguments: &KillWriter) -> Result<Verdict, Failure> {
    let KillWriter { path, only_open, kill } = arguments;
    let pool = Pool::open(path, setup::options_of(&kill.load, path)?)?;
    if *only_open {
        pool.abandon(); // an unclean shutdown: the next process must recover, too
        return Ok(Verdict::Held);
    }
    let name = workloads::name_in(&mut pool.worker()?)?;
    let name = name.ok_or_else(|| Failure::NoWorkload { path: path.clone() })?;
    let kind = Kind::by_name(name).expect("the pool's workload is known");
    let nothing = || Failure::NoWorkload { path: path.clone() };
    let (workload, run) = {
        let mut first = pool.worker()?;
        let mut first = Erased::any(&mut first);
        let workload = kind.open(&mut first).map_err(own)?.ok_or_else(nothing)?;
        let run = workloads::next_run(&mut first).map_err(own)?;
        (workload, run.ok_or_else(nothing)?)
    };
    // Every writer needs its own run number, which distinguishes the values of two runs.
    pool.flush()?;
    let (threads, options) = (kill.load.threads, kill.load.workload_options());
    let workers = (0..threads).map(|_| pool.worker()).collect::<Result<Vec<_>, _>>()?;
    let writers = workers.into_iter().enumerate().map(|(index, mut worker)| {
        let (workload, mut client) = (&workload, workload.client(index, run));
        workload.tune(&mut client, &options);
        Writer {
            next: Box::new(move || {
                workload.next(&mut client);
                transact(&mut worker, workload, &client)
            }),
            message: Message { worker: index as u64, run, committed: 0, acknowledged: 0 },
        }
    });
    write(writers.collect(), kill.load.durability.into())?;
    Ok(Verdict::Held)
}

/// Starts all workers, or none if a thread is refused. A worker ends only when stdout has no
/// reader: after a refusal the started workers would run on, and the error would never be printed.
fn write(writers: Vec<Writer<'_>>, durability: Durability) -> Result<(), Failure> {
    let (barrier, threads) = (StartBarrier::default(), writers.len());
    std::thread::scope(|scope| {
        let barrier = &barrier;
        let started = writers.into_iter().map(|writer| {
            start_barrier::spawn(scope, move || match (barrier.wait(), durability) {
                (false, _) => Ok(()),
                (true, Durability::Async) => writer.with_tickets(),
                (true, Durability::Sync) => writer.waiting(),
            })
        });
        let handles = started.collect::<Result<Vec<_>, _>>().inspect_err(|_| barrier.cancel())?;
        barrier.release(threads);
        handles.into_iter().try_for_each(|handle| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// One worker of the writer.
struct Writer<'p> {
    /// Runs the client's next transaction.
    next: Box<dyn FnMut() -> Result<Option<Ticket<'p>>, Error> + Send + 'p>,
    message: Message,
}

impl<'p> Writer<'p> {
    /// Async mode: sends a message every 64 transactions, and polls tickets at intervals.
    fn with_tickets(mut self) -> Result<(), Failure> {
        const TRANSACTIONS: u64 = 64;
        const LOOK: Duration = Duration::from_micros(300);
        const WAITING_MAX: usize = 256;
        let mut tickets: VecDeque<(u64, Ticket<'p>)> = VecDeque::with_capacity(WAITING_MAX);
        let mut looked = Instant::now();
        loop {
            let mut last = None;
            for _ in 0..TRANSACTIONS {
                last = self.transact()?.or(last);
            }
            // No ticket is outstanding if all transactions aborted themselves.
            last.into_iter().for_each(|last| tickets.push_back((self.message.committed, last)));
            if !self.send()? {
                return Ok(());
            }
            if tickets.len() >= WAITING_MAX {
                tickets[0].1.wait()?;
            } else if looked.elapsed() < LOOK {
                continue;
            }
            looked = Instant::now();
            while let Some(&(count, _)) = tickets.front().filter(|(_, ticket)| ticket.is_durable())
            {
                self.message.acknowledged = count;
                tickets.pop_front();
            }
        }
    }

    /// Sync mode: a transaction is durable when it returns; sends a message every 16.
    fn waiting(mut self) -> Result<(), Failure> {
        const TRANSACTIONS: u64 = 16;
        loop {
            for _ in 0..TRANSACTIONS {
                let _ = self.transact()?;
            }
            self.message.acknowledged = self.message.committed;
            if !self.send()? {
                return Ok(());
            }
        }
    }

    /// Runs the client's next transaction. A transaction that aborts itself counts as committed.
    fn transact(&mut self) -> Result<Option<Ticket<'p>>, Failure> {
        let ticket = (self.next)()?;
        self.message.committed += 1;
        Ok(ticket)
    }

    /// Sends the message in one write. Returns whether stdout has a reader.
    fn send(&self) -> Result<bool, Failure> {
        let stdout = io::stdout();
        let bytes = self.message.to_bytes();
        match rustix::io::retry_on_intr(|| rustix::io::write(stdout.as_fd(), &bytes)) {
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::PIPE) => Ok(false),
            Err(errno) => Err(Failure::io("writing a message")(errno.into())),
        }
    }
}
