//! What a program does with a pool, what it is told meanwhile, and whether that was true.
//!
//! Transaction n puts n into some cells, so what the cells hold tells the last one that is there.

use std::path::{Path, PathBuf};

use faults::{Call, Failing, Faults};
use lastword::{Array, Error, MediumError, Objects, Options, Pool, Ptr, TxId};
use medium::System;
use medium::sync::Arc;
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

const CELLS: u64 = 4096;

/// Transactions between opening and leaving.
const STEPS: u64 = 12;

/// What is in the pool.
#[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Root {
    cells: Array<u64>,
    /// An object that each transaction replaces, with its number in it.
    last: Ptr<[u64; 4]>,
}

/// How a pool is left.
#[derive(Clone, Copy)]
enum Ending {
    Close,
    Abandon,
}

/// A program, and what it knows.
pub(crate) struct Story {
    pub(crate) path: PathBuf,
    pub(crate) options: Options,
    threads: bool,
    faults: Arc<Faults>,
    /// The last transaction that was begun.
    pub(crate) begun: u64,
    /// The last transaction that it was told is durable.
    pub(crate) acknowledged: u64,
    /// The pool has been made.
    pub(crate) created: bool,
    /// What it was told in the end, and by which call.
    pub(crate) told: Option<(&'static str, Error)>,
}

impl Story {
    /// Of a small pool in this directory, with threads of its own or without, on a system that
    /// fails like this.
    pub(crate) fn new(dir: &Path, options: Options, threads: bool, faults: Arc<Faults>) -> Story {
        let path = dir.join("test.pool");
        let system = System::kernel().failing(Arc::clone(&faults));
        let options = options.background(threads).system(system);
        let (begun, acknowledged, created, told) = (0, 0, false, None);
        Story { path, options, threads, faults, begun, acknowledged, created, told }
    }

    /// Small sizes.
    pub(crate) fn options() -> Options {
        Options::new().bytes(256 << 10).log_bytes(128 << 10).ring_entries(1 << 10)
    }

    /// From creation to a second close, or to the first error: used and closed, opened, used and
    /// left as a crash would leave it, recovered, used and closed.
    pub(crate) fn run(&mut self) {
        let create = |story: &mut Story| Pool::create(&story.path, story.its_options());
        if let Some(pool) = self.note("create", create) {
            self.created = true;
            self.go_on(pool, Ending::Close);
        }
        for ending in [Ending::Abandon, Ending::Close] {
            if self.told.is_none() {
                self.open(ending);
            }
        }
    }

    /// Opens the pool, uses it and leaves it. When it was closed, and cannot be opened for another
    /// reason than that it cannot be written, it is as it was.
    fn open(&mut self, ending: Ending) {
        let before = self.files();
        match self.note("open", |story| Pool::open(&story.path, story.its_options())) {
            Some(pool) => self.go_on(pool, ending),
            None if self.faults.failed()[0] == Call::Write => {}
            None => {
                let recovers = matches!(ending, Ending::Close); // it was left by the turn before
                assert!(recovers || self.files() == before, "changed: {:?}", self.told);
            }
        }
    }

    /// What is in the pool's files.
    fn files(&self) -> Vec<Vec<u8>> {
        let log = self.path.with_extension("pool.log");
        [&self.path, &log].into_iter().flat_map(std::fs::read).collect()
    }

    fn its_options(&self) -> Options {
        self.options.clone()
    }

    fn note<R>(
        &mut self,
        call: &'static str,
        step: impl FnOnce(&mut Story) -> Result<R, Error>,
    ) -> Option<R> {
        let done = step(self);
        done.map_err(|error| self.told = Some((call, error))).ok()
    }

    fn go_on(&mut self, pool: Pool, ending: Ending) {
        self.begun = self.look(&pool);
        if let Err(error) = self.transactions(&pool) {
            self.told = Some(error);
            return self.everything_says_so(pool);
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

    /// The last transaction that is there: one that may be.
    fn look(&self, pool: &Pool) -> u64 {
        let (found, possible) = (found(pool), self.acknowledged..=self.begun);
        assert!(possible.contains(&found), "{found} found of {possible:?}: {:?}", self.told);
        found
    }

    /// Some that nobody waits for, some that are waited for, and some brought home.
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
                pool.bring_home().map_err(|error| ("bring_home", error))?;
            }
        }
        Ok(())
    }

    /// The next transaction; the first one makes the root too.
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
        // In sync mode one that fails may be found all the same.
        self.begun = n;
        Ok(done?.ticket.id())
    }

    /// After the first failure no call is taken for a success, and nothing more is acknowledged.
    fn everything_says_so(&mut self, pool: Pool) {
        let durable = pool.durable_id();
        for _ in 0..2 {
            let calls = [
                pool.run(|tx| tx.root_ptr::<Root>()).map(drop),
                pool.bring_home(),
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
        // A thread that was waiting for the device when another one failed tells what it gets.
        assert!(pool.durable_id() == durable || self.threads, "acknowledged after a failure");
        assert_poisoned(&pool.close().unwrap_err());
    }

    /// What was told says what is the matter, where, and what to do.
    pub(crate) fn assert_told(&self) {
        let Some((call, error)) = &self.told else { return };
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

    /// On a sound disk: everything that was acknowledged is there, and life goes on. Answers the
    /// last transaction that was found.
    pub(crate) fn assert_truth(&mut self) -> u64 {
        self.options = self.its_options().system(System::kernel());
        let checked = lastword::check(&self.path).unwrap().sound().unwrap();
        let pool = Pool::open(&self.path, self.its_options()).unwrap();
        assert_eq!(pool.durable_id(), checked.durable_id);
        let found = self.look(&pool);
        self.begun = found;
        let id = self.put(&pool).unwrap();
        pool.wait_for(id).unwrap();
        self.acknowledged = self.begun;
        pool.abandon();
        let pool = Pool::open(&self.path, self.its_options()).unwrap();
        assert_eq!(self::found(&pool), found + 1);
        pool.close().unwrap();
        let checked = lastword::check(&self.path).unwrap().sound().unwrap();
        assert!(!checked.needs_recovery);
        assert_eq!(checked.usage.objects, 2, "what a lost transaction had allocated is free");
        found
    }
}

/// Cells that a transaction writes: some neighbours, one far away, and one that all write; each
/// fourth so many that its group has more than a block, and half of it is no group.
fn places(n: u64) -> impl Iterator<Item = u64> {
    let near = n * 7 % 500 * 3;
    let many = if n.is_multiple_of(4) { 1400..2000 } else { 0..0 };
    [0, near + 1, near + 2, near + 3, 2000 + n * 611 % 2000].into_iter().chain(many)
}

/// The last transaction that a pool holds; that it holds exactly it and those before.
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
    assert!(cells == expected && last == [cells[0]; 4], "no state that ever was");
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
