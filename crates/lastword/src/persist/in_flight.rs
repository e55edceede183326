//! Groups in flight: taken off the merge and not acknowledged, in ID order.
//!
//! ```text
//!   packing --> packed --> placed --> durable --> acknowledged
//!   `Packing`, under `sending`        `InFlight`, under a lock of its own
//! ```
//!
//! Several threads pack groups and store them to memory at the same time, so a later group may be
//! packed or durable before an earlier one. Both halves let a group pass only after all earlier
//! ones ([`InOrder`]). A device completes in any order, too; `medium` (its `file/in_flight.rs`)
//! then reports the groups in the order of their appends.
//!
//! Invariants:
//! - Groups are placed in the log in ID order, without gaps.
//! - Groups are acknowledged in ID order, each after it is durable.
//! - One thread at a time acknowledges. Its effects (queue, durable ID) are therefore in order.

use std::collections::VecDeque;

use lw_log::{GROUP_HEADER_WORDS, Group, Packed};
use medium::Buffer;
use medium::mutants::{Mutant, injected};

use super::queue::LogGroup;
use crate::sync::{Mutex, lock};

/// Entries that complete in any order and leave in the order in which they came.
#[derive(Debug)]
struct InOrder<T, C> {
    entries: VecDeque<(T, Option<C>)>,
    /// Number of the first entry, or of the next one.
    first: u64,
}

impl<T, C> Default for InOrder<T, C> {
    fn default() -> Self {
        InOrder { entries: VecDeque::new(), first: 0 }
    }
}

impl<T, C> InOrder<T, C> {
    /// Adds an entry; returns its number.
    fn add(&mut self, entry: T) -> u64 {
        self.entries.push_back((entry, None));
        self.first + self.entries.len() as u64 - 1
    }

    fn complete(&mut self, number: u64, completion: C) {
        self.entries[(number - self.first) as usize].1 = Some(completion);
    }

    /// Returns the first entry and its completion, if it is complete.
    fn take(&mut self) -> Option<(T, C)> {
        let (entry, completion) = self.entries.pop_front_if(|(_, done)| done.is_some())?;
        self.first += 1;
        Some((entry, completion?))
    }

    /// Returns the first entry, which is complete without a completion of its own.
    fn take_first(&mut self) -> Option<T> {
        let (entry, _) = self.entries.pop_front()?;
        self.first += 1;
        Some(entry)
    }
}

/// A group that one thread packs, and its place in the order.
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) gathered: Group,
}

/// The groups that have no place in the log yet.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    /// Packed groups with no unpacked group before them.
    pub(crate) ready: VecDeque<Packed>,
    /// The first transactions of groups that are unpacked, or wait for an unpacked one before them.
    working: InOrder<u64, VecDeque<Packed>>,
}

impl Packing {
    /// Whether every group has a place.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Groups without a place.
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.working()
    }

    /// Number of groups that are unpacked or wait for an unpacked one.
    pub(crate) fn working(&self) -> usize {
        self.working.entries.len()
    }

    /// The first transaction without a place.
    pub(crate) fn first(&self) -> Option<u64> {
        let ready = self.ready.front().map(Packed::first);
        ready.or_else(|| self.working.entries.front().map(|(first, _)| *first))
    }

    /// Adds a group, for the caller to pack.
    pub(crate) fn begin(&mut self, gathered: Group) -> Job {
        Job { number: self.working.add(gathered.first().0), gathered }
    }

    /// Completes the job with this number. Its groups are ready, with those after them, once all
    /// before them are.
    pub(crate) fn complete(&mut self, number: u64, packed: VecDeque<Packed>) {
        self.working.complete(number, packed);
        while let Some((_, packed)) = self.working.take() {
            self.ready.extend(packed);
        }
    }
}

/// The memory of a durable group: the bytes that were sent, and the writes to reproduce where they
/// differ from them.
type Durable = (Buffer, Option<Buffer>);

/// The groups that have a place in the log.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    groups: Mutex<InOrder<(LogGroup, Option<Buffer>), Durable>>,
}

impl InFlight {
    /// Adds a placed group; returns its number. Callers come in ID order. `plain` has the writes to
    /// reproduce, where they differ from the bytes that are sent to a device.
    pub(crate) fn place(&self, group: LogGroup, plain: Option<Buffer>) -> u64 {
        lock(&self.groups).add((group, plain))
    }

