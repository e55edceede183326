//! One kill round: a writer process runs a workload on a pool and is killed; then every transaction
//! that it acknowledged is looked up. Used by the demo, `crash kill` and `tests/kill.rs`.
//!
//! ```text
//!   writer   open, recover, draw a run | transactions ... message ... message ... KILL
//!   here                               |   <-- pipe --              then: open, recover, compare
//! ```
//!
//! A message is four little-endian 64-bit numbers: worker, run, transactions committed, and
//! transactions acknowledged. A pipe takes it whole, because it is shorter than PIPE_BUF. The
//! writer sends it only after the transactions that it acknowledges are durable.
//!
//! Worker and run determine a client, so this process can generate each worker's last transactions
//! again and look every one of them up. A transaction that only read or aborted itself leaves
//! nothing to look up: it counts as present if the next transaction that wrote is present.

use std::ffi::OsStr;
use std::io::{self, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lastword::{AnyError, Erased, ErasedTx, Pool, Transact};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use workloads::{AnyClient, AnyWorkload, Kind, Options, Violation};

/// Bytes of a message.
const MESSAGE_BYTES: usize = 32;

/// The signal that a process cannot catch.
const SIGKILL: i32 = 9;

/// Progress of one of the writer's workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) worker: u64,
    /// Number of the run, which seeds its clients.
    pub(crate) run: u64,
    /// Committed transactions of this run.
    pub(crate) committed: u64,
    /// Durable transactions of this run.
    pub(crate) acknowledged: u64,
}

impl Message {
    pub(crate) fn to_bytes(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        let numbers = [self.worker, self.run, self.committed, self.acknowledged];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; MESSAGE_BYTES]) -> Message {
        let (words, _) = bytes.as_chunks::<8>();
        let [worker, run, committed, acknowledged] =
            std::array::from_fn(|i| u64::from_le_bytes(words[i]));
        Message { worker, run, committed, acknowledged }
    }
}

/// Time of the kill: after this many messages (0: the writer may still be opening the pool), and
/// then after this delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    pub(crate) messages: usize,
    pub(crate) pause: Duration,
}

/// The last message of each worker that has sent one, unordered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) workers: Vec<Message>,
}

impl Seen {
    /// Records a message.
    pub(crate) fn take(&mut self, message: Message) {
        match self.workers.iter_mut().find(|known| known.worker == message.worker) {
            Some(known) => *known = message,
            None => self.workers.push(message),
        }
    }
}

/// The end of a writer.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Killed, after these messages.
    Killed(Seen),
    /// Exited before the kill, with an error that it has printed.
    ByItself(ExitStatus),
}

/// Starts a writer, kills it, and returns its last messages.
///
/// # Errors
/// The writer cannot be started or waited for.
pub(crate) fn kill(
    program: &Path,
    pool: &Path,
    arguments: &[impl AsRef<OsStr>],
    when: When,
) -> io::Result<Ended> {
    let mut command = Command::new(program);
    command.arg("kill-writer").arg(pool).args(arguments);
    // In a process group of its own, the writer gets no Ctrl-C: this process ends it.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = writers(|writers| {
        let child = command.spawn()?;
        writers.push(Pid::from_child(&child));
        Ok::<_, io::Error>(child)
    })?;
    let pipe = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (sender, messages) = channel();
    let reader = thread::Builder::new().name("reader".into()).spawn(move || {
        read(BufReader::new(pipe), |message| {
            // Messages are received until this thread ends.
            let _ = sender.send(message);
        })
    });
    let reader = match reader {
        Ok(reader) => reader,
        Err(refused) => {
            // Without a reader thread the writer would keep running with the pool open: kill it.
            kill_and_wait(&mut child)?;
            return Err(refused);
        }
    };
    let mut seen = Seen::default();
    wait(when, &messages, &mut seen);
    let status = kill_and_wait(&mut child)?;
    // Messages still in the pipe count: they were sent before the kill.
    messages.iter().for_each(|message| seen.take(message));
    reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    match status.signal() {
        Some(SIGKILL) => Ok(Ended::Killed(seen)),
        _ => Ok(Ended::ByItself(status)),
    }
}

fn kill_and_wait(child: &mut Child) -> io::Result<ExitStatus> {
    writers(|writers| {
        child.kill()?; // succeeds for a child that has exited and is not waited for
        let status = child.wait()?;
        writers.retain(|writer| *writer != Pid::from_child(child));
        Ok(status)
    })
}

