//! What arrived at memory controllers, as text that other memory simulators read.
//!
//! ```text
//!   time  R or W  address          cycles of the cores' clock; the line's first byte, in hex
//!   1203  R       0x000000004f40
//! ```
//! The requests are in the order of their times. Those to volatile memory lie behind persistent
//! memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::machine::when::Time;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrived.
    pub time: Time,
    /// Whether it writes.
    pub writes: bool,
    /// Which line.
    pub line: u32,
}

/// A file for them, which is there before anything is simulated.
pub(crate) struct Export {
    path: PathBuf,
    file: File,
}

impl Export {
    /// Makes the file, or opens it: what it has stays until there is something else to write.
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

    /// Writes them.
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
    // Several channels run at a moment, but none goes back in time.
    debug_assert!(requests.is_sorted_by_key(|request| request.time));
    let mut file = BufWriter::new(file);
    for Request { time, writes, line } in requests {
        let kind = if *writes { 'W' } else { 'R' };
        writeln!(file, "{time} {kind} {:#014x}", u64::from(*line) * 64)?;
    }
    file.flush()
}
