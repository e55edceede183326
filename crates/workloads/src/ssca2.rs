//! `ssca2`: adds an edge to a node's array of neighbours, one a transaction, as the first kernel of
//! STAMP's ssca2 builds its graph (Pisces, table 4).
//!
//! ```text
//!   counts   a word a node: edges that were ever added to it
//!   edges    64 slots a node: the n-th edge is in slot n modulo 64
//!            | n (32 bits) | number of the edge (32 bits) | the stamp of its writer |
//! ```
//!
//! 2^18 nodes times the scale, each with 42 edges from it, to uniform nodes: **11 010 048 edges, as
//! many transactions, are one run of the benchmark** (`--scale 0.03125` has 2^13 nodes and 344 064
//! edges). The list of edges is fixed and computed. A worker takes its share of it in order, and at
//! the end begins again. At a node with 64 edges the next edge replaces the oldest: in the first
//! run only some hundred thousandths are replaced. A transaction reads the count and writes it and
//! an edge: 3 words in 2 objects.
//!
//! The check compares the graph with the list. Each slot must hold the edge that the count puts
//! there last, which leads to this node, and no other edge is in the graph.
//!
//! Snapshot isolation suffices without protection: a transaction writes every word that it reads.

use words::{Addr, Allocate, Array, BLOCK_STRIDE, LockId, Place, Stop, Transact, Words, work};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::churn::{Share, workers_of};
use crate::keys::mix;
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::violation::Violations;
use crate::{CLIENTS_MAX, Options, Violation, Workload, lock, scaled, with_slack};

/// Nodes at scale 1, fewest and most: an edge's number has 32 bits.
const NODES: u64 = 1 << 18;
const NODES_MIN: u64 = 64;
const NODES_MAX: u64 = 1 << 26;

/// Edges from a node: 11 million in all.
const DEGREE: u64 = 42;

/// Edges kept at a node.
const KEPT: u64 = 64;

/// Counts in a cache line.
const COUNTS_IN_LINE: u64 = 8;

/// Edges in a block, and its words.
const PER_BLOCK: u64 = 16;
const BLOCK_WORDS: usize = 32;

/// Nodes that one transaction of the check reads.
const CHECKED: u64 = 64;

/// The tables of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    counts: Array<u64>,
    edges: Array<[u64; 2]>,
}

/// A graph that is being built.
#[derive(Clone, Copy, Debug)]
pub struct Ssca2 {
    tables: Tables,
    nodes: u64,
}

/// One worker's share of the edges.
#[derive(Clone, Debug)]
pub struct Ssca2Client {
    index: usize,
    stamp: Stamp,
    /// Its share of the edges.
    share: Share,
    /// The current edge, and the node that it leads to.
    edge: u64,
    node: u64,
}

impl Build for Ssca2 {
    const NAME: &'static str = "ssca2";
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Tables, Stop> {
        let counts = Array::reserve(tx, size)?;
        Ok(Tables { counts, edges: Array::reserve(tx, KEPT * size)? })
    }

    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        _size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        root::prepare_both(tx, tables.counts, tables.edges, progress)
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        tables.counts.free(tx)?;
        tables.edges.free(tx)?;
        Ok(true)
    }
}

impl Workload for Ssca2 {
    const NAME: &'static str = <Ssca2 as Build>::NAME;
    const ABOUT: &'static str = "STAMP's ssca2: add an edge to a node's array, 11 million in a run";
    const ANNOUNCES: bool = true;
    type Client = Ssca2Client;

