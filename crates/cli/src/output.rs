//! Standard output: everything that a command prints goes through here.
//!
//! | standard output | the command |
//! |---|---|
//! | closed (`>&-`) | does nothing, says why, exit status 2 |
//! | cannot be written (a full disk, `/dev/full`) | says why, exit status 2 |
//! | a pipe whose reader has gone (`head`) | stops printing, and keeps its own exit status |
//!
//! A closed pipe is no error: its reader has read enough. The result of a command (`pool check`: 0
//! or 1) does not depend on its reader, so its exit status stays.

use std::io::{self, BufWriter, StdoutLock, Write};

use crate::failure::Failure;

/// Refuses to work where nothing that is printed arrives.
///
/// # Errors
/// [`Failure::NoOutput`] when the process was started with standard output closed.
pub(crate) fn check() -> Result<(), Failure> {
    if medium::stdio::stdout_was_closed() { Err(Failure::NoOutput) } else { Ok(()) }
}

/// Prints a report and a line's end.
///
/// # Errors
/// As [`stream`].
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    stream(|out| writeln!(out, "{text}"))
}

/// Prints what `write` writes.
///
/// # Errors
/// [`Failure::NoOutput`], or it could not be written; a reader that has gone is no error.
pub(crate) fn stream(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> Result<(), Failure> {
    check()?;
    let mut out = BufWriter::new(io::stdout().lock());
    let result = write(&mut out).and_then(|()| out.flush());
    // Dropped, a buffer tries once more to write what is left in it.
    let _ = out.into_parts();
    printed(result)
}

/// Prints what was asked for in place of a command: help, or the version.
///
/// # Errors
/// As [`stream`].
pub(crate) fn help(help: &clap::Error) -> Result<(), Failure> {
    check()?;
    // With colours where it is a terminal; the flush is of a last line without an end.
    printed(help.print().and_then(|()| io::stdout().flush()))
}

fn printed(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(Failure::io("cannot write to standard output")),
    }
}
