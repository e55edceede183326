//! Objects with two versions: what a reader sees while home changes under it, when space is used
//! again, and what may be forgotten.

use super::versions::{Attempt, Home, LOOKS, Owned, Ready, Versions};
use crate::around::Memory;
use crate::design::At;
use crate::explore::{explore, words};
use crate::perform::Heap;
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use models::outcomes::Outcomes;

/// Objects of up to four words, each behind a link and a header.
const X: usize = 2;
const Y: usize = X + STRIDE;
const Z: usize = Y + STRIDE;
const STRIDE: usize = 6;

/// Words of an object whose copy fills a segment, with the end of its transaction.
const LARGE: u64 = 4;
const SMALL: u64 = 2;

const WRITER: usize = 0;
const READER: usize = 1;

struct Words(Box<[AtomicU64]>);

impl Home for Words {
    fn words(&self) -> &Heap {
        &self.0
    }

    fn store(&self, index: usize, value: u64) {
        self.0[index].store(value, Ordering::Relaxed);
    }

    fn exchange(&self, index: usize, current: u64, new: u64) -> Result<u64, u64> {
        self.0[index].compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

struct Shared {
    versions: Versions<Memory>,
    home: Words,
    /// The stamp of a record.
    record: AtomicU64,
}

impl Shared {
    /// Objects up to this one, of so many words; room for so many copies.
    fn new(last: usize, size: u64, workers: usize, copies: u64) -> Shared {
        Shared::with_writers(1, last, size, workers, copies)
    }

    /// The same; the first so many workers write.
    fn with_writers(writers: usize, last: usize, size: u64, workers: usize, copies: u64) -> Shared {
        let home = Words(words(last + LARGE as usize));
        (X..=last).step_by(STRIDE).for_each(|object| home.store(object - 1, 8 * size));
        let versions = Versions::new(workers, 0, 0);
        for number in 0..workers {
            let bytes = if number < writers { 64 * copies } else { 0 };
            versions.enter(number, || Memory::anonymous(bytes)).expect("there is memory");
        }
        Shared { versions, home, record: AtomicU64::new(0) }
    }

    fn attempt(&self, number: usize) -> Attempt {
        self.versions.attempt(number, None)
    }

    /// Writes the first two words of each object, if nothing is in the way.
    fn write(&self, attempt: &mut Attempt, objects: &[usize], value: u64) -> bool {
        let Shared { versions, home, record } = self;
        versions.begin(attempt);
        for &object in objects {
            let at = At { object, index: object };
            if versions.write_run(home, attempt, at, &[value, value]).is_err() {
                versions.roll_back(home, attempt);
                return false;
            }
        }
        let mut batch = Vec::new();
        versions.changes(attempt.owned(), false, &mut batch);
        versions.commits(attempt);
        // Release: as a worker that says how far its slot is filled.
        record.store(versions.clock().load(Ordering::Acquire) + 1, Ordering::Release);
        let end = versions.show(home, attempt.owned());
        let finished =
            versions.finish(home, attempt.owned(), (end, attempt.looks()), &mut batch, || 0);
        versions.ended(attempt, end, finished);
        true
    }

    /// A transaction that writes these objects, in a group that it begins: its ID, and the group.
    fn member(&self, attempt: &mut Attempt, objects: &[usize], value: u64) -> (u64, Owned) {
        let Shared { versions, home, .. } = self;
        versions.begin(attempt);
        for &object in objects {
            let at = At { object, index: object };
            versions.write_run(home, attempt, at, &[value, value]).expect("nobody else writes");
        }
        let id = versions.pends(attempt.owned());
        attempt.stays(id);
        let group = attempt.lend();
        versions.leave(home, attempt);
        (id, group)
    }

    /// Ends a group.
    fn end(&self, group: &Owned) {
        let Shared { versions, home, record } = self;
        let mut batch = Vec::new();
        versions.changes(group, false, &mut batch);
        versions.group_commits(group);
        record.store(versions.clock().load(Ordering::Acquire) + 1, Ordering::Release);
        let end = versions.show(home, group);
        versions.finish(home, group, (end, LOOKS), &mut batch, || 0);
        versions.group_is_shown(group);
    }

    fn read(&self, attempt: &mut Attempt, index: usize) -> u64 {
        let at = At { object: X + (index - X) / STRIDE * STRIDE, index };
        self.versions.read(&self.home, attempt, at)
    }
}

/// Runs a reader of these words beside a writer of these objects, whose only transaction ends at
/// time 1 and writes 1.
fn beside(preemptions: usize, objects: &'static [usize], reads: &'static [usize]) {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(preemptions), move || {
        let last = *objects.last().expect("there is one");
        let shared = Arc::new(Shared::new(last, SMALL, 2, objects.len() as u64));
        let theirs = Arc::clone(&shared);
        let mut attempt = shared.attempt(WRITER);
        let writer = thread::spawn(move || assert!(theirs.write(&mut attempt, objects, 1)));
        let mut reader = shared.attempt(READER);
        shared.versions.begin(&mut reader);
        let start = reader.start();
        for &index in reads {
            let found = shared.read(&mut reader, index);
            assert_eq!(found, start, "word {index} of another moment");
        }
        shared.versions.leave(&shared.home, &mut reader);
        writer.join().expect("the other thread ends");
        // Whoever is last brings it home.
        assert!(shared.versions.help_all(&shared.home));
        for &object in objects {
            let at_home = [object - 2, object, object + 1]
                .map(|index| shared.home.words()[index].load(Ordering::Relaxed));
            assert_eq!(at_home, [0, 1, 1], "home of {object}");
        }
        seen.saw(start);
    });
    met.are(0..2);
}

/// It is drawn with a mark, its words come home, and its link goes, while the reader looks.
pub(crate) fn a_snapshot_is_one_moment() {
    beside(3, &[X], &[X, X + 1]);
}

pub(crate) fn two_objects_are_seen_at_one_moment() {
    beside(2, &[X, Y], &[X, Y + 1]);
}

/// A reader goes by a link that is about to be taken away; the writer has room for two copies, and
/// goes on.
pub(crate) fn a_copys_space_is_not_used_again_under_a_reader() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(2), move || {
        let shared = Arc::new(Shared::new(Z, LARGE, 2, 2));
        let (mut writer, mut reader) = (shared.attempt(WRITER), shared.attempt(READER));
        // Somebody needs what was there before.
        shared.versions.begin(&mut reader);
        assert!(shared.write(&mut writer, &[X], 1));
        shared.versions.roll_back(&shared.home, &mut reader);
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            assert!(theirs.write(&mut writer, &[Y], 7));
            assert!(!theirs.write(&mut writer, &[Z], 9), "there is room for two");
            let is_ready = theirs.versions.ready(&theirs.home, &mut writer) == Ready::Yes;
            is_ready && theirs.write(&mut writer, &[Z], 9)
        });
        shared.versions.begin(&mut reader);
        let found = shared.read(&mut reader, X);
        assert_eq!(found, 1, "a word of another moment");
        shared.versions.leave(&shared.home, &mut reader);
        seen.saw(u64::from(other.join().expect("the other thread ends")));
    });
    // With room, and without.
    met.are(0..2);
}

