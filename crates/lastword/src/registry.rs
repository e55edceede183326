//! The registry of designs: one row for each, from which every list of designs derives.
//!
//! | list | derived by |
//! |---|---|
//! | recovery, by the name in the superblock | [`DesignInfo::in_superblock`] |
//! | names, help texts and properties on the command line | [`DesignInfo::ALL`] |
//! | designs chosen at run time, as by the crash explorer | [`AnyDesign`](crate::AnyDesign) |
//! | the C library's designs and their numbers | [`for_each_design!`](crate::for_each_design) |
//! | tests that run on every design | [`for_each_design!`](crate::for_each_design) |
//! | the table in docs/concepts/designs.md | `tests/registry.rs` writes it |
//! | the constants in `lastword.h` | `crates/capi/tests/header.rs` writes them |
//!
//! A row names the design's type. Properties on which compiled code depends, the name among them,
//! are constants of [`Design`]. The row has the rest: the number in C, texts, and recovery.
//!
//! Invariants:
//! - A number in C never changes and is never used again: programs are compiled with it.
//! - A name never changes: superblocks contain it, and recovery finds its rules by it.

use std::fmt;
use std::path::Path;

use medium::{HeapMedium, ReadLog};

use crate::design::Design;
use crate::recover::{self, Replayed};
use crate::superblock::{Superblock, padded};
use crate::{Error, slots};

/// Calls a macro with all rows, for code that needs the designs' types.
///
/// `for_each_design!([path::to::callback] tokens)` expands to
///
/// ```text
/// path::to::callback! {
///     [tokens]
///     volatile { Plain = 5: Type { .. } [..] }
///     durable { Decoupled = 0: Type { .. } ["decoupled-software": Type, Some(shadow); ..] .. }
///     research { Mvcc: Type { .. } [] }
/// }
/// ```
///
/// Designs in `research` exist for measurements alone: they have no number in C, and no help text
/// lists them. The last part of a row has the design's types for bounded shadows.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_design {
    ([$($callback:tt)+] $($tokens:tt)*) => {
        $($callback)+! {
            [$($tokens)*]
            volatile {
                Plain = 5: $crate::design::Plain {
                    about: "Bare memory, no isolation, one worker",
                    used_for: "the cost of everything else",
                    isolation: Isolation::None,
                    durability: Promise::Never,
                    log: LogFormat::None,
                    recovery: None,
                } []
                Volatile = 4: $crate::design::Volatile {
                    about: "Transactional memory without durability",
                    used_for: "the cost of durability",
                    isolation: Isolation::Serializable,
                    durability: Promise::Never,
                    log: LogFormat::None,
                    recovery: None,
                } []
            }
            durable {
                Decoupled = 0: $crate::design::Decoupled {
                    about: "Run in memory, persist in the background, reproduce later",
                    used_for: "almost everything",
                    isolation: Isolation::Serializable,
                    durability: Promise::InBackground,
                    log: LogFormat::Groups,
                    recovery: Some(Recovery {
                        replay: recover::replay,
                        salvage: recover::salvage,
                    }),
                } [
                    "decoupled-software":
                        $crate::design::DecoupledSoftware, Some($crate::Shadow::Software);
                    "decoupled-evicting":
                        $crate::design::DecoupledEvicting, Some($crate::Shadow::CopyOnWrite);
                ]
                Snapshot = 1: $crate::design::Snapshot {
                    about: "Run on copies of objects; snapshot isolation; readers never wait",
                    used_for: "many reads beside few writes, on fast memory",
                    isolation: Isolation::Snapshot,
                    durability: Promise::OnReturn,
                    log: LogFormat::Slots { grouped: true },
                    recovery: Some(Recovery { replay: slots::replay, salvage: slots::salvage }),
                } []
                Undo = 2: $crate::design::Undo {
                    about: "Run in place; old values are durable before words are overwritten",
                    used_for: "comparison: undo logging, as in libpmemobj",
                    isolation: Isolation::Serializable,
                    durability: Promise::OnReturn,
                    log: LogFormat::Slots { grouped: false },
                    recovery: Some(Recovery {
                        replay: slots::take_back,
                        salvage: slots::salvage_undo,
                    }),
                } []
                Redo = 3: $crate::design::Redo {
                    about: "Run in a buffer; new values are durable before words are overwritten",
                    used_for: "comparison: redo logging, as in Mnemosyne",
                    isolation: Isolation::Serializable,
                    durability: Promise::OnReturn,
                    log: LogFormat::Slots { grouped: false },
                    recovery: Some(Recovery { replay: slots::replay_all, salvage: slots::salvage }),
                } []
            }
            research {
                Mvcc: $crate::design::Mvcc {
                    about: "Version lists in memory",
                    used_for: "comparison: what Pisces's authors measured against",
                    isolation: Isolation::Snapshot,
                    durability: Promise::Never,
                    log: LogFormat::None,
                    recovery: None,
                } []
            }
        }
    };
}

/// The isolation of transactions from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// None; one worker.
    None,
    /// Snapshot isolation, with write skew where a transaction does not
    /// [protect](words::Words::protect) what its decision depends on.
    Snapshot,
    /// Serializable.
    Serializable,
}

