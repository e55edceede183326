//! Merging the workers' rings into transaction ID order.
//!
//! IDs are dense, so the merge is a counting sort: each record's ID says where it belongs. One pass
//! over the rings' record heads notes where each ID lies, one pass over the IDs copies the records.

use super::frontier::Slot;
use crate::sync::{Arc, AtomicU64};
use lw_log::{Group, Ring};
use words::TxId;

/// Most transactions noted in one pass; bounds the memory of the pass and how long it takes.
const PASS_MAX: u64 = 1 << 15;

/// Bits of a note that hold the cursor; the ring's number stands above them.
const CURSOR_BITS: u32 = 48;

/// The scratch memory of a merge.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    /// Where ID `last + 1 + i` lies: ring number and low bits of its cursor.
    notes: Vec<u64>,
    pub(crate) cursors: Vec<u64>,
    taken: Vec<u64>,
}

impl Merge {
    /// Moves the transactions after `last` up to `frontier` from the rings to the group, in order,
    /// until the group has `words_max` words; a transaction that is larger alone goes alone.
    ///
    /// `cursors` are the rings' cursors that belong to the frontier. The space of what was copied
    /// is given back to the workers.
    ///
    /// # Panics
    /// When an ID up to the frontier is in no ring: the frontier claimed what was not published.
    pub(crate) fn run<S: AsRef<[AtomicU64]>>(
        &mut self,
        slots: &[Arc<Slot<S>>],
        last: u64,
        frontier: u64,
        group: &mut Group,
        words_max: usize,
    ) {
        let frontier = frontier.min(last + PASS_MAX);
        self.note(slots, last, frontier);
        let mut expected = last;
        for &note in &self.notes {
            expected += 1;
            assert!(note != u64::MAX, "transaction {expected} is below the frontier, in no ring");
            let (number, cursor) = ((note >> CURSOR_BITS) as usize, note & MASK);
            // The low bits name one place: a ring is far smaller than 2^48 words.
            let ring = &slots[number].ring;
            let cursor = self.taken[number] + (cursor.wrapping_sub(self.taken[number]) & MASK);
            let (id, words) = ring.head(cursor);
            assert_eq!(id, expected, "a record changed while it was merged");
            let fits = group.is_empty() || group.words() + 1 + words <= words_max;
            if !fits || !group.can_take(TxId(id)) {
                break;
            }
            ring.copy(cursor, group.push(TxId(id), words));
            self.taken[number] = Ring::<S>::behind(cursor, words);
        }
        for (slot, &taken) in slots.iter().zip(&self.taken) {
            slot.ring.take(taken);
        }
    }

    /// Fills `notes` for the IDs after `last` up to `frontier`.
    fn note<S: AsRef<[AtomicU64]>>(&mut self, slots: &[Arc<Slot<S>>], last: u64, frontier: u64) {
        self.notes.clear();
        self.notes.resize((frontier - last) as usize, u64::MAX);
        self.taken.clear();
        for (number, (slot, &end)) in slots.iter().zip(&self.cursors).enumerate() {
            let mut at = slot.ring.taken();
            self.taken.push(at);
            while at < end {
                let (id, words) = slot.ring.head(at);
                assert!(id > last, "a record was merged twice, or its worker went back");
                if id > frontier {
                    break; // a ring's IDs ascend
                }
                self.notes[(id - last - 1) as usize] = (number as u64) << CURSOR_BITS | at & MASK;
                at = Ring::<S>::behind(at, words);
            }
        }
    }
}

const MASK: u64 = (1 << CURSOR_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use lw_log::{Transactions, Writer};

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
        let mut group = Group::new(64);
        merge.run(slots, last, to, &mut group, 1000);
        let first = group.first().0;
        Transactions::new(group.payload(), first).map(|(id, _)| id.0).collect()
    }

    #[test]
    fn records_of_many_rings_come_out_in_order_up_to_the_frontier() {
        let slots = slots(3);
        let mut writers: Vec<Writer> = (0..3).map(|_| Writer::default()).collect();
        let mut merge = Merge::default();
        let mut last = 0;
        for round in 0..40 {
            let frontier = last + 7;
            for id in last + 1..=frontier + 2 {
                if round == 0 || id > last + 2 {
                    let ring = (id * 7 / 3 % 3) as usize;
                    publish(&slots[ring], &mut writers[ring], id);
                }
            }
            let ids = merged(&mut merge, &slots, last, frontier);
            assert_eq!(ids, (last + 1..=frontier).collect::<Vec<_>>());
            last = frontier;
        }
    }

    #[test]
    #[should_panic(expected = "in no ring")]
    fn a_frontier_beyond_what_is_published_is_noticed() {
        let slots = slots(1);
        let mut writer = Writer::default();
        publish(&slots[0], &mut writer, 1);
        publish(&slots[0], &mut writer, 3);
        merged(&mut Merge::default(), &slots, 0, 3);
    }
}
