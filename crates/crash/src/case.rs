//! A case: design, workload, medium and options of an exploration, written as one line of text.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use faults::recording::Model;
use lastword::{AnyDesign, Durability, LogFormat, Medium, Options, Shadow};
use thiserror::Error;

use crate::workload::Scenario;

/// The model of the medium's durability (docs/internals/crash-model.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumModel {
    /// Mapped memory behind a cache.
    Memory,
    /// Mapped memory whose cache is durable.
    Cache,
    /// Files.
    File,
}

impl MediumModel {
    /// All models, with their names in traces and on the command line.
    pub const ALL: [(&'static str, MediumModel); 3] = [
        ("memory", MediumModel::Memory),
        ("cache", MediumModel::Cache),
        ("file", MediumModel::File),
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        let named = MediumModel::ALL.iter().find(|(_, model)| *model == self);
        named.expect("every model is in the table").0
    }

    /// Returns the medium that a pool is opened with.
    pub(crate) fn medium(self) -> Medium {
        match self {
            MediumModel::Memory => Medium::Dax,
            MediumModel::Cache => Medium::PersistentCache,
            MediumModel::File => Medium::File,
        }
    }
}

/// One case to explore. Equal cases have equal executions for equal choices.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The design's name.
    pub design: String,
    /// The workload's name.
    pub workload: String,
    /// The medium's model.
    pub medium: MediumModel,
    /// Whether a commit returns only when it is durable.
    pub sync: bool,
    /// Whether the shadow is a copy-on-write mapping, where the design does not fix it.
    pub cow: bool,
    /// Whether each boot opens the pool under any design.
    pub switch: bool,
    /// Whether the explorer also crashes during the pool's creation.
    pub create: bool,
    /// Partitions of the heap image.
    pub partitions: usize,
    /// Transactions of a combined group; 0: groups are not combined.
    pub group: usize,
    /// Records after which a worker of `snapshot` tries to free the log; 0: when it is full.
    pub recycle: usize,
    /// Whether reproduce steps write the pages that are due, with little memory for gathered words,
    /// as in large heaps on a disk.
    pub paced: bool,
    /// Whether the pool is also backed up while it is open.
    pub backup: bool,
    /// Whether the heap may grow: when it is full, and as a move of its own.
    pub grow: bool,
    /// Whether the log grows, as a move of its own.
    pub grow_log: bool,
    /// Whether the pages of the heap image have checksums, which each opening verifies.
    pub page_checksums: bool,
    /// Whether groups are compressed.
    pub compress: bool,
    /// Groups that may be prepared at a time. One thread prepares all of them here; with several
    /// it packs and stores a group in separate moves.
    pub persist_threads: usize,
    /// Workers, which alternate.
    pub workers: usize,
    /// Limit of committed transactions.
    pub transactions: usize,
    /// Limit of moves: transactions, steps, waits and others.
    pub moves: usize,
    /// Whether the picker also chooses other moves than the simplest: aborts, reads, bursts, other
    /// workers.
    pub all_moves: bool,
    /// The choices of the machine.
    pub model: Model,
    /// The injected bug.
    pub inject: Option<String>,
}

impl Case {
    /// Returns the smallest case: three transactions on four words, in memory, one crash.
    pub fn new(design: &str, workload: &str, medium: MediumModel) -> Case {
        Case {
            design: design.into(),
            workload: workload.into(),
            medium,
            sync: false,
            cow: false,
            switch: false,
            create: false,
            partitions: 1,
            group: 0,
            recycle: 0,
            paced: false,
            backup: false,
            grow: false,
            grow_log: false,
            page_checksums: false,
            compress: false,
            persist_threads: 1,
            workers: 1,
            transactions: 3,
            moves: 8,
            all_moves: false,
            model: Model::default(),
            inject: None,
        }
    }

    /// Changes the named fields, as in `sync=1 crashes=2`.
    ///
    /// # Errors
    /// A part that names no field or has a wrong value.
    pub fn change(&mut self, text: &str) -> Result<(), BadCase> {
        for part in text.split_whitespace() {
            let bad = || BadCase { part: part.to_owned() };
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            self.set(name, value)?;
        }
        Ok(())
    }

    /// Returns the pool's options under a design, except for its system.
    pub(crate) fn options(
        &self,
        design: &AnyDesign,
        Sizes { heap_bytes, log_bytes, shadow_pages }: Sizes,
    ) -> Options {
        let durability = if self.sync { Durability::Sync } else { Durability::Async };
        let log_bytes = match design.log {
            // A smaller log has slots too small for the larger scenarios.
            LogFormat::Slots { .. } => log_bytes.max(256 << 10),
            LogFormat::Groups | LogFormat::None => log_bytes,
        };
        let options = match design.bounded {
            Some(Shadow::Software) => bounded(Shadow::Software, shadow_pages).observed(),
            Some(shadow) => bounded(shadow, shadow_pages),
            None if self.cow => Options::new().shadow(Shadow::CopyOnWrite),
            None => Options::new(),
        };
        let options = match self.paced {
            true => options.gather_bytes(GATHER_BYTES),
            false => options,
        };
        let max_bytes = if self.grow { heap_bytes + GROWTHS * GROWTH_BYTES } else { 0 };
        options
            .bytes(heap_bytes)
            .max_bytes(max_bytes)
            .grow_step(GROWTH_BYTES)
            .page_checksums(self.page_checksums)
            .verify_at_open(true)
            .log_bytes(log_bytes)
            .ring_entries(log_bytes / 32)
            .medium(self.medium.medium())
            .durability(durability)
            .reproduce_threads(self.partitions)
            .group(self.group as u64)
            .recycle_every(self.recycle as u64)
            // A clock would make replays differ.
            .group_time(Duration::MAX)
            .compress(self.compress)
            .persist_threads(self.persist_threads)
            .background(false)
    }
}