/// Runs with the list of writers. A writer is started and waited for under its lock, so each number
/// in the list is that of a child, and no child is missing.
fn writers<R>(with: impl FnOnce(&mut Vec<Pid>) -> R) -> R {
    static WRITERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());
    with(&mut WRITERS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Kills the writers, waits until they have ended, and calls `end`, which ends the process. No
/// other writer starts meanwhile.
pub(crate) fn kill_writers_and(end: impl FnOnce()) {
    writers(|writers| {
        for writer in writers.drain(..) {
            // An error: the child has ended and was waited for.
            let _ = kill_process(writer, Signal::KILL);
            let _ = retry_on_intr(|| waitpid(Some(writer), WaitOptions::empty()));
        }
        end();
    });
}

/// Waits for the moment of the kill, or for the writer's end.
fn wait(when: When, messages: &Receiver<Message>, seen: &mut Seen) {
    messages.iter().take(when.messages).for_each(|message| seen.take(message));
    thread::sleep(when.pause);
}

/// Reads whole messages until the pipe ends.
fn read(mut pipe: impl Read, mut with: impl FnMut(Message)) -> io::Result<()> {
    while let Some(message) = read_one(&mut pipe)? {
        with(message);
    }
    Ok(())
}

/// Reads the next message; `None` at the pipe's end, which may cut a message short.
///
/// # Errors
/// The error of the read.
pub(crate) fn read_one(pipe: &mut impl Read) -> io::Result<Option<Message>> {
    let mut bytes = [0; MESSAGE_BYTES];
    match pipe.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(Message::from_bytes(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// State of the recovered pool, over all workers of the killed writer. Numbers are transactions of
/// its run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// A lower bound: the writer may commit more after its last message.
    pub(crate) committed: u64,
    pub(crate) acknowledged: u64,
    pub(crate) recovered: u64,
    /// Acknowledged and lost.
    pub(crate) lost_acknowledged: u64,
    /// Not acknowledged, and present.
    pub(crate) survived: u64,
    /// Committed, not acknowledged, and lost.
    pub(crate) lost: u64,
    /// Violations of the workload's own check.
    pub(crate) violations: Vec<Violation>,
}

/// A worker with this many consecutive transactions that leave no trace is assumed to write
/// nothing.
const NOTHING_MAX: u64 = 10_000;

/// Looks up a killed writer's transactions in the recovered pool. `options` are those of its
/// clients. Returns `None` if the pool does not hold the workload.
///
/// # Errors
/// The error of a transaction.
pub(crate) fn look(
    kind: Kind,
    pool: &Pool,
    options: &Options,
    seen: &Seen,
) -> Result<Option<Outcome>, AnyError> {
    let mut worker = pool.worker()?;
    let mut worker = Erased::any(&mut worker);
    let Some(workload) = kind.open(&mut worker)? else { return Ok(None) };
    let mut outcome = Outcome::default();
    for message in &seen.workers {
        let mut client = workload.client(message.worker as usize, message.run);
        workload.tune(&mut client, options);
        let Message { acknowledged, .. } = *message;
        let recovered = count_present(&mut worker, &workload, client, acknowledged)?;
        let committed = message.committed.max(recovered);
        outcome.committed += committed;
        outcome.acknowledged += acknowledged;
        outcome.recovered += recovered;
        outcome.lost_acknowledged += acknowledged.saturating_sub(recovered);
        outcome.survived += recovered.saturating_sub(acknowledged);
        outcome.lost += committed - recovered.max(acknowledged.min(committed));
    }
    outcome.violations = workload.check(&mut worker)?;
    Ok(Some(outcome))
}

/// Counts a worker's present transactions up to the first missing one.
fn count_present<T: Transact<Error = AnyError>>(
    worker: &mut T,
    workload: &AnyWorkload,
    first: AnyClient,
    acknowledged: u64,
) -> Result<u64, AnyError> {
    let leaves = |client: &AnyClient| !workload.reads_only(client) && !workload.gives_up(client);
    let (mut client, mut last) = (first.clone(), None);
    for number in 1..=acknowledged {
        workload.next(&mut client);
        if number + NOTHING_MAX > acknowledged && leaves(&client) {
            last = Some(client.clone());
        }
    }
    let mut count = acknowledged;
    if let Some(last) = last
        && !worker.transact(|tx| workload.is_present(&last, &mut ErasedTx::new(tx)))?
    {
        (client, count) = (first, 0); // a loss: count from the beginning to measure it
    }
    let mut number = count;
    while number - count < NOTHING_MAX {
        workload.next(&mut client);
        number += 1;
        if leaves(&client) {
            if !worker.transact(|tx| workload.is_present(&client, &mut ErasedTx::new(tx)))? {
                break;
            }
            count = number;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_round_trips_and_torn_message_is_ignored() {
        let message = Message { worker: 1, run: 2, committed: 3, acknowledged: u64::MAX };
        let mut bytes = message.to_bytes().to_vec();
        bytes.extend(&message.to_bytes()[..31]);
        let mut found = Vec::new();
        read(&bytes[..], |message| found.push(message)).unwrap();
        assert_eq!(found, [message]);
    }

    #[test]
    fn last_message_of_each_worker_counts() {
        let mut seen = Seen::default();
        for (worker, committed) in [(0, 1), (1, 5), (0, 2)] {
            seen.take(Message { worker, run: 1, committed, acknowledged: 0 });
        }
        let committed: Vec<u64> = seen.workers.iter().map(|message| message.committed).collect();
        assert_eq!(committed, [2, 5]);
    }
}
