//! Entries of the maps: a key and a value in one object.
//!
//! ```text
//!   | head | key bytes | value bytes | zeros |        an object of up to 1024 bytes
//!   | head | key bytes | zeros | string |             a value that is too long: words::Bytes
//!   | head | string | value bytes | zeros |           a key of more than 512 bytes
//!
//!    63            32 31 30         16 15 14         0
//!   |      MARK      | s |   bytes    | s |   bytes   |   head: for the value, then for the key,
//!                                                         their bytes here, and s for a string
//! ```
//!
//! Both maps refer to an entry by a pointer. Pairs that are short and of one length need no entry:
//! see [`inline_pair`].
//!
//! Invariants:
//! - An entry owns its strings.
//! - A value of whole words, and the handle of a string, lies at a multiple of 8. So a pointer in a
//!   value is a word of its own, as compaction needs it to find it.
//! - The lengths alone decide the form: a key is a string if it is longer than [`KEY_BYTES`], and a
//!   value if the object has no room for it beside the key. A key never changes.
//! - A head that breaks these rules, or has no [`MARK`], is [`Stop::BadValue`]. No length in a head
//!   leads out of 1024 bytes, and a wild handle ends in a refused access.
//! - Write skew: a change writes the object or protects it, or each piece of its value's string.
//!   [`free`] writes the object and retires the strings, which locks their pieces. Two changes, or
//!   a change and a free, therefore conflict under snapshot isolation too. So an operation that
//!   changes an entry need not protect the words that led it there.
//!
//! [`free`]: Entry::free

use std::borrow::Cow;
use std::cmp::Ordering;

use system::mutants::{Mutant, injected};
use words::{Addr, Allocate, Bytes, Field, OBJECT_BYTES_MAX, Objects, Seen, Stop, Words, work};
use zerocopy::IntoBytes;

/// The upper half of a head: "entr". It is no pointer's upper half and no small number's.
const MARK: u64 = 0x656e_7472;

/// The head of a freed entry.
const DEAD: u64 = 0;

/// Most bytes of a key in the entry's own object.
pub(crate) const KEY_BYTES: usize = 512;

/// Most bytes of a pair that nodes and buckets hold without an entry.
const INLINE_BYTES: usize = 64;

/// Bytes of a string's handle.
const HANDLE: usize = size_of::<Bytes>();

/// Returns the lengths of key and value, given those that are fixed, if nodes and buckets hold the
/// pairs themselves.
pub(crate) const fn inline_pair(
    key: Option<usize>,
    value: Option<usize>,
) -> Option<(usize, usize)> {
    match (key, value) {
        (Some(key), Some(value)) if key + value <= INLINE_BYTES => Some((key, value)),
        _ => None,
    }
}

/// An entry that was found. It is valid until the transaction writes the entry, which consumes it.
#[derive(Debug)]
pub(crate) struct Entry {
    seen: Seen,
    head: Head,
}

/// The place of a key or value in the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    at: usize,
    /// Length there: of the bytes, or of the handle of their string.
    bytes: usize,
    in_string: bool,
}

/// The first word of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    key: Part,
    value: Part,
}

impl Entry {
    /// Allocates an entry and returns its pointer.
    ///
    /// # Errors
    /// As [`Allocate::allocate`] and [`Bytes::new`].
    pub(crate) fn create<W: Allocate>(tx: &mut W, key: &[u8], value: &[u8]) -> Result<u64, Stop> {
        let head = Head::of(key.len(), value.len());
        let (mut key_handle, mut value_handle) = (Bytes::EMPTY, Bytes::EMPTY);
        let key = head.key.stored(tx, key, &mut key_handle)?;
        let value = head.value.stored(tx, value, &mut value_handle)?;
        let object = tx.allocate(head.bytes())?;
        with_words(head.bytes(), |words| {
            words[0] = head.to_word();
            head.key.of_mut(words).copy_from_slice(key);
            head.value.of_mut(words).copy_from_slice(value);
            tx.write_words(Addr::new(object, 0), words)
        })?;
        Ok(object)
    }

