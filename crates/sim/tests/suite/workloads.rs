//! Tests that every workload runs on the machine with sound data, and that equal runs have equal
//! output, byte by byte.

use std::fs;
use std::path::PathBuf;

use crate::common::{setup, simulate};
use sim::report::Outcome;

/// Workloads, each at a scale that loads quickly.
const WORKLOADS: &[(&str, f64)] = &[
    ("bank", 0.02),
    ("hashtable", 0.01),
    ("btree", 0.01),
    ("btree-16", 0.01),
    ("tatp-hash", 0.01),
    ("tatp-btree", 0.01),
    ("tpcc-hash", 0.02),
    ("tpcc-btree", 0.02),
    ("rbt", 0.1),
    ("cq", 0.1),
    ("pc", 0.01),
    ("sps", 0.01),
    ("typed", 0.01),
];

fn json(mut outcome: Outcome) -> String {
    outcome.host_seconds = 0.0;
    serde_json::to_string(&outcome).expect("it has plain keys")
}

#[test]
fn every_workload_runs_and_passes_its_check() {
    for &(workload, scale) in WORKLOADS {
        for design in ["volatile", "sw-undo"] {
            for (machine, cores) in [("tiny-lad", 1), ("tiny-lad", 2), ("lad", 4)] {
                let outcome =
                    simulate(workload, scale, &setup(machine, design, cores, 100)).unwrap();
                let case = format!("{workload} with {design} on {cores} cores of {machine}");
                assert_eq!(outcome.complaints, Vec::<String>::new(), "{case}");
                assert!(outcome.transactions >= 100 && outcome.cycles > 0, "{case}");
                let logs = outcome.cycles_per_transaction.log_stall > 0.0;
                assert_eq!(logs, design == "sw-undo", "{case}");
            }
        }
    }
}

fn trace(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("workloads-{name}.trace"))
}

#[test]
fn run_is_a_function_of_its_seed() {
    let run = |name: &str, seed: u64, cores: usize| {
        let path = trace(name);
        let mut setup = setup("lad", "sw-undo", cores, 200);
        (setup.seed, setup.export_trace) = (seed, Some(path.clone()));
        let outcome = crate::common::simulate_seeded("tpcc-hash", 0.02, &setup).unwrap();
        assert_eq!(outcome.complaints, Vec::<String>::new());
        let requests = fs::read(&path).unwrap();
        fs::remove_file(path).unwrap();
        assert!(requests.len() > 1000, "the trace has requests");
        (json(outcome), requests)
    };
    for cores in [1, 4] {
        let first = run("first", 1, cores);
        assert!(first == run("again", 1, cores), "{cores} cores: the same");
        let other = run("other", 2, cores);
        assert_ne!(first.0, other.0, "{cores} cores: the result of another seed");
        assert!(first.1 != other.1, "{cores} cores: the requests of another seed");
    }
}

/// A second simulation, in another thread and order, must reproduce everything: the numbers, the
/// results of power cuts, and every word in memory.
#[test]
fn final_memory_is_a_function_of_the_seed() {
    let run = |design: &str, machine: &str, seed: u64| {
        let mut setup = setup(machine, design, 2, 60);
        setup.seed = seed;
        setup.power_cuts = if design == "volatile" { 0 } else { 20 };
        if design == "lad-llc" {
            setup.description.set("llc.bytes=65536").unwrap();
        }
        let outcome = crate::common::simulate_seeded("sps", 0.01, &setup).unwrap();
        assert_eq!(outcome.complaints, Vec::<String>::new(), "{design} on {machine}");
        assert_eq!(outcome.isolation_hits, Some(0), "{design} on {machine}");
        (outcome.image_hash.clone().expect("it is checked"), json(outcome))
    };
    let tiny = |about: &sim::design::About| format!("tiny-{}", about.machine);
    let all = sim::design::ALL.iter().map(|about| (about.name, tiny(about)));
    let first: Vec<_> = all.clone().map(|(design, machine)| run(design, &machine, 1)).collect();
    let again = std::thread::scope(|scope| {
        let all = all.clone().rev();
        let again = scope.spawn(move || all.map(|(design, on)| run(design, &on, 1)).collect());
        let mut again: Vec<_> = again.join().unwrap();
        again.reverse();
        again
    });
    assert_eq!(first.len(), 12);
    for (((design, machine), first), again) in all.zip(first).zip(again) {
        assert_eq!(first, again, "{design}");
        assert_ne!(first.0, run(design, &machine, 2).0, "{design}: memory of another seed");
    }
}
