//! The designs, and variants of them, by the names that the command line has for them: the one
//! list.

use clap::ValueEnum;
use lastword::{
    Decoupled, DecoupledEvicting, DecoupledSoftware, Design, Plain, Redo, Undo, Volatile,
};

use crate::args::{DurabilityName, Load};
use crate::shadow::Paging;

/// What to do with a design whose type is known only by name.
pub(crate) trait DesignVisitor {
    type Out;
    fn visit<D: Design>(self) -> Self::Out;
}

/// A design over the shadow that a load asks for: only `decoupled` has several.
trait Over: Design {
    /// Whether it can have a shadow with a bound.
    const HAS_BOUNDED_SHADOWS: bool = false;

    fn over<V: DesignVisitor>(_load: &Load, visitor: V) -> V::Out {
        visitor.visit::<Self>()
    }
}

impl Over for Plain {}
impl Over for Volatile {}
impl Over for Undo {}
impl Over for Redo {}
impl Over for Decoupled {
    const HAS_BOUNDED_SHADOWS: bool = true;

    fn over<V: DesignVisitor>(load: &Load, visitor: V) -> V::Out {
        match load.paging() {
            Paging::None => visitor.visit::<Decoupled>(),
            Paging::Software => visitor.visit::<DecoupledSoftware>(),
            Paging::Evicting => visitor.visit::<DecoupledEvicting>(),
        }
    }
}

/// A row for each: its help, variant and name, the design, and what it changes of a load.
macro_rules! designs {
    ($($help:literal $variant:ident $name:literal: $design:ty, $change:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
        pub(crate) enum DesignName {
            $(#[doc = $help] #[value(name = $name)] $variant,)*
        }

        impl DesignName {
            /// Calls the visitor with the design, over the shadow that the load asks for.
            pub(crate) fn dispatch<V: DesignVisitor>(self, load: &Load, visitor: V) -> V::Out {
                match self { $(DesignName::$variant => <$design>::over(load, visitor),)* }
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
    "Run in place; what words were is durable before they are written"
    Undo "undo": Undo, |_| ();
    "Run in a buffer; what words become is durable before they are written"
    Redo "redo": Redo, |_| ();
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