    /// Opens the entry that a pointer leads to.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when no entry is there.
    #[inline]
    pub(crate) fn open<W: Words>(tx: &mut W, object: u64) -> Result<Entry, Stop> {
        tx.after_last_read();
        tx.compute(work::VISIT);
        let seen = tx.look(object)?;
        let head = Head::from_word(tx.read_seen(seen, 0)?)?;
        Ok(Entry { seen, head })
    }

    /// Returns whether the entry has this key.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub(crate) fn is_key<W: Words>(&self, tx: &mut W, key: &[u8]) -> Result<bool, Stop> {
        if self.head.key.in_string {
            return Ok(self.compare(tx, key)? == Ordering::Equal);
        }
        if self.head.key.bytes != key.len() {
            return Ok(false);
        }
        self.with_part(tx, self.head.key, |found| Ok(found == key))
    }

    /// Compares the entry's key with another one.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub(crate) fn compare<W: Words>(&self, tx: &mut W, key: &[u8]) -> Result<Ordering, Stop> {
        if self.head.key.in_string {
            return self.compare_string(tx, key);
        }
        self.with_part(tx, self.head.key, |found| Ok(found.cmp(key)))
    }

    /// Calls `with` on the encoded key.
    ///
    /// # Errors
    /// As [`Words::read`], and those of `with`.
    pub(crate) fn key<W: Words, R>(
        &self,
        tx: &mut W,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        self.read(tx, self.head.key, with)
    }

    /// Calls `with` on the encoded value, as with [`Value::decode`](crate::Value::decode).
    ///
    /// # Errors
    /// As [`Words::read`], and those of `with`.
    pub(crate) fn value<W: Words, R>(
        &self,
        tx: &mut W,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        self.read(tx, self.head.value, with)
    }

    /// Calls `with` on the encoded key and value, most often after one read.
    ///
    /// # Errors
    /// As [`Words::read`], and those of `with`.
    pub(crate) fn pair<W: Words, R>(
        &self,
        tx: &mut W,
        with: impl FnOnce(Cow<'_, [u8]>, Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        let Head { key, value } = self.head;
        if key.in_string || value.in_string {
            let key = self.key(tx, |key| Ok(key.into_owned()))?;
            return self.value(tx, |value| with(Cow::Owned(key), value));
        }
        let first = value.at - key.at;
        let all = Part { bytes: first + value.bytes, ..key };
        self.with_part(tx, all, |all| {
            with(Cow::Borrowed(&all[..key.bytes]), Cow::Borrowed(&all[first..]))
        })
    }

    /// Calls `with` on the encoded value, if the entry has this key: as [`is_key`](Entry::is_key)
    /// and [`value`](Entry::value), most often after one read.
    ///
    /// # Errors
    /// As [`Words::read`], and those of `with`.
    #[inline]
    pub(crate) fn find<W: Words, R>(
        &self,
        tx: &mut W,
        key: &[u8],
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<Option<R>, Stop> {
        if self.head.key.in_string || self.head.value.in_string {
            let is_key = self.is_key(tx, key)?;
            return if is_key { self.value(tx, with).map(Some) } else { Ok(None) };
        }
        if self.head.key.bytes != key.len() {
            return Ok(None);
        }
        self.pair(tx, |found, value| (*found == *key).then(|| with(value)).transpose())
    }

    /// Replaces the value. Returns the entry's new pointer, if it had to move: store it in place of
    /// the old one, which dangles.
    ///
    /// # Errors
    /// As [`Allocate::allocate`] and [`Bytes::replaced`].
    pub(crate) fn replace<W: Allocate>(
        self,
        tx: &mut W,
        value: &[u8],
    ) -> Result<Option<u64>, Stop> {
        let (old, new) = (self.head, self.head.with_value(value.len()));
        if old == new && !new.value.in_string {
            return self.overwrite(tx, value).map(|()| None);
        }
        let mut handle = Bytes::EMPTY;
        if old.value.in_string {
            let string = self.handle(tx, old.value)?;
            if new.value.in_string {
                let other = string.replaced(tx, value)?;
                if other != string {
                    tx.set(Field::<Bytes>::new(self.at(old.value)), other)?;
                }
                return Ok(None);
            }
            string.free(tx)?;
        }
        let value = new.value.stored(tx, value, &mut handle)?;
        self.rewrite(tx, new, value)
    }

    /// Frees the entry and its strings.
    ///
    /// # Errors
    /// As [`Words::retire`].
    pub(crate) fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        for part in [self.head.key, self.head.value] {
            if part.in_string && !injected(Mutant::LongValueLeaks) {
                self.handle(tx, part)?.free(tx)?;
            }
        }
        self.discard(tx)
    }

    /// Frees the object alone. It is written first, so that a concurrent transaction that changes
    /// the entry conflicts in every design.
    fn discard<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        let at = Addr::new(self.seen.object, 0);
        tx.write(at, DEAD)?;
        tx.retire(at, self.head.bytes() as u64)
    }

    /// Writes a value of the same length over the old one.
    fn overwrite<W: Words>(self, tx: &mut W, value: &[u8]) -> Result<(), Stop> {
        if value.is_empty() {
            return tx.protect(Addr::new(self.seen.object, 0));
        }
        let (first, skip) = (self.head.value.at / 8, self.head.value.at % 8);
        with_words(skip + value.len(), |words| {
            if skip > 0 {
                // The word begins with the end of the key.
                words[0] = tx.read_seen(self.seen, 8 * first as u64)?;
            }
            words.as_mut_bytes()[skip..skip + value.len()].copy_from_slice(value);
            tx.write_words(Addr::new(self.seen.object, 8 * first as u64), words)
        })
    }

    /// Writes a value of another length, in this object or in a new one. `value` is its bytes in
    /// the object.
    fn rewrite<W: Allocate>(
        self,
        tx: &mut W,
        head: Head,
        value: &[u8],
    ) -> Result<Option<u64>, Stop> {
        let (old, new) = (self.head.bytes(), head.bytes());
        with_words(new, |words| {
            let (key, object) = (head.key, self.seen.object);
            // Before the object changes, as the version that was found holds until then.
            let end = (key.at + key.bytes).div_ceil(8);
            tx.read_words_seen(self.seen, 8, &mut words[1..end])?;
            words.as_mut_bytes()[key.at + key.bytes..8 * end].fill(0);
            words[0] = head.to_word();
            head.value.of_mut(words).copy_from_slice(value);
            if old == new || tx.resize(object, old as u64, new as u64)? {
                let (first, at) = (head.value.at / 8, Addr::new(object, 0));
                tx.write(at, words[0])?;
                if first < words.len() {
                    tx.write_words(at.plus(8 * first as u64), &words[first..])?;
                }
                return Ok(None);
            }
            // Free the old object last: this transaction itself may be given its memory at once.
            let moved = tx.allocate(new)?;
            tx.write_words(Addr::new(moved, 0), words)?;
            self.discard(tx)?;
            Ok(Some(moved))
        })
    }

    #[cold]
    fn compare_string<W: Words>(&self, tx: &mut W, key: &[u8]) -> Result<Ordering, Stop> {
        let string = self.handle(tx, self.head.key)?;
        let common = string.len().min(key.len() as u64);
        let (mut at, mut buffer) = (0, [0; OBJECT_BYTES_MAX]);
        for chunk in key[..common as usize].chunks(OBJECT_BYTES_MAX) {
            let found = &mut buffer[..chunk.len()];
            string.read_at(tx, at, found)?;
            match (*found).cmp(chunk) {
                Ordering::Equal => at += chunk.len() as u64,
                other => return Ok(other),
            }
        }
        Ok(string.len().cmp(&(key.len() as u64)))
    }

    #[inline]
    fn read<W: Words, R>(
        &self,
        tx: &mut W,
        part: Part,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        if part.in_string {
            let bytes = self.handle(tx, part)?.read(tx)?;
            return with(Cow::Owned(bytes));
        }
        self.with_part(tx, part, |bytes| with(Cow::Borrowed(bytes)))
    }

    /// Calls `with` on the bytes of a part of the object.
    #[inline]
    fn with_part<W: Words, R>(
        &self,
        tx: &mut W,
        part: Part,
        with: impl FnOnce(&[u8]) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        if part.bytes == 0 {
            return with(&[]);
        }
        let (first, skip) = (part.at / 8, part.at % 8);
        with_words(skip + part.bytes, |words| {
            tx.read_words_seen(self.seen, 8 * first as u64, words)?;
            with(&words.as_bytes()[skip..skip + part.bytes])
        })
    }

    fn handle<W: Words>(&self, tx: &mut W, part: Part) -> Result<Bytes, Stop> {
        tx.get(Field::<Bytes>::new(self.at(part)))
    }

    fn at(&self, part: Part) -> Addr {
        Addr::new(self.seen.object, part.at as u64)
    }
}

