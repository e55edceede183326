//! The steps over a medium that fails: whoever waits is told, nothing is acknowledged, and the pool
//! says so ever after.

use std::io;

use lw_log::{Identity, PersistentRing, Writer};
use medium::{Buffer, Counts, HomeMedium, LogMedium, PoolFile, Prewrite, ReadLog};

use super::*;
use crate::persist::Slot;
use crate::superblock::{Superblock, Superblocks};
use crate::sync::{Arc, AtomicBool};

/// Fails when it is told to.
struct Log(Arc<AtomicBool>);
struct Home(Arc<AtomicBool>);

fn fails(switch: &AtomicBool) -> Result<(), medium::Error> {
    match switch.load(Ordering::Relaxed) {
        false => Ok(()),
        true => Err(medium::Error::Io {
            operation: "writing",
            path: "broken".into(),
            source: io::ErrorKind::StorageFull.into(),
        }),
    }
}

impl ReadLog for Log {
    fn bytes(&self) -> u64 {
        1 << 16
    }
    fn block_bytes(&self) -> usize {
        64
    }
    fn read(&mut self, _at: u64, out: &mut [u64]) -> Result<(), medium::Error> {
        out.fill(0);
        Ok(())
    }
}

impl LogMedium for Log {
    fn append(&mut self, _: u64, _: &Buffer, _: usize) -> Result<(), medium::Error> {
        Ok(())
    }
    fn barrier(&mut self) -> Result<(), medium::Error> {
        fails(&self.0)
    }
    fn counts(&self) -> Counts {
        Counts::default()
    }
}

impl HomeMedium for Home {
    fn write_back(&mut self, _: &[u64]) -> Result<(), medium::Error> {
        Ok(())
    }
    fn barrier(&mut self) -> Result<(), medium::Error> {
        fails(&self.0)
    }
    fn counts(&self) -> Counts {
        Counts::default()
    }
}

struct World {
    _dir: tempfile::TempDir,
    pipeline: Pipeline,
    clock: AtomicU64,
    slot: Arc<Slot>,
    writer: Writer,
    log_fails: Arc<AtomicBool>,
    home_fails: Arc<AtomicBool>,
}

fn superblocks() -> (tempfile::TempDir, Superblocks) {
    let dir = tempfile::tempdir().unwrap();
    let file = PoolFile::create(dir.path().join("pool"), 1 << 16, Prewrite::No).unwrap();
    let superblock = Superblock {
        edition: 0,
        pool: 1,
        generation: 1,
        clean: false,
        design: [0; 16],
        layout: [0; 32],
        layout_version: 0,
        heap_offset: 0,
        heap_bytes: 0,
        log_inside: true,
        log_offset: 0,
        log_bytes: 1 << 16,
        reproduced: 0,
        log_sequence: 0,
    };
    let superblocks = Superblocks::create(&Arc::new(file), superblock).unwrap();
    (dir, superblocks)
}

fn world() -> World {
    let (dir, superblocks) = superblocks();
    let [log_fails, home_fails] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let identity = Identity { pool: 1, generation: 1, stream: 0 };
    let log = PersistentRing::new(Box::new(Log(Arc::clone(&log_fails))), identity);
    let persist = Persist::new(log, TxId(0));
    let slot = persist.register(1 << 14).unwrap();
    let reproduce = Reproduce::new(Box::new(Home(Arc::clone(&home_fails))), superblocks);
    let pipeline = Pipeline::new(persist, reproduce, 1 << 16, false);
    let (clock, writer) = (AtomicU64::new(0), Writer::default());
    World { _dir: dir, pipeline, clock, slot, writer, log_fails, home_fails }
}

impl World {
    fn commit(&mut self) -> TxId {
        self.commit_bytes(72)
    }

    /// Commits what takes so many bytes of the log, as a group of its own.
    fn commit_bytes(&mut self, bytes: usize) -> TxId {
        let words = bytes / 8 - lw_log::GROUP_HEADER_WORDS - 1;
        assert!(self.writer.has_room(&self.slot.ring, words));
        self.slot.drawing(self.clock.load(Ordering::Relaxed));
        let id = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
        let mut record = self.writer.record(&self.slot.ring);
        if words > 0 {
            record.push(medium::writes::run(0, words - 1));
            (1..words).for_each(|_| record.push(id));
        }
        record.publish(id);
        self.slot.drawn();
        TxId(id)
    }
}

