//! The pipeline over media that fail: waiters see the failure, later groups are not acknowledged,
//! and the pool stays poisoned.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use lw_log::{Identity, REGION_WORDS, Writer};
use medium::{Buffer, Counts, HeapMedium, LogMedium, Parts, PoolFile, Prewrite, ReadLog};

use words::TxId;

use crate::Error;
use crate::metrics::StepTimer;
use crate::persist::{Grouping, Listener, Persist, Slot, Step};
use crate::pipeline::Pipeline;
use crate::reproduce::Reproduce;
use crate::superblock::{PairedBlock, Superblock, Superblocks};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// A log that fails on request; with a depth of 0 it is memory.
struct Log {
    fails: Arc<AtomicBool>,
    depth: usize,
    in_flight: Mutex<VecDeque<Buffer>>,
    /// The contents of the log.
    image: Mutex<Vec<u64>>,
}
struct HeapImage(Arc<AtomicBool>);

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
    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), medium::Error> {
        out.copy_from_slice(&lock(&self.image)[at as usize / 8..][..out.len()]);
        Ok(())
    }
}

impl LogMedium for Log {
    fn depth(&self) -> usize {
        self.depth
    }
    fn append(
        &self,
        at: u64,
        group: Buffer,
        words: usize,
    ) -> Result<Option<Buffer>, medium::Error> {
        let place = at as usize / 8..at as usize / 8 + words;
        lock(&self.image)[place].copy_from_slice(&group.words()[..words]);
        if self.depth == 0 {
            return fails(&self.fails).map(|()| Some(group));
        }
        let mut in_flight = lock(&self.in_flight);
        assert!(in_flight.len() < self.depth, "in flight: at most `depth` groups");
        in_flight.push_back(group);
        Ok(None)
    }
    fn acknowledge(&self, wait: bool) -> Result<Option<Buffer>, medium::Error> {
        if !wait {
            return Ok(None);
        }
        fails(&self.fails).map(|()| lock(&self.in_flight).pop_front())
    }
    fn counts(&self) -> Counts {
        Counts::default()
    }
}

impl HeapMedium for HeapImage {
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
    log: Arc<Log>,
    log_fails: Arc<AtomicBool>,
    heap_fails: Arc<AtomicBool>,
}

fn superblocks() -> (tempfile::TempDir, Superblocks) {
    let dir = tempfile::tempdir().unwrap();
    let file = PoolFile::create(dir.path().join("pool"), 1 << 16, Prewrite::No).unwrap();
    let superblock = Superblock {
        version: crate::superblock::FORMAT_VERSION,
        edition: 0,
        pool: 1,
        generation: 1,
        clean: false,
        design: [0; 16],
        medium: [0; 16],
        layout: [0; 32],
        layout_version: 0,
        heap_offset: 0,
        heap_bytes: 0,
        log_inside: true,
        log_offset: 0,
        log_bytes: 1 << 16,
        reproduced: 0,
        log_sequence: 0,
        group: 0,
        compress: false,
        migrating: 0,
        growing: 0,
        log_growing: 0,
        page_checksums: false,
    };
    let superblocks = Superblocks::create(&Arc::new(file), superblock).unwrap();
    (dir, superblocks)
}

/// Memory, a device with one write in flight, and one with several.
const DEPTHS: [usize; 3] = [0, 1, 8];

fn identity() -> Identity {
    Identity { pool: 1, generation: 1, stream: 0 }
}

/// Creates a pipeline over a log of this depth.
fn world(depth: usize) -> World {
    world_of(depth, Grouping::NONE)
}

/// Creates a pipeline with this grouping.
fn world_of(depth: usize, grouping: Grouping) -> World {
    let (dir, superblocks) = superblocks();
    let [log_fails, heap_fails] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (in_flight, image) = (Mutex::default(), Mutex::new(vec![0; 1 << 13]));
    let log = Arc::new(Log { fails: Arc::clone(&log_fails), depth, in_flight, image });
    let persist = Persist::new(Arc::clone(&log) as _, identity(), TxId(0), grouping);
    let slot = persist.register(1 << 14).unwrap();
    let reproduce = Reproduce::new(Parts::whole(HeapImage(Arc::clone(&heap_fails))), superblocks);
    let pipeline = Pipeline::new(persist, reproduce, 1 << 16, false, false);
    let (clock, writer) = (AtomicU64::new(0), Writer::new(&slot.ring));
    World { _dir: dir, pipeline, clock, slot, writer, log, log_fails, heap_fails }
}

