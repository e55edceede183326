//! The table of designs: a row here, and a design is crash-tested.

use lastword::Design;
use lastword::{Decoupled, DecoupledEvicting, DecoupledSoftware, Redo, Undo, perform::Serial};

/// What to do with a design that is known only by name.
pub trait Visitor {
    /// What comes out of it.
    type Out;

    /// Does it with this one.
    fn visit<D: Design>(self) -> Self::Out;
}

macro_rules! designs {
    ($($name:literal: $design:ty,)*) => {
        /// The names of all designs that keep anything.
        pub const NAMES: &[&str] = &[$($name),*];

        /// Calls `visitor` with the design of this name; `None` when there is none.
        pub fn by_name<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            $(if name == $name {
                return Some(visitor.visit::<$design>());
            })*
            None
        }
    };
}

designs! {
    "decoupled": Decoupled,
    "decoupled-serial": Decoupled<Serial>,
    "decoupled-software": DecoupledSoftware,
    "decoupled-evicting": DecoupledEvicting,
    "undo": Undo,
    "redo": Redo,
}
