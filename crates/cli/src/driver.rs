//! The timed loop: every worker runs its client's transactions, one after another.
//!
//! ```text
//!   workers ready | timed region                    | flush      |
//!                 A0                                A1           B
//!   transactions, aborts, seconds         A0 .. A1
//!   durable seconds, CPU, pool's metrics  A0 ........ B
//! ```
//!
//! Invariants:
//! - Between A0 and A1 a worker generates, runs and counts transactions. At intervals it takes a
//!   sample, records its progress, polls the clock's flag and copies its client.
//! - At B every counted transaction is durable.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use lastword::{Design, Metrics, Pool, Stop, Ticket, Worker};
use medium::cpu;
use words::Allocate;
use words::ErasedTx;
use workloads::{AnyClient, AnyWorkload};

use crate::latency::{Latencies, Sampler, Sampling};
use crate::machine::process_cpu_ns;
use crate::pace::{Pace, worst_100ms};
use crate::setup::Ready;
use crate::start_barrier::{self, StartBarrier};

/// Transactions between two copies of a client.
const CHECKPOINT: u64 = 4096;

/// Interval of the progress callback.
const WATCH: Duration = Duration::from_millis(250);

/// End condition of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    Seconds(f64),
    /// Total of all workers.
    Transactions(u64),
    /// As many transactions, or fewer after so many seconds.
    TransactionsWithin(u64, f64),
}

impl Limit {
    /// Returns the share of worker `index` of `threads`.
    fn quota(self, index: usize, threads: usize) -> u64 {
        match self {
            Limit::Seconds(_) => u64::MAX,
            Limit::Transactions(all) | Limit::TransactionsWithin(all, _) => {
                let (index, threads) = (index as u64, threads as u64);
                all / threads + u64::from(index < all % threads)
            }
        }
    }
}

/// Options of the timed loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) sampling: Sampling,
    /// Bound on one worker's outstanding transactions at the start of another; `None`: no bound.
    pub(crate) outstanding: Option<usize>,
    /// This many workers, from the first, only read.
    pub(crate) readers: usize,
}

impl Manner {
    /// Returns the options of the worker with this number.
    fn of(self, index: usize) -> Manner {
        match index < self.readers {
            true => Manner { sampling: self.sampling.of_readers(), ..self },
            false => self,
        }
    }
}

/// A worker's outstanding transactions, when their number is bounded.
struct Outstanding<'p, D: Design> {
    most: usize,
    tickets: VecDeque<Ticket<'p, D>>,
}

impl<'p, D: Design> Outstanding<'p, D> {
    fn new(most: Option<usize>) -> Outstanding<'p, D> {
        let most = most.unwrap_or(usize::MAX);
        Outstanding { most, tickets: VecDeque::new() }
    }

    /// Adds one; waits for the oldest if the bound is exceeded.
    #[inline]
    fn add(&mut self, ticket: Ticket<'p, D>) -> Result<(), lastword::Error> {
        if self.most == usize::MAX {
            return Ok(());
        }
        self.tickets.push_back(ticket);
        match self.tickets.len() > self.most {
            true => self.tickets.pop_front().map_or(Ok(()), |oldest| oldest.wait()),
            false => Ok(()),
        }
    }
}

/// Result of one measurement.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) transactions: u64,
    /// Attempts that were retried after a conflict.
    pub(crate) aborts: u64,
    /// Distinct words written by committed transactions.
    pub(crate) words_written: u64,
    pub(crate) seconds: f64,
    /// The fewest transactions in any 100 ms; `None` when not sampled, or for a shorter run.
    pub(crate) worst_100ms: Option<u64>,
    /// Until the last transaction was durable; equal to `seconds` for designs without a pool.
    pub(crate) durable_seconds: f64,
    pub(crate) cpu: CpuNs,
    /// Latencies of all workers except the readers.
    pub(crate) latencies: Latencies,
    /// Latencies of the readers, whose transactions are sampled more often.
    pub(crate) reading: Latencies,
    /// Difference of the pool's metrics over the measurement.
    pub(crate) metrics: Metrics,
}

/// CPU time of the timed region and the flush, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuNs {
    /// Worker threads, without their share of the background steps.
    pub(crate) workers: u64,
    /// All threads of the process.
    pub(crate) total: u64,
}

/// A worker's progress: its client after `count` transactions. `recent` holds the last two copies
/// of the client, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Position<C> {
    pub(crate) client: C,
    pub(crate) count: u64,
    pub(crate) recent: [(C, u64); 2],
}

impl<C: Clone> Position<C> {
    pub(crate) fn new(client: C) -> Position<C> {
        let start = (client.clone(), 0);
        Position { client, count: 0, recent: [start.clone(), start] }
    }

