//! Suite of all back ends on a simulated machine without faults.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use faults::recording::{Choose, Model, Question, Recorder, Scripted, every};

use super::{Disk, HEAP_BYTES, HEAP_OFFSET};
use crate::area::Area;
use crate::cpu::LineWriteBack;
use crate::mapped::Combining;
use crate::mapping::Sharing;
use crate::suite;
use crate::sync::{Arc, Ordering};
use crate::writes::run;
use crate::{
    Domain, Error, FileHeap, FileLog, HeapMedium, LogMedium, LogPath, MappedHeap, MappedLog,
    PoolFile, Prewrite,
};

/// Model without faults.
fn calm() -> Model {
    Model { crashes: 0, ..Model::default() }
}

/// Returns a machine whose chooser always picks the first option.
fn quiet() -> Recorder {
    Recorder::new(calm(), Box::new(Scripted::default()))
}

/// Chooser that picks every option at random, such as the next write to complete.
struct Any(Xoshiro256PlusPlus);

impl Choose for Any {
    fn choose(&mut self, question: Question) -> usize {
        self.0.random_range(0..question.options)
    }
}

fn disk(queue: bool) -> impl Fn() -> Disk {
    move || {
        let chooser = Any(Xoshiro256PlusPlus::seed_from_u64(1));
        let recorder = Recorder::new(Model { queue, ..calm() }, Box::new(chooser));
        Disk::of(recorder.system())
    }
}

fn domains() -> [Domain; 2] {
    [Domain::dax_over_dram(LineWriteBack::detect()), Domain::persistent_cache()]
}

#[test]
fn recorded_file_keeps_every_write() {
    suite::heap_image_keeps_every_write_on(disk(true), FileHeap::new);
    suite::heap_image_keeps_every_write_on(disk(true), |file, offset, bytes| {
        Ok(FileHeap::new(file, offset, bytes)?.with_gather_bytes_max(3 * 4096))
    });
    suite::heap_image_refuses_wrong_batches_on(disk(true), FileHeap::new);
}

#[test]
fn files_keep_every_group_one_at_a_time_or_in_a_queue() {
    for (queue, depth) in [(false, 1), (true, 8)] {
        suite::log_keeps_every_group_on(disk(queue), |file, offset, bytes| {
            let log = FileLog::new(file, offset, bytes)?;
            assert_eq!(
                (log.path(), log.depth()),
                (LogPath { io_uring: queue, direct: true }, depth)
            );
            Ok(log)
        });
        suite::log_refuses_wrong_ranges_on(disk(queue), FileLog::new);
    }
}

#[test]
fn recorded_memory_keeps_every_write() {
    for domain in domains() {
        for combining in [Combining::WhenSkewed, Combining::Always] {
            suite::heap_image_keeps_every_write_on(disk(true), |file, offset, bytes| {
                let heap_image = MappedHeap::new(file, offset, bytes, &domain)?;
                Ok(heap_image.with_combining(combining))
            });
        }
        suite::heap_image_refuses_wrong_batches_on(disk(true), |file, offset, bytes| {
            MappedHeap::new(file, offset, bytes, &domain)
        });
    }
}

#[test]
fn memory_keeps_every_group() {
    for domain in domains() {
        suite::log_keeps_every_group_on(disk(true), |file, offset, bytes| {
            MappedLog::new(file, offset, bytes, &domain)
        });
        suite::log_refuses_wrong_ranges_on(disk(true), |file, offset, bytes| {
            MappedLog::new(file, offset, bytes, &domain)
        });
    }
}

#[test]
fn read_only_file_is_refused_as_memory() {
    let recorder = quiet();
    drop(Disk::of(recorder.system()).pool());
    let file = PoolFile::open_shared_on(&recorder.system(), "/pool").unwrap();
    let file = Arc::new(file);
    for domain in domains() {
        let heap_image = MappedHeap::new(file.clone(), 8192, 4096, &domain);
        assert!(matches!(heap_image, Err(crate::Error::ReadOnly { .. })), "{heap_image:?}");
    }
}

/// Returns the heap image in a recorded file.
fn heap_image(recorder: &Recorder, domain: &Domain) -> MappedHeap {
    let file = Disk::of(recorder.system()).pool();
    MappedHeap::new(file, HEAP_OFFSET, HEAP_BYTES, domain).unwrap()
}

fn heap_word(recorder: &Recorder, word: u64) -> u64 {
    recorder.crash();
    let file = PoolFile::open_on(&recorder.system(), "/pool").unwrap();
    let mut out = [9];
    file.read_at(HEAP_OFFSET + 8 * word, &mut out).unwrap();
    out[0]
}

#[test]
fn a3_heap_image_is_durable_after_another_threads_barrier() {
    let dax = Domain::dax_over_dram(LineWriteBack::detect());
    for combining in [Combining::Never, Combining::Always, Combining::WhenSkewed] {
        let found = |barrier: bool| {
            every(calm(), |recorder| {
                let mut heap_image = heap_image(recorder, &dax).with_combining(combining);
                std::thread::scope(|scope| {
                    let write = || heap_image.write_back(&[run(10, 1), 42]).unwrap();
                    scope.spawn(write).join().unwrap();
                });
                if barrier {
                    heap_image.barrier().unwrap();
                }
                heap_word(recorder, 10)
            })
        };
        assert_eq!(found(true), BTreeSet::from([42]), "{combining:?}");
        // Without it a line that is combined is in the cache still.
        let unbarred = if combining == Combining::Always { [0, 42].into() } else { [42].into() };
        assert_eq!(found(false), unbarred, "{combining:?}");
    }
}

#[test]
fn private_mapping_follows_file_except_own_writes() {
    let file = Disk::of(quiet().system()).pool();
    file.write_at(4096, &[1]).unwrap();
    let area = Area::new(file.clone(), 4096, 8192).unwrap();
    let mapping = area.map(Sharing::CopyOnWrite).unwrap();
    let word = |at: usize| mapping.words()[at].load(Ordering::Relaxed);
    assert_eq!((word(0), word(512)), (1, 0));
    file.write_at(4096 + 8 * 64, &[2]).unwrap();
    file.handle().memory(0, 3 * 4096, false).unwrap().store(1024, &[3]);
    assert_eq!((word(64), word(512)), (2, 3));
    mapping.words()[0].store(77, Ordering::Relaxed);
    file.write_at(4096, &[4]).unwrap();
    assert_eq!(word(0), 77, "the page is its own");
    let mut found = [0];
    file.read_at(4096, &mut found).unwrap();
    assert_eq!(found, [4], "and the file's is the file's");
}

#[test]
fn removed_file_stays_removed_after_power_failure() {
    // The first option keeps the names that the last sync of the directory has left.
    let recorder = quiet();
    let file = PoolFile::create_on(&recorder.system(), "/part", 4096, Prewrite::No).unwrap();
    file.publish().unwrap();
    file.remove().unwrap();
    drop(file);
    recorder.crash();
    let opened = PoolFile::open_on(&recorder.system(), "/part");
    assert!(matches!(opened, Err(Error::NotFound { .. })), "{opened:?}");
}
