//! `sides`: one object for each worker, and one shared object. A worker's object also records a
//! read of its neighbor's. Where each worker commits its own transactions in groups, several groups
//! are in flight until a group writes the shared object and another worker accesses it.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Allocate, Objects, Ptr, Stop, Transact, field};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::{Scenario, generator};

/// Worker objects; further workers share them.
const SIDES: usize = 3;

/// A worker's object.
#[derive(Clone, Copy, Debug, Default, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Side {
    /// Transactions.
    count: u64,
    /// Transactions that have also written the shared object.
    shares: u64,
    /// The next side's count when last read.
    next: u64,
}

/// The shared object.
#[derive(Clone, Copy, Debug, Default, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Middle {
    /// Transactions that have written it.
    total: u64,
    /// Each side's count when it last wrote this object.
    counts: [u64; SIDES],
}

/// The table of the objects.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sides {
    sides: [Ptr<Side>; SIDES],
    middle: Ptr<Middle>,
}

/// One worker's transactions.
#[derive(Clone, Debug)]
pub struct Sharer {
    random: Xoshiro256PlusPlus,
    side: usize,
    /// Whether the current one also writes the shared object.
    shares: bool,
}

impl Scenario for Sides {
    const NAME: &'static str = "sides";
    const HEAP_BYTES: u64 = 256 << 10;
    type Client = Sharer;

    fn load<T: Transact>(worker: &mut T) -> Result<(), T::Error> {
        worker.transact(|tx| {
            let mut sides = [Ptr::NULL; SIDES];
            for side in &mut sides {
                *side = tx.alloc(Side::default())?;
            }
            let middle = tx.alloc(Middle::default())?;
            let table = tx.alloc(Sides { sides, middle })?;
            tx.set_root_ptr(table)
        })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Sides>, T::Error> {
        worker.transact(|tx| {
            let root = tx.root_ptr::<Sides>()?;
            Ok(if root.is_null() { None } else { Some(tx.get(root)?) })
        })
    }

    fn client(&self, worker: usize, seed: u64) -> Sharer {
        Sharer { random: generator(worker, seed), side: worker % SIDES, shares: false }
    }

    fn next(&self, client: &mut Sharer) {
        client.shares = client.random.random_range(0..3) == 0;
    }

    fn run<W: Allocate>(&self, client: &Sharer, tx: &mut W) -> Result<(), Stop> {
        let at = self.sides[client.side];
        let mut side = tx.get(at)?;
        side.count += 1;
        side.next = tx.get(field!(self.sides[(client.side + 1) % SIDES], Side, count))?;
        if client.shares {
            side.shares += 1;
            let mut middle = tx.get(self.middle)?;
            middle.total += 1;
            middle.counts[client.side] = side.count;
            tx.set(self.middle, middle)?;
        }
        tx.set(at, side)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error> {
        let (sides, middle) = worker.transact(|tx| {
            let mut sides = [Side::default(); SIDES];
            for (side, at) in sides.iter_mut().zip(self.sides) {
                *side = tx.get(at)?;
            }
            Ok((sides, tx.get(self.middle)?))
        })?;
        let shares: u64 = sides.iter().map(|side| side.shares).sum();
        let known = sides.iter().zip(middle.counts).all(|(side, count)| count <= side.count);
        // A count that was read has survived.
        let read = (0..SIDES).all(|side| sides[side].next <= sides[(side + 1) % SIDES].count);
        Ok(match shares == middle.total && known && read {
            true => Vec::new(),
            false => vec![format!("{middle:?} and {sides:?}")],
        })
    }
}
