//! The process that is killed: runs bank on a pool and says on stdout what is durable.
//!
//! Invariant: a transfer is acknowledged only after its commit returned (sync mode) or its ticket
//! said that it is durable (async mode). See `kill_round` for the messages.
//!
//! Acknowledgements are sent less often than the count of committed transfers. So a kill finds, as
//! a rule, some transfers that are durable and not acknowledged, and in async mode also some that
//! are committed and lost: both must be recovered from.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use lastword::{Durability, Options, Pool, Ticket, Worker};
use workloads::{Bank, BankClient, Workload};

use crate::args::KillWriter;
use crate::failure::{Failure, Verdict};
use crate::kill_round::Message;

/// Runs until somebody kills it, or nobody reads.
///
/// # Errors
/// A pool that cannot be opened, or holds no bank; a transaction that failed.
pub(crate) fn run(arguments: &KillWriter) -> Result<Verdict, Failure> {
    let KillWriter { path, threads, durability, only_open } = arguments;
    let durability = Durability::from(*durability);
    let info = lastword::inspect(path)?;
    let options = Options::new().durability(durability).layout(&info.layout.0, info.layout.1);
    let pool = Pool::open(path, options)?;
    if *only_open {
        pool.abandon(); // so that whoever comes next has to recover, too
        return Ok(Verdict::Held);
    }
    let no_bank = || Failure::NoBank { path: path.clone() };
    let mut first = pool.worker()?;
    let bank = Bank::open(&mut first)?.ok_or_else(no_bank)?;
    let run = workloads::next_run(&mut first)?.ok_or_else(no_bank)?;
    drop(first);
    // The next writer must draw another number: values of two runs are told apart by it.
    pool.flush()?;
    let workers = (0..*threads).map(|_| pool.worker()).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (index, worker) in workers.into_iter().enumerate() {
            let client = bank.client(index, run);
            let message = Message { worker: index as u64, run, committed: 0, acknowledged: 0 };
            let writer = Writer { bank, worker, client, message };
            handles.push(scope.spawn(move || match durability {
                Durability::Async => writer.with_tickets(),
                Durability::Sync => writer.waiting(),
            }));
        }
        handles.into_iter().try_for_each(|handle| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    Ok(Verdict::Held)
}

/// One worker of the writer.
struct Writer<'p> {
    bank: Bank,
    worker: Worker<'p>,
    client: BankClient,
    message: Message,
}

impl<'p> Writer<'p> {
    /// Async mode: 64 transfers a message; tickets are looked at every 64 messages, some hundred
    /// microseconds apart.
    fn with_tickets(mut self) -> Result<(), Failure> {
        const TRANSFERS: u64 = 64;
        const MESSAGES: usize = 64;
        let mut tickets: VecDeque<(u64, Ticket<'p>)> = VecDeque::with_capacity(4 * MESSAGES);
        loop {
            for _ in 0..MESSAGES {
                let mut ticket = self.transfer()?;
                for _ in 1..TRANSFERS {
                    ticket = self.transfer()?;
                }
                tickets.push_back((self.message.committed, ticket));
                if !self.send()? {
                    return Ok(());
                }
            }
            if tickets.len() >= 4 * MESSAGES {
                tickets[0].1.wait()?;
            }
            while let Some(&(count, _)) = tickets.front().filter(|(_, ticket)| ticket.is_durable())
            {
                self.message.acknowledged = count;
                tickets.pop_front();
            }
        }
    }

    /// Sync mode: every transfer is durable when it returns; told every 16.
    fn waiting(mut self) -> Result<(), Failure> {
        const TRANSFERS: u64 = 16;
        loop {
            for _ in 0..TRANSFERS {
                let _ = self.transfer()?;
            }
            self.message.acknowledged = self.message.committed;
            if !self.send()? {
                return Ok(());
            }
        }
    }

    fn transfer(&mut self) -> Result<Ticket<'p>, Failure> {
        let (bank, client) = (self.bank, &mut self.client);
        bank.next(client);
        let done = self.worker.run(|tx| bank.run(client, tx))?;
        self.message.committed += 1;
        Ok(done.ticket)
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