impl Head {
    fn of(key: usize, value: usize) -> Head {
        let in_string = key > KEY_BYTES;
        let key = Part { at: 8, bytes: if in_string { HANDLE } else { key }, in_string };
        Head { key, value: key }.with_value(value)
    }

    /// Returns the head of an entry with the same key and a value of `bytes` bytes.
    fn with_value(self, bytes: usize) -> Head {
        let value = Part::after(self.key, bytes, false);
        let value = match value.at + bytes > OBJECT_BYTES_MAX {
            true => Part::after(self.key, HANDLE, true),
            false => value,
        };
        Head { value, ..self }
    }

    #[inline]
    fn from_word(word: u64) -> Result<Head, Stop> {
        let bytes = |shift: u32| (word >> shift & 0x7fff) as usize;
        let in_string = |shift: u32| word >> (shift + 15) & 1 == 1;
        let key = Part { at: 8, bytes: bytes(0), in_string: in_string(0) };
        let head = Head { key, value: Part::after(key, bytes(16), in_string(16)) };
        let is_sound = word >> 32 == MARK
            && key.bytes <= KEY_BYTES
            && head.bytes() <= OBJECT_BYTES_MAX
            && [key, head.value].iter().all(|part| !part.in_string || part.bytes == HANDLE);
        if is_sound { Ok(head) } else { Err(Stop::BadValue) }
    }

