//! Conversion of a named collection to values of another type, in steps.
//!
//! ```text
//!   before    "users" -> | collection | lengths | "HashMap<str, User>" ... |
//!
//!   between   "users" -> | conversion | lengths | "unfinished conversion of HashMap<str, ... |
//!                              |
//!                              +-> | old | new | at | lengths | "HashMap<str, User>" ... |
//!
//!   after     "users" -> | new | lengths | "HashMap<str, User>" ... |
//! ```
//!
//! Each step is one transaction, so a crash leaves the state after a step:
//!
//! | step | writes | a crash after it leaves |
//! |---|---|---|
//! | first | an empty `new`, the conversion, the record | no open name, all values in `old` |
//! | moves | values out of `old`, converted into `new` | each value in one of both |
//! | last move | also frees `old`, which is empty | all values in `new` |
//! | reversal | swaps in a vector, counted in `at` | all values in `new` |
//! | last | the record, and frees the conversion | the name open with the new types |
//!
//! The last move, the reversal and the last step are one transaction where the collection needs no
//! reversal. A vector gives its elements from the back, so `new` holds them in reverse order until
//! the reversal ends.
//!
//! Invariants:
//! - A value is converted in the transaction that moves it: exactly once.
//! - Between the first step and the last, the name cannot be opened with any types. Earlier
//!   versions of Lastword refuse the record, whose types are those of no collection.
//! - Types that agree are not converted: the catalog could not distinguish a finished conversion
//!   from a conversion that has not begun.
//! - Write skew: each step protects the conversion, so two steps conflict. The first and the last
//!   step write the record, as all operations do that change a name.

use system::mutants::{Mutant, injected};
use words::{Addr, Allocate, Objects, Ptr, Stop, Text, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Lengths, Named, Opened, Place, Record, Types, names, open, read_word, word_of};
use crate::btree_map::BTreeMap;
use crate::hash_map::{Cursor, HashMap};
use crate::indexed_map::{IndexedMap, Indexes};
use crate::key::{AsKey, Key};
use crate::value::{AsValue, Value};
use crate::vec_deque::VecDeque;

/// The prefix of the type name in the record of an unfinished conversion. No other record has it.
const UNFINISHED: &str = "unfinished conversion of ";

/// An unfinished conversion.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Conversion {
    /// The old collection, or 0 once it is freed.
    old: u64,
    new: u64,
    /// Pairs of elements of a vector that are swapped already.
    at: u64,
    lengths: Lengths,
    types: Text,
}

/// A collection that can be converted to `N`: the same kind with values of another type.
///
/// Maps keep their keys, and vectors and queues the order of their elements.
pub trait Convert<N: Named>: Named {
    /// A value, as the old collection returns it.
    type Old;
    /// A value, as the new collection returns it.
    type New;

    /// Moves about `most` values to the new collection. Frees this one if it is empty, and returns
    /// whether it did.
    ///
    /// # Errors
    /// As [`Words::write`] and [`Allocate::allocate`].
    #[doc(hidden)]
    fn move_step<W: Allocate>(
        self,
        new: N,
        tx: &mut W,
        most: usize,
        change: &mut dyn FnMut(Self::Old) -> Self::New,
    ) -> Result<bool, Stop>;

    /// Does about `most` swaps of the reversal of the new collection, once all values are there.
    /// Returns whether the order is complete. `at` is 0 at first, and is kept between the steps.
    ///
    /// # Errors
    /// As [`Words::write`].
    #[doc(hidden)]
    fn reverse_step<W: Words>(_: N, _: &mut W, _: &mut u64, _: u64) -> Result<bool, Stop> {
        Ok(true)
    }
}

