//! The transactions on a copy of a store.

use std::hint::black_box;

use words::{Addr, Allocate, Array, Place, Stop, Words, work};

use super::{PutsClient, buffer_lines};
use crate::copies::Shape;
use crate::slab::{Line, Slab, WORDS};
use crate::ticket_map::TicketMap;

/// A copy of a store.
pub(super) struct Store<F> {
    pub(super) slab: Slab,
    pub(super) buffers: Array<Line>,
    pub(super) map: F,
    pub(super) shape: Shape,
    pub(super) copy: u64,
    /// The time that each transaction writes, where puts are merged.
    pub(super) merged: Option<u64>,
}

/// Returns the ticket of a number, if it is present.
#[inline]
pub(super) fn ticket_of<F: TicketMap, W: Words>(
    map: F,
    tx: &mut W,
    number: u64,
) -> Result<Option<u64>, Stop> {
    let Some(at) = map.find(tx, number)? else {
        return Ok(None);
    };
    let ticket = tx.read(at)?;
    tx.after_last_read();
    Ok((ticket != 0).then_some(ticket))
}

// All kinds share these methods: each is compiled once for a structure and a design.

impl<F: TicketMap> Store<F> {
    /// Overwrites an object by writing the new one to another slot.
    #[inline(never)]
    pub(super) fn update<W: Words>(&self, client: &PutsClient, tx: &mut W) -> Result<(), Stop> {
        let (part, number) = ((self.shape, self.copy), client.numbers[0]);
        let place = self.map.find(tx, number)?.ok_or(Stop::BadValue)?;
        let old = tx.read(place)?;
        let top = self.slab.top(tx, self.shape, self.copy)?;
        self.slab.will_take(tx, part, top, 1)?;
        tx.will_write(place, 8);
        self.will_merge(tx)?;
        tx.compute(work::FRAME);
        self.slab.put(tx, part, top.ticket, (client.stamp, number))?;
        tx.write(place, top.ticket)?;
        self.slab.take(tx, part, top, &[old])?;
        self.merge(tx)
    }

    /// Inserts a new key, and removes an old one.
    #[inline(never)]
    pub(super) fn insert<W: Allocate>(
        &self,
        client: &PutsClient,
        comes: u64,
        goes: Option<u64>,
        tx: &mut W,
    ) -> Result<(), Stop> {
        let (part, slab, map) = ((self.shape, self.copy), self.slab, self.map);
        let [comes, goes] = [Some(comes), goes].map(|key| key.map(|key| self.shape.keys + key));
        let comes = comes.ok_or(Stop::BadValue)?;
        let top = slab.top(tx, self.shape, self.copy)?;
        // An earlier run may have left the key that is inserted.
        let is_there = ticket_of(map, tx, comes)?.is_some();
        slab.will_take(tx, part, top, usize::from(is_there) + usize::from(goes.is_some()))?;
        for number in [Some(comes), goes].into_iter().flatten() {
            map.will_change(tx, number);
        }
        self.will_merge(tx)?;
        let (mut back, mut count) = ([0; 2], 0);
        if let Some(goes) = goes {
            back[count] = map.remove(tx, goes)?.ok_or(Stop::BadValue)?;
            count += 1;
        }
        if let Some(before) = map.insert(tx, comes, top.ticket)? {
            back[count] = before;
            count += 1;
        }
        tx.compute(work::FRAME);
        slab.put(tx, part, top.ticket, (client.stamp, comes))?;
        slab.take(tx, part, top, &back[..count])?;
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
            let ticket = ticket_of(self.map, tx, number)?.ok_or(Stop::BadValue)?;
            *place = self.slab.line(self.shape, self.copy, ticket, 0)?;
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
        let ticket = ticket_of(self.map, tx, client.numbers[0])?.ok_or(Stop::BadValue)?;
        tx.compute(work::FRAME);
        let mut sum = 0;
        for line in 0..self.shape.lines {
            let mut words = [0; WORDS];
            tx.read_words(self.slab.line(self.shape, self.copy, ticket, line)?, &mut words)?;
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
            let ticket = ticket_of(self.map, tx, number)?.ok_or(Stop::BadValue)?;
            *word = tx.read(self.slab.line(self.shape, self.copy, ticket, 0)?)?;
        }
        let words = &words[..numbers.len()];
        for (line, words) in (0..).zip(words.chunks(WORDS)) {
            self.copy_out(tx, line, words)?;
        }
        self.copied(tx, words.iter().fold(0, |sum, word| sum ^ word))
    }

    /// Copies words to the buffer's lines after the first, where gets copy.
    #[inline]
    fn copy_out<W: Words>(&self, tx: &mut W, line: u64, words: &[u64]) -> Result<(), Stop> {
        if self.merged.is_none() {
            return Ok(());
        }
        tx.write_words(self.buffer(1 + line)?, words)
    }

    /// Writes the time and the checksum of the copied words.
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
