//! The `lastword` program.
//!
//! Each command is a file; each returns a [`Verdict`](failure::Verdict), or why it could not be
//! run.
//!
//! | exit status | |
//! |---|---|
//! | 0 | everything that was checked holds |
//! | 1 | a check failed |
//! | 2 | it could not be run, was asked for wrongly, or its output could not be written |
//! | 128 + n | signal n ended it ([`signals`]) |

mod args;
mod check;
mod compare;
mod crash;
mod demo;
mod designs;
mod driver;
mod dump;
mod erased;
mod failure;
mod gate;
mod grouping;
mod kill;
mod kill_round;
mod kill_writer;
mod lap;
mod latency;
mod load;
mod machine;
mod manual;
mod measure;
mod media;
mod output;
mod pace;
mod pool;
mod presence;
mod quantity;
mod report;
mod reproduce;
mod run;
mod setup;
mod shadow;
mod signals;
mod sim;
mod temporary;
mod typed;

use std::io::Write;
use std::process::ExitCode;
use std::thread;

use clap::Parser;

use crate::args::{Command, CommandLine, KillWriter};
use crate::failure::{Failure, Verdict};

/// Bytes of the stack that a command needs at least: the parser of the command line takes some
/// hundred KiB in a build without optimizations. What Linux gives by default.
const STACK_BYTES: usize = 8 << 20;

fn main() -> ExitCode {
    exit(with_stack(run))
}

/// Runs a command on a stack that is large enough, whatever `ulimit -s` says. Only a smaller limit
/// costs a thread: a process slot may be scarce, too.
fn with_stack(run: fn() -> Result<Verdict, Failure>) -> Result<Verdict, Failure> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    if limit.is_none_or(|bytes| bytes >= STACK_BYTES as u64) {
        return run();
    }
    let main = thread::Builder::new().name("main".into()).stack_size(STACK_BYTES).spawn(run);
    let main = main.map_err(|source| Failure::Stack { limit: limit.unwrap_or(0), source })?;
    // Its panic was printed; the exit status is that of a panic in `main`.
    main.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run() -> Result<Verdict, Failure> {
    // A limit on the size of files (`ulimit -f`) is an error with a message, not a silent end.
    medium::signals::ignore_size_signal();
    signals::handle();
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == KillWriter::NAME) {
        return kill_writer::run(&KillWriter::parse_from(arguments));
    }
    let command = match CommandLine::read() {
        Ok(line) => line.command,
        Err(wrong) if wrong.use_stderr() => wrong.exit(),
        Err(help) => return output::help(&help).map(|()| Verdict::Held),
    };
    // Before anything is done whose outcome would not arrive.
    output::check()?;
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Pool(command) => pool::run(&command),
        Command::Measure(command) => measure::run(&command),
        Command::Crash(command) => crash::run(&command),
        Command::Sim(command) => sim::run(&command),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
    }
}

fn exit(done: Result<Verdict, Failure>) -> ExitCode {
    match done {
        Ok(Verdict::Held) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::from(1),
        Err(failure) => {
            // Nobody to tell when even this cannot be written.
            let _ = writeln!(std::io::stderr(), "error: {failure}");
            ExitCode::from(2)
        }
    }
}
