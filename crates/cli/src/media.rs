//! The media by the names that the command line has for them: the one list.

use clap::ValueEnum;
use lastword::Medium;

/// A medium's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MediumName {
    /// Any disk
    File,
    /// Persistent memory
    Dax,
    /// Memory that is kept with its caches
    #[value(name = "persistent_cache")]
    PersistentCache,
    /// Memory with the delays of a device
    Emulated,
}

/// What the emulated medium costs; others cost what they cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    pub(crate) latency_cycles: u64,
    /// 10^9 bytes a second; 0: no bound.
    pub(crate) bandwidth_gbps: f64,
}

impl MediumName {
    /// What a new pool is on when nothing is said.
    pub(crate) const DEFAULT: MediumName = MediumName::File;

    /// The name of what a pool is on.
    pub(crate) fn of(medium: Medium) -> MediumName {
        match medium {
            Medium::Emulated { .. } => MediumName::Emulated,
            Medium::Dax => MediumName::Dax,
            Medium::PersistentCache => MediumName::PersistentCache,
            _ => MediumName::File,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.medium(Costs::default()).name()
    }

    /// The medium of this name.
    pub(crate) fn medium(self, costs: Costs) -> Medium {
        match self {
            MediumName::File => Medium::File,
            MediumName::Dax => Medium::Dax,
            MediumName::PersistentCache => Medium::PersistentCache,
            MediumName::Emulated => Medium::Emulated {
                latency_cycles: costs.latency_cycles,
                // A float beyond the integers becomes the nearest one.
                bandwidth_bytes_per_second: (costs.bandwidth_gbps * 1e9) as u64,
            },
        }
    }

    /// Whether a pool that nobody keeps is best in a directory in memory.
    pub(crate) fn is_best_in_memory(self) -> bool {
        matches!(self, MediumName::Emulated | MediumName::PersistentCache)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_the_one_of_its_medium() {
        for name in MediumName::value_variants() {
            assert_eq!(MediumName::of(name.medium(Costs::default())), *name);
            let shown = name.to_possible_value().unwrap();
            assert_eq!(shown.get_name(), name.name(), "what is printed can be asked for");
        }
    }
}