/// Another transaction commits, and then somebody forgets records up to the frontier.
pub(crate) fn what_is_up_to_the_frontier_is_at_home() {
    frontier_beside(|shared, attempt| assert!(shared.write(attempt, &[X], 1)));
}

/// As there; the transaction is over before its group commits.
pub(crate) fn what_is_up_to_the_frontier_of_a_group_is_at_home() {
    frontier_beside(|shared, attempt| {
        let (_, group) = shared.member(attempt, &[X], 1);
        shared.end(&group);
    });
}

fn frontier_beside(commit: fn(&Shared, &mut Attempt)) {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let shared = Arc::new(Shared::new(X, SMALL, 1, 1));
        let theirs = Arc::clone(&shared);
        let mut attempt = shared.attempt(WRITER);
        let writer = thread::spawn(move || commit(&theirs, &mut attempt));
        shared.versions.clock().fetch_add(1, Ordering::AcqRel);
        let frontier = shared.versions.frontier();
        let record = shared.record.load(Ordering::Acquire);
        let word = shared.home.words()[X].load(Ordering::Relaxed);
        writer.join().expect("the other thread ends");
        let stamp = shared.record.load(Ordering::Relaxed);
        if stamp <= frontier {
            assert_eq!((record, word), (stamp, 1), "forgotten before it is there and at home");
        }
        seen.saw(frontier);
    });
    met.are(0..3);
}

/// Another transaction commits beside one that gives the memory back in which it writes.
pub(crate) fn who_gives_chunks_back_comes_home_behind_others() {
    chunks_beside(|shared, attempt| {
        assert!(shared.write(attempt, &[Y], 1));
        attempt.start()
    });
}

