//! Transactions that conflict: at every access of an operation, and two on one state.
#![allow(dead_code, clippy::unwrap_used, reason = "each test program uses a part")]

use std::collections::BTreeSet;
use std::fmt::Debug;

use words::mock::Mock;
use words::{Addr, Allocate, Stop, Transact, Words};

/// Returns a generator of random numbers below an end (xorshift).
pub(crate) fn random_below() -> impl FnMut(u64) -> u64 {
    let mut random = 88_172_645_463_325_252_u64;
    move |end| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % end
    }
}

/// Runs `operation` with a conflict at its n-th access, for every n: it is atomic, and the
/// collection stays sound. Returns the number of accesses.
pub(crate) fn conflict_everywhere<M: Copy, R: PartialEq + Debug>(
    setup: impl Fn(&mut Mock) -> M,
    operation: impl Fn(&mut Mock, M) -> Result<R, Stop>,
    check: impl Fn(&mut Mock, M) -> u64,
) -> u64 {
    let mut undisturbed = Mock::new(1 << 20);
    let map = setup(&mut undisturbed);
    let expected = undisturbed.transact(|tx| operation(tx, map)).unwrap();
    let entries = check(&mut undisturbed, map);
    let live = undisturbed.live();
    for access in 0.. {
        let mut mock = Mock::new(1 << 20);
        let map = setup(&mut mock);
        mock.conflict_after(access);
        let found = mock.transact(|tx| operation(tx, map)).unwrap();
        let is_over = mock.take_conflict();
        assert_eq!(found, expected, "conflict at access {access}");
        assert_eq!(check(&mut mock, map), entries, "conflict at access {access}");
        assert_eq!(mock.live(), live, "conflict at access {access}");
        if is_over {
            return access;
        }
    }
    unreachable!("an operation has a last access");
}

/// The unit of conflicts that has an address.
pub(crate) type Unit = fn(Addr) -> u64;

/// Notes the objects, or the 512 bytes, that a transaction reads and writes.
pub(crate) struct Recorder<'m> {
    mock: &'m mut Mock,
    unit: Unit,
    read: BTreeSet<u64>,
    written: BTreeSet<u64>,
    /// All changes, oldest first.
    changes: Vec<Change>,
}

/// A change that a transaction makes.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Allocate(usize, u64),
    Write(Addr, u64),
    Protect(Addr),
    Resize(u64, u64, u64, bool),
    Retire(Addr, u64),
}

impl<'m> Recorder<'m> {
    fn new(mock: &'m mut Mock, unit: Unit) -> Recorder<'m> {
        let (read, written) = (BTreeSet::new(), BTreeSet::new());
        Recorder { mock, unit, read, written, changes: Vec::new() }
    }
}

/// The units of conflicts of one transaction.
pub(crate) struct Footprint {
    pub(crate) read: BTreeSet<u64>,
    pub(crate) written: BTreeSet<u64>,
}

impl Footprint {
    /// Returns whether two transactions that run at once conflict.
    pub(crate) fn conflicts(&self, other: &Footprint) -> bool {
        let writes = |a: &Footprint, b: &Footprint| {
            !a.written.is_disjoint(&b.written) || !a.written.is_disjoint(&b.read)
        };
        writes(self, other) || writes(other, self)
    }
}

impl Words for Recorder<'_> {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.read.insert((self.unit)(at));
        self.mock.read(at)
    }
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.written.insert((self.unit)(at));
        self.changes.push(Change::Write(at, value));
        self.mock.write(at, value)
    }
    fn protect(&mut self, at: Addr) -> Result<(), Stop> {
        self.written.insert((self.unit)(at));
        self.changes.push(Change::Protect(at));
        self.mock.protect(at)
    }
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        self.changes.push(Change::Retire(at, bytes));
        self.mock.retire(at, bytes)
    }
}

impl Allocate for Recorder<'_> {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        let object = self.mock.allocate(bytes)?;
        self.changes.push(Change::Allocate(bytes, object));
        Ok(object)
    }
    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        self.mock.reserve_blocks(blocks)
    }
    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
        self.mock.prepare_blocks(first, most)
    }
    fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop> {
        self.mock.allocate_pieces(bytes)
    }
    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
        let done = self.mock.resize(first, from, to)?;
        self.changes.push(Change::Resize(first, from, to, done));
        Ok(done)
    }
    fn root(&mut self) -> Result<u64, Stop> {
        self.mock.root()
    }
    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        self.mock.set_root(object)
    }
}