impl World {
    fn commit(&mut self) -> TxId {
        self.commit_bytes(72)
    }

    fn commit_bytes(&mut self, bytes: usize) -> TxId {
        commit(&self.clock, &self.slot, &mut self.writer, bytes)
    }
}

/// Commits a transaction that takes `bytes` of the log as a group of its own.
fn commit(clock: &AtomicU64, slot: &Slot, writer: &mut Writer, bytes: usize) -> TxId {
    let words = bytes / 8 - lw_log::GROUP_HEADER_WORDS - 1;
    assert!(writer.has_room(&slot.ring, words));
    slot.assigning(clock.load(Ordering::Relaxed));
    let id = clock.fetch_add(1, Ordering::AcqRel) + 1;
    let mut record = writer.record(&slot.ring);
    if words > 0 {
        record.push(medium::writes::run(0, words - 1));
        (1..words).for_each(|_| record.push(id));
    }
    record.publish(id);
    slot.assigned();
    TxId(id)
}

#[test]
fn failed_log_write_acknowledges_nothing_and_poisons() {
    for depth in DEPTHS {
        let mut world = world(depth);
        let good = world.commit();
        world.pipeline.wait(&world.clock, good).unwrap();
        let lost = world.commit();
        world.log_fails.store(true, Ordering::Relaxed);
        let message = world.pipeline.wait(&world.clock, lost).unwrap_err().to_string();
        assert!(message.contains("cannot go on") && message.contains("broken"), "{message}");
        assert_eq!(world.pipeline.persist.durable(), good);
        // The medium works again, but that proves nothing about the failed write.
        world.log_fails.store(false, Ordering::Relaxed);
        assert!(matches!(world.pipeline.wait(&world.clock, lost), Err(Error::Poisoned { .. })));
        assert!(world.pipeline.close(&world.clock).is_err());
        world.pipeline.wait(&world.clock, good).unwrap();
        assert_eq!(world.pipeline.persist.durable(), good);
    }
}

