//! `append`: a few lists; a transaction reads one and appends a value of its own to another. Who
//! has read what tells in which order transactions can have happened.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Allocate, Objects, Ptr, Stop, Transact};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::{Scenario, generator};

/// Lists.
const LISTS: usize = 3;

/// An element of a list; the last one comes first.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Node {
    value: u64,
    before: Ptr<Node>,
}

type Table = [Ptr<Node>; LISTS];

/// Where the lists are.
#[derive(Clone, Copy, Debug)]
pub struct Append(Ptr<Table>);

/// One worker's transactions.
#[derive(Clone, Debug)]
pub struct Appender {
    random: Xoshiro256PlusPlus,
    /// The list that is read.
    pub read: usize,
    /// The list that is appended to.
    pub append: usize,
    /// What is appended; no other transaction appends it.
    pub value: u64,
}

/// What a transaction saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The list that it has read, in order.
    pub list: Vec<u64>,
}

impl Append {
    /// The body, for who keeps what it saw.
    ///
    /// # Errors
    /// As [`Scenario::run`].
    pub fn observe<W: Allocate>(&self, client: &Appender, tx: &mut W) -> Result<Observed, Stop> {
        let mut table = tx.get(self.0)?;
        let list = list(tx, table[client.read])?;
        let before = table[client.append];
        table[client.append] = tx.alloc(Node { value: client.value, before })?;
        tx.set(self.0, table)?;
        Ok(Observed { list })
    }

    /// All lists.
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

/// The values from the first one on.
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
        let value = (seed << 8 | worker as u64) << 24;
        Appender { random: generator(worker, seed), read: 0, append: 0, value }
    }

    fn next(&self, client: &mut Appender) {
        client.read = client.random.random_range(0..LISTS);
        client.append = client.random.random_range(0..LISTS);
        client.value += 1;
    }

    fn run<W: Allocate>(&self, client: &Appender, tx: &mut W) -> Result<(), Stop> {
        self.observe(client, tx).map(drop)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error> {
        let lists = worker.transact(|tx| self.lists(tx))?;
        let mut all: Vec<u64> = lists.concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        let twice = count - all.len();
        Ok(if twice == 0 { Vec::new() } else { vec![format!("{twice} values are there twice")] })
    }
}
