//! Tests of files: A5 to A10.

use system::SimulatedQueue;

use super::*;

const PLAIN: ReadWriteFlags = ReadWriteFlags::empty();

/// Returns the possible first sectors of a file of zeros after this.
fn may_be<const N: usize>(model: Model, work: impl Fn(&dyn Handle)) -> BTreeSet<[u8; N]> {
    every(model, |recorder| {
        let file = durable(recorder, 4096);
        work(&*file);
        left(recorder)
    })
}

#[test]
fn a5_sector_holds_any_content_since_last_sync() {
    let twice = |file: &dyn Handle| {
        write(file, 0, &[1], PLAIN);
        write(file, 0, &[2], PLAIN);
    };
    assert_eq!(may_be(calm(), twice), set([[0], [1], [2]]));
    let synced_between = may_be(calm(), |file| {
        write(file, 0, &[1], PLAIN);
        file.sync_data().unwrap();
        write(file, 0, &[2], PLAIN);
        write(file, 0, &[3], PLAIN);
    });
    assert_eq!(synced_between, set([[1], [2], [3]]));
    let synced = |sync: fn(&dyn Handle)| {
        may_be(calm(), |file| {
            twice(file);
            sync(file);
        })
    };
    assert_eq!(synced(|file| file.sync_data().unwrap()), set([[2]]));
    assert_eq!(synced(|file| file.sync_all().unwrap()), set([[2]]));
}

#[test]
fn a5_sectors_are_independent() {
    let found = may_be(calm(), |file| {
        write(file, 0, &[1, 1, 1], PLAIN);
        write(file, 2, &[2], PLAIN);
    });
    let all = [0, 1].into_iter().flat_map(|a| [0, 1].map(|b| (a, b)));
    assert_eq!(found, set(all.flat_map(|(a, b)| [0, 1, 2].map(|c| [a, b, c]))));
}

#[test]
fn a5_partly_written_sector_is_not_torn() {
    let found = every(calm(), |recorder| {
        let file = durable(recorder, 4096);
        for at in [0, 8] {
            file.write(&[std::io::IoSlice::new(&[1; 8])], at, PLAIN).unwrap();
        }
        recorder.crash();
        let mut bytes = [9; 16];
        open(&recorder.system()).read(&mut bytes, 0).unwrap();
        [bytes[0], bytes[8]]
    });
    assert_eq!(found, set([[0, 0], [1, 0], [1, 1]]));
}

#[test]
fn a5_durable_write_covers_only_its_range() {
    let found = may_be(calm(), |file| {
        write(file, 0, &[1], PLAIN);
        write(file, 2, &[3], PLAIN);
        write(file, 1, &[2], DSYNC);
    });
    assert_eq!(found, set([[0, 2, 0], [0, 2, 3], [1, 2, 0], [1, 2, 3]]));
    let same = may_be(calm(), |file| {
        write(file, 0, &[1], PLAIN);
        write(file, 0, &[2], DSYNC);
    });
    assert_eq!(same, set([[2]]));
}

/// A machine's queue for the file of `durable`.
fn queue(file: &dyn Handle) -> Box<dyn SimulatedQueue> {
    file.queue().unwrap()
}

fn submit(queue: &dyn SimulatedQueue, number: u64, first: u64, fill: &[u8]) {
    let bytes: Vec<u8> = fill.iter().flat_map(|byte| [*byte; 512]).collect();
    queue.submit(number, 512 * first, &bytes);
}

/// Returns the acknowledged of two writes of two sectors each, and the contents after a crash.
fn two_in_flight(asked: usize, wait: bool) -> BTreeSet<(Vec<u64>, [u8; 4])> {
    every(calm(), |recorder| {
        let file = durable(recorder, 4096);
        let queue = queue(&*file);
        submit(&*queue, 7, 0, &[1, 1]);
        submit(&*queue, 8, 2, &[2, 2]);
        let completed = (0..asked).filter_map(|_| queue.completion(wait));
        let completed = completed.map(|(number, done)| {
            assert_eq!(done, Ok(1024));
            number
        });
        let completed = completed.collect();
        (completed, left(recorder))
    })
}

/// The four sectors, where each is there or not; some must be.
fn some_of(must: u32) -> impl Iterator<Item = [u8; 4]> {
    let all = (0..16_u32).filter(move |bits| bits & must == must);
    all.map(|bits| std::array::from_fn(|at| [1, 1, 2, 2][at] * u8::from(bits & 1 << at != 0)))
}