    /// Returns the same position for clients of another type.
    pub(crate) fn map<D>(&self, to: impl Fn(&C) -> D) -> Position<D> {
        let recent = self.recent.each_ref().map(|(client, count)| (to(client), *count));
        Position { client: to(&self.client), count: self.count, recent }
    }
}

/// A worker that is ready to run a task.
pub(crate) type TimedLoop<'p> = Box<dyn FnOnce(Task<'_>) -> Shared<AnyClient> + Send + 'p>;

/// A worker's result, or the error of a transaction.
pub(crate) type Shared<C> = Result<Share<C>, lastword::Error>;

/// The work of one worker.
pub(crate) struct Task<'a, B: Body = AnyWorkload> {
    pub(crate) workload: &'a B,
    pub(crate) position: Position<B::Client>,
    pub(crate) manner: Manner,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) quota: u64,
}

impl<'a, B: Body> Task<'a, B> {
    /// Returns the same task with this workload and position.
    pub(crate) fn with<O: Body>(
        self,
        workload: &'a O,
        position: Position<O::Client>,
    ) -> Task<'a, O> {
        let Task { manner, stop, quota, .. } = self;
        Task { workload, position, manner, stop, quota }
    }
}

/// The workload of a timed loop: type-erased, or [`crate::typed::Typed`].
pub(crate) trait Body {
    type Client: Clone;
    fn next(&self, client: &mut Self::Client);
    fn reads_only(&self, client: &Self::Client) -> bool;
    fn gives_up(&self, client: &Self::Client) -> bool;
    fn run<T: Allocate>(&self, client: &Self::Client, tx: &mut T) -> Result<(), Stop>;
}

impl Body for AnyWorkload {
    type Client = AnyClient;

    fn next(&self, client: &mut AnyClient) {
        self.next(client);
    }

    fn reads_only(&self, client: &AnyClient) -> bool {
        self.reads_only(client)
    }

    fn gives_up(&self, client: &AnyClient) -> bool {
        self.gives_up(client)
    }

    fn run<T: Allocate>(&self, client: &AnyClient, tx: &mut T) -> Result<(), Stop> {
        self.run(client, &mut ErasedTx::new(tx))
    }
}

/// The result of one worker.
pub(crate) struct Share<C> {
    pub(crate) position: Position<C>,
    sampler: Sampler,
    pace: Pace,
    aborts: u64,
    words_written: u64,
    cpu_ns: u64,
    start: Instant,
    end: Instant,
}

impl<C: Clone> Share<C> {
    /// Returns the same result with a client of another type.
    pub(crate) fn map<D>(self, to: impl Fn(&C) -> D) -> Share<D> {
        let position = self.position.map(to);
        let Share { sampler, pace, aborts, words_written, cpu_ns, start, end, .. } = self;
        Share { position, sampler, pace, aborts, words_written, cpu_ns, start, end }
    }
}

/// Runs the clients' transactions until the limit, and waits until all of them are durable. Updates
/// the positions, whose counts begin at 0, so that one pool can be measured repeatedly.
///
/// # Errors
/// The error of a transaction.
pub(crate) fn measure(
    ready: &Ready,
    positions: &mut Vec<Position<AnyClient>>,
    limit: Limit,
    manner: Manner,
) -> Result<Measured, lastword::Error> {
    measure_watched(ready, positions, limit, manner, &mut |_| ())
}

