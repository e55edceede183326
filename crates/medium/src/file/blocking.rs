//! Group writes by `pwritev2`: one group in flight, written by the thread that waits for it. The
//! call is `Target::write_blocking`.

use super::in_flight::{Failure, GroupFile, InFlight, Taken};
use crate::buffer::Buffer;
use crate::sync::{Mutex, lock};

/// Maximum number of groups in flight.
pub(super) const DEPTH: usize = 1;

/// The group that is to be written.
#[derive(Debug)]
pub(super) struct Blocking {
    /// Locked while it is written, so that one thread at a time does.
    in_flight: Mutex<InFlight>,
}

impl Blocking {
    pub(super) fn new() -> Blocking {
        Blocking { in_flight: Mutex::new(InFlight::new(DEPTH)) }
    }

    /// Accepts the first `words` words of a group for `offset` of the file.
    ///
    /// # Panics
    /// If a group is already in flight.
    pub(super) fn append(&self, offset: u64, group: Buffer, words: usize) {
        let mut in_flight = lock(&self.in_flight);
        assert!(in_flight.len() < DEPTH, "{DEPTH} group is in flight at most");
        in_flight.add(offset, group, words);
    }

    /// The group, written, if the caller waits.
    pub(super) fn acknowledge(
        &self,
        file: &dyn GroupFile,
        wait: bool,
    ) -> Result<Option<Taken>, Failure> {
        if !wait {
            return Ok(None);
        }
        let mut in_flight = lock(&self.in_flight);
        let number = in_flight.oldest();
        in_flight.write(number, file);
        in_flight.take()
    }
}
