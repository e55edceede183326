//! Benchmark workloads: their data, the transactions on it, and a consistency check.
//!
//! | name | transaction | words written | check |
//! |---|---|---|---|
//! | `empty` | nothing | 0 | - |
//! | `bank` | moves cents between two accounts | 7; declined: 3 | total, transfers on both sides |
//! | `hashtable` | inserts or overwrites one key | 2 | structure, keys, values |
//! | `btree` | inserts or overwrites one key | new: 7; old: 1 | structure, keys, values |
//! | `btree-16`, `btree-32` | looks one key up; inserts or overwrites it | 0; 7; 1 | the same |
//! | `btree-update` | overwrites one key of 650 MB | 1 | structure, keys, values |
//! | `session-store` | reads or overwrites one of 10 000 keys | 0; 1 | structure, keys, values |
//! | `tatp-hash`, `tatp-btree` | TATP's Update Location | 1 | index and subscribers agree |
//! | `tatp-mix` | six of TATP's, 18 of 100 write | 0; 1; 2; 7 | all tables agree |
//! | `tpcc-hash`, `tpcc-btree` | TPC-C's New Order | 156; 181 | TPC-C's consistency conditions |
//! | `tpcc-btree-32`, `tpcc-rows` | the same | 181; 116 | the same |
//! | `chains`, `chains-sparse` | searches, inserts or removes 64 bytes | 0; 11; 2 | values |
//! | `list` | the same in one list | 0; 11; 2 | the same |
//! | `rbt` | inserts or removes a key of a red-black tree | 7, and rotations; 2 | structure, keys |
//! | `cq` | pops an entry of a queue, pushes one | 11 | order, number, every entry whole |
//! | `pc` | overwrites 8 values of a hash table | 32 | structure, values whole |
//! | `sps` | swaps 8 pairs of elements of an array | 128 | a permutation, elements whole |
//! | `kmeans` | adds a point to its centre's sums | 27 | all that was added |
//! | `ssca2` | adds an edge to a node | 3 | the graph against its list |
//! | `vacation` | reserves two things for a customer | 14 | used = held, used + free = total |
//! | `records` | overwrites a record of 100 bytes | 13 | structure, every record whole |
//! | `records-20` | overwrites 10, inserts 10, removes 10 | some 340 | the same |
//! | `ycsb-a` to `ycsb-f` | YCSB's core workloads | 0; 13; insert: 23 | every record whole |
//! | `writes` | writes words all over 64 MiB | 200 | both words of each pair agree |
//! | `scatter` | writes words all over 512 MiB | 4 | both words of each pair agree |
//! | `vector`, `hashmap` | puts an object of 1 KiB, or 4 to 64 words | 130 | every object whole |
//! | `btreemap`, `rbtreemap` | the same | 130 | the same |
//! | `ycsb-put`, `echo` | the same | 130 | the same |
//! | `swap` | swaps two objects of 1 KiB, or 2 to 32 pairs of words | 256 | a permutation |
//! | `rbtree`, `rbtree-zipf` | removes a key, or inserts it | 12; 14 | structure, keys, values |
//! | `bptree`, `bptree-zipf` | the same | 5; 6 | the same |
//! | `hash`, `hash-zipf` | the same | 6; 4 | the same |
//! | `sps-1` | swaps two words of an array | 2 | a permutation |
//! | `memcached` | sets or gets a value of 64 to 1024 bytes | 30 | structure, values whole |
//! | `typed` | adds, replaces, removes sessions | 50 | typed maps and sets agree, texts whole |
//!
//! A workload runs on every [`Transact`]: every design, the simulated machine, the mock. All are
//! stationary: however long they run, they stay within [`Workload::heap_bytes`].
//!
//! # Stamps: recognising lost writes
//!
//! The transactions of a client follow from its index and the seed, so an equal client generates
//! them again after a crash. Values carry a stamp: the run, the worker, the transaction's number in
//! that run, and a few bits that depend on the key. A run's number is its seed modulo 16 383, and
//! **the runs on one pool take ascending numbers**; [`next_run`] assigns one durably.
//! [`Workload::is_present`] therefore distinguishes a value of this transaction or a later one from
//! an older one, which means that this transaction was lost.
//!
//! ```
//! use workloads::{HashTable, Options, Workload};
//! use words::{Transact, mock::Mock};
//!
//! let options = Options { scale: 0.0001, ..Options::default() };
//! let mut worker = Mock::new(HashTable::heap_bytes(&options) as usize);
//! let table = HashTable::load(&mut worker, &options)?;
//! let mut client = table.client(0, 1);
//! for _ in 0..100 {
//!     table.next(&mut client);
//!     worker.transact(|tx| table.run(&client, tx))?;
//! }
//! assert!(worker.transact(|tx| table.is_present(&client, tx))?);
//! assert!(table.check(&mut worker)?.is_empty());
//! # Ok::<(), words::mock::Refused>(())
//! ```

