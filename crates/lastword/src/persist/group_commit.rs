//! Group commit: cuts the order of transactions into groups, and decides when a group is sent.
//!
//! A group shares one barrier. A group that is sent early is durable sooner; a group that is sent
//! late shares its barrier with more transactions. Combining drops overwritten values, so that hot
//! words are logged once a group; compression saves log bandwidth for processor time.
//!
//! | | |
//! |---|---|
//! | closes a combined group | number of transactions, size, age, a thread that waits for it |
//! | closes another group | sending it: it has everything published by then, up to a size |
//! | holds a closed group back | groups in flight, a full log, too much queued memory |
//!
//! (DudeTM, section 3.3.)

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lw_log::{Combiner, Group, Lz4, Packed};
use medium::Buffer;
use medium::mutants::{Mutant, injected};
use medium::writes::{Piece, Pieces, run};
use words::TxId;

use super::{Persist, Sending, Waiting};
use crate::Error;
use crate::sync::{Mutex, Ordering, lock, try_lock};

/// Bytes at which a group is closed in any case: 256 KiB. At this size the device takes hardly more
/// time per byte than at 1 MiB (docs/operating/performance.md), and the group is still in the L2
/// cache when it is reproduced.
const GROUP_BYTES: usize = 256 << 10;

/// Group size and batch size of an unpaused thread that also reproduces. Commits wait while it
/// reproduces a batch, so batches are small. After a large batch, the commits that have waited
/// would form a large group again.
pub(crate) const UNPAUSED_BYTES: usize = 4 << 10;

/// How a pool forms groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grouping {
    /// Transactions in a combined group; 0: groups are not combined.
    pub(crate) transactions: u64,
    /// Longest time that a combined group waits for more transactions; `Duration::MAX`: no limit.
    pub(crate) time: Duration,
    /// Whether groups are compressed.
    pub(crate) compress: bool,
    /// Threads that pack groups at the same time.
    pub(crate) threads: usize,
    /// The background thread does not pause, and reproduces as well.
    pub(crate) unpaused: bool,
}

impl Grouping {
    /// No combining and no compression.
    #[cfg(test)]
    pub(crate) const NONE: Grouping = Grouping {
        transactions: 0,
        time: Duration::ZERO,
        compress: false,
        threads: 1,
        unpaused: false,
    };

    pub(crate) fn combines(&self) -> bool {
        self.transactions > 0
    }

    /// Returns the words at which an uncombined group is closed. Queued neighbours share memory up
    /// to the same size.
    pub(crate) fn words(&self) -> usize {
        (if self.unpaused { UNPAUSED_BYTES } else { GROUP_BYTES }) / 8
    }
}

/// The time since which a group waits for more transactions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opened(Option<Instant>);

impl Opened {
    /// Starts a group's time. Reads no clock where groups have no time limit.
    pub(crate) fn begin(&mut self, grouping: &Grouping) {
        self.0 = (grouping.time < Duration::MAX).then(Instant::now);
    }

    /// Whether its time is over.
    pub(crate) fn is_over(self, grouping: &Grouping) -> bool {
        self.rest(grouping) == Some(Duration::ZERO)
    }

    /// Time left; `None`: no limit.
    pub(crate) fn rest(self, grouping: &Grouping) -> Option<Duration> {
        self.0.map(|opened| grouping.time.saturating_sub(opened.elapsed()))
    }
}

/// Most words of records gathered for one combined group: 16 MiB, as much as a ring holds. Combined
/// they take five times as much at most, when each word is in another line.
pub(crate) const GATHERED_WORDS: usize = (16 << 20) / 8;

/// The packing state of one thread, reused for every group.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    combiner: Combiner,
    /// Words of the groups that it has combined; [`Packers`] collects and resets them.
    combined_words: u64,
    lz4: Option<Box<Lz4>>,
    /// Output memory of a compression that did not shrink its group.
    unused: Option<Buffer>,
    /// Memory of gathered records, for the next group.
    spare: Option<Buffer>,
}

/// The limits that the medium sets for packing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    pub(crate) block_words: usize,
    /// Most words of a group's payload: half the log, less its header.
    pub(crate) payload_words_max: usize,
}

/// The packers that no thread uses at the moment.
#[derive(Debug, Default)]
pub(crate) struct Packers {
    idle: Vec<Packer>,
    /// Words of combined groups, so far.
    pub(crate) combined_words: u64,
}

impl Packers {
    /// Takes a packer for the calling thread.
    pub(crate) fn take(&mut self) -> Packer {
        self.idle.pop().unwrap_or_default()
    }

    /// Takes a packer back and collects its counts.
    pub(crate) fn put_back(&mut self, mut packer: Packer) {
        self.combined_words += std::mem::take(&mut packer.combined_words);
        self.idle.push(packer);
    }
}

impl Packer {
    /// Returns memory to gather transactions in before they are combined.
    pub(crate) fn memory(&mut self) -> Buffer {
        self.spare.take().unwrap_or_else(|| Buffer::new(0))
    }

