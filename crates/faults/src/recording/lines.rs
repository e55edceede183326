//! Mapped memory of a recorded machine: the possible contents of its cache lines after a crash.
//!
//! ```text
//!   line      | durable words | store | store | past the cache | store | ...
//!   evicted   any prefix of the stores, at any time                                          (A1)
//!   past it   each word by itself, at any time                                               (A2)
//!   barrier   of a thread: its write-backs and its stores past the cache                     (A3)
//!   crash     a prefix, and a subset, chosen when the line is read
//! ```
//!
//! Lines are independent of each other. A line's stores keep their order, as on the processor;
//! stores past the cache have no order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::machine::{Ask, Halt, Machine, distinct};
use super::sectors::Inode;

/// Words of a line.
const LINE_WORDS: usize = 8;
/// Bytes of a line.
pub(super) const LINE_BYTES: u64 = 64;

type Words = [u64; LINE_WORDS];
/// A line of a file: the file's number and the line's.
type Place = (usize, u64);

/// How a word was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Into the cache.
    Cached,
    /// Into a cache that is durable (A4): durable with the next fence of its thread.
    Durable,
    /// Past the cache.
    Streamed,
}

#[derive(Clone, Copy, Debug)]
struct Store {
    word: usize,
    value: u64,
    streamed: bool,
    thread: u64,
}

/// Line with more than one possible content.
#[derive(Clone, Debug)]
struct Line {
    durable: Words,
    /// In the order in which they were issued.
    stores: Vec<Store>,
    /// Threads that have written the line back, and how many stores that covers.
    written_back: Vec<(u64, usize)>,
    /// The power went.
    lost: bool,
    /// When it was stored to last.
    written: u64,
}

/// The lines that are not certain.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: BTreeMap<Place, Line>,
    /// Stores that the next fence of each thread covers.
    unfenced: BTreeMap<u64, BTreeSet<Place>>,
}

impl Lines {
    pub(super) fn is_settled(&self) -> bool {
        self.lines.is_empty()
    }

    pub(super) fn crash(&mut self) {
        self.unfenced.clear();
        self.lines.values_mut().for_each(|line| line.lost = true);
    }

    /// A file is no longer than that.
    pub(super) fn cut(&mut self, number: usize, bytes: u64) {
        let line = bytes.div_ceil(LINE_BYTES);
        self.lines.retain(|place, _| place.0 != number || place.1 < line);
    }

    /// Ends the process: its fences never execute (A11).
    pub(super) fn exit(&mut self) {
        self.unfenced.clear();
        self.lines.values_mut().filter(|line| !line.lost).for_each(Line::exit);
    }

    fn lost(&self, number: usize, range: &Range<u64>) -> Option<Place> {
        let lines = (number, range.start / LINE_BYTES)..(number, range.end.div_ceil(LINE_BYTES));
        self.lines.range(lines).find(|(_, line)| line.lost).map(|(place, _)| *place)
    }
}

impl Line {
    /// The words with the stores that `keeps` says.
    fn with(&self, keeps: impl Fn(usize, &Store) -> bool) -> Words {
        let mut words = self.durable;
        for (number, store) in self.stores.iter().enumerate() {
            if keeps(number, store) {
                words[store.word] = store.value;
            }
        }
        words
    }

    /// Makes the stores that a thread's fence covers durable; returns the affected words.
    fn fence(&mut self, thread: u64) -> Vec<usize> {
        let covered = self.written_back.iter().filter(|(by, _)| *by == thread);
        let covered = covered.map(|(_, stores)| *stores).max().unwrap_or(0);
        let is_covered = |number: usize, store: &Store| match store.streamed {
            true => store.thread == thread,
            false => number < covered,
        };
        self.durable = self.with(is_covered);
        // A word in the cache that was stored past it has left the cache before that.
        let replaced = |number: usize, store: &Store| {
            let mut later = self.stores.iter().enumerate().skip(number + 1);
            !store.streamed && later.any(|(at, by)| by.word == store.word && is_covered(at, by))
        };
        let gone: Vec<bool> = (self.stores.iter().enumerate())
            .map(|(number, store)| is_covered(number, store) || replaced(number, store))
            .collect();
        self.written_back.retain(|(by, _)| *by != thread);
        for (_, stores) in &mut self.written_back {
            *stores -= gone[..*stores].iter().filter(|gone| **gone).count();
        }
        let covered = self.stores.iter().enumerate();
        let covered = covered.filter(|(number, store)| is_covered(*number, store));
        let words = covered.map(|(_, store)| store.word).collect();
        let mut gone = gone.into_iter();
        self.stores.retain(|_| !gone.next().expect("one for each store"));
        words
    }

    /// Ends the process that stored. Its stores past the cache have reached memory, or follow a
    /// prefix of the stores like any other; no fence of the next process covers them by itself.
    fn exit(&mut self) {
        self.written_back.clear();
        self.stores.iter_mut().for_each(|store| store.streamed = false);
    }