mod any;
mod bank;
mod blind;
mod btree;
mod buckets;
mod chains;
mod churn;
mod copies;
mod cq;
mod data;
mod empty;
mod hashtable;
mod index;
mod keys;
mod kmeans;
mod leaves;
mod lock;
mod memcached;
mod options;
mod pc;
mod puts;
mod rbt;
mod records;
mod root;
mod session;
mod slab;
mod sps;
mod ssca2;
mod stamp;
mod swap;
mod tatp;
mod tatp_mix;
mod ticket_map;
mod toggle;
mod tpcc;
mod tree;
mod typed;
mod vacation;
mod violation;
#[cfg(test)]
mod watch;
mod ycsb;
mod zipf;

use words::{Allocate, Stop, Transact, Words};

pub use any::{AnyClient, AnyWorkload, Kind};
pub use bank::{Bank, BankClient};
pub use blind::{Blind, BlindClient, Scatter, Writes};
pub use btree::{Btree, Btree16, Btree32, Tree};
pub use chains::{Chains, ChainsSparse, List, Lists, ListsClient};
pub use cq::{Cq, CqClient};
pub use data::DataSet;
pub use empty::{Empty, EmptyClient};
pub use hashtable::HashTable;
pub use keys::KeyClient;
pub use kmeans::{Kmeans, KmeansClient};
pub use memcached::{Memcached, MemcachedClient};
pub use options::{CLIENTS_MAX, Options, Supported};
pub use pc::{Pc, PcClient};
pub use puts::{Btreemap, Echo, Hashmap, Puts, PutsClient, Rbtreemap, Vector, YcsbPut};
pub use rbt::{Rbt, RbtClient};
pub use records::{Records, Records20, Store, StoreClient};
pub use root::{client_seed, name_in, next_run};
pub use session::{BtreeUpdate, SessionStore, Sessions};
pub use sps::{Sps, SpsClient};
pub use ssca2::{Ssca2, Ssca2Client};
pub use swap::{Sps1, Swap, SwapClient, Swaps};
pub use tatp::{Tatp, TatpBtree, TatpHash};
pub use tatp_mix::{TatpMix, TatpMixClient};
pub use toggle::{
    BpTreeRand, BpTreeZipf, HashRand, HashZipf, RbTreeRand, RbTreeZipf, ToggleClient, Toggles,
};
pub use tpcc::{Tpcc, TpccBtree, TpccBtree32, TpccClient, TpccHash, TpccRows};
pub use typed::{Typed, TypedClient};
pub use vacation::{Vacation, VacationClient};
pub use violation::Violation;
pub use ycsb::{Ycsb, YcsbA, YcsbB, YcsbC, YcsbClient, YcsbD, YcsbE, YcsbF};
pub use zipf::Zipf;

use options::{scaled, with_slack};

/// Data in a pool, the transactions on it, and its consistency check.
///
/// The value itself is a handle: small, in DRAM, shared by all workers of a process.
pub trait Workload: Send + Sync + Sized + 'static {
    /// The name on the command line.
    const NAME: &'static str;

    /// A description of one line.
    const ABOUT: &'static str;

    /// The transaction options that it supports.
    const SUPPORTS: Supported = Supported::NOTHING;

    /// Whether some transactions only read.
    const READS: bool = false;

    /// Whether a transaction announces all that it will write before its first write
    /// ([`Words::will_write`]), except for the allocator's words.
    const ANNOUNCES: bool = false;

    /// The transaction generator of one worker.
    type Client: Clone + Send + 'static;

    /// Returns the size of a heap that always suffices, the allocator's share included.
    fn heap_bytes(options: &Options) -> u64;

    /// Loads the data in many transactions of moderate size, and makes it the pool's root.
    ///
    /// An interrupted call is continued. A workload of another size or kind is freed first. Data
    /// that is loaded already stays unchanged.
    ///
    /// # Errors
    /// The error of a transaction; [`Stop::Aborted`] when the root is not a workload's.
    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Self, T::Error>;

    /// Opens the data that [`load`](Workload::load) has built in this pool, of any size. `None` for
    /// an empty pool, other data, or half-built data.
    ///
    /// # Errors
    /// The error of a transaction.
    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error>;

    /// Returns the client of a worker; equal arguments give equal transactions. `seed` identifies
    /// the run; the runs on one pool take ascending seeds (see the crate's documentation).
    ///
    /// # Panics
    /// When `index` is not below [`CLIENTS_MAX`].
    fn client(&self, index: usize, seed: u64) -> Self::Client;

    /// Applies those transaction options that [`SUPPORTS`](Workload::SUPPORTS) lists to a client
    /// that has generated no transaction yet. Clones of the client keep them.
    fn tune(&self, client: &mut Self::Client, options: &Options) {
        let _ = (client, options);
    }

    /// Generates the parameters of the client's next transaction, outside of it.
    fn next(&self, client: &mut Self::Client);

    /// Returns whether the client's current transaction only reads and may run as read-only.
    #[inline]
    fn reads_only(&self, client: &Self::Client) -> bool {
        let _ = client;
        false
    }

    /// Returns whether the client's current transaction aborts itself at its end, as every
    /// hundredth order of TPC-C does. It ends with [`Stop::Aborted`], which is not an error.
    #[inline]
    fn gives_up(&self, client: &Self::Client) -> bool {
        let _ = client;
        false
    }

    /// Returns the instructions of a program between a commit and the next transaction; 0 for
    /// transactions back to back. Only a simulated machine counts them.
    fn outside_instructions(&self) -> u32 {
        0
    }

    /// Runs the body of the client's current transaction. It may run again, and changes only words.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadValue`] when expected data is missing; [`Stop::Aborted`]
    /// if and only if it [aborts itself](Workload::gives_up).
    fn run<W: Allocate>(&self, client: &Self::Client, tx: &mut W) -> Result<(), Stop>;

    /// Returns whether the writes of the client's current transaction are present or were
    /// overwritten later. Another worker's value of the same run counts as later. A transaction
    /// that only reads or aborts itself is always present.
    ///
    /// # Errors
    /// As [`Words::read`].
    fn is_present<W: Words>(&self, client: &Self::Client, tx: &mut W) -> Result<bool, Stop>;

    /// Checks all data; an empty result means that it is consistent. No transaction may run
    /// meanwhile.
    ///
    /// # Errors
    /// The error of a transaction. A wild pointer in a damaged structure is such an error.
    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error>;
}