    /// Returns the number of groups, and the first transaction of the oldest.
    pub(crate) fn oldest(&self) -> (usize, Option<u64>) {
        let groups = lock(&self.groups);
        (groups.entries.len(), groups.entries.front().map(|((group, _), _)| group.first))
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.groups).entries.is_empty()
    }

    /// Removes the oldest group, which the device has acknowledged. One thread at a time polls the
    /// device and calls this.
    pub(crate) fn take_oldest(&self) -> (LogGroup, Option<Buffer>) {
        lock(&self.groups).take_first().expect("an acknowledged group is in flight")
    }

    /// Completes a group that is durable in memory. It is acknowledged as soon as all earlier
    /// groups are durable. The last thread to complete one acknowledges the groups that wait after
    /// its own.
    pub(crate) fn complete(
        &self,
        number: u64,
        durable: Durable,
        mut acknowledged: impl FnMut(Durable, LogGroup),
    ) {
        // Held during acknowledgement: otherwise another thread could acknowledge the next group
        // first.
        let mut groups = lock(&self.groups);
        groups.complete(number, durable);
        if injected(Mutant::GroupsAcknowledgedAsTheyLand) {
            while let Some(at) = groups.entries.iter().position(|(_, done)| done.is_some())
                && let Some(((group, _), Some(durable))) = groups.entries.remove(at)
            {
                acknowledged(durable, group);
            }
        }
        while let Some(((group, _), durable)) = groups.take() {
            if injected(Mutant::GroupAcknowledgedWithoutLock) {
                drop(groups);
                acknowledged(durable, group);
                groups = lock(&self.groups);
                continue;
            }
            acknowledged(durable, group);
        }
    }
}

/// Copies a group's writes as the queue takes them. For a mutant.
pub(crate) fn copy_of(packed: &Packed) -> Buffer {
    let mut copy = Buffer::new(packed.plain_words());
    copy.words_mut()[GROUP_HEADER_WORDS..packed.plain_words()]
        .copy_from_slice(packed.plain_payload());
    copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::TxId;

    fn group(id: u64) -> Group {
        let mut group = Group::new(Buffer::new(0));
        group.push(TxId(id), 0);
        group
    }

    #[test]
    fn groups_packed_out_of_order_are_ready_in_order() {
        let mut packing = Packing::default();
        let mut jobs: Vec<Job> = (1..=4).map(|id| packing.begin(group(id))).collect();
        assert_eq!((packing.len(), packing.working(), packing.first()), (4, 4, Some(1)));
        let mut done = Vec::new();
        for (at, ready) in [(2, 0), (0, 1), (0, 3), (0, 4)] {
            let Job { number, gathered } = jobs.remove(at);
            packing.complete(number, [Packed::plain(gathered, 8)].into());
            done.push(packing.ready.len());
            assert_eq!(packing.ready.len(), ready, "after {done:?}");
        }
        assert!(packing.ready.iter().map(Packed::first).eq(1..=4));
        assert_eq!((packing.len(), packing.working(), packing.first()), (4, 0, Some(1)));
        // The next is a job like the first.
        let Job { number, gathered } = packing.begin(group(5));
        packing.complete(number, [Packed::plain(gathered, 8)].into());
        assert_eq!(packing.ready.len(), 5);
    }

    #[test]
    fn groups_durable_out_of_order_are_acknowledged_in_order() {
        let in_flight = InFlight::default();
        let log_group = |id| LogGroup { first: id, last: id, words: 8, end: 64 * id };
        let numbers = [1, 2, 3].map(|id| in_flight.place(log_group(id), None));
        let mut acknowledged = Vec::new();
        for (at, expected) in [(1, &[][..]), (0, &[1, 2]), (2, &[1, 2, 3])] {
            let durable = (Buffer::new(0), None);
            in_flight.complete(numbers[at], durable, |_, group| acknowledged.push(group.last));
            assert_eq!(acknowledged, expected);
        }
        assert!(in_flight.is_empty());
        // A device has acknowledged the oldest.
        in_flight.place(log_group(4), None);
        assert_eq!(in_flight.oldest(), (1, Some(4)));
        assert_eq!(in_flight.take_oldest().0.last, 4);
    }
}
