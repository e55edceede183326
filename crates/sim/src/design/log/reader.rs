//! The reader of the log after a power failure: entries, commits, and their redo and undo.

use rustc_hash::{FxHashMap, FxHashSet};

use super::record::{DROPPED, Layout, Meta};
use crate::machine::memory::LineWords;
use crate::persist::{Cut, Persistent};

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    id: u32,
    line: u32,
    mask: u8,
    /// Its words in the order of the line: old ones, new ones, or both. A vector for each entry
    /// would take a third of the time of a recovery.
    words: [u64; 16],
    count: usize,
}

impl Entry {
    fn words(&self) -> &[u64] {
        &self.words[..self.count]
    }
}

/// The contents of the log from Log Start on.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    /// In log order.
    entries: Vec<Entry>,
    /// Transactions with a commit word, and its record.
    commits: FxHashMap<u32, u64>,
    /// Transactions with a drop word, whose lines are restored already.
    dropped: FxHashSet<u32>,
    /// The applied watermark: the heap image has all commits before this record.
    watermark: u64,
    /// The end of the log.
    end: (u64, u64),
    layout: Option<Layout>,
}

impl Scan {
    /// Reads records up to the first that is not sealed. No acknowledgement depended on the records
    /// after it.
    pub(super) fn of(layout: Layout, state: &Persistent) -> Scan {
        let [head, tail, watermark, ..] = state.line(layout.start_line());
        let mut scan =
            Scan { end: (head, tail), watermark, layout: Some(layout), ..Scan::default() };
        while scan.end.0 - head < layout.heads {
            let words = state.line(layout.head_line(scan.end.0));
            if Meta::of(words[0]).wrap != layout.wrap(scan.end.0) {
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

    /// Reads a record of metas with words in its tails. Returns the number of tails.
    fn read_packed(&mut self, head: &LineWords, state: &Persistent) -> u64 {
        let layout = self.layout.expect("the scan has a layout");
        let metas = head.iter().take_while(|word| **word != 0).map(|word| Meta::of(*word));
        let metas: Vec<Meta> = metas.collect();
        let words_of = |meta: &Meta| layout.each() * meta.mask.count_ones() as usize;
        let tails = layout.tails_of(metas.iter().map(words_of));
        let mut words = self.tails(tails, state).into_iter();
        for meta in metas {
            self.add(meta, &mut words);
            if !layout.gather {
                // The next entry's words begin in another tail.
                let unused = words_of(&meta).next_multiple_of(8) - words_of(&meta);
                words.by_ref().take(unused).for_each(drop);
            }
        }
        tails
    }

    /// Reads a record in which each meta precedes its words. Returns the number of tails.
    fn read_alone(&mut self, head: &LineWords, state: &Persistent) -> u64 {
        let layout = self.layout.expect("the scan has a layout");
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
        let layout = self.layout.expect("the scan has a layout");
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
        let mut entry = Entry { id, line, mask, words: [0; 16], count: 0 };
        for (to, word) in entry.words.iter_mut().zip(words.take(each * mask.count_ones() as usize))
        {
            *to = word;
            entry.count += 1;
        }
        self.entries.push(entry);
    }

    /// Applies the new words of committed transactions, oldest entry first. The log may have lost
    /// the first records of an applied transaction. Its other records are applied again, because
    /// redo of older transactions may have overwritten the same lines. Commits before the watermark
    /// are skipped: software may have written their lines later.
    pub(super) fn redo(&self, state: &mut Persistent) -> Result<(), Cut> {
        let is_there = |id| self.commits.get(id).is_some_and(|record| *record >= self.watermark);
        let committed = self.entries.iter().filter(|entry| is_there(&entry.id));
        committed.into_iter().try_for_each(|entry| {
            let new = entry.count - entry.mask.count_ones() as usize;
            put(entry, &entry.words()[new..], state)
        })
    }

    /// Restores the old words of uncommitted transactions, newest entry first. The older of two
    /// entries for a line holds the committed words. A transaction with a commit word is committed
    /// even if its first records are lost. A transaction with a drop word needs no undo.
    pub(super) fn undo(&self, state: &mut Persistent) -> Result<(), Cut> {
        let is_over = |id| self.commits.contains_key(id) || self.dropped.contains(id);
        let open = self.entries.iter().filter(|entry| !is_over(&entry.id));
        open.rev().try_for_each(|entry| put(entry, entry.words(), state))
    }

    /// Ends recovery with an empty log in a wrap that none of its lines has. Records after the
    /// first non-durable one may carry this wrap or the next. Wrap numbers repeat after 63. After
    /// about 31 recoveries without a complete wrap between them, an old line could pass for a new
    /// one. No simulation does that.
    pub(super) fn reset(&self, state: &mut Persistent) -> Result<(), Cut> {
        let layout = self.layout.expect("the scan has a layout");
        let (head, tail) = layout.fresh_wrap(self.end.0, self.end.1);
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
