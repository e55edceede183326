//! Reads: which version of an object a transaction sees.
//!
//! Source: Pisces, section 3.1, algorithm 1, lines 7 to 18.

use super::copy_memory::{COPY_HEAD_WORDS, Copy};
use super::end::when;
use super::link::EMPTY;
use super::write::extent_in_heap;
use super::{Attempt, ObjectHeap, Versions, header_of, link_of};
use crate::design::At;
use crate::perform::Heap;
use crate::sync::{AtomicU64, Ordering};
use medium::mutants::{Mutant, injected, relax};

impl<M: AsRef<[AtomicU64]>> Versions<M> {
    /// Reads a word of the snapshot.
    #[inline(always)]
    pub(crate) fn read(&self, heap_image: &impl ObjectHeap, attempt: &mut Attempt, at: At) -> u64 {
        let words = heap_image.words();
        // Acquire: an empty link after a write-back shows the words that were written back.
        let acquire = relax(Ordering::Acquire, Mutant::LinkReadRelaxed);
        let link = words[link_of(at.object)].load(acquire);
        if link != EMPTY || is_fresh(words, attempt, at.object) {
            let mut word = 0;
            if self.read_copy(attempt, at, link, std::slice::from_mut(&mut word)) {
                return word;
            }
        }
        words[at.index].load(Ordering::Relaxed)
    }

    /// Reads neighbouring words of the snapshot.
    #[inline(always)]
    pub(crate) fn read_run(
        &self,
        heap_image: &impl ObjectHeap,
        attempt: &mut Attempt,
        at: At,
        out: &mut [u64],
    ) {
        let words = heap_image.words();
        let link = words[link_of(at.object)].load(Ordering::Acquire);
        let is_copied = link != EMPTY || is_fresh(words, attempt, at.object);
        if is_copied && self.read_copy(attempt, at, link, out) {
            return;
        }
        for (value, word) in out.iter_mut().zip(&words[at.index..]) {
            *value = word.load(Ordering::Relaxed);
        }
    }

    /// Returns the version of the object that the attempt reads until it writes it: 0 for the one
    /// in the heap.
    #[inline(always)]
    pub(crate) fn look(
        &self,
        heap_image: &impl ObjectHeap,
        attempt: &mut Attempt,
        object: usize,
    ) -> u64 {
        let words = heap_image.words();
        let link = words[link_of(object)].load(Ordering::Acquire);
        if link == EMPTY && !is_fresh(words, attempt, object) {
            return 0;
        }
        self.look_at_copy(attempt, object, link)
    }

    #[inline(never)]
    fn look_at_copy(&self, attempt: &mut Attempt, object: usize, link: u64) -> u64 {
        let Some((worker, copy)) = self.visible(attempt, object, link) else { return 0 };
        self.links.to(worker, copy.at - COPY_HEAD_WORDS)
    }

    /// Reads a word of the version.
    #[inline(always)]
    pub(crate) fn read_seen(&self, heap_image: &impl ObjectHeap, version: u64, at: At) -> u64 {
        if version != 0
            && let Some(word) = self.read_copied(version, at)
        {
            return word;
        }
        heap_image.words()[at.index].load(Ordering::Relaxed)
    }

    /// Reads neighbouring words of the version.
    #[inline(always)]
    pub(crate) fn read_run_seen(
        &self,
        heap_image: &impl ObjectHeap,
        version: u64,
        at: At,
        out: &mut [u64],
    ) {
        if version != 0 && self.read_run_copied(version, at, out).is_some() {
            return;
        }
        for (value, word) in out.iter_mut().zip(&heap_image.words()[at.index..]) {
            *value = word.load(Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn read_copied(&self, version: u64, at: At) -> Option<u64> {
        let words = self.copied(version, at)?;
        Some(words[0].load(Ordering::Relaxed))
    }

    #[inline(never)]
    fn read_run_copied(&self, version: u64, at: At, out: &mut [u64]) -> Option<()> {
        let words = self.copied(version, at)?;
        for (value, word) in out.iter_mut().zip(words) {
            *value = word.load(Ordering::Relaxed);
        }
        Some(())
    }

    /// Returns the words of the version from one on, or `None` for the version in the heap.
    #[inline]
    fn copied(&self, version: u64, at: At) -> Option<&[AtomicU64]> {
        let (_, copy) = self.linked(at.object, version)?;
        copy.words_from(at.index.wrapping_sub(header_of(at.object)))
    }

    /// Reads from the object's copy, if the snapshot includes one, and returns whether it did.
    /// Leaves words beyond the object's end unchanged.
    #[inline(never)]
    fn read_copy(&self, attempt: &mut Attempt, at: At, link: u64, out: &mut [u64]) -> bool {
        let Some((_, copy)) = self.visible(attempt, at.object, link) else { return false };
        let from = at.index.wrapping_sub(header_of(at.object));
        let Some(words) = copy.words_from(from) else { return false };
        for (value, word) in out.iter_mut().zip(words) {
            *value = word.load(Ordering::Relaxed);
        }
        true
    }

    /// Returns the copy of the object that the attempt sees, with its worker.
    #[inline]
    fn visible(
        &self,
        attempt: &mut Attempt,
        object: usize,
        link: u64,
    ) -> Option<(usize, Copy<'_>)> {
        let number = attempt.owned.number;
        if let Some(&(_, at)) = attempt.fresh.get(&object) {
            return Some((number, Copy::find(self.memory(number), at - COPY_HEAD_WORDS, object)?));
        }
        let (worker, copy) = self.linked(object, link)?;
        let is_own = worker == number && Some(copy.end) == attempt.owned.end;
        if is_own && !injected(Mutant::OwnGroupNotSeen) {
            return Some((worker, copy));
        }
        if when(copy.end_word()) > attempt.start {
            return None;
        }
        attempt.met = Some(worker);
        Some((worker, copy))
    }

    /// Returns the copy that a link leads to, with its worker. `None` for a void link: of another
    /// generation, or stale data.
    #[inline]
    pub(super) fn linked(&self, object: usize, link: u64) -> Option<(usize, Copy<'_>)> {
        let (worker, place) = self.links.follow(link)?;
        let memory = self.table.get(worker)?.copies.get()?.as_ref();
        Some((worker, Copy::find(memory, place, object)?))
    }
}

/// Whether the attempt may have made the object: the heap has no header for it.
#[inline(always)]
fn is_fresh(words: &Heap, attempt: &Attempt, object: usize) -> bool {
    !attempt.fresh.is_empty() && is_no_object(words, object)
}

#[inline(never)]
fn is_no_object(words: &Heap, object: usize) -> bool {
    extent_in_heap(words, object).is_none()
}
