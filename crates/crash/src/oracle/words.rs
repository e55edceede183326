//! The words of a heap, in pieces that states share.
//!
//! A transaction changes few words of a heap, and most words of a small heap are 0. So a state
//! takes memory for the pieces that its transaction has changed, and states are compared by the
//! pieces that they do not share.
//!
//! The link of an object, the word before its header, is 0 here: no transaction reads one, and a
//! crash may leave any value there.

use std::sync::Arc;

use lastword::AnyPool;
use lw_alloc::header;

/// Words of a piece.
const PIECE_WORDS: usize = 512;

/// A piece; `None` if all words are 0.
type Piece = Option<Arc<Filled>>;

/// A piece with words other than 0. The last one of a heap may have zeros behind its end.
#[derive(Debug)]
struct Filled {
    /// With links.
    seen: [u64; PIECE_WORDS],
    /// Without links.
    words: [u64; PIECE_WORDS],
}

impl Filled {
    /// Makes the piece of words that begin at an index.
    fn new(first: usize, seen: &[u64]) -> Filled {
        let mut all = [0; PIECE_WORDS];
        all[..seen.len()].copy_from_slice(seen);
        let mut words = all;
        // Objects are aligned to 16 bytes, so a header and its link are a pair.
        for (number, pair) in words.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let object = 8 * (first + 2 * number + 2) as u64;
            if pair[0] != 0 && header::extent_bytes(pair[1], object).is_some() {
                pair[0] = 0;
            }
        }
        Filled { seen: all, words }
    }
}

/// The words of a heap, cheap to copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    length: usize,
    pieces: Arc<Vec<Piece>>,
}

impl Words {
    /// Copies the words of an open pool's heap. `like`: a state that has most of them.
    pub(crate) fn observe(pool: &dyn AnyPool, like: &Words) -> Words {
        let mut words = Writer { like, length: 0, pieces: Vec::with_capacity(like.pieces.len()) };
        pool.observe_words(&mut |seen| seen.chunks(PIECE_WORDS).for_each(|seen| words.add(seen)));
        words.done()
    }

    /// Returns the word at an index.
    pub(crate) fn at(&self, word: usize) -> u64 {
        assert!(word < self.length, "the word is outside of the heap");
        self.pieces[word / PIECE_WORDS].as_ref().map_or(0, |piece| piece.words[word % PIECE_WORDS])
    }

    /// Returns the words in one piece.
    pub(crate) fn to_vec(&self) -> Vec<u64> {
        let mut words = vec![0; self.pieces.len() * PIECE_WORDS];
        for (to, piece) in words.chunks_mut(PIECE_WORDS).zip(&*self.pieces) {
            if let Some(piece) = piece {
                to.copy_from_slice(&piece.words);
            }
        }
        words.truncate(self.length);
        words
    }

    /// Returns the words that both heaps have, and that differ.
    pub(crate) fn differences<'w>(&'w self, other: &'w Words) -> impl Iterator<Item = usize> + 'w {
        let pieces = self.pieces.iter().zip(&*other.pieces).enumerate();
        let differ = pieces.filter(|(_, (one, other))| !is_same(one, other));
        let words = differ.flat_map(|(number, _)| {
            let first = number * PIECE_WORDS;
            first..self.length.min(other.length).min(first + PIECE_WORDS)
        });
        words.filter(|&word| self.at(word) != other.at(word))
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Words) -> bool {
        let mut pieces = self.pieces.iter().zip(&*other.pieces);
        self.length == other.length && pieces.all(|(one, other)| is_same(one, other))
    }
}

impl From<Vec<u64>> for Words {
    fn from(words: Vec<u64>) -> Words {
        let mut writer = Writer { like: &Words::default(), length: 0, pieces: Vec::new() };
        words.chunks(PIECE_WORDS).for_each(|seen| writer.add(seen));
        writer.done()
    }
}

fn is_same(one: &Piece, other: &Piece) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.words == other.words,
        (Some(one), None) | (None, Some(one)) => one.words.iter().all(|word| *word == 0),
    }
}

struct Writer<'w> {
    like: &'w Words,
    length: usize,
    pieces: Vec<Piece>,
}

impl Writer<'_> {
    /// Adds the next piece; only the last one may be shorter.
    fn add(&mut self, seen: &[u64]) {
        let first = self.length;
        debug_assert!(first.is_multiple_of(PIECE_WORDS), "only the last piece is shorter");
        self.length += seen.len();
        // Not `all`, which ends early: this takes few instructions for many words.
        let is_zero = seen.iter().fold(0, |all, word| all | word) == 0;
        let known = self.like.pieces.get(self.pieces.len()).cloned().flatten();
        self.pieces.push(match known {
            _ if is_zero => None,
            Some(known) if known.seen[..seen.len()] == *seen => Some(known),
            _ => Some(Arc::new(Filled::new(first, seen))),
        });
    }

    fn done(self) -> Words {
        Words { length: self.length, pieces: Arc::new(self.pieces) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_differ_where_their_pieces_do() {
        let mut words = vec![0; 3 * PIECE_WORDS + 5];
        (words[1], words[PIECE_WORDS + 7]) = (1, 2);
        let one = Words::from(words.clone());
        assert_eq!((one.at(1), one.at(0)), (1, 0));
        assert_eq!(one.to_vec(), words);
        assert!(one.pieces[2].is_none() && one == Words::from(words.clone()));
        (words[0], words[3 * PIECE_WORDS + 4]) = (9, 9);
        let other = Words::from(words.clone());
        assert!(one != other);
        assert_eq!(one.differences(&other).collect::<Vec<_>>(), [0, 3 * PIECE_WORDS + 4]);
        assert!(one != Words::from(words[..PIECE_WORDS].to_vec()));
    }

    #[test]
    fn links_are_zero() {
        let root = lw_alloc::PAGE_OBJECT as usize / 8;
        let kind = header::Description { kind: header::Kind::Own, bytes: 64, position: 0 };
        let mut words = vec![0; PIECE_WORDS];
        words[root - 1] = header::encode(8 * root as u64, kind);
        let without = Words::from(words.clone());
        words[root - 2] = 42;
        assert!(Words::from(words.clone()) == without);
        words[root] = 42;
        assert!(Words::from(words) != without);
    }
}