    fn heap_bytes(options: &Options) -> u64 {
        let nodes = Self::nodes(options);
        with_slack((nodes / 32 + 1 + nodes * (KEPT / PER_BLOCK)) * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Ssca2, T::Error> {
        let nodes = Self::nodes(options);
        Ok(Ssca2 { tables: root::load::<Ssca2, T>(worker, nodes)?, nodes })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Ssca2>, T::Error> {
        let found = root::open::<Ssca2, T>(worker)?;
        Ok(found.map(|(nodes, tables)| Ssca2 { tables, nodes: nodes.clamp(1, NODES_MAX) }))
    }

    fn client(&self, index: usize, seed: u64) -> Ssca2Client {
        let (stamp, share) = (Stamp::first(index, seed), Share::of(index, CLIENTS_MAX));
        // The first call of `next` draws the first edge.
        Ssca2Client { index, stamp, share, edge: u64::MAX, node: 0 }
    }

    fn tune(&self, client: &mut Ssca2Client, options: &Options) {
        client.share = Share::of(client.index, workers_of(client.index, options));
    }

    #[inline]
    fn next(&self, client: &mut Ssca2Client) {
        client.edge = client.share.next(client.edge, self.nodes * DEGREE);
        client.node = self.to(client.edge);
        client.stamp.advance();
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &Ssca2Client, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        let Tables { counts, edges } = self.tables;
        tx.lock(LockId::of(lock::ROWS, client.node / COUNTS_IN_LINE))?;
        let at = counts.at(client.node)?.addr();
        tx.will_write(at, 8);
        let count = tx.read(at)?;
        tx.after_last_read();
        let slot = edges.at(client.node * KEPT + count % KEPT)?.addr();
        tx.will_write(slot, 16);
        tx.write(at, count.wrapping_add(1))?;
        tx.write_words(slot, &[count << 32 | client.edge, client.stamp.value(client.edge)])
    }

    fn is_present<W: Words>(&self, client: &Ssca2Client, tx: &mut W) -> Result<bool, Stop> {
        tx.lock(LockId::of(lock::ROWS, client.node / COUNTS_IN_LINE))?;
        let (_, slots) = self.read(client.node, tx)?;
        let found = slots.map(|[first, stamp]| (stamp, first & 0xffff_ffff));
        // The edge is present, or a later edge of the same worker.
        let mut own = found.iter().map(|&(stamp, edge)| client.stamp.is_passed_by(stamp, edge));
        // Or other workers added so many later edges that it was replaced.
        let mut later = found.iter().map(|&(stamp, edge)| client.stamp.is_in(stamp, edge));
        Ok(own.any(|is_there| is_there) || later.all(|is_later| is_later))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let mut violations = Violations::default();
        for first in (0..self.nodes).step_by(CHECKED as usize) {
            let nodes = first..(first + CHECKED).min(self.nodes);
            let read = worker.transact(|tx| {
                nodes.clone().map(|node| self.read(node, tx)).collect::<Result<Vec<_>, _>>()
            })?;
            for (node, (count, slots)) in nodes.zip(read) {
                self.check_node(node, count, &slots, &mut violations);
            }
        }
        Ok(violations.0)
    }
}

impl Ssca2 {
    fn nodes(options: &Options) -> u64 {
        scaled(NODES, options, NODES_MIN).min(NODES_MAX)
    }

    /// Returns the node that an edge leads to.
    #[inline]
    fn to(&self, edge: u64) -> u64 {
        ((u128::from(mix(edge)) * u128::from(self.nodes)) >> 64) as u64
    }

    /// Reads a node's count and all its slots.
    fn read<W: Words>(
        &self,
        node: u64,
        tx: &mut W,
    ) -> Result<(u64, [[u64; 2]; KEPT as usize]), Stop> {
        let count = tx.read(self.tables.counts.at(node)?.addr())?;
        let mut slots = [[0; 2]; KEPT as usize];
        for (block, slots) in (0..).zip(slots.chunks_exact_mut(PER_BLOCK as usize)) {
            let at: Addr = self.tables.edges.at(node * KEPT + block * PER_BLOCK)?.addr();
            let mut words = [0; BLOCK_WORDS];
            tx.read_words(at, &mut words)?;
            for (slot, words) in slots.iter_mut().zip(words.chunks_exact(2)) {
                slot.copy_from_slice(words);
            }
        }
        Ok((count, slots))
    }

    fn check_node(
        &self,
        node: u64,
        count: u64,
        slots: &[[u64; 2]; KEPT as usize],
        violations: &mut Violations,
    ) {
        for (slot, &[first, stamp]) in (0..KEPT).zip(slots) {
            if count <= slot {
                violations.expect("an edge that was never added", 0, first | stamp);
                continue;
            }
            // The last number below the count that belongs in this slot.
            let number = count - 1 - (count - 1 - slot) % KEPT;
            let edge = first & 0xffff_ffff;
            violations.expect("the number of an edge at its node", number << 32 >> 32, first >> 32);
            if edge >= self.nodes * DEGREE {
                violations.add(Violation::Key { end: self.nodes * DEGREE, found: edge });
            } else {
                violations.expect("the node that an edge leads to", node, self.to(edge));
            }
            if Stamp::of(stamp, edge).is_none() {
                violations.add(Violation::Value { key: edge, found: stamp });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use words::mock::Mock;

    use super::*;

    #[test]
    fn concurrent_run_builds_the_listed_graph() {
        let options = Options { scale: 0.001, workers: 3, ..Options::default() };
        let mut mock = Mock::new(Ssca2::heap_bytes(&options) as usize);
        let graph = Ssca2::load(&mut mock, &options).unwrap();
        let edges = graph.nodes * DEGREE;
        for index in 0..3 {
            let mut client = graph.client(index, 1);
            graph.tune(&mut client, &options);
            for _ in (index as u64..edges).step_by(3) {
                graph.next(&mut client);
                mock.transact(|tx| graph.run(&client, tx)).unwrap();
            }
            graph.next(&mut client);
            assert_eq!(client.edge, index as u64, "the client has gone through the list");
        }
        let mut expected = vec![0; graph.nodes as usize];
        (0..edges).for_each(|edge| expected[graph.to(edge) as usize] += 1);
        for (node, expected) in (0..).zip(expected) {
            let (count, slots) = mock.transact(|tx| graph.read(node, tx)).unwrap();
            assert_eq!(count, expected);
            let mut found: Vec<u64> = slots.iter().map(|slot| slot[0] & 0xffff_ffff).collect();
            found.truncate(count as usize);
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len() as u64, count.min(KEPT), "an edge is stored once");
        }
        assert_eq!(graph.check(&mut mock).unwrap(), []);
    }
}
