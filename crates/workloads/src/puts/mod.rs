//! `vector`, `hashmap`, `btreemap`, `rbtreemap`, `ycsb-put`, `echo`: object stores with put
//! transactions (ReDU, section V, table III).
//!
//! | | index of the objects | inserts, of 100 puts | keys | a get |
//! |---|---|---|---|---|
//! | `vector` | an array | 50, at the end | uniform | reads |
//! | `hashmap` | a hash table of chains | 50 | uniform | reads |
//! | `btreemap` | a B-tree of order 8 | 50 | uniform | reads |
//! | `rbtreemap` | a red-black tree | 50 | uniform | reads |
//! | `ycsb-put` | a hash table of chains | 20 | Zipf 0.99 | reads |
//! | `echo` | a hash table of chains | 50 | uniform | copies to a persistent buffer |
//!
//! Each worker has its own copy of the store, up to 32 of them. Keys have 8 bytes. The option
//! `data` sets the writes of a transaction:
//!
//! - `large:BYTES`: an object of 1 to 16 KiB, whole. An update takes a free slot, writes the object
//!   there, and frees the old slot. An insert adds a new key and removes the oldest one, so that
//!   the store keeps its size. A copy has 100 000 keys times the scale, of 1 KiB; fewer of larger
//!   objects, so that it is always 100 MB.
//! - `random:N`: the first word of N different objects of 64 bytes, found by N keys; 100 000 keys a
//!   copy. No key is inserted or removed.
//!
//! With four workers, `--scale 0.32 --data large:1024` has objects of 128 MB between them, and
//! `--scale 5.2 --data random:N` as much of 64 bytes. `--update-percent` is the percentage of puts:
//! 0 reads only, and `--update-percent 50 --zipf 0.8` is the mix of the paper's section V-F.
//!
//! `echo` follows the store of that name. A worker collects its puts outside of the transaction,
//! then merges them in one, which also writes the time of its copy. A get copies the objects that
//! it found into a persistent buffer of its copy, and writes that time, so that gets write too.
//!
//! The check: the structures are sound; every object is under its key, whole; each slot is used
//! once or free once; buffers match the copied objects.

mod check;
mod run;

use std::fmt::Debug;
use std::marker::PhantomData;

use collections::raw::{ChainedMap, RbTree};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use words::{Allocate, Array, BLOCK_STRIDE, Place, Stop, Transact, Words, work};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::churn::{Change, Churn};
use crate::copies::{COPIES, Shape, lock_copy};
use crate::data::OBJECTS_MAX;
use crate::keys::{below, generator};
use crate::root::{self, Build};
use crate::slab::{Line, Slab};
use crate::stamp::Stamp;
use crate::ticket_map::{Order8, TicketMap};
use crate::zipf::Zipf;
use crate::{Options, Supported, Violation, Workload, with_slack};

/// Lines that one transaction of loading writes, about; half as many of small objects.
const STEP_LINES: u64 = 256;
const STEP_MOST: u64 = 128;

/// A kind of store.
pub trait Kind: Copy + Debug + Send + Sync + 'static {
    /// The index of its objects.
    type Map: TicketMap;
    /// The command-line name.
    const NAME: &'static str;
    /// A description of one line.
    const ABOUT: &'static str;
    /// Percentage of puts of large objects that insert.
    const INSERTS: u64 = 50;
    /// Exponent of the Zipf distribution of keys, 0 for uniform.
    const ZIPF: f64 = 0.0;
    /// Whether gets copy the objects that they find, and puts are collected first.
    const MERGES: bool = false;
    /// Whether all writes of a transaction are known before its first.
    const ANNOUNCES: bool = false;
}

