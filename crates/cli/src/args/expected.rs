//! Arguments that say which pool a command expects: layout, version, lost log.

use clap::Args;
use lastword::CheckOptions;

/// Expectations about a pool.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Expected {
    /// Refuse a pool of another layout, as an application that opens it does [default: any]
    #[arg(long, value_name = "NAME")]
    pub(crate) layout: Option<String>,
    /// Layout version to expect with --layout
    #[arg(long, value_name = "N", requires = "layout", default_value = "0")]
    pub(crate) layout_version: u64,
    /// Accept a cleanly closed pool whose log is lost: `check --repair` creates a new log, and a
    /// file in the log's place is kept as NAME.log.lost
    #[arg(long)]
    pub(crate) without_log: bool,
}

impl Expected {
    pub(crate) fn options(&self) -> CheckOptions {
        let expected = CheckOptions::new().without_log(self.without_log);
        match &self.layout {
            Some(layout) => expected.layout(layout, self.layout_version),
            None => expected,
        }
    }
}