/// The moment at which a committed transaction is durable, unless
/// [`Durability::Sync`](crate::Durability::Sync) makes the commit wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Never: the pool has no file.
    Never,
    /// When the commit returns. Where a worker's transactions form
    /// [groups](crate::Options::group): when the group ends.
    OnReturn,
    /// Soon afterwards; the transaction's [`Ticket`](crate::Ticket) reports it.
    InBackground,
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isolation::None => "none, one worker",
            Isolation::Snapshot => "snapshot isolation",
            Isolation::Serializable => "serializable",
        })
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::Never => "never",
            Promise::OnReturn => "when `run` returns",
            Promise::InBackground => "in the background; the ticket reports it",
        })
    }
}

/// The log of a design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// The design has no log.
    None,
    /// One log of groups, which all workers share.
    Groups,
    /// A slot of the log area for each worker.
    Slots {
        /// [`Options::group`](crate::Options::group) combines the transactions of a worker.
        grouped: bool,
    },
}

/// A recovery procedure: applies the log to the heap image.
pub(crate) type Replay =
    fn(&Superblock, &dyn ReadLog, &mut dyn HeapMedium, &Path) -> Result<Replayed, Error>;

/// The recovery of a design's pools.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    pub(crate) replay: Replay,
    /// The same for a copy of a damaged pool: applies what is whole.
    pub(crate) salvage: Replay,
}

/// A row of the registry: the properties of a design.
///
/// ```
/// use lastword::{DesignInfo, Isolation};
///
/// let strict = |design: &&DesignInfo| design.isolation == Isolation::Serializable;
/// for design in DesignInfo::ALL.iter().filter(|design| design.is_durable).filter(strict) {
///     println!("{:9} {}", design.name, design.about);
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct DesignInfo {
    /// [`Design::NAME`].
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    /// The use that it is made for.
    pub used_for: &'static str,
    /// The number of the constant in C; `None` for designs that exist for measurements alone.
    pub number: Option<u32>,
    /// [`Design::DURABLE`].
    pub is_durable: bool,
    /// The moment at which a committed transaction is durable.
    pub durability: Promise,
    /// The isolation of transactions.
    pub isolation: Isolation,
    /// The log.
    pub log: LogFormat,
    /// [`Design::WORKERS_MAX`].
    pub workers_max: usize,
    /// [`Design::ROLLS_BACK`].
    pub rolls_back: bool,
    /// [`Design::HAS_RECORDS`].
    pub(crate) has_records: bool,
    /// Recovery of a pool that the design wrote last; `None` for designs that are not durable.
    pub(crate) recovery: Option<Recovery>,
}

macro_rules! infos {
    (
        []
        volatile { $($volatile:tt)* }
        durable { $($durable:tt)* }
        research { $($research:tt)* }
    ) => {
        infos!($($volatile)* $($durable)* $($research)*);
    };
    ($($variant:ident $(= $number:literal)?: $design:ty { $($fact:tt)* } [$($types:tt)*])*) => {
        impl DesignInfo {
            /// All designs.
            pub const ALL: &'static [DesignInfo] = &[$(DesignInfo {
                name: <$design as Design>::NAME,
                number: infos!(@number $($number)?),
                is_durable: <$design as Design>::DURABLE,
                workers_max: <$design as Design>::WORKERS_MAX,
                rolls_back: <$design as Design>::ROLLS_BACK,
                has_records: <$design as Design>::HAS_RECORDS,
                $($fact)*
            }),*];
        }
    };
    (@number $number:literal) => { Some($number) };
    (@number) => { None };
}

for_each_design!([infos]);

// A durable design without rules would make pools that no program opens again.
const _: () = {
    let mut at = 0;
    while at < DesignInfo::ALL.len() {
        let DesignInfo { is_durable, durability, log, recovery, .. } = &DesignInfo::ALL[at];
        assert!(*is_durable == recovery.is_some());
        assert!(*is_durable != matches!(durability, Promise::Never));
        assert!(*is_durable != matches!(log, LogFormat::None));
        at += 1;
    }
};

impl DesignInfo {
    /// Returns the design of this name; `None` when no design has it.
    pub fn by_name(name: &str) -> Option<&'static DesignInfo> {
        DesignInfo::ALL.iter().find(|design| design.name == name)
    }

    /// Returns the properties of a design's type.
    ///
    /// # Panics
    /// If the type is not in the registry.
    pub const fn of<D: Design>() -> &'static DesignInfo {
        let mut at = 0;
        // Neither `==` of strings nor an iterator is available in constants.
        while !is_same(DesignInfo::ALL[at].name.as_bytes(), D::NAME.as_bytes()) {
            at += 1;
        }
        &DesignInfo::ALL[at]
    }

    /// Whether each worker writes single records to the log, and not groups.
    pub(crate) fn writes_records(&self) -> bool {
        matches!(self.log, LogFormat::Slots { .. })
    }

    /// Returns the design that wrote the pool last; `None` when this program has no such design,
    /// or cannot recover its pools.
    pub(crate) fn in_superblock(superblock: &Superblock) -> Option<&'static DesignInfo> {
        let durable = DesignInfo::ALL.iter().filter(|design| design.is_durable);
        durable.into_iter().find(|design| padded(design.name) == Some(superblock.design))
    }
}

const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([first, rest @ ..], [second, others @ ..]) = (one, other) {
        if *first != *second {
            return false;
        }
        (one, other) = (rest, others);
    }
    one.is_empty() && other.is_empty()
}