    /// Packs gathered records into one group, or into several where a combined group would exceed
    /// half the log. Groups stay in ID order. `memory` returns memory for a group.
    pub(crate) fn pack(
        &mut self,
        gathered: Group,
        grouping: &Grouping,
        fit: Fit,
        memory: impl Fn() -> Buffer,
        out: &mut VecDeque<Packed>,
    ) {
        if !grouping.combines() {
            out.push_back(self.pack_one(gathered, grouping, fit, &memory));
            return;
        }
        let mut first = gathered.first();
        let mut last = TxId(first.0 - 1);
        for (id, runs) in gathered.transactions() {
            // An upper bound of this transaction's words. Alone it always fits: see
            // `Limit::words_max`.
            let fits = self.combiner.words_max() + most_words(runs) <= fit.payload_words_max;
            if id > first && !fits {
                self.close(first, last, grouping, fit, &memory, out);
                first = id;
            }
            self.combiner.add(runs);
            last = id;
        }
        self.close(first, last, grouping, fit, &memory, out);
        self.spare = Some(gathered.into_memory());
    }

    /// Finishes a combined group.
    fn close(
        &mut self,
        first: TxId,
        last: TxId,
        grouping: &Grouping,
        fit: Fit,
        memory: &impl Fn() -> Buffer,
        out: &mut VecDeque<Packed>,
    ) {
        self.combined_words += self.combiner.words_max() as u64 / 2;
        let group = self.combiner.finish(first, last, memory());
        if injected(Mutant::GroupInPieces) && first < last {
            for (part, first, last) in [(0, first, TxId(last.0 - 1)), (1, last, last)] {
                half(&group, part).for_each(|word| self.combiner.add(&word));
                let piece = self.combiner.finish(first, last, memory());
                out.push_back(self.pack_one(piece, grouping, fit, memory));
            }
            return;
        }
        out.push_back(self.pack_one(group, grouping, fit, memory));
    }

    /// Compresses one group, if configured, and pads it to the medium's block. It gets its header
    /// when it is [placed](lw_log::CircularLog::place).
    fn pack_one(
        &mut self,
        group: Group,
        grouping: &Grouping,
        fit: Fit,
        memory: &impl Fn() -> Buffer,
    ) -> Packed {
        if !grouping.compress {
            return Packed::plain(group, fit.block_words);
        }
        let lz4 = self.lz4.get_or_insert_default();
        let memory = self.unused.take().unwrap_or_else(memory);
        let (packed, unused) = Packed::compressed(group, fit.block_words, lz4, memory);
        self.unused = unused;
        packed
    }
}

/// Most words of these runs: each word in a run of its own.
fn most_words(runs: &[u64]) -> usize {
    let pieces = Pieces::new(runs);
    pieces.map(|piece| if let Piece::Run(_, words) = piece { 2 * words.len() } else { 0 }).sum()
}

/// The wraps of a log until it last grew.
#[derive(Debug, Default)]
pub(super) struct Wraps(Mutex<(f64, u64)>);

impl Wraps {
    /// Notes a growth of the log, which had `bytes` bytes, at this head.
    fn has_size(&self, head: u64, bytes: u64) {
        let wraps = self.at(head, bytes);
        *lock(&self.0) = (wraps, head);
    }

    /// Returns the wraps of a log of `bytes` bytes with this head.
    fn at(&self, head: u64, bytes: u64) -> f64 {
        let (before, since) = *lock(&self.0);
        before + head.saturating_sub(since) as f64 / bytes as f64
    }
}

/// Returns every other word of a combined group, as runs. For a mutant.
fn half(group: &Group, part: u64) -> impl Iterator<Item = [u64; 2]> + '_ {
    let words = Pieces::new(group.payload()).flat_map(|piece| match piece {
        Piece::Run(index, words) => (index..).zip(words.iter().copied()).collect::<Vec<_>>(),
        Piece::Mark(_) => Vec::new(),
    });
    words.filter(move |word| word.0 % 2 == part).map(|(index, word)| [run(index, 1), word])
}

/// Transactions in flight up to which another small group is sent beside them. Two threads that
/// wait for each commit do not hold each other up. With more, later ones share a write, because a
/// separate write costs more processor time than it saves. Measured with `lastword run tatp-hash
/// --durability sync` (disk at 0.14 ms), 2, 16 and 64 threads: 7.8, 52 and 153 k/s with one group
/// at a time, 8.7, 49 and 148 with 2, 9.0, 45 and 139 with 8.
const EAGER_TRANSACTIONS: u64 = 2;

impl Persist {
    /// The last transaction that the pending group may take.
    pub(super) fn last_of(&self, pending: &Group, merged: u64) -> u64 {
        let first = if pending.is_empty() { merged + 1 } else { pending.first().0 };
        match self.grouping.transactions {
            0 => u64::MAX,
            most => (first - 1).saturating_add(most),
        }
    }

