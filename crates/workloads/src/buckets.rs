//! A hash table of chains, with the stamp of the last change beside each chain's first link.
//!
//! ```text
//!   buckets: 16 to a block of 256 bytes       | entry | stamp | 0 | stamp | entry | stamp | ...
//!                                                |
//!                                                v
//!                                             | key | next | value | -> ... -> 0
//! ```

use collections::raw::Chain;
use words::{Addr, Allocate, Array, BLOCK_STRIDE, Place, Stop, Transact, Words, work};
use zerocopy::transmute;

use crate::keys::mix;
use crate::ticket_map::TicketMap;
use crate::violation::Violation;

/// Blocks that one transaction prepares, and entries that one frees.
const STEP: u64 = 256;

/// Buckets that one transaction of a check reads.
const CHECKED: u64 = 1024;

/// A table with at least as many buckets as keys.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    buckets: Array<[u64; 2]>,
}

impl Buckets {
    #[inline]
    fn bucket(self, key: u64) -> Result<Addr, Stop> {
        // The length may be 0 in a damaged pool.
        Ok(self.buckets.at(mix(key) % self.buckets.len().max(1))?.addr())
    }

    #[inline]
    fn chain<W: Words>(self, tx: &mut W, key: u64) -> Result<Chain<1>, Stop> {
        tx.compute(work::HASH);
        self.bucket(key).map(Chain::at)
    }
}

impl TicketMap for Buckets {
    fn heap_bytes(end: u64) -> u64 {
        (end / 16 + 1) * BLOCK_STRIDE + end * 64
    }

    fn reserve<W: Allocate>(tx: &mut W, end: u64) -> Result<Buckets, Stop> {
        Ok(Buckets { buckets: Array::reserve(tx, end.max(1))? })
    }

    fn prepare<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop> {
        self.buckets.prepare(tx, STEP)
    }

    #[inline]
    fn mark(self, key: u64) -> Result<Option<Addr>, Stop> {
        Ok(Some(self.bucket(key)?.plus(8)))
    }

    #[inline]
    fn find<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<Addr>, Stop> {
        self.chain(tx, key)?.find(tx, key)
    }

    #[inline]
    fn insert<W: Allocate>(self, tx: &mut W, key: u64, value: u64) -> Result<Option<u64>, Stop> {
        let before = self.chain(tx, key)?.replace(tx, key, &[value])?;
        Ok(before.map(|[value]| value))
    }

    #[inline]
    fn remove<W: Words>(self, tx: &mut W, key: u64) -> Result<Option<u64>, Stop> {
        Ok(self.chain(tx, key)?.remove(tx, key)?.map(|[value]| value))
    }

    fn pairs<T: Transact>(
        self,
        worker: &mut T,
        violations: &mut Vec<Violation>,
    ) -> Result<Option<Vec<(u64, u64)>>, T::Error> {
        let (mut all, len) = (Vec::new(), self.buckets.len());
        for first in (0..len).step_by(CHECKED as usize) {
            let found = worker.transact(|tx| {
                let mut found = Vec::new();
                for bucket in first..(first + CHECKED).min(len) {
                    let chain = Chain::<1>::at(self.buckets.at(bucket)?.addr());
                    chain.scan(tx, |key, &[value]| found.push((bucket, key, value)))?;
                }
                Ok(found)
            })?;
            for (bucket, key, value) in found {
                if mix(key) % len != bucket {
                    violations.push(Violation::Key { end: bucket, found: key });
                }
                all.push((key, value));
            }
        }
        Ok(Some(all))
    }

    fn free<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop> {
        // Unprepared blocks cannot be read.
        if !self.prepare(tx)? {
            return Ok(false);
        }
        let mut left = STEP;
        for bucket in 0..self.buckets.len() {
            left -= Chain::<1>::at(self.buckets.at(bucket)?.addr()).free(tx, left)?;
            if left == 0 {
                return Ok(false);
            }
        }
        self.buckets.free(tx).map(|()| true)
    }

    fn to_words(self) -> [u64; 3] {
        let [first, len]: [u64; 2] = transmute!(self.buckets);
        [first, len, 0]
    }

    fn from_words([first, len, _]: [u64; 3]) -> Buckets {
        Buckets { buckets: transmute!([first, len]) }
    }
}
