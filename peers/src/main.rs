//! `peers`: Lastword beside foreign systems, on the same work, in interleaved rounds.
//!
//! ```text
//!   peers stm          `volatile` against GCC's libitm and plain code        stm/
//!   peers disk         `decoupled`, durable behind, against LMDB unsynced    disk/
//!   peers disk --sync  durable on return, against LMDB and the disk itself   disk/sync.rs
//! ```
//!
//! Every slice of a round works on a structure or store made for it, filled in the same way, and
//! checks at its end that what is there is what was written. Unsafe code is in `stm/foreign.rs`
//! (the C side) and `disk/lmdb.rs` (opening LMDB), each block with its reason.

mod disk;
mod draw;
mod failure;
mod report;
mod stm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Lastword beside foreign systems, on the same work, in interleaved rounds.
#[derive(Debug, Parser)]
#[command(name = "peers", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The transactional memory alone, against libitm (method ml_wt) and plain code.
    Stm(stm::Options),
    /// A store on an ordinary file, against LMDB.
    Disk(disk::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Stm(options) => stm::run(&options),
        Command::Disk(options) if options.sync => disk::sync::run(&options),
        Command::Disk(options) => disk::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("peers: {failure}");
            ExitCode::FAILURE
        }
    }
}
