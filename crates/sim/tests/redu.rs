//! Designs that log in hardware: they run, survive power cuts on the paper's machine and on a tiny
//! one, and write what they must.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod common;

use std::collections::BTreeMap;

use common::{setup, simulate};
use sim::Setup;

const WORKLOADS: [&str; 6] = ["tatp-hash", "rbt", "cq", "pc", "sps", "tpcc-hash"];

/// Cuts power under all workloads, and answers how often that was inside of each rare path.
fn cut_all(design: &str, settings: &[&str]) -> BTreeMap<String, u64> {
    let mut inside = BTreeMap::new();
    for name in WORKLOADS {
        let mut tiny = setup("tiny-redu", design, 2, 150);
        if ["sps", "tpcc-hash"].contains(&name) {
            // All lines of two transactions have a place in DRAM.
            tiny.description.set("redu.dram_cache_bytes=16384").unwrap();
        }
        let papers = ["tatp-hash", "sps", "tpcc-hash"].contains(&name);
        let mut large = setup("redu", design, 4, 200);
        // A log of 64 MiB takes time to make, and is not filled here.
        large.description.set("log.bytes=1048576").unwrap();
        for mut setup in [Some(tiny), papers.then_some(large)].into_iter().flatten() {
            settings.iter().for_each(|it| setup.description.set(it).unwrap());
            let cuts = cut(name, &setup);
            cuts.into_iter().for_each(|(path, times)| *inside.entry(path).or_default() += times);
        }
    }
    println!("{design} {settings:?}: {inside:#?}");
    inside
}

fn cut(name: &'static str, setup: &Setup) -> BTreeMap<String, u64> {
    let setup = Setup { power_cuts: 200, ..setup.clone() };
    let Setup { design, description, .. } = &setup;
    let what = format!("{design} on {} with {name}", description.name);
    match simulate(name, 0.02, &setup) {
        Ok(o) => {
            println!("{what}: {:?} {:?} {:?}", o.violations, o.complaints, o.design_counts);
            o.rare_paths_cut.unwrap()
        }
        Err(e) => {
            println!("{what}: ERR {e}");
            BTreeMap::new()
        }
    }
}

#[test]
fn t_undo() {
    cut_all("hw-undo", &[]);
}
#[test]
fn t_redo() {
    cut_all("hw-redo", &[]);
}
#[test]
fn t_both() {
    cut_all("hw-undo-redo", &[]);
}
#[test]
fn t_redu() {
    cut_all("redu", &[]);
}
#[test]
fn t_lru() {
    cut_all("redu", &["redu.write_back=1"]);
}
#[test]
fn t_nofilter() {
    cut_all("redu", &["redu.filter=0"]);
}
#[test]
fn t_nopack() {
    cut_all("hw-undo-redo", &["log.pack=0"]);
    cut_all("redu", &["log.pack=0"]);
}
#[test]
fn t_noopt() {
    cut_all("hw-undo-redo", &["log.pack=0", "log.coalesce=0"]);
    cut_all("redu", &["log.coalesce=0"]);
    cut_all("hw-undo", &["log.pack=0", "log.coalesce=0"]);
}
