//! The `lastword` program.
//!
//! Each command is a file, and returns a [`Verdict`](failure::Verdict) or the error that kept it
//! from running.
//!
//! | exit status | |
//! |---|---|
//! | 0 | success: every check held |
//! | 1 | a check failed |
//! | 2 | usage error, I/O error, or output that could not be written |
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
mod feed;
mod grouping;
mod kill;
mod kill_round;
mod kill_writer;
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
mod replica;
mod report;
mod reproduce;
mod run;
mod scrub;
mod setup;
mod shadow;
mod signals;
mod sim;
mod start_barrier;
mod temporary;
mod transfer;
mod trial;
mod typed;

use std::io::Write;
use std::process::ExitCode;
use std::thread;

use clap::Parser;

use crate::args::{Command, CommandLine, KillWriter};
use crate::failure::{Failure, Verdict};

/// Minimum stack of a command, and the default of Linux. Without optimizations the argument parser
/// alone takes some hundred KiB.
const STACK_BYTES: usize = 8 << 20;

fn main() -> ExitCode {
    exit(with_stack(run))
}

/// Runs a command on a stack that is large enough, whatever `ulimit -s` says. A thread is created
/// only for a smaller limit, since process slots may be scarce.
fn with_stack(run: fn() -> Result<Verdict, Failure>) -> Result<Verdict, Failure> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    if limit.is_none_or(|bytes| bytes >= STACK_BYTES as u64) {
        return run();
    }
    let main = thread::Builder::new().name("main".into()).stack_size(STACK_BYTES).spawn(run);
    let main = main.map_err(|source| Failure::Stack { limit: limit.unwrap_or(0), source })?;
    // Its panic was printed; the exit status equals that of a panic in `main`.
    main.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run() -> Result<Verdict, Failure> {
    // Ignored, so that a limit on file sizes (`ulimit -f`) is an error with a message.
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
    // Checked first: no work is done whose output would be lost.
    output::check()?;
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Pool(command) => pool::run(&command),
        Command::Replica(command) => replica::run(&command),
        Command::Feed(arguments) => feed::run(&arguments),
        Command::Measure(command) => measure::run(&command),
        Command::Crash(command) => crash::run(&command),
        Command::Sim(command) => sim::run(&command),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
    }
}

fn exit(done: Result<Verdict, Failure>) -> ExitCode {
    signals::wait_if_ending();
    match done {
        Ok(Verdict::Held) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::from(1),
        Err(failure) => {
            // A failed write to stderr cannot be reported anywhere.
            let _ = writeln!(std::io::stderr(), "error: {failure}");
            ExitCode::from(2)
        }
    }
}
