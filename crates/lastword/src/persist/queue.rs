//! The queue of groups that are durable in the log and not yet reproduced, and their memory.
//!
//! The reproduce step reads this queue and never the log medium, so reproduction costs no reads.
//!
//! Invariants:
//! - Groups enter in ID order, after they are durable.
//! - `tail <= taken <= end`: between tail and end lie the groups that are not yet reproduced, and
//!   those after `taken` are in the queue. `plain_tail <= plain_end` count decoded bytes likewise.

use std::collections::VecDeque;

use lw_log::GROUP_HEADER_WORDS;
use medium::Buffer;
use medium::mutants::{Mutant, relax};

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
    /// The log sequence after the last group that was queued.
    end: AtomicU64,
    /// The sequence up to which the log is recycled.
    pub(crate) tail: AtomicU64,
    /// Bytes of writes ever queued.
    plain_end: AtomicU64,
    /// Bytes of writes ever reproduced.
    plain_tail: AtomicU64,
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
            end: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            plain_end: AtomicU64::new(0),
            plain_tail: AtomicU64::new(0),
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
        let mut waiting = lock(&self.waiting);
        let groups = &mut waiting.groups;
        self.end.store(group.end, Ordering::Relaxed);
        let payload = GROUP_HEADER_WORDS..group.words;
        // No addition in one instruction: the lock lets one thread in.
        let plain = self.plain_end.load(Ordering::Relaxed) + 8 * payload.len() as u64;
        self.plain_end.store(plain, Ordering::Relaxed);
        if let Some(back) = groups.back_mut()
            && back.group.words + payload.len() <= self.group_words.min(back.buffer.words().len())
        {
            let Queued { buffer: memory, group: all } = back;
            let more = all.words..all.words + payload.len();
            memory.words_mut()[more.clone()].copy_from_slice(&buffer.words()[payload]);
            *all = LogGroup { first: all.first, words: more.end, ..group };
            return Some(buffer);
        }
        groups.push_back(Queued { buffer, group });
        None
    }

    /// Whether the queue is empty; a batch that is being reproduced is not in it.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.waiting).groups.is_empty()
    }

    /// Takes groups off the queue, oldest first, up to `bytes` of log (at least one group).
    pub(crate) fn take(&self, bytes: u64) -> Vec<Queued> {
        let mut waiting = lock(&self.waiting);
        let limit = waiting.taken.saturating_add(bytes);
        let groups = &mut waiting.groups;
        let count = groups.iter().take_while(|queued| queued.group.end <= limit).count();
        let count = count.max(1).min(groups.len());
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
        assert!(queue.take(1).is_empty() && queue.is_empty());
    }
}
