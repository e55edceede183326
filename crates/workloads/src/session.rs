//! `session-store`, `btree-update`: 64-bit values in a B+-tree with Zipf-distributed keys, read or
//! overwritten one a transaction (DudeTM, sections 5.4 and 5.5).
//!
//! | | keys at scale 1 | write, of 100 | words written |
//! |---|---|---|---|
//! | `session-store` | 10 000 | 50 | 1 |
//! | `btree-update` | 23 000 000: a tree of 650 MB in a heap of 1 GB | 100 | 1 |
//!
//! Keys are 0, 1, 2, ..., all of them always present. Zipf's exponent is 0.99 unless `--zipf` sets
//! another; hot keys are not neighbours. `session-store` measures log combination. Its values look
//! random, as in that experiment: a value is the stamp of its transaction, mixed invertibly.
//! `btree-update` measures paging.

use std::hint::black_box;

use collections::raw::BTreeMap;
use words::{Allocate, Stop, Transact, Words, work};

use crate::keys::{KeyClient, mix, unmix};
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::tree;
use crate::violation::Violations;
use crate::{Options, Supported, Violation, Workload, lock, scaled, with_slack};

/// Keys at scale 1 of `session-store`, as the paper has it.
const SESSIONS: u64 = 10_000;

/// Keys at scale 1 of `btree-update`: 19 of them in a node of 512 bytes, the working set of the
/// paper's paging experiment.
const UPDATED: u64 = 23_000_000;

/// The heap of `btree-update` at scale 1.
const UPDATED_BYTES: u64 = 1 << 30;

/// Default exponent of the Zipf distribution.
const ZIPF: f64 = 0.99;

/// Keys that one transaction of loading inserts.
const BATCH: u64 = 256;

/// Nodes that one transaction frees.
const FREED: u64 = 256;

/// Pairs that one transaction of the check reads.
const CHECKED: u64 = 4096;

/// A tree of values that are overwritten.
#[derive(Clone, Copy, Debug)]
pub struct Sessions<const LARGE: bool> {
    tree: BTreeMap,
    /// Keys are below this.
    end: u64,
}

/// 10 000 keys, read or overwritten.
pub type SessionStore = Sessions<false>;

/// 650 MB, overwritten.
pub type BtreeUpdate = Sessions<true>;

/// Returns the tree's value for a stamped value.
#[inline]
fn disguised(value: u64, key: u64) -> u64 {
    mix(value ^ key.rotate_left(17))
}

#[inline]
fn undisguised(found: u64, key: u64) -> u64 {
    unmix(found) ^ key.rotate_left(17)
}

impl<const LARGE: bool> Build for Sessions<LARGE> {
    const NAME: &'static str = if LARGE { "btree-update" } else { "session-store" };
    type Parts = BTreeMap;

    fn reserve<W: Allocate>(tx: &mut W, _size: u64) -> Result<BTreeMap, Stop> {
        BTreeMap::create(tx)
    }

    /// Progress n: key n is next.
    fn step<W: Allocate>(
        tree: BTreeMap,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let end = (progress + BATCH).min(size);
        for key in progress..end {
            tree.insert(tx, key, disguised(Stamp::LOADED.value(key), key))?;
        }
        Ok((end < size).then_some(end))
    }

    fn free<W: Allocate>(tree: BTreeMap, tx: &mut W) -> Result<bool, Stop> {
        tree.free(tx, FREED)
    }
}

impl<const LARGE: bool> Workload for Sessions<LARGE> {
    const NAME: &'static str = <Self as Build>::NAME;
    const ABOUT: &'static str = if LARGE {
        "b+-tree of 650 MB: overwrite a key by Zipf's law (measures paging)"
    } else {
        "10 000 keys in a b+-tree: read or overwrite one by Zipf's law"
    };
    const SUPPORTS: Supported = KeyClient::SUPPORTS;
    const READS: bool = true;
    type Client = KeyClient;

    fn heap_bytes(options: &Options) -> u64 {
        let needed = with_slack(tree::bytes_ascending::<28>(Self::keys(options)));
        if LARGE { needed.max(scaled(UPDATED_BYTES, options, 0)) } else { needed }
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Self, T::Error> {
        let end = Self::keys(options);
        Ok(Sessions { tree: root::load::<Self, T>(worker, end)?, end })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        let found = root::open::<Self, T>(worker)?;
        Ok(found.map(|(end, tree)| Sessions { tree, end }))
    }

    fn client(&self, index: usize, seed: u64) -> KeyClient {
        let mut client = KeyClient::new(index, seed);
        self.tune(&mut client, &Options::default());
        client
    }

    fn tune(&self, client: &mut KeyClient, options: &Options) {
        let share = if LARGE { 100 } else { 50 };
        let update_percent = options.update_percent.or(Some(share));
        let zipf = options.zipf.or(Some(ZIPF));
        client.tune(&Options { update_percent, zipf, ..*options }, self.end);
    }

    #[inline]
    fn next(&self, client: &mut KeyClient) {
        client.advance(self.end);
    }

    #[inline]
    fn reads_only(&self, client: &KeyClient) -> bool {
        client.reads
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &KeyClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        tx.lock(lock::ALL)?; // values of many keys share a line
        if client.reads {
            black_box(self.tree.get(tx, client.key)?.ok_or(Stop::BadValue)?);
            return Ok(());
        }
        let value = disguised(client.value(), client.key);
        self.tree.update(tx, client.key, |_| value)?.map(drop).ok_or(Stop::BadValue)
    }

    fn is_present<W: Words>(&self, client: &KeyClient, tx: &mut W) -> Result<bool, Stop> {
        tx.lock(lock::ALL)?; // values of many keys share a line
        let found = self.tree.get(tx, client.key)?;
        Ok(client.is_in(found.map(|found| undisguised(found, client.key))))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let (mut violations, mut expected) = (Violations::default(), 0);
        let visit = |_: &mut T, pairs: &[(u64, u64)], violations: &mut Violations| {
            for &(key, found) in pairs {
                if key >= self.end {
                    violations.add(Violation::Key { end: self.end, found: key });
                } else if Stamp::of(undisguised(found, key), key).is_none() {
                    violations.add(Violation::Value { key, found });
                }
                expected += u64::from(key == expected);
            }
            Ok(())
        };
        if tree::check(worker, self.tree, CHECKED, &mut violations, visit)? {
            violations.expect("keys from 0 on", self.end, expected);
        }
        Ok(violations.0)
    }
}

impl<const LARGE: bool> Sessions<LARGE> {
    fn keys(options: &Options) -> u64 {
        scaled(if LARGE { UPDATED } else { SESSIONS }, options, 64)
    }
}
