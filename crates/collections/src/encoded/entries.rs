//! The entries of a collection, one after the other.

use words::{Stop, Words};

use super::{Cursor, EncodedMap, Rule};
use crate::counter::Counter;
use crate::sequence::{Sequence, Slots};

/// A collection without its types.
#[derive(Clone, Copy, Debug)]
pub(super) enum Walk {
    Map(EncodedMap),
    /// The rule is that of the elements.
    List(Sequence, Rule),
    Counter(Counter),
}

/// A position among the entries of an [`EncodedCollection`](super::EncodedCollection), for a reader
/// of a collection that does not change. It ends after the first [`Stop`].
#[derive(Debug)]
pub struct Entries {
    place: Place,
    element: Vec<u8>,
    has_values: bool,
}

#[derive(Debug)]
enum Place {
    /// Boxed: a cursor has a page of pairs.
    Map(Box<Cursor>),
    List(Slots, Rule),
    End,
}

impl Entries {
    pub(super) fn new(walk: Walk, has_values: bool) -> Entries {
        let place = match walk {
            Walk::Map(map) => Place::Map(Box::new(Cursor::new(map))),
            Walk::List(sequence, rule) => Place::List(Slots::new(sequence, ..), rule),
            Walk::Counter(_) => Place::End,
        };
        Entries { place, element: Vec::new(), has_values }
    }

    /// Moves to the next entry. Returns whether there is one.
    ///
    /// # Errors
    /// As [`Words::read`]; [`Stop::BadValue`] in a damaged collection.
    pub fn next<W: Words>(&mut self, tx: &mut W) -> Result<bool, Stop> {
        let next = match &mut self.place {
            Place::Map(cursor) => cursor.next(tx),
            Place::List(slots, rule) => {
                let (rule, element) = (*rule, &mut self.element);
                let found = slots.next(tx, |bytes| {
                    element.clear();
                    element.extend_from_slice(&bytes);
                    if rule.accepts(&bytes) { Ok(()) } else { Err(Stop::BadValue) }
                });
                found.map(|found| found.is_some())
            }
            Place::End => Ok(false),
        };
        if next != Ok(true) {
            self.place = Place::End;
        }
        next
    }

    /// Returns the key of the entry; `None` in a vector or queue, and at the end.
    pub fn key(&self) -> Option<&[u8]> {
        match &self.place {
            Place::Map(cursor) => cursor.pair().map(|(key, _)| key),
            Place::List(..) | Place::End => None,
        }
    }

    /// Returns the value or element; `None` in a set, and at the end.
    pub fn value(&self) -> Option<&[u8]> {
        match &self.place {
            Place::Map(cursor) => cursor.pair().map(|(_, value)| value).filter(|_| self.has_values),
            Place::List(..) => Some(&self.element),
            Place::End => None,
        }
    }
}