#[test]
fn a6_writes_in_flight_are_kept_in_any_pieces() {
    assert_eq!(two_in_flight(0, true), set(some_of(0).map(|left| (vec![], left))));
}

#[test]
fn a6_completed_writes_are_durable_in_any_order() {
    let first = some_of(3).map(|left| (vec![7], left));
    let second = some_of(12).map(|left| (vec![8], left));
    let one = set(first.chain(second));
    assert_eq!(two_in_flight(1, true), one);
    let none = some_of(0).map(|left| (vec![], left));
    assert_eq!(two_in_flight(1, false), set(one.into_iter().chain(none)));
    let both = [vec![7, 8], vec![8, 7]].map(|completed| (completed, [1, 1, 2, 2]));
    assert_eq!(two_in_flight(2, true), set(both));
    assert_eq!(two_in_flight(3, true), two_in_flight(2, true), "nothing is left to wait for");
}

#[test]
fn a6_sync_does_not_cover_writes_in_flight() {
    let found = may_be(calm(), |file| {
        let queue = queue(file);
        write(file, 0, &[1], PLAIN);
        submit(&*queue, 0, 1, &[2]);
        file.sync_data().unwrap();
        std::mem::forget(queue);
    });
    assert_eq!(found, set([[1, 0], [1, 2]]));
}

#[test]
fn a6_concurrent_writes_to_one_place_end_in_either_order() {
    let found = may_be(calm(), |file| {
        let queue = queue(file);
        submit(&*queue, 0, 0, &[1]);
        submit(&*queue, 1, 0, &[2]);
        assert!(queue.completion(true).is_some() && queue.completion(true).is_some());
        file.sync_data().unwrap();
    });
    assert!(found.is_superset(&set([[1], [2]])), "{found:?}");
    let apart = may_be(calm(), |file| {
        let queue = queue(file);
        submit(&*queue, 0, 0, &[1]);
        assert!(queue.completion(true).is_some());
        submit(&*queue, 1, 0, &[2]);
        assert!(queue.completion(true).is_some());
    });
    assert_eq!(apart, set([[2]]));
}

#[test]
fn a6_short_write_is_durable_up_to_its_length() {
    let model = Model { faults: 1, ..calm() };
    let found = every(model, |recorder| {
        let file = durable_for_sure(recorder);
        let queue = queue(&*file);
        submit(&*queue, 0, 0, &[1, 1]);
        let (_, completed) = queue.completion(true).unwrap();
        recorder.set_model(Model::calm);
        (completed.ok(), left(recorder))
    });
    let all = [0, 1].into_iter().flat_map(|a| [0, 1].map(|b| (None, [a, b])));
    let short = [0, 1].map(|b| (Some(512), [1, b]));
    assert_eq!(found, set(all.chain(short).chain([(Some(1024), [1, 1])])));
}

const GARBAGE: u8 = 1 ^ 0xa5;

#[test]
fn a7_garbage_replaces_durable_write_in_flight_if_enabled() {
    let in_flight = |garbage| {
        may_be(Model { garbage, ..calm() }, |file| {
            write(file, 1, &[1], PLAIN);
            let queue = queue(file);
            submit(&*queue, 0, 0, &[1]);
            std::mem::forget(queue);
        })
    };
    let first = |all: &[u8]| set(all.iter().flat_map(|a| [[*a, 0], [*a, 1]]));
    assert_eq!(in_flight(false), first(&[0, 1]));
    assert_eq!(in_flight(true), first(&[0, 1, GARBAGE]));
    // A write that is interrupted in the middle of its call is no other.
    let model = Model { garbage: true, crashes: 1, ..calm() };
    let found = every(model, |recorder| {
        let file = durable_for_sure(recorder);
        let cut = power_goes(|| assert!(write(&*file, 0, &[1], DSYNC)));
        (cut, if cut { sectors::<1>(&*open(&recorder.system())) } else { left(recorder) })
    });
    assert_eq!(found, set([(true, [0]), (true, [1]), (true, [GARBAGE]), (false, [1])]));
}

#[test]
fn a7_killed_process_leaves_no_garbage() {
    let found = every(Model { garbage: true, ..calm() }, |recorder| {
        let file = durable(recorder, 4096);
        let queue = queue(&*file);
        submit(&*queue, 0, 0, &[1]);
        recorder.exit();
        left(recorder)
    });
    assert_eq!(found, set([[0], [1]]));
}