impl<K, V, U> Convert<HashMap<K, U>> for HashMap<K, V>
where
    K: Key<Owned: AsKey<K>> + ?Sized + 'static,
    V: Value + ?Sized + 'static,
    U: Value<Owned: AsValue<U>> + ?Sized + 'static,
{
    type Old = V::Owned;
    type New = U::Owned;

    fn move_step<W: Allocate>(
        self,
        new: HashMap<K, U>,
        tx: &mut W,
        most: usize,
        change: &mut dyn FnMut(V::Owned) -> U::Owned,
    ) -> Result<bool, Stop> {
        let mut pairs = Vec::new();
        let mut next = Some(Cursor::START);
        // A page without pairs covers only empty buckets. These are few, because neighbors merge.
        while let Some(from) = next.filter(|_| pairs.is_empty()) {
            next = self.scan(tx, from, most as u64, |key, value| pairs.push((key, value)))?;
        }
        if pairs.is_empty() {
            return self.drop_step(tx, most as u64);
        }
        for (key, value) in pairs {
            // Removed first, so that the new pair may take the memory.
            removed(self.delete(tx, &key)?)?;
            new.put(tx, &key, change(value))?;
        }
        Ok(false)
    }
}

impl<K, V, U> Convert<BTreeMap<K, U>> for BTreeMap<K, V>
where
    K: Key<Owned: AsKey<K>> + ?Sized + 'static,
    V: Value + ?Sized + 'static,
    U: Value<Owned: AsValue<U>> + ?Sized + 'static,
{
    type Old = V::Owned;
    type New = U::Owned;

    fn move_step<W: Allocate>(
        self,
        new: BTreeMap<K, U>,
        tx: &mut W,
        most: usize,
        change: &mut dyn FnMut(V::Owned) -> U::Owned,
    ) -> Result<bool, Stop> {
        let (pairs, _) = self.range(..).page(tx, most)?;
        if pairs.is_empty() {
            return self.drop_step(tx, most as u64);
        }
        for (key, value) in pairs {
            removed(self.delete(tx, &key)?)?;
            new.put(tx, &key, change(value))?;
        }
        Ok(false)
    }
}

impl<K, V, U, I, J> Convert<IndexedMap<K, U, J>> for IndexedMap<K, V, I>
where
    K: Key<Owned: AsKey<K>> + ?Sized + 'static,
    V: Value + ?Sized + 'static,
    U: Value<Owned: AsValue<U>> + ?Sized + 'static,
    I: Indexes<K, V> + 'static,
    J: Indexes<K, U> + 'static,
{
    type Old = V::Owned;
    type New = U::Owned;

    fn move_step<W: Allocate>(
        self,
        new: IndexedMap<K, U, J>,
        tx: &mut W,
        most: usize,
        change: &mut dyn FnMut(V::Owned) -> U::Owned,
    ) -> Result<bool, Stop> {
        let (pairs, _) = self.records(tx)?.range(..).page(tx, most)?;
        if pairs.is_empty() {
            return self.drop_step(tx, most as u64);
        }
        for (key, value) in pairs {
            removed(self.remove(tx, &key)?.is_some())?;
            new.insert(tx, &key, change(value))?;
        }
        Ok(false)
    }
}

impl<T, U> Convert<crate::Vec<U>> for crate::Vec<T>
where
    T: Value + ?Sized + 'static,
    U: Value<Owned: AsValue<U>> + ?Sized + 'static,
{
    type Old = T::Owned;
    type New = U::Owned;

    fn move_step<W: Allocate>(
        self,
        new: crate::Vec<U>,
        tx: &mut W,
        most: usize,
        change: &mut dyn FnMut(T::Owned) -> U::Owned,
    ) -> Result<bool, Stop> {
        for number in 0..most {
            let Some(value) = self.pop(tx)? else {
                return if number == 0 { self.drop_step(tx, most as u64) } else { Ok(false) };
            };
            new.push(tx, change(value))?;
        }
        Ok(false)
    }

    /// Reverses the elements, which were moved from the back.
    fn reverse_step<W: Words>(
        new: crate::Vec<U>,
        tx: &mut W,
        at: &mut u64,
        most: u64,
    ) -> Result<bool, Stop> {
        let len = new.len(tx)?;
        let end = (len / 2).min(at.saturating_add(most));
        for index in *at..end {
            new.swap(tx, index, len - 1 - index)?;
        }
        *at = end;
        Ok(end == len / 2)
    }
}

