//! P5: applications of STAMP (section 5.3, tables 3 to 5).
//!
//! The paper has the seconds of a whole run; a lap here is a part of one, and its rate says how
//! long all of it would take.

use super::super::Budget;
use super::super::laps::{Lap, Laps, Spec};
use super::super::sheet::{Sheet, each, pairs, ratio};
use super::{ALL_ROUNDS, CREWS, Work, cpu, seldom};

const DESIGNS: [&str; 2] = ["snapshot", "decoupled"];

/// An application: its name in rows, what is run, and transactions of one run of the benchmark.
struct Application {
    name: &'static str,
    workload: &'static str,
    more: &'static str,
    /// Of a lap.
    transactions: u64,
    all: u64,
}

/// 2^18 nodes, and 2^13.
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

/// What P9 looks at, too.
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

pub(super) fn judge(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for application in &APPLICATIONS {
        let (name, work) = (application.name, application.work());
        for (workers, crew) in CREWS {
            let of = |design: &str| laps.of(&work.on(design, workers, budget));
            for design in DESIGNS {
                let seconds = |lap: &Lap| application.all as f64 / lap.rate();
                let (laps, command) = (of(design), work.on(design, workers, budget));
                sheet
                    .row(format!("seconds/{name}/{design}/{crew}"), each(laps, seconds))
                    .note(format!("CPU of a transaction, ns: {}.", cpu(design, laps)))
                    .command(&command);
                let aborts = each(laps, Lap::aborts_percent);
                sheet.row(format!("aborts/{name}/{design}/{crew}"), aborts);
            }
            let faster = pairs(of("snapshot"), of("decoupled"), ratio);
            sheet.row(format!("ratio/{name}/{crew}"), faster);
        }
    }
}
