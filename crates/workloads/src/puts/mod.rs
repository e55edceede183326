//! `vector`, `hashmap`, `btreemap`, `rbtreemap`, `ycsb-put`, `echo`: stores of objects that
//! transactions put (ReDU, section V, table III).
//!
//! | | leads to the objects | inserts, of 100 puts | keys | what reads |
//! |---|---|---|---|---|
//! | `vector` | an array | 50, at the end | evenly | reads |
//! | `hashmap` | a hash table of chains | 50 | evenly | reads |
//! | `btreemap` | a B-tree of order 8 | 50 | evenly | reads |
//! | `rbtreemap` | a red-black tree | 50 | evenly | reads |
//! | `ycsb-put` | a hash table of chains | 20 | Zipf 0.99 | reads |
//! | `echo` | a hash table of chains | 50 | evenly | copies to a persistent buffer |
//!
//! Each worker has a copy of the store to itself, up to 32 of them. Keys have 8 bytes. What a
//! transaction writes is the option `data`:
//!
//! - `large:BYTES`: an object of 1 to 16 KiB, whole. An update takes a free place, writes the
//!   object there, and gives the old one's place back; an insert puts a new key in and takes the
//!   one out that was put in longest ago, so that the store stays as large as it is. A copy has 100
//!   000 keys times the scale, of 1 KiB; fewer of larger objects, so that it is always 100 MB.
//! - `random:N`: the first word of N different objects of 64 bytes, which are found by N keys;
//!   100 000 keys a copy. Nothing is put in or taken out.
//!
//! So with four workers `--scale 0.32 --data large:1024` has objects of 128 MB between them, and
//! `--scale 5.2 --data random:N` as much of 64 bytes. `--update-percent` is the share of puts, of
//! 100: 0 reads only, and `--update-percent 50 --zipf 0.8` is the mix of the paper's section V-F.
//!
//! `echo`, after the store of that name: a worker collects its puts outside of the transaction,
//! then merges them in one, which also writes the time of its copy; a get copies the objects that
//! it found into a persistent buffer of its copy, and writes that time, so that gets write too.
//!
//! The check: the structures; every object stands under its key, whole; each place of an object is
//! used once or free once; buffers are what was copied.

mod check;
mod run;

use std::fmt::Debug;
use std::marker::PhantomData;

use collections::{ChainedMap, RbTree};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use words::{Allocate, Array, BLOCK_STRIDE, Place, Stop, Transact, Words, work};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::copies::{COPIES, Shape, lock_copy};
use crate::data::OBJECTS_MAX;
use crate::finder::{Finder, Order8};
use crate::keys::{below, generator};
use crate::root::{self, Build};
use crate::shelf::{Line, Shelf};
use crate::stamp::Stamp;
use crate::turns::{Turn, Turns};
use crate::zipf::Zipf;
use crate::{Heeds, Options, Violation, Workload, with_slack};

/// Lines that one transaction of loading writes, about; of small objects half as many.
const STEP_LINES: u64 = 256;
const STEP_MOST: u64 = 128;

/// What a store is like.
pub trait Kind: Copy + Debug + Send + Sync + 'static {
    /// What leads to its objects.
    type Finder: Finder;
    /// What a user calls it.
    const NAME: &'static str;
    /// One line about it.
    const ABOUT: &'static str;
    /// Of 100 puts of large objects, those that insert.
    const INSERTS: u64 = 50;
    /// Exponent of Zipf's law by which keys are drawn, 0 for evenly.
    const ZIPF: f64 = 0.0;
    /// Whether gets copy what they find, and puts are collected first.
    const MERGES: bool = false;
    /// Whether all that a transaction writes is known before.
    const ANNOUNCES: bool = false;
}

