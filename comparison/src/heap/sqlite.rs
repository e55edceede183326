//! SQLite in WAL mode: a table of blobs by row number.
//!
//! `synchronous=NORMAL` syncs nothing at a commit: a checkpoint syncs the log and the database, and
//! runs in the commit after which the log has 1000 pages. Each worker has a connection of its own.
//! A transaction begins with the write lock, for which a second worker waits in SQLite's busy
//! handler.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use zerocopy::IntoBytes;

use super::Setup;
use super::progress::Progress;
use super::record::{self, Stamp};
use super::script::Writes;
use super::store::{Session, Store, System};
use crate::failure::Failure;

/// Records that one transaction of loading inserts.
const LOADED_RECORDS: u64 = 100_000;

/// How long a worker waits for the write lock before the comparison fails.
const BUSY: Duration = Duration::from_secs(600);

/// A database with one table.
#[derive(Debug)]
pub(crate) struct Sqlite {
    path: PathBuf,
    /// Open as long as the store, so that the last worker's end does not close the database.
    connection: Mutex<Connection>,
}

fn connect(path: &Path) -> Result<Connection, Failure> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let what = format!("journal mode is {mode}: this file system does not support WAL mode");
        return Err(Failure::Wrong { system: "SQLite", what });
    }
    connection.execute_batch("PRAGMA synchronous=NORMAL")?;
    Ok(connection)
}

/// Runs a statement without results, which the connection prepares once.
fn run(connection: &Connection, sql: &str) -> Result<(), Failure> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

impl Store for Sqlite {
    type Session<'s> = Connection;

    const SYSTEM: System = System::Sqlite;

    fn create(dir: &Path, setup: &Setup) -> Result<Sqlite, Failure> {
        let store = Sqlite::open(dir, setup)?;
        let connection = store.connection.lock().unwrap_or_else(PoisonError::into_inner);
        run(&connection, "CREATE TABLE records (id INTEGER PRIMARY KEY, record BLOB NOT NULL)")?;
        drop(connection);
        Ok(store)
    }

    fn open(dir: &Path, _setup: &Setup) -> Result<Sqlite, Failure> {
        let path = dir.join("records.db");
        let connection = Mutex::new(connect(&path)?);
        Ok(Sqlite { path, connection })
    }

    fn load(&self, setup: &Setup, progress: &mut Progress) -> Result<(), Failure> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut record = vec![0; setup.record_words];
        for first in (0..setup.records).step_by(LOADED_RECORDS as usize) {
            let end = (first + LOADED_RECORDS).min(setup.records);
            run(&connection, "BEGIN IMMEDIATE")?;
            let mut insert = connection.prepare_cached("INSERT INTO records VALUES (?1, ?2)")?;
            for index in first..end {
                record::fill(&mut record, index, Stamp::LOADED);
                insert.execute((index as i64, record.as_bytes()))?;
            }
            run(&connection, "COMMIT")?;
            progress.reached(end);
        }
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    fn session(&self) -> Result<Connection, Failure> {
        connect(&self.path)
    }

    /// The last connection runs a checkpoint and removes the log.
    fn close(self) -> Result<(), Failure> {
        let connection = self.connection.into_inner().unwrap_or_else(PoisonError::into_inner);
        connection.close().map_err(|(_, error)| error.into())
    }
}

impl Session for Connection {
    fn replace(&mut self, writes: &Writes) -> Result<(), Failure> {
        run(self, "BEGIN IMMEDIATE")?;
        let mut update = self.prepare_cached("UPDATE records SET record = ?2 WHERE id = ?1")?;
        for (index, record) in writes.iter() {
            update.execute((index as i64, record.as_bytes()))?;
        }
        run(self, "COMMIT")
    }

    fn read(&mut self, index: u64, record: &mut [u64]) -> Result<bool, Failure> {
        let mut select = self.prepare_cached("SELECT record FROM records WHERE id = ?1")?;
        let is_whole = select.query_row([index as i64], |row| {
            let bytes = row.get_ref(0)?.as_blob()?;
            let is_whole = bytes.len() == 8 * record.len();
            if is_whole {
                record.as_mut_bytes().copy_from_slice(bytes);
            }
            Ok(is_whole)
        });
        Ok(is_whole.optional()?.unwrap_or(false))
    }
}