/// How often a heap grows by hand, and by how much.
const GROWTHS: u64 = 6;
pub(crate) const GROWTH_BYTES: u64 = 64 << 10;
/// How often a log doubles.
pub(crate) const LOG_GROWTHS: u32 = 2;

/// Memory for gathered words in paced cases: a few hundred words in chains, or four dense pages.
const GATHER_BYTES: u64 = 16 << 10;

/// The sizes of a scenario's pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) heap_bytes: u64,
    pub(crate) log_bytes: u64,
    pub(crate) shadow_pages: u64,
}

impl Sizes {
    pub(crate) fn of<S: Scenario>() -> Sizes {
        let (heap_bytes, log_bytes) = (S::HEAP_BYTES, S::LOG_BYTES);
        Sizes { heap_bytes, log_bytes, shadow_pages: S::SHADOW_PAGES }
    }
}

/// Returns a shadow of so many pages.
fn bounded(shadow: Shadow, pages: u64) -> Options {
    Options::new().shadow(shadow).shadow_bytes(pages * 4096)
}

/// The fields, in order; `true` and `false` are 1 and 0.
macro_rules! fields {
    ($($name:literal: $($path:ident).+,)*) => {
        impl fmt::Display for Case {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "design={} workload={}", self.design, self.workload)?;
                write!(f, " medium={}", self.medium.name())?;
                let plain = Case::new(&self.design, &self.workload, self.medium);
                $(if self.$($path).+ != plain.$($path).+ {
                    write!(f, " {}={}", $name, self.$($path).+ as usize)?;
                })*
                match &self.inject {
                    Some(mutant) => write!(f, " inject={mutant}"),
                    None => Ok(()),
                }
            }
        }

        impl Case {
            fn set(&mut self, name: &str, value: &str) -> Result<(), BadCase> {
                let bad = || BadCase { part: format!("{name}={value}") };
                let number = || value.parse::<usize>().map_err(|_| bad());
                match name {
                    "design" => self.design = value.into(),
                    "workload" => self.workload = value.into(),
                    "inject" | "plant" => self.inject = Some(value.into()),
                    "medium" => {
                        let known = MediumModel::ALL.iter().find(|(known, _)| *known == value);
                        self.medium = known.ok_or_else(bad)?.1;
                    }
                    $($name => {
                        let fits = Number::put(&mut self.$($path).+, number()?);
                        return if fits && self.workers > 0 { Ok(()) } else { Err(bad()) };
                    })*
                    _ => return Err(bad()),
                }
                Ok(())
            }
        }
    };
}

/// A numeric field.
trait Number {
    /// Sets the field; returns whether it can have this value.
    fn put(&mut self, number: usize) -> bool;
}

impl Number for bool {
    fn put(&mut self, number: usize) -> bool {
        *self = number == 1;
        number <= 1
    }
}

/// Limit of workers, transactions, moves and crashes, far above every practical case.
const NUMBER_MAX: usize = 10_000;

impl Number for usize {
    fn put(&mut self, number: usize) -> bool {
        *self = number;
        number <= NUMBER_MAX
    }
}

fields! {
    "sync": sync,
    "cow": cow,
    "switch": switch,
    "create": create,
    "partitions": partitions,
    "group": group,
    "recycle": recycle,
    "paced": paced,
    "backup": backup,
    "grow": grow,
    "grow_log": grow_log,
    "page_checksums": page_checksums,
    "compress": compress,
    "persist_threads": persist_threads,
    "workers": workers,
    "transactions": transactions,
    "moves": moves,
    "all_moves": all_moves,
    "crashes": model.crashes,
    "kills": model.kills,
    "every_store": model.every_store,
    "every_word": model.every_word,
    "faults": model.faults,
    "sticky": model.sticky,
    "garbage": model.garbage,
    "queue": model.queue,
    "direct": model.direct,
    "dsync": model.dsync,
    "naming": model.naming,
}

/// A part of a case that names no field or has a wrong value.
#[derive(Debug, Error)]
#[error("`{part}` is not a valid part of a case; see `lastword crash explore --help`")]
pub struct BadCase {
    part: String,
}

impl FromStr for Case {
    type Err = BadCase;

    fn from_str(text: &str) -> Result<Case, BadCase> {
        let mut case = Case::new("decoupled", "cells", MediumModel::Memory);
        case.change(text)?;
        Ok(case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_round_trips_as_text() {
        let mut case = Case::new("decoupled", "bank", MediumModel::File);
        assert_eq!(case.to_string(), "design=decoupled workload=bank medium=file");
        assert_eq!(case.to_string().parse::<Case>().unwrap(), case);
        case.sync = true;
        case.moves = 99;
        case.partitions = 2;
        case.model.every_word = false;
        case.inject = Some("heap-not-synced".into());
        assert_eq!(case.to_string().parse::<Case>().unwrap(), case);
        assert!("design=decoupled colour=red".parse::<Case>().is_err());
        for bad in ["medium=stone", "workers=0", "garbage=2", "moves=99999999", "sync=-1"] {
            assert!(bad.parse::<Case>().is_err(), "{bad}");
        }
    }
}
