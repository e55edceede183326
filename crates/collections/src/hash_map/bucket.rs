//! Buckets: up to 8 pairs in one object.
//!
//! ```text
//!   | head | tag x capacity | payload x capacity | next |       next: only in a chain
//!
//!   short pairs of one length      tag: key, filled up with zeros    payload: value, so too
//!   other pairs                    tag: hash of the key              payload: pointer to an entry
//!
//!    63      32 31   16 15   12 11    8 7     0
//!   |   MARK   | chain | capa. | count | depth |       head
//! ```
//!
//! Invariants:
//! - The first `count` tags and payloads are in use. The other words are undefined.
//! - `chain` is the number of buckets behind `next`. It shrinks by one with each, so a damaged
//!   chain ends.
//! - A head that breaks the rules for its numbers is [`Stop::BadValue`].

use words::{Addr, Seen, Stop, Words};
use zerocopy::IntoBytes;

use super::hash::hash;
use crate::entry::{Entry, inline_pair};
use crate::key::{Key, KeyBuf};
use crate::value::Value;

/// The upper half of a head: "buck".
const MARK: u64 = 0x6275_636b;

/// The first word of a freed object.
const DEAD: u64 = 0;

/// Most pairs of a bucket.
pub(super) const CAPACITY: usize = 8;

/// Capacity of a map's first bucket, which then doubles.
pub(super) const CAPACITY_FIRST: usize = 2;

/// Bytes of an entry to prefetch: head, key and value of a short pair.
pub(super) const ENTRY_BYTES: usize = 128;

/// Hash bits that one directory consumes.
pub(super) const BITS: u32 = 6;

/// Most words of a tag or payload.
const PART_WORDS: usize = 8;

/// Most words of all tags, or of all payloads.
const COLUMN_WORDS: usize = PART_WORDS * CAPACITY;

/// Most buckets in a chain, as its number has 16 bits.
const CHAIN_MAX: u64 = u16::MAX as u64;

/// The form of a map's buckets, which its types decide.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Bytes of key and value, when buckets hold the pairs themselves.
    pub(super) inline: Option<(usize, usize)>,
    /// Words of a tag.
    tag: usize,
    /// Words of a payload.
    payload: usize,
}

/// The first word of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) chain: u64,
    pub(super) capacity: usize,
    pub(super) count: usize,
    /// Hash bits that select the bucket within its directory. 0 without a directory.
    pub(super) depth: u32,
}

/// A bucket that was read: valid until the transaction writes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub(super) object: u64,
    pub(super) head: Head,
    seen: Seen,
}

/// A pair in words, as a bucket holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    tag: [u64; PART_WORDS],
    payload: [u64; PART_WORDS],
}

/// A pair that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) bucket: Bucket,
    pub(super) index: usize,
    /// The pair's entry, if it has one.
    pub(super) entry: Option<Entry>,
}

impl Form {
    /// Returns the form of the buckets of a `HashMap<K, V>`.
    pub(super) const fn of<K: Key + ?Sized, V: Value + ?Sized>() -> Form {
        Form::of_lengths(K::FIXED, V::FIXED)
    }

    /// Returns the form for keys and values of these lengths, or of any.
    pub(super) const fn of_lengths(key: Option<usize>, value: Option<usize>) -> Form {
        match inline_pair(key, value) {
            Some((key, value)) => {
                let (tag, payload) = (key.div_ceil(8), value.div_ceil(8));
                assert!(tag <= PART_WORDS && payload <= PART_WORDS);
                Form { inline: Some((key, value)), tag, payload }
            }
            None => Form { inline: None, tag: 1, payload: 1 },
        }
    }

    /// Returns the size of a bucket in bytes.
    pub(super) const fn bytes(self, head: Head) -> usize {
        8 * (1 + (self.tag + self.payload) * head.capacity + (head.chain > 0) as usize)
    }

    /// Returns the hash of a pair's key.
    pub(super) fn hash_of(self, seed: u64, pair: &Pair) -> u64 {
        match self.inline {
            Some((key, _)) => hash(seed, &pair.tag[..self.tag], key),
            None => pair.tag[0],
        }
    }

