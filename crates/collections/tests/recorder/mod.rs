//! Two transactions on one state: their traces, and whether they conflict.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet as Objects;

use words::mock::Mock;
use words::{Addr, Allocate, Stop, Transact, Words};

/// Bytes of the heap that the second transaction skips, so that the first can allocate there.
pub(crate) const APART: u64 = 64 << 10;

/// A change of the heap.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Write(Addr, u64),
    Retire(Addr, u64),
    Allocate(usize, u64),
    Resize(u64, u64, u64, bool),
}

/// A transaction that notes the objects that it reads and writes.
pub(crate) struct Recorder<'m> {
    mock: &'m mut Mock,
    trace: Trace,
}

#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) reads: Objects<u64>,
    /// Objects written, or protected.
    pub(crate) writes: Objects<u64>,
    pub(crate) changes: Vec<Change>,
}

impl Words for Recorder<'_> {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.trace.reads.insert(at.object);
        self.mock.read(at)
    }
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.trace.writes.insert(at.object);
        self.trace.changes.push(Change::Write(at, value));
        self.mock.write(at, value)
    }
    fn protect(&mut self, at: Addr) -> Result<(), Stop> {
        self.trace.writes.insert(at.object);
        Ok(())
    }
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        self.trace.changes.push(Change::Retire(at, bytes));
        self.mock.retire(at, bytes)
    }
}

impl Allocate for Recorder<'_> {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        let object = self.mock.allocate(bytes)?;
        self.trace.changes.push(Change::Allocate(bytes, object));
        Ok(object)
    }
    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
        let done = self.mock.resize(first, from, to)?;
        self.trace.changes.push(Change::Resize(first, from, to, done));
        Ok(done)
    }
    fn reserve_blocks(&mut self, _: u64) -> Result<u64, Stop> {
        unreachable!("maps have no arrays")
    }
    fn prepare_blocks(&mut self, _: u64, _: u64) -> Result<u64, Stop> {
        unreachable!("maps have no arrays")
    }
    fn allocate_pieces(&mut self, _: u64) -> Result<u64, Stop> {
        unreachable!("these tests have short values")
    }
    fn root(&mut self) -> Result<u64, Stop> {
        self.mock.root()
    }
    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        self.mock.set_root(object)
    }
}

/// Takes `bytes` bytes of the heap, so that the next object lies behind them.
pub(crate) fn skip(tx: &mut Mock, mut bytes: u64) -> Result<(), Stop> {
    while bytes > 0 {
        let part = match bytes {
            0..=1024 => bytes,
            1025..=1056 => 512,
            _ => 1024,
        };
        let object = tx.allocate(part as usize - 16)?;
        tx.retire(Addr::new(object, 0), part - 16)?;
        bytes -= part;
    }
    Ok(())
}

/// Runs a transaction on the present state and undoes it.
pub(crate) fn trace<R>(
    mock: &mut Mock,
    after: u64,
    operation: impl Fn(&mut Recorder<'_>) -> Result<R, Stop>,
) -> (R, Trace) {
    let mut found = None;
    let refused = mock.transact(|tx| {
        skip(tx, after)?;
        let mut recorder = Recorder { mock: tx, trace: Trace::default() };
        let result = operation(&mut recorder)?;
        found = Some((result, recorder.trace));
        Err::<(), Stop>(Stop::Aborted)
    });
    assert_eq!(refused.unwrap_err().stop, Stop::Aborted);
    found.unwrap()
}

/// Commits the changes of a traced transaction.
pub(crate) fn commit(mock: &mut Mock, after: u64, trace: &Trace) {
    mock.transact(|tx| {
        skip(tx, after)?;
        for change in &trace.changes {
            match *change {
                Change::Write(at, value) => tx.write(at, value)?,
                Change::Retire(at, bytes) => tx.retire(at, bytes)?,
                Change::Allocate(bytes, object) => assert_eq!(tx.allocate(bytes)?, object),
                Change::Resize(first, from, to, done) => {
                    assert_eq!(tx.resize(first, from, to)?, done);
                }
            }
        }
        Ok(())
    })
    .unwrap();
}

/// Returns the bytes that a traced transaction took of the heap.
pub(crate) fn taken(trace: &Trace) -> u64 {
    let bytes = |change: &Change| match change {
        Change::Allocate(bytes, _) => bytes.next_multiple_of(16) as u64 + 16,
        _ => 0,
    };
    trace.changes.iter().map(bytes).sum()
}

pub(crate) fn random_below() -> impl FnMut(u64) -> u64 {
    let mut random = 88_172_645_463_325_252_u64;
    move |end| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 16) % end
    }
}

/// Returns whether two changes of one state conflict.
pub(crate) fn conflict<R, S>(
    mock: &mut Mock,
    a: impl Fn(&mut Recorder<'_>) -> Result<R, Stop>,
    b: impl Fn(&mut Recorder<'_>) -> Result<S, Stop>,
) -> bool {
    let (_, a) = trace(mock, 0, a);
    let (_, b) = trace(mock, APART, b);
    !a.writes.is_disjoint(&b.writes)
}
