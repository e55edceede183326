//! Dispatch over the designs of the registry, without type erasure: one `match` for each call.

use std::path::Path;

use lastword::{Design, DesignInfo, Error, Options, Pool, for_each_design};

/// A type that exists for each design.
pub(crate) trait Each {
    /// The type for design `D`.
    type Of<D: Design>;
}

/// Selects [`Pool`]. A type cannot be passed without its parameter, so this marker stands for it.
pub(crate) struct Pools;

impl Each for Pools {
    type Of<D: Design> = Pool<D>;
}

macro_rules! any {
    (
        []
        volatile { $($volatile:tt)* }
        durable { $($durable:tt)* }
        research { $($research:tt)* }
    ) => {
        any!($($durable)* $($volatile)*);
    };
    ($($variant:ident = $number:literal: $design:ty { $($fact:tt)* } [$($types:tt)*])*) => {
        /// A value for one of the designs that have a number in C.
        pub(crate) enum Any<E: Each> {
            $($variant(E::Of<$design>),)*
        }

        /// Creates or opens a pool of the design with this number; `None` when no design has it.
        pub(crate) fn begin(
            path: &Path,
            options: Options,
            number: u32,
            is_new: bool,
        ) -> Result<Option<Any<Pools>>, Error> {
            Ok(Some(match number {
                $($number => Any::$variant(match is_new {
                    true => Pool::create_as(path, options)?,
                    false => Pool::open_as(path, options)?,
                }),)*
                _ => return Ok(None),
            }))
        }
    };
}

for_each_design!([any]);

/// Returns the names of the designs' constants in C, with their numbers.
pub fn constants() -> Vec<(String, u32)> {
    let constant =
        |design: &DesignInfo| Some((format!("LW_{}", design.name.to_uppercase()), design.number?));
    DesignInfo::ALL.iter().filter_map(constant).collect()
}

/// The arms of [`on!`] and [`map!`].
macro_rules! arms {
    (
        [$how:ident $any:expr, $it:ident => $work:expr]
        volatile { $($volatile:tt)* }
        durable { $($durable:tt)* }
        research { $($research:tt)* }
    ) => {
        $crate::design::arms!($how $any, $it => $work; $($durable)* $($volatile)*)
    };
    (on $any:expr, $it:ident => $work:expr;
     $($variant:ident = $number:literal: $design:ty { $($fact:tt)* } [$($types:tt)*])*) => {
        match $any {
            $($crate::design::Any::$variant($it) => $work,)*
        }
    };
    (map $any:expr, $it:ident => $work:expr;
     $($variant:ident = $number:literal: $design:ty { $($fact:tt)* } [$($types:tt)*])*) => {
        match $any {
            $($crate::design::Any::$variant($it) => $crate::design::Any::$variant($work),)*
        }
    };
}

/// Evaluates an expression with the value of any design.
macro_rules! on {
    ($any:expr, $it:ident => $work:expr) => {
        lastword::for_each_design!([$crate::design::arms] on $any, $it => $work)
    };
}

/// Converts a value into another one of the same design.
macro_rules! map {
    ($any:expr, $it:ident => $work:expr) => {
        lastword::for_each_design!([$crate::design::arms] map $any, $it => $work)
    };
}

pub(crate) use {arms, map, on};