macro_rules! kinds {
    ($($kind:ident $alias:ident $map:ty, $name:literal, $about:literal, { $($more:tt)* })*) => {
        $(
            /// A kind of store.
            #[derive(Clone, Copy, Debug)]
            pub struct $kind;

            impl Kind for $kind {
                type Map = $map;
                const NAME: &'static str = $name;
                const ABOUT: &'static str = $about;
                $($more)*
            }

            #[doc = $about]
            pub type $alias = Puts<$kind>;
        )*
    };
}

kinds! {
    InVector Vector Array<u64>, "vector",
        "a vector of objects, a worker's own: append or overwrite",
        { const ANNOUNCES: bool = true; }
    InHashMap Hashmap ChainedMap, "hashmap",
        "a hash table of objects, a worker's own: insert or overwrite", {}
    InBtree Btreemap Order8, "btreemap",
        "a b-tree of order 8 with objects, a worker's own: insert or overwrite", {}
    InRbtree Rbtreemap RbTree, "rbtreemap",
        "a red-black tree of objects, a worker's own: insert or overwrite", {}
    InYcsb YcsbPut ChainedMap, "ycsb-put",
        "a hash table of objects by Zipf's law: 20 inserts, 80 updates of 100",
        { const INSERTS: u64 = 20; const ZIPF: f64 = 0.99; }
    InEcho Echo ChainedMap, "echo",
        "a hash table of objects: merge a batch of puts; gets copy to persistent memory",
        { const MERGES: bool = true; }
}

/// The tables of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    slab: Slab,
    /// Of each copy: its time and a checksum of the copied words, then the words.
    buffers: Array<Line>,
    /// Number of copies freed.
    freed: Array<u64>,
    maps: [[u64; 3]; COPIES],
}

/// A store of objects, in copies.
#[derive(Debug)]
pub struct Puts<K> {
    tables: Tables,
    shape: Shape,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Puts<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Puts<K> {}

/// The operation of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Get,
    Update,
    /// The numbers of the inserted key and of the removed one, if any.
    Insert(u64, Option<u64>),
}

/// One worker's transactions on its copy.
#[derive(Clone, Debug)]
pub struct PutsClient {
    rng: Xoshiro256PlusPlus,
    stamp: Stamp,
    index: usize,
    random: u64,
    update_percent: u64,
    zipf: Option<Zipf>,
    churn: Churn,
    task: Task,
    /// Keys that are always present: the first so many as a transaction uses.
    numbers: [u64; OBJECTS_MAX],
}

/// Returns the lines of a copy's buffer: the time, and the copied words.
fn buffer_lines(shape: Shape) -> u64 {
    // Round up to blocks of four: copies share none.
    (1 + shape.lines.max(OBJECTS_MAX as u64 / 8)).next_multiple_of(4)
}

impl<K: Kind> Build for Puts<K> {
    const NAME: &'static str = K::NAME;
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Tables, Stop> {
        let shape = Shape::decode(size);
        let mut maps = [[0; 3]; COPIES];
        for map in &mut maps[..shape.copies as usize] {
            *map = K::Map::reserve(tx, shape.keys + shape.passing())?.to_words();
        }
        let slab = Slab::reserve(tx, shape)?;
        let buffers = if K::MERGES { shape.copies * buffer_lines(shape) } else { 0 };
        let buffers = Array::reserve(tx, buffers)?;
        Ok(Tables { slab, buffers, freed: Array::create(tx, 1)?, maps })
    }