/// Returns the footprint of a transaction in the units that exist before it, and undoes it.
pub(crate) fn footprint<R>(
    mock: &mut Mock,
    unit: Unit,
    body: impl Fn(&mut Recorder<'_>) -> Result<R, Stop>,
) -> Footprint {
    // Memory that it allocates would be given to one of two concurrent transactions only.
    let (last, bytes) = *mock.live().last().unwrap();
    let end = unit(Addr::new(last + bytes, 0));
    let mut footprint = Footprint { read: BTreeSet::new(), written: BTreeSet::new() };
    let refused = mock.transact(|tx| {
        let mut recorder = Recorder::new(tx, unit);
        body(&mut recorder)?;
        let Recorder { mut read, mut written, .. } = recorder;
        read.retain(|&unit| unit < end);
        written.retain(|&unit| unit < end);
        footprint = Footprint { read, written };
        Err::<(), Stop>(Stop::Aborted)
    });
    assert_eq!(refused.unwrap_err().stop, Stop::Aborted);
    footprint
}

/// The units of conflicts: objects under `snapshot`, 512 bytes under most designs.
pub(crate) const UNITS: [(&str, Unit); 2] =
    [("objects", |at| at.object), ("stripes", |at| at.byte() / 512)];

/// Returns how many of 1000 pairs of transactions conflict.
pub(crate) fn conflicts(footprints: &[Footprint]) -> usize {
    let pairs =
        (0..1000).map(|n| (n * 7919 % footprints.len(), (n * 104_729 + 1) % footprints.len()));
    pairs.filter(|&(a, b)| a != b && footprints[a].conflicts(&footprints[b])).count()
}

/// Returns the changes of a transaction, and undoes them. It is given memory after `spacers`
/// objects.
pub(crate) fn changes<R>(
    mock: &mut Mock,
    spacers: usize,
    body: impl Fn(&mut Recorder<'_>) -> Result<R, Stop>,
) -> (R, Vec<Change>) {
    let mut found = None;
    let refused = mock.transact(|tx| {
        for _ in 0..spacers {
            tx.allocate(1008)?;
        }
        let mut recorder = Recorder::new(tx, UNITS[0].1);
        let result = body(&mut recorder)?;
        found = Some((result, recorder.changes));
        Err::<(), Stop>(Stop::Aborted)
    });
    assert_eq!(refused.unwrap_err().stop, Stop::Aborted);
    found.unwrap()
}

/// Returns the objects that are written or protected elsewhere than in the word of the length.
pub(crate) fn written(changes: &[Change], length: Option<Addr>) -> BTreeSet<u64> {
    let object = |change: &Change| match *change {
        Change::Write(at, _) if Some(at) != length => Some(at.object),
        Change::Protect(at) => Some(at.object),
        _ => None,
    };
    changes.iter().filter_map(object).collect()
}

/// Makes changes that were undone, in the same memory.
pub(crate) fn redo(mock: &mut Mock, changes: &[Change]) {
    let allocates = |change: &&Change| matches!(change, Change::Allocate(..));
    let first = changes.iter().find(allocates).cloned();
    mock.transact(|tx| {
        let mut spacers = Vec::new();
        if let Some(Change::Allocate(_, first)) = first {
            // Memory in multiples of 16 bytes, each object with 16 more.
            let probe = tx.allocate(16)?;
            spacers.push((probe, 16));
            let mut left = (first - probe - 32) as usize;
            while left > 0 {
                let bytes = if left > 1040 { 496 } else { left - 16 };
                spacers.push((tx.allocate(bytes)?, bytes));
                left -= bytes + 16;
            }
        }
        for change in changes {
            match *change {
                Change::Allocate(bytes, object) => assert_eq!(tx.allocate(bytes)?, object),
                Change::Write(at, value) => tx.write(at, value)?,
                Change::Retire(at, bytes) => tx.retire(at, bytes)?,
                Change::Resize(first, from, to, done) => {
                    assert_eq!(tx.resize(first, from, to)?, done);
                }
                Change::Protect(_) => {}
            }
        }
        spacers.iter().try_for_each(|&(at, bytes)| tx.retire(Addr::new(at, 0), bytes as u64))
    })
    .unwrap();
}
