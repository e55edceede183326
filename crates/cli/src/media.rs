//! The registry of media, by command-line name.

use clap::ValueEnum;
use lastword::Medium;

/// A medium's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MediumName {
    /// Files on any file system
    File,
    /// Persistent memory, mounted with `-o dax`
    Dax,
    /// Memory that is preserved with the caches at a power failure (eADR, battery)
    #[value(name = "persistent_cache")]
    PersistentCache,
    /// Memory with emulated latency and bandwidth, for experiments
    Emulated,
}

/// Costs of the emulated medium; other media have their real costs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    pub(crate) latency_cycles: u64,
    /// 10^9 bytes a second; 0: no bound.
    pub(crate) bandwidth_gbps: f64,
}

impl MediumName {
    /// Medium of a new pool by default.
    pub(crate) const DEFAULT: MediumName = MediumName::File;

    /// Returns the name of a pool's medium.
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

    /// Returns the medium of this name.
    pub(crate) fn medium(self, costs: Costs) -> Medium {
        match self {
            MediumName::File => Medium::File,
            MediumName::Dax => Medium::Dax,
            MediumName::PersistentCache => Medium::PersistentCache,
            MediumName::Emulated => Medium::Emulated {
                latency_cycles: costs.latency_cycles,
                // The cast saturates for floats beyond the integers.
                bandwidth_bytes_per_second: (costs.bandwidth_gbps * 1e9) as u64,
            },
        }
    }

    /// Returns whether a temporary pool belongs into a directory in memory.
    pub(crate) fn is_best_in_memory(self) -> bool {
        matches!(self, MediumName::Emulated | MediumName::PersistentCache)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medium_names_match_their_value_names() {
        for name in MediumName::value_variants() {
            assert_eq!(MediumName::of(name.medium(Costs::default())), *name);
            let shown = name.to_possible_value().unwrap();
            assert_eq!(shown.get_name(), name.name(), "what is printed can be asked for");
        }
    }
}
