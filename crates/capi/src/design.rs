//! Dispatch from C handles to the generic types of each design.
//!
//! A handle has no type parameter, but pools and workers do. [`Any`] holds one of them, and the
//! macros hold the only `match` over the designs.

use lastword::{Decoupled, Design, Plain, Pool, Redo, Snapshot, Undo, Volatile};

/// A type that exists for each design.
pub(crate) trait Each {
    /// The type for design `D`.
    type Of<D: Design>;
}

/// A value of one of the designs.
pub(crate) enum Any<E: Each> {
    Decoupled(E::Of<Decoupled>),
    Snapshot(E::Of<Snapshot>),
    Undo(E::Of<Undo>),
    Redo(E::Of<Redo>),
    Volatile(E::Of<Volatile>),
    Plain(E::Of<Plain>),
}

/// Selects [`Pool`]. A type cannot be passed without its parameter, so this marker stands for it.
pub(crate) struct Pools;

impl Each for Pools {
    type Of<D: Design> = Pool<D>;
}

/// Evaluates an expression for the design of a value.
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

/// Converts a value into another one of the same design.
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
