//! What is explored: a design, a workload, a medium, and how they run. One line of text says it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lastword::{Durability, Medium, Options, Shadow};
use medium::recording::Model;
use thiserror::Error;

use crate::workload::Scenario;

/// The model of what makes bytes durable (docs/internals/crash-model.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumModel {
    /// Mapped memory behind a cache.
    Memory,
    /// Mapped memory whose cache is kept.
    Cache,
    /// Files.
    File,
}

impl MediumModel {
    /// All of them, with the names that they have in traces and on the command line.
    pub const ALL: [(&'static str, MediumModel); 3] = [
        ("memory", MediumModel::Memory),
        ("cache", MediumModel::Cache),
        ("file", MediumModel::File),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let named = MediumModel::ALL.iter().find(|(_, model)| *model == self);
        named.expect("all are in the table").0
    }

    /// The medium that a pool is opened with.
    pub(crate) fn medium(self) -> Medium {
        match self {
            MediumModel::Memory => Medium::Dax,
            MediumModel::Cache => Medium::PersistentCache,
            MediumModel::File => Medium::File,
        }
    }
}

/// One thing to explore. Two equal cases have equal executions for equal choices.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The design's name.
    pub design: String,
    /// The workload's name.
    pub workload: String,
    /// The medium's model.
    pub medium: MediumModel,
    /// Whether a commit returns when it is durable.
    pub sync: bool,
    /// Whether the shadow is a copy-on-write mapping, where the design does not say what it is.
    pub cow: bool,
    /// Whether each boot opens the pool under any design.
    pub switch: bool,
    /// Whether the pool is made under the explorer's eyes, instead of being there already.
    pub create: bool,
    /// Parts of home.
    pub partitions: usize,
    /// Transactions of a combined group; 0: groups are as they come.
    pub group: usize,
    /// Records behind which a worker of `snapshot` tries to free the log; 0: when it is full.
    pub recycle: usize,
    /// Whether groups are compressed.
    pub compress: bool,
    /// Groups that may be made ready at a time. All by one thread here, which packs and stores a
    /// group apart from the others when there may be several.
    pub persist_threads: usize,
    /// Workers, which take turns.
    pub workers: usize,
    /// Transactions that are committed at most.
    pub transactions: usize,
    /// Moves at most: transactions, steps, waits and others.
    pub moves: usize,
    /// Whether moves are chosen beyond the simplest: aborts, reads, bursts, other workers.
    pub all_moves: bool,
    /// What the machine asks about.
    pub model: Model,
    /// The bug that is planted.
    pub plant: Option<String>,
}

impl Case {
    /// Three transactions on four words, in memory, one crash: the smallest.
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
            compress: false,
            persist_threads: 1,
            workers: 1,
            transactions: 3,
            moves: 8,
            all_moves: false,
            model: Model::default(),
            plant: None,
        }
    }

    /// Changes what the text names, as in `sync=1 crashes=2`.
    ///
    /// # Errors
    /// A part that says nothing.
    pub fn change(&mut self, text: &str) -> Result<(), BadCase> {
        for part in text.split_whitespace() {
            let bad = || BadCase { part: part.to_owned() };
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            self.set(name, value)?;
        }
        Ok(())
    }

    /// The pool's options under a design, but for its system.
    pub(crate) fn options(&self, design: &str, Sizes { heap_bytes, log_bytes }: Sizes) -> Options {
        let durability = if self.sync { Durability::Sync } else { Durability::Async };
        let log_bytes = match design {
            // Of a smaller one a slot is too small for the larger scenarios.
            "undo" | "redo" | "snapshot" => log_bytes.max(256 << 10),
            _ => log_bytes,
        };
        let options = match design {
            "decoupled-software" => bounded(Shadow::Software, heap_bytes).observed(),
            "decoupled-evicting" => bounded(Shadow::CopyOnWrite, heap_bytes),
            _ if self.cow => Options::new().shadow(Shadow::CopyOnWrite),
            _ => Options::new(),
        };
        options
            .bytes(heap_bytes)
            .log_bytes(log_bytes)
            .ring_entries(log_bytes / 32)
            .medium(self.medium.medium())
            .durability(durability)
            .reproduce_threads(self.partitions)
            .group(self.group as u64)
            .recycle_every(self.recycle as u64)
            // What a clock says would not be the same on the same way again.
            .group_time(Duration::MAX)
            .compress(self.compress)
            .persist_threads(self.persist_threads)
            .background(false)
    }
}

/// Sizes of a scenario's pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) heap_bytes: u64,
    pub(crate) log_bytes: u64,
}

impl Sizes {
    pub(crate) fn of<S: Scenario>() -> Sizes {
        Sizes { heap_bytes: S::HEAP_BYTES, log_bytes: S::LOG_BYTES }
    }
}

/// A shadow that the transactions here fit into, and not much more. Large heaps are those of
/// workloads that load many pages in one transaction.
fn bounded(shadow: Shadow, heap_bytes: u64) -> Options {
    let pages = if heap_bytes < 512 << 10 { 8 } else { heap_bytes >> 14 };
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
                match &self.plant {
                    Some(mutant) => write!(f, " plant={mutant}"),
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
                    "plant" => self.plant = Some(value.into()),
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

/// What a field is made of.
trait Number {
    /// Answers whether the field can have this value.
    fn put(&mut self, number: usize) -> bool;
}

impl Number for bool {
    fn put(&mut self, number: usize) -> bool {
        *self = number == 1;
        number <= 1
    }
}

/// More workers, transactions, moves or crashes than anybody explores.
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

/// A part of a case that says nothing.
#[derive(Debug, Error)]
#[error("`{part}` is no part of a case; see `lastword crash explore --help`")]
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
    fn a_case_says_itself_in_a_line() {
        let mut case = Case::new("decoupled", "bank", MediumModel::File);
        assert_eq!(case.to_string(), "design=decoupled workload=bank medium=file");
        assert_eq!(case.to_string().parse::<Case>().unwrap(), case);
        case.sync = true;
        case.moves = 99;
        case.partitions = 2;
        case.model.every_word = false;
        case.plant = Some("home-not-synced".into());
        assert_eq!(case.to_string().parse::<Case>().unwrap(), case);
        assert!("design=decoupled colour=red".parse::<Case>().is_err());
        for bad in ["medium=stone", "workers=0", "garbage=2", "moves=99999999", "sync=-1"] {
            assert!(bad.parse::<Case>().is_err(), "{bad}");
        }
    }
}
