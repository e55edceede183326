//! Objects with two versions: snapshots while the heap image changes, the reuse of copies' space,
//! and the frontier up to which records may be forgotten.

use super::dual_version::{Attempt, LOOKS, ObjectHeap, Owned, Ready, Versions};
use crate::around::Memory;
use crate::design::At;
use crate::explore::{explore, words};
use crate::perform::Heap;
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use models::outcomes::Outcomes;

/// Objects of up to four words, each after its link and its header.
const X: usize = 2;
const Y: usize = X + STRIDE;
const Z: usize = Y + STRIDE;
const STRIDE: usize = 6;

/// The size of an object whose copy fills a segment, together with the end of its transaction.
const LARGE: u64 = 4;
const SMALL: u64 = 2;

const WRITER: usize = 0;
const READER: usize = 1;

struct Words(Box<[AtomicU64]>);

impl ObjectHeap for Words {
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
    heap_image: Words,
    /// The stamp of the record.
    record: AtomicU64,
}

impl Shared {
    /// Returns objects up to `last`, of so many words, with room for so many copies.
    fn new(last: usize, size: u64, workers: usize, copies: u64) -> Shared {
        Shared::with_writers(1, last, size, workers, copies)
    }

    /// The same, with several writing workers, which come first.
    fn with_writers(writers: usize, last: usize, size: u64, workers: usize, copies: u64) -> Shared {
        let heap_image = Words(words(last + LARGE as usize));
        (X..=last).step_by(STRIDE).for_each(|object| heap_image.store(object - 1, 8 * size));
        let versions = Versions::new(workers, 0, 0);
        for number in 0..workers {
            let bytes = if number < writers { 64 * copies } else { 0 };
            versions.enter(number, || Memory::anonymous(bytes)).expect("there is memory");
        }
        Shared { versions, heap_image, record: AtomicU64::new(0) }
    }

    fn attempt(&self, number: usize) -> Attempt {
        self.versions.attempt(number, None)
    }

    /// Writes the first two words of each object, unless a conflict or a lack of room prevents
    /// that.
    fn write(&self, attempt: &mut Attempt, objects: &[usize], value: u64) -> bool {
        let Shared { versions, heap_image, record } = self;
        versions.begin(attempt);
        for &object in objects {
            let at = At { object, index: object };
            if versions.write_run(heap_image, attempt, at, &[value, value]).is_err() {
                versions.roll_back(heap_image, attempt);
                return false;
            }
        }
        let mut batch = Vec::new();
        versions.changes(attempt.owned(), false, &mut batch);
        versions.commits(attempt);
        // Release: as a worker that publishes how far its slot is filled.
        record.store(versions.clock().load(Ordering::Acquire) + 1, Ordering::Release);
        let shown = versions.show(heap_image, attempt.owned());
        let (end, ends) = (shown.end, (shown, attempt.looks()));
        let finished = versions.finish(heap_image, attempt.owned(), ends, &mut batch, || 0);
        versions.ended(attempt, end, finished);
        true
    }

    /// Runs a transaction that writes these objects as the first member of a group. Returns its ID
    /// and the group.
    fn member(&self, attempt: &mut Attempt, objects: &[usize], value: u64) -> (u64, Owned) {
        let Shared { versions, heap_image, .. } = self;
        versions.begin(attempt);
        for &object in objects {
            let at = At { object, index: object };
            versions.write_run(heap_image, attempt, at, &[value, value]).expect("no other writer");
        }
        let id = versions.begin_group(attempt.owned());
        attempt.stays(id);
        let group = attempt.lend();
        versions.leave(heap_image, attempt);
        (id, group)
    }

    /// Ends a group.
    fn end(&self, group: &Owned) {
        let Shared { versions, heap_image, record } = self;
        let mut batch = Vec::new();
        versions.changes(group, false, &mut batch);
        versions.group_commits(group);
        record.store(versions.clock().load(Ordering::Acquire) + 1, Ordering::Release);
        let shown = versions.show(heap_image, group);
        versions.finish(heap_image, group, (shown, LOOKS), &mut batch, || 0);
        versions.group_is_shown(group);
    }

