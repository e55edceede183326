//! The transactions on a copy of a store.

use std::hint::black_box;

use words::{Addr, Allocate, Array, Place, Stop, Words, work};

use super::{PutsClient, buffer_lines};
use crate::copies::Shape;
use crate::finder::Finder;
use crate::shelf::{Line, Shelf, WORDS};

/// A copy of a store.
pub(super) struct Store<F> {
    pub(super) shelf: Shelf,
    pub(super) buffers: Array<Line>,
    pub(super) finder: F,
    pub(super) shape: Shape,
    pub(super) copy: u64,
    /// The time that each transaction writes, where puts are merged.
    pub(super) merged: Option<u64>,
}

/// The ticket of a number, if it is there.
#[inline]
pub(super) fn ticket_of<F: Finder, W: Words>(
    finder: F,
    tx: &mut W,
    number: u64,
) -> Result<Option<u64>, Stop> {
    let Some(at) = finder.find(tx, number)? else {
        return Ok(None);
    };
    let ticket = tx.read(at)?;
    tx.after_last_read();
    Ok((ticket != 0).then_some(ticket))
}

// Stores share what follows: each is compiled once for a structure and a design.

impl<F: Finder> Store<F> {
    /// Overwrites an object: the new one is written elsewhere.
    #[inline(never)]
    pub(super) fn update<W: Words>(&self, client: &PutsClient, tx: &mut W) -> Result<(), Stop> {
        let (part, number) = ((self.shape, self.copy), client.numbers[0]);
        let place = self.finder.find(tx, number)?.ok_or(Stop::BadValue)?;
        let old = tx.read(place)?;
        let top = self.shelf.top(tx, self.shape, self.copy)?;
        self.shelf.will_take(tx, part, top, 1)?;
        tx.will_write(place, 8);
        self.will_merge(tx)?;
        tx.compute(work::FRAME);
        self.shelf.put(tx, part, top.ticket, (client.stamp, number))?;
        tx.write(place, top.ticket)?;
        self.shelf.take(tx, part, top, &[old])?;
        self.merge(tx)
    }

    /// Puts a new key in, and takes an old one out.
    #[inline(never)]
    pub(super) fn insert<W: Allocate>(
        &self,
        client: &PutsClient,
        comes: u64,
        goes: Option<u64>,
        tx: &mut W,
    ) -> Result<(), Stop> {
        let (part, shelf, finder) = ((self.shape, self.copy), self.shelf, self.finder);
        let [comes, goes] = [Some(comes), goes].map(|key| key.map(|key| self.shape.keys + key));
        let comes = comes.ok_or(Stop::BadValue)?;
        let top = shelf.top(tx, self.shape, self.copy)?;
        // An earlier run may have left the key that comes.
        let is_there = ticket_of(finder, tx, comes)?.is_some();
        shelf.will_take(tx, part, top, usize::from(is_there) + usize::from(goes.is_some()))?;
        for number in [Some(comes), goes].into_iter().flatten() {
            finder.will_change(tx, number);
        }
        self.will_merge(tx)?;
        let (mut back, mut count) = ([0; 2], 0);
        if let Some(goes) = goes {
            back[count] = finder.remove(tx, goes)?.ok_or(Stop::BadValue)?;
            count += 1;
        }
        if let Some(before) = finder.insert(tx, comes, top.ticket)? {
            back[count] = before;
            count += 1;
        }
        tx.compute(work::FRAME);
        shelf.put(tx, part, top.ticket, (client.stamp, comes))?;
        shelf.take(tx, part, top, &back[..count])?;
        self.merge(tx)
    }

    /// Overwrites the first word of each object.
    #[inline(never)]
    pub(super) fn update_words<W: Words>(
        &self,
        client: &PutsClient,
        tx: &mut W,
    ) -> Result<(), Stop> {
        let numbers = client.about(self.shape);
        let mut places = [Addr::new(0, 0); crate::data::OBJECTS_MAX];
        for (place, &number) in places.iter_mut().zip(numbers) {
            let ticket = ticket_of(self.finder, tx, number)?.ok_or(Stop::BadValue)?;
            *place = self.shelf.line(self.shape, self.copy, ticket, 0)?;
            tx.will_write(*place, 8);
        }
        self.will_merge(tx)?;
        for (&place, &number) in places.iter().zip(numbers) {
            tx.compute(work::FRAME);
            tx.write(place, client.stamp.value(number))?;
        }
        self.merge(tx)
    }

    /// Reads the object; copies it where puts are merged.
    #[inline(never)]
    pub(super) fn get<W: Words>(&self, client: &PutsClient, tx: &mut W) -> Result<(), Stop> {
        let ticket = ticket_of(self.finder, tx, client.numbers[0])?.ok_or(Stop::BadValue)?;
        tx.compute(work::FRAME);
        let mut sum = 0;
        for line in 0..self.shape.lines {
            let mut words = [0; WORDS];
            tx.read_words(self.shelf.line(self.shape, self.copy, ticket, line)?, &mut words)?;
            sum = words.iter().fold(sum, |sum, word| sum ^ word);
            self.copy_out(tx, line, &words)?;
        }
        self.copied(tx, sum)
    }

    /// Reads the first word of each object; copies them where puts are merged.
    #[inline(never)]
    pub(super) fn get_words<W: Words>(&self, client: &PutsClient, tx: &mut W) -> Result<(), Stop> {
        let numbers = client.about(self.shape);
        let mut words = [0; crate::data::OBJECTS_MAX];
        for (word, &number) in words.iter_mut().zip(numbers) {
            tx.compute(work::FRAME);
            let ticket = ticket_of(self.finder, tx, number)?.ok_or(Stop::BadValue)?;
            *word = tx.read(self.shelf.line(self.shape, self.copy, ticket, 0)?)?;
        }
        let words = &words[..numbers.len()];
        for (line, words) in (0..).zip(words.chunks(WORDS)) {
            self.copy_out(tx, line, words)?;
        }
        self.copied(tx, words.iter().fold(0, |sum, word| sum ^ word))
    }

    /// Copies words to the buffer's lines behind the first, where gets do that.
    #[inline]
    fn copy_out<W: Words>(&self, tx: &mut W, line: u64, words: &[u64]) -> Result<(), Stop> {
        if self.merged.is_none() {
            return Ok(());
        }
        tx.write_words(self.buffer(1 + line)?, words)
    }

    /// Writes the time and the sum of what was copied.
    #[inline]
    fn copied<W: Words>(&self, tx: &mut W, sum: u64) -> Result<(), Stop> {
        match self.merged {
            Some(time) => tx.write_words(self.buffer(0)?, &[time, sum]),
            None => {
                black_box(sum);
                Ok(())
            }
        }
    }

    /// Announces the time.
    #[inline]
    fn will_merge<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        if self.merged.is_some() {
            tx.will_write(self.buffer(0)?, 8);
        }
        Ok(())
    }

    /// Writes the time.
    #[inline]
    fn merge<W: Words>(&self, tx: &mut W) -> Result<(), Stop> {
        match self.merged {
            Some(time) => tx.write(self.buffer(0)?, time),
            None => Ok(()),
        }
    }

    #[inline]
    fn buffer(&self, line: u64) -> Result<Addr, Stop> {
        Ok(self.buffers.at(self.copy * buffer_lines(self.shape) + line)?.addr())
    }
}