#[test]
fn a7_rewritten_bytes_may_become_garbage() {
    let found = may_be(Model { garbage: true, ..calm() }, |file| {
        write(file, 0, &[1], DSYNC);
        let queue = queue(file);
        submit(&*queue, 0, 0, &[1]);
        std::mem::forget(queue);
    });
    assert_eq!(found, set([[1], [1 ^ 0xa5]]));
}

#[test]
fn a8_sync_after_failed_sync_makes_nothing_durable() {
    let after_failure = |then: fn(&dyn Handle)| {
        let found = every(Model { faults: 1, ..calm() }, |recorder| {
            let file = durable_for_sure(recorder);
            assert!(recorder.faults() == 0);
            recorder.set_model(|model| model.faults = 0);
            write(&*file, 0, &[1], PLAIN);
            recorder.set_model(|model| model.faults = 1);
            let failed = file.sync_data().is_err();
            recorder.set_model(|model| model.faults = 0);
            assert_eq!(recorder.faults(), u64::from(failed));
            then(&*file);
            (failed, left::<1>(recorder)[0])
        });
        assert!(found.contains(&(false, 1)) && !found.contains(&(false, 0)), "{found:?}");
        set(found.into_iter().filter(|(failed, _)| *failed).map(|(_, left)| left))
    };
    assert_eq!(after_failure(|_| {}), set([0, 1]));
    assert_eq!(after_failure(|file| file.sync_data().unwrap()), set([0, 1]));
    assert_eq!(after_failure(|file| assert!(write(file, 1, &[2], DSYNC))), set([0, 1]));
    let again = |file: &dyn Handle| {
        write(file, 0, &[1], PLAIN);
        file.sync_data().unwrap();
    };
    assert_eq!(after_failure(again), set([1]));
    assert_eq!(after_failure(|file| assert!(write(file, 0, &[1], DSYNC))), set([1]));
}

#[test]
fn a8_failed_write_may_keep_any_part() {
    for flags in [PLAIN, DSYNC] {
        let found = every(Model { faults: 1, ..calm() }, |recorder| {
            let file = durable_for_sure(recorder);
            let done = write(&*file, 0, &[1, 1], flags);
            recorder.set_model(|model| model.faults = 0);
            let seen = sectors::<2>(&*file);
            file.sync_data().unwrap();
            (recorder.faults() > 0, done, seen, left::<2>(recorder))
        });
        let failed = found.iter().filter(|(failed, ..)| *failed);
        assert!(failed.clone().all(|(_, done, ..)| !done));
        let seen = set(failed.clone().map(|(.., seen, _)| *seen));
        assert_eq!(seen, set([[0, 0], [1, 0], [1, 1]]));
        // Written durably, its sync has failed with it.
        let all = set([[0, 0], [0, 1], [1, 0], [1, 1]]);
        let left = set(failed.map(|(.., left)| *left));
        assert_eq!(left, if flags == DSYNC { all } else { seen });
        let rest = found.iter().filter(|(failed, ..)| !failed);
        assert_eq!(set(rest.map(|(.., left)| *left)), set([[1, 0], [1, 1]]), "whole or short");
    }
}

#[test]
fn a8_sticky_failure_ends_with_the_process() {
    for sticky in [false, true] {
        let found = every(Model { faults: 1, sticky, ..calm() }, |recorder| {
            let file = durable_for_sure(recorder);
            let syncs = [file.sync_data().is_ok(), file.sync_data().is_ok()];
            recorder.exit();
            recorder.set_model(Model::calm);
            assert!(open(&recorder.system()).sync_data().is_ok());
            syncs
        });
        let once = set([[true, true], [true, false], [false, true]]);
        let stays = set([[true, true], [true, false], [false, false]]);
        assert_eq!(found, if sticky { stays } else { once });
    }
}

/// Which of these names are there, after the power went.
fn names<const N: usize>(recorder: &Recorder, names: [&str; N]) -> [bool; N] {
    recorder.crash();
    let system = recorder.system();
    names.map(|name| system.files().stat(Path::new(name)).is_ok())
}