/// Measures like [`measure`], and calls `watch` a few times a second with the elapsed time. The
/// calling thread runs it while it waits for the workers: it delays no worker, but takes CPU time.
///
/// # Errors
/// The error of a transaction.
pub(crate) fn measure_watched(
    ready: &Ready,
    positions: &mut Vec<Position<AnyClient>>,
    limit: Limit,
    manner: Manner,
    watch: &mut dyn FnMut(Duration),
) -> Result<Measured, lastword::Error> {
    cpu::cycles_per_second(); // calibrated here, outside the timed region
    let Ready { design, pool, workload, .. } = ready;
    let threads = positions.len();
    let loops = (0..threads).map(|_| pool.timed_loop()).collect::<Result<Vec<_>, _>>()?;
    let (barrier, stop) = (StartBarrier::default(), AtomicBool::new(false));
    // Each worker drops its sender when it ends, also by a panic. Nothing is ever sent.
    let (running, ended) = channel::<()>();
    let before = (pool.metrics(), process_cpu_ns());
    let clients: Vec<_> = positions.drain(..).map(|at| Position::new(at.client)).collect();
    let shares = std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(threads);
        let mut missing = None;
        for (index, (timed_loop, position)) in loops.into_iter().zip(clients).enumerate() {
            let (barrier, stop, quota) = (&barrier, &stop, limit.quota(index, threads));
            let manner = manner.of(index);
            let task = Task { workload, position, manner, stop, quota };
            let running = running.clone();
            let worker = start_barrier::spawn(scope, move || {
                let _running = running;
                barrier.wait();
                let done = timed_loop(task);
                if done.is_err() {
                    stop.store(true, Ordering::Relaxed); // end the others, too
                }
                done
            });
            match worker {
                Ok(handle) => handles.push(handle),
                Err(error) => missing = Some(error),
            }
        }
        drop(running);
        match missing {
            None => {
                barrier.release(threads);
                wait_for_workers(limit, &ended, watch);
                stop.store(true, Ordering::Relaxed);
            }
            Some(_) => {
                stop.store(true, Ordering::Relaxed);
                barrier.cancel();
            }
        }
        let join = |handle: ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let shares = handles.into_iter().map(join).collect::<Vec<_>>();
        missing.map_or(Ok(shares), Err)
    })?;
    let shares = shares.into_iter().collect::<Result<Vec<_>, _>>()?;
    let helped_ns = pool.metrics().helped_cpu_ns - before.0.helped_cpu_ns;
    if design.is_durable {
        pool.flush()?;
    }
    let (flushed, cycles, cpu_ns) = (Instant::now(), cpu::cycles(), process_cpu_ns());
    let metrics = since(&pool.metrics(), &before.0);
    let total = cpu_ns - before.1;
    let flushed = (design.is_durable.then_some(flushed), cycles);
    let measured = add_up(shares, positions, flushed, manner.readers);
    let workers = measured.cpu.workers.saturating_sub(helped_ns);
    Ok(Measured { metrics, cpu: CpuNs { workers, total }, ..measured })
}

/// Runs the clients for this many seconds, then waits until everything is reproduced: a warm start.
///
/// # Errors
/// The error of a transaction.
pub(crate) fn warm_up(
    ready: &Ready,
    positions: &mut Vec<Position<AnyClient>>,
    seconds: Option<f64>,
) -> Result<(), lastword::Error> {
    let Some(seconds) = seconds else { return Ok(()) };
    let manner = Manner { sampling: Sampling::Off, outstanding: None, readers: 0 };
    measure(ready, positions, Limit::Seconds(seconds), manner)?;
    if ready.design.is_durable { ready.pool.checkpoint() } else { Ok(()) }
}

