//! Tests of processes and boots: A11, A12, and the properties of every boot.

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::*;

const PLAIN: ReadWriteFlags = ReadWriteFlags::empty();

#[test]
fn a11_next_process_reads_writes_that_are_not_durable() {
    let found = every(calm(), |recorder| {
        write(&*durable(recorder, 4096), 0, &[1, 2], PLAIN);
        recorder.exit();
        let file = open(&recorder.system());
        let seen = sectors::<2>(&*file);
        (seen, left::<2>(recorder))
    });
    let any = [[0, 0], [0, 2], [1, 0], [1, 2]];
    assert_eq!(found, set(any.map(|left| ([1, 2], left))));
    // The next one may make it durable.
    let synced = every(calm(), |recorder| {
        write(&*durable(recorder, 4096), 0, &[1], PLAIN);
        recorder.exit();
        open(&recorder.system()).sync_data().unwrap();
        left::<1>(recorder)
    });
    assert_eq!(synced, set([[1]]));
}

#[test]
fn a11_fence_covers_no_store_of_previous_process() {
    let found = |stream: bool, next: fn(&Area)| {
        every(calm(), |recorder| {
            let area = durable(recorder, 4096).memory(0, 4096, false).unwrap();
            if stream {
                area.stream(0, &[1]);
            } else {
                area.store(0, &[1]);
                area.write_back(0);
            }
            recorder.exit();
            let area = open(&recorder.system()).memory(0, 4096, false).unwrap();
            let (mut seen, mut left) = ([9], [9]);
            area.read(0, &mut seen);
            next(&area);
            recorder.crash();
            open(&recorder.system()).memory(0, 4096, false).unwrap().read(0, &mut left);
            (seen[0], left[0])
        })
    };
    for stream in [false, true] {
        assert_eq!(found(stream, fence), set([(1, 0), (1, 1)]));
        let written_back = |area: &Area| {
            area.write_back(0);
            area.fence();
        };
        assert_eq!(found(stream, written_back), set([(1, 1)]));
        // It does not undo the next process's stores over it.
        let stored_again = |area: &Area| {
            area.stream(0, &[2]);
            area.fence();
        };
        assert_eq!(found(stream, stored_again), set([(1, 2)]));
    }
}

#[test]
fn a11_names_gain_no_durability_at_exit() {
    let found = every(calm(), |recorder| {
        drop(create(&recorder.system(), PATH));
        recorder.exit();
        let seen = recorder.system().files().stat(Path::new(PATH)).is_ok();
        recorder.crash();
        (seen, recorder.system().files().stat(Path::new(PATH)).is_ok())
    });
    assert_eq!(found, set([(true, false), (true, true)]));
}

#[test]
fn a11_writes_in_flight_at_exit_are_kept_in_part() {
    let found = every(calm(), |recorder| {
        let file = durable(recorder, 4096);
        let queue = file.queue().unwrap();
        queue.submit(0, 0, &[1; 1024]);
        recorder.exit();
        let file = open(&recorder.system());
        let seen = sectors::<2>(&*file);
        assert_eq!(sectors::<2>(&*file), seen, "what was read stays so");
        (seen, left::<2>(recorder))
    });
    let any = || [[0, 0], [0, 1], [1, 0], [1, 1]].into_iter();
    // A write that was not carried out never will be.
    let pairs = any().flat_map(|seen| any().map(move |left| (seen, left)));
    let expected = pairs.filter(|(seen, left)| left[0] <= seen[0] && left[1] <= seen[1]);
    assert_eq!(found, set(expected));
    let synced = every(calm(), |recorder| {
        let file = durable(recorder, 4096);
        let queue = file.queue().unwrap();
        queue.submit(0, 0, &[1; 1024]);
        recorder.exit();
        let file = open(&recorder.system());
        let seen = sectors::<2>(&*file);
        file.sync_data().unwrap();
        (seen, left::<2>(recorder))
    });
    assert_eq!(synced, set(any().map(|seen| (seen, seen))));
}

#[test]
fn a11_kill_keeps_every_write() {
    let found = every(Model { kills: 1, ..calm() }, |recorder| {
        let file = durable_for_sure(recorder);
        write(&*file, 0, &[1], PLAIN);
        let killed = power_goes(|| file.sync_data().unwrap());
        let seen = killed.then(|| sectors::<1>(&*open(&recorder.system())));
        (killed, seen, left::<1>(recorder))
    });
    let killed = [[0], [1]].map(|left| (true, Some([1]), left));
    assert_eq!(found, set(killed.into_iter().chain([(false, None, [1])])));
}

