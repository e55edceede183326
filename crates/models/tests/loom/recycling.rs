//! The product's persist and reproduce steps over media that are plain numbers. Accesses are
//! relaxed, so only the steps can order them.

use super::persist::waiters::help_until;
use super::persist::{Grouping, Notifiers, Persist, Slot, Step};
use super::reproduce::{Reproduce, Work};
use crate::around::superblock::{Superblock, Superblocks};
use crate::explore::explore;
use crate::metrics::StepTimer;
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use models::outcomes::Outcomes;
use real_log::Identity;
use real_medium::{Buffer, Counts, HeapMedium, LogMedium, Parts, ReadLog};
use words::TxId;

/// A group without writes takes one block, and two groups fill the log.
const BLOCK_BYTES: u64 = 128;
const LOG_BYTES: u64 = 2 * BLOCK_BYTES;
const TIMER: StepTimer = StepTimer { blocks: false, helped: false };

#[derive(Default)]
struct Disk {
    /// The number of parts of batches in the heap image.
    heap_image: AtomicU64,
    /// The part whose barrier fails, if any.
    fails: Option<usize>,
    /// Whether the first group that is sent fails.
    loses_first: bool,
    /// The log sequence in the superblock: earlier groups may be overwritten.
    recycled: AtomicU64,
    /// Bytes sent to the log.
    sent: AtomicU64,
}

struct Log(Arc<Disk>);

impl ReadLog for Log {
    fn bytes(&self) -> u64 {
        LOG_BYTES
    }

    fn block_bytes(&self) -> usize {
        BLOCK_BYTES as usize
    }

    fn read(&self, _at: u64, _out: &mut [u64]) -> Result<(), real_medium::Error> {
        unreachable!("no recovery in this model")
    }
}

impl LogMedium for Log {
    fn depth(&self) -> usize {
        0
    }

    fn append(
        &self,
        _at: u64,
        group: Buffer,
        _words: usize,
    ) -> Result<Option<Buffer>, real_medium::Error> {
        let end = self.0.sent.fetch_add(BLOCK_BYTES, Ordering::Relaxed) + BLOCK_BYTES;
        if self.0.loses_first && end == BLOCK_BYTES {
            return Err(real_medium::Error::TornBatch { words: 0 });
        }
        let recycled = self.0.recycled.load(Ordering::Relaxed);
        assert!(end <= recycled + LOG_BYTES, "overwritten, and not recycled: {end}");
        Ok(Some(group))
    }

