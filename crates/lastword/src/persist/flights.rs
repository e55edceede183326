//! Groups that have their place in the log and are not acknowledged yet, in ID order.
//!
//! A device acknowledges them in that order. Memory is written by several threads at a time, so
//! there a later group may be whole before an earlier one: it waits here until all before it are.
//!
//! Invariants:
//! - Groups are acknowledged in the order in which they came, each when it is durable.
//! - One thread at a time acknowledges: what that does (the queue, the durable ID) is in order too.

use std::collections::VecDeque;

use medium::Buffer;

use super::queue::Flight;
use crate::sync::{Mutex, lock};

/// A group under way.
#[derive(Debug)]
struct UnderWay {
    flight: Flight,
    /// What is reproduced, when that is not what was sent.
    plain: Option<Buffer>,
    /// Its memory, when it is durable and those before it are not.
    durable: Option<(Buffer, Option<Buffer>)>,
}

/// Sent and not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    under_way: Mutex<VecDeque<UnderWay>>,
}

impl Flights {
    /// A group gets its place; the callers come in ID order.
    pub(crate) fn begin(&self, flight: Flight, plain: Option<Buffer>) {
        lock(&self.under_way).push_back(UnderWay { flight, plain, durable: None });
    }

    /// How many there are, and the first transaction of the oldest.
    pub(crate) fn oldest(&self) -> (usize, Option<u64>) {
        let under_way = lock(&self.under_way);
        (under_way.len(), under_way.front().map(|group| group.flight.first))
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.under_way).is_empty()
    }

    /// The device has acknowledged the oldest one. One thread at a time asks the device, and calls
    /// this.
    pub(crate) fn end_oldest(&self) -> (Option<Buffer>, Flight) {
        let oldest = lock(&self.under_way).pop_front();
        let UnderWay { flight, plain, .. } = oldest.expect("what is acknowledged was sent");
        (plain, flight)
    }

    /// The group that ends at this sequence of the log is durable. It is acknowledged when all
    /// before it are, and with it those behind that have waited for it, by whoever comes last.
    pub(crate) fn land(
        &self,
        end: u64,
        memory: (Buffer, Option<Buffer>),
        mut acknowledged: impl FnMut((Buffer, Option<Buffer>), Flight),
    ) {
        // Held while they are acknowledged: another thread could be faster with the next.
        let mut under_way = lock(&self.under_way);
        let landed = under_way.iter_mut().find(|group| group.flight.end == end);
        landed.expect("what lands was sent").durable = Some(memory);
        while let Some(front) = under_way.front_mut()
            && let Some(memory) = front.durable.take()
        {
            acknowledged(memory, front.flight);
            under_way.pop_front();
        }
    }
}
