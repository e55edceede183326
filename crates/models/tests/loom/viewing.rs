//! A view that begins beside commits: the boundary in their order, and the watch over their pages.

use super::around::Error;
use super::frozen::FrozenImage;
use super::frozen_memory::FrozenMemory;
use super::page_watch::PageWatch;
use super::workers::Workers;
use crate::explore::explore;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock, thread};
use models::outcomes::Outcomes;

/// One transaction of each of two workers.
const COMMITS: usize = 2;

struct Shared {
    clock: AtomicU64,
    workers: Workers,
    watch: PageWatch,
    /// The only page: the ID of each worker's transaction. Accesses are relaxed, so only the steps
    /// can order them.
    page: [AtomicU64; COMMITS],
    /// The page of the view.
    copy: Mutex<Option<[u64; COMMITS]>>,
}

impl Shared {
    fn new() -> Shared {
        let workers = Workers::new(COMMITS, 0);
        for number in 0..COMMITS {
            workers.enter("a design", number).expect("there is a slot");
        }
        Shared {
            clock: AtomicU64::new(0),
            workers,
            watch: PageWatch::new(1),
            page: std::array::from_fn(|_| AtomicU64::new(0)),
            copy: Mutex::new(None),
        }
    }

    /// Commits a transaction, as `redo` does it.
    fn commit(&self, number: usize) {
        let slot = self.workers.slot(number);
        slot.assigning(self.clock.load(Ordering::Relaxed));
        let id = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
        slot.assigned(id);
        self.workers.boundary.pass(id, &self.workers.poison);
        if self.watch.is_watched(0) {
            self.watch.leave(0, || self.copy_page());
        }
        self.page[number].store(id, Ordering::Relaxed);
        slot.idle();
    }

    /// Copies the page, unless it is copied.
    fn copy_page(&self) {
        let now = || self.page.each_ref().map(|word| word.load(Ordering::Relaxed));
        lock(&self.copy).get_or_insert_with(now);
    }
}

/// One transaction commits while the view begins, and another one in the thread that has begun it.
pub(crate) fn view_has_all_up_to_its_boundary() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let shared = Arc::new(Shared::new());
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || theirs.commit(1));
        let freeze = |last| {
            shared.watch.watch();
            last
        };
        let last = shared.workers.at_boundary(&shared.clock, freeze).expect("nothing fails");
        shared.commit(0);
        shared.watch.visit(0..1, |_| shared.copy_page());
        let copy = lock(&shared.copy).expect("it was just made");
        other.join().expect("it ends");
        assert!(copy.iter().all(|id| *id <= last), "{copy:?} are later than the view of {last}");
        let count = copy.iter().filter(|id| **id > 0).count();
        assert_eq!(count as u64, last, "missing in the view");
        seen.saw(last);
    });
    met.are(0..COMMITS as u64);
}

/// A transaction that stores in place, as `undo` does it.
struct InPlace {
    clock: AtomicU64,
    workers: Workers,
    memory: FrozenMemory,
    /// The only page, of one word.
    page: AtomicU64,
    /// The transaction's record: the old value of the word.
    record: AtomicU64,
}

impl InPlace {
    fn new() -> InPlace {
        let workers = Workers::new(1, 0);
        workers.enter("a design", 0).expect("there is a slot");
        InPlace {
            clock: AtomicU64::new(0),
            workers,
            memory: FrozenMemory::new(1),
            page: AtomicU64::new(0),
            record: AtomicU64::new(0),
        }
    }

    /// Stores 1 and commits.
    fn run(&self) {
        let InPlace { clock, workers, page, record, .. } = self;
        let slot = workers.slot(0);
        let old = page.load(Ordering::Relaxed);
        record.store(100 + old, Ordering::Relaxed);
        slot.publish_record(1);
        self.before_store();
        page.store(1, Ordering::Relaxed);
        slot.assigning(clock.load(Ordering::Relaxed));
        let id = clock.fetch_add(1, Ordering::AcqRel) + 1;
        slot.assigned(id);
        workers.boundary.pass(id, &workers.poison);
        // Before the record is voided.
        self.before_store();
        record.store(0, Ordering::Relaxed);
        slot.filled.store(0, Ordering::Release);
        slot.idle();
    }

    fn before_store(&self) {
        if self.memory.is_watched(0) {
            self.memory.first_store(0, &|_, out| self.read_page(out));
        }
    }

    /// Reads the page with the live record laid over.
    fn read_page(&self, out: &mut [u64]) -> Result<(), Error> {
        let now = self.page.load(Ordering::Relaxed);
        let is_live = self.workers.live().any(|(_, filled)| filled > 0);
        out[0] = if is_live { self.record.load(Ordering::Relaxed) - 100 } else { now };
        Ok(())
    }
}

/// A transaction stores in place and commits while a view begins.
pub(crate) fn view_has_old_words_of_running_transaction() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let shared = Arc::new(InPlace::new());
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || theirs.run());
        let InPlace { clock, workers, memory, .. } = &*shared;
        let image = Arc::new(FrozenImage::default());
        let freeze = |last| (memory.freeze(&image), last).1;
        let last = workers.at_boundary(clock, freeze).expect("nothing fails");
        memory.copy(&image, 0..1, &|_, out| shared.read_page(out));
        let found = image.copied().expect("it was just made");
        other.join().expect("it ends");
        assert_eq!(found, last, "not of this view");
        seen.saw(last);
    });
    met.are(0..2);
}
