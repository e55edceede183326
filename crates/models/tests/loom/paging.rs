//! Bounded shadows: a page table whose frames are reused, and copies that are dropped. Words are
//! plain numbers with relaxed accesses, so only the protocols can order them.

use super::copied_pages::CopiedPages;
use super::software_table::Table;
use crate::explore::{explore, words};
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use models::outcomes::Outcomes;

/// The initial word of each page in the heap image.
const HOME: [u64; 2] = [10, 20];
const WRITTEN: u64 = 11;
const ID: u64 = 5;

/// Two pages of one word each, and one frame.
struct Paged {
    table: Table,
    frame: Box<[AtomicU64]>,
    /// The first page in the heap image.
    heap_image: AtomicU64,
}

impl Paged {
    /// Returns the state with the first page in its frame.
    fn new() -> Arc<Paged> {
        let heap_image = AtomicU64::new(HOME[0]);
        let paged = Arc::new(Paged { table: Table::new(2, 1), frame: words(1), heap_image });
        assert!(paged.page_in(0));
        paged
    }

    /// Reads a page like a transaction that does not write it.
    fn read(&self, page: usize) -> Option<u64> {
        let (place, frame) = self.table.look(page)?;
        let value = self.frame[frame].load(Ordering::Relaxed);
        self.table.holds(page, place).then_some(value)
    }

    /// Writes the first page, if it is in memory.
    fn write(&self) -> bool {
        let Some(frame) = self.table.pin(0) else { return false };
        assert_eq!(self.frame[frame].load(Ordering::Relaxed), HOME[0], "another page's word");
        self.frame[frame].store(WRITTEN, Ordering::Relaxed);
        assert_eq!(self.frame[frame].load(Ordering::Relaxed), WRITTEN, "evicted while written");
        // The log applies the word to the heap image before any thread can read it there.
        self.heap_image.store(WRITTEN, Ordering::Relaxed);
        self.table.touch(0, ID);
        self.table.unpin(0);
        true
    }

    /// Brings a page into memory, if a frame is available.
    fn page_in(&self, page: usize) -> bool {
        let Some(moving) = self.table.begin_move(page) else { return false };
        if self.table.place(page).frame().is_some() {
            return true;
        }
        let leaves = |page: usize, frame: usize| {
            let value = self.frame[frame].load(Ordering::Relaxed);
            let written = page == 0 && value == WRITTEN;
            assert_eq!(
                self.table.last_writer(page),
                if written { ID } else { 0 },
                "touched unseen"
            );
        };
        let Some(frame) = self.table.frame(u64::MAX, leaves) else { return false };
        let last_writer = self.table.last_writer(page);
        let value =
            if last_writer == ID { self.heap_image.load(Ordering::Relaxed) } else { HOME[page] };
        moving.settle(frame, |frame| self.frame[frame].store(value, Ordering::Relaxed));
        self.table.unpin(page);
        true
    }
}

/// A thread reads pages without pins while their frame passes to the other page and back.
pub(crate) fn read_never_sees_another_pages_word() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let paged = Paged::new();
        let theirs = Arc::clone(&paged);
        let mover = thread::spawn(move || {
            assert!(theirs.page_in(1));
            assert!(theirs.page_in(0));
        });
        for (page, heap_image) in HOME.into_iter().enumerate() {
            let value = paged.read(page);
            assert!(value.is_none_or(|value| value == heap_image), "another page's word");
            seen.saw(2 * page as u64 + u64::from(value.is_some()));
        }
        mover.join().expect("it ends");
        assert_eq!(paged.read(0), Some(HOME[0]));
    });
    met.are(0..4);
}

/// A thread writes a page while another thread takes its frame.
pub(crate) fn written_page_stays_and_gets_last_writer() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let paged = Paged::new();
        let theirs = Arc::clone(&paged);
        let mover = thread::spawn(move || {
            let gone = theirs.page_in(1);
            let back = theirs.page_in(0);
            (gone, back)
        });
        let written = paged.write();
        let (gone, back) = mover.join().expect("it ends");
        if back {
            paged.table.mark_used(0);
            let value = paged.read(0).expect("it is in memory");
            assert_eq!(value, if written { WRITTEN } else { HOME[0] }, "lost");
        }
        seen.saw(u64::from(written) + 2 * u64::from(gone));
    });
    met.are(1..4);
}

/// A page of one word that is a private copy, or the file's.
struct Copied {
    copies: CopiedPages,
    word: AtomicU64,
}

/// Runs the evictor once: marks the page, waits briefly, and drops it if ID 0 covers its last
/// write.
fn evict(copied: &Copied) -> bool {
    let Copied { copies, word } = copied;
    if !copies.mark(0, 0).1 {
        return false;
    }
    let mut grace = copies.grace();
    if !grace.is_over() {
        thread::yield_now();
        if !grace.is_over() {
            copies.unmark(0);
            return false;
        }
    }
    let drops = copies.begin_drop(0, 0);
    if drops {
        // After the drop, the page shows the file's word.
        word.store(0, Ordering::Relaxed);
        copies.dropped(0);
    }
    drops
}

/// Runs consecutive attempts of a worker, the last of which writes, while the page is dropped.
fn written_and_evicted(attempts: u64) {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let copied = Arc::new(Copied { copies: CopiedPages::new(1), word: AtomicU64::new(0) });
        let worker = copied.copies.attempts();
        worker.begin();
        copied.copies.open(0);
        worker.end();
        let theirs = Arc::clone(&copied);
        let evictor = thread::spawn(move || evict(&theirs));
        for attempt in 1..=attempts {
            worker.begin();
            if attempt == attempts {
                copied.copies.open(0);
                copied.word.store(WRITTEN, Ordering::Relaxed);
                copied.copies.touch(0, ID);
            }
            worker.end();
        }
        let dropped = evictor.join().expect("it ends");
        assert_eq!(copied.word.load(Ordering::Relaxed), WRITTEN, "dropped what was written");
        assert_eq!(copied.copies.copied(), 1, "dropped, and written to");
        seen.saw(u64::from(dropped));
    });
    met.are(0..2);
}

/// The attempt is in flight, or not yet started, when the evictor looks.
pub(crate) fn written_copy_is_not_dropped() {
    written_and_evicted(1);
}

/// The evictor sees an attempt in flight, which ends; the next attempt writes.
pub(crate) fn next_attempt_sees_eviction_mark() {
    written_and_evicted(2);
}
