//! P5: applications of STAMP (section 5.3, tables 3 to 5).
//!
//! The paper reports the seconds of a whole run. A trial runs a part of it, and the row
//! extrapolates from the trial's rate.

use super::{ALL_ROUNDS, CREWS, Work, cpu, seldom};
use crate::budget::Budget;
use crate::sheet::{Sheet, each, pairs, ratio};
use crate::trial::Trial;
use crate::trials::{Spec, Trials};

const DESIGNS: [&str; 2] = ["snapshot", "decoupled"];

/// An application by its name in rows.
struct Application {
    name: &'static str,
    workload: &'static str,
    more: &'static str,
    /// Transactions of a trial.
    transactions: u64,
    /// Transactions of a whole run.
    all: u64,
}

/// `ssca2` has 2^18 nodes, `ssca2-small` 2^13.
const APPLICATIONS: [Application; 4] = [
    Application {
        name: "kmeans",
        workload: "kmeans",
        more: "",
        transactions: 200_000,
        all: 1 << 20,
    },
    Application {
        name: "ssca2",
        workload: "ssca2",
        more: "",
        transactions: 600_000,
        all: 11_010_048,
    },
    Application {
        name: "ssca2-small",
        workload: "ssca2",
        more: " --scale 0.03125",
        transactions: 600_000,
        all: 344_064,
    },
    Application {
        name: "vacation",
        workload: "vacation",
        more: "",
        transactions: 80_000,
        all: 400_000,
    },
];

impl Application {
    fn work(&self) -> Work {
        Work { more: self.more.to_owned(), ..Work::new(self.workload, self.transactions) }
    }
}

/// Returns the workload that P9 shares.
pub(super) fn vacation() -> Work {
    APPLICATIONS[3].work()
}

pub(super) fn plan(budget: &Budget) -> Vec<Spec> {
    let mut specs = Vec::new();
    for application in &APPLICATIONS {
        for (workers, _) in CREWS {
            specs.extend(DESIGNS.map(|design| application.work().spec(design, workers, budget)));
        }
    }
    seldom(specs, ALL_ROUNDS, budget)
}

pub(super) fn judge(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for application in &APPLICATIONS {
        let (name, work) = (application.name, application.work());
        for (workers, crew) in CREWS {
            let of = |design: &str| trials.of(&work.on(design, workers, budget));
            for design in DESIGNS {
                let seconds = |trial: &Trial| application.all as f64 / trial.rate();
                let (trials, command) = (of(design), work.on(design, workers, budget));
                sheet
                    .row(format!("seconds/{name}/{design}/{crew}"), each(trials, seconds))
                    .note(format!("CPU of a transaction, ns: {}.", cpu(design, trials)))
                    .command(&command);
                let aborts = each(trials, Trial::aborts_percent);
                sheet.row(format!("aborts/{name}/{design}/{crew}"), aborts);
            }
            let faster = pairs(of("snapshot"), of("decoupled"), ratio);
            sheet.row(format!("ratio/{name}/{crew}"), faster);
        }
    }
}
