//! A scripted program: it uses a pool, records every acknowledgement and the first error, and
//! then verifies both against the recovered pool.
//!
//! Transaction n writes n into some cells, so the cells identify the last transaction in the pool.

use std::path::{Path, PathBuf};

use faults::{Call, Failing, Faults};
use lastword::{Array, Error, MediumError, Objects, Options, Pool, Ptr, TxId};
use medium::System;
use medium::sync::Arc;
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

const CELLS: u64 = 4096;

/// Transactions between opening the pool and leaving it.
const STEPS: u64 = 12;

/// The pool's root object.
#[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Root {
    cells: Array<u64>,
    /// Object that each transaction replaces. It holds the transaction's number.
    last: Ptr<[u64; 4]>,
}

/// How a pool is left.
#[derive(Clone, Copy)]
enum Ending {
    Close,
    Abandon,
}

/// The program's state.
pub(crate) struct Story {
    pub(crate) path: PathBuf,
    pub(crate) options: Options,
    threads: bool,
    faults: Arc<Faults>,
    /// Number of the last transaction that was begun.
    pub(crate) begun: u64,
    /// Number of the last transaction whose durability was acknowledged.
    pub(crate) acknowledged: u64,
    pub(crate) created: bool,
    /// The first error, and the call that returned it.
    pub(crate) failure: Option<(&'static str, Error)>,
}

impl Story {
    /// Prepares a story in `dir`, with or without background threads, under injected `faults`.
    pub(crate) fn new(dir: &Path, options: Options, threads: bool, faults: Arc<Faults>) -> Story {
        let path = dir.join("test.pool");
        let system = System::kernel().failing(Arc::clone(&faults));
        let options = options.background(threads).system(system);
        let (begun, acknowledged, created, failure) = (0, 0, false, None);
        Story { path, options, threads, faults, begun, acknowledged, created, failure }
    }

    /// Options of a small pool.
    pub(crate) fn options() -> Options {
        Options::new().bytes(256 << 10).log_bytes(128 << 10).ring_entries(1 << 10)
    }

    /// Runs the script, up to the first error.
    ///
    /// 1. Create the pool, use it, close it.
    /// 2. Open it, use it, abandon it as a crash would.
    /// 3. Recover it, use it, close it.
    pub(crate) fn run(&mut self) {
        let create = |story: &mut Story| Pool::create(&story.path, story.options.clone());
        if let Some(pool) = self.note("create", create) {
            self.created = true;
            self.go_on(pool, Ending::Close);
        }
        for ending in [Ending::Abandon, Ending::Close] {
            if self.failure.is_none() {
                self.open(ending);
            }
        }
    }

    /// Opens the pool, uses it and leaves it.
    ///
    /// Opening a cleanly closed pool may change its files only once a write succeeds. If it fails
    /// by any other call than a write, the files must be unchanged.
    fn open(&mut self, ending: Ending) {
        let before = self.files();
        match self.note("open", |story| Pool::open(&story.path, story.options.clone())) {
            Some(pool) => self.go_on(pool, ending),
            None if self.faults.failed()[0] == Call::Write => {}
            None => {
                // The round before this one abandoned the pool, so recovery may write.
                let recovers = matches!(ending, Ending::Close);
                assert!(recovers || self.files() == before, "changed: {:?}", self.failure);
            }
        }
    }

    /// Returns the contents of the pool's files.
    fn files(&self) -> Vec<Vec<u8>> {
        let log = self.path.with_extension("pool.log");
        [&self.path, &log].into_iter().flat_map(std::fs::read).collect()
    }

    fn note<R>(
        &mut self,
        call: &'static str,
        step: impl FnOnce(&mut Story) -> Result<R, Error>,
    ) -> Option<R> {
        let done = step(self);
        done.map_err(|error| self.failure = Some((call, error))).ok()
    }

    fn go_on(&mut self, pool: Pool, ending: Ending) {
        self.begun = self.look(&pool);
        if let Err(error) = self.transactions(&pool) {
            self.failure = Some(error);
            return self.assert_stays_failed(pool);
        }
        match ending {
            Ending::Abandon => pool.abandon(),
            Ending::Close => {
                if self.note("close", |_| pool.close()).is_some() {
                    self.acknowledged = self.begun;
                }
            }
        }
    }

    /// Returns the last transaction in the pool, which must lie between `acknowledged` and `begun`.
    fn look(&self, pool: &Pool) -> u64 {
        let (found, possible) = (found(pool), self.acknowledged..=self.begun);
        assert!(possible.contains(&found), "{found} found of {possible:?}: {:?}", self.failure);
        found
    }

    /// Runs transactions: the program waits for every fourth, and one checkpoint follows the
    /// eighth.
    fn transactions(&mut self, pool: &Pool) -> Result<(), (&'static str, Error)> {
        for step in 1..=STEPS {
            let id = self.put(pool).map_err(|error| ("run", error))?;
            if pool.durable_id() >= id {
                self.acknowledged = self.begun; // in sync mode, or by a background thread
            }
            if step % 4 == 0 {
                pool.wait_for(id).map_err(|error| ("wait", error))?;
                self.acknowledged = self.begun;
            }
            if step == 8 {
                pool.checkpoint().map_err(|error| ("checkpoint", error))?;
            }
        }
        Ok(())
    }

