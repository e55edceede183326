//! `append`: a few lists; a transaction reads one and appends a unique value to another. The reads
//! reveal the possible orders of transactions.
//!
//! | | heads of the lists | two concurrent transactions |
//! |---|---|---|
//! | [`Append`] | in one object | always conflict |
//! | [`Apart`] | each an object of its own | conflict if they append to the same list |
//!
//! Where a design isolates objects, transactions on the second can miss each other's writes. If
//! reads are `protect`ed, no concurrent transaction may change them.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Allocate, Objects, Place, Ptr, Stop, Transact};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::{Scenario, generator};

/// Number of lists.
const LISTS: usize = 3;

/// An element of a list; the last one comes first.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Node {
    value: u64,
    before: Ptr<Node>,
}

type Table = [Ptr<Node>; LISTS];
type Heads = [Ptr<Ptr<Node>>; LISTS];

/// The lists in one object.
#[derive(Clone, Copy, Debug)]
pub struct Append(Ptr<Table>);

/// The lists in separate objects; with `PROTECTS` each transaction protects its reads.
#[derive(Clone, Copy, Debug)]
pub struct Apart<const PROTECTS: bool>(Heads);

/// One worker's transactions.
#[derive(Clone, Debug)]
pub struct Appender {
    random: Xoshiro256PlusPlus,
    /// The list to read.
    pub read: usize,
    /// The list to append to.
    pub append: usize,
    /// The value to append, which no other transaction appends.
    pub value: u64,
}

impl Appender {
    fn new(worker: usize, seed: u64) -> Appender {
        let value = (seed << 8 | worker as u64) << 24;
        Appender { random: generator(worker, seed), read: 0, append: 0, value }
    }

    fn next(&mut self) {
        self.read = self.random.random_range(0..LISTS);
        self.append = self.random.random_range(0..LISTS);
        self.value += 1;
    }
}

/// The reads of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The list that it has read, in order.
    pub list: Vec<u64>,
}

/// A few lists, in one of the two layouts.
pub trait Appends: Scenario<Client = Appender> {
    /// Runs the body and returns its reads.
    ///
    /// # Errors
    /// As [`Scenario::run`].
    fn observe<W: Allocate>(&self, client: &Appender, tx: &mut W) -> Result<Observed, Stop>;

    /// Returns the byte address of a list's head, from plain words. `root` is the pool's.
    fn head(root: u64, list: usize, word: impl Fn(u64) -> u64) -> u64;
}

impl Appends for Append {
    fn observe<W: Allocate>(&self, client: &Appender, tx: &mut W) -> Result<Observed, Stop> {
        let mut table = tx.get(self.0)?;
        let list = list(tx, table[client.read])?;
        let before = table[client.append];
        table[client.append] = tx.alloc(Node { value: client.value, before })?;
        tx.set(self.0, table)?;
        Ok(Observed { list })
    }

    fn head(root: u64, list: usize, _word: impl Fn(u64) -> u64) -> u64 {
        root + 8 * list as u64
    }
}

impl Append {
    /// Returns all lists.
    ///
    /// # Errors
    /// As [`words::Words::read`].
    pub fn lists<W: Allocate>(&self, tx: &mut W) -> Result<[Vec<u64>; LISTS], Stop> {
        let table = tx.get(self.0)?;
        let mut lists: [Vec<u64>; LISTS] = Default::default();
        for (out, head) in lists.iter_mut().zip(table) {
            *out = list(tx, head)?;
        }
        Ok(lists)
    }
}

/// Returns the values from the first one on.
fn list<W: Allocate>(tx: &mut W, head: Ptr<Node>) -> Result<Vec<u64>, Stop> {
    let (mut values, mut at) = (Vec::new(), head);
    while !at.is_null() {
        let node = tx.get(at)?;
        values.push(node.value);
        at = node.before;
    }
    values.reverse();
    Ok(values)
}

impl Scenario for Append {
    const NAME: &'static str = "append";
    const HEAP_BYTES: u64 = 256 << 10;
    type Client = Appender;

    fn load<T: Transact>(worker: &mut T) -> Result<(), T::Error> {
        worker.transact(|tx| {
            let table = tx.alloc([Ptr::<Node>::NULL; LISTS])?;
            tx.set_root_ptr(table)
        })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Append>, T::Error> {
        let root = worker.transact(|tx| tx.root_ptr::<Table>())?;
        Ok((!root.is_null()).then_some(Append(root)))
    }

    fn client(&self, worker: usize, seed: u64) -> Appender {
        Appender::new(worker, seed)
    }

    fn next(&self, client: &mut Appender) {
        client.next();
    }

    fn run<W: Allocate>(&self, client: &Appender, tx: &mut W) -> Result<(), Stop> {
        self.observe(client, tx).map(drop)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error> {
        Ok(twice(worker.transact(|tx| self.lists(tx))?.concat()))
    }
}

/// Reports values that occur twice.
fn twice(mut all: Vec<u64>) -> Vec<String> {
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    let twice = count - all.len();
    if twice == 0 { Vec::new() } else { vec![format!("{twice} values occur twice")] }
}

impl<const PROTECTS: bool> Apart<PROTECTS> {
    /// Reads the list that the transaction will read, and has no other effect.
    ///
    /// # Errors
    /// As [`Scenario::run`].
    pub fn read<W: Allocate>(&self, client: &Appender, tx: &mut W) -> Result<Vec<u64>, Stop> {
        let head = tx.get(self.0[client.read])?;
        list(tx, head)
    }
}

impl<const PROTECTS: bool> Appends for Apart<PROTECTS> {
    fn observe<W: Allocate>(&self, client: &Appender, tx: &mut W) -> Result<Observed, Stop> {
        if PROTECTS {
            tx.protect(self.0[client.read].addr())?;
        }
        let list = self.read(client, tx)?;
        let append = self.0[client.append];
        let before = tx.get(append)?;
        let node = tx.alloc(Node { value: client.value, before })?;
        tx.set(append, node)?;
        Ok(Observed { list })
    }

    fn head(root: u64, list: usize, word: impl Fn(u64) -> u64) -> u64 {
        word(root + 8 * list as u64)
    }
}

impl<const PROTECTS: bool> Scenario for Apart<PROTECTS> {
    const NAME: &'static str = "apart";
    const HEAP_BYTES: u64 = Append::HEAP_BYTES;
    type Client = Appender;

    fn load<T: Transact>(worker: &mut T) -> Result<(), T::Error> {
        worker.transact(|tx| {
            let mut heads = [Ptr::NULL; LISTS];
            for head in &mut heads {
                *head = tx.alloc(Ptr::<Node>::NULL)?;
            }
            let heads = tx.alloc(heads)?;
            tx.set_root_ptr(heads)
        })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        worker.transact(|tx| {
            let root = tx.root_ptr::<Heads>()?;
            Ok(if root.is_null() { None } else { Some(Apart(tx.get(root)?)) })
        })
    }

    fn client(&self, worker: usize, seed: u64) -> Appender {
        Appender::new(worker, seed)
    }

    fn next(&self, client: &mut Appender) {
        client.next();
    }

    fn run<W: Allocate>(&self, client: &Appender, tx: &mut W) -> Result<(), Stop> {
        self.observe(client, tx).map(drop)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error> {
        let all = worker.transact(|tx| {
            let mut all = Vec::new();
            for at in self.0 {
                let head = tx.get(at)?;
                all.extend(list(tx, head)?);
            }
            Ok(all)
        })?;
        Ok(twice(all))
    }
}
