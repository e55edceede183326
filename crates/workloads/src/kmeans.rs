//! `kmeans`: adds a point to the sums of its nearest centre, as STAMP's kmeans does with low
//! contention (Pisces, table 3).
//!
//! ```text
//!   points: in DRAM, 24 coordinates each, around 16 places     40 centres
//!   next():  the nearest centre                                outside of the transaction
//!   run():   its count + 1, its 24 sums + coordinates          one object of 256 bytes
//!            the worker's row: its stamp, its digest           another one
//! ```
//!
//! 16 384 points times the scale (at most 64). A worker takes its share of them in order, round
//! after round; **64 rounds, 1 048 576 transactions, are one run of the benchmark**. Differences
//! from STAMP:
//! - STAMP pauses between rounds and churn the sums into the next centres. Endless clients cannot
//!   pause, so here all rounds use the first centres. Sums are never reset: they wrap round, and a
//!   round's sums are the difference.
//! - Coordinates are integers, so that the order of additions does not change the sums.
//! - STAMP hands points out three at a time, from a counter in shared memory. Here each worker's
//!   row is that counter, which lets a crash interrupt the run. A transaction writes 27 words.
//!
//! The check repeats the run sequentially. A row's stamp gives how many points of its share the
//! worker has added. Plain code adds them again, and every centre must equal the result. Earlier
//! runs on the same pool are known only by a digest that each worker keeps, linear in the
//! coordinates, with its own factors for each centre and coordinate. The rest of the centres after
//! the sequential run must have that digest.
//!
//! Snapshot isolation suffices without protection: a transaction writes every word that it reads.

use std::sync::Arc;

use words::{
    Allocate, Array, BLOCK_STRIDE, LockId, Objects, Place, Stop, Transact, Words, field, work,
};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::churn::{Share, workers_of};
use crate::keys::mix;
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::violation::Violations;
use crate::{CLIENTS_MAX, Options, Violation, Workload, lock, scaled, with_slack};

/// Points at scale 1, and most: the handles keep those in 100 MB of DRAM.
const POINTS: u64 = 1 << 14;
const POINTS_MAX: u64 = 1 << 20;

/// Coordinates of a point.
const DIMENSIONS: usize = 24;

/// Centres, as in STAMP's input of low contention.
const CENTRES: usize = 40;

/// Places that points are scattered around.
const PLACES: u64 = 16;

/// The sums of a centre, an object of its own.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Centre {
    sums: Sums,
    reserved: [u64; 31 - DIMENSIONS],
}

#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Sums {
    /// Number of points added.
    count: u64,
    /// Sums of their coordinates.
    coordinates: [u64; DIMENSIONS],
}

/// A worker's row, an object of its own.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Row {
    added: Added,
    run: Run,
    reserved: [u64; 28],
}

#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Added {
    /// Stamp of the worker's last transaction.
    stamp: u64,
    /// The [`digest`] of all points that it added.
    digest: u64,
}

/// A worker's record at the first transaction of its run.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Run {
    /// The digest of all points added before.
    earlier: u64,
    /// Number of workers that share the points.
    workers: u64,
}

/// The tables of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    centres: Array<Centre>,
    rows: Array<Row>,
}

/// Points, and the centres that they are added to.
#[derive(Clone, Debug)]
pub struct Kmeans {
    tables: Tables,
    points: Arc<Points>,
}

#[derive(Debug)]
struct Points {
    coordinates: Vec<[u16; DIMENSIONS]>,
    /// By coordinate, then by centre: the distances to all centres are computed side by side.
    centres: [[f32; CENTRES]; DIMENSIONS],
}

/// One worker's points.
#[derive(Clone, Debug)]
pub struct KmeansClient {
    index: usize,
    stamp: Stamp,
    /// Its share of the points.
    share: Share,
    /// The current point, and its nearest centre.
    point: u64,
    centre: usize,
}

impl Build for Kmeans {
    const NAME: &'static str = "kmeans";
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, _size: u64) -> Result<Tables, Stop> {
        let centres = Array::reserve(tx, CENTRES as u64)?;
        Ok(Tables { centres, rows: Array::reserve(tx, CLIENTS_MAX as u64)? })
    }

    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        _size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        root::prepare_both(tx, tables.centres, tables.rows, progress)
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        tables.centres.free(tx)?;
        tables.rows.free(tx)?;
        Ok(true)
    }
}