    fn read(&self, attempt: &mut Attempt, index: usize) -> u64 {
        let at = At { object: X + (index - X) / STRIDE * STRIDE, index };
        self.versions.read(&self.heap_image, attempt, at)
    }
}

/// Runs a reader of these words beside a writer of these objects. The writer's only transaction
/// writes 1 and ends at time 1.
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
            assert_eq!(found, start, "word {index} is not of this snapshot");
        }
        shared.versions.leave(&shared.heap_image, &mut reader);
        writer.join().expect("the other thread ends");
        // The last worker writes the copies back to the heap image.
        assert!(shared.versions.help_all(&shared.heap_image));
        for &object in objects {
            let written_back = [object - 2, object, object + 1]
                .map(|index| shared.heap_image.words()[index].load(Ordering::Relaxed));
            assert_eq!(written_back, [0, 1, 1], "object {object} in the heap image");
        }
        seen.saw(start);
    });
    met.are(0..2);
}

/// While the reader looks, the writer's end time is assigned, its words are applied and its link is
/// removed.
pub(crate) fn snapshot_is_consistent() {
    beside(3, &[X], &[X, X + 1]);
}

pub(crate) fn two_objects_are_read_consistently() {
    beside(2, &[X, Y], &[X, Y + 1]);
}

/// A reader follows a link that is about to be removed. The writer has room for two copies and
/// continues.
pub(crate) fn copy_space_is_not_reused_under_a_reader() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(2), move || {
        let shared = Arc::new(Shared::new(Z, LARGE, 2, 2));
        let (mut writer, mut reader) = (shared.attempt(WRITER), shared.attempt(READER));
        // The reader needs the old version, so the copy stays.
        shared.versions.begin(&mut reader);
        assert!(shared.write(&mut writer, &[X], 1));
        shared.versions.roll_back(&shared.heap_image, &mut reader);
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            assert!(theirs.write(&mut writer, &[Y], 7));
            assert!(!theirs.write(&mut writer, &[Z], 9), "there is room for two");
            let is_ready = theirs.versions.ready(&theirs.heap_image, &mut writer) == Ready::Yes;
            is_ready && theirs.write(&mut writer, &[Z], 9)
        });
        shared.versions.begin(&mut reader);
        let found = shared.read(&mut reader, X);
        assert_eq!(found, 1, "the word is not of this snapshot");
        shared.versions.leave(&shared.heap_image, &mut reader);
        seen.saw(u64::from(other.join().expect("the other thread ends")));
    });
    // The space was reused in some executions and not in others.
    met.are(0..2);
}

/// A transaction commits while another thread forgets records up to the frontier.
pub(crate) fn frontier_is_applied_to_heap_image() {
    frontier_beside(|shared, attempt| assert!(shared.write(attempt, &[X], 1)));
}

/// The same for a transaction that ends before its group commits.
pub(crate) fn group_frontier_is_applied_to_heap_image() {
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
        let word = shared.heap_image.words()[X].load(Ordering::Relaxed);
        writer.join().expect("the other thread ends");
        let stamp = shared.record.load(Ordering::Relaxed);
        if stamp <= frontier {
            assert_eq!(
                (record, word),
                (stamp, 1),
                "forgotten before it is recorded and applied to the heap image"
            );
        }
        seen.saw(frontier);
    });
    met.are(0..3);
}

/// A transaction commits while another transaction releases the chunk that the first writes.
pub(crate) fn chunk_release_waits_for_older_transactions() {
    chunks_beside(|shared, attempt| {
        assert!(shared.write(attempt, &[Y], 1));
        attempt.start()
    });
}

