//! Primaries and followers of a stream.

use std::path::Path;
use std::time::Duration;

use faults::mutants::{Mutant, inject};
use lastword::{Objects, Options, Pool, Ptr, TxId};
use replica::{Error, Faults, FaultyStream, Follower, Link, LogStream, MemoryStream, Primary};

/// Time for a step of another thread. With a bug it may never come.
const SOON: Duration = Duration::from_secs(5);

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(1 << 20).patience(SOON)
}

/// Creates `0.pool` with a cell, and two copies, `1.pool` and `2.pool`.
fn pools(dir: &Path) -> Result<Ptr<u64>, Error> {
    let pool = Pool::create(dir.join("0.pool"), options())?;
    let cell = pool.run(|tx| tx.alloc(0_u64))?.value;
    pool.backup(dir.join("1.pool"))?;
    pool.backup(dir.join("2.pool"))?;
    pool.close()?;
    Ok(cell)
}

/// Runs a test with a bug. An error is a violation, too.
fn observe(
    bug: Option<Mutant>,
    test: impl FnOnce(&Path) -> Result<Option<String>, Error>,
) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let _injected = inject(bug);
    test(dir.path()).unwrap_or_else(|error| Some(error.to_string()))
}

fn open(dir: &Path, link: &Link) -> Result<Primary, Error> {
    Primary::begin(dir.join("0.pool"), options(), link)
}

fn follow(dir: &Path, link: &Link) -> Result<Follower, Error> {
    Follower::open(dir.join("1.pool"), options(), link)
}

/// No request reaches the stream, and no transaction may count as replicated.
pub(crate) fn a_stream_without_replies(bug: Option<Mutant>) -> Option<String> {
    observe(bug, |dir| {
        let cell = pools(dir)?;
        let stream = FaultyStream::new(MemoryStream::new(), Faults::default());
        let primary = open(dir, &Link::new(stream.clone()))?;
        stream.set_faults(Faults { lost_request: 1000, ..Faults::default() });
        let before = primary.pool().replicated_id();
        primary.pool().run(|tx| tx.set(cell, 1))?.ticket.wait()?;
        std::thread::sleep(Duration::from_millis(200));
        let now = primary.pool().replicated_id();
        let found = (now != before).then(|| format!("{now:?} counts as replicated"));
        stream.set_faults(Faults::default());
        primary.abandon();
        Ok(found)
    })
}

/// A follower is promoted, and the old primary goes on.
pub(crate) fn a_new_primary(bug: Option<Mutant>) -> Option<String> {
    observe(bug, |dir| {
        let cell = pools(dir)?;
        let stream = MemoryStream::new();
        let link = Link::new(stream);
        let old = open(dir, &link)?;
        let new = follow(dir, &link)?.promote()?;
        let acknowledged = old.pool().run(|tx| tx.set(cell, 1))?.ticket.wait_replicated();
        drop(new);
        Ok(acknowledged.is_ok().then(|| "a deposed primary acknowledges a transaction".into()))
    })
}

/// A follower applies a group that is larger than a message.
pub(crate) fn a_group_in_parts(bug: Option<Mutant>) -> Option<String> {
    observe(bug, |dir| {
        pools(dir)?;
        let link = Link::new(MemoryStream::with_message_bytes(300));
        let primary = open(dir, &link)?;
        let follower = follow(dir, &link)?;
        let ids: [u64; 100] = std::array::from_fn(|at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a));
        let done = primary.pool().run(|tx| tx.alloc(ids))?;
        follower.wait_for(done.ticket.id(), SOON)?;
        let found = follower.pool().run(|tx| tx.get(done.value))?.value;
        Ok((found != ids).then(|| "a follower has another value".into()))
    })
}

/// A writer ignores its fence, and a follower reads its message.
pub(crate) fn a_message_of_an_old_term(bug: Option<Mutant>) -> Option<String> {
    observe(bug, |dir| {
        let cell = pools(dir)?;
        let stream = MemoryStream::new();
        let link = Link::new(stream.clone());
        let old = open(dir, &link)?;
        let mut message = {
            old.pool().run(|tx| tx.set(cell, 1))?.ticket.wait_replicated()?;
            let (_, last) = stream.bounds()?;
            replica::message::Message::decode(&stream.get(last)?.unwrap()).unwrap()
        };
        let follower = Follower::open(dir.join("2.pool"), options(), &link)?;
        let new = follow(dir, &link)?.promote()?;
        let replica::message::Kind::Part { first, last, .. } = &mut message.kind else {
            panic!("{message:?}")
        };
        // It would continue the transactions of the stream.
        *first = TxId(new.status().replicated.0 + 1);
        *last = *first;
        let (applied, (_, end)) = (*first, stream.bounds()?);
        stream.append(end, &message.encode())?;
        let waited = follower.wait_for(applied, SOON);
        Ok(waited.is_ok().then(|| "a follower applies a message of an old term".into()))
    })
}

/// A primary with a transaction that the stream lacks is deposed, and follows.
pub(crate) fn a_former_primary_that_follows(bug: Option<Mutant>) -> Option<String> {
    observe(bug, |dir| {
        let cell = pools(dir)?;
        let memory = MemoryStream::new();
        let stream = FaultyStream::new(memory.clone(), Faults::default());
        let primary = open(dir, &Link::new(stream.clone()))?;
        primary.pool().run(|tx| tx.set(cell, 1))?.ticket.wait_replicated()?;
        stream.set_faults(Faults { lost_request: 1000, ..Faults::default() });
        primary.pool().run(|tx| tx.set(cell, 2))?.ticket.wait()?;
        primary.abandon();
        let link = Link::new(memory);
        let new = follow(dir, &link)?.promote()?;
        new.pool().run(|tx| tx.set(cell, 3))?.ticket.wait_replicated()?;
        let rejoined = Follower::open(dir.join("0.pool"), options(), &link)?;
        let last = new.status().replicated;
        rejoined.wait_for(last, SOON)?;
        let found = (rejoined.pool().committed_id(), rejoined.pool().run(|tx| tx.get(cell))?.value);
        Ok((found != (last, 3)).then(|| format!("the former primary has {found:?}")))
    })
}
