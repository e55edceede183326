//! Standard output: every command prints through this module.
//!
//! | standard output | the command |
//! |---|---|
//! | closed (`>&-`) | does no work, prints an error, exit status 2 |
//! | not writable (a full disk, `/dev/full`) | prints an error, exit status 2 |
//! | a pipe closed by its reader (`head`) | stops printing, keeps its own exit status |
//!
//! A closed pipe is no error: its reader has read enough. The verdict of a command (`pool check`: 0
//! or 1) does not depend on its reader.

use std::io::{self, BufWriter, StdoutLock, Write};

use crate::failure::Failure;

/// Fails early if no output could arrive.
///
/// # Errors
/// [`Failure::NoOutput`] when the process was started with standard output closed.
pub(crate) fn check() -> Result<(), Failure> {
    if medium::stdio::stdout_was_closed() { Err(Failure::NoOutput) } else { Ok(()) }
}

/// Prints a report and a newline.
///
/// # Errors
/// As [`stream`].
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    stream(|out| writeln!(out, "{text}"))
}

/// Prints the output of `write`.
///
/// # Errors
/// [`Failure::NoOutput`], or a failed write; a closed pipe is no error.
pub(crate) fn stream(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> Result<(), Failure> {
    check()?;
    let mut out = BufWriter::new(io::stdout().lock());
    let result = write(&mut out).and_then(|()| out.flush());
    // Detached before the drop: a buffer retries the failed write when it is dropped.
    let _ = out.into_parts();
    printed(result)
}

/// Prints the help or the version.
///
/// # Errors
/// As [`stream`].
pub(crate) fn help(help: &clap::Error) -> Result<(), Failure> {
    check()?;
    // In colors on a terminal. The flush completes a last line without a newline.
    printed(help.print().and_then(|()| io::stdout().flush()))
}

fn printed(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(Failure::io("cannot write to standard output")),
    }
}
