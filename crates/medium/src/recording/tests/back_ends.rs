//! Suite of all back ends on a recorded machine without faults.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::cpu::LineWriteBack;
use crate::mapped::Combining;
use crate::suite::{self, Disk};
use crate::{Domain, FileHome, FileLog, LogMedium, LogPath, MappedHome, MappedLog};

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
    suite::heap_image_keeps_every_write_on(disk(true), FileHome::new);
    suite::heap_image_keeps_every_write_on(disk(true), |file, offset, bytes| {
        Ok(FileHome::new(file, offset, bytes)?.with_gather_bytes_max(3 * 4096))
    });
    suite::heap_image_refuses_wrong_batches_on(disk(true), FileHome::new);
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
                let home = MappedHome::new(file, offset, bytes, &domain)?;
                Ok(home.with_combining(combining))
            });
        }
        suite::heap_image_refuses_wrong_batches_on(disk(true), |file, offset, bytes| {
            MappedHome::new(file, offset, bytes, &domain)
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
    let (disk, recorder) = (disk(true)(), quiet(calm()));
    drop(disk);
    drop(Disk::of(recorder.system()).pool());
    let file = crate::PoolFile::open_shared_on(&recorder.system(), "/pool").unwrap();
    let file = Arc::new(file);
    for domain in domains() {
        let home = MappedHome::new(file.clone(), 8192, 4096, &domain);
        assert!(matches!(home, Err(crate::Error::ReadOnly { .. })), "{home:?}");
    }
}