    /// Returns the pair of this key and of a value or, without `inline`, of an entry's pointer.
    pub(super) fn pair(self, hash: u64, key: &KeyBuf, payload: &[u8]) -> Pair {
        let mut pair = Pair { tag: [0; PART_WORDS], payload: [0; PART_WORDS] };
        match self.inline {
            Some(_) => pair.tag[..self.tag].copy_from_slice(key.words()),
            None => pair.tag[0] = hash,
        }
        pair.payload.as_mut_bytes()[..payload.len()].copy_from_slice(payload);
        pair
    }

    fn tag_at(self, index: usize) -> u64 {
        8 * (1 + self.tag * index) as u64
    }

    fn payload_at(self, head: Head, index: usize) -> u64 {
        8 * (1 + self.tag * head.capacity + self.payload * index) as u64
    }

    fn next_at(self, head: Head) -> u64 {
        8 * (1 + (self.tag + self.payload) * head.capacity) as u64
    }
}

impl Head {
    /// Returns the head of a bucket without pairs.
    pub(super) const fn empty(capacity: usize, depth: u32) -> Head {
        Head { chain: 0, capacity, count: 0, depth }
    }

    /// Decodes a head. `None` is no bucket's.
    #[inline]
    pub(super) fn from_word(word: u64) -> Option<Head> {
        let head = Head {
            chain: word >> 16 & CHAIN_MAX,
            capacity: (word >> 12 & 0xf) as usize,
            count: (word >> 8 & 0xf) as usize,
            depth: (word & 0xff) as u32,
        };
        let is_sound = word >> 32 == MARK
            && head.count <= head.capacity
            && head.capacity <= CAPACITY
            && head.depth <= BITS;
        is_sound.then_some(head)
    }

    pub(super) fn to_word(self) -> u64 {
        MARK << 32
            | self.chain << 16
            | (self.capacity as u64) << 12
            | (self.count as u64) << 8
            | u64::from(self.depth)
    }

    /// Returns the head of a bucket in front of this full one, with the same depth.
    ///
    /// # Errors
    /// [`Stop::Full`] when the chain has half a million pairs, all with one hash.
    pub(super) fn in_front(self) -> Result<Head, Stop> {
        if self.chain == CHAIN_MAX {
            return Err(Stop::Full);
        }
        Ok(Head { chain: self.chain + 1, ..Head::empty(CAPACITY, self.depth) })
    }
}

impl Bucket {
    /// Makes a bucket of its parts.
    pub(super) fn new(seen: Seen, head: Head) -> Bucket {
        Bucket { object: seen.object, head, seen }
    }

    /// Finds the pair of this key.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] for a wrong entry.
    #[inline]
    pub(super) fn find<W: Words>(
        self,
        tx: &mut W,
        form: Form,
        hash: u64,
        key: &KeyBuf,
    ) -> Result<Option<Found>, Stop> {
        let mut from = 0;
        while let Some(index) = self.candidate(tx, form, hash, key, from)? {
            if form.inline.is_some() {
                return Ok(Some(Found { bucket: self, index, entry: None }));
            }
            let entry = self.entry(tx, form, index)?;
            if entry.is_key(tx, key.as_bytes())? {
                return Ok(Some(Found { bucket: self, index, entry: Some(entry) }));
            }
            from = index + 1;
        }
        Ok(None)
    }

    /// Returns the first pair from `from` on with the tag of this key. Only an inline pair is
    /// certain to have the key itself.
    #[inline]
    pub(super) fn candidate<W: Words>(
        self,
        tx: &mut W,
        form: Form,
        hash: u64,
        key: &KeyBuf,
        from: usize,
    ) -> Result<Option<usize>, Stop> {
        let (count, tag) = (self.head.count, form.tag);
        let hash = [hash];
        let wanted = if form.inline.is_some() { key.words() } else { &hash };
        with_words(tag * count, |tags| {
            tx.read_words_seen(self.seen, form.tag_at(0), tags)?;
            let is_wanted = |&index: &usize| tags[tag * index..][..tag] == *wanted;
            Ok((from..count).find(is_wanted))
        })
    }

