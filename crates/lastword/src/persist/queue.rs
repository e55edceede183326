//! The queue of groups that are durable in the log and not yet reproduced, and their memory.
//!
//! The reproduce step reads this queue and never the log medium, so reproduction costs no reads.
//!
//! Invariants:
//! - Groups enter in ID order, after they are durable.
//! - `tail <= taken <= end`: between tail and end lie the groups that are not yet reproduced, and
//!   those after `taken` are in the queue. `plain_tail <= plain_end` count decoded bytes likewise.
//! - While a [stream](super::replicated) is required, a group is taken off only after the stream
//!   has it: `taken <= open`, and `open` never goes back. Groups that a feed has copied do not
//!   grow, so a group is in the stream as a whole or not at all.

use std::collections::VecDeque;

use lw_log::GROUP_HEADER_WORDS;
use medium::Buffer;
use medium::mutants::{Mutant, injected, relax};

use super::replicated::Replicated;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// A group's transactions, size and end in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogGroup {
    /// The first transaction.
    pub(crate) first: u64,
    /// The last transaction.
    pub(crate) last: u64,
    /// Words in use, header included.
    pub(crate) words: usize,
    /// The log sequence after it.
    pub(crate) end: u64,
}

/// The writes of neighbouring groups that are durable in the log and not yet reproduced.
pub(crate) struct Queued {
    /// The first group, then the payloads of the following ones.
    buffer: Buffer,
    /// Their bounds, as of one group.
    pub(crate) group: LogGroup,
}

impl Queued {
    /// Returns their payloads, one after the other, as [`medium::writes`].
    pub(crate) fn writes(&self) -> &[u64] {
        &self.buffer.words()[GROUP_HEADER_WORDS..self.group.words]
    }

    /// Returns the memory.
    pub(crate) fn into_memory(self) -> Buffer {
        self.buffer
    }
}

/// The groups that wait for reproduction.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    pub(crate) replicated: Replicated,
    /// The log sequence after the last group that was queued.
    end: AtomicU64,
    /// The sequence up to which the log is recycled.
    pub(crate) tail: AtomicU64,
    /// Bytes of writes ever queued.
    plain_end: AtomicU64,
    /// Bytes of writes ever reproduced.
    plain_tail: AtomicU64,
    /// If a stream is required: bytes of writes that it has of those.
    plain_open: AtomicU64,
    /// Memory of reproduced groups, for reuse.
    spare: Mutex<Spare>,
    /// Most words of spare memory kept.
    spare_max: usize,
    /// Words of a new buffer, and most words that neighbours share.
    group_words: usize,
}

/// The groups that were not taken off.
#[derive(Default)]
struct Waiting {
    groups: VecDeque<Queued>,
    /// The log sequence after the last group that was taken off.
    taken: u64,
    /// If a stream is required: the log sequence up to which it has the groups.
    open: u64,
    /// The last transaction that the present feed has copied.
    copied: u64,
    /// The last transaction that any feed has copied.
    sealed: u64,
}

impl Waiting {
    /// Returns the number of groups, from the front on, that may be taken off.
    fn open_groups(&self, replicated: &Replicated) -> usize {
        match replicated.is_required() && !injected(Mutant::ReproducedBeforeReplicated) {
            true => self.groups.partition_point(|queued| queued.group.end <= self.open),
            false => self.groups.len(),
        }
    }
}

/// Free memory.
#[derive(Debug, Default)]
struct Spare {
    buffers: Vec<Buffer>,
    words: usize,
}

impl Queue {
    /// Creates a queue for groups of `group_words` that keeps spare memory for `spare_max` of them.
    pub(crate) fn new(group_words: usize, spare_max: usize) -> Queue {
        Queue {
            waiting: Mutex::default(),
            replicated: Replicated::default(),
            end: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            plain_end: AtomicU64::new(0),
            plain_tail: AtomicU64::new(0),
            plain_open: AtomicU64::new(0),
            spare: Mutex::default(),
            spare_max: spare_max * group_words,
            group_words,
        }
    }

