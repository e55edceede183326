//! A game world that is saved at each tick: a tick is one transaction over the entities that moved.
//!
//! ```text
//!   cargo run --release -p lastword --example world [PATH] [TICKS]
//! ```
//!
//! Kill it at any time, even with `kill -9`, and run it again: it continues after the last durable
//! tick, never from the middle of one. PATH is the pool; default: a file in the system's directory
//! for temporary files. TICKS defaults to 600, which is ten seconds.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use lastword::{Allocate, Array, Error, Objects, Options, Pool, Ptr, Stop};

const ENTITIES: u64 = 8192;
/// Ticks between two moves of an entity.
const REST: u64 = 8;
/// Side of the world, a square closed to a torus.
const SIDE: i64 = 1 << 20;
/// Ticks between two saves that are reported to the players.
pub(crate) const SECOND: u64 = 60;

/// A plain struct, stored as it is.
#[lastword::persist]
#[derive(Debug, PartialEq)]
struct Entity {
    position: [i64; 2],
    velocity: [i64; 2],
    moves: u64,
}

/// The pool's root.
#[lastword::persist]
struct World {
    tick: u64,
    entities: Array<Entity>,
}

impl Entity {
    fn new(number: u64) -> Entity {
        let n = number as i64;
        Entity { position: [n * 37, n * 91], velocity: [n % 61 - 30, n % 43 - 21], moves: 0 }
    }

    fn step(self) -> Entity {
        let [x, y] = self.position;
        let [dx, dy] = self.velocity;
        let position = [(x + dx).rem_euclid(SIDE), (y + dy).rem_euclid(SIDE)];
        Entity { position, moves: self.moves + 1, ..self }
    }
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args_os().skip(1);
    let default = || std::env::temp_dir().join("lastword-example-world.pool");
    let path = arguments.next().map_or_else(default, PathBuf::from);
    let ticks = arguments.next().and_then(|ticks| ticks.to_str()?.parse().ok()).unwrap_or(600);
    let pool = open(&path)?;
    println!("{}: tick {}", path.display(), check(&pool)?);
    let pace = Duration::from_secs(1) / SECOND as u32;
    play(&pool, ticks, pace, |saved| {
        let Saved { tick, behind, took } = saved;
        println!("tick {tick}: {behind} ticks were not durable yet; saved in {took:.2?}");
    })?;
    println!("tick {}", check(&pool)?);
    pool.close()
}

/// Opens the world, and creates it if needed.
pub(crate) fn open(path: &Path) -> Result<Pool, Error> {
    let options = Options::new().bytes(4 << 20).log_bytes(16 << 20).layout("example world", 1);
    let open = if path.exists() { Pool::open } else { Pool::create };
    let pool = open(path, options)?;
    let made = pool.run(|tx| {
        if tx.root()? != 0 {
            return Ok(());
        }
        let world = World { tick: 0, entities: Array::create(tx, ENTITIES)? };
        for number in 0..ENTITIES {
            tx.set(world.entities.at(number)?, Entity::new(number))?;
        }
        let root = tx.alloc(world)?;
        tx.set_root(root.to_bits())
    })?;
    made.ticket.wait()?;
    Ok(pool)
}

/// A save that is reported to the players.
pub(crate) struct Saved {
    pub(crate) tick: u64,
    /// Committed ticks that were not yet durable at its commit, itself included.
    pub(crate) behind: u64,
    /// Time from its commit until it was durable.
    pub(crate) took: Duration,
}

/// Plays this many ticks, one each `pace`, and reports a save each [`SECOND`].
pub(crate) fn play(
    pool: &Pool,
    ticks: u64,
    pace: Duration,
    mut report: impl FnMut(Saved),
) -> Result<(), Error> {
    let mut worker = pool.worker()?;
    let mut next = Instant::now();
    for _ in 0..ticks {
        // Committed: the next tick builds on it at once, durable or not.
        let done = worker.run(|tx| tick(tx))?;
        let committed = Instant::now();
        if done.value.is_multiple_of(SECOND) {
            // A tick is one transaction, so IDs count ticks.
            let behind = done.ticket.id().0.saturating_sub(pool.durable_id().0);
            // Wait before a report leaves the machine: a crash must not revoke what the players
            // saw.
            done.ticket.wait()?;
            report(Saved { tick: done.value, behind, took: committed.elapsed() });
        }
        next += pace;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Runs one tick; returns its number.
fn tick(tx: &mut impl Allocate) -> Result<u64, Stop> {
    let root: Ptr<World> = Ptr::from_bits(tx.root()?);
    let World { tick, entities } = tx.get(root)?;
    let tick = tick + 1;
    for number in (tick % REST..ENTITIES).step_by(REST as usize) {
        tx.update(entities.at(number)?, Entity::step)?;
    }
    tx.set(root.tick(), tick)?;
    Ok(tick)
}

/// Checks that every entity is where it must be after the tick in the root. Returns that tick.
pub(crate) fn check(pool: &Pool) -> Result<u64, Error> {
    let mut worker = pool.worker()?;
    let (tick, entities) = worker
        .read(|tx| {
            let root: Ptr<World> = Ptr::from_bits(tx.root()?);
            let World { tick, entities } = tx.get(root)?;
            let all = (0..ENTITIES).map(|number| tx.get(entities.at(number)?));
            Ok((tick, all.collect::<Result<Vec<Entity>, Stop>>()?))
        })?
        .value;
    for (number, found) in (0..).zip(entities) {
        // An entity moves in tick `number` modulo REST, and every REST ticks after that.
        let moves = (1..=tick).filter(|tick| tick % REST == number % REST).count();
        let expected = (0..moves).fold(Entity::new(number), |entity, _| entity.step());
        assert_eq!(found, expected, "entity {number} after tick {tick}");
    }
    Ok(tick)
}
