//! Groups from messages.

use lastword::TxId;
use lastword::replication::Group;
use system::mutants::{Mutant, injected};

use crate::error::Damage;
use crate::message::{Kind, Message, Term};

/// Puts the parts of groups together, and checks that each message continues the one before.
///
/// A reader may begin with any message. Parts before the first whole group are skipped.
///
/// Compare-and-append keeps a deposed writer from the stream. The checks of this type find a stream
/// or a writer that breaks this rule: a message of an earlier term behind a later one, or a gap.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    term: Option<Term>,
    complete: Option<TxId>,
    begun: Option<Begun>,
}

/// A group with missing parts.
#[derive(Debug)]
struct Begun {
    next: u32,
    parts: u32,
    group: Group,
}

impl Assembly {
    /// Creates an assembly without messages.
    pub(crate) fn new() -> Assembly {
        Assembly::default()
    }

    /// Returns the term of the last message.
    pub(crate) fn term(&self) -> Option<Term> {
        self.term
    }

    /// Returns the last transaction that is complete, once it is known.
    pub(crate) fn complete(&self) -> Option<TxId> {
        self.complete
    }

    /// Adds the message at a position. Returns a group that is complete now.
    ///
    /// # Errors
    /// [`Damage::Term`], [`Damage::Gap`].
    pub(crate) fn add(&mut self, position: u64, message: Message) -> Result<Option<Group>, Damage> {
        let term = message.term;
        if let Kind::Term { last, previous } = message.kind {
            let expected = self.term.map_or(0, |term| term.number);
            if term.number <= expected {
                return Err(Damage::Term { found: term.number, expected });
            }
            let continues = self.term.is_none() || self.term == previous;
            if term.at != position || !continues || self.complete.is_some_and(|id| id != last) {
                return Err(Damage::Gap);
            }
            // Voids the parts of a group that its writer has not completed.
            *self = Assembly { term: Some(term), complete: Some(last), begun: None };
            return Ok(None);
        }
        match self.term {
            Some(known) if known != term && !injected(Mutant::TermNotChecked) => {
                return Err(Damage::Term { found: term.number, expected: known.number });
            }
            _ => self.term = Some(term),
        }
        match message.kind {
            Kind::Part { part, parts, first, last, heap_bytes, words } => {
                self.add_part(part, parts, Group { first, last, heap_bytes, words })
            }
            Kind::Mark { last }
                if self.begun.is_none() && *self.complete.get_or_insert(last) == last =>
            {
                Ok(None)
            }
            _ => Err(Damage::Gap),
        }
    }

    fn add_part(&mut self, part: u32, parts: u32, group: Group) -> Result<Option<Group>, Damage> {
        let last = group.last;
        let begun = match (self.begun.take(), part) {
            (None, 0) => {
                let before = TxId(group.first.0 - 1);
                if *self.complete.get_or_insert(before) != before {
                    return Err(Damage::Gap);
                }
                Begun { next: 1, parts, group }
            }
            (Some(mut begun), _) if begun.next == part && begun.continues(parts, &group) => {
                begun.next += 1;
                begun.group.words.extend(group.words);
                begun
            }
            // The reader has begun inside the group.
            (None, _) if self.complete.is_none() => return Ok(None),
            _ => return Err(Damage::Gap),
        };
        if begun.next < parts && !injected(Mutant::PartAppliedAlone) {
            self.begun = Some(begun);
            return Ok(None);
        }
        self.complete = Some(last);
        Ok(Some(begun.group))
    }
}

impl Begun {
    fn continues(&self, parts: u32, group: &Group) -> bool {
        (self.parts, self.group.first, self.group.last) == (parts, group.first, group.last)
    }
}
