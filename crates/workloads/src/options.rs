//! Options of workloads: size, randomness and parallelism.

use crate::data::DataSet;

/// Number of clients whose values are distinguishable; an index is below this.
pub const CLIENTS_MAX: usize = 256;

/// Size, randomness and parallelism of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Scale of the tables; 1 is the size in the papers.
    pub scale: f64,
    /// Seed of the clients.
    pub seed: u64,
    /// Workers that will run transactions at the same time.
    pub workers: usize,
    /// Percentage of the transactions that write; the others read. `None`: the workload's own.
    pub update_percent: Option<u8>,
    /// Exponent of the Zipf distribution of keys, 0 for uniform. `None`: the workload's own.
    pub zipf: Option<f64>,
    /// Whether each worker uses its own part of the data, as far as the workload can.
    pub low_conflict: bool,
    /// The data set, where a workload has several. `None`: the first.
    pub data: Option<DataSet>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            scale: 1.0,
            seed: 1,
            workers: 1,
            update_percent: None,
            zipf: None,
            low_conflict: false,
            data: None,
        }
    }
}

impl Options {
    /// Returns the command-line name of the first transaction option that is given and is not in
    /// `supported`, the options that a workload supports.
    pub fn unsupported(&self, supported: Supported) -> Option<&'static str> {
        let Supported { update_percent, zipf, low_conflict, data } = supported;
        [
            (self.update_percent.is_some() && !update_percent, "--update-percent"),
            (self.zipf.is_some() && !zipf, "--zipf"),
            (self.low_conflict && !low_conflict, "--low-conflict"),
            (self.data.is_some() && !data, "--data"),
        ]
        .into_iter()
        .find_map(|(is_unheeded, name)| is_unheeded.then_some(name))
    }
}

/// The transaction options that a workload supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supported {
    /// [`Options::update_percent`].
    pub update_percent: bool,
    /// [`Options::zipf`].
    pub zipf: bool,
    /// [`Options::low_conflict`].
    pub low_conflict: bool,
    /// [`Options::data`].
    pub data: bool,
}

impl Supported {
    /// No option.
    pub const NOTHING: Supported =
        Supported { update_percent: false, zipf: false, low_conflict: false, data: false };
}

/// Returns `count` times the scale, at least `least`.
pub(crate) fn scaled(count: u64, options: &Options, least: u64) -> u64 {
    // A float beyond the integers becomes the nearest one; no pool holds 2^40 of anything.
    ((count as f64 * options.scale).round() as u64).clamp(least, 1 << 40)
}

/// Returns the heap for `bytes` of objects with their headers. It adds the allocator's own memory
/// and the slabs that arenas have begun: one for each of the few sizes in each of 32 arenas.
pub(crate) fn with_slack(bytes: u64) -> u64 {
    bytes + bytes / 16 + (24 << 20)
}
