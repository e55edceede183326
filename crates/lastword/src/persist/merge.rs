//! Merges the workers' rings into transaction ID order.
//!
//! IDs are dense, so the next record is at the head of exactly one ring. The merge keeps each
//! ring's first ID, finds the ring with the next ID, and stays with it while its IDs are
//! consecutive. With many rings it finds the ring by a heap: a search over all heads takes time in
//! proportion to their number, 125 ns a transaction with 64 rings.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::slot::Slot;
use crate::sync::Arc;
use lw_log::{Group, Ring, RingMemory};
use words::TxId;

/// Scratch memory of a merge.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    /// Each ring's cursor at the frontier; filled by the caller.
    pub(crate) cursors: Vec<u64>,
    heads: Vec<Head>,
    /// Of many rings those whose heads are up to the frontier, by the IDs of these.
    order: BinaryHeap<Reverse<(u64, usize)>>,
}

/// The next record of a ring.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// The transaction's ID, or `NOTHING`.
    id: u64,
    words: usize,
    /// Position of the record.
    at: u64,
    /// The ring's cursor at the frontier.
    end: u64,
}

const NOTHING: u64 = u64::MAX;

/// Most rings that are searched without a heap. Their heads are a few cache lines, and two busy
/// workers change the ring at nearly every ID. (Two workers, `hashtable`: 26 ns a transaction for
/// the whole persist step with a heap.)
const SEARCHED: usize = 8;

impl Head {
    fn load<S: RingMemory>(ring: &Ring<S>, at: u64, end: u64) -> Head {
        if at >= end {
            return Head { id: NOTHING, words: 0, at, end };
        }
        let (at, id, words) = ring.head(at);
        Head { id, words, at, end }
    }
}

impl Merge {
    /// Moves the transactions after `last` up to `frontier` from the rings to the group, in order,
    /// until the group has `words_max` words. A larger transaction gets a group of its own. The
    /// space of copied records returns to the workers.
    ///
    /// # Panics
    /// When an ID up to the frontier is in no ring: the frontier claimed an unpublished record.
    pub(crate) fn run<S: RingMemory>(
        &mut self,
        slots: &[Arc<Slot<S>>],
        last: u64,
        frontier: u64,
        group: &mut Group,
        words_max: usize,
    ) {
        self.heads.clear();
        let rings = slots.iter().zip(&self.cursors);
        self.heads.extend(rings.map(|(slot, &end)| Head::load(&slot.ring, slot.ring.taken(), end)));
        let by_heap = slots.len() > SEARCHED;
        if by_heap {
            let heads = self.heads.iter().enumerate().filter(|(_, head)| head.id <= frontier);
            self.order.clear();
            self.order.extend(heads.map(|(number, head)| Reverse((head.id, number))));
        }
        let mut expected = last + 1;
        while expected <= frontier {
            let found = match by_heap {
                false => self.heads.iter().position(|head| head.id == expected),
                true => {
                    let first = self.order.peek().filter(|first| first.0.0 == expected);
                    first.map(|Reverse((_, number))| *number)
                }
            };
            let Some(number) = found else {
                panic!("transaction {expected} is below the frontier {frontier}, and in no ring");
            };
            let (ring, head) = (&slots[number].ring, &mut self.heads[number]);
            while head.id == expected && expected <= frontier {
                let fits = group.is_empty() || group.words() + 1 + head.words <= words_max;
                if !fits || !group.can_take(TxId(expected)) {
                    return self.give_back(slots);
                }
                ring.copy(head.at, group.push(TxId(expected), head.words));
                *head = Head::load(ring, Ring::<S>::behind(head.at, head.words), head.end);
                expected += 1;
            }
            let id = head.id;
            if by_heap && let Some(mut first) = self.order.peek_mut() {
                match id <= frontier {
                    true => first.0.0 = id,
                    false => _ = PeekMut::pop(first),
                }
            }
        }
        self.give_back(slots);
    }

