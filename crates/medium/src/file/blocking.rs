//! Groups by way of `pwritev2`: one at a time, written by the thread that waits for it.

use super::under_way::{Failure, GroupFile, Taken, UnderWay};
use crate::Buffer;
use crate::sync::{Mutex, lock};

/// Groups under way at most.
pub(super) const DEPTH: usize = 1;

/// The group that is to be written.
#[derive(Debug)]
pub(super) struct Blocking {
    /// Locked while it is written, so that one thread at a time does.
    under_way: Mutex<UnderWay>,
}

impl Blocking {
    pub(super) fn new() -> Blocking {
        Blocking { under_way: Mutex::new(UnderWay::new(DEPTH)) }
    }

    /// Takes the first `words` words of a group that goes to `offset` of the file.
    ///
    /// # Panics
    /// When a group is under way.
    pub(super) fn append(&self, offset: u64, group: Buffer, words: usize) {
        let mut under_way = lock(&self.under_way);
        assert!(under_way.len() < DEPTH, "{DEPTH} group is under way at most");
        under_way.add(offset, group, words);
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
        let mut under_way = lock(&self.under_way);
        let number = under_way.oldest();
        under_way.write(number, file);
        under_way.take()
    }
}
