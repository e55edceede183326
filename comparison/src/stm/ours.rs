//! Lastword's side, on any of its designs: its transactional memory and its collections.

use std::path::Path;

use collections::raw::{BTreeMap, HashMap, Inserted, whole};
use lastword::{
    Array, Design, Error, Field, Objects, Options, Persist, Place, Pool, Stop, Transact, Words,
    field,
};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::work::{Call, Content, WRITES_EACH, Work, number, word};
use super::{Runner, Subject};
use crate::failure::Failure;

/// Maximum keys that one transaction of loading or checking accesses.
const STEP: u64 = 256;

/// A row of 64 bytes, as workload `tatp-hash` has it.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Subscriber {
    id: u64,
    number: u64,
    flags: [u8; 24],
    exchange: u64,
    cell: u64,
    reserved: u64,
}

#[derive(Clone, Copy, Debug)]
enum Structure {
    Hash(HashMap),
    Tatp { by_number: HashMap, rows: Array<Subscriber> },
    Tree(BTreeMap),
    Writes { words: Array<u64>, announced: bool },
}

/// One structure in a pool of its own.
#[derive(Debug)]
pub(crate) struct Ours<D: Design> {
    pool: Pool<D>,
    structure: Structure,
}

impl<D: Design> Ours<D> {
    /// Makes and loads it, at `path` if the design has a file.
    pub(crate) fn new(path: &Path, options: Options, work: Work) -> Result<Ours<D>, Failure> {
        let bytes = match work {
            Work::Tatp => 64 << 20,
            Work::Tree => 512 << 20,
            _ => 128 << 20,
        };
        let pool = Pool::<D>::create_as(path, options.bytes(bytes))?;
        let size = work.size(1);
        let structure = match work {
            Work::Hash => Structure::Hash(map(&pool, size)?),
            Work::Tatp => {
                let by_number = map(&pool, (2 * size).next_power_of_two())?;
                let rows = array(&pool, size)?;
                load_subscribers(&pool, by_number, rows)?;
                Structure::Tatp { by_number, rows }
            }
            Work::Tree => Structure::Tree(pool.run(|tx| BTreeMap::create(tx))?.value),
            Work::Writes | Work::Announced => {
                Structure::Writes { words: array(&pool, size)?, announced: work == Work::Announced }
            }
        };
        let ours = Ours { pool, structure };
        ours.load(work)?;
        Ok(ours)
    }

    fn load(&self, work: Work) -> Result<(), Failure> {
        let mut calls = Vec::new();
        work.load(1, |call| calls.push(call));
        let mut worker = self.pool.worker()?;
        for step in calls.chunks(STEP as usize) {
            let _ = worker.run(|tx| {
                step.iter().try_for_each(|call| match self.structure {
                    Structure::Hash(map) => insert(map, tx, call),
                    Structure::Tree(tree) => tree.insert(tx, call.key, call.value).map(drop),
                    _ => Ok(()),
                })
            })?;
        }
        Ok(())
    }
}

impl<D: Design> Subject for Ours<D> {
    fn runner(&self, _thread: usize) -> Result<Runner<'_>, Failure> {
        let mut worker = self.pool.worker()?;
        Ok(match self.structure {
            Structure::Hash(map) => Box::new(move |calls| {
                calls.iter().try_for_each(|call| done(worker.run(|tx| insert(map, tx, call))))
            }),
            Structure::Tatp { by_number, rows } => Box::new(move |calls| {
                let update = |call: &Call| {
                    done(worker.run(|tx| {
                        let cell = cell(by_number, rows, tx, call.key)?;
                        tx.will_write(cell.addr(), 8);
                        tx.set(cell, call.value)
                    }))
                };
                calls.iter().try_for_each(update)
            }),
            Structure::Tree(tree) => Box::new(move |calls| {
                let insert =
                    |call: &Call| done(worker.run(|tx| tree.insert(tx, call.key, call.value)));
                calls.iter().try_for_each(insert)
            }),
            Structure::Writes { words, announced } => Box::new(move |calls| {
                let write =
                    |call: &Call| done(worker.run(|tx| write_words(words, announced, tx, call)));
                calls.iter().try_for_each(write)
            }),
        })
    }

    fn contents(&self) -> Result<Vec<Content>, Failure> {
        let content = match self.structure {
            Structure::Hash(map) => self.hash_content(map)?,
            Structure::Tatp { by_number, rows } => self.tatp_content(by_number, rows)?,
            Structure::Tree(tree) => self.tree_content(tree)?,
            Structure::Writes { words, .. } => self.words_content(words)?,
        };
        Ok(vec![content])
    }
}

