//! The process that is killed: runs a pool's workload and says on stdout what is durable.
//!
//! Invariant: a transaction is acknowledged only after its commit returned (sync mode) or its
//! ticket said that it is durable (async mode). See `kill_round` for the messages.
//!
//! Acknowledgements are sent less often than the count of committed transactions. So a kill finds,
//! as a rule, some that are durable and not acknowledged, and in async mode also some that are
//! committed and lost: both must be recovered from.

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
use crate::gate::{self, Gate};
use crate::kill_round::Message;
use crate::setup;

/// Runs until somebody kills it, or nobody reads.
///
/// # Errors
/// A pool that cannot be opened, or holds no workload; a transaction that failed.
pub(crate) fn run(arguments: &KillWriter) -> Result<Verdict, Failure> {
    let KillWriter { path, only_open, kill } = arguments;
    let pool = Pool::open(path, setup::options_of(&kill.load, path)?)?;
    if *only_open {
        pool.abandon(); // so that whoever comes next has to recover, too
        return Ok(Verdict::Held);
    }
    let name = workloads::name_in(&mut pool.worker()?)?;
    let name = name.ok_or_else(|| Failure::NoWorkload { path: path.clone() })?;
    let kind = Kind::by_name(name).expect("it is one of the names");
    let nothing = || Failure::NoWorkload { path: path.clone() };
    let (workload, run) = {
        let mut first = pool.worker()?;
        let mut first = Erased::any(&mut first);
        let workload = kind.open(&mut first).map_err(own)?.ok_or_else(nothing)?;
        let run = workloads::next_run(&mut first).map_err(own)?;
        (workload, run.ok_or_else(nothing)?)
    };
    // The next writer must draw another number: values of two runs are told apart by it.
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

/// All workers at once, or none where a thread is refused: a worker ends when nobody reads, so the
/// workers that were started would run on, and the error would be printed by no one.
fn write(writers: Vec<Writer<'_>>, durability: Durability) -> Result<(), Failure> {
    let (gate, threads) = (Gate::default(), writers.len());
    std::thread::scope(|scope| {
        let gate = &gate;
        let started = writers.into_iter().map(|writer| {
            gate::spawn(scope, move || match (gate.pass(), durability) {
                (false, _) => Ok(()),
                (true, Durability::Async) => writer.with_tickets(),
                (true, Durability::Sync) => writer.waiting(),
            })
        });
        let handles = started.collect::<Result<Vec<_>, _>>().inspect_err(|_| gate.call_off())?;
        gate.open(threads);
        handles.into_iter().try_for_each(|handle| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// One worker of the writer.
struct Writer<'p> {
    /// Runs its client's next transaction.
    next: Box<dyn FnMut() -> Result<Option<Ticket<'p>>, Error> + Send + 'p>,
    message: Message,
}

impl<'p> Writer<'p> {
    /// Async mode: 64 transactions a message; tickets are looked at now and then.
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
            // Without one all gave themselves up, and wait for nothing.
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

    /// Sync mode: every transaction is durable when it returns; told every 16.
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

    /// The client's next transaction; what gives itself up counts as committed.
    fn transact(&mut self) -> Result<Option<Ticket<'p>>, Failure> {
        let ticket = (self.next)()?;
        self.message.committed += 1;
        Ok(ticket)
    }

    /// Sends the message, in one piece. Answers whether somebody reads.
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
