//! Groups by way of `pwritev2`: one at a time, written by who waits for it.

use std::io::IoSlice;

use rustix::io::ReadWriteFlags;

use super::under_way::{Failure, Taken, UnderWay};
use crate::Buffer;
use crate::mutants::{Mutant, planted};
use crate::sync::{Mutex, lock};
use crate::system::Handle;

/// Groups under way at most.
pub(super) const DEPTH: usize = 1;

/// That a write is durable when it returns.
fn durable() -> ReadWriteFlags {
    if planted(Mutant::GroupNotSynced) { ReadWriteFlags::empty() } else { ReadWriteFlags::DSYNC }
}

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

    /// The group, written, for who waits.
    pub(super) fn acknowledge(
        &self,
        file: &dyn Handle,
        wait: bool,
    ) -> Result<Option<Taken>, Failure> {
        if !wait {
            return Ok(None);
        }
        let mut under_way = lock(&self.under_way);
        let number = under_way.oldest();
        while let Some((rest, offset)) = under_way.rest(number) {
            let slices = [IoSlice::new(rest)];
            let written = file.write(&slices, offset, durable());
            under_way.complete(number, written);
        }
        under_way.take()
    }
}