    /// Returns the space of copied records to the workers.
    fn give_back<S: RingMemory>(&self, slots: &[Arc<Slot<S>>]) {
        for (slot, head) in slots.iter().zip(&self.heads) {
            slot.ring.take(head.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicU64;
    use lw_log::{Transactions, Writer};
    use medium::Buffer;

    type Words = Box<[AtomicU64]>;

    fn slots(count: usize) -> Vec<Arc<Slot<Words>>> {
        let words = || (0..256).map(|_| AtomicU64::new(0)).collect::<Words>();
        (0..count).map(|_| Arc::new(Slot::new(Ring::new(words())))).collect()
    }

    fn publish(slot: &Slot<Words>, writer: &mut Writer, id: u64) {
        assert!(writer.has_room(&slot.ring, 2));
        let mut record = writer.record(&slot.ring);
        record.push(medium::writes::run(id, 1));
        record.push(id * 10);
        record.publish(id);
    }

    fn merged(merge: &mut Merge, slots: &[Arc<Slot<Words>>], last: u64, to: u64) -> Vec<u64> {
        merge.cursors = slots.iter().map(|slot| slot.ring.written()).collect();
        let mut group = Group::new(Buffer::new(64));
        merge.run(slots, last, to, &mut group, 1000);
        let first = group.first().0;
        Transactions::new(group.payload(), first).map(|(id, _)| id.0).collect()
    }

    #[test]
    fn records_of_many_rings_merge_in_id_order() {
        for count in [3, SEARCHED + 5] {
            records_merge_in_id_order(count as u64);
        }
    }

    /// Runs of one to four IDs in rings that a generator chooses, in groups of few words.
    fn records_merge_in_id_order(count: u64) {
        let slots = slots(count as usize);
        let mut writers: Vec<Writer> = slots.iter().map(|slot| Writer::new(&slot.ring)).collect();
        let mut merge = Merge::default();
        let (mut random, mut published, mut last, mut full) = (count, 0, 0, 0);
        for _ in 0..200 {
            let frontier = last + 12;
            while published < frontier {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405);
                let (ring, run) = (random >> 33, 1 + (random >> 60) % 4);
                for id in published + 1..=published + run {
                    let ring = (ring % count) as usize;
                    publish(&slots[ring], &mut writers[ring], id);
                }
                published += run;
            }
            merge.cursors = slots.iter().map(|slot| slot.ring.written()).collect();
            let mut group = Group::new(Buffer::new(64));
            merge.run(&slots, last, frontier, &mut group, 24);
            let ids = Transactions::new(group.payload(), group.first().0).map(|(id, _)| id.0);
            let ids = ids.collect::<Vec<_>>();
            let to = last + ids.len() as u64;
            assert_eq!(ids, (last + 1..=to).collect::<Vec<_>>());
            full += u32::from(to < frontier);
            last = to;
        }
        assert!(full > 100, "{full}");
    }

    #[test]
    fn full_group_is_closed_and_next_continues() {
        let slots = slots(2);
        let mut writers: Vec<Writer> = slots.iter().map(|slot| Writer::new(&slot.ring)).collect();
        for id in 1..=20 {
            publish(&slots[id as usize % 2], &mut writers[id as usize % 2], id);
        }
        let mut merge = Merge::default();
        let mut last = 0;
        while last < 20 {
            merge.cursors = slots.iter().map(|slot| slot.ring.written()).collect();
            let mut group = Group::new(Buffer::new(64));
            merge.run(&slots, last, 20, &mut group, 8 + 3 * 3);
            assert_eq!(group.first().0, last + 1);
            assert!(group.last().0 <= last + 3, "a group of at most three");
            last = group.last().0;
        }
        assert!(slots.iter().all(|slot| slot.ring.pending() == 0));
    }

    #[test]
    #[should_panic(expected = "in no ring")]
    fn frontier_beyond_published_records_panics() {
        let slots = slots(1);
        let mut writer = Writer::new(&slots[0].ring);
        publish(&slots[0], &mut writer, 1);
        publish(&slots[0], &mut writer, 3);
        merged(&mut Merge::default(), &slots, 0, 3);
    }
}