    /// Runs the next transaction. The first one creates the root too.
    pub(crate) fn put(&mut self, pool: &Pool) -> Result<TxId, Error> {
        let n = self.begun + 1;
        let done = pool.run(|tx| {
            let mut root = tx.root_ptr::<Root>()?;
            if root.is_null() {
                let cells = Array::create(tx, CELLS)?;
                root = tx.alloc(Root { cells, last: Ptr::NULL })?;
                tx.set_root_ptr(root)?;
            }
            let Root { cells, last } = tx.get(root)?;
            if !last.is_null() {
                tx.free(last)?;
            }
            let last = tx.alloc([n; 4])?;
            tx.set(root, Root { cells, last })?;
            places(n).try_for_each(|place| tx.set(cells.at(place)?, n))
        });
        // A failed commit in sync mode may still be recovered, so it counts as begun.
        self.begun = n;
        Ok(done?.ticket.id())
    }

    /// After the first failure every call fails, and no further transaction is acknowledged.
    fn assert_stays_failed(&mut self, pool: Pool) {
        let durable = pool.durable_id();
        for _ in 0..2 {
            let calls = [
                pool.run(|tx| tx.root_ptr::<Root>()).map(drop),
                pool.checkpoint(),
                pool.design().persist_step().map(drop),
                pool.design().reproduce_step().map(drop),
            ];
            calls.into_iter().for_each(|call| assert_poisoned(&call.unwrap_err()));
            if pool.committed_id() > durable {
                assert_poisoned(&pool.flush().unwrap_err());
                assert_poisoned(&pool.wait_for(pool.committed_id()).unwrap_err());
            }
            pool.wait_for(durable).unwrap();
        }
        // A background thread may complete a write that it issued before another thread failed.
        assert!(pool.durable_id() == durable || self.threads, "acknowledged after a failure");
        assert_poisoned(&pool.close().unwrap_err());
    }

    /// Expects that the recorded error has the type for its call, names the file and gives advice.
    pub(crate) fn assert_failure_is_specific(&self) {
        let Some((call, error)) = &self.failure else { return };
        let typed = match (call, error) {
            (&"create" | &"open", Error::Medium(error)) => is_of_the_system(error),
            (&"create" | &"open", _) => false,
            (_, Error::Poisoned { cause }) => {
                matches!(&**cause, Error::Medium(error) if is_of_the_system(error))
            }
            _ => false,
        };
        assert!(typed, "{call}: {error}");
        let text = error.to_string();
        assert!(text.contains("test.pool"), "{call}: {text}");
        let advice = ["check the path", "check the disk", "free some space", "raise the limit"];
        assert!(advice.iter().any(|advice| text.contains(advice)), "{call}: {text}");
    }

    /// Verifies, on a working disk, that every acknowledged transaction is in the pool and that
    /// the pool accepts further ones. Returns the last transaction that recovery found.
    pub(crate) fn assert_truth(&mut self) -> u64 {
        self.options = self.options.clone().system(System::kernel());
        let checked = lastword::check(&self.path).unwrap().sound().unwrap();
        let pool = Pool::open(&self.path, self.options.clone()).unwrap();
        assert_eq!(pool.durable_id(), checked.durable_id);
        let found = self.look(&pool);
        self.begun = found;
        let id = self.put(&pool).unwrap();
        pool.wait_for(id).unwrap();
        self.acknowledged = self.begun;
        pool.abandon();
        let pool = Pool::open(&self.path, self.options.clone()).unwrap();
        assert_eq!(self::found(&pool), found + 1);
        pool.close().unwrap();
        let checked = lastword::check(&self.path).unwrap().sound().unwrap();
        assert!(!checked.needs_recovery);
        assert_eq!(checked.usage.objects, 2, "a lost transaction leaks its objects");
        found
    }
}

/// Returns the cells that transaction n writes.
///
/// They are a cell that all transactions write, three neighbours and a distant cell. Every fourth
/// transaction writes 600 more, so that its group spans several blocks and can be torn.
fn places(n: u64) -> impl Iterator<Item = u64> {
    let near = n * 7 % 500 * 3;
    let many = if n.is_multiple_of(4) { 1400..2000 } else { 0..0 };
    [0, near + 1, near + 2, near + 3, 2000 + n * 611 % 2000].into_iter().chain(many)
}

/// Returns the last transaction in the pool. Expects that the pool holds exactly the effects of
/// the transactions up to it.
pub(crate) fn found(pool: &Pool) -> u64 {
    let held = pool.run(|tx| {
        let root = tx.root_ptr::<Root>()?;
        if root.is_null() {
            return Ok(None);
        }
        let Root { cells, last } = tx.get(root)?;
        let cells = (0..CELLS).map(|i| tx.get(cells.at(i)?)).collect::<Result<Vec<_>, _>>()?;
        Ok(Some((cells, tx.get(last)?)))
    });
    let Some((cells, last)) = held.unwrap().value else { return 0 };
    let mut expected = vec![0; CELLS as usize];
    for n in 1..=cells[0] {
        places(n).for_each(|place| expected[place as usize] = n);
    }
    assert!(cells == expected && last == [cells[0]; 4], "not a prefix of the transactions");
    cells[0]
}

pub(crate) fn assert_poisoned(error: &Error) {
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
}

fn is_of_the_system(error: &MediumError) -> bool {
    matches!(
        error,
        MediumError::Io { .. }
            | MediumError::Transfer { .. }
            | MediumError::NoSpace { .. }
            | MediumError::Unallocated { .. }
    )
}
