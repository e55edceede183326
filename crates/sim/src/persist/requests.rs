//! The requests that memory controllers served, exported as text for other memory simulators.
//!
//! ```text
//!   lastword     1203 R 0x000000004f40 nvm0 fill 3     cycles of the cores' clock; R or W; the
//!                1210 W 0x0000000061c0 nvm0 log_data - line's first byte; channel; purpose; core
//!   dramsim3     0x4f40 READ 962                       clocks of the channel's memory
//!   ramulator2   LD 0x4f40                             a trace of loads and stores
//! ```
//! Requests are in order of time. Those of designs' own controllers are included, and reads that a
//! design serves without the array are not. Addresses of volatile memory follow those of persistent
//! memory. A memory's clock is a quarter of a line's burst: eight transfers at double rate.

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
    /// The line.
    pub line: u32,
    /// The channel, those of persistent memory first.
    pub channel: u8,
    /// A write, as opposed to a read.
    pub writes: bool,
    /// The purpose: a key of `nvm_writes` in the JSON, `fill` or `design_read`.
    pub purpose: &'static str,
    /// The core that waits for it.
    pub core: Option<u8>,
}

/// The name of a channel, and the cycles of the cores in a clock of its memory.
pub(crate) type Channel = (String, f64);

/// The form of an exported trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// All that is known of each request.
    #[default]
    Lastword,
    /// The trace that DRAMsim3's `dramsim3main -t` reads.
    Dramsim3,
    /// The trace that Ramulator 2's `LoadStoreTrace` reads.
    Ramulator2,
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
    pub(crate) fn write(
        self,
        requests: &[Request],
        format: Format,
        channels: &[Channel],
    ) -> Result<(), Error> {
        let Export { path, file } = self;
        file.set_len(0)
            .and_then(|()| put(requests, format, channels, file))
            .map_err(|source| Error::Trace { path, source })
    }
}

fn put(requests: &[Request], format: Format, channels: &[Channel], file: File) -> io::Result<()> {
    // Several channels run at one time, but time never goes backwards.
    debug_assert!(requests.is_sorted_by_key(|request| request.time));
    let mut file = BufWriter::new(file);
    for request in requests {
        writeln!(file, "{}", text(request, format, channels))?;
    }
    file.flush()
}

/// Returns the line of a request.
fn text(request: &Request, format: Format, channels: &[Channel]) -> String {
    let Request { time, line, channel, writes, purpose, core } = *request;
    let address = u64::from(line) * 64;
    let (name, clock) = &channels[usize::from(channel)];
    match format {
        Format::Lastword => {
            let access = if writes { 'W' } else { 'R' };
            let core = core.map_or("-".to_owned(), |core| core.to_string());
            format!("{time} {access} {address:#014x} {name} {purpose} {core}")
        }
        Format::Dramsim3 => {
            let access = if writes { "WRITE" } else { "READ" };
            format!("{address:#x} {access} {}", (time as f64 / clock) as u64)
        }
        Format::Ramulator2 => format!("{} {address:#x}", if writes { "ST" } else { "LD" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_the_simulators() {
        let (writes, purpose, core) = (false, "fill", Some(3));
        let read = Request { time: 1203, line: 317, channel: 0, writes, purpose, core };
        let (writes, purpose, core) = (true, "log_data", None);
        let write = Request { time: 1210, line: 317, channel: 1, writes, purpose, core };
        // 2 GHz, and 1.25 ns a clock.
        let channels = [("nvm0".to_owned(), 2.5), ("dram0".to_owned(), 2.5)];
        let both = |format| [read, write].map(|it| text(&it, format, &channels));
        let own = ["1203 R 0x000000004f40 nvm0 fill 3", "1210 W 0x000000004f40 dram0 log_data -"];
        assert_eq!(both(Format::Lastword), own);
        assert_eq!(both(Format::Dramsim3), ["0x4f40 READ 481", "0x4f40 WRITE 484"]);
        assert_eq!(both(Format::Ramulator2), ["LD 0x4f40", "ST 0x4f40"]);
    }
}
