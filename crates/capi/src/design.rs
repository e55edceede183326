//! Dispatch over the designs of the registry, without type erasure: one `match` for each call.

use std::path::Path;

use lastword::{Design, DesignInfo, Error, Options, Pool, PoolReader, for_each_design};

/// A type that exists for each design, and for pools that are only read.
pub(crate) trait Each {
    /// The type for design `D`.
    type Of<D: Design>;
    /// The type for pools that are only read.
    type Reader;
}

/// Selects [`Pool`]. A type cannot be passed without its parameter, so this marker stands for it.
pub(crate) struct Pools;

impl Each for Pools {
    type Of<D: Design> = Pool<D>;
    type Reader = PoolReader;
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
        /// A value for one of the designs that have a number in C, or for a reader.
        pub(crate) enum Any<E: Each> {
            $($variant(E::Of<$design>),)*
            Reader(E::Reader),
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
        [$how:ident $any:expr, $it:ident => $work:expr; $reader:ident => $read:expr]
        volatile { $($volatile:tt)* }
        durable { $($durable:tt)* }
        research { $($research:tt)* }
    ) => {
        $crate::design::arms!(
            $how $any, $it => $work; $reader => $read; $($durable)* $($volatile)*
        )
    };
    (on $any:expr, $it:ident => $work:expr; $reader:ident => $read:expr;
     $($variant:ident = $number:literal: $design:ty { $($fact:tt)* } [$($types:tt)*])*) => {
        match $any {
            $($crate::design::Any::$variant($it) => $work,)*
            $crate::design::Any::Reader($reader) => $read,
        }
    };
    (map $any:expr, $it:ident => $work:expr; $reader:ident => $read:expr;
     $($variant:ident = $number:literal: $design:ty { $($fact:tt)* } [$($types:tt)*])*) => {
        match $any {
            $($crate::design::Any::$variant($it) => $crate::design::Any::$variant($work),)*
            $crate::design::Any::Reader($reader) => $crate::design::Any::Reader($read),
        }
    };
}

/// Evaluates an expression with the value of any design, and the same or another one with a
/// reader's.
macro_rules! on {
    ($any:expr, $it:ident => $work:expr) => {
        $crate::design::on!($any, $it => $work; $it => $work)
    };
    ($any:expr, $it:ident => $work:expr; $reader:ident => $read:expr) => {
        lastword::for_each_design!(
            [$crate::design::arms] on $any, $it => $work; $reader => $read
        )
    };
}

/// Converts a value into another one of the same design, or a reader's into another reader's.
macro_rules! map {
    ($any:expr, $it:ident => $work:expr; $reader:ident => $read:expr) => {
        lastword::for_each_design!(
            [$crate::design::arms] map $any, $it => $work; $reader => $read
        )
    };
}

pub(crate) use {arms, map, on};
