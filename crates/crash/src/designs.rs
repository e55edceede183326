//! The table of crash-tested designs; a row is all that a design needs.

use std::path::Path;

use lastword::{AnyPool, Design, Error, Options, Pool};
use lastword::{
    Decoupled, DecoupledEvicting, DecoupledSoftware, Redo, Snapshot, Undo, perform::Serial,
};

/// A design, with the functions that create or open a pool of it.
#[derive(Debug)]
pub(crate) struct AnyDesign {
    pub(crate) name: &'static str,
    pub(crate) create: Begin,
    pub(crate) open: Begin,
}

type Begin = fn(&Path, Options) -> Result<Box<dyn AnyPool>, Error>;

impl AnyDesign {
    const fn of<D: Design>(name: &'static str) -> AnyDesign {
        AnyDesign {
            name,
            create: |path, options| Ok(Box::new(Pool::<D>::create_as(path, options)?)),
            open: |path, options| Ok(Box::new(Pool::<D>::open_as(path, options)?)),
        }
    }

    /// Returns the design of this name; `None` when no design has it.
    pub(crate) fn by_name(name: &str) -> Option<&'static AnyDesign> {
        DESIGNS.iter().find(|design| design.name == name)
    }
}

macro_rules! designs {
    ($($name:literal: $design:ty,)*) => {
        /// The names of all durable designs.
        pub const NAMES: &[&str] = &[$($name),*];

        const DESIGNS: &[AnyDesign] = &[$(AnyDesign::of::<$design>($name)),*];
    };
}

designs! {
    "decoupled": Decoupled,
    "decoupled-serial": Decoupled<Serial>,
    "decoupled-software": DecoupledSoftware,
    "decoupled-evicting": DecoupledEvicting,
    "undo": Undo,
    "redo": Redo,
    "snapshot": Snapshot,
}
