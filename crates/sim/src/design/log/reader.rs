//! The log after a power cut: what is in it, who is committed, and lines brought home from it.

use rustc_hash::{FxHashMap, FxHashSet};

use super::record::{DROPPED, Layout, Meta};
use crate::machine::memory::LineWords;
use crate::persist::{Cut, Persistent};

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    id: u32,
    line: u32,
    mask: u8,
    /// Its words, in its line's order: old ones, new ones, or both.
    words: Vec<u64>,
}

/// All that can be read from Log Start on.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    /// In the log's order.
    entries: Vec<Entry>,
    /// The transactions that have a commit word, and in which record.
    commits: FxHashMap<u32, u64>,
    /// Those that have a drop word: their lines are what they were.
    dropped: FxHashSet<u32>,
    /// What is committed before this record is at home.
    done: u64,
    /// Where the log ends.
    end: (u64, u64),
    layout: Option<Layout>,
}

impl Scan {
    /// Reads records until one is not sealed: those behind it were not waited for by anybody.
    pub(super) fn of(layout: Layout, state: &Persistent) -> Scan {
        let [head, tail, done, ..] = state.line(layout.start_line());
        let mut scan = Scan { end: (head, tail), done, layout: Some(layout), ..Scan::default() };
        while scan.end.0 - head < layout.heads {
            let words = state.line(layout.head_line(scan.end.0));
            if Meta::of(words[0]).lap != layout.lap(scan.end.0) {
                break;
            }
            let tails = match layout.pack {
                true => scan.read_packed(&words, state),
                false => scan.read_alone(&words, state),
            };
            scan.end = (scan.end.0 + 1, scan.end.1 + tails);
        }
        scan
    }

    /// Reads a record of metas, whose words are in its tails. Answers how many those are.
    fn read_packed(&mut self, head: &LineWords, state: &Persistent) -> u64 {
        let layout = self.layout.expect("it is being read");
        let metas = head.iter().take_while(|word| **word != 0).map(|word| Meta::of(*word));
        let metas: Vec<Meta> = metas.collect();
        let words_of = |meta: &Meta| layout.each() * meta.mask.count_ones() as usize;
        let tails = layout.tails_of(metas.iter().map(words_of));
        let mut words = self.tails(tails, state).into_iter();
        for meta in metas {
            self.add(meta, &mut words);
            if !layout.gather {
                // The next one's words begin in a tail of their own.
                let unused = words_of(&meta).next_multiple_of(8) - words_of(&meta);
                words.by_ref().take(unused).for_each(drop);
            }
        }
        tails
    }

    /// Reads a record in which each meta stands before its words.
    fn read_alone(&mut self, head: &LineWords, state: &Persistent) -> u64 {
        let layout = self.layout.expect("it is being read");
        let first = 1 + layout.each() * Meta::of(head[0]).mask.count_ones() as usize;
        let tails = first.saturating_sub(8).div_ceil(8) as u64;
        let mut words = head.to_vec();
        words.extend(self.tails(tails, state));
        let mut words = words.into_iter();
        while let Some(word) = words.next().filter(|word| *word != 0) {
            self.add(Meta::of(word), &mut words);
            if layout.coalesce {
                break;
            }
        }
        tails
    }

    fn tails(&self, count: u64, state: &Persistent) -> Vec<u64> {
        let layout = self.layout.expect("it is being read");
        let tails = self.end.1..self.end.1 + count;
        tails.flat_map(|tail| state.line(layout.tail_line(tail))).collect()
    }

    fn add(&mut self, meta: Meta, words: &mut impl Iterator<Item = u64>) {
        let Meta { line, mask, id, .. } = meta;
        if mask == 0 {
            match line {
                DROPPED => drop(self.dropped.insert(id)),
                _ => drop(self.commits.insert(id, self.end.0)),
            }
            return;
        }
        let each = self.layout.map_or(1, Layout::each);
        let words = words.take(each * mask.count_ones() as usize).collect();
        self.entries.push(Entry { id, line, mask, words });
    }

    /// Writes home what committed transactions have stored, oldest entry first. Of one that is at
    /// home the first records may be gone; what is left is written all the same, for what an older
    /// transaction has stored before may be written just now. What is known to be at home is left
    /// as it is: software may have written there since.
    pub(super) fn redo(&self, state: &mut Persistent) -> Result<(), Cut> {
        let is_there = |id| self.commits.get(id).is_some_and(|record| *record >= self.done);
        let committed = self.entries.iter().filter(|entry| is_there(&entry.id));
        committed.into_iter().try_for_each(|entry| {
            let new = entry.words.len() - entry.mask.count_ones() as usize;
            put(entry, &entry.words[new..], state)
        })
    }

    /// Writes home what others have found, newest entry first: of a line with two entries the older
    /// one has what was committed. Whoever has a commit word is committed, though the first of its
    /// records may be gone; and nothing is left of whoever has a drop word.
    pub(super) fn undo(&self, state: &mut Persistent) -> Result<(), Cut> {
        let is_over = |id| self.commits.contains_key(id) || self.dropped.contains(id);
        let open = self.entries.iter().filter(|entry| !is_over(&entry.id));
        open.rev().try_for_each(|entry| put(entry, &entry.words, state))
    }

    /// Ends recovery: the log is empty, and begins with a lap that none of its lines has. Records
    /// behind the first that was not durable may be of this lap or of the next one. The numbers of
    /// laps come again after 63: after some 31 recoveries one behind the other, with not a lap
    /// written between any two, an old line could be taken for a new one. No simulation does that.
    pub(super) fn reset(&self, state: &mut Persistent) -> Result<(), Cut> {
        let layout = self.layout.expect("it was read");
        let (head, tail) = layout.fresh_lap(self.end.0, self.end.1);
        state.set_line(layout.start_line(), [head, tail, 0, 0, 0, 0, 0, 0])
    }
}

/// Writes the words of an entry to its line.
fn put(entry: &Entry, words: &[u64], state: &mut Persistent) -> Result<(), Cut> {
    let mut line = state.line(entry.line);
    let places = (0..8).filter(|at| entry.mask >> at & 1 != 0);
    places.zip(words).for_each(|(at, word)| line[at] = *word);
    state.set_line(entry.line, line)
}