impl Workload for Kmeans {
    const NAME: &'static str = <Kmeans as Build>::NAME;
    const ABOUT: &'static str = "STAMP's kmeans: add a point to the sums of its nearest centre";
    type Client = KmeansClient;

    fn heap_bytes(_options: &Options) -> u64 {
        with_slack((CENTRES + CLIENTS_MAX) as u64 * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Kmeans, T::Error> {
        let count = scaled(POINTS, options, CLIENTS_MAX as u64).min(POINTS_MAX);
        let tables = root::load::<Kmeans, T>(worker, count)?;
        Ok(Kmeans { tables, points: Arc::new(Points::new(count)) })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Kmeans>, T::Error> {
        let found = root::open::<Kmeans, T>(worker)?;
        Ok(found.map(|(count, tables)| Kmeans { tables, points: Arc::new(Points::new(count)) }))
    }

    fn client(&self, index: usize, seed: u64) -> KmeansClient {
        let (stamp, share) = (Stamp::first(index, seed), Share::of(index, CLIENTS_MAX));
        // The first call of `next` draws the first point.
        KmeansClient { index, stamp, share, point: u64::MAX, centre: 0 }
    }

    fn tune(&self, client: &mut KmeansClient, options: &Options) {
        client.share = Share::of(client.index, workers_of(client.index, options));
    }

    #[inline]
    fn next(&self, client: &mut KmeansClient) {
        client.point = client.share.next(client.point, self.points.coordinates.len() as u64);
        client.centre = self.points.nearest(client.point);
        client.stamp.advance();
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &KmeansClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        let Tables { centres, rows } = self.tables;
        tx.lock(LockId::of(lock::ROWS, client.centre as u64))?;
        let sums = field!(centres.at(client.centre as u64)?, Centre, sums);
        let row = field!(rows.at(client.index as u64)?, Row, added);
        tx.will_write(sums.addr(), size_of::<Sums>());
        tx.will_write(row.addr(), size_of::<Added>());
        let point = &self.points.coordinates[client.point as usize];
        let mut changed = tx.get(sums)?;
        changed.add(1, point);
        tx.set(sums, changed)?;
        let before = tx.get(row)?;
        if client.stamp.begins_a_run(before.stamp, client.index as u64) {
            let run = Run { earlier: before.digest, workers: client.share.parts() };
            tx.set(field!(rows.at(client.index as u64)?, Row, run), run)?;
        }
        let added = digest(client.centre, 1, point.map(u64::from));
        let digest = before.digest.wrapping_add(added);
        tx.set(row, Added { stamp: client.stamp.value(client.index as u64), digest })
    }

    fn is_present<W: Words>(&self, client: &KmeansClient, tx: &mut W) -> Result<bool, Stop> {
        let row = field!(self.tables.rows.at(client.index as u64)?, Row, added);
        let found = tx.get(row)?.stamp;
        Ok(client.stamp.is_in(found, client.index as u64))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let Tables { centres, rows } = self.tables;
        let (mut sums, rows) = worker.transact(|tx| {
            let (mut sums, mut found) = (Vec::new(), Vec::new());
            for centre in 0..centres.len() {
                sums.push(tx.get(field!(centres.at(centre)?, Centre, sums))?);
            }
            for row in 0..rows.len() {
                let row = rows.at(row)?;
                found.push((tx.get(field!(row, Row, added))?, tx.get(field!(row, Row, run))?));
            }
            Ok((sums, found))
        })?;
        let (mut violations, mut earlier) = (Violations::default(), 0_u64);
        for (index, (added, run)) in (0..).zip(&rows) {
            let Some(stamp) = Stamp::of(added.stamp, index).filter(|_| added.stamp != 0) else {
                violations.expect("the stamp of a worker that has added nothing", 0, added.stamp);
                continue;
            };
            let workers = run.workers.clamp(1, CLIENTS_MAX as u64);
            let share = Share::of(index as usize, workers as usize);
            let again = self.points.add(share, stamp.sequence());
            let sum = digest_of(&again).wrapping_add(run.earlier);
            violations.expect("a sum over all that a worker has added", sum, added.digest);
            earlier = earlier.wrapping_add(run.earlier);
            for (sums, again) in sums.iter_mut().zip(&again) {
                sums.subtract(again);
            }
        }
        let is_first = rows.iter().all(|(_, run)| run.earlier == 0);
        for (centre, sums) in sums.iter().enumerate().filter(|_| is_first) {
            let found = digest(centre, sums.count, sums.coordinates);
            violations.expect("a centre beyond that of a sequential run", 0, found);
        }
        violations.expect("a sum over what earlier runs have added", earlier, digest_of(&sums));
        Ok(violations.0)
    }
}

impl Sums {
    const NONE: Sums = Sums { count: 0, coordinates: [0; DIMENSIONS] };

    /// Adds a point `times` times.
    fn add(&mut self, times: u64, point: &[u16; DIMENSIONS]) {
        self.count = self.count.wrapping_add(times);
        for (sum, &coordinate) in self.coordinates.iter_mut().zip(point) {
            *sum = sum.wrapping_add(times.wrapping_mul(u64::from(coordinate)));
        }
    }

    fn subtract(&mut self, other: &Sums) {
        self.count = self.count.wrapping_sub(other.count);
        for (sum, other) in self.coordinates.iter_mut().zip(other.coordinates) {
            *sum = sum.wrapping_sub(other);
        }
    }
}

impl Points {
    /// Makes so many points; at least one, whatever a damaged root says.
    fn new(count: u64) -> Points {
        let count = count.clamp(1, POINTS_MAX);
        let coordinates: Vec<_> = (0..count).map(point).collect();
        let mut centres = [[0.0; CENTRES]; DIMENSIONS];
        for (dimension, row) in centres.iter_mut().enumerate() {
            for (centre, coordinate) in (0..).zip(row) {
                let first = centre * count / CENTRES as u64;
                *coordinate = f32::from(coordinates[first as usize][dimension]);
            }
        }
        Points { coordinates, centres }
    }

    /// Returns the centres after so many points of a share, added in order by plain code.
    fn add(&self, share: Share, points: u64) -> Vec<Sums> {
        let end = self.coordinates.len() as u64;
        let of_a_round = end.saturating_sub(share.part()).div_ceil(share.parts()).max(1);
        let (rounds, rest) = (points / of_a_round, points % of_a_round);
        let (mut sums, mut point) = (vec![Sums::NONE; CENTRES], u64::MAX);
        for nth in 0..of_a_round.min(points) {
            point = share.next(point, end);
            let Some(coordinates) = self.coordinates.get(point as usize) else { break };
            sums[self.nearest(point)].add(rounds + u64::from(nth < rest), coordinates);
        }
        sums
    }

    /// Returns the nearest centre of a point.
    #[inline]
    fn nearest(&self, point: u64) -> usize {
        let mut distances = [0.0_f32; CENTRES];
        let Some(coordinates) = self.coordinates.get(point as usize) else { return 0 };
        for (&coordinate, centres) in coordinates.iter().zip(&self.centres) {
            for (distance, centre) in distances.iter_mut().zip(centres) {
                let along = f32::from(coordinate) - centre;
                *distance += along * along;
            }
        }
        let mut nearest = 0;
        for centre in 1..CENTRES {
            nearest = if distances[centre] < distances[nearest] { centre } else { nearest };
        }
        nearest
    }
}

/// Returns the coordinates of a point: about a quarter of the range around one of the places.
fn point(number: u64) -> [u16; DIMENSIONS] {
    let place = mix(number) % PLACES;
    std::array::from_fn(|dimension| {
        let middle = mix(!(place << 8 | dimension as u64)) % (3 << 14);
        let random = mix(number << 8 | dimension as u64);
        // The sum of two uniform numbers is nearer to the middle more often.
        (middle + (random & 0x1fff) + (random >> 32 & 0x1fff)) as u16
    })
}

/// Returns the digest of a centre with so many points and these sums: linear in them.
#[inline]
fn digest(centre: usize, count: u64, coordinates: [u64; DIMENSIONS]) -> u64 {
    let factor = |place: usize| mix((centre * 32 + place) as u64) | 1;
    let first = count.wrapping_mul(factor(DIMENSIONS));
    coordinates.iter().enumerate().fold(first, |sum, (place, coordinate)| {
        sum.wrapping_add(coordinate.wrapping_mul(factor(place)))
    })
}

/// Returns the digest of all centres.
fn digest_of(centres: &[Sums]) -> u64 {
    let digests = centres.iter().enumerate().map(|(at, it)| digest(at, it.count, it.coordinates));
    digests.fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use words::mock::Mock;

    use super::*;

    /// Returns the centres after one round, by plain code.
    fn sequential(points: &Points) -> Vec<(u64, [u64; DIMENSIONS])> {
        let mut centres = vec![(0, [0; DIMENSIONS]); CENTRES];
        for (number, point) in points.coordinates.iter().enumerate() {
            let distance = |centre: usize| -> f32 {
                let along = |(&x, row): (&u16, &[f32; CENTRES])| f32::from(x) - row[centre];
                point.iter().zip(&points.centres).map(along).map(|d| d * d).sum()
            };
            let nearest = (1..CENTRES).fold(0, |nearest, centre| {
                if distance(centre) < distance(nearest) { centre } else { nearest }
            });
            assert_eq!(nearest, points.nearest(number as u64));
            centres[nearest].0 += 1;
            for (sum, &x) in centres[nearest].1.iter_mut().zip(point) {
                *sum += u64::from(x);
            }
        }
        centres
    }

    #[test]
    fn concurrent_round_equals_a_sequential_run() {
        let options = Options { scale: 0.05, workers: 3, ..Options::default() };
        let mut mock = Mock::new(Kmeans::heap_bytes(&options) as usize);
        let kmeans = Kmeans::load(&mut mock, &options).unwrap();
        for index in 0..3 {
            let mut client = kmeans.client(index, 1);
            kmeans.tune(&mut client, &options);
            let mut share = 0;
            loop {
                kmeans.next(&mut client);
                if share > 0 && client.point == index as u64 {
                    break;
                }
                mock.transact(|tx| kmeans.run(&client, tx)).unwrap();
                share += 1;
            }
            assert!((272..=274).contains(&share), "{share} of 819 points");
        }
        let expected = sequential(&kmeans.points);
        for (centre, expected) in (0..).zip(&expected) {
            let place = field!(kmeans.tables.centres.at(centre).unwrap(), Centre, sums);
            let found = mock.transact(|tx| tx.get(place)).unwrap();
            assert_eq!((found.count, found.coordinates), *expected, "centre {centre}");
        }
        let used = expected.iter().filter(|centre| centre.0 > 0).count();
        assert!(used > 30, "{used} centres have points");
        assert_eq!(kmeans.check(&mut mock).unwrap(), []);
    }

    /// Makes a pool after so many transactions of one of two workers, in each of some runs.
    fn after(runs: &[u64]) -> (Mock, Kmeans) {
        let options = Options { scale: 0.05, workers: 2, ..Options::default() };
        let mut mock = Mock::new(Kmeans::heap_bytes(&options) as usize);
        let kmeans = Kmeans::load(&mut mock, &options).unwrap();
        for (seed, transactions) in (1..).zip(runs) {
            let mut client = kmeans.client(1, seed);
            kmeans.tune(&mut client, &options);
            for _ in 0..*transactions {
                kmeans.next(&mut client);
                mock.transact(|tx| kmeans.run(&client, tx)).unwrap();
            }
        }
        (mock, kmeans)
    }

    #[test]
    fn check_accepts_completed_runs() {
        for runs in [&[][..], &[1], &[409], &[410], &[1000], &[7, 500, 3]] {
            let (mut mock, kmeans) = after(runs);
            assert_eq!(kmeans.check(&mut mock).unwrap(), [], "{runs:?}");
        }
    }

    /// The centre and the worker's row agree on the wrong sums.
    #[test]
    fn point_added_twice_is_found() {
        for runs in [&[100][..], &[7, 100]] {
            let (mut mock, kmeans) = after(runs);
            mock.transact(|tx| {
                let centre = kmeans.points.nearest(1);
                let point = &kmeans.points.coordinates[1];
                let sums = field!(kmeans.tables.centres.at(centre as u64)?, Centre, sums);
                let mut changed = tx.get(sums)?;
                changed.add(1, point);
                tx.set(sums, changed)?;
                let row = field!(kmeans.tables.rows.at(1)?, Row, added);
                let mut added = tx.get(row)?;
                let more = digest(centre, 1, point.map(u64::from));
                added.digest = added.digest.wrapping_add(more);
                tx.set(row, added)
            })
            .unwrap();
            assert!(!kmeans.check(&mut mock).unwrap().is_empty(), "{runs:?}");
        }
    }
}
