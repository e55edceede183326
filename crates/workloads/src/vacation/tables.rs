//! The sizes of the tables, their places, and their loading and freeing.

use collections::raw::{Chain, ChainedTable};
use words::{Allocate, Array, BLOCK_STRIDE, Field, Place, Stop, Words};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::{HELD_MAX, KINDS, PLACES, Vacation};
use crate::keys::mix;
use crate::root::Build;
use crate::{CLIENTS_MAX, Options, scaled};

/// Rows of each table at scale 1, fewest, and more than any pool holds.
const ROWS: u64 = 1 << 16;
const ROWS_MIN: u64 = 64;
pub(super) const ROWS_MAX: u64 = 1 << 40;

/// Blocks that one transaction of loading prepares, and rows that one fills.
const STEP: u64 = 128;

/// Chains whose reservations one transaction frees, and entries that one frees, each chain counting
/// as one.
const FREED_CHAINS: u64 = 32;
const FREED: u64 = 1024;

/// First bit of the stage of freeing; the position in it is below.
const STAGE_SHIFT: u32 = 48;

/// Used, free, total, price.
pub(super) type Row = [u64; 4];

/// Offsets of a row's words in its value.
pub(super) const FREE: u64 = 8;
pub(super) const PRICE: u64 = 24;

/// Offset of a customer's number of reservations in its value; the link to the first precedes it.
pub(super) const HELD: u64 = 8;

/// A customer's reservations: by kind and id, the price.
pub(super) type Reservations = Chain<1>;

/// A word in a block of its own.
type Alone = [u64; 32];

/// The tables of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    /// Cars, flights, rooms.
    pub(super) things: [ChainedTable<4>; KINDS],
    pub(super) customers: ChainedTable<2>,
    marks: Array<Alone>,
    /// Progress of freeing.
    freed: Array<u64>,
}

/// Returns a reservation's key in the list of its customer.
pub(super) fn key(kind: usize, id: u64) -> u64 {
    (kind as u64) << 48 | id
}

/// Returns kind and ID of a key; the kind may be invalid in a damaged pool.
pub(super) fn of_key(key: u64) -> (usize, u64) {
    ((key >> 48) as usize, key & ((1 << 48) - 1))
}

/// Returns the rows of each table.
pub(super) fn rows(options: &Options) -> u64 {
    scaled(ROWS, options, ROWS_MIN)
}

/// Returns the heap bytes, headers included; the classes include 16 and 32 for link and header.
pub(super) fn bytes(rows: u64) -> u64 {
    let heads = (KINDS as u64 + 1) * (rows / 32 + 1) * BLOCK_STRIDE;
    let blocks = (CLIENTS_MAX as u64 + 1) * BLOCK_STRIDE;
    // Rows of 48 bytes, customers of 32, reservations of 24, in slots with their headers.
    rows * (KINDS as u64 * 64 + 48 + HELD_MAX * 48) + heads + blocks
}

/// Returns the place of a worker's stamp.
pub(super) fn mark(tables: &Tables, index: u64) -> Result<Field<Alone>, Stop> {
    // Neighbours in number are far apart.
    let place = index.reverse_bits() >> (u64::BITS - CLIENTS_MAX.trailing_zeros());
    tables.marks.at(place)
}

impl Build for Vacation {
    const NAME: &'static str = "vacation";
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Tables, Stop> {
        let cars = ChainedTable::reserve(tx, size)?;
        let flights = ChainedTable::reserve(tx, size)?;
        Ok(Tables {
            things: [cars, flights, ChainedTable::reserve(tx, size)?],
            customers: ChainedTable::reserve(tx, size)?,
            marks: Array::reserve(tx, CLIENTS_MAX as u64)?,
            freed: Array::create(tx, 1)?,
        })
    }

    /// Progress 0: preparing; 1 + n: row n is next, counted through all tables.
    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let Some(first) = progress.checked_sub(1) else {
            return Ok(Some(u64::from(prepare(&tables, tx)?)));
        };
        let total = (KINDS as u64 + 1) * size;
        let end = (first + STEP).min(total);
        for row in first..end {
            let (table, id) = ((row / size) as usize, row % size + 1);
            match tables.things.get(table) {
                Some(things) => things.insert(tx, id, &loaded(key(table, id)))?,
                None => tables.customers.insert(tx, id, &[0, 0])?,
            };
        }
        Ok((end < total).then_some(1 + end))
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        let freed = tables.freed.at(0)?.addr();
        let (stage, from) = of_progress(tx.read(freed)?);
        let next = match stage {
            // Unprepared blocks cannot be read.
            0 => (!prepare(&tables, tx)?).then_some(0),
            1 => free_reservations(&tables, tx, from)?,
            2 => tables.customers.free(tx, from, FREED)?,
            stage => match tables.things.get(stage as usize - 3) {
                Some(things) => things.free(tx, from, FREED)?,
                None => {
                    tables.marks.free(tx)?;
                    tables.freed.free(tx)?;
                    return Ok(true);
                }
            },
        };
        tx.write(
            freed,
            next.map_or((stage + 1) << STAGE_SHIFT, |from| stage << STAGE_SHIFT | from),
        )?;
        Ok(false)
    }
}

fn of_progress(progress: u64) -> (u64, u64) {
    (progress >> STAGE_SHIFT, progress & ((1 << STAGE_SHIFT) - 1))
}

/// Returns a row as loaded.
fn loaded(key: u64) -> Row {
    let places = PLACES * (1 + mix(key) % 5);
    [0, places, places, 50 + 10 * (mix(!key) % 5)]
}

/// Prepares the tables by one step; returns whether they are ready.
fn prepare<W: Allocate>(tables: &Tables, tx: &mut W) -> Result<bool, Stop> {
    for things in tables.things {
        if !things.prepare(tx, STEP)? {
            return Ok(false);
        }
    }
    Ok(tables.customers.prepare(tx, STEP)? && tables.marks.prepare(tx, 2 * STEP)?)
}

/// Frees the reservations of some customers, from a chain on; returns the next chain.
fn free_reservations<W: Words>(
    tables: &Tables,
    tx: &mut W,
    from: u64,
) -> Result<Option<u64>, Stop> {
    let mut ids = Vec::new();
    let next = tables.customers.scan(tx, from, FREED_CHAINS, |id, _| ids.push(id))?;
    for id in ids {
        let at = tables.customers.find(tx, id)?.ok_or(Stop::BadValue)?;
        Reservations::at(at).free(tx, u64::MAX)?;
    }
    Ok(next)
}