macro_rules! kinds {
    ($($kind:ident $alias:ident $finder:ty, $name:literal, $about:literal, { $($more:tt)* })*) => {
        $(
            /// A kind of store.
            #[derive(Clone, Copy, Debug)]
            pub struct $kind;

            impl Kind for $kind {
                type Finder = $finder;
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

/// Where everything is.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    shelf: Shelf,
    /// Of each copy: its time and a check of what was copied, then what was.
    buffers: Array<Line>,
    /// Copies that were given back.
    freed: Array<u64>,
    finders: [[u64; 3]; COPIES],
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

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Get,
    Update,
    /// Numbers of the key that comes and of the one that goes, if one does.
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
    turns: Turns,
    task: Task,
    /// Of keys that are always there: the first so many as a transaction is about.
    numbers: [u64; OBJECTS_MAX],
}

/// Lines of a copy's buffer: the time, and what was copied.
fn buffer_lines(shape: Shape) -> u64 {
    // Copies share no block of four.
    (1 + shape.lines.max(OBJECTS_MAX as u64 / 8)).next_multiple_of(4)
}

impl<K: Kind> Build for Puts<K> {
    const NAME: &'static str = K::NAME;
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Tables, Stop> {
        let shape = Shape::decode(size);
        let mut finders = [[0; 3]; COPIES];
        for finder in &mut finders[..shape.copies as usize] {
            *finder = K::Finder::reserve(tx, shape.keys + shape.passing())?.to_words();
        }
        let shelf = Shelf::reserve(tx, shape)?;
        let buffers = if K::MERGES { shape.copies * buffer_lines(shape) } else { 0 };
        let buffers = Array::reserve(tx, buffers)?;
        Ok(Tables { shelf, buffers, freed: Array::create(tx, 1)?, finders })
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
                tables.shelf.load_free(tx, shape, copy, free)?;
                continue;
            }
            tables.finder::<K>(copy).insert(tx, slot, 1 + slot)?;
            if shape.is_large() {
                tables.shelf.put(tx, (shape, copy), 1 + slot, (Stamp::LOADED, slot))?;
            } else {
                tables.shelf.load_small(tx, (shape, copy), slot)?;
            }
        }
        Ok((end < total).then_some(1 + end))
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        let freed = tables.freed.at(0)?.addr();
        let count = tx.read(freed)?;
        let is_copy = tables.finders.get(count as usize).is_some_and(|words| *words != [0; 3]);
        if !is_copy {
            tables.shelf.give_back(tx)?;
            tables.buffers.free(tx)?;
            return tables.freed.free(tx).map(|()| true);
        }
        let is_gone = tables.finder::<K>(count).free(tx)?;
        tx.write(freed, count + u64::from(is_gone))?;
        Ok(false)
    }
}

/// A step of making everything ready; whether it is.
fn prepare<K: Kind, W: Allocate>(tables: &Tables, shape: Shape, tx: &mut W) -> Result<bool, Stop> {
    for copy in 0..shape.copies {
        if !tables.finder::<K>(copy).prepare(tx)? {
            return Ok(false);
        }
    }
    Ok(tables.buffers.prepare(tx, STEP_LINES)? && tables.shelf.prepare(tx)?)
}

impl Tables {
    /// What leads to the objects of a copy.
    #[inline]
    fn finder<K: Kind>(&self, copy: u64) -> K::Finder {
        K::Finder::from_words(self.finders[copy as usize % COPIES])
    }
}

impl<K: Kind> Workload for Puts<K> {
    const NAME: &'static str = K::NAME;
    const ABOUT: &'static str = K::ABOUT;
    const HEEDS: Heeds = Heeds { update_percent: true, zipf: true, data: true, ..Heeds::NOTHING };
    const READS: bool = !K::MERGES;
    const ANNOUNCES: bool = K::ANNOUNCES;
    type Client = PutsClient;

    fn heap_bytes(options: &Options) -> u64 {
        let shape = Shape::of(options);
        let finder = K::Finder::heap_bytes(shape.keys + shape.passing());
        let buffers = if K::MERGES { buffer_lines(shape) / 4 * BLOCK_STRIDE } else { 0 };
        with_slack(Shelf::bytes(shape) + shape.copies * (finder + buffers))
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
            turns: self.shape.turns(index, None, random),
            task: Task::Get,
            numbers: [0; OBJECTS_MAX],
        }
    }

    fn tune(&self, client: &mut PutsClient, options: &Options) {
        client.update_percent = u64::from(options.update_percent.unwrap_or(100));
        let exponent = options.zipf.unwrap_or(K::ZIPF);
        client.zipf = (exponent > 0.0).then(|| Zipf::new(self.shape.keys, exponent));
        client.turns = self.shape.turns(client.index, Some(options), client.random);
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

    /// What collecting a batch takes: each key's place in a volatile hash table.
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
            shelf: self.tables.shelf,
            buffers: self.tables.buffers,
            finder: self.tables.finder::<K>(copy),
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
        let (shelf, finder) = (self.tables.shelf, self.tables.finder::<K>(copy));
        let mut found = |number: u64| {
            let ticket = run::ticket_of(finder, tx, number)?;
            let at = ticket.map(|ticket| shelf.line(shape, copy, ticket, 0)).transpose()?;
            Ok::<_, Stop>((at.map(|at| tx.read(at)).transpose()?, number))
        };
        match client.task {
            Task::Get => Ok(true),
            Task::Insert(..) => {
                client.turns.is_done(client.stamp, |passing| found(shape.keys + passing))
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
    /// The keys that a transaction is about, all of them always there.
    #[inline]
    fn about(&self, shape: Shape) -> &[u64] {
        &self.numbers[..shape.objects]
    }

    /// Draws them, each another one.
    #[inline]
    fn draw(&mut self, shape: Shape) {
        for place in 0..shape.objects {
            let mut number = match &self.zipf {
                None => below(&mut self.rng, shape.keys),
                Some(zipf) => zipf.scattered(&mut self.rng),
            };
            // There are more keys than a transaction is about.
            while self.numbers[..place].contains(&number) {
                number = (number + 1) % shape.keys;
            }
            self.numbers[place] = number;
        }
    }

    /// The next key that comes, and the one that goes for it.
    fn insertion(&mut self) -> Task {
        match self.turns.advance() {
            Turn::In(comes) => Task::Insert(comes, None),
            Turn::Out(goes) => match self.turns.advance() {
                Turn::In(comes) | Turn::Out(comes) => Task::Insert(comes, Some(goes)),
            },
        }
    }
}