/// Waits for the time limit, or until all workers have ended.
fn wait_for_workers(limit: Limit, ended: &Receiver<()>, watch: &mut dyn FnMut(Duration)) {
    let start = Instant::now();
    let end = match limit {
        // A limit beyond the clock's range is no limit.
        Limit::Seconds(seconds) | Limit::TransactionsWithin(_, seconds) => {
            Duration::try_from_secs_f64(seconds).ok().and_then(|time| start.checked_add(time))
        }
        Limit::Transactions(_) => None,
    };
    loop {
        let left = end.map_or(WATCH, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() || ended.recv_timeout(left.min(WATCH)) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        watch(start.elapsed());
    }
}

/// Runs the timed loop of one worker.
pub(crate) fn run_client<D: Design, B: Body>(
    pool: &Pool<D>,
    worker: &mut Worker<'_, D>,
    task: Task<'_, B>,
) -> Shared<B::Client> {
    let Task { workload, mut position, manner, stop, quota } = task;
    let mut sampler = Sampler::new(manner.sampling, D::DURABLE, quota);
    let mut outstanding = Outstanding::new(manner.outstanding);
    let (start, cpu_ns) = (Instant::now(), cpu::thread_cpu_ns());
    let mut pace = Pace::start(cpu::cycles());
    let client = &mut position.client;
    let mut count = 0;
    let mut checkpoint = CHECKPOINT;
    // Relaxed: the flag publishes no other data.
    while count < quota && !stop.load(Ordering::Relaxed) {
        if sampler.is_due(count) {
            workload.next(client);
            let begun = cpu::cycles();
            let ticket = transact(worker, workload, client)?;
            let ended = cpu::cycles();
            // An aborted transaction never becomes durable: the next one is timed instead.
            match ticket {
                Some(ticket) => {
                    sampler.sampled(count, begun, ended, ticket.id());
                    outstanding.add(ticket)?;
                }
                None => sampler.skipped(count),
            }
            count += 1;
            pace.mark(ended, count);
        }
        let run = sampler.stride(count).min(quota - count);
        for _ in 0..run {
            workload.next(client);
            if let Some(ticket) = transact(worker, workload, client)? {
                outstanding.add(ticket)?;
            }
        }
        count += run;
        sampler.look(count, || pool.durable_id());
        if sampler.is_slow(count) {
            pace.mark(cpu::cycles(), count);
        }
        if count >= checkpoint {
            checkpoint = count + CHECKPOINT;
            position.recent.swap(0, 1);
            position.recent[1] = (client.clone(), count);
        }
    }
    position.count = count;
    Ok(Share {
        position,
        sampler,
        pace: pace.end(cpu::cycles(), count),
        aborts: worker.conflicts(),
        words_written: worker.words_written(),
        cpu_ns: cpu::thread_cpu_ns() - cpu_ns,
        start,
        end: Instant::now(),
    })
}

/// Runs the client's current transaction. Returns `None` if it aborted itself as intended. A design
/// without rollback skips such a transaction.
#[inline]
pub(crate) fn transact<'p, D: Design, B: Body>(
    worker: &mut Worker<'p, D>,
    workload: &B,
    client: &B::Client,
) -> Result<Option<Ticket<'p, D>>, lastword::Error> {
    if !D::ROLLS_BACK && workload.gives_up(client) {
        return Ok(None);
    }
    let done = if workload.reads_only(client) {
        worker.read(|tx| workload.run(client, tx))
    } else {
        worker.run(|tx| workload.run(client, tx))
    };
    match done {
        Ok(done) => Ok(Some(done.ticket)),
        Err(lastword::Error::Stopped { stop: Stop::Aborted }) if workload.gives_up(client) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Adds the workers' results up and stores their positions.
fn add_up<C>(
    shares: Vec<Share<C>>,
    positions: &mut Vec<Position<C>>,
    (flushed, flushed_cycles): (Option<Instant>, u64),
    readers: usize,
) -> Measured {
    let start = shares.iter().map(|share| share.start).min();
    let end = shares.iter().map(|share| share.end).max();
    let until = |end: Option<Instant>| match (start, end) {
        (Some(start), Some(end)) => end.duration_since(start).as_secs_f64(),
        _ => 0.0,
    };
    let mut measured = Measured {
        transactions: 0,
        aborts: 0,
        words_written: 0,
        seconds: until(end),
        worst_100ms: None,
        durable_seconds: until(flushed.or(end)),
        cpu: CpuNs { workers: 0, total: 0 },
        latencies: Latencies::new(),
        reading: Latencies::new(),
        metrics: Metrics::default(),
    };
    let mut paces = Vec::with_capacity(shares.len());
    for (index, share) in shares.into_iter().enumerate() {
        measured.transactions += share.position.count;
        measured.aborts += share.aborts;
        measured.words_written += share.words_written;
        measured.cpu.workers += share.cpu_ns;
        let latencies = share.sampler.finish(flushed_cycles);
        match index < readers {
            true => measured.reading.add(&latencies),
            false => measured.latencies.add(&latencies),
        }
        positions.push(share.position);
        paces.push(share.pace);
    }
    measured.worst_100ms = worst_100ms(&paces);
    measured
}

/// Returns the difference of two samples of a pool's metrics; of a state, the later sample's.
pub(crate) fn since(now: &Metrics, before: &Metrics) -> Metrics {
    let mut spent = *now;
    spent.persist_cpu_ns = now.persist_cpu_ns.saturating_sub(before.persist_cpu_ns);
    spent.reproduce_cpu_ns = now.reproduce_cpu_ns.saturating_sub(before.reproduce_cpu_ns);
    spent.helped_cpu_ns -= before.helped_cpu_ns;
    spent.emulated_delay_ns -= before.emulated_delay_ns;
    spent.log_payload_bytes -= before.log_payload_bytes;
    spent.log_combined_bytes -= before.log_combined_bytes;
    spent.log_combined_words -= before.log_combined_words;
    spent.log_stored_bytes -= before.log_stored_bytes;
    spent.log_bytes -= before.log_bytes;
    spent.padding_bytes -= before.padding_bytes;
    spent.log_wraps -= before.log_wraps;
    spent.heap_image_bytes -= before.heap_image_bytes;
    spent.device_writes -= before.device_writes;
    spent.persist_barriers -= before.persist_barriers;
    spent.ring_full_waits -= before.ring_full_waits;
    spent.room_wait_ns -= before.room_wait_ns;
    spent.grace_periods -= before.grace_periods;
    spent.grace_cycles -= before.grace_cycles;
    spent.page_ins -= before.page_ins;
    spent.evictions -= before.evictions;
    spent.page_waits -= before.page_waits;
    spent
}
