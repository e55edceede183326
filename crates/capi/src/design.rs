//! One `match` over the designs.

use lastword::{Decoupled, Design, Plain, Pool, Redo, Snapshot, Undo, Volatile};

/// Something that there is of each design.
pub(crate) trait Each {
    /// That of this one.
    type Of<D: Design>;
}

/// That of any of them.
pub(crate) enum Any<E: Each> {
    Decoupled(E::Of<Decoupled>),
    Snapshot(E::Of<Snapshot>),
    Undo(E::Of<Undo>),
    Redo(E::Of<Redo>),
    Volatile(E::Of<Volatile>),
    Plain(E::Of<Plain>),
}

/// Pools.
pub(crate) struct Pools;

impl Each for Pools {
    type Of<D: Design> = Pool<D>;
}

/// Does the same for whatever design it is.
macro_rules! on {
    ($any:expr, $it:ident => $work:expr) => {
        match $any {
            $crate::design::Any::Decoupled($it) => $work,
            $crate::design::Any::Snapshot($it) => $work,
            $crate::design::Any::Undo($it) => $work,
            $crate::design::Any::Redo($it) => $work,
            $crate::design::Any::Volatile($it) => $work,
            $crate::design::Any::Plain($it) => $work,
        }
    };
}

/// Makes another of one, for the same design.
macro_rules! map {
    ($any:expr, $it:ident => $work:expr) => {
        match $any {
            $crate::design::Any::Decoupled($it) => $crate::design::Any::Decoupled($work),
            $crate::design::Any::Snapshot($it) => $crate::design::Any::Snapshot($work),
            $crate::design::Any::Undo($it) => $crate::design::Any::Undo($work),
            $crate::design::Any::Redo($it) => $crate::design::Any::Redo($work),
            $crate::design::Any::Volatile($it) => $crate::design::Any::Volatile($work),
            $crate::design::Any::Plain($it) => $crate::design::Any::Plain($work),
        }
    };
}

pub(crate) use {map, on};
