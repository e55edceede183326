//! A pool whose reproduction waits for a stream.

use std::time::Duration;

use faults::mutants::{Mutant, inject};
use lastword::{Error, Medium, Objects, Options, Pool};

/// The heap image has no transaction that the stream lacks, and the feed gets each transaction
/// once, also of a group that shares memory with the one before. Without threads, so that this
/// thread runs each step with the bug.
pub(crate) fn a_stream_that_lacks_transactions(bug: Option<Mutant>) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let _injected = inject(bug);
    let found = observe(&dir.path().join("pool"));
    found.unwrap_or_else(|error| Some(error.to_string()))
}

fn observe(path: &std::path::Path) -> Result<Option<String>, Error> {
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).background(false);
    let pool = Pool::create(path, options.replicated(true))?;
    let feed = pool.feed()?;
    let mut last = pool.committed_id();
    for value in 0..6_u64 {
        let _ = pool.run(|tx| tx.alloc(value))?;
        pool.flush()?;
        let Some(group) = feed.next(Duration::ZERO)? else {
            return Ok(Some(format!("the feed gets nothing after {last}")));
        };
        if group.first.0 != last.0 + 1 {
            return Ok(Some(format!("the feed gets {} after {last}", group.first)));
        }
        last = group.last;
        if value == 0 {
            feed.replicated(last)?;
        }
        while pool.design().reproduce_step()? {}
        let (reproduced, replicated) = (pool.reproduced_id(), pool.replicated_id());
        if Some(reproduced) > replicated {
            return Ok(Some(format!("{reproduced} is in the heap image, not in the stream")));
        }
    }
    pool.abandon();
    Ok(None)
}

/// A pool whose stream has the first of two transactions drops the second one.
pub(crate) fn a_deposed_primary(bug: Option<Mutant>) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let _injected = inject(bug);
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    [("file", Medium::File), ("emulated", emulated)].into_iter().find_map(|(name, medium)| {
        let path = dir.path().join(name);
        // An error is no detection.
        rejoin(&path, medium).unwrap()
    })
}

fn rejoin(path: &std::path::Path, medium: Medium) -> Result<Option<String>, Error> {
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).background(false);
    let pool = Pool::create(path, options.clone().medium(medium).replicated(true))?;
    let kept = pool.run(|tx| tx.alloc(1_u64))?.ticket.id();
    pool.flush()?;
    let feed = pool.feed()?;
    while pool.replicated_id() < Some(kept) {
        let Some(group) = feed.next(Duration::ZERO)? else { break };
        feed.replicated(group.last)?;
    }
    drop(feed);
    let _ = pool.run(|tx| tx.alloc(2_u64))?;
    pool.flush()?;
    pool.abandon();
    let pool = Pool::open(path, options.rejoining(kept))?;
    let found = pool.committed_id();
    Ok((found != kept).then(|| format!("the pool ends with {found}, not with {kept}")))
}

/// The lag stays within `max_lag` in a pool whose worker runs the persist steps.
pub(crate) fn a_stream_that_lags(bug: Option<Mutant>) -> Option<String> {
    const MAX_LAG: u64 = 16 << 10;
    let dir = tempfile::tempdir().unwrap();
    let _injected = inject(bug);
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    [("file", Medium::File), ("emulated", emulated)].into_iter().find_map(|(name, medium)| {
        let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).background(false);
        let options = options.medium(medium).replicated(true).max_lag(MAX_LAG);
        let pool = Pool::create(dir.path().join(name), options.patience(Duration::ZERO)).unwrap();
        let commits = (0..100_u64).map(|round| {
            let _ = pool.run(|tx| tx.alloc([round; 50]))?;
            pool.flush()
        });
        let is_stopped = commits.take_while(Result::is_ok).count() < 100;
        let lag = pool.metrics().unreplicated_bytes;
        pool.abandon();
        let wrong = !is_stopped || !(MAX_LAG / 2..=MAX_LAG).contains(&lag);
        wrong.then(|| format!("the stream lacks {lag} bytes, and commits go on"))
    })
}
