//! The pool's root under every workload, and the steps that build and free its data.
//!
//! ```text
//!   root -> head: kind, size, progress                    parts: its maps and arrays
//!   byte  0  magic                                         (another object, its layout is the
//!         8  name, 16 bytes, padded with zeros              workload's)
//!        24  state: 1 loading, 2 ready, 3 being freed
//!        32  size: the one number that the tables' sizes follow from
//!        40  progress of loading; its unit is the workload's
//!        48  runs begun
//!        56  address of the parts
//! ```
//!
//! Invariants:
//! - Loading is a chain of transactions. Each reads its progress in the head, does one step, and
//!   writes the new progress. A killed load therefore continues where it was, and loses no work.
//! - Everything allocated is reachable from the head in the same transaction.

use words::{Addr, Allocate, Array, Objects, Persist, Ptr, Stop, Transact, field};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

const MAGIC: u64 = u64::from_le_bytes(*b"lw-work1");

/// Blocks that one transaction of loading prepares.
const PREPARED: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(u64)]
enum State {
    Loading = 1,
    Ready = 2,
    Freeing = 3,
}

/// The root object of every workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Head {
    magic: u64,
    name: [u8; 16],
    state: State,
    size: u64,
    progress: u64,
    runs: u64,
    parts: u64,
}

impl Head {
    /// Returns whether it is the head of the workload of this name.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.name == padded(name)
    }
}

/// A workload's tables, as loading sees them.
pub(crate) trait Build {
    const NAME: &'static str;

    /// Its maps and arrays: a value that is fixed from the first transaction on.
    type Parts: Persist;

    /// Reserves all tables, in one transaction.
    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Self::Parts, Stop>;

    /// Loads one step, in one transaction, from this progress (0 is the beginning); returns the
    /// progress after it, or `None` when all is loaded.
    fn step<W: Allocate>(
        parts: Self::Parts,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop>;

    /// Frees a part, in one transaction, also after an unfinished load; returns whether that was
    /// all.
    fn free<W: Allocate>(parts: Self::Parts, tx: &mut W) -> Result<bool, Stop>;
}

/// Builds a workload of this size, or its missing rest; returns its parts.
pub(crate) fn load<B: Build, T: Transact>(worker: &mut T, size: u64) -> Result<B::Parts, T::Error> {
    loop {
        if let Some(parts) = worker.transact(|tx| advance::<B, _>(tx, size))? {
            return Ok(parts);
        }
    }
}

/// Prepares one step of two arrays, for workloads that load nothing else.
///
/// Progress 0: the first one; from 1 on: steps of the second.
pub(crate) fn prepare_both<W: Allocate, A: Persist, B: Persist>(
    tx: &mut W,
    first: Array<A>,
    second: Array<B>,
    progress: u64,
) -> Result<Option<u64>, Stop> {
    if progress == 0 {
        return Ok(Some(u64::from(first.prepare(tx, PREPARED)?)));
    }
    let is_prepared = second.prepare(tx, PREPARED)?;
    Ok((!is_prepared).then_some(progress + 1))
}

/// Returns the size and the parts of a loaded workload.
pub(crate) fn open<B: Build, T: Transact>(
    worker: &mut T,
) -> Result<Option<(u64, B::Parts)>, T::Error> {
    worker.transact(|tx| match head(tx)? {
        Some((_, head)) if head.is_of(B::NAME) && head.state == State::Ready => {
            Ok(Some((head.size, tx.get(Ptr::<B::Parts>::from_bits(head.parts))?)))
        }
        _ => Ok(None),
    })
}

/// Returns the name of the workload whose data this pool holds, whole or half built.
///
/// # Errors
/// The transaction's error.
pub fn name_in<T: Transact>(worker: &mut T) -> Result<Option<&'static str>, T::Error> {
    let head = worker.transact(|tx| Ok(head(tx)?.map(|(_, head)| head)))?;
    Ok(head.and_then(|head| crate::NAMES.into_iter().find(|name| head.is_of(name))))
}

/// Assigns the number of a new run on this pool, durably with its transaction: 1, 2, ... Returns
/// `None` when the root is not a workload's. Use it as the seed of the run's clients, or as a part
/// of it that makes the seeds modulo 16 383 ascend.
///
/// # Errors
/// The transaction's error.
pub fn next_run<T: Transact>(worker: &mut T) -> Result<Option<u64>, T::Error> {
    worker.transact(|tx| {
        let Some((root, head)) = head(tx)? else {
            return Ok(None);
        };
        let run = head.runs.wrapping_add(1);
        tx.set(field!(root, Head, runs), run)?;
        Ok(Some(run))
    })
}

/// Modulus of the runs in clients' seeds.
const RUNS: u64 = 16_383;

/// Returns the seed of the clients of a run. Its remainder by 16 383 is the run's, so that runs on
/// one pool ascend and any `seed` gives other transactions.
pub fn client_seed(seed: u64, run: u64) -> u64 {
    (seed & ((1 << 40) - 1)) * RUNS + run % RUNS
}

/// Runs one transaction of a load; returns the parts once they are loaded.
fn advance<B: Build, W: Allocate>(tx: &mut W, size: u64) -> Result<Option<B::Parts>, Stop> {
    let Some((root, head)) = head(tx)? else {
        if tx.root()? != 0 {
            return Err(Stop::Aborted); // another program's data, which we cannot free
        }
        create::<B, W>(tx, size)?;
        return Ok(None);
    };
    if !head.is_of(B::NAME) || head.size != size || head.state == State::Freeing {
        tx.set(field!(root, Head, state), State::Freeing)?;
        if crate::free_by_name(tx, &head)? {
            tx.free(root)?;
            tx.set_root(0)?;
        }
        return Ok(None);
    }
    let parts = tx.get(Ptr::<B::Parts>::from_bits(head.parts))?;
    if head.state == State::Ready {
        return Ok(Some(parts));
    }
    match B::step(parts, tx, size, head.progress)? {
        Some(progress) => tx.set(field!(root, Head, progress), progress)?,
        None => tx.set(field!(root, Head, state), State::Ready)?,
    }
    Ok(None)
}

fn create<B: Build, W: Allocate>(tx: &mut W, size: u64) -> Result<(), Stop> {
    let parts = B::reserve(tx, size)?;
    let parts = tx.alloc(parts)?.to_bits();
    let (name, state) = (padded(B::NAME), State::Loading);
    let root = tx.alloc(Head { magic: MAGIC, name, state, size, progress: 0, runs: 0, parts })?;
    tx.set_root(root.to_bits())
}

/// Frees some of the data under a head; returns whether all of it is freed, the parts object too.
pub(crate) fn free_parts<B: Build, W: Allocate>(tx: &mut W, head: &Head) -> Result<bool, Stop> {
    let object = Ptr::<B::Parts>::from_bits(head.parts);
    let parts = tx.get(object)?;
    let done = B::free(parts, tx)?;
    if done {
        tx.free(object)?;
    }
    Ok(done)
}

/// Returns the root, when it is a workload's head.
fn head<W: Allocate>(tx: &mut W) -> Result<Option<(Ptr<Head>, Head)>, Stop> {
    let root = tx.root()?;
    // The magic first: another program's root may be smaller than a head.
    if root == 0 || tx.read(Addr::new(root, 0))? != MAGIC {
        return Ok(None);
    }
    let root = Ptr::from_bits(root);
    Ok(Some((root, tx.get(root)?)))
}

fn padded(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}