#[test]
fn failed_log_write_reaches_every_waiter() {
    for depth in DEPTHS {
        let mut world = world(depth);
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
}

#[test]
fn failed_heap_write_keeps_log_and_poisons() {
    let mut world = world(0);
    let id = world.commit();
    world.pipeline.wait(&world.clock, id).unwrap();
    world.heap_fails.store(true, Ordering::Relaxed);
    assert!(matches!(world.pipeline.reproduce_step(true), Err(Error::Poisoned { .. })));
    assert_eq!(world.pipeline.reproduce.reproduced(), TxId(0));
    assert_eq!(world.pipeline.persist.queue.tail.load(Ordering::Relaxed), 0, "nothing is recycled");
    let next = world.commit();
    assert!(world.pipeline.wait(&world.clock, next).is_err());
}

#[test]
fn log_is_recycled_only_after_reproduction() {
    for depth in DEPTHS {
        let mut world = world(depth);
        for round in 1..=2000_u64 {
            let id = world.commit();
            world.pipeline.wait(&world.clock, id).unwrap();
            let (persist, reproduce) = (&world.pipeline.persist, &world.pipeline.reproduce);
            assert!(reproduce.reproduced() <= persist.durable() && persist.durable() == id);
            assert!(persist.queue.bytes() <= 1 << 16, "round {round}");
        }
        assert!(world.pipeline.reproduce.reproduced() > TxId(0), "the log went round");
    }
}

#[test]
fn compressed_groups_count_decoded_bytes() {
    for depth in DEPTHS {
        for threads in [1, 2] {
            let grouping = Grouping { compress: true, threads, ..Grouping::NONE };
            let mut world = world_of(depth, grouping);
            for round in 0..40 {
                let id = world.commit_bytes(20 << 10);
                world.pipeline.wait(&world.clock, id).unwrap();
                let queue = &world.pipeline.persist.queue;
                assert!(queue.plain_bytes() <= 1 << 16, "depth {depth}, round {round}");
                assert!(queue.bytes() < 1 << 13, "depth {depth}, round {round}");
                assert_eq!(world.pipeline.is_due(), queue.plain_bytes() >= 1 << 15);
            }
            assert!(world.pipeline.reproduce.reproduced() > TxId(0), "there was no room");
            world.pipeline.close(&world.clock).unwrap();
            assert_eq!(world.pipeline.persist.queue.plain_bytes(), 0);
        }
    }
}

#[test]
fn full_log_makes_reproduction_due() {
    for depth in DEPTHS {
        const KIB: usize = 1 << 10;
        let mut world = world(depth);
        let id = world.commit_bytes(31 * KIB);
        world.pipeline.wait(&world.clock, id).unwrap();
        assert_eq!(world.pipeline.reproduce_step(false).unwrap(), Step::Done);
        let id = world.commit_bytes(2 * KIB);
        world.pipeline.wait(&world.clock, id).unwrap();
        assert!(!world.pipeline.is_due());
        // Half a log does not fit before the log wrap, and does not fit after it yet.
        let id = world.commit_bytes(32 * KIB);
        assert_eq!(world.pipeline.persist_step(&world.clock, false, true).unwrap(), Step::LogFull);
        assert!(world.pipeline.is_due());
        assert_eq!(world.pipeline.reproduce_step(false).unwrap(), Step::Done);
        assert_ne!(world.pipeline.persist_step(&world.clock, false, true).unwrap(), Step::LogFull);
        world.pipeline.wait(&world.clock, id).unwrap();
    }
}

#[test]
fn idle_worker_releases_ring_memory() {
    let mut world = world(0);
    world.slot = world.pipeline.persist.register(64 * REGION_WORDS).unwrap();
    world.writer = Writer::new(&world.slot.ring);
    let mut last = TxId(0);
    // More than the least region, which is left for the next one.
    for _ in 0..40 {
        last = world.commit_bytes(4 << 10);
    }
    world.pipeline.wait(&world.clock, last).unwrap();
    let used = |slot: &Slot| {
        let words = slot.ring.storage().words();
        words.iter().filter(|word| word.load(Ordering::Relaxed) != 0).count()
    };
    assert!(used(&world.slot) > REGION_WORDS);
    // The first look finds that records were taken.
    world.pipeline.persist.release_idle(false);
    assert!(used(&world.slot) > REGION_WORDS);
    world.pipeline.persist.release_idle(false);
    assert!(used(&world.slot) < REGION_WORDS, "{}", used(&world.slot));
    for _ in 0..40 {
        last = world.commit_bytes(4 << 10);
    }
    world.pipeline.wait(&world.clock, last).unwrap();
    assert!(used(&world.slot) > 0);
    world.pipeline.persist.release_idle(true);
    assert!(used(&world.slot) < REGION_WORDS, "{}", used(&world.slot));
    world.pipeline.close(&world.clock).unwrap();
}

/// Runs a step in a destructor while its thread panics for a reason of its own.
#[test]
fn successful_step_in_panicking_thread_poisons_nothing() {
    struct WaitsWhenDropped<'w>(&'w Pipeline, &'w AtomicU64, TxId);
    impl Drop for WaitsWhenDropped<'_> {
        fn drop(&mut self) {
            self.0.wait(self.1, self.2).expect("the medium works");
            self.0.checkpoint(self.1).expect("the medium works");
        }
    }
    for depth in DEPTHS {
        let mut world = world(depth);
        let id = world.commit();
        let panics = std::panic::AssertUnwindSafe(|| {
            let _waits = WaitsWhenDropped(&world.pipeline, &world.clock, id);
            panic!("a program's own bug");
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(world.pipeline.persist.durable(), id);
        world.pipeline.close(&world.clock).unwrap();
    }
}

struct Panics;

impl HeapMedium for Panics {
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
fn panicking_step_poisons_and_prevents_clean_shutdown() {
    let mut world = world(0);
    let (_dir, superblocks) = superblocks();
    let file = Arc::clone(superblocks.file());
    world.pipeline.reproduce = Reproduce::new(Parts::whole(Panics), superblocks);
    let id = world.commit();
    world.pipeline.wait(&world.clock, id).unwrap();
    let step = std::panic::AssertUnwindSafe(|| world.pipeline.reproduce_step(true));
    assert!(std::panic::catch_unwind(step).is_err());
    let message = world.pipeline.close(&world.clock).unwrap_err().to_string();
    assert!(message.contains("reproduce step panicked"), "{message}");
    let copies = PairedBlock::read(&file).unwrap();
    assert!(!Superblocks::of(&file, &copies).unwrap().current().clean);
}

/// A heap image whose barrier lasts until the test ends it.
struct Slow {
    entered: Sender<()>,
    end: Receiver<()>,
}

impl HeapMedium for Slow {
    fn write_back(&mut self, _: &[u64]) -> Result<(), medium::Error> {
        Ok(())
    }
    fn barrier(&mut self) -> Result<(), medium::Error> {
        self.entered.send(()).expect("the test waits");
        self.end.recv_timeout(Duration::from_secs(60)).expect("metrics wait for no barrier");
        Ok(())
    }
    fn counts(&self) -> Counts {
        Counts { bytes: 4096, ..Counts::default() }
    }
}

#[test]
fn metrics_wait_for_no_running_step() {
    let mut world = world(1);
    let (_dir, superblocks) = superblocks();
    let ((entered, begun), (ends, end)) = (channel(), channel());
    world.pipeline.reproduce = Reproduce::new(Parts::whole(Slow { entered, end }), superblocks);
    let id = world.commit();
    world.pipeline.wait(&world.clock, id).unwrap();
    let lost = world.commit();
    let World { pipeline, clock, .. } = &world;
    std::thread::scope(|scope| {
        scope.spawn(|| pipeline.reproduce_step(true).unwrap());
        begun.recv().expect("the step reaches its barrier");
        let metrics = pipeline.metrics(clock);
        ends.send(()).expect("the barrier waits");
        assert_eq!((metrics.log_used_bytes, metrics.log_capacity_bytes), (128, 1 << 16));
    });
    assert_eq!(pipeline.metrics(clock).log_used_bytes, 0, "the barrier has ended");
    assert!(pipeline.metrics(clock).heap_image_bytes > 4096, "the pages and the superblock");
    assert!(pipeline.metrics(clock).undurable_ns > 0, "a commit is not durable");
    pipeline.wait(clock, lost).unwrap();
    assert_eq!(pipeline.metrics(clock).undurable_ns, 0);
}

#[test]
fn groups_in_flight_are_acknowledged_in_order() {
    let mut world = world(4);
    let timer = StepTimer { blocks: false, helped: false };
    let persist = &world.pipeline.persist;
    let ids: Vec<TxId> = (0..2)
        .map(|_| {
            let id = commit(&world.clock, &world.slot, &mut world.writer, 72);
            assert_eq!(persist.send(&world.clock, timer).unwrap(), Step::Done);
            id
        })
        .collect();
    assert_eq!(persist.durable(), TxId(0), "sent is not durable");
    // A small group waits, a full one is sent.
    commit(&world.clock, &world.slot, &mut world.writer, 72);
    assert_eq!(persist.send(&world.clock, timer).unwrap(), Step::HeldBack);
    commit(&world.clock, &world.slot, &mut world.writer, 30 << 10);
    assert_eq!(persist.send(&world.clock, timer).unwrap(), Step::More);
    assert_eq!(persist.acknowledge(false, timer).unwrap(), Step::Nothing);
    for id in ids {
        assert_eq!(persist.acknowledge(true, timer).unwrap(), Step::Done);
        assert_eq!(persist.durable(), id);
    }
    assert_eq!(persist.acknowledge(true, timer).unwrap(), Step::Done);
    assert_eq!(persist.durable(), TxId(4));
    assert_eq!(persist.acknowledge(true, timer).unwrap(), Step::Nothing);
    world.pipeline.close(&world.clock).unwrap();
    assert_eq!(world.pipeline.reproduce.reproduced(), TxId(4));
}

#[test]
fn listener_is_notified_once_of_outcome() {
    for depth in DEPTHS {
        let mut world = world(depth);
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let listen = |world: &World, name: &'static str, id: TxId| {
            let outcomes = Arc::clone(&outcomes);
            let callback =
                move |outcome: Result<(), Error>| lock(&outcomes).push((name, outcome.is_ok()));
            world.pipeline.persist.progress.notify(id.0, Listener::Callback(Box::new(callback)));
        };
        let first = world.commit();
        listen(&world, "before", first);
        listen(&world, "panics", first);
        let panics = Listener::Callback(Box::new(|_| panic!("a callback's own bug")));
        world.pipeline.persist.progress.notify(first.0, panics);
        struct Wakes;
        impl std::task::Wake for Wakes {
            fn wake(self: Arc<Self>) {
                panic!("an executor's own bug");
            }
        }
        world.pipeline.persist.progress.notify(first.0, Listener::Task(Arc::new(Wakes).into()));
        assert!(lock(&outcomes).is_empty());
        world.pipeline.wait(&world.clock, first).unwrap();
        listen(&world, "after", first);
        assert_eq!(*lock(&outcomes), [("before", true), ("panics", true), ("after", true)]);
        let lost = world.commit();
        listen(&world, "lost", lost);
        world.log_fails.store(true, Ordering::Relaxed);
        assert!(world.pipeline.wait(&world.clock, lost).is_err());
        listen(&world, "hopeless", lost);
        listen(&world, "durable all the same", first);
        let rest = [("lost", false), ("hopeless", false), ("durable all the same", true)];
        assert_eq!(lock(&outcomes)[3..], rest);
    }
}

/// A group of the test below: its place in the log's image, its ID, and the number of groups
/// acknowledged before it was sent.
struct Sent {
    place: usize,
    id: u64,
    known: usize,
}

/// Scans the log without the `lost` groups; returns the last ID, or an error if the log is damaged.
fn scanned(world: &World, lost: &[usize], tail: u64, reproduced: TxId) -> Result<u64, ()> {
    let image = lock(&world.log.image).clone();
    lost.iter().for_each(|&place| lock(&world.log.image)[place] = 0);
    let mut scan = lw_log::Scan::new(&*world.log, identity(), tail, reproduced, 1 << 20);
    let mut last = reproduced.0;
    let end = loop {
        match scan.next_group().unwrap() {
            lw_log::Found::Group { last: found, .. } => last = found.0,
            lw_log::Found::Damaged { .. } => break Err(()),
            lw_log::Found::End | lw_log::Found::Torn { .. } => break Ok(last),
        }
    };
    *lock(&world.log.image) = image;
    end
}

/// Several groups in flight, of which a crash may lose any, and damage to groups that were
/// acknowledged before a later one was sent. Covers several log wraps with skipped ends.
#[test]
fn torn_group_in_flight_is_not_damage() {
    let mut world = world(4);
    let timer = StepTimer { blocks: false, helped: false };
    let (mut sent, mut acknowledged) = (Vec::<Sent>::new(), 0);
    let (mut crashes, mut damages) = (0, 0);
    for round in 0..400_u64 {
        let random = (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let persist = &world.pipeline.persist;
        if random % 3 > 0 && sent.len() - acknowledged < 4 {
            let head = |persist: &Persist| persist.meter.log()[0];
            let bytes = [72, 4000, 26 << 10][random as usize / 3 % 3];
            let id = commit(&world.clock, &world.slot, &mut world.writer, bytes);
            let before = head(persist);
            let step = persist.send(&world.clock, timer).unwrap();
            if matches!(step, Step::Done | Step::More) {
                let length = (bytes as u64).next_multiple_of(64);
                let place = (head(persist) - length) % 65536 / 8;
                assert!(head(persist) >= before + length);
                sent.push(Sent { place: place as usize, id: id.0, known: acknowledged });
            } else {
                // The group waits and would share the next write. Finish all groups in flight
                // first.
                while world.pipeline.persist_step(&world.clock, false, true).unwrap()
                    != Step::Nothing
                {
                    world.pipeline.reproduce_step(false).unwrap();
                }
                (acknowledged, sent) = (0, Vec::new());
                continue;
            }
        } else if persist.acknowledge(true, timer).unwrap() == Step::Done {
            acknowledged += 1;
        }
        let tail = world.pipeline.persist.queue.tail.load(Ordering::Relaxed);
        let reproduced = world.pipeline.reproduce.reproduced();
        let (known, flying) = sent.split_at(acknowledged);
        let before = world.pipeline.persist.durable().0;
        let durable = known.last().map_or(before, |group| group.id);
        for mask in 0..1_u32 << flying.len() {
            let is_lost = |&(i, _): &(usize, &Sent)| mask & 1 << i != 0;
            let lost: Vec<_> = flying.iter().enumerate().filter(is_lost).collect();
            let first = lost.first().map_or(flying.len(), |(i, _)| *i);
            let survives = flying[..first].last().map_or(durable, |group| group.id);
            let places: Vec<_> = lost.iter().map(|(_, group)| group.place).collect();
            assert_eq!(scanned(&world, &places, tail, reproduced), Ok(survives), "{round} {mask}");
            crashes += u32::from(mask != 0);
        }
        for (number, group) in known.iter().enumerate() {
            let proved = sent[number + 1..].iter().any(|later| later.known > number);
            let found = scanned(&world, &[group.place], tail, reproduced);
            assert_eq!(found.is_err(), proved, "round {round}, group {number}");
            damages += u32::from(proved);
        }
    }
    assert!(crashes > 100 && damages > 100, "{crashes} crashes, {damages} damages");
}