    /// Progress 0: preparing; 1 + n: slot n is next, counted through all copies.
    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let shape = Shape::decode(size);
        let Some(first) = progress.checked_sub(1) else {
            return Ok(Some(u64::from(prepare::<K, W>(&tables, shape, tx)?)));
        };
        let total = shape.copies * shape.slots();
        let end = (first + (STEP_LINES / shape.lines).clamp(1, STEP_MOST)).min(total);
        for slot in first..end {
            let (copy, slot) = (slot / shape.slots(), slot % shape.slots());
            if let Some(free) = slot.checked_sub(shape.keys) {
                tables.slab.load_free(tx, shape, copy, free)?;
                continue;
            }
            tables.map_of::<K>(copy).insert(tx, slot, 1 + slot)?;
            if shape.is_large() {
                tables.slab.put(tx, (shape, copy), 1 + slot, (Stamp::LOADED, slot))?;
            } else {
                tables.slab.load_small(tx, (shape, copy), slot)?;
            }
        }
        Ok((end < total).then_some(1 + end))
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        let freed = tables.freed.at(0)?.addr();
        let count = tx.read(freed)?;
        let is_copy = tables.maps.get(count as usize).is_some_and(|words| *words != [0; 3]);
        if !is_copy {
            tables.slab.give_back(tx)?;
            tables.buffers.free(tx)?;
            return tables.freed.free(tx).map(|()| true);
        }
        let is_gone = tables.map_of::<K>(count).free(tx)?;
        tx.write(freed, count + u64::from(is_gone))?;
        Ok(false)
    }
}

/// Prepares the tables by one step; returns whether all are ready.
fn prepare<K: Kind, W: Allocate>(tables: &Tables, shape: Shape, tx: &mut W) -> Result<bool, Stop> {
    for copy in 0..shape.copies {
        if !tables.map_of::<K>(copy).prepare(tx)? {
            return Ok(false);
        }
    }
    Ok(tables.buffers.prepare(tx, STEP_LINES)? && tables.slab.prepare(tx)?)
}

impl Tables {
    /// Returns the index of a copy's objects.
    #[inline]
    fn map_of<K: Kind>(&self, copy: u64) -> K::Map {
        K::Map::from_words(self.maps[copy as usize % COPIES])
    }
}

impl<K: Kind> Workload for Puts<K> {
    const NAME: &'static str = K::NAME;
    const ABOUT: &'static str = K::ABOUT;
    const SUPPORTS: Supported =
        Supported { update_percent: true, zipf: true, data: true, ..Supported::NOTHING };
    const READS: bool = !K::MERGES;
    const ANNOUNCES: bool = K::ANNOUNCES;
    type Client = PutsClient;