/// As there; the other is over before its group commits.
pub(crate) fn who_gives_chunks_back_comes_home_behind_groups() {
    chunks_beside(|shared, attempt| {
        let (_, group) = shared.member(attempt, &[Y], 1);
        shared.end(&group);
        group.start()
    });
}

fn chunks_beside(commit: fn(&Shared, &mut Attempt) -> u64) {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(2), move || {
        let shared = Arc::new(Shared::with_writers(2, Y, SMALL, 2, 1));
        let theirs = Arc::clone(&shared);
        let mut attempt = shared.attempt(WRITER);
        let other = thread::spawn(move || commit(&theirs, &mut attempt));
        let Shared { versions, home, .. } = &*shared;
        let mut attempt = shared.attempt(READER);
        versions.begin(&mut attempt);
        let at = At { object: X, index: X };
        versions.write_run(home, &mut attempt, at, &[1, 1]).expect("nobody else writes");
        attempt.gives_chunks_back();
        let mut batch = Vec::new();
        versions.changes(attempt.owned(), false, &mut batch);
        versions.commits(&attempt);
        let end = versions.show(home, attempt.owned());
        versions.finish(home, attempt.owned(), (end, LOOKS), &mut batch, || 0);
        let [mine, theirs] = [X, Y].map(|word| home.words()[word].load(Ordering::Relaxed));
        let start = other.join().expect("the other thread ends");
        if mine == 1 && start < end {
            assert_eq!(theirs, 1, "what began before comes home into memory that was given back");
        }
        seen.saw(mine);
    });
    met.are(0..2);
}

/// The first member of a group commits, and the group ends, while the clock goes on and somebody
/// asks what is durable.
pub(crate) fn what_is_said_to_be_durable_is() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let shared = Arc::new(Shared::new(X, SMALL, 1, 1));
        let theirs = Arc::clone(&shared);
        let mut attempt = shared.attempt(WRITER);
        let writer = thread::spawn(move || {
            let (id, group) = theirs.member(&mut attempt, &[X], 1);
            // As if somebody else committed.
            theirs.versions.clock().fetch_add(1, Ordering::AcqRel);
            theirs.end(&group);
            id
        });
        shared.versions.clock().fetch_add(1, Ordering::AcqRel);
        let durable = shared.versions.durable();
        let still = shared.versions.durable();
        assert!(still >= durable, "{durable} is durable no longer");
        let durable = still;
        let record = shared.record.load(Ordering::Acquire);
        let id = writer.join().expect("the other thread ends");
        assert!(id > durable || record > 0, "{id} is not durable, and said to be");
        seen.saw(durable);
    });
    met.are(0..4);
}

/// A group ends while somebody asks for the last ID: who waits for that to be durable does so for
/// ever if it is not drawn in the end.
pub(crate) fn an_id_that_was_given_is_drawn_when_its_group_has_ended() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let shared = Arc::new(Shared::new(X, SMALL, 1, 1));
        let theirs = Arc::clone(&shared);
        let mut attempt = shared.attempt(WRITER);
        let writer = thread::spawn(move || {
            let (id, group) = theirs.member(&mut attempt, &[X], 1);
            assert!(theirs.versions.given() >= id, "{id} was given, and is not known");
            theirs.end(&group);
        });
        let given = shared.versions.given();
        writer.join().expect("the other thread ends");
        let durable = shared.versions.durable();
        assert!(given <= durable, "{given} is nobody's, and will not be durable");
        seen.saw(given);
    });
    met.are(0..2);
}

/// A worker reads what it has committed while another ends that group and brings it home.
pub(crate) fn a_worker_sees_its_group_while_another_ends_it() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let shared = Arc::new(Shared::new(X, SMALL, 1, 2));
        let mut attempt = shared.attempt(WRITER);
        let (_, group) = shared.member(&mut attempt, &[X], 1);
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || theirs.end(&group));
        shared.versions.begin(&mut attempt);
        let is_over = shared.versions.is_over(&attempt);
        if is_over {
            shared.versions.group_is_over(&mut attempt, Vec::new());
            shared.versions.begin(&mut attempt);
        }
        for index in [X, X + 1] {
            let found = shared.read(&mut attempt, index);
            assert_eq!(found, 1, "word {index} of another moment");
        }
        shared.versions.leave(&shared.home, &mut attempt);
        other.join().expect("the other thread ends");
        assert_eq!(attempt.is_lent(), !is_over);
        seen.saw(u64::from(is_over));
    });
    met.are(0..2);
}