    fn acknowledge(&self, _wait: bool) -> Result<Option<Buffer>, real_medium::Error> {
        Ok(None)
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// A part of the heap image.
struct HeapPart(Arc<Disk>, usize);

impl HeapMedium for HeapPart {
    fn write_back(&mut self, _writes: &[u64]) -> Result<(), real_medium::Error> {
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), real_medium::Error> {
        if self.0.fails == Some(self.1) {
            return Err(real_medium::Error::TornBatch { words: 0 });
        }
        self.0.heap_image.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

struct Pool {
    disk: Arc<Disk>,
    clock: AtomicU64,
    persist: Persist,
    reproduce: Reproduce,
    notifiers: Notifiers,
}

impl Pool {
    /// Returns a pool with so many groups in the log, and one more committed transaction.
    fn with(groups: u64) -> Arc<Pool> {
        Pool::in_parts(groups, 1, None)
    }

    /// Returns a pool with a committed transaction whose group gets lost.
    fn that_loses_a_group() -> Arc<Pool> {
        Pool::on(Disk { loses_first: true, ..Disk::default() }, 0, 1)
    }

    /// The same, with a heap image in parts, of which one may fail.
    fn in_parts(groups: u64, parts: usize, fails: Option<usize>) -> Arc<Pool> {
        Pool::on(Disk { fails, ..Disk::default() }, groups, parts)
    }

    fn on(disk: Disk, groups: u64, parts: usize) -> Arc<Pool> {
        let disk = Arc::new(disk);
        let theirs = Arc::clone(&disk);
        let mut batches = 0;
        let superblocks = Superblocks::new(Superblock::default(), move |next| {
            batches += parts as u64;
            let heap_image = theirs.heap_image.load(Ordering::Relaxed);
            assert_eq!(
                heap_image, batches,
                "recorded in the superblock, and not in the heap image"
            );
            theirs.recycled.store(next.log_sequence, Ordering::Relaxed);
        });
        let identity = Identity { pool: 1, generation: 1, stream: 0 };
        let persist =
            Persist::new(Arc::new(Log(Arc::clone(&disk))), identity, TxId(0), Grouping::NONE);
        let heap_image: Parts = (0..parts).map(|part| HeapPart(Arc::clone(&disk), part)).collect();
        let reproduce = Reproduce::new(heap_image, superblocks);
        let slot = persist.register(32).expect("there is memory");
        let (clock, notifiers) = (AtomicU64::new(0), Notifiers::default());
        let pool = Pool { disk, clock, persist, reproduce, notifiers };
        let mut writer = crate::Writer::new(&slot.ring);
        for _ in 0..groups {
            pool.commit(&slot, &mut writer);
            assert_eq!(pool.send(), Step::Done);
        }
        pool.commit(&slot, &mut writer);
        Arc::new(pool)
    }

    /// Commits a transaction without writes.
    fn commit(&self, slot: &Slot, writer: &mut crate::Writer) {
        slot.assigning(self.clock.load(Ordering::Relaxed));
        let id = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
        writer.record(&slot.ring).publish(id);
        slot.assigned();
    }

    fn send(&self) -> Step {
        self.persist.send(&self.clock, TIMER).expect("nothing fails")
    }

    fn reproduce_step(&self) -> Step {
        let work = Work::All { log_bytes: LOG_BYTES, pages: usize::MAX };
        let step = self.reproduce.step(&self.persist, &self.notifiers, work, TIMER);
        step.expect("nothing fails")
    }

    /// Reproduces a part, if another thread leads.
    fn reproduce_part(&self) -> Result<Step, crate::Error> {
        self.reproduce.part_step(&self.persist, TIMER)
    }
}

/// A thread reproduces the whole log while another thread has a group that needs its space.
pub(crate) fn log_is_overwritten_only_after_recycling() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let pool = Pool::with(2);
        let theirs = Arc::clone(&pool);
        let other = thread::spawn(move || theirs.reproduce_step());
        seen.saw(u64::from(pool.send() == Step::Done));
        assert_eq!(other.join().expect("it ends"), Step::Done);
        assert_eq!(pool.persist.queue.tail.load(Ordering::Relaxed), LOG_BYTES);
    });
    met.are(0..2);
}

/// A worker registers and commits while another thread runs a step. The step knows the slot of each
/// worker whose ID it claims.
pub(crate) fn step_knows_worker_that_registers() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let pool = Pool::with(0);
        let theirs = Arc::clone(&pool);
        let other = thread::spawn(move || {
            let slot = theirs.persist.register(32).expect("there is memory");
            theirs.commit(&slot, &mut crate::Writer::new(&slot.ring));
        });
        pool.send();
        seen.saw(pool.persist.durable().0);
        other.join().expect("it ends");
        pool.send();
        assert_eq!(pool.persist.durable(), TxId(2), "all are durable in the end");
    });
    met.are(1..3);
}

/// A thread that sees the durable ID finds the group when it drains the queue, as a checkpoint
/// does.
pub(crate) fn acknowledged_group_is_in_the_queue() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let pool = Pool::with(0);
        let theirs = Arc::clone(&pool);
        let other = thread::spawn(move || theirs.send());
        let durable = pool.persist.durable().0;
        if durable > 0 {
            pool.reproduce_step();
            let reproduced = pool.reproduce.reproduced();
            assert_eq!(reproduced, TxId(1), "acknowledged, and not in the queue");
        }
        seen.saw(durable);
        assert_eq!(other.join().expect("it ends"), Step::Done);
    });
    met.are(0..2);
}

/// A thread looks whether a step has failed, and then waits for the lock of the step that fails.
pub(crate) fn failed_group_is_the_last() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let pool = Pool::that_loses_a_group();
        let theirs = Arc::clone(&pool);
        let other = thread::spawn(move || {
            let slot = theirs.persist.register(32).expect("there is memory");
            theirs.commit(&slot, &mut crate::Writer::new(&slot.ring));
            theirs.persist.send(&theirs.clock, TIMER).is_err()
        });
        let failed = pool.persist.send(&pool.clock, TIMER).is_err();
        let theirs = other.join().expect("it ends");
        assert!(failed || theirs, "the medium has failed");
        let durable = pool.persist.durable();
        assert_eq!(durable, TxId(0), "durable, and an earlier group is lost");
        seen.saw(2 * u64::from(failed) + u64::from(theirs));
    });
    met.are(1..4);
}