/// An operation on a workload whose type is known only by name.
pub trait Visitor {
    /// Its result.
    type Out;

    /// Runs it on this workload.
    fn visit<W: Workload>(self) -> Self::Out;
}

/// Defines the list of workloads.
macro_rules! workloads {
    (timed: $($timed:ty),*; others: $($other:ty),*) => {
        workloads!($($timed,)* $($other),*);

        /// Returns whether papers or comparisons time this workload as software: see
        /// [`timed_by_name`].
        pub fn is_timed(name: &str) -> bool {
            [$(<$timed>::NAME),*].contains(&name)
        }

        /// As [`by_name`], but `None` for workloads that papers only simulate, and for those that
        /// only test. It serves code that is compiled for every pair of a design and a workload.
        pub fn timed_by_name<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            $(if name == <$timed>::NAME {
                return Some(visitor.visit::<$timed>());
            })*
            None
        }
    };
    ($($workload:ty),*) => {
        /// The names of all workloads.
        pub const NAMES: [&str; [$(<$workload>::NAME),*].len()] = [$(<$workload>::NAME),*];

        /// Calls `visitor` with the workload of this name; `None` when no workload has it.
        ///
        /// ```
        /// struct About;
        /// impl workloads::Visitor for About {
        ///     type Out = &'static str;
        ///     fn visit<W: workloads::Workload>(self) -> &'static str { W::ABOUT }
        /// }
        /// for name in workloads::NAMES {
        ///     println!("{name:12} {}", workloads::by_name(name, About).unwrap());
        /// }
        /// assert!(workloads::by_name("no such", About).is_none());
        /// ```
        pub fn by_name<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            $(if name == <$workload>::NAME {
                return Some(visitor.visit::<$workload>());
            })*
            None
        }

        /// Frees a part of the workload whose head has this name; returns whether all is freed.
        fn free_by_name<W: Allocate>(tx: &mut W, head: &root::Head) -> Result<bool, Stop> {
            $(if head.is_of(<$workload>::NAME) {
                return root::free_parts::<$workload, W>(tx, head);
            })*
            Err(Stop::Aborted)
        }
    };
}

workloads!(
    timed:
    Empty,
    Bank,
    HashTable,
    Btree,
    Btree16,
    Btree32,
    BtreeUpdate,
    SessionStore,
    TatpHash,
    TatpBtree,
    TatpMix,
    TpccHash,
    TpccBtree,
    TpccBtree32,
    TpccRows,
    Chains,
    ChainsSparse,
    List,
    Kmeans,
    Ssca2,
    Vacation,
    Records,
    Records20,
    YcsbA,
    YcsbB,
    YcsbC,
    YcsbD,
    YcsbE,
    YcsbF,
    Writes,
    Scatter;
    others:
    Rbt,
    Cq,
    Pc,
    Sps,
    Vector,
    Swap,
    Hashmap,
    Btreemap,
    Rbtreemap,
    YcsbPut,
    Echo,
    RbTreeRand,
    RbTreeZipf,
    BpTreeRand,
    BpTreeZipf,
    HashRand,
    HashZipf,
    Sps1,
    Memcached,
    Typed
);
