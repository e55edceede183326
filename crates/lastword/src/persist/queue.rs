//! The queue of groups that are durable in the log and not yet at home, and the memory they are in.
//!
//! Invariants:
//! - Groups enter in ID order, after they are durable.
//! - `tail <= end`: between them lies what is in the queue or being reproduced; the same for
//!   `plain_tail` and `plain_end`, which count what groups decode to.

use std::collections::VecDeque;

use lw_log::GROUP_HEADER_WORDS;
use medium::Buffer;

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// A group on its way: what was in it and where it ends in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// The first transaction.
    pub(crate) first: u64,
    /// The last transaction.
    pub(crate) last: u64,
    /// Words in use, header included.
    pub(crate) words: usize,
    /// The sequence of the log behind it.
    pub(crate) end: u64,
}

/// The writes of some neighbouring groups that are durable in the log and not yet at home.
pub(crate) struct Queued {
    /// The first group, and the payloads of those that follow.
    buffer: Buffer,
    /// All of them as if they were one group.
    pub(crate) flight: Flight,
}

impl Queued {
    /// Their payloads, one after the other, as [`medium::writes`].
    pub(crate) fn writes(&self) -> &[u64] {
        &self.buffer.words()[GROUP_HEADER_WORDS..self.flight.words]
    }
}

/// What waits to be reproduced.
pub(crate) struct Queue {
    groups: Mutex<VecDeque<Queued>>,
    /// The sequence behind the last group that came.
    end: AtomicU64,
    /// The sequence up to which the log is recycled.
    pub(crate) tail: AtomicU64,
    /// Bytes of writes that have come.
    plain_end: AtomicU64,
    /// Bytes of writes that have been reproduced.
    plain_tail: AtomicU64,
    /// Memory of groups that have been reproduced, to be used again.
    spare: Mutex<Spare>,
    /// Most words of memory that are kept.
    spare_max: usize,
    /// Words that memory is made for, and that neighbours share at most.
    group_words: usize,
}

/// Memory that is free.
#[derive(Debug, Default)]
struct Spare {
    buffers: Vec<Buffer>,
    words: usize,
}

impl Queue {
    /// Keeps memory for so many groups of so many words.
    pub(crate) fn new(group_words: usize, spare_max: usize) -> Queue {
        Queue {
            groups: Mutex::default(),
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
        // The tail first: it is never beyond the end, and what came in between only adds.
        let tail = self.tail.load(Ordering::Relaxed);
        self.end().saturating_sub(tail)
    }

    /// Bytes of memory that these take: more than of log where that is compressed.
    pub(crate) fn plain_bytes(&self) -> u64 {
        let tail = self.plain_tail();
        self.plain_end.load(Ordering::Relaxed).saturating_sub(tail)
    }

    /// Bytes of writes that have been reproduced, of all that ever came.
    pub(crate) fn plain_tail(&self) -> u64 {
        // Relaxed: a count, which guards nothing but how much memory is taken.
        self.plain_tail.load(Ordering::Relaxed)
    }

    /// The sequence behind the last group that is durable.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Memory for a group.
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

    /// Adds a group that is durable. A small one shares memory with the one before: when every
    /// commit is waited for there are thousands of them, each a block of the log and a few words of
    /// writes.
    pub(crate) fn push(&self, buffer: Buffer, flight: Flight) {
        let mut groups = lock(&self.groups);
        self.end.store(flight.end, Ordering::Relaxed);
        let payload = GROUP_HEADER_WORDS..flight.words;
        self.plain_end.fetch_add(8 * payload.len() as u64, Ordering::Relaxed);
        if let Some(back) = groups.back_mut()
            && back.flight.words + payload.len() <= self.group_words.min(back.buffer.words().len())
        {
            let Queued { buffer: memory, flight: all } = back;
            let more = all.words..all.words + payload.len();
            memory.words_mut()[more.clone()].copy_from_slice(&buffer.words()[payload]);
            *all = Flight { first: all.first, words: more.end, ..flight };
            drop(groups);
            return self.keep([buffer]);
        }
        groups.push_back(Queued { buffer, flight });
    }

    /// Whether nothing waits; what is being reproduced is off the queue.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.groups).is_empty()
    }

    /// Takes groups off the queue, oldest first, up to so many bytes of log (at least one group).
    pub(crate) fn take(&self, bytes: u64) -> Vec<Queued> {
        let mut groups = lock(&self.groups);
        // Relaxed: only who takes recycles, one at a time.
        let limit = self.tail.load(Ordering::Relaxed) + bytes;
        let count = groups.iter().take_while(|queued| queued.flight.end <= limit).count();
        let count = count.max(1).min(groups.len());
        groups.drain(..count).collect()
    }

    /// Gives reproduced groups back: the log may be overwritten up to `end`.
    pub(crate) fn recycle(&self, groups: Vec<Queued>, end: u64) {
        // Release: the sender overwrites the log up to here once it sees this; everything that made
        // it safe comes before. Pairs with the Acquire in `PersistentRing::has_room`.
        self.tail.store(end, Ordering::Release);
        let words: usize = groups.iter().map(|queued| queued.writes().len()).sum();
        self.plain_tail.fetch_add(8 * words as u64, Ordering::Relaxed);
        self.keep(groups.into_iter().map(|queued| queued.buffer));
    }

    /// Keeps memory that is free, to be used again.
    pub(crate) fn keep(&self, buffers: impl IntoIterator<Item = Buffer>) {
        let mut spare = lock(&self.spare);
        for buffer in buffers {
            let words = buffer.words().len();
            // Not what a giant transaction needed once; a combined group may well be large.
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

    /// A group of one transaction with so many words behind its header, whose memory is for more.
    fn push(queue: &Queue, id: u64, words: usize) {
        let words = GROUP_HEADER_WORDS + words;
        let flight = Flight { first: id, last: id, words, end: queue.end() + 8 * words as u64 };
        queue.push(Buffer::new(1000), flight);
    }

    #[test]
    fn neighbours_share_memory_up_to_a_group_and_a_step_takes_no_more_than_it_wants() {
        let queue = Queue::new(64, 4);
        for id in 1..=20 {
            push(&queue, id, 10);
        }
        // Five fit behind one header, whatever their memory has room for.
        let taken = queue.take(8 * 18 * 14);
        let ids: Vec<_> = taken.iter().map(|q| (q.flight.first, q.flight.last)).collect();
        assert_eq!(ids, [(1, 5), (6, 10)]);
        let end = taken[1].flight.end;
        queue.recycle(taken, end);
        // At least one, however little is wanted; and all that there is.
        assert_eq!(queue.take(1).len(), 1);
        assert_eq!(queue.take(u64::MAX / 2).len(), 1);
        assert!(queue.take(1).is_empty() && queue.is_empty());
    }
}
