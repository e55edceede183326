//! Group writes by a queue that a simulated machine has: several in flight, completed in any
//! order and in pieces, as io_uring does.

use super::in_flight::{Failure, GroupFile, InFlight, Next, Taken};
use super::uring::DEPTH;
use crate::buffer::Buffer;
use crate::sync::{Mutex, lock};
use system::SimulatedQueue;

/// Groups in flight.
#[derive(Debug)]
pub(super) struct Queued {
    queue: Box<dyn SimulatedQueue>,
    in_flight: Mutex<InFlight>,
}

impl Queued {
    pub(super) fn new(queue: Box<dyn SimulatedQueue>) -> Queued {
        Queued { queue, in_flight: Mutex::new(InFlight::new(DEPTH)) }
    }

    /// Sends the first `words` words of a group to `offset` of the file.
    ///
    /// # Panics
    /// If [`DEPTH`] groups are already in flight.
    pub(super) fn append(&self, file: &dyn GroupFile, offset: u64, group: Buffer, words: usize) {
        let mut in_flight = lock(&self.in_flight);
        assert!(in_flight.len() < DEPTH, "{DEPTH} groups are in flight at most");
        let number = in_flight.add(offset, group, words);
        self.send(file, &mut in_flight, number);
    }

    /// The oldest group, once it is durable.
    pub(super) fn acknowledge(
        &self,
        file: &dyn GroupFile,
        wait: bool,
    ) -> Result<Option<Taken>, Failure> {
        let mut in_flight = lock(&self.in_flight);
        loop {
            let oldest = in_flight.take()?;
            if oldest.is_some() || in_flight.len() == 0 {
                return Ok(oldest);
            }
            let Some((number, result)) = self.queue.completion(wait) else { return Ok(None) };
            match in_flight.complete(number, result) {
                Next::Nothing => {}
                Next::Submit => self.send(file, &mut in_flight, number),
                Next::Write => in_flight.write(number, file),
            }
        }
    }

    /// Whether groups are written by blocking calls, because the queue did not write one.
    pub(super) fn is_blocking(&self) -> bool {
        lock(&self.in_flight).is_blocking()
    }

    fn send(&self, file: &dyn GroupFile, in_flight: &mut InFlight, number: u64) {
        if in_flight.is_blocking() {
            return in_flight.write(number, file);
        }
        if let Some((rest, offset)) = in_flight.rest(number) {
            self.queue.submit(number, offset, rest);
        }
    }
}