/// The same for a transaction that ends before its group commits.
pub(crate) fn chunk_release_waits_for_older_groups() {
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
        let Shared { versions, heap_image, .. } = &*shared;
        let mut attempt = shared.attempt(READER);
        versions.begin(&mut attempt);
        let at = At { object: X, index: X };
        versions.write_run(heap_image, &mut attempt, at, &[1, 1]).expect("no other writer");
        attempt.gives_runs_back();
        let mut batch = Vec::new();
        versions.changes(attempt.owned(), false, &mut batch);
        versions.commits(&attempt);
        let shown = versions.show(heap_image, attempt.owned());
        let end = shown.end;
        versions.finish(heap_image, attempt.owned(), (shown, LOOKS), &mut batch, || 0);
        let [mine, theirs] = [X, Y].map(|word| heap_image.words()[word].load(Ordering::Relaxed));
        let start = other.join().expect("the other thread ends");
        if mine == 1 && start < end {
            assert_eq!(theirs, 1, "an older write-back goes into released memory");
        }
        seen.saw(mine);
    });
    met.are(0..2);
}

/// The first member of a group commits and the group ends, while the clock advances and another
/// thread reads the durable ID.
pub(crate) fn reported_durable_id_is_durable() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let shared = Arc::new(Shared::new(X, SMALL, 1, 1));
        let theirs = Arc::clone(&shared);
        let mut attempt = shared.attempt(WRITER);
        let writer = thread::spawn(move || {
            let (id, group) = theirs.member(&mut attempt, &[X], 1);
            // A commit of some other transaction.
            theirs.versions.clock().fetch_add(1, Ordering::AcqRel);
            theirs.end(&group);
            id
        });
        shared.versions.clock().fetch_add(1, Ordering::AcqRel);
        let durable = shared.versions.durable();
        let still = shared.versions.durable();
        assert!(still >= durable, "{durable} is no longer durable");
        let durable = still;
        let record = shared.record.load(Ordering::Acquire);
        let id = writer.join().expect("the other thread ends");
        assert!(id > durable || record > 0, "{id} is reported durable, and is not durable");
        seen.saw(durable);
    });
    met.are(0..4);
}

/// A group ends while another thread reads the last assigned ID. A wait for that ID never ends if
/// no transaction has it.
pub(crate) fn last_assigned_id_is_durable_after_its_group() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let shared = Arc::new(Shared::new(X, SMALL, 1, 1));
        let theirs = Arc::clone(&shared);
        let mut attempt = shared.attempt(WRITER);
        let writer = thread::spawn(move || {
            let (id, group) = theirs.member(&mut attempt, &[X], 1);
            assert!(theirs.versions.last_assigned() >= id, "{id} is assigned, and is not known");
            theirs.end(&group);
        });
        let assigned = shared.versions.last_assigned();
        writer.join().expect("the other thread ends");
        let durable = shared.versions.durable();
        assert!(
            assigned <= durable,
            "{assigned} belongs to no transaction, and will not be durable"
        );
        seen.saw(assigned);
    });
    met.are(0..2);
}

/// A worker reads its own committed words while another thread ends that group and writes it back.
pub(crate) fn worker_sees_its_group_while_another_ends_it() {
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
            assert_eq!(found, 1, "word {index} is not of this snapshot");
        }
        shared.versions.leave(&shared.heap_image, &mut attempt);
        other.join().expect("the other thread ends");
        assert_eq!(attempt.is_lent(), !is_over);
        seen.saw(u64::from(is_over));
    });
    met.are(0..2);
}

/// A view begins while a transaction ends. An older reader may keep that from the heap image.
pub(crate) fn view_is_as_of_its_transaction() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let shared = Arc::new(Shared::new(Y, SMALL, 2, 2));
        let theirs = Arc::clone(&shared);
        let Shared { versions, heap_image, .. } = &*shared;
        let mut reader = shared.attempt(READER);
        versions.begin(&mut reader);
        let mut attempt = shared.attempt(WRITER);
        let writer = thread::spawn(move || assert!(theirs.write(&mut attempt, &[X, Y], 1)));
        let words = [X, X + 1, Y, Y + 1];
        let mut found = words.map(|_| 0);
        let id = versions.freeze(|lacking| {
            found = words.map(|word| {
                let stored = || heap_image.words()[word].load(Ordering::Relaxed);
                lacking.get(&word).copied().unwrap_or_else(stored)
            });
        });
        assert_eq!(found, [id; 4], "not of this view");
        versions.leave(heap_image, &mut reader);
        writer.join().expect("the other thread ends");
        seen.saw(id);
    });
    met.are(0..2);
}
