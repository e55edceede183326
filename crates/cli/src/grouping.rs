//! Command-line options of group commit.

use std::time::Duration;

use clap::Args;
use lastword::Options;
use serde::Serialize;

use crate::quantity::{microseconds, milliseconds};

/// Options of group commit.
#[derive(Clone, Copy, Debug, Args, Serialize)]
pub(crate) struct Grouping {
    /// Combine up to N transactions into one log group, which keeps the last value of each word
    /// [default: no combination; a group holds the records that are ready]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) group: Option<u64>,
    /// Milliseconds that a combined group waits for more transactions, unless a thread waits for
    /// the group [default: 1]
    #[arg(long, value_name = "T", value_parser = milliseconds)]
    #[arg(requires = "group")]
    pub(crate) group_ms: Option<u64>,
    /// Microseconds that the background thread pauses between groups while no thread waits. 0: the
    /// thread polls, which takes a core, and reproduces in small steps; workers help
    /// [default: 500]
    #[arg(long, value_name = "T", value_parser = microseconds)]
    pub(crate) pause_us: Option<u64>,
    /// Compress log groups with LZ4
    #[arg(long)]
    pub(crate) compress: bool,
    /// Threads that combine, compress and persist groups [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) persist_threads: Option<u64>,
}

impl Grouping {
    /// Returns the options with this grouping.
    pub(crate) fn put(&self, options: Options) -> Options {
        let mut options = options.group(self.group.unwrap_or(0)).compress(self.compress);
        if let Some(milliseconds) = self.group_ms {
            options = options.group_time(Duration::from_millis(milliseconds));
        }
        if let Some(microseconds) = self.pause_us {
            options = options.pause(Duration::from_micros(microseconds));
        }
        match self.persist_threads {
            Some(threads) => options.persist_threads(threads as usize),
            None => options,
        }
    }

    /// Formats the grouping as conditions of a measurement, each after a comma.
    pub(crate) fn show(&self) -> String {
        let mut text = match self.group {
            Some(group) => format!(", groups of {group}"),
            None => String::new(),
        };
        if let Some(milliseconds) = self.group_ms {
            text += &format!(" or {milliseconds} ms");
        }
        if let Some(microseconds) = self.pause_us {
            text += &format!(", every {microseconds} us");
        }
        if self.compress {
            text += ", compressed";
        }
        if let Some(threads) = self.persist_threads {
            text += &format!(", {threads} persist threads");
        }
        text
    }
}
