//! Tests of the checks before a simulation, and of its progress reports.

use std::path::PathBuf;

use sim::program::{Ended, Loaded, Program};
use sim::{Error, Progress};
use words::Erased;
use workloads::Options;

use crate::common::{Named, setup};

/// A program of this size that must not be loaded.
struct Never(u64);

impl Program for Never {
    fn name(&self) -> &str {
        "never"
    }

    fn heap_bytes(&self) -> u64 {
        self.0
    }

    fn load(&self, _: &mut Erased<'_, Ended>, _: usize) -> Result<Box<dyn Loaded>, Ended> {
        panic!("the program is loaded");
    }
}

#[test]
fn unwritable_trace_fails_before_load() {
    let mut setup = setup("tiny-lad", "volatile", 2, 100);
    setup.export_trace = Some(PathBuf::from("/no/such/directory/trace"));
    let error = sim::run(&setup, &Never(1 << 20), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Trace { .. }), "{error}");
    assert!(error.to_string().starts_with("cannot write the trace /no/such/directory/trace: "));
}

#[test]
fn check_rejects_impossible_run_before_load() {
    let check = |machine, design, power_cuts, bytes| {
        let setup = sim::Setup { power_cuts, ..setup(machine, design, 1, 100) };
        sim::check(&setup, &Never(bytes)).map_err(|error| error.to_string())
    };
    assert_eq!(check("tiny-lad", "lad", 10, 1 << 20), Ok(()));
    let said = |found: Result<(), String>| found.unwrap_err();
    let misfit = "`ssp` cannot run on the machine `tiny-lad`: ";
    assert!(said(check("tiny-lad", "ssp", 0, 1 << 20)).starts_with(misfit));
    assert!(said(check("tiny-lad", "volatile", 10, 1 << 20)).contains("makes nothing durable"));
    assert!(said(check("tiny-lad", "lad", 0, 65 << 30)).contains("65 GiB, of at most 64"));
    assert!(said(check("tiny-lad", "none", 0, 1 << 20)).starts_with("there is no design `none`"));
}

#[test]
fn progress_reports_all_power_cuts() {
    let setup = sim::Setup { power_cuts: 450, ..setup("tiny-lad", "lad", 2, 100) };
    let options = Options { scale: 0.001, workers: 2, ..Options::default() };
    let mut cuts = Vec::new();
    let outcome = sim::run(&setup, &Named { name: "hashtable", options }, &mut |at| match at {
        Progress::PowerCuts(done) => cuts.push(done),
        Progress::Transactions(done) => assert!(cuts.is_empty() || cuts.contains(&225), "{done}"),
    });
    let outcome = outcome.unwrap();
    assert_eq!((outcome.power_cuts, outcome.complaints), (Some(450), vec![]));
    cuts.dedup();
    assert_eq!(cuts, [100, 200, 225, 325, 425, 450]);
    // A path that was cut was also taken.
    let (taken, cut) = (outcome.rare_paths_taken.unwrap(), outcome.rare_paths_cut.unwrap());
    assert!(cut.iter().all(|(path, cuts)| *cuts == 0 || taken[path] > 0), "{taken:?} {cut:?}");
    assert!(taken.values().any(|times| *times > 0), "{taken:?}");
    assert!(taken.keys().eq(cut.keys()), "{taken:?} {cut:?}");
}
