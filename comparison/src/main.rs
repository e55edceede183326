//! `comparison`: benchmarks of Lastword against other systems, on equal work, in interleaved
//! rounds.
//!
//! ```text
//!   stm          `volatile` against GCC's libitm and plain code             stm/
//!   durable      `undo`, `redo`, `decoupled` in memory, against libpmemobj  durable/
//!   disk         `decoupled`, asynchronous, against LMDB unsynced           disk/
//!   disk --sync  durable on return, against LMDB and the disk itself        disk/sync.rs
//!   heap         a heap larger than its log, against LMDB, RocksDB, SQLite  heap/
//! ```
//!
//! Every slice of a round creates a structure or store, loads it in the same way, and checks its
//! contents at the end. Unsafe code is in `stm/foreign.rs`, `durable/pmem.rs` and `heap/rocksdb.rs`
//! (the C side) and in `disk/lmdb.rs` (opening LMDB), each block with its reason.

mod disk;
mod draw;
#[cfg(pmemobj)]
mod durable;
mod failure;
mod heap;
mod report;
mod stm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Lastword beside foreign systems, on the same work, in interleaved rounds.
#[derive(Debug, Parser)]
#[command(name = "comparison", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The transactional memory alone, against libitm (method ml_wt) and plain code.
    Stm(stm::Options),
    /// Durable on fast memory, against libpmemobj.
    #[cfg(pmemobj)]
    Durable(durable::Options),
    /// A store on an ordinary file, against LMDB.
    Disk(disk::Options),
    /// Random writes to a heap larger than its log on a disk, against LMDB, RocksDB and SQLite.
    Heap(heap::Options),
    /// Draws the rates by second of `heap --rates`.
    HeapGraph(heap::GraphOptions),
    /// A run of `heap --kill`, in a process that its parent kills.
    #[command(hide = true)]
    HeapChild(heap::ChildOptions),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Stm(options) => stm::run(&options),
        #[cfg(pmemobj)]
        Command::Durable(options) => durable::run(&options),
        Command::Disk(options) if options.sync => disk::sync::run(&options),
        Command::Disk(options) => disk::run(&options),
        Command::Heap(options) => heap::run(&options),
        Command::HeapGraph(options) => heap::graph(&options),
        Command::HeapChild(options) => heap::child(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("comparison: {failure}");
            ExitCode::FAILURE
        }
    }
}
