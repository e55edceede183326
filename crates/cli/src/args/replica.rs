//! Arguments of `lastword replica` and `lastword feed`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Output, positive};

/// A pool on several machines.
#[derive(Debug, Subcommand)]
pub(crate) enum ReplicaCommand {
    /// Create an empty stream, with three copies on a NATS server
    Create(ReplicaCreate),
    /// Describe a stream: its term, its primary, its end, and settings that are a risk
    Status(ReplicaStatus),
    /// Follow the primary of a stream: apply its groups to a backup of its pool
    Follow(ReplicaFollow),
    /// Make a follower the primary of a stream, and fence the old one
    Promote(ReplicaPromote),
}

/// The stream of a command.
#[derive(Debug, Args)]
pub(crate) struct StreamUrl {
    /// Stream of the pool's log: `dir:PATH`, or `nats://HOST:PORT,.../STREAM`
    #[arg(long, value_name = "URL")]
    pub(crate) stream: String,
    /// Time to wait for the stream, in seconds
    #[arg(long, value_name = "S", default_value = "10", value_parser = positive)]
    pub(crate) patience: f64,
}

#[derive(Debug, Args)]
pub(crate) struct ReplicaCreate {
    /// URL of the new stream: `dir:PATH`, or `nats://HOST:PORT,.../STREAM`
    #[arg(value_name = "URL")]
    pub(crate) url: String,
}

#[derive(Debug, Args)]
pub(crate) struct ReplicaStatus {
    #[command(flatten)]
    pub(crate) stream: StreamUrl,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ReplicaFollow {
    /// Pool of the follower: a backup of the primary, or a former primary
    #[arg(value_name = "POOL")]
    pub(crate) pool: PathBuf,
    #[command(flatten)]
    pub(crate) stream: StreamUrl,
    /// Exit after applying the transactions that the stream has at the start
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplicaPromote {
    /// Pool of the follower; stop `replica follow` first
    #[arg(value_name = "POOL")]
    pub(crate) pool: PathBuf,
    #[command(flatten)]
    pub(crate) stream: StreamUrl,
}

#[derive(Debug, Args)]
pub(crate) struct Feed {
    #[command(flatten)]
    pub(crate) stream: StreamUrl,
    /// Begin after this transaction [default: the oldest in the stream]
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<u64>,
    /// Wait for further transactions instead of exiting after the last one
    #[arg(long)]
    pub(crate) follow: bool,
}
