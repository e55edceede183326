//! Names on the command line: the registry's designs, and variants of them.

use std::ffi::OsStr;
use std::fmt;

use clap::Arg;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use lastword::{Decoupled, Design, DesignInfo, Snapshot};
use sim::design::ALL;

use crate::erased::AnyDesign;
use crate::failure::Failure;
use crate::load::{DurabilityName, Load};
use crate::shadow::check_bound;

/// A design with changes to a load.
struct Variant {
    name: &'static str,
    about: &'static str,
    /// The name of the design.
    of: &'static str,
    /// The variant is in no help text: only figures of papers use it.
    is_hidden: bool,
    change: fn(&mut Load),
}

const VARIANTS: [Variant; 7] = [
    Variant {
        name: "decoupled-sync",
        about: "decoupled; a commit returns when it is durable",
        of: <Decoupled as Design>::NAME,
        is_hidden: false,
        change: |load| load.durability = DurabilityName::Sync,
    },
    Variant {
        name: "decoupled-unbounded",
        about: "decoupled; rings grow without bound, so no worker waits for room",
        of: <Decoupled as Design>::NAME,
        is_hidden: false,
        change: |load| load.unbounded = true,
    },
    Variant {
        name: "decoupled-ideal",
        about: "decoupled; the log is freed without reproduction",
        of: <Decoupled as Design>::NAME,
        is_hidden: true,
        change: |load| load.ideal_reproduce = true,
    },
    Variant {
        name: "snapshot-whole",
        about: "snapshot; every written object is logged whole",
        of: Snapshot::NAME,
        is_hidden: true,
        change: |load| load.whole_objects = true,
    },
    Variant {
        name: "snapshot-eager",
        about: "snapshot; a worker frees its log after every third transaction",
        of: Snapshot::NAME,
        is_hidden: true,
        change: |load| load.recycle_every = 3,
    },
    Variant {
        name: "snapshot-group",
        about: "snapshot; up to three transactions of a worker commit as one group",
        of: Snapshot::NAME,
        is_hidden: true,
        change: |load| load.grouping.group = Some(3),
    },
    Variant {
        name: "snapshot-unlogged",
        about: "snapshot; nothing is logged",
        of: Snapshot::NAME,
        is_hidden: true,
        change: |load| load.unlogged = true,
    },
];

/// A design of the registry or a variant, as the command line names it.
#[derive(Clone, Copy)]
pub(crate) struct DesignName {
    design: &'static AnyDesign,
    variant: Option<&'static Variant>,
}

impl DesignName {
    /// Returns all names: each design, then its variants.
    pub(crate) fn all() -> impl Iterator<Item = DesignName> {
        let designs = AnyDesign::all().iter().filter(|design| design.bounded.is_none());
        designs.flat_map(|design| {
            let variants = VARIANTS.iter().filter(|variant| variant.of == design.name).map(Some);
            [None].into_iter().chain(variants).map(|variant| DesignName { design, variant })
        })
    }

    /// Returns the design or variant of this name.
    pub(crate) fn by_name(name: &str) -> Option<DesignName> {
        DesignName::all().find(|design| design.name() == name)
    }

    /// Returns the type-erased design, over the shadow that the load selects.
    pub(crate) fn erased(self, load: &Load) -> &'static AnyDesign {
        let bounded = load.paging().and_then(|shadow| self.design.bounded_by(shadow));
        bounded.unwrap_or(self.design)
    }

    /// Returns the design's row in the registry.
    pub(crate) fn info(self) -> &'static DesignInfo {
        self.design
    }

    /// Returns whether the design has a pool.
    pub(crate) fn is_durable(self) -> bool {
        self.design.is_durable
    }

    /// Returns the command-line name; a variant's design has another name.
    pub(crate) fn name(self) -> &'static str {
        self.variant.map_or(self.design.name, |variant| variant.name)
    }

    /// Returns the load with this variant's changes.
    pub(crate) fn adjust(self, load: &Load) -> Load {
        let mut load = load.clone();
        if let Some(variant) = self.variant {
            (variant.change)(&mut load);
        }
        load
    }

    fn shown(self) -> PossibleValue {
        let (about, is_hidden) = match self.variant {
            Some(variant) => (variant.about, variant.is_hidden),
            None => (self.design.about, self.design.number.is_none()),
        };
        PossibleValue::new(self.name()).help(about).hide(is_hidden)
    }
}

impl fmt::Debug for DesignName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl Load {
    /// Checks that a design supports the shadow.
    ///
    /// # Errors
    /// [`Failure::FullHasNoBound`]; [`Failure::NoBound`], which names the unsupported option.
    pub(crate) fn check_shadow(&self, design: DesignName) -> Result<(), Failure> {
        check_bound(self.shadow, self.shadow_bytes)?;
        match self.bounded_by() {
            Some(option) if self.paging().and_then(|s| design.design.bounded_by(s)).is_none() => {
                Err(Failure::NoBound { design: design.name(), option })
            }
            _ => Ok(()),
        }
    }
}

/// Parses a name. The error for a design of the simulated machine says how to run it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DesignParser;

impl TypedValueParser for DesignParser {
    type Value = DesignName;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<DesignName, clap::Error> {
        if let Some(design) = value.to_str().and_then(DesignName::by_name) {
            return Ok(design);
        }
        if ALL.iter().all(|simulated| value != simulated.name) {
            let known = PossibleValuesParser::new(DesignName::all().map(DesignName::shown));
            let error = known.parse_ref(command, arg, value).err();
            return Err(error.expect("the name is not known"));
        }
        let (name, arg) = (value.display(), arg.map_or_else(String::new, Arg::to_string));
        let problem = format!(
            "invalid value '{name}' for '{arg}': it is a design of the simulated machine: run it \
             with `lastword sim run WORKLOAD --design {name}`, several with `lastword sim sweep`\n"
        );
        Err(clap::Error::raw(ErrorKind::InvalidValue, problem).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(DesignName::all().map(DesignName::shown)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_design_of_the_registry_has_a_name() {
        for design in DesignInfo::ALL {
            let name = DesignName::by_name(design.name).unwrap();
            assert_eq!(name.shown().is_hide_set(), design.number.is_none(), "{}", design.name);
        }
    }

    #[test]
    fn every_variant_belongs_to_a_design() {
        let named = DesignName::all().filter(|design| design.variant.is_some()).count();
        assert_eq!(named, VARIANTS.len());
    }
}
