//! SSP and what it is compared with: they survive power cuts, and cost what they should.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod common;

use std::collections::BTreeMap;

use common::{setup, simulate};
use sim::Setup;
use sim::report::Outcome;

const WORKLOADS: [&str; 7] = ["tatp-hash", "rbt", "cq", "pc", "sps", "tpcc-hash", "pages"];

/// What a tiny machine needs for transactions of more than four pages.
const ROOMY: [&str; 2] = ["design.ssp.write_set=64", "design.ssp.cache_entries=160"];

/// Power cuts of a run.
const CUTS: u64 = 150;

fn cut(name: &'static str, setup: &Setup) -> Outcome {
    let setup = Setup { power_cuts: CUTS, ..setup.clone() };
    let outcome = simulate(name, 0.02, &setup).unwrap();
    let Setup { design, description, .. } = setup;
    let none = Vec::<String>::new();
    assert_eq!(outcome.complaints, none, "{design} on {} with {name}", description.name);
    assert_eq!((outcome.violations, outcome.power_cuts), (Some(0), Some(CUTS)));
    outcome
}

/// Cuts power under all workloads, and answers how often that was inside of each rare path.
fn cut_all(design: &str) -> BTreeMap<String, u64> {
    let mut inside = BTreeMap::new();
    for name in WORKLOADS {
        let mut tiny = setup("tiny-ssp", design, 2, 150);
        ROOMY.into_iter().for_each(|setting| tiny.description.set(setting).unwrap());
        if design == "ssp-redo" && name == "tpcc-hash" {
            // All lines of two orders have a place.
            tiny.description.set("llc.bytes=65536").unwrap();
        }
        let papers = ["tatp-hash", "sps", "tpcc-hash"].contains(&name);
        let setups = [Some(tiny), papers.then(|| setup("ssp", design, 4, 200))];
        for setup in setups.into_iter().flatten() {
            let outcome = cut(name, &setup);
            let cuts = outcome.rare_paths_cut.unwrap();
            cuts.into_iter().for_each(|(path, times)| *inside.entry(path).or_default() += times);
        }
    }
    inside
}

#[test]
fn ssp_survives_power_cuts() {
    let inside = cut_all("ssp");
    assert_eq!(inside.len(), 6, "{inside:?}");
    assert!(inside.values().all(|cuts| *cuts > 0), "{inside:?}");
}

#[test]
fn an_undo_log_in_hardware_survives_power_cuts() {
    assert_eq!(cut_all("ssp-undo"), BTreeMap::new());
}

#[test]
fn a_redo_log_in_hardware_survives_power_cuts() {
    let inside = cut_all("ssp-redo");
    assert_eq!(inside.len(), 2, "{inside:?}");
    assert!(inside.values().all(|cuts| *cuts > 0), "{inside:?}");
}
