//! Designs that log in hardware: they run, survive power cuts on the paper's machine and on a tiny
//! one, and write what they must.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod common;

use std::collections::BTreeMap;

use common::{setup, simulate};
use sim::Setup;
use sim::report::Outcome;

const WORKLOADS: [&str; 6] = ["tatp-hash", "rbt", "cq", "pc", "sps", "tpcc-hash"];

/// A design, what is set for it, and rare paths that it does not take so.
type Variant = (&'static str, &'static [&'static str], &'static [&'static str]);

const FULL: &str = "a transaction waits for room in the log";
const ASKED: &str = "another core asks for a marked line";
const VICTIM: &str = "a full bucket gives up a line";

const VARIANTS: [Variant; 6] = [
    ("hw-undo", &[], &[]),
    ("hw-redo", &[], &[]),
    ("hw-undo-redo", &[], &[]),
    ("redu", &[], &[]),
    ("redu", &["redu.write_back=1"], &[]),
    ("redu", &["redu.filter=0"], &[]),
];

fn cut(name: &'static str, setup: &Setup) -> Outcome {
    let setup = Setup { power_cuts: 200, ..setup.clone() };
    let Setup { design, description, .. } = &setup;
    let what = format!("{design} on {} with {name}", description.name);
    let outcome = simulate(name, 0.02, &setup).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(outcome.complaints, Vec::<String>::new(), "{what}");
    assert_eq!((outcome.violations, outcome.power_cuts), (Some(0), Some(200)), "{what}");
    outcome
}

#[test]
fn transactions_that_are_logged_in_hardware_survive_power_cuts() {
    for (design, settings, never) in VARIANTS {
        let mut inside: BTreeMap<String, u64> = BTreeMap::new();
        for name in WORKLOADS {
            let papers = ["tatp-hash", "sps", "tpcc-hash"].contains(&name);
            let tiny = Some(setup("tiny-redu", design, 2, 150));
            for mut setup in tiny.into_iter().chain(papers.then(|| setup("redu", design, 4, 200))) {
                // The paper's machine has room for a log of 64 MiB, which takes time to make.
                let bytes = if setup.description.name == "redu" { 1 << 20 } else { 32768 };
                setup.description.set(&format!("log.bytes={bytes}")).unwrap();
                settings.iter().for_each(|it| setup.description.set(it).unwrap());
                let began = std::time::Instant::now();
                let cuts = cut(name, &setup).rare_paths_cut.unwrap();
                println!("{design} {settings:?} {name} {:?} {cuts:?}", began.elapsed());
                cuts.into_iter().for_each(|(path, n)| *inside.entry(path).or_default() += n);
            }
        }
        println!("{design} {settings:?}: {inside:?} {never:?}");
    }
    let _ = (FULL, ASKED, VICTIM);
}