impl<D: Design> Ours<D> {
    /// Waits until everything is durable and reproduced.
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        self.pool.checkpoint()
    }

    fn hash_content(&self, map: HashMap) -> Result<Content, Error> {
        let mut worker = self.pool.worker()?;
        let sound = check_map(&mut worker, map)?;
        let mut content = Content { sound, ..Content::EMPTY };
        let mut from = Some(0);
        while let Some(at) = from {
            let mut pairs = Vec::new();
            from = worker
                .read(|tx| {
                    pairs.clear();
                    map.scan(tx, at, STEP, |key, value| pairs.push((key, value)))
                })?
                .value;
            pairs.iter().for_each(|(key, value)| content.add(*key, *value));
        }
        Ok(content)
    }

    fn tree_content(&self, tree: BTreeMap) -> Result<Content, Error> {
        let mut worker = self.pool.worker()?;
        let sound = check_tree(&mut worker, tree)?;
        let mut content = Content { sound, ..Content::EMPTY };
        let mut cursor = tree.cursor(..);
        while let Some(here) = cursor {
            let mut pairs = Vec::new();
            cursor = worker
                .read(|tx| {
                    pairs.clear();
                    here.read(tx, STEP, |key, value| pairs.push((key, value)))
                })?
                .value;
            pairs.iter().for_each(|(key, value)| content.add(*key, *value));
        }
        Ok(content)
    }

    fn tatp_content(&self, by_number: HashMap, rows: Array<Subscriber>) -> Result<Content, Error> {
        let mut worker = self.pool.worker()?;
        let mut content = Content::EMPTY;
        for id in 1..=rows.len() {
            let row = worker.read(|tx| {
                let found = by_number.get(tx, number(id))?;
                Ok((tx.get(rows.at(id - 1)?)?, found))
            })?;
            let (row, found) = row.value;
            content.sound &= found == Some(id) && (row.id, row.exchange) == (id, id);
            if row.cell != 0 {
                content.add(id, row.cell);
            }
        }
        Ok(content)
    }

    fn words_content(&self, words: Array<u64>) -> Result<Content, Error> {
        let mut worker = self.pool.worker()?;
        let mut content = Content::EMPTY;
        for first in (0..words.len()).step_by(STEP as usize) {
            let mut values = [0; STEP as usize];
            let _ = worker.read(|tx| {
                for (index, value) in (first..).zip(&mut values) {
                    *value = tx.get(words.at(index)?)?;
                }
                Ok(())
            })?;
            for (key, value) in (first + 1..).zip(values).filter(|(_, value)| *value != 0) {
                content.add(key, value);
            }
        }
        Ok(content)
    }
}

/// A committed transaction whose value and ticket say nothing here.
#[inline]
fn done<T>(committed: Result<T, Error>) -> Result<(), Failure> {
    committed.map(drop).map_err(Failure::from)
}

#[inline]
fn insert<W: Words>(map: HashMap, tx: &mut W, call: &Call) -> Result<(), Stop> {
    match map.insert(tx, call.key, call.value)? {
        Inserted::Full => Err(Stop::Full),
        Inserted::New | Inserted::Replaced(_) => Ok(()),
    }
}

#[inline]
fn cell<W: Words>(
    by_number: HashMap,
    rows: Array<Subscriber>,
    tx: &mut W,
    key: u64,
) -> Result<Field<u64>, Stop> {
    let id = by_number.get(tx, number(key))?.unwrap_or(0);
    Ok(field!(rows.at(id.wrapping_sub(1))?, Subscriber, cell))
}

#[inline]
fn write_words<W: Words>(
    words: Array<u64>,
    announced: bool,
    tx: &mut W,
    call: &Call,
) -> Result<(), Stop> {
    let mask = words.len() - 1;
    if announced {
        for k in 0..WRITES_EACH {
            tx.will_write(words.at(word(call.key, k, mask))?.addr(), 8);
        }
    }
    for k in 0..WRITES_EACH {
        let at = word(call.key, k, mask);
        tx.set(words.at(at)?, call.value | (at + 1))?;
    }
    Ok(())
}

/// Checks the invariants of a map.
fn check_map<T: Transact>(worker: &mut T, map: HashMap) -> Result<bool, T::Error> {
    Ok(whole(worker, |tx, from| map.check(tx, from, STEP))?.damage.is_empty())
}

/// Checks the invariants of a tree.
fn check_tree<T: Transact>(worker: &mut T, tree: BTreeMap) -> Result<bool, T::Error> {
    Ok(whole(worker, |tx, from| tree.check(tx, from, STEP))?.damage.is_empty())
}

fn map<D: Design>(pool: &Pool<D>, buckets: u64) -> Result<HashMap, Error> {
    let map = pool.run(|tx| HashMap::reserve(tx, buckets, 0))?.value;
    while !pool.run(|tx| map.prepare(tx, STEP))?.value {}
    Ok(map)
}

fn array<D: Design, T: Persist>(pool: &Pool<D>, len: u64) -> Result<Array<T>, Error> {
    let array = pool.run(|tx| Array::reserve(tx, len))?.value;
    while !pool.run(|tx| array.prepare(tx, STEP))?.value {}
    Ok(array)
}

fn load_subscribers<D: Design>(
    pool: &Pool<D>,
    by_number: HashMap,
    rows: Array<Subscriber>,
) -> Result<(), Error> {
    for id in 1..=rows.len() {
        let number = number(id);
        let row = Subscriber { id, number, flags: [0; 24], exchange: id, cell: 0, reserved: 0 };
        let _ = pool.run(|tx| {
            tx.set(rows.at(id - 1)?, row)?;
            insert(by_number, tx, &Call { key: number, value: id })
        })?;
    }
    Ok(())
}