/// A thread that sees the reproduced ID may read the heap image.
pub(crate) fn reproduced_id_publishes_heap_image() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let pool = Pool::with(1);
        let theirs = Arc::clone(&pool);
        let other = thread::spawn(move || theirs.reproduce_step());
        let reproduced = pool.reproduce.reproduced().0;
        if reproduced > 0 {
            assert_eq!(
                pool.disk.heap_image.load(Ordering::Relaxed),
                1,
                "reproduced, and not in the heap image"
            );
        }
        seen.saw(reproduced);
        assert_eq!(other.join().expect("it ends"), Step::Done);
    });
    met.are(0..2);
}

/// Two threads reproduce concurrently; one or both make progress, in the order of transactions.
pub(crate) fn concurrent_reproducers_keep_order() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let pool = Pool::with(1);
        let theirs = Arc::clone(&pool);
        let other = thread::spawn(move || {
            theirs.send();
            theirs.reproduce_step()
        });
        let mine = pool.reproduce_step();
        let theirs = other.join().expect("it ends");
        pool.reproduce_step();
        assert_eq!(
            pool.reproduce.reproduced(),
            TxId(2),
            "all groups are in the heap image in the end"
        );
        seen.saw(4 * mine as u64 + theirs as u64);
    });
    let pairs =
        [(Step::Done, Step::Done), (Step::Done, Step::Nothing), (Step::Nothing, Step::Done)];
    let busy = [(Step::Done, Step::Busy), (Step::Busy, Step::Done)];
    let all = pairs.into_iter().chain(busy);
    met.are(all.map(|(mine, theirs)| 4 * mine as u64 + theirs as u64));
}

/// A thread leads and another may join. The superblock is written when all parts are in the heap
/// image, whichever thread took them, and the leader does not wait for a thread that does not join.
pub(crate) fn superblock_waits_for_all_parts() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let pool = Pool::in_parts(1, 2, None);
        let theirs = Arc::clone(&pool);
        let other = thread::spawn(move || theirs.reproduce_part().expect("nothing fails"));
        assert_eq!(pool.reproduce_step(), Step::Done);
        assert_eq!(pool.reproduce.reproduced(), TxId(1));
        seen.saw(u64::from(other.join().expect("it ends") == Step::Done));
    });
    met.are(0..2);
}

/// The failing part is taken by the leader or by the other thread. The leader returns the error in
/// both cases, and does not advance the reproduced ID.
pub(crate) fn failed_part_fails_the_leader() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let pool = Pool::in_parts(1, 2, Some(1));
        let theirs = Arc::clone(&pool);
        let other = thread::spawn(move || theirs.reproduce_part());
        let work = Work::All { log_bytes: LOG_BYTES, pages: usize::MAX };
        let led = pool.reproduce.step(&pool.persist, &pool.notifiers, work, TIMER);
        assert!(matches!(led, Err(crate::Error::Poisoned { .. })), "reproduced, and it failed");
        assert_eq!(pool.reproduce.reproduced(), TxId(0), "reproduced, and it failed");
        seen.saw(u64::from(other.join().expect("it ends").is_err()));
    });
    met.are(0..2);
}

/// One thread visits between the steps of another. The other returns `Busy` or finds the lock
/// taken, sleeps, and must be woken to reproduce its group.
pub(crate) fn step_is_woken_after_visitor() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let pool = Pool::with(1);
        let theirs = Arc::clone(&pool);
        let visitor = thread::spawn(move || {
            let Pool { persist, reproduce, .. } = &*theirs;
            reproduce.between_steps(persist, |_, last| last)
        });
        let progress = &pool.persist.progress;
        let reproduced = || (pool.reproduce.reproduced() >= TxId(1)).then_some(());
        let work = Work::All { log_bytes: LOG_BYTES, pages: usize::MAX };
        help_until(progress, 0, reproduced, || {
            pool.reproduce.step(&pool.persist, &pool.notifiers, work, TIMER)
        })
        .expect("nothing fails");
        seen.saw(visitor.join().expect("it ends").0);
    });
    // The visitor came before the step or after it.
    met.are(0..2);
}
