//! Format of a report.

use clap::{Args, ValueEnum};

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Output {
    /// Output format: table for people, json for programs
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "table")]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}