const EXCLUSIVE: FlockOperation = FlockOperation::NonBlockingLockExclusive;
const SHARED: FlockOperation = FlockOperation::NonBlockingLockShared;

#[test]
fn a12_lock_ends_with_description_process_or_power() {
    let recorder = quiet(calm());
    let (first, system) = (durable(&recorder, 4096), recorder.system());
    let second = open(&system);
    first.lock(EXCLUSIVE).unwrap();
    first.lock(EXCLUSIVE).unwrap();
    for operation in [EXCLUSIVE, SHARED] {
        assert_eq!(second.lock(operation), Err(Errno::WOULDBLOCK));
    }
    // A second description of the first one's is another; the lock moves by giving it up.
    let other = first.reopen_direct(Path::new("/pool")).unwrap();
    assert_eq!(other.lock(EXCLUSIVE), Err(Errno::WOULDBLOCK));
    first.lock(FlockOperation::Unlock).unwrap();
    other.lock(EXCLUSIVE).unwrap();
    drop(first);
    assert_eq!(second.lock(EXCLUSIVE), Err(Errno::WOULDBLOCK));
    drop(other);
    second.lock(SHARED).unwrap();
    let third = open(&system);
    third.lock(SHARED).unwrap();
    assert_eq!(third.lock(EXCLUSIVE), Err(Errno::WOULDBLOCK));
    for end in [Recorder::exit, Recorder::crash] {
        end(&recorder);
        open(&recorder.system()).lock(EXCLUSIVE).unwrap();
        let kept = open(&recorder.system());
        kept.lock(EXCLUSIVE).unwrap();
        std::mem::forget(kept);
    }
}

#[test]
fn what_an_earlier_boot_holds_is_dead() {
    for end in [Recorder::exit, Recorder::crash] {
        let recorder = quiet(Model { crashes: 0, ..Model::default() });
        let (file, system) = (durable(&recorder, 4096), recorder.system());
        let area = file.memory(0, 4096, false).unwrap();
        let queue = file.queue().unwrap();
        end(&recorder);
        assert!(!write(&*file, 0, &[1], DSYNC));
        assert_eq!(file.read(&mut [0; 8], 0), Err(Errno::IO));
        assert!(file.sync_data().is_err() && file.stat().is_err());
        assert!(file.lock(EXCLUSIVE).is_err() && file.allocate(0, 8192).is_err());
        area.stream(0, &[1]); // is lost
        assert!(power_goes(|| fence(&area)));
        assert!(power_goes(|| area.read(0, &mut [0])));
        queue.submit(3, 0, &[1; 512]);
        assert_eq!(queue.completion(true), Some((3, Err(Errno::IO))));
        assert!(system.files().stat(Path::new(PATH)).is_err());
        assert!(system.files().unlink(Path::new(PATH)).is_err());
        let next = open(&recorder.system());
        next.lock(EXCLUSIVE).unwrap();
        drop(file); // takes no lock with it that is not its own
        assert!(open(&recorder.system()).lock(EXCLUSIVE).is_err());
        assert_eq!(sectors::<1>(&*next), [0]);
        assert_eq!(next.stat().unwrap().bytes, 4096);
    }
}

#[test]
fn what_a_crash_has_left_is_chosen_once_and_stays_so() {
    let found = every(calm(), |recorder| {
        let file = durable(recorder, 4096);
        write(&*file, 0, &[1], PLAIN);
        file.memory(0, 4096, false).unwrap().stream(100, &[7]);
        let read = |recorder: &Recorder| {
            let (file, mut word) = (open(&recorder.system()), [9]);
            file.memory(0, 4096, false).unwrap().read(100, &mut word);
            (sectors::<1>(&*file), word)
        };
        recorder.crash();
        let first = read(recorder);
        assert_eq!(first, read(recorder));
        recorder.exit();
        assert_eq!(first, read(recorder));
        recorder.crash();
        assert_eq!(first, read(recorder), "what is decided is durable");
        let image = recorder.image();
        assert!(format!("{image:?}").contains(PATH));
        first
    });
    assert_eq!(found.len(), 4);
}

#[test]
fn unread_contents_stay_undecided_until_overwritten() {
    let found = every(calm(), |recorder| {
        write(&*durable(recorder, 4096), 0, &[1], PLAIN);
        recorder.crash();
        recorder.crash();
        let file = open(&recorder.system());
        write(&*file, 0, &[2], PLAIN);
        assert_eq!(sectors::<1>(&*file), [2]);
        left::<1>(recorder)
    });
    assert_eq!(found, set([[0], [1], [2]]));
}
