//! Groups in flight: placed in the log and not acknowledged, in ID order.
//!
//! A device acknowledges groups in that order. Several threads write to memory at a time, so a
//! later group may be durable before an earlier one. It waits here until all earlier groups are
//! durable.
//!
//! Invariants:
//! - Groups are acknowledged in ID order, each after it is durable.
//! - One thread at a time acknowledges. Its effects (queue, durable ID) are therefore in order too.

use std::collections::VecDeque;

use medium::Buffer;
use medium::mutants::{Mutant, planted};

use super::queue::Flight;
use crate::sync::{Mutex, lock};

/// A group in flight.
#[derive(Debug)]
struct InFlight {
    flight: Flight,
    /// The writes to reproduce, where they differ from the bytes that were sent.
    plain: Option<Buffer>,
    /// Its memory, while it is durable and an earlier group is not.
    durable: Option<(Buffer, Option<Buffer>)>,
}

/// The groups in flight.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    under_way: Mutex<VecDeque<InFlight>>,
}

impl Flights {
    /// Adds a group that has its place. Callers come in ID order.
    pub(crate) fn begin(&self, flight: Flight, plain: Option<Buffer>) {
        lock(&self.under_way).push_back(InFlight { flight, plain, durable: None });
    }

    /// Returns the number of groups in flight, and the first transaction of the oldest.
    pub(crate) fn oldest(&self) -> (usize, Option<u64>) {
        let under_way = lock(&self.under_way);
        (under_way.len(), under_way.front().map(|group| group.flight.first))
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.under_way).is_empty()
    }

    /// Removes the oldest group, which the device has acknowledged. One thread at a time polls the
    /// device and calls this.
    pub(crate) fn end_oldest(&self) -> (Option<Buffer>, Flight) {
        let oldest = lock(&self.under_way).pop_front();
        let InFlight { flight, plain, .. } = oldest.expect("an acknowledged group is in flight");
        (plain, flight)
    }

    /// Marks the group that ends at this log sequence as durable. It is acknowledged as soon as all
    /// earlier groups are durable; the last thread to finish acknowledges the groups that wait
    /// after its own.
    pub(crate) fn land(
        &self,
        end: u64,
        memory: (Buffer, Option<Buffer>),
        mut acknowledged: impl FnMut((Buffer, Option<Buffer>), Flight),
    ) {
        // Held during acknowledgement: otherwise another thread could acknowledge the next group
        // first.
        let mut under_way = lock(&self.under_way);
        let landed = under_way.iter_mut().find(|group| group.flight.end == end);
        landed.expect("a durable group is in flight").durable = Some(memory);
        if planted(Mutant::GroupsAcknowledgedAsTheyLand) {
            while let Some(at) = under_way.iter().position(|group| group.durable.is_some())
                && let Some(mut group) = under_way.remove(at)
                && let Some(memory) = group.durable.take()
            {
                acknowledged(memory, group.flight);
            }
        }
        while let Some(front) = under_way.front_mut()
            && let Some(memory) = front.durable.take()
        {
            let flight = front.flight;
            if planted(Mutant::GroupAcknowledgedWithoutLock) {
                under_way.pop_front();
                drop(under_way);
                acknowledged(memory, flight);
                under_way = lock(&self.under_way);
                continue;
            }
            acknowledged(memory, flight);
            under_way.pop_front();
        }
    }
}