impl<T, U> Convert<VecDeque<U>> for VecDeque<T>
where
    T: Value + ?Sized + 'static,
    U: Value<Owned: AsValue<U>> + ?Sized + 'static,
{
    type Old = T::Owned;
    type New = U::Owned;

    fn move_step<W: Allocate>(
        self,
        new: VecDeque<U>,
        tx: &mut W,
        most: usize,
        change: &mut dyn FnMut(T::Owned) -> U::Owned,
    ) -> Result<bool, Stop> {
        for number in 0..most {
            let Some(value) = self.pop_front(tx)? else {
                return if number == 0 { self.drop_step(tx, most as u64) } else { Ok(false) };
            };
            new.push_back(tx, change(value))?;
        }
        Ok(false)
    }
}

/// Returns [`Stop::BadValue`] if a pair that a scan found could not be removed. In a damaged map,
/// scans could otherwise find it for ever.
fn removed(is_removed: bool) -> Result<(), Stop> {
    if is_removed { Ok(()) } else { Err(Stop::BadValue) }
}

/// The result of [`convert_step`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Converted<N> {
    /// A step is done, and more are left.
    Unfinished,
    /// The last step is done.
    Finished(N),
    /// There was nothing to convert, or the name belongs to other types.
    Opened(Opened<N>),
    /// The types agree, so the pool cannot distinguish the old values from the new ones.
    Alike,
}

/// Does one step of the conversion of a named collection from the types of `C` to those of `N`.
/// Repeat it, each step in a transaction of its own, until the result is no longer
/// [`Converted::Unfinished`].
///
/// A step moves about `most` values, in the collection's order; a hash map has the order of hashes,
/// and a vector is moved from the back. It calls `change` for each value, and calls it again if the
/// transaction repeats. The progress is part of the pool: after a crash the next call continues.
/// Until the last step, opening the name is refused, with the old types and the new.
///
/// ```
/// use collections::VecDeque;
/// use collections::catalog::{self, Converted, Opened};
/// use words::{Transact, mock::Mock};
///
/// type Old = VecDeque<u32>;
/// type New = VecDeque<str>;
///
/// let mut mock = Mock::new(1 << 16);
/// let opened = mock.transact(|tx| catalog::open::<Old, _>(tx, "jobs"))?;
/// let Opened::Created(old) = opened else { panic!("it is new") };
/// mock.transact(|tx| old.extend(tx, 0..10_u32))?;
/// let mut change = |number: u32| format!("job {number}");
/// let jobs = loop {
///     let step = mock.transact(|tx| {
///         catalog::convert_step::<Old, New, _>(tx, "jobs", 4, &mut change)
///     })?;
///     match step {
///         Converted::Unfinished => {}
///         Converted::Finished(jobs) => break jobs,
///         other => panic!("{other:?}"),
///     }
/// };
/// assert_eq!(mock.transact(|tx| jobs.get(tx, 9))?.as_deref(), Some("job 9"));
/// # Ok::<(), words::mock::Refused>(())
/// ```
///
/// A collection that already has the new types is returned as it is, and an unknown name gets an
/// empty collection of the new types, as [`open`] does.
///
/// # Errors
/// As [`open`]. [`Stop::Full`] and [`Stop::TooLarge`] if the step needs more memory or a larger
/// log; earlier steps stay committed.
pub fn convert_step<C: Convert<N>, N: Named, W: Allocate>(
    tx: &mut W,
    name: &str,
    most: usize,
    change: &mut dyn FnMut(C::Old) -> C::New,
) -> Result<Converted<N>, Stop> {
    let (from, to) = (C::types(), N::types());
    if from.agree(&to) || to.agree(&from) {
        return Ok(Converted::Alike);
    }
    let record = match names(tx)? {
        Place::Catalog(names) => names.get(tx, name)?.map(|record| (names, record)),
        Place::Free | Place::OwnRoot => None,
    };
    let Some((names, record)) = record else {
        return open(tx, name).map(Converted::Opened);
    };
    let stored = record.types(tx)?;
    if stored.unfinished().is_none() {
        // Types without definitions may agree with both. They are the old ones: the last step
        // stores all definitions of the new ones.
        if !stored.agree(&from) {
            return open(tx, name).map(Converted::Opened);
        }
        let begun = begin::<N, W>(tx, record, stored.completed(&from).unwrap_or(stored), &to)?;
        names.put(tx, name, begun)?;
        return Ok(Converted::Unfinished);
    }
    let (object, mut conversion) = conversion_of(tx, record)?;
    if let Some(found) = record.unfinished(tx, &stored)?
        && !(found.0.agree(&from) && found.1.agree(&to))
    {
        let (from, to) = found;
        return Ok(Converted::Opened(Opened::Converting { from, to }));
    }
    tx.protect(Addr::new(object.to_bits(), 0))?;
    let new: N = read_word(conversion.new)?;
    if conversion.old != 0 {
        let old: C = read_word(conversion.old)?;
        let is_empty = old.move_step(new, tx, most.max(1), change)?;
        if !is_empty && !injected(Mutant::UnmovedValuesForgotten) {
            return Ok(Converted::Unfinished);
        }
        conversion.old = 0;
    }
    if !C::reverse_step(new, tx, &mut conversion.at, most.max(1) as u64)? {
        tx.set(object, conversion)?;
        return Ok(Converted::Unfinished);
    }
    let Conversion { new: collection, lengths, types, .. } = conversion;
    names.put(tx, name, Record { collection, lengths, types })?;
    record.types.free(tx)?;
    tx.free(object)?;
    Ok(Converted::Finished(new))
}