    /// Whether the pending group is full, and whether it is due to be sent.
    pub(super) fn is_due(&self, sending: &Sending) -> (bool, bool) {
        let Sending { pending, closed, opened, .. } = sending;
        if !self.grouping.combines() {
            // A group that is three quarters full is closed too: hardly another record would fit.
            return (*closed || pending.words() > self.gathered_words / 4 * 3, true);
        }
        let last = self.last_of(pending, pending.last().0);
        let large = pending.words() >= self.gathered_words;
        let full = *closed || large || pending.last().0 >= last;
        // Acquire: pairs with `expedite`.
        let awaited = pending.first().0 <= self.requested.load(Ordering::Acquire);
        let full = full || opened.is_over(&self.grouping);
        (full, full || awaited)
    }

    /// Returns the pending group if it waits for more transactions and no other work is left.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        if !self.grouping.combines() {
            return None;
        }
        // The thread that holds the lock has work to do, so the group does not wait.
        let sending = try_lock(&self.sending)?;
        let idle = sending.packing.is_empty() && self.in_flight.is_empty();
        let waits = idle && !sending.pending.is_empty() && !self.is_due(&sending).1;
        let rest = sending.opened.rest(&self.grouping);
        let waiting = waits.then(|| Waiting { last: sending.pending.last().0, rest });
        drop(sending);
        // A thread that requested a flush after the check may have found the lock taken. It sleeps
        // until the epoch moves, so move it.
        self.progress.step_is_over();
        waiting
    }

    /// Whether the medium accepts the pending group, and the group is worth a write of its own.
    pub(super) fn may_send(&self, sending: &Sending, full: bool) -> bool {
        if self.is_memory() {
            return true;
        }
        let (count, oldest) = self.in_flight.oldest();
        let Sending { pending, packing, .. } = sending;
        let Some(oldest) = oldest.or(packing.first()) else { return true };
        let few = pending.last().0 + 1 - oldest <= EAGER_TRANSACTIONS;
        (full || few) && count + packing.len() < self.medium.depth()
    }

    /// Whether queued writes fit in memory with a group whose writes are those from `plain` to
    /// `plain_end`. The limit is the log's size: a compressed log holds far more writes than memory
    /// could. A group is half the log at most, so it never waits forever. A required stream has a
    /// limit of its own.
    pub(super) fn has_memory(&self, plain: u64, plain_end: u64) -> bool {
        let bounded = self.grouping.compress;
        let fits = !bounded || plain_end <= self.queue.plain_tail() + self.medium.bytes();
        fits && self.queue.may_lag(plain, plain_end)
    }

    /// Limits the workers to records for so many bytes of log a second, or lifts the limit.
    pub(crate) fn limit_log(&self, bytes_per_second: Option<f64>) {
        // Workers pay for their records. Padding makes more log of them, compression less.
        let [records, ..] = self.meter.log_bytes();
        let [log, ..] = self.meter.log();
        let share = records.max(1) as f64 / log.max(1) as f64;
        self.limit.set(bytes_per_second.map(|rate| rate * share));
    }

    /// Returns the size of the log.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.medium.bytes()
    }

    /// Returns up to how many bytes the log can grow.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        self.medium.bytes_max()
    }

    /// Makes the log's file long enough for a log of `bytes` bytes. Durable on return.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn reserve_log(&self, bytes: u64) -> Result<(), Error> {
        Ok(self.medium.reserve(bytes)?)
    }

    /// Begins to double the log, if the sequences in use permit it; see
    /// [`CircularLog::begin_growth`](lw_log::CircularLog::begin_growth).
    pub(crate) fn bound_log(&self) -> bool {
        lock(&self.sending).log.begin_growth(&self.queue.tail)
    }

    /// Lets groups use a log of `bytes` bytes, which is recorded durably.
    pub(crate) fn extend_log(&self, bytes: u64) {
        let mut sending = lock(&self.sending);
        self.wraps.has_size(sending.log.head(), self.medium.bytes());
        // Under the lock: no group gets a place by one size and a bound by the other.
        self.medium.extend(bytes);
        sending.log.end_growth();
        drop(sending);
        // A thread may sleep because the bound left no room.
        self.progress.step_is_over();
    }

    /// Returns the size of the log, the bytes of it in use, and its medium's counts. Takes no lock
    /// of a step.
    pub(crate) fn log_use(&self) -> (u64, u64, medium::Counts) {
        // The tail first: it never exceeds the head, which grows meanwhile.
        let tail = self.queue.tail.load(Ordering::Relaxed);
        let [head, ..] = self.meter.log();
        (self.medium.bytes(), head.saturating_sub(tail), self.medium.counts())
    }

    /// Returns how often groups have used the whole log, as a fraction.
    pub(crate) fn log_wraps(&self) -> f64 {
        let [head, ..] = self.meter.log();
        self.wraps.at(head, self.medium.bytes())
    }

    /// Bytes of log that wait for reproduction, or the bytes they decode to if those are more.
    pub(crate) fn queued_bytes(&self) -> u64 {
        let stored = self.queue.bytes();
        // Uncompressed groups take less memory than log, so their log bytes decide.
        let plain = if self.grouping.compress { self.queue.plain_bytes() } else { 0 };
        stored.max(plain)
    }
}
