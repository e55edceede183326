//! A store of sessions that expire: found by token, and by the time of their expiry.
//!
//! ```text
//!   cargo run --release -p lastword --example sessions [PATH]
//! ```
//!
//! Two threads log users in, and a third removes expired sessions. Kill it at any time and run it
//! again: every session that it printed is there until it expires.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use lastword::prelude::*;

#[lastword::persist]
pub(crate) struct Session {
    user: u64,
    pub(crate) expires: u64, // milliseconds since 1970
}

pub(crate) struct ByExpiry;
impl Index<str, Session> for ByExpiry {
    type Key = u64;
    fn key(_: &String, session: &Session) -> Option<u64> {
        Some(session.expires)
    }
}

pub(crate) type Sessions = IndexedMap<str, Session, (ByExpiry,)>;

fn main() -> Result<(), Error> {
    let default = || std::env::temp_dir().join("lastword-example-sessions.pool");
    let path = std::env::args_os().nth(1).map_or_else(default, PathBuf::from);
    run(&path, 1000)
}

pub(crate) fn open(path: &Path) -> Result<(Pool, Sessions), Error> {
    let pool = Pool::open_or_create(path, Options::new().bytes(16 << 20).log_bytes(4 << 20))?;
    let sessions = pool.indexed_map("sessions")?;
    Ok((pool, sessions))
}

pub(crate) fn run(path: &Path, logins: u64) -> Result<(), Error> {
    let (pool, sessions) = open(path)?;
    println!("found {} sessions", pool.run(|tx| sessions.len(tx))?.value);
    thread::scope(|scope| {
        let serve = |number| serve(&pool, sessions, number, logins);
        let servers = [scope.spawn(move || serve(1)), scope.spawn(move || serve(2))];
        while !servers.iter().all(|server| server.is_finished()) {
            let expired = sessions.by(ByExpiry).range(..now());
            while !pool.run(|tx| expired.remove_step(tx, 100))?.value {}
            thread::sleep(Duration::from_millis(5));
        }
        servers.into_iter().try_for_each(|server| server.join().expect("a server panicked"))
    })
}

fn serve(pool: &Pool, sessions: Sessions, number: u64, logins: u64) -> Result<(), Error> {
    let mut worker = pool.worker()?;
    let start = now();
    for login in 0..logins {
        let (token, long) = (format!("{start}-{number}-{login}"), format!("{start}-{number}-0"));
        let session = Session { user: number, expires: now() + 20 };
        let renewed = Session { expires: now() + 3_600_000, ..session };
        // One transaction stores the new session and renews the first, or does neither.
        let done = worker.run(|tx| {
            sessions.insert(tx, &token, session)?;
            sessions.insert(tx, &long, renewed)
        })?;
        done.ticket.wait()?; // durable before it is shown
        println!("{token} {}\n{long} {}", session.expires, renewed.expires);
    }
    Ok(())
}

pub(crate) fn now() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_millis() as u64)
}