    /// Bytes of log that wait for reproduction.
    pub(crate) fn bytes(&self) -> u64 {
        // The tail first: it never exceeds the end, and a group queued in between only adds.
        let tail = self.tail.load(Ordering::Relaxed);
        self.end().saturating_sub(tail)
    }

    /// Bytes of log whose groups were not taken off the queue.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let waiting = lock(&self.waiting);
        self.end().saturating_sub(waiting.taken)
    }

    /// Bytes of memory of the queued writes: more than of log where groups are compressed.
    pub(crate) fn plain_bytes(&self) -> u64 {
        let tail = self.plain_tail();
        self.plain_end.load(Ordering::Relaxed).saturating_sub(tail)
    }

    /// Bytes of writes ever reproduced.
    pub(crate) fn plain_tail(&self) -> u64 {
        // Relaxed: the count bounds memory and guards no data.
        self.plain_tail.load(Ordering::Relaxed)
    }

    /// Bytes of durable writes that the required stream lacks.
    pub(crate) fn unreplicated_bytes(&self) -> u64 {
        // Relaxed: as for `plain_tail`. This one first, since it never exceeds the end.
        let open = self.plain_open.load(Ordering::Relaxed);
        let end = self.plain_end.load(Ordering::Relaxed);
        if self.replicated.is_required() { end.saturating_sub(open) } else { 0 }
    }

    /// Whether the stream may lack a group with the writes from `plain` to `plain_end`. It may lack
    /// any one group, so that a large one does not wait forever.
    pub(crate) fn may_lag(&self, plain: u64, plain_end: u64) -> bool {
        if !self.replicated.is_required() || injected(Mutant::LagUnbounded) {
            return true;
        }
        let open = self.plain_open.load(Ordering::Relaxed);
        plain <= open || plain_end - open <= self.replicated.max_lag()
    }

    /// As [`may_lag`](Queue::may_lag), for a group of `words` words behind all queued ones.
    pub(crate) fn next_may_lag(&self, words: usize) -> bool {
        let plain = self.plain_end.load(Ordering::Relaxed);
        self.may_lag(plain, plain + 8 * (words - GROUP_HEADER_WORDS) as u64)
    }

    /// The log sequence after the last durable group.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Returns memory for a group.
    pub(crate) fn memory(&self) -> Buffer {
        let mut spare = lock(&self.spare);
        match spare.buffers.pop() {
            Some(buffer) => {
                spare.words -= buffer.words().len();
                buffer
            }
            None => {
                drop(spare);
                Buffer::new(self.group_words)
            }
        }
    }

    /// Adds a durable group. A small one shares memory with the one before it: when a thread waits
    /// for every commit, thousands of groups hold a log block and a few words of writes each.
    /// Returns the memory of such a group, which the caller uses again or [keeps](Queue::keep).
    pub(crate) fn push(&self, buffer: Buffer, group: LogGroup) -> Option<Buffer> {
        let left = self.add(buffer, group);
        // After the unlock: the feed takes the lock.
        self.replicated.has_queued();
        left
    }

    fn add(&self, buffer: Buffer, group: LogGroup) -> Option<Buffer> {
        let mut waiting = lock(&self.waiting);
        let Waiting { groups, sealed, .. } = &mut *waiting;
        self.end.store(group.end, Ordering::Relaxed);
        let payload = GROUP_HEADER_WORDS..group.words;
        // No addition in one instruction: the lock lets one thread in.
        let plain = self.plain_end.load(Ordering::Relaxed) + 8 * payload.len() as u64;
        self.plain_end.store(plain, Ordering::Relaxed);
        if let Some(back) = groups.back_mut()
            && (back.group.first > *sealed || injected(Mutant::CopiedGroupGrows))
            && back.group.words + payload.len() <= self.group_words.min(back.buffer.words().len())
        {
            let Queued { buffer: memory, group: all } = back;
            let more = all.words..all.words + payload.len();
            memory.words_mut()[more.clone()].copy_from_slice(&buffer.words()[payload]);
            *all = LogGroup { first: all.first, words: more.end, ..group };
            return Some(buffer);
        }
        // Groups that do not share memory would each keep a large buffer for a few words.
        let is_small = 4 * group.words < buffer.words().len();
        if is_small && groups.back().is_some_and(|back| back.group.last <= *sealed) {
            let mut own = Buffer::new(group.words);
            own.words_mut()[..group.words].copy_from_slice(&buffer.words()[..group.words]);
            groups.push_back(Queued { buffer: own, group });
            return Some(buffer);
        }
        groups.push_back(Queued { buffer, group });
        None
    }

    /// Whether a group may be taken off; a batch that is being reproduced is not in the queue.
    pub(crate) fn has_open(&self) -> bool {
        lock(&self.waiting).open_groups(&self.replicated) > 0
    }

    /// Whether groups wait, and the stream has none of them.
    pub(crate) fn is_held_back(&self) -> bool {
        let waiting = lock(&self.waiting);
        !waiting.groups.is_empty() && waiting.open_groups(&self.replicated) == 0
    }

    /// Returns the part of these bytes in use that reproduction could take: all, unless the stream
    /// lacks groups.
    pub(crate) fn open_bytes(&self, used: u64) -> u64 {
        if !self.replicated.is_required() {
            return used;
        }
        let waiting = lock(&self.waiting);
        match waiting.open_groups(&self.replicated) == waiting.groups.len() {
            true => used,
            false => waiting.open.saturating_sub(self.tail.load(Ordering::Relaxed)).min(used),
        }
    }

    /// Copies the next group for the feed: its transactions, and its writes.
    pub(crate) fn copy_next(&self) -> Option<(LogGroup, Vec<u64>)> {
        let mut waiting = lock(&self.waiting);
        let Waiting { groups, copied, sealed, .. } = &mut *waiting;
        let next = groups.partition_point(|queued| queued.group.last <= *copied);
        let queued = groups.get(next)?;
        *copied = queued.group.last;
        *sealed = (*sealed).max(*copied);
        Some((queued.group, queued.writes().to_vec()))
    }

    /// Lets the feed copy from the transaction after `last` on.
    pub(crate) fn copy_after(&self, last: u64) {
        lock(&self.waiting).copied = last;
    }

    /// Notes that the stream has each copied group that ends at the transaction `last` or before.
    pub(crate) fn has_replicated(&self, last: u64) {
        let group = {
            let mut waiting = lock(&self.waiting);
            let last = last.min(waiting.copied);
            let count = waiting.groups.partition_point(|queued| queued.group.last <= last);
            let Some(index) = count.checked_sub(1) else { return };
            let group = waiting.groups[index].group;
            let opened = waiting.groups.iter().take(count).filter(|it| it.group.end > waiting.open);
            let plain = opened.map(|queued| 8 * queued.writes().len() as u64).sum();
            self.plain_open.fetch_add(plain, Ordering::Relaxed);
            waiting.open = waiting.open.max(group.end);
            group
        };
        // After `open`: a thread that sees the ID may take the group off.
        self.replicated.advance(group.last);
    }

    /// Takes groups off the queue, oldest first, up to `bytes` of log (at least one group, if one
    /// may be taken).
    pub(crate) fn take(&self, bytes: u64) -> Vec<Queued> {
        let mut waiting = lock(&self.waiting);
        let limit = waiting.taken.saturating_add(bytes);
        let open = waiting.open_groups(&self.replicated);
        let groups = &mut waiting.groups;
        let count = groups.iter().take_while(|queued| queued.group.end <= limit).count();
        let count = count.max(1).min(open);
        let taken: Vec<Queued> = groups.drain(..count).collect();
        if let Some(last) = taken.last() {
            waiting.taken = last.group.end;
        }
        taken
    }

    /// Recycles reproduced groups: the log may be overwritten up to `end`. `plain`: the bytes of
    /// their writes.
    pub(crate) fn recycle(&self, end: u64, plain: u64) {
        // Release: the sender overwrites the log up to here once it sees this. All that made that
        // safe comes before. Pairs with the Acquire in `CircularLog::has_room`.
        self.tail.store(end, relax(Ordering::Release, Mutant::TailStoredRelaxed));
        self.plain_tail.fetch_add(plain, Ordering::Relaxed);
    }

    /// Keeps free memory for reuse.
    pub(crate) fn keep(&self, buffers: impl IntoIterator<Item = Buffer>) {
        let mut spare = lock(&self.spare);
        for buffer in buffers {
            let words = buffer.words().len();
            // Drops the memory of a giant transaction; a combined group may well be large.
            let usual = words <= (2 * self.group_words).max(self.spare_max / 4);
            if usual && spare.words + words <= self.spare_max {
                spare.words += words;
                spare.buffers.push(buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues a group of one transaction with `words` words after its header and larger memory.
    fn push(queue: &Queue, id: u64, words: usize) {
        let words = GROUP_HEADER_WORDS + words;
        let group = LogGroup { first: id, last: id, words, end: queue.end() + 8 * words as u64 };
        queue.keep(queue.push(Buffer::new(1000), group));
    }

    #[test]
    fn small_groups_share_memory_and_take_is_bounded() {
        let queue = Queue::new(64, 4);
        for id in 1..=20 {
            push(&queue, id, 10);
        }
        // Five fit after one header, whatever their memory has room for.
        let taken = queue.take(8 * 18 * 14);
        let ids: Vec<_> = taken.iter().map(|q| (q.group.first, q.group.last)).collect();
        assert_eq!(ids, [(1, 5), (6, 10)]);
        let end = taken[1].group.end;
        assert_eq!((queue.bytes(), queue.waiting_bytes()), (queue.end(), queue.end() - end));
        queue.keep(taken.into_iter().map(Queued::into_memory));
        queue.recycle(end, 8 * 100);
        assert_eq!(queue.bytes(), queue.waiting_bytes());
        // At least one, however few bytes are requested; and all that are queued.
        assert_eq!(queue.take(1).len(), 1);
        assert_eq!(queue.take(u64::MAX / 2).len(), 1);
        assert!(queue.take(1).is_empty() && !queue.has_open());
    }

    #[test]
    fn group_is_taken_after_stream_has_it() {
        let mut queue = Queue::new(64, 4);
        queue.replicated.require(0, Some((std::time::Duration::ZERO, 8 * 40)));
        for id in 1..=3 {
            push(&queue, id, 10);
        }
        let (group, writes) = queue.copy_next().unwrap();
        assert_eq!((group.first, group.last, writes.len()), (1, 3, 30));
        assert!(queue.next_may_lag(GROUP_HEADER_WORDS + 10));
        assert!(!queue.next_may_lag(GROUP_HEADER_WORDS + 11));
        // The feed has the group as it was, so the next one gets memory of its own.
        push(&queue, 4, 10);
        assert!(!queue.has_open() && queue.take(u64::MAX / 2).is_empty());
        assert_eq!(queue.unreplicated_bytes(), 8 * 40);
        queue.has_replicated(3);
        assert_eq!((queue.replicated.id(), queue.unreplicated_bytes()), (3, 8 * 10));
        let taken = queue.take(u64::MAX / 2);
        assert_eq!((taken.len(), taken[0].group.last), (1, 3));
        assert!(!queue.has_open());
        let (group, _) = queue.copy_next().unwrap();
        assert_eq!((group.first, group.last), (4, 4));
        assert!(queue.copy_next().is_none());
        // An older confirmation, and one of transactions that no feed has copied.
        queue.has_replicated(3);
        push(&queue, 5, 10);
        assert!(queue.is_held_back());
        queue.has_replicated(u64::MAX);
        assert_eq!((queue.replicated.id(), queue.take(u64::MAX / 2).len()), (4, 1));
        assert!(queue.is_held_back());
        assert_eq!(queue.unreplicated_bytes(), 8 * 10);
        let (group, _) = queue.copy_next().unwrap();
        queue.has_replicated(group.last);
        // A group alone may exceed the limit.
        assert!(queue.next_may_lag(GROUP_HEADER_WORDS + 1000));
    }
}
