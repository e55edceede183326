//! What arrived at memory controllers, as text that other memory simulators read.
//!
//! ```text
//!   time  R or W  address          cycles of the cores' clock; the line's first byte, in hex
//!   1203  R       0x000000004f40
//! ```
//! The requests are in the order of their times. Those to volatile memory lie behind persistent
//! memory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

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

/// Writes them to a file.
pub(crate) fn export(requests: &[Request], path: &Path) -> std::io::Result<()> {
    // Several channels run at a moment, but none goes back in time.
    debug_assert!(requests.is_sorted_by_key(|request| request.time));
    let mut file = BufWriter::new(File::create(path)?);
    for Request { time, writes, line } in requests {
        let kind = if *writes { 'W' } else { 'R' };
        writeln!(file, "{time} {kind} {:#014x}", u64::from(*line) * 64)?;
    }
    file.flush()
}
