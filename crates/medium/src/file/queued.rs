//! Groups by way of a queue that a recorded machine plays: several under way, completed in any
//! order and in pieces, as io_uring does it.

use super::under_way::{Failure, GroupFile, Next, Taken, UnderWay};
use super::uring::DEPTH;
use crate::Buffer;
use crate::recording::Queue;
use crate::sync::{Mutex, lock};

/// The groups that are under way.
#[derive(Debug)]
pub(super) struct Queued {
    queue: Queue,
    under_way: Mutex<UnderWay>,
}

impl Queued {
    pub(super) fn new(queue: Queue) -> Queued {
        Queued { queue, under_way: Mutex::new(UnderWay::new(DEPTH)) }
    }

    /// Sends the first `words` words of a group to `offset` of the file.
    ///
    /// # Panics
    /// When [`DEPTH`] groups are under way.
    pub(super) fn append(&self, file: &dyn GroupFile, offset: u64, group: Buffer, words: usize) {
        let mut under_way = lock(&self.under_way);
        assert!(under_way.len() < DEPTH, "{DEPTH} groups are under way at most");
        let number = under_way.add(offset, group, words);
        self.send(file, &mut under_way, number);
    }

    /// The oldest group, once it is durable.
    pub(super) fn acknowledge(
        &self,
        file: &dyn GroupFile,
        wait: bool,
    ) -> Result<Option<Taken>, Failure> {
        let mut under_way = lock(&self.under_way);
        loop {
            let oldest = under_way.take()?;
            if oldest.is_some() || under_way.len() == 0 {
                return Ok(oldest);
            }
            let Some((number, result)) = self.queue.completion(wait) else { return Ok(None) };
            match under_way.complete(number, result) {
                Next::Nothing => {}
                Next::Submit => self.send(file, &mut under_way, number),
                Next::Write => under_way.write(number, file),
            }
        }
    }

    /// Whether groups are written by blocking calls, because the queue did not write one.
    pub(super) fn is_blocking(&self) -> bool {
        lock(&self.under_way).is_blocking()
    }

    fn send(&self, file: &dyn GroupFile, under_way: &mut UnderWay, number: u64) {
        if under_way.is_blocking() {
            return under_way.write(number, file);
        }
        if let Some((rest, offset)) = under_way.rest(number) {
            self.queue.submit(number, offset, rest);
        }
    }
}