#[test]
fn a9_unsynced_names_survive_independently() {
    let found = |sync: Option<&str>| {
        every(calm(), |recorder| {
            let system = recorder.system();
            drop((create(&system, "/a"), create(&system, "/d/b")));
            if let Some(directory) = sync {
                system.files().sync_directory(Path::new(directory)).unwrap();
            }
            names(recorder, ["/a", "/d/b"])
        })
    };
    let [no, yes] = [false, true];
    assert_eq!(found(None), set([[no, no], [no, yes], [yes, no], [yes, yes]]));
    assert_eq!(found(Some("/")), set([[yes, no], [yes, yes]]));
    assert_eq!(found(Some("/d")), set([[no, yes], [yes, yes]]));
}

#[test]
fn a9_rename_is_atomic_and_never_overwrites() {
    let found = |sync: bool| {
        every(calm(), |recorder| {
            drop(durable(recorder, 4096));
            let (system, to) = (recorder.system(), Path::new("/to"));
            system.files().rename(Path::new(PATH), to).unwrap();
            let back = system.files().rename(to, to);
            assert_eq!(back, Err(rustix::io::Errno::EXIST));
            if sync {
                system.files().sync_directory(Path::new("/")).unwrap();
            }
            names(recorder, [PATH, "/to"])
        })
    };
    assert_eq!(found(false), set([[true, false], [false, true]]));
    assert_eq!(found(true), set([[false, true]]));
}

#[test]
fn a9_link_and_removal_are_two_changes() {
    let found = every(calm(), |recorder| {
        drop(durable(recorder, 4096));
        let system = recorder.system();
        system.files().link(Path::new(PATH), Path::new("/to")).unwrap();
        system.files().unlink(Path::new(PATH)).unwrap();
        names(recorder, [PATH, "/to"])
    });
    let all = [false, true].into_iter().flat_map(|a| [[a, false], [a, true]]);
    assert_eq!(found, set(all));
}

#[test]
fn a9_bare_name_is_in_current_directory() {
    let found = every(calm(), |recorder| {
        let system = recorder.system();
        drop(create(&system, "file"));
        system.files().sync_directory(Path::new(".")).unwrap();
        names(recorder, ["file"])
    });
    assert_eq!(found, set([[true]]));
}

/// Returns the file's length after a power failure, and its first sector, if any.
fn length(recorder: &Recorder) -> u64 {
    recorder.crash();
    open(&recorder.system()).stat().unwrap().bytes
}

#[test]
fn a10_length_is_durable_with_its_sync() {
    let grown = |sync: fn(&dyn Handle)| {
        every(calm(), |recorder| {
            let file = durable(recorder, 4096);
            file.allocate(0, 8192).unwrap();
            write(&*file, 24, &[1], PLAIN); // to 12 800
            sync(&*file);
            length(recorder)
        })
    };
    assert_eq!(grown(|_| {}), set([4096, 8192, 12800]));
    assert_eq!(grown(|file| file.sync_data().unwrap()), set([12800]));
    // A durable write needs the length up to its end, and no more.
    assert_eq!(grown(|file| assert!(write(file, 0, &[1], DSYNC))), set([4096, 8192, 12800]));
    assert_eq!(grown(|file| assert!(write(file, 15, &[1], DSYNC))), set([8192, 12800]));
    let failed = every(Model { faults: 1, ..calm() }, |recorder| {
        let file = durable_for_sure(recorder);
        recorder.set_model(|model| model.faults = 0);
        file.allocate(0, 8192).unwrap();
        recorder.set_model(|model| model.faults = 1);
        let failed = file.sync_all().is_err();
        recorder.set_model(|model| model.faults = 0);
        file.sync_all().unwrap();
        (failed, length(recorder))
    });
    assert_eq!(failed, set([(false, 8192), (true, 4096), (true, 8192)]));
}

#[test]
fn a10_regrown_file_reads_zero_beyond_lost_length() {
    let found = every(calm(), |recorder| {
        let file = durable(recorder, 4096);
        file.allocate(0, 8192).unwrap();
        write(&*file, 8, &[1], PLAIN);
        file.memory(4096, 4096, false).unwrap().store(100, &[1]);
        recorder.crash();
        let file = open(&recorder.system());
        let bytes = file.stat().unwrap().bytes;
        file.allocate(0, 8192).unwrap();
        let mut word = [9];
        file.memory(4096, 4096, false).unwrap().read(100, &mut word);
        (bytes, sectors::<9>(&*file)[8], word[0])
    });
    let longer = [0, 1].into_iter().flat_map(|a| [0, 1].map(|b| (8192, a, b)));
    assert_eq!(found, set(longer.chain([(4096, 0, 0)])));
}
