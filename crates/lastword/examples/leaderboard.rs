//! A leaderboard: scores by player, the best players, and the rank of each.
//!
//! ```text
//!   cargo run --release -p lastword --example leaderboard [PATH]
//! ```
//!
//! Four threads play. Kill it at any time and run it again: no score that it printed is lost.

use std::path::{Path, PathBuf};
use std::thread;

use lastword::prelude::*;

const PLAYERS: u64 = 40;

pub(crate) struct ByScore;
impl Index<str, u64> for ByScore {
    type Key = u64;
    fn key(_: &String, score: &u64) -> Option<u64> {
        Some(*score)
    }
}

pub(crate) type Scores = IndexedMap<str, u64, (ByScore,)>;

fn main() -> Result<(), Error> {
    let default = || std::env::temp_dir().join("lastword-example-leaderboard.pool");
    let path = std::env::args_os().nth(1).map_or_else(default, PathBuf::from);
    run(&path, 250)
}

pub(crate) fn open(path: &Path) -> Result<(Pool, Scores), Error> {
    let pool = Pool::open_or_create(path, Options::new().bytes(16 << 20).log_bytes(4 << 20))?;
    let scores = pool.indexed_map("scores")?;
    Ok((pool, scores))
}

pub(crate) fn run(path: &Path, games: u64) -> Result<(), Error> {
    let (pool, scores) = open(path)?;
    thread::scope(|scope| {
        let play = |seed| play(&pool, scores, seed, games);
        let threads: Vec<_> = (1..=4).map(|seed| scope.spawn(move || play(seed))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a player panicked"))
    })?;
    // One transaction, so that the scores and ranks come from one snapshot.
    let best = pool.run(|tx| {
        let (best, _) = scores.by(ByScore).range(..).rev().page(tx, 3)?;
        let ranked = |(name, score)| Ok((rank(tx, scores, score)?, name, score));
        best.into_iter().map(ranked).collect::<Result<Vec<_>, Stop>>()
    })?;
    best.value.iter().for_each(|(rank, name, score)| println!("{rank}. {name} with {score}"));
    pool.close()
}

fn play(pool: &Pool, scores: Scores, seed: u64, games: u64) -> Result<(), Error> {
    let mut worker = pool.worker()?;
    for game in 0..games {
        let dice = (game + 1).wrapping_mul(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let (name, points) = (format!("player{}", dice % PLAYERS), dice % 100);
        let done = worker.run(|tx| {
            let won = scores.entry(tx, &name)?.and_modify(|score| score + points)?;
            won.or_insert(points)
        })?;
        let score = done.value;
        done.ticket.wait()?; // durable before it is shown
        println!("{name} {score}");
    }
    Ok(())
}

/// Returns the number of players with a greater score, plus 1. The function counts these players.
/// For millions of players, store the number of players in each range of scores instead.
fn rank(tx: &mut impl Words, scores: Scores, score: u64) -> Result<u64, Stop> {
    Ok(1 + scores.by(ByScore).range(score + 1..).count(tx)?)
}