    fn to_word(self) -> u64 {
        let part = |part: Part| part.bytes as u64 | u64::from(part.in_string) << 15;
        MARK << 32 | part(self.value) << 16 | part(self.key)
    }

    /// Returns the size of the object.
    #[inline]
    fn bytes(self) -> usize {
        self.value.at + self.value.bytes
    }
}

impl Part {
    /// Returns the part behind the key. One of whole words lies at a word: it may have pointers.
    #[inline]
    fn after(key: Part, bytes: usize, in_string: bool) -> Part {
        let end = key.at + key.bytes;
        let at = if bytes.is_multiple_of(8) { end.next_multiple_of(8) } else { end };
        Part { at, bytes, in_string }
    }

    /// Returns this part of an object's words.
    fn of_mut(self, words: &mut [u64]) -> &mut [u8] {
        &mut words.as_mut_bytes()[self.at..self.at + self.bytes]
    }

    /// Returns the bytes that the object holds: `bytes`, or the handle of a new string of them.
    fn stored<'a, W: Allocate>(
        self,
        tx: &mut W,
        bytes: &'a [u8],
        handle: &'a mut Bytes,
    ) -> Result<&'a [u8], Stop> {
        if !self.in_string {
            return Ok(bytes);
        }
        *handle = Bytes::new(tx, bytes)?;
        Ok(handle.as_bytes())
    }
}

/// Calls `with` on a zeroed buffer of the words of `bytes` bytes.
#[inline]
fn with_words<R>(bytes: usize, with: impl FnOnce(&mut [u64]) -> R) -> R {
    // Most pairs are short, and clearing 1 KiB would cost more than the access.
    const FEW: usize = 9;
    const SOME: usize = 33;
    match bytes.div_ceil(8) {
        few @ 0..=FEW => with(&mut [0; FEW][..few]),
        some @ 0..=SOME => with(&mut [0; SOME][..some]),
        many => with(&mut [0; OBJECT_BYTES_MAX / 8][..many]),
    }
}

#[cfg(test)]
mod tests;
