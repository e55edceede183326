//! A position in a map that moves from pair to pair.
//!
//! A cursor reads pairs ahead in pages, since each page costs a descent in the map. The first page
//! after a search is one pair, and each further page is twice as long. So a program that looks for
//! one pair reads, and conflicts on, no other pair of an ordered map.
//!
//! Invariants:
//! - The pairs of a page follow the current pair, in the page's direction.
//! - The position is a key, or the start or the end. It stays valid whatever changes in the map.
//!   The order of a hash map is that of hashes, then of keys.

use std::ops::{Bound, ControlFlow, Range};

use words::{Stop, Words};

use super::{EncodedMap, Inner, MapKind};
use crate::btree::{Scan, Tree};
use crate::hash_map::EncodedTrie;

/// Most pairs of a page.
const PAIRS_MAX: usize = 64;

/// Bytes after which a page is not extended: pairs may be long.
const PAGE_BYTES: usize = 64 << 10;

/// A position in an [`EncodedMap`]: before the first pair, at a key, or behind the last pair.
///
/// A cursor may move in one transaction or in several. It reads pairs ahead: call
/// [`forget`](Cursor::forget) after a change of the map, and in each further transaction. It then
/// continues from its key, whether or not the map still has that key.
///
/// ```
/// use collections::catalog::{self, Opened};
/// use collections::encoded::{Cursor, EncodedTypes, Encoding, MapKind};
/// use words::{Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let types = EncodedTypes::new(MapKind::Ordered, Encoding::bytes(), Encoding::bytes()).unwrap();
/// let opened = mock.transact(|tx| catalog::open_encoded(tx, "words", &types))?;
/// let Opened::Created(words) = opened else { panic!("it is new") };
/// mock.transact(|tx| {
///     words.put(tx, b"two", b"2")?;
///     words.put(tx, b"one", b"1")
/// })?;
/// let mut cursor = Cursor::new(words);
/// assert!(mock.transact(|tx| cursor.next(tx))?);
/// assert_eq!(cursor.pair(), Some((&b"one"[..], &b"1"[..])));
/// assert!(mock.transact(|tx| cursor.seek(tx, b"s"))?);
/// assert_eq!(cursor.pair(), Some((&b"two"[..], &b"2"[..])));
/// mock.transact(|tx| cursor.move_to(tx, b"a"))?;
/// assert!(mock.transact(|tx| cursor.next(tx))?);
/// assert_eq!(cursor.pair(), Some((&b"one"[..], &b"1"[..])));
/// # Ok::<(), words::mock::Refused>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cursor {
    map: EncodedMap,
    place: Place,
    /// The pair at the place, if that is a key.
    key: Vec<u8>,
    value: Vec<u8>,
    hash: u64,
    page: Page,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    At,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Pairs that were read ahead.
#[derive(Clone, Debug)]
struct Page {
    direction: Direction,
    bytes: Vec<u8>,
    items: Vec<Item>,
    /// Number of the items that the cursor has passed.
    used: usize,
    rest: Rest,
    /// Pairs of the next page.
    most: usize,
}

/// A pair in the bytes of a page.
#[derive(Clone, Debug)]
struct Item {
    hash: u64,
    key: Range<usize>,
    value: Range<usize>,
}

/// The pairs behind a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    None,
    /// Those behind the cursor's place, when it has passed the page.
    Behind,
    /// In a hash map: those from a hash on.
    From(u64),
}

impl Page {
    const fn new() -> Page {
        let (direction, rest) = (Direction::Forward, Rest::Behind);
        Page { direction, bytes: Vec::new(), items: Vec::new(), used: 0, rest, most: 1 }
    }

    /// Forgets the pairs. The memory is used again.
    fn clear(&mut self, direction: Direction, rest: Rest) {
        self.bytes.clear();
        self.items.clear();
        (self.direction, self.used, self.rest) = (direction, 0, rest);
    }

    fn push(&mut self, hash: u64, key: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.items.push(Item { hash, key: start..middle, value: middle..self.bytes.len() });
    }
}

