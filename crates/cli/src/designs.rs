//! The registry of designs and their variants, by command-line name.

use std::ffi::OsStr;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ValueEnum};
use lastword::design::Mvcc;
use lastword::{
    Decoupled, DecoupledEvicting, DecoupledSoftware, Design, Plain, Redo, Snapshot, Undo, Volatile,
};
use sim::design::ALL;

use crate::erased::AnyDesign;
use crate::failure::Failure;
use crate::load::{DurabilityName, Load};
use crate::shadow::{Paging, check_bound};

/// A design over the shadow that a load selects; only `decoupled` has several.
trait Over: Design {
    /// The design supports a bounded shadow.
    const HAS_BOUNDED_SHADOWS: bool = false;

    fn over(_load: &Load) -> AnyDesign {
        AnyDesign::of::<Self>()
    }
}

impl Over for Plain {}
impl Over for Volatile {}
impl Over for Undo {}
impl Over for Redo {}
impl Over for Mvcc {}
impl Over for Snapshot {}
impl Over for Decoupled {
    const HAS_BOUNDED_SHADOWS: bool = true;

    fn over(load: &Load) -> AnyDesign {
        match load.paging() {
            Paging::None => AnyDesign::of::<Decoupled>(),
            Paging::Software => AnyDesign::of::<DecoupledSoftware>(),
            Paging::Evicting => AnyDesign::of::<DecoupledEvicting>(),
        }
    }
}

/// One row a design: help text, variant, name, type, and the change to a load. Rows without a help
/// text are hidden: only figures of papers use them.
macro_rules! designs {
    ($($(#[$hidden:meta])? $help:literal
       $variant:ident $name:literal: $design:ty, $change:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
        pub(crate) enum DesignName {
            $(#[doc = $help] #[value(name = $name)] $(#[$hidden])? $variant,)*
        }

        impl DesignName {
            /// Returns the type-erased design, over the shadow that the load selects.
            pub(crate) fn erased(self, load: &Load) -> AnyDesign {
                let design = match self { $(DesignName::$variant => <$design>::over(load),)* };
                AnyDesign { reopens: design.reopens && load.keeps(), ..design }
            }

            /// Returns whether the design supports a bounded shadow.
            pub(crate) fn has_bounded_shadows(self) -> bool {
                match self { $(DesignName::$variant => <$design>::HAS_BOUNDED_SHADOWS,)* }
            }

            /// Returns whether the design has a pool.
            pub(crate) fn is_durable(self) -> bool {
                match self { $(DesignName::$variant => <$design>::DURABLE,)* }
            }

            /// Returns the command-line name; a variant's design has another name.
            pub(crate) fn name(self) -> &'static str {
                match self { $(DesignName::$variant => $name,)* }
            }

            /// Returns the load with this variant's changes.
            pub(crate) fn adjust(self, load: &Load) -> Load {
                let mut load = load.clone();
                let change: fn(&mut Load) = match self {
                    $(DesignName::$variant => $change,)*
                };
                change(&mut load);
                load
            }
        }
    };
}

designs! {
    "Bare memory, no isolation, one worker"
    Plain "plain": Plain, |_| ();
    "Transactional memory without durability"
    Volatile "volatile": Volatile, |_| ();
    "Run in memory, persist in the background, reproduce later"
    Decoupled "decoupled": Decoupled, |_| ();
    "decoupled; a commit returns when it is durable"
    DecoupledSync "decoupled-sync": Decoupled, |load| load.durability = DurabilityName::Sync;
    "decoupled; rings grow without bound, so no worker waits for room"
    DecoupledUnbounded "decoupled-unbounded": Decoupled, |load| load.unbounded = true;
    #[value(hide = true)]
    "decoupled; the log is freed without reproduction"
    DecoupledIdeal "decoupled-ideal": Decoupled, |load| load.ideal_reproduce = true;
    "Run on copies of objects; snapshot isolation; readers never wait"
    Snapshot "snapshot": Snapshot, |_| ();
    #[value(hide = true)]
    "snapshot; every written object is logged whole"
    SnapshotWhole "snapshot-whole": Snapshot, |load| load.whole_objects = true;
    #[value(hide = true)]
    "snapshot; a worker frees its log after every third transaction"
    SnapshotEager "snapshot-eager": Snapshot, |load| load.recycle_every = 3;
    #[value(hide = true)]
    "snapshot; up to three transactions of a worker commit as one group"
    SnapshotGroup "snapshot-group": Snapshot, |load| load.grouping.group = Some(3);
    #[value(hide = true)]
    "snapshot; nothing is logged"
    SnapshotUnlogged "snapshot-unlogged": Snapshot, |load| load.unlogged = true;
    "Run in place; old values are durable before words are overwritten"
    Undo "undo": Undo, |_| ();
    "Run in a buffer; new values are durable before words are overwritten"
    Redo "redo": Redo, |_| ();
    #[value(hide = true)]
    "Version lists in memory"
    Mvcc "mvcc": Mvcc, |_| ();
}

impl Load {
    /// That its shadow can be had with a design.
    ///
    /// # Errors
    /// What is to be left out of the command line.
    pub(crate) fn check_shadow(&self, design: DesignName) -> Result<(), Failure> {
        check_bound(self.shadow, self.shadow_bytes)?;
        match self.bounded_by() {
            Some(option) if !design.has_bounded_shadows() => {
                Err(Failure::NoBound { design: design.name(), option })
            }
            _ => Ok(()),
        }
    }
}

/// Reads a name; who asks here for a design of the simulated machine is told where it is.
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
        let is_known = DesignName::value_variants().iter().any(|design| value == design.name());
        if is_known || ALL.iter().all(|simulated| value != simulated.name) {
            return EnumValueParser::new().parse_ref(command, arg, value);
        }
        let (name, arg) = (value.display(), arg.map_or_else(String::new, Arg::to_string));
        let problem = format!(
            "invalid value '{name}' for '{arg}': it is a design of the simulated machine: run it \
             with `lastword sim run WORKLOAD --design {name}`, several with `lastword sim sweep`\n"
        );
        Err(clap::Error::raw(ErrorKind::InvalidValue, problem).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let all = DesignName::value_variants().iter();
        Some(Box::new(all.filter_map(DesignName::to_possible_value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn design_names_match_their_value_names() {
        for design in DesignName::value_variants() {
            let shown = design.to_possible_value().unwrap();
            assert_eq!(shown.get_name(), design.name());
        }
    }
}