/// Creates the new collection and the conversion, and returns the record that leads to it.
fn begin<N: Named, W: Allocate>(
    tx: &mut W,
    record: Record,
    from: Types,
    to: &Types,
) -> Result<Record, Stop> {
    let new = word_of(&N::create_empty(tx)?)?;
    let types = Text::new(tx, &to.text())?;
    let conversion = Conversion { old: record.collection, new, at: 0, lengths: to.lengths, types };
    let collection = tx.alloc(conversion)?.to_bits();
    record.types.free(tx)?;
    let types = Types { name: format!("{UNFINISHED}{}", from.name), ..from };
    let types = Text::new(tx, &types.text())?;
    Ok(Record { collection, types, ..record })
}

fn conversion_of<W: Words>(
    tx: &mut W,
    record: Record,
) -> Result<(Ptr<Conversion>, Conversion), Stop> {
    let object = Ptr::from_bits(record.collection);
    Ok((object, tx.get(object)?))
}

impl Types {
    /// Returns the old types of an unfinished conversion; `None` for those of a collection.
    fn unfinished(&self) -> Option<Types> {
        let name = self.name.strip_prefix(UNFINISHED)?.to_owned();
        Some(Types { name, ..self.clone() })
    }
}

impl Record {
    /// Returns the old and the new types of an unfinished conversion, whose record has these
    /// types; `None` for a collection.
    pub(super) fn unfinished<W: Words>(
        self,
        tx: &mut W,
        stored: &Types,
    ) -> Result<Option<(Types, Types)>, Stop> {
        let Some(from) = stored.unfinished() else { return Ok(None) };
        let (_, Conversion { lengths, types, .. }) = conversion_of(tx, self)?;
        Ok(Some((from, Types::from_text(&types.read(tx)?, lengths))))
    }
}