    /// Which words survive.
    fn decide(&self, machine: &mut Machine) -> Words {
        let cached: Vec<usize> =
            (0..self.stores.len()).filter(|&number| !self.stores[number].streamed).collect();
        // A1: `ends[n]` is the first store that is not in the cached prefix of length n.
        let ends = cached.iter().copied().chain([self.stores.len()]);
        let prefixes = distinct(
            ends.map(|end| (self.with(|number, store| !store.streamed && number < end), end)),
        );
        let contents = distinct(prefixes.iter().map(|(words, _)| *words));
        let chosen = machine.choose_about(Ask::Content, contents.len(), self.written);
        let end = prefixes.iter().find(|(words, _)| *words == contents[chosen]);
        let end = end.map_or(0, |(_, end)| *end);
        let mut words = contents[chosen];
        if cached.len() == self.stores.len() {
            return words;
        }
        // A2. A word that was streamed several times holds any of the values that reached memory.
        let streamed = |number: usize, store: &Store, kept: &dyn Fn(usize) -> bool| {
            if store.streamed { kept(store.word) } else { number < end }
        };
        if machine.model.every_word {
            for (word, value) in words.iter_mut().enumerate() {
                let here = self.stores.iter().enumerate().filter(|(_, store)| store.word == word);
                let cached = here.clone().rfind(|(at, store)| !store.streamed && *at < end);
                let later = here.filter(|(at, store)| {
                    store.streamed && cached.is_none_or(|(cached, _)| *at > cached)
                });
                let values = distinct([*value].into_iter().chain(later.map(|(_, s)| s.value)));
                *value = values[machine.choose_about(Ask::Word, values.len(), self.written)];
            }
            return words;
        }
        let all = self.with(|number, store| streamed(number, store, &|_| true));
        let half = |keeps: &dyn Fn(usize) -> bool| {
            self.with(|number, store| streamed(number, store, keeps))
        };
        let choices =
            [words, half(&|word| word < LINE_WORDS / 2), half(&|word| word >= LINE_WORDS / 2), all];
        let mut choices = distinct(choices);
        let chosen = machine.choose_about(Ask::Content, choices.len(), self.written);
        choices.swap_remove(chosen)
    }
}

impl Machine {
    /// Stores words to a mapped file, from the word at byte `at` on.
    pub(super) fn store(
        &mut self,
        inode: &mut Inode,
        at: u64,
        words: &[u64],
        way: Way,
        thread: u64,
    ) {
        let range = at..at + 8 * words.len() as u64;
        inode.decide(self, range.clone());
        self.decide_lines(inode, range);
        let written = self.tick();
        for (number, &value) in words.iter().enumerate() {
            let at = at + 8 * number as u64;
            let place = (inode.number(), at / LINE_BYTES);
            let line = self.lines.lines.entry(place).or_insert_with(|| Line {
                durable: line_of(inode, at / LINE_BYTES),
                stores: Vec::new(),
                written_back: Vec::new(),
                lost: false,
                written: 0,
            });
            let (word, streamed) = (at as usize / 8 % LINE_WORDS, way == Way::Streamed);
            line.written = written;
            line.stores.push(Store { word, value, streamed, thread });
            if way == Way::Durable {
                line.written_back.push((thread, line.stores.len()));
            }
            if way != Way::Cached {
                self.lines.unfenced.entry(thread).or_default().insert(place);
            }
            inode.poke(at, &value.to_le_bytes());
        }
        self.changed();
    }

    /// Starts a thread's write-back of a line, which covers the stores so far.
    pub(super) fn write_back(&mut self, number: usize, at: u64, thread: u64) {
        let place = (number, at / LINE_BYTES);
        if let Some(line) = self.lines.lines.get_mut(&place) {
            line.written_back.push((thread, line.stores.len()));
            self.lines.unfenced.entry(thread).or_default().insert(place);
        }
    }

    /// Fences a thread: its write-backs and stores past the cache are durable.
    pub(super) fn fence(&mut self, thread: u64) -> Result<(), Halt> {
        self.before_barrier()?;
        for place in self.lines.unfenced.remove(&thread).unwrap_or_default() {
            let Some(mut line) = self.lines.lines.remove(&place) else { continue };
            let before = line.durable;
            let words = line.fence(thread);
            self.with_inode(place.0, |_, inode| {
                for word in words {
                    inode.overlay(place.1 * LINE_BYTES + 8 * word as u64, line.durable[word]);
                }
            });
            self.digested(place, before, line.durable);
            if !line.stores.is_empty() {
                self.lines.lines.insert(place, line);
            }
        }
        Ok(())
    }

    /// Makes stores to a mapped file durable, as `fsync` of the file does.
    pub(super) fn settle_lines(&mut self, number: usize) {
        let all = (number, 0)..(number + 1, 0);
        let known = self.lines.lines.range(all).filter(|(_, line)| !line.lost);
        let places: Vec<Place> = known.map(|(place, _)| *place).collect();
        for place in places {
            let Some(line) = self.lines.lines.remove(&place) else { continue };
            self.digested(place, line.durable, line.with(|_, _| true));
        }
    }

    /// Decides the lost lines of a range.
    pub(super) fn decide_lines(&mut self, inode: &mut Inode, range: Range<u64>) {
        while let Some(place) = self.lines.lost(inode.number(), &range) {
            let Some(line) = self.lines.lines.remove(&place) else { return };
            inode.decide(self, place.1 * LINE_BYTES..(place.1 + 1) * LINE_BYTES);
            let words = line.decide(self);
            self.trace(|say| {
                let at = place.1 * LINE_BYTES;
                let lost = (0..LINE_WORDS).filter(|&w| words[w] != line.with(|_, _| true)[w]);
                let lost: Vec<usize> = lost.collect();
                say(format_args!("file {}, line at {at}: words {lost:?} lost", place.0));
            });
            self.digested(place, line.durable, words);
            for word in line.stores.iter().map(|store| store.word) {
                let at = place.1 * LINE_BYTES + 8 * word as u64;
                inode.poke(at, &words[word].to_le_bytes());
            }
        }
    }
}

fn line_of(inode: &Inode, line: u64) -> Words {
    let bytes = inode.peek(line * LINE_BYTES, LINE_BYTES as usize);
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|word| u64::from_le_bytes(words[word]))
}