    /// Calls `with` on the value of an inline pair.
    ///
    /// # Errors
    /// As [`Words::read`], and those of `with`.
    #[inline]
    pub(super) fn value<W: Words, R>(
        self,
        tx: &mut W,
        form: Form,
        index: usize,
        with: impl FnOnce(&[u8]) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        let bytes = form.inline.map_or(0, |(_, value)| value);
        with_words(form.payload, |words| {
            tx.read_words_seen(self.seen, form.payload_at(self.head, index), words)?;
            with(&words.as_bytes()[..bytes])
        })
    }

    /// Opens the entry of a pair.
    ///
    /// # Errors
    /// As [`Entry::open`].
    #[inline]
    pub(super) fn entry<W: Words>(
        self,
        tx: &mut W,
        form: Form,
        index: usize,
    ) -> Result<Entry, Stop> {
        let object = tx.read_seen(self.seen, form.payload_at(self.head, index))?;
        tx.will_read(Addr::new(object, 0), ENTRY_BYTES);
        Entry::open(tx, object)
    }

    /// Protects the bucket's head. Every change of the pairs, but one of a value, writes the
    /// bucket.
    ///
    /// # Errors
    /// As [`Words::protect`].
    pub(super) fn protect<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        tx.protect(Addr::new(self.object, 0))
    }

    /// Protects the head of a pair's entry.
    ///
    /// # Errors
    /// As [`Words::protect`].
    pub(super) fn protect_entry<W: Words>(
        self,
        tx: &mut W,
        form: Form,
        index: usize,
    ) -> Result<(), Stop> {
        let object = tx.read_seen(self.seen, form.payload_at(self.head, index))?;
        tx.protect(Addr::new(object, 0))
    }

    /// Returns the pairs from `from` on.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub(super) fn pairs<W: Words>(
        self,
        tx: &mut W,
        form: Form,
        from: usize,
    ) -> Result<Vec<Pair>, Stop> {
        let count = self.head.count.saturating_sub(from);
        let (mut tags, mut payloads) = ([0; COLUMN_WORDS], [0; COLUMN_WORDS]);
        let (tags, payloads) =
            (&mut tags[..form.tag * count], &mut payloads[..form.payload * count]);
        tx.read_words_seen(self.seen, form.tag_at(from), tags)?;
        tx.read_words_seen(self.seen, form.payload_at(self.head, from), payloads)?;
        let part = |column: &[u64], words: usize, index: usize| {
            let mut part = [0; PART_WORDS];
            part[..words].copy_from_slice(&column[words * index..][..words]);
            part
        };
        let pair = |index| Pair {
            tag: part(tags, form.tag, index),
            payload: part(payloads, form.payload, index),
        };
        Ok((0..count).map(pair).collect())
    }

    /// Returns the next bucket of the chain; `None` at its end.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when no bucket follows that belongs there.
    pub(super) fn next<W: Words>(self, tx: &mut W, form: Form) -> Result<Option<Bucket>, Stop> {
        let chain = self.head.chain;
        if chain == 0 {
            return Ok(None);
        }
        let next = tx.read_seen(self.seen, form.next_at(self.head))?;
        tx.after_last_read();
        let seen = tx.look(next)?;
        match Head::from_word(tx.read_seen(seen, 0)?) {
            Some(head) if head.chain == chain - 1 && head.count == CAPACITY => {
                Ok(Some(Bucket::new(seen, head)))
            }
            _ => Err(Stop::BadValue),
        }
    }
}

impl Pair {
    /// Returns the pointer to the entry of a pair that is not inline.
    pub(super) const fn entry(&self) -> u64 {
        self.payload[0]
    }

    /// Returns key and value of an inline pair.
    pub(super) fn inline(&self, (key, value): (usize, usize)) -> (&[u8], &[u8]) {
        (&self.tag.as_bytes()[..key], &self.payload.as_bytes()[..value])
    }
}

/// Writes the head of a bucket and its pairs from `from` up to its count.
///
/// # Errors
/// As [`Words::write`].
pub(super) fn write<W: Words>(
    tx: &mut W,
    form: Form,
    object: u64,
    head: Head,
    from: usize,
    pairs: &[Pair],
) -> Result<(), Stop> {
    debug_assert_eq!(from + pairs.len(), head.count, "the pairs up to the count");
    tx.write(Addr::new(object, 0), head.to_word())?;
    write_pairs(tx, form, object, head, from, pairs)
}