impl Cursor {
    /// Makes a cursor before the first pair.
    pub fn new(map: EncodedMap) -> Cursor {
        let (place, page) = (Place::Start, Page::new());
        Cursor { map, place, key: Vec::new(), value: Vec::new(), hash: 0, page }
    }

    /// Returns the map.
    pub const fn map(&self) -> EncodedMap {
        self.map
    }

    /// Returns the key and the value at the cursor, as of its last move. `None` at the start and at
    /// the end.
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        (self.place == Place::At).then_some((&self.key, &self.value))
    }

    /// Forgets the pairs that were read ahead, not the position.
    pub fn forget(&mut self) {
        self.page.clear(self.page.direction, Rest::Behind);
    }

    /// Moves before the first pair.
    pub fn to_start(&mut self) {
        self.put(Place::Start);
    }

    /// Moves behind the last pair.
    pub fn to_end(&mut self) {
        self.put(Place::End);
    }

    fn put(&mut self, place: Place) {
        self.place = place;
        self.page.most = 1;
        self.page.clear(Direction::Forward, Rest::Behind);
    }

    /// Moves to the next pair. Returns whether there is one; else the cursor is at the end.
    ///
    /// # Errors
    /// As [`EncodedMap::get_with`].
    pub fn next<W: Words>(&mut self, tx: &mut W) -> Result<bool, Stop> {
        self.step(tx, Direction::Forward)
    }

    /// Moves to the previous pair of an ordered map. Returns whether there is one; else the cursor
    /// is at the start.
    ///
    /// # Panics
    /// In a hash map.
    ///
    /// # Errors
    /// As [`next`](Cursor::next).
    pub fn prev<W: Words>(&mut self, tx: &mut W) -> Result<bool, Stop> {
        self.step(tx, Direction::Backward)
    }

    /// Moves to the first pair of an ordered map whose key is not less, in a hash map to the pair
    /// with this key. Returns whether there is one; else the cursor is at the end.
    ///
    /// # Errors
    /// As [`next`](Cursor::next), and [`Stop::BadValue`] for bytes that are no key of the map.
    pub fn seek<W: Words>(&mut self, tx: &mut W, key: &[u8]) -> Result<bool, Stop> {
        match self.map.inner(key)? {
            Inner::Ordered(tree) => {
                self.put(Place::Start);
                self.read_tree(tx, tree, (Bound::Included(key), Bound::Unbounded))?;
                self.take(Direction::Forward)
            }
            Inner::Hash(trie) => {
                let hash = trie.hash_of(tx, key)?;
                let value = trie.get(tx, key, |value| Ok(value.into_owned()))?;
                self.put(Place::End);
                if let Some(value) = value {
                    self.key.clear();
                    self.key.extend_from_slice(key);
                    (self.place, self.value, self.hash) = (Place::At, value, hash);
                }
                self.check()
            }
        }
    }

    /// Moves to a key, whether or not the map has it: [`next`](Cursor::next) then moves to the pair
    /// after it. [`pair`](Cursor::pair) returns the key, with an empty value.
    ///
    /// # Errors
    /// As [`seek`](Cursor::seek).
    pub fn move_to<W: Words>(&mut self, tx: &mut W, key: &[u8]) -> Result<(), Stop> {
        let hash = match self.map.inner(key)? {
            Inner::Ordered(_) => 0,
            Inner::Hash(trie) => trie.hash_of(tx, key)?,
        };
        self.put(Place::At);
        self.key.clear();
        self.key.extend_from_slice(key);
        self.value.clear();
        self.hash = hash;
        Ok(())
    }

    fn step<W: Words>(&mut self, tx: &mut W, direction: Direction) -> Result<bool, Stop> {
        if self.page.direction != direction {
            self.page.most = 1;
            self.page.clear(direction, Rest::Behind);
        }
        let is_read = self.page.used < self.page.items.len() || self.page.rest == Rest::None;
        let is_over = match direction {
            Direction::Forward => self.place == Place::End,
            Direction::Backward => self.place == Place::Start,
        };
        if !is_read && !is_over {
            let read = match self.map.of_kind() {
                Inner::Ordered(tree) => self.read_behind(tx, tree, direction),
                Inner::Hash(trie) => self.read_trie(tx, trie, direction),
            };
            if read.is_err() {
                self.forget();
            }
            read?;
        }
        self.take(direction)
    }

    /// Moves to the next pair of the page, or to the end that the page leads to.
    fn take(&mut self, direction: Direction) -> Result<bool, Stop> {
        let Some(item) = self.page.items.get(self.page.used) else {
            self.place = match direction {
                Direction::Forward => Place::End,
                Direction::Backward => Place::Start,
            };
            return Ok(false);
        };
        let key = &self.page.bytes[item.key.clone()];
        // A damaged tree may have a leaf in many places: the cursor would go round. A hash map's
        // pages have no pair before the place.
        if self.map.kind == MapKind::Ordered && self.place == Place::At {
            let is_beyond = match direction {
                Direction::Forward => *key > *self.key,
                Direction::Backward => *key < *self.key,
            };
            if !is_beyond {
                return Err(Stop::BadValue);
            }
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(&self.page.bytes[item.value.clone()]);
        (self.hash, self.place) = (item.hash, Place::At);
        self.page.used += 1;
        self.check()
    }

    /// Refuses a pair that is none of the map's types: the map is damaged.
    fn check(&self) -> Result<bool, Stop> {
        let Some((key, value)) = self.pair() else {
            return Ok(false);
        };
        let is_pair = self.map.key.accepts(key) && self.map.value.accepts(value);
        if is_pair { Ok(true) } else { Err(Stop::BadValue) }
    }

    /// Reads a page behind the place.
    fn read_behind<W: Words>(
        &mut self,
        tx: &mut W,
        tree: Tree,
        direction: Direction,
    ) -> Result<(), Stop> {
        let at = std::mem::take(&mut self.key);
        let bound = match self.place {
            Place::At => Bound::Excluded(&at[..]),
            Place::Start | Place::End => Bound::Unbounded,
        };
        let read = match direction {
            Direction::Forward => self.read_tree(tx, tree, (bound, Bound::Unbounded)),
            Direction::Backward => self.read_tree(tx, tree, (Bound::Unbounded, bound)),
        };
        self.key = at;
        read
    }

    /// Reads the first page of a range, in the direction of the page.
    fn read_tree<W: Words>(
        &mut self,
        tx: &mut W,
        tree: Tree,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<(), Stop> {
        let page = &mut self.page;
        page.clear(page.direction, Rest::None);
        let is_reverse = page.direction == Direction::Backward;
        tree.scan(tx, Scan { bounds, is_reverse, reads_values: true }, |key, value| {
            page.push(0, &key, &value);
            if page.items.len() < page.most && page.bytes.len() < PAGE_BYTES {
                return Ok(ControlFlow::Continue(()));
            }
            page.rest = Rest::Behind;
            Ok(ControlFlow::Break(()))
        })?;
        page.most = PAIRS_MAX.min(2 * page.most);
        Ok(())
    }

    /// Reads the next bucket with pairs behind the place.
    fn read_trie<W: Words>(
        &mut self,
        tx: &mut W,
        trie: EncodedTrie,
        direction: Direction,
    ) -> Result<(), Stop> {
        assert!(direction == Direction::Forward, "a hash map has no previous pairs");
        let at = (self.place == Place::At).then_some((self.hash, &self.key[..]));
        let mut next = match self.page.rest {
            Rest::None => None,
            Rest::Behind => Some(at.map_or(0, |(hash, _)| hash)),
            Rest::From(hash) => Some(hash),
        };
        let page = &mut self.page;
        page.clear(direction, Rest::None);
        while let Some(from) = next.filter(|_| page.items.is_empty()) {
            next = trie.visit_bucket(tx, from, |hash, key, value| {
                if at.is_none_or(|at| (hash, &key[..]) > at) {
                    page.push(hash, &key, &value);
                }
            })?;
        }
        let Page { bytes, items, .. } = page;
        items.sort_by(|a, b| {
            a.hash.cmp(&b.hash).then_with(|| bytes[a.key.clone()].cmp(&bytes[b.key.clone()]))
        });
        page.rest = next.map_or(Rest::None, Rest::From);
        Ok(())
    }
}
