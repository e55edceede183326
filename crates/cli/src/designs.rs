//! The designs, and variants of them, by the names that the command line has for them: the one
//! list.

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

/// A design over the shadow that a load asks for: only `decoupled` has several.
trait Over: Design {
    /// Whether it can have a shadow with a bound.
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

/// A row for each: its help, variant and name, the design, and what it changes of a load. What help
/// does not list is for papers' figures.
macro_rules! designs {
    ($($(#[$hidden:meta])? $help:literal
       $variant:ident $name:literal: $design:ty, $change:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
        pub(crate) enum DesignName {
            $(#[doc = $help] #[value(name = $name)] $(#[$hidden])? $variant,)*
        }

        impl DesignName {
            /// The design, over the shadow that the load asks for, its type forgotten.
            pub(crate) fn erased(self, load: &Load) -> AnyDesign {
                let design = match self { $(DesignName::$variant => <$design>::over(load),)* };
                AnyDesign { reopens: design.reopens && load.keeps(), ..design }
            }

            /// Whether it can have a shadow with a bound.
            pub(crate) fn has_bounded_shadows(self) -> bool {
                match self { $(DesignName::$variant => <$design>::HAS_BOUNDED_SHADOWS,)* }
            }

            /// Whether it keeps anything in a pool.
            pub(crate) fn is_durable(self) -> bool {
                match self { $(DesignName::$variant => <$design>::DURABLE,)* }
            }

            /// Its name here; a variant's design has another.
            pub(crate) fn name(self) -> &'static str {
                match self { $(DesignName::$variant => $name,)* }
            }

            /// The load as this variant takes it.
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
    "The transactional memory alone"
    Volatile "volatile": Volatile, |_| ();
    "Run in memory, persist behind, reproduce later"
    Decoupled "decoupled": Decoupled, |_| ();
    "The same; a commit returns when it is durable"
    DecoupledSync "decoupled-sync": Decoupled, |load| load.durability = DurabilityName::Sync;
    "The same; a worker never waits for room in its ring, whatever memory that takes"
    DecoupledUnbounded "decoupled-unbounded": Decoupled, |load| load.unbounded = true;
    #[value(hide = true)]
    "The same; the log is freed and nothing goes home"
    DecoupledIdeal "decoupled-ideal": Decoupled, |load| load.ideal_reproduce = true;
    "Run on copies of objects; snapshot isolation; readers wait for nobody"
    Snapshot "snapshot": Snapshot, |_| ();
    #[value(hide = true)]
    "The same; all of each object that was written is logged"
    SnapshotWhole "snapshot-whole": Snapshot, |load| load.whole_objects = true;
    #[value(hide = true)]
    "The same; a worker frees the log behind every third transaction, not when it is full"
    SnapshotEager "snapshot-eager": Snapshot, |load| load.recycle_every = 3;
    #[value(hide = true)]
    "The same; up to three transactions of a worker are committed together"
    SnapshotGroup "snapshot-group": Snapshot, |load| load.grouping.group = Some(3);
    #[value(hide = true)]
    "The same; nothing is logged"
    SnapshotUnlogged "snapshot-unlogged": Snapshot, |load| load.unlogged = true;
    "Run in place; what words were is durable before they are written"
    Undo "undo": Undo, |_| ();
    "Run in a buffer; what words become is durable before they are written"
    Redo "redo": Redo, |_| ();
    #[value(hide = true)]
    "Lists of versions in memory"
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
    fn every_name_is_the_one_that_can_be_asked_for() {
        for design in DesignName::value_variants() {
            let shown = design.to_possible_value().unwrap();
            assert_eq!(shown.get_name(), design.name());
        }
    }
}
