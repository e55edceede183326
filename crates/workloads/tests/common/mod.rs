//! Helpers: workloads on the mock.

#![allow(dead_code, clippy::unwrap_used, reason = "each test program uses a part")]

use std::num::NonZero;
use std::sync::Mutex;
use std::thread;

use words::mock::Mock;
use words::{Addr, Allocate, Erased, ErasedTx, Stop, Transact, Words};
use workloads::{AnyClient, AnyWorkload, Kind, Options, Violation};

pub(crate) const SMALL: Options = Options {
    scale: 0.0005,
    seed: 1,
    workers: 3,
    update_percent: None,
    zipf: None,
    low_conflict: false,
    data: None,
};

/// Runs a test on each of these workloads, on all cores: the longest test of a program would leave
/// the others idle.
pub(crate) fn on_each(kinds: impl Iterator<Item = Kind> + Send, test: fn(Kind)) {
    let kinds = Mutex::new(kinds);
    let next = || kinds.lock().unwrap().next();
    let run = || {
        while let Some(kind) = next() {
            test(kind);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(run);
        }
    });
}

/// Loads a workload into a heap.
pub(crate) fn loaded(kind: Kind, options: &Options) -> (Mock, AnyWorkload) {
    let mut mock = Mock::forgiving(kind.heap_bytes(options) as usize);
    let workload = load(kind, &mut mock, options);
    (mock, workload)
}

pub(crate) fn load(kind: Kind, mock: &mut Mock, options: &Options) -> AnyWorkload {
    kind.load(&mut Erased::any(mock), options).unwrap()
}

pub(crate) fn open(kind: Kind, mock: &mut Mock) -> Option<AnyWorkload> {
    kind.open(&mut Erased::any(mock)).unwrap()
}

pub(crate) fn check(workload: &AnyWorkload, mock: &mut Mock) -> Vec<Violation> {
    workload.check(&mut Erased::any(mock)).unwrap()
}

/// Alternates transactions of these clients.
pub(crate) fn run(
    mock: &mut Mock,
    workload: &AnyWorkload,
    clients: &mut [AnyClient],
    rounds: usize,
) {
    for _ in 0..rounds {
        for client in &mut *clients {
            workload.next(client);
            run_one(mock, workload, client);
        }
    }
}

/// Runs the client's transaction, which must end as the workload declares.
pub(crate) fn run_one(mock: &mut Mock, workload: &AnyWorkload, client: &AnyClient) {
    let name = workload.kind().name;
    let mut written = 0;
    let done = mock.transact(|tx| {
        let mut counting = Torn { mock: tx, left: usize::MAX, asked: 0 };
        let done = workload.run(client, &mut ErasedTx::new(&mut counting));
        written = counting.asked;
        done
    });
    let expected = if workload.gives_up(client) { Err(Stop::Aborted) } else { Ok(()) };
    assert_eq!(done.map_err(|refused| refused.stop), expected, "{name}");
    assert!(written == 0 || !workload.reads_only(client), "{name} wrote");
}

pub(crate) fn is_present(mock: &mut Mock, workload: &AnyWorkload, client: &AnyClient) -> bool {
    mock.transact(|tx| workload.is_present(client, &mut ErasedTx::new(tx))).unwrap()
}

/// The address of every word of a live object.
pub(crate) fn addresses(mock: &Mock) -> Vec<Addr> {
    let words =
        |(object, bytes): (u64, u64)| (0..bytes).step_by(8).map(move |at| Addr::new(object, at));
    mock.live().into_iter().flat_map(words).collect()
}

/// A heap that keeps only so many of a transaction's writes, and drops the rest.
pub(crate) struct Torn<'a> {
    pub(crate) mock: &'a mut Mock,
    pub(crate) left: usize,
    pub(crate) asked: usize,
}
impl Words for Torn<'_> {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.mock.read(at)
    }
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.asked += 1;
        if self.left > 0 {
            self.left -= 1;
            self.mock.write(at, value)?;
        }
        Ok(())
    }
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        self.mock.retire(at, bytes)
    }
}
impl Allocate for Torn<'_> {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        self.mock.allocate(bytes)
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
        self.mock.resize(first, from, to)
    }
    fn root(&mut self) -> Result<u64, Stop> {
        self.mock.root()
    }
    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        self.mock.set_root(object)
    }
}
