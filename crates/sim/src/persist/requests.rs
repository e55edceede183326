//! The requests that reached memory controllers, exported as text for other memory simulators.
//!
//! ```text
//!   time  R or W  address          cycles of the cores' clock; the line's first byte, in hex
//!   1203  R       0x000000004f40
//! ```
//! Requests are in order of time. Addresses of volatile memory follow those of persistent memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::machine::when::Time;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The time of arrival.
    pub time: Time,
    /// A write, as opposed to a read.
    pub writes: bool,
    /// The line.
    pub line: u32,
}

/// The export file, which is opened before the simulation starts.
pub(crate) struct Export {
    path: PathBuf,
    file: File,
}

impl Export {
    /// Opens or creates the file. Its old contents stay until [`write`](Export::write).
    ///
    /// # Errors
    /// [`Error::Trace`].
    pub(crate) fn create(path: &Path) -> Result<Export, Error> {
        let path = path.to_owned();
        match File::options().write(true).create(true).truncate(false).open(&path) {
            Ok(file) => Ok(Export { path, file }),
            Err(source) => Err(Error::Trace { path, source }),
        }
    }

    /// Replaces the file's contents by these requests.
    ///
    /// # Errors
    /// [`Error::Trace`].
    pub(crate) fn write(self, requests: &[Request]) -> Result<(), Error> {
        let Export { path, file } = self;
        file.set_len(0)
            .and_then(|()| put(requests, file))
            .map_err(|source| Error::Trace { path, source })
    }
}

fn put(requests: &[Request], file: File) -> io::Result<()> {
    // Several channels run at one time, but time never goes backwards.
    debug_assert!(requests.is_sorted_by_key(|request| request.time));
    let mut file = BufWriter::new(file);
    for Request { time, writes, line } in requests {
        let kind = if *writes { 'W' } else { 'R' };
        writeln!(file, "{time} {kind} {:#014x}", u64::from(*line) * 64)?;
    }
    file.flush()
}