/// Writes neighboring pairs of a bucket, the first at `from`.
///
/// # Errors
/// As [`Words::write`].
pub(super) fn write_pairs<W: Words>(
    tx: &mut W,
    form: Form,
    object: u64,
    head: Head,
    from: usize,
    pairs: &[Pair],
) -> Result<(), Stop> {
    let column = |tx: &mut W, words: usize, at: u64, part: fn(&Pair) -> &[u64; PART_WORDS]| {
        with_words(words * pairs.len(), |column| {
            for (index, pair) in pairs.iter().enumerate() {
                column[words * index..][..words].copy_from_slice(&part(pair)[..words]);
            }
            tx.write_words(Addr::new(object, at), column)
        })
    };
    column(tx, form.tag, form.tag_at(from), |pair| &pair.tag)?;
    column(tx, form.payload, form.payload_at(head, from), |pair| &pair.payload)
}

/// Writes the payload of a pair: a value, or the pointer to an entry.
///
/// # Errors
/// As [`Words::write`].
pub(super) fn write_payload<W: Words>(
    tx: &mut W,
    form: Form,
    bucket: Bucket,
    index: usize,
    payload: &[u8],
) -> Result<(), Stop> {
    with_words(form.payload, |words| {
        words.as_mut_bytes()[..payload.len()].copy_from_slice(payload);
        tx.write_words(Addr::new(bucket.object, form.payload_at(bucket.head, index)), words)
    })
}

/// Writes the pointer to the next bucket of a chain.
///
/// # Errors
/// As [`Words::write`].
pub(super) fn write_next<W: Words>(
    tx: &mut W,
    form: Form,
    object: u64,
    head: Head,
    next: u64,
) -> Result<(), Stop> {
    tx.write(Addr::new(object, form.next_at(head)), next)
}

/// Frees an object of a map. It is written first, so that a concurrent transaction that changes it
/// conflicts in every design.
///
/// # Errors
/// As [`Words::retire`].
pub(super) fn discard<W: Words>(tx: &mut W, object: u64, bytes: usize) -> Result<(), Stop> {
    tx.write(Addr::new(object, 0), DEAD)?;
    tx.retire(Addr::new(object, 0), bytes as u64)
}

/// Calls `with` on a zeroed buffer of `count` words, at most [`COLUMN_WORDS`].
#[inline]
fn with_words<R>(count: usize, with: impl FnOnce(&mut [u64]) -> R) -> R {
    // Most columns have 8 words: clearing 64 would cost more than the search.
    match count {
        0..=CAPACITY => with(&mut [0; CAPACITY][..count]),
        _ => with(&mut [0; COLUMN_WORDS][..count]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_with_wrong_numbers_is_refused() {
        let sound = Head { chain: 3, capacity: 8, count: 5, depth: 6 };
        assert_eq!(Head::from_word(sound.to_word()), Some(sound));
        for wrong in [
            0,
            u64::MAX,
            sound.to_word() & 0xffff_ffff,
            Head { count: 9, ..sound }.to_word(),
            Head { count: 3, capacity: 2, ..sound }.to_word(),
            Head { capacity: 9, ..sound }.to_word(),
            Head { depth: 7, ..sound }.to_word(),
        ] {
            assert_eq!(Head::from_word(wrong), None, "{wrong:#x}");
        }
        let longest = Head { chain: CHAIN_MAX, ..sound };
        assert_eq!(longest.in_front(), Err(Stop::Full));
    }

    #[test]
    fn bucket_of_every_form_is_an_object() {
        let head = Head { chain: 1, ..Head::empty(CAPACITY, 0) };
        for (form, bytes) in [
            (Form::of::<u64, u64>(), 144),
            (Form::of::<str, str>(), 144),
            (Form::of::<u32, ()>(), 80),
            (Form::of::<[u8; 0], ()>(), 16),
            (Form::of::<[u8; 13], [u8; 51]>(), 8 * (1 + 72 + 1)),
            (Form::of::<[u8; 0], [u8; 64]>(), 8 * (1 + 64 + 1)),
        ] {
            assert_eq!(form.bytes(head), bytes);
            assert!(bytes <= words::OBJECT_BYTES_MAX);
        }
    }
}
