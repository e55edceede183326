//! Shadows with a bound: a page table whose frames change hands, and copies that are dropped. The
//! words are numbers: all are stored and loaded relaxed, so what must be seen of them is shown by
//! the protocols alone.

use super::copies::Copies;
use super::table::Table;
use crate::explore::{explore, words};
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use models::outcomes::Outcomes;

/// What a page's word is at home, before anybody has written it.
const HOME: [u64; 2] = [10, 20];
const WRITTEN: u64 = 11;
const ID: u64 = 5;

/// Two pages of a word, and one frame.
struct Paged {
    table: Table,
    frame: Box<[AtomicU64]>,
    /// The first page at home.
    home: AtomicU64,
}

impl Paged {
    /// With the first page in its frame.
    fn new() -> Arc<Paged> {
        let home = AtomicU64::new(HOME[0]);
        let paged = Arc::new(Paged { table: Table::new(2, 1), frame: words(1), home });
        assert!(paged.page_in(0));
        paged
    }

    /// Reads a page as transactions do that do not write it.
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
        // Home has it, by the log, before anybody may read it there.
        self.home.store(WRITTEN, Ordering::Relaxed);
        self.table.touch(0, ID);
        self.table.unpin(0);
        true
    }

    /// Brings a page into memory, if its frame can be had.
    fn page_in(&self, page: usize) -> bool {
        let Some(moving) = self.table.begin_move(page) else { return false };
        if self.table.place(page).frame().is_some() {
            return true;
        }
        let leaves = |page: usize, frame: usize| {
            let value = self.frame[frame].load(Ordering::Relaxed);
            let written = page == 0 && value == WRITTEN;
            assert_eq!(self.table.touching(page), if written { ID } else { 0 }, "touched unseen");
        };
        let Some(frame) = self.table.frame(u64::MAX, leaves) else { return false };
        let touching = self.table.touching(page);
        let value = if touching == ID { self.home.load(Ordering::Relaxed) } else { HOME[page] };
        moving.settle(frame, |frame| self.frame[frame].store(value, Ordering::Relaxed));
        self.table.unpin(page);
        true
    }
}

/// One reads a page without pinning it, while its frame becomes another's, and its own again.
pub(crate) fn a_read_never_sees_another_pages_word() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let paged = Paged::new();
        let theirs = Arc::clone(&paged);
        let mover = thread::spawn(move || {
            assert!(theirs.page_in(1));
            assert!(theirs.page_in(0));
        });
        for (page, home) in HOME.into_iter().enumerate() {
            let value = paged.read(page);
            assert!(value.is_none_or(|value| value == home), "another page's word");
            seen.saw(2 * page as u64 + u64::from(value.is_some()));
        }
        mover.join().expect("it ends");
        assert_eq!(paged.read(0), Some(HOME[0]));
    });
    met.are(0..4);
}

/// One writes a page, while another wants its frame.
pub(crate) fn a_page_that_is_written_stays_and_is_touched() {
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

/// A page of a word that is a copy, or the file's.
struct Copied {
    copies: Copies,
    word: AtomicU64,
}

/// The evictor's turn: marks, waits a little, drops what is at home up to 0.
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
        // What the file has.
        word.store(0, Ordering::Relaxed);
        copies.dropped(0);
    }
    drops
}

/// One attempt after the other of one worker, of which the last writes, while the page is dropped.
fn written_and_evicted(attempts: u64) {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(3), move || {
        let copied = Arc::new(Copied { copies: Copies::new(1), word: AtomicU64::new(0) });
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

/// The attempt is under way, or not yet, when the evictor looks.
pub(crate) fn a_copy_is_not_dropped_with_what_is_written() {
    written_and_evicted(1);
}

/// The attempt that the evictor has seen under way ends, and the next one writes.
pub(crate) fn the_next_attempt_sees_the_mark() {
    written_and_evicted(2);
}