    fn heap_bytes(options: &Options) -> u64 {
        let shape = Shape::of(options);
        let map = K::Map::heap_bytes(shape.keys + shape.passing());
        let buffers = if K::MERGES { buffer_lines(shape) / 4 * BLOCK_STRIDE } else { 0 };
        with_slack(Slab::bytes(shape) + shape.copies * (map + buffers))
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Self, T::Error> {
        let shape = Shape::of(options);
        let tables = root::load::<Self, T>(worker, shape.encode())?;
        Ok(Puts { tables, shape, kind: PhantomData })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        let found = root::open::<Self, T>(worker)?;
        Ok(found.map(|(size, tables)| Puts {
            tables,
            shape: Shape::decode(size),
            kind: PhantomData,
        }))
    }

    fn client(&self, index: usize, seed: u64) -> PutsClient {
        let (mut rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        let random = rng.next_u64();
        PutsClient {
            rng,
            stamp,
            index,
            random,
            update_percent: 100,
            zipf: (K::ZIPF > 0.0).then(|| Zipf::new(self.shape.keys, K::ZIPF)),
            churn: self.shape.churn(index, None, random),
            task: Task::Get,
            numbers: [0; OBJECTS_MAX],
        }
    }

    fn tune(&self, client: &mut PutsClient, options: &Options) {
        client.update_percent = u64::from(options.update_percent.unwrap_or(100));
        let exponent = options.zipf.unwrap_or(K::ZIPF);
        client.zipf = (exponent > 0.0).then(|| Zipf::new(self.shape.keys, exponent));
        client.churn = self.shape.churn(client.index, Some(options), client.random);
    }

    #[inline]
    fn next(&self, client: &mut PutsClient) {
        client.stamp.advance();
        let writes = below(&mut client.rng, 100) < client.update_percent;
        let inserts = self.shape.is_large() && below(&mut client.rng, 100) < K::INSERTS;
        client.task = match (writes, inserts) {
            (false, _) => Task::Get,
            (true, false) => Task::Update,
            (true, true) => client.insertion(),
        };
        client.draw(self.shape);
    }

    #[inline]
    fn reads_only(&self, client: &PutsClient) -> bool {
        !K::MERGES && client.task == Task::Get
    }

    /// Counts the collection of a batch: each key's place in a volatile hash table.
    fn outside_instructions(&self) -> u32 {
        let each = work::HASH + work::SEARCH + work::LINK + work::ALLOCATE + work::RETIRE;
        if K::MERGES { self.shape.objects as u32 * each } else { 0 }
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &PutsClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        let copy = self.shape.copy(client.index);
        lock_copy(tx, copy)?;
        let merged = K::MERGES.then_some(client.stamp.value(copy));
        let store = run::Store {
            slab: self.tables.slab,
            buffers: self.tables.buffers,
            map: self.tables.map_of::<K>(copy),
            shape: self.shape,
            copy,
            merged,
        };
        match client.task {
            Task::Get if self.shape.is_large() => store.get(client, tx),
            Task::Get => store.get_words(client, tx),
            Task::Update if self.shape.is_large() => store.update(client, tx),
            Task::Update => store.update_words(client, tx),
            Task::Insert(comes, goes) => store.insert(client, comes, goes, tx),
        }
    }

    fn is_present<W: Words>(&self, client: &PutsClient, tx: &mut W) -> Result<bool, Stop> {
        let (shape, copy) = (self.shape, self.shape.copy(client.index));
        lock_copy(tx, copy)?;
        if K::MERGES {
            let time = self.tables.buffers.at(copy * buffer_lines(shape))?;
            return Ok(client.stamp.is_in(tx.read(time.addr())?, copy));
        }
        let (slab, map) = (self.tables.slab, self.tables.map_of::<K>(copy));
        let mut found = |number: u64| {
            let ticket = run::ticket_of(map, tx, number)?;
            let at = ticket.map(|ticket| slab.line(shape, copy, ticket, 0)).transpose()?;
            Ok::<_, Stop>((at.map(|at| tx.read(at)).transpose()?, number))
        };
        match client.task {
            Task::Get => Ok(true),
            Task::Insert(..) => {
                client.churn.is_done(client.stamp, |passing| found(shape.keys + passing))
            }
            Task::Update => {
                for &number in client.about(shape) {
                    let (value, key) = found(number)?;
                    if !client.stamp.is_in(value.ok_or(Stop::BadValue)?, key) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let mut violations = check::check::<K, T>(self, worker)?;
        if K::MERGES {
            check::buffers(self, worker, &mut violations)?;
        }
        Ok(violations.0)
    }
}

impl PutsClient {
    /// Returns the keys of a transaction, all of them always present.
    #[inline]
    fn about(&self, shape: Shape) -> &[u64] {
        &self.numbers[..shape.objects]
    }

    /// Draws different keys.
    #[inline]
    fn draw(&mut self, shape: Shape) {
        for place in 0..shape.objects {
            let mut number = match &self.zipf {
                None => below(&mut self.rng, shape.keys),
                Some(zipf) => zipf.scattered(&mut self.rng),
            };
            // The loop ends: a copy has more keys than a transaction uses.
            while self.numbers[..place].contains(&number) {
                number = (number + 1) % shape.keys;
            }
            self.numbers[place] = number;
        }
    }

    /// Returns the next inserted key, and the key that it replaces.
    fn insertion(&mut self) -> Task {
        match self.churn.advance() {
            Change::In(comes) => Task::Insert(comes, None),
            Change::Out(goes) => match self.churn.advance() {
                Change::In(comes) | Change::Out(comes) => Task::Insert(comes, Some(goes)),
            },
        }
    }
}
