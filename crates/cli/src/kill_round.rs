//! One round of killing: a writer process runs a workload on a pool, is killed, and what it had
//! acknowledged is looked for. Shared by the demo, `crash kill` and the test in `tests/kill.rs`.
//!
//! ```text
//!   writer   open, recover, draw a run | transactions ... message ... message ... KILL
//!   here                               |   <-- pipe --              then: open, recover, compare
//! ```
//!
//! A message is four 64-bit numbers, little-endian: worker, run, transactions committed, and
//! acknowledged. It is written whole (a pipe takes so little at once) and only after the
//! transactions that it acknowledges are durable.
//!
//! Clients follow from worker and run, so that the last transactions of each worker can be drawn
//! again here, and every one of them says whether it is there. Those that only read or gave
//! themselves up leave nothing to be looked for: they are there when the next one is that wrote.

use std::ffi::OsStr;
use std::io::{self, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use lastword::{AnyError, Erased, ErasedTx, Pool, Transact};
use workloads::{AnyClient, AnyWorkload, Kind, Options, Violation};

/// Bytes of a message.
const MESSAGE_BYTES: usize = 32;

/// The signal that cannot be caught.
const SIGKILL: i32 = 9;

/// What a writer says about one of its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) worker: u64,
    /// The run's number: the seed of its clients.
    pub(crate) run: u64,
    /// Transactions of this run that are committed.
    pub(crate) committed: u64,
    /// Those of them that are durable.
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

/// When the writer is killed: after so many messages (0: it may still be opening the pool), and
/// then so much later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When {
    pub(crate) messages: usize,
    pub(crate) pause: Duration,
}

/// The last message of each worker that has sent one, in no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) workers: Vec<Message>,
}

impl Seen {
    /// Counts a message in.
    pub(crate) fn take(&mut self, message: Message) {
        match self.workers.iter_mut().find(|known| known.worker == message.worker) {
            Some(known) => *known = message,
            None => self.workers.push(message),
        }
    }
}

/// How a writer ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Killed, having said this.
    Killed(Seen),
    /// By itself, before: it met an error, which it has printed.
    ByItself(ExitStatus),
}

/// Starts a writer, kills it, and answers what it had said.
///
/// # Errors
/// When it cannot be started or waited for.
pub(crate) fn kill(
    program: &Path,
    pool: &Path,
    arguments: &[impl AsRef<OsStr>],
    when: When,
) -> io::Result<Ended> {
    let mut child = Command::new(program)
        .arg("kill-writer")
        .arg(pool)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let pipe = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (sender, messages) = channel();
    let reader = thread::Builder::new().name("reader".into()).spawn(move || {
        read(BufReader::new(pipe), |message| {
            // Received until this thread ends.
            let _ = sender.send(message);
        })
    });
    let reader = match reader {
        Ok(reader) => reader,
        Err(refused) => {
            // Without a reader the writer would be an orphan that has the pool open.
            kill_and_wait(&mut child)?;
            return Err(refused);
        }
    };
    let mut seen = Seen::default();
    wait(when, &messages, &mut seen);
    let status = kill_and_wait(&mut child)?;
    // What was in the pipe counts: it was written before the end.
    messages.iter().for_each(|message| seen.take(message));
    reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    match status.signal() {
        Some(SIGKILL) => Ok(Ended::Killed(seen)),
        _ => Ok(Ended::ByItself(status)),
    }
}

fn kill_and_wait(child: &mut Child) -> io::Result<ExitStatus> {
    child.kill()?; // no error when it has ended by itself
    child.wait()
}

/// Returns at the right moment, or when the writer has ended.
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

/// Reads the next message; `None` at the pipe's end, which may be inside one.
///
/// # Errors
/// The pipe's.
pub(crate) fn read_one(pipe: &mut impl Read) -> io::Result<Option<Message>> {
    let mut bytes = [0; MESSAGE_BYTES];
    match pipe.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(Message::from_bytes(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a look at the recovered pool says, over all workers of the killed writer. Numbers are
/// transactions of its run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// At least: the writer may have committed more after its last message.
    pub(crate) committed: u64,
    pub(crate) acknowledged: u64,
    pub(crate) recovered: u64,
    /// Acknowledged and not there.
    pub(crate) lost_acknowledged: u64,
    /// Not acknowledged, and there.
    pub(crate) survived: u64,
    /// Committed, not acknowledged, and not there.
    pub(crate) lost: u64,
    /// What the workload's own check says.
    pub(crate) violations: Vec<Violation>,
}

/// Most transactions in a row that leave nothing, and then it is believed that none will.
const NOTHING_MAX: u64 = 10_000;

/// Looks what is there of what a killed writer said, whose clients were tuned by these options.
/// `None`: the pool does not hold the workload.
///
/// # Errors
/// What a transaction ended with.
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

/// How many of a worker's transactions are there, the first missing one ending the count.
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
        (client, count) = (first, 0); // lost: from the beginning, to see how much
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
    fn a_message_comes_back_as_it_was_and_a_torn_one_does_not_count() {
        let message = Message { worker: 1, run: 2, committed: 3, acknowledged: u64::MAX };
        let mut bytes = message.to_bytes().to_vec();
        bytes.extend(&message.to_bytes()[..31]);
        let mut found = Vec::new();
        read(&bytes[..], |message| found.push(message)).unwrap();
        assert_eq!(found, [message]);
    }

    #[test]
    fn the_last_message_of_each_worker_counts() {
        let mut seen = Seen::default();
        for (worker, committed) in [(0, 1), (1, 5), (0, 2)] {
            seen.take(Message { worker, run: 1, committed, acknowledged: 0 });
        }
        let committed: Vec<u64> = seen.workers.iter().map(|message| message.committed).collect();
        assert_eq!(committed, [2, 5]);
    }
}