#[test]
fn a_failed_log_write_acknowledges_nothing_and_poisons() {
    let mut world = world();
    let good = world.commit();
    world.pipeline.wait(&world.clock, good).unwrap();
    let lost = world.commit();
    world.log_fails.store(true, Ordering::Relaxed);
    let told = world.pipeline.wait(&world.clock, lost).unwrap_err().to_string();
    assert!(told.contains("cannot go on") && told.contains("broken"), "{told}");
    assert_eq!(world.pipeline.persist.durable(), good);
    // The medium works again: that proves nothing about what failed before.
    world.log_fails.store(false, Ordering::Relaxed);
    assert!(matches!(world.pipeline.wait(&world.clock, lost), Err(Error::Poisoned { .. })));
    assert!(world.pipeline.close(&world.clock).is_err());
    world.pipeline.wait(&world.clock, good).unwrap();
    assert_eq!(world.pipeline.persist.durable(), good);
}

#[test]
fn a_failed_log_write_reaches_every_waiter() {
    let mut world = world();
    let lost = world.commit();
    world.log_fails.store(true, Ordering::Relaxed);
    let (pipeline, clock) = (&world.pipeline, &world.clock);
    std::thread::scope(|scope| {
        let waiters = [(); 4].map(|()| scope.spawn(|| pipeline.wait(clock, lost)));
        for waiter in waiters {
            assert!(matches!(waiter.join().unwrap(), Err(Error::Poisoned { .. })));
        }
    });
}

#[test]
fn a_failed_home_write_keeps_the_log_and_poisons() {
    let mut world = world();
    let id = world.commit();
    world.pipeline.wait(&world.clock, id).unwrap();
    world.home_fails.store(true, Ordering::Relaxed);
    assert!(matches!(world.pipeline.reproduce_step(true), Err(Error::Poisoned { .. })));
    assert_eq!(world.pipeline.reproduce.reproduced(), TxId(0));
    assert_eq!(world.pipeline.persist.tail.load(Ordering::Relaxed), 0, "nothing is recycled");
    let next = world.commit();
    assert!(world.pipeline.wait(&world.clock, next).is_err());
}

#[test]
fn home_never_runs_ahead_of_the_log_and_the_log_is_recycled_after_home() {
    let mut world = world();
    for round in 1..=2000_u64 {
        let id = world.commit();
        world.pipeline.wait(&world.clock, id).unwrap();
        let (persist, reproduce) = (&world.pipeline.persist, &world.pipeline.reproduce);
        assert!(reproduce.reproduced() <= persist.durable() && persist.durable() == id);
        assert!(persist.queued_bytes() <= 1 << 16, "round {round}");
    }
    assert!(world.pipeline.reproduce.reproduced() > TxId(0), "the log went round");
}

#[test]
fn a_full_log_is_a_reason_to_reproduce_however_little_is_queued() {
    const KIB: usize = 1 << 10;
    let mut world = world();
    let id = world.commit_bytes(31 * KIB);
    world.pipeline.wait(&world.clock, id).unwrap();
    assert_eq!(world.pipeline.reproduce_step(false).unwrap(), Step::Done);
    let id = world.commit_bytes(2 * KIB);
    world.pipeline.wait(&world.clock, id).unwrap();
    assert!(!world.pipeline.is_due());
    // Half a log does not fit before the end of this lap, and not yet behind it.
    let id = world.commit_bytes(32 * KIB);
    assert_eq!(world.pipeline.persist_step(&world.clock, false).unwrap(), Step::LogFull);
    assert!(world.pipeline.is_due());
    assert_eq!(world.pipeline.reproduce_step(false).unwrap(), Step::Done);
    assert_ne!(world.pipeline.persist_step(&world.clock, false).unwrap(), Step::LogFull);
    assert_eq!(world.pipeline.persist.durable(), id);
}

struct Panics;

impl HomeMedium for Panics {
    fn write_back(&mut self, _: &[u64]) -> Result<(), medium::Error> {
        panic!("a bug")
    }
    fn barrier(&mut self) -> Result<(), medium::Error> {
        Ok(())
    }
    fn counts(&self) -> Counts {
        Counts::default()
    }
}

#[test]
fn a_step_that_panics_poisons_and_leaves_no_clean_mark() {
    let mut world = world();
    let (_dir, superblocks) = superblocks();
    let file = Arc::clone(superblocks.file());
    world.pipeline.reproduce = Reproduce::new(Box::new(Panics), superblocks);
    let id = world.commit();
    world.pipeline.wait(&world.clock, id).unwrap();
    let step = std::panic::AssertUnwindSafe(|| world.pipeline.reproduce_step(true));
    assert!(std::panic::catch_unwind(step).is_err());
    let told = world.pipeline.close(&world.clock).unwrap_err().to_string();
    assert!(told.contains("reproduce step panicked"), "{told}");
    assert!(!Superblocks::read(&file).unwrap().unwrap().current().clean);
}
