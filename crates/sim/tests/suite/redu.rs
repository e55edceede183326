//! Tests of designs that log in hardware: they survive power cuts on the paper's machine and on a
//! tiny one, and write the expected lines to memory.

#![allow(clippy::unwrap_used, reason = "only tests use these helpers")]

use std::collections::BTreeMap;

use crate::bare::{LINES, builtin, pointer, run as run_bare, word};
use crate::common::peeping;
use crate::common::{setup, simulate};
use sim::design::{Design, HwRedo, HwUndo, HwUndoRedo, Redu};
use sim::machine::Machine;
use sim::machine::kernel::Program;
use sim::machine::memory::Memory;
use sim::machine::sparse::Sparse;
use sim::report::Outcome;
use sim::{Error, Setup};
use words::{Addr, Words};

const WORKLOADS: [&str; 6] = ["tatp-hash", "rbt", "cq", "pc", "sps", "tpcc-hash"];

/// The paper's machine, with a smaller log and DRAM cache: large ones take time to allocate, and
/// these tests do not fill them.
fn papers(design: &str, cores: usize, transactions: u64) -> Setup {
    let mut setup = setup("redu", design, cores, transactions);
    for key in ["log.bytes", "redu.dram_cache_bytes"] {
        setup.description.set(&format!("{key}=1048576")).unwrap();
    }
    setup
}

/// The tiny machine, with room in DRAM and in the log for all lines of two large transactions.
fn tiny(design: &str, name: &str, settings: &[&str]) -> Setup {
    let mut setup = setup("tiny-redu", design, 2, 150);
    if ["sps", "tpcc-hash"].contains(&name) {
        setup.description.set("redu.dram_cache_bytes=16384").unwrap();
    }
    if name == "tpcc-hash" {
        setup.description.set("log.bytes=131072").unwrap();
        // Open transactions share only a quarter of a victim buffer.
        if design == "hw-redo" {
            setup.description.set("redu.dram_cache_bytes=32768").unwrap();
        }
    }
    settings.iter().for_each(|it| setup.description.set(it).unwrap());
    setup
}

fn cut(name: &'static str, setup: &Setup, cuts: u64) -> BTreeMap<String, u64> {
    let setup = Setup { power_cuts: cuts, ..setup.clone() };
    let case = format!("{} on {} with {name}", setup.design, setup.description.name);
    let outcome = match name {
        "peeping" => sim::run(&setup, &peeping::ONCE, &mut |_| {}),
        name => simulate(name, 0.02, &setup),
    };
    let outcome = outcome.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(outcome.complaints, Vec::<String>::new(), "{case}");
    assert_eq!((outcome.violations, outcome.power_cuts), (Some(0), Some(cuts)), "{case}");
    println!("{case}: {} fallbacks", outcome.fallbacks);
    outcome.rare_paths_cut.unwrap()
}

/// Cuts power under all workloads. Each rare path, except for those in `never`, must be cut at
/// least once.
fn survives(design: &str, settings: &[&str], never: &[&str]) {
    let mut inside: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |cuts: BTreeMap<String, u64>| {
        cuts.into_iter().for_each(|(path, times)| *inside.entry(path).or_default() += times);
    };
    for name in WORKLOADS {
        add(cut(name, &tiny(design, name, settings), 150));
    }
    add(cut("peeping", &tiny(design, "peeping", settings), 150));
    // With a slow memory, logs and buckets fill up.
    let slow = ["nvm.write_ns=2000", "nvm.write_hit_ns=2000"];
    let slow: Vec<&str> = settings.iter().copied().chain(slow).collect();
    for name in ["cq", "sps"] {
        add(cut(name, &tiny(design, name, &slow), 100));
    }
    // They fill up even more when lines are applied one at a time. Entries of two words need more
    // room, and undrained stores count as slots.
    let log = if design == "hw-undo-redo" { "log.bytes=34816" } else { "log.bytes=20480" };
    let one = ["log.window=1", log, "redu.dram_cache_bytes=65536", "core.store_buffer=2"];
    add(cut("sps", &tiny(design, "sps", &[&slow[..], &one].concat()), 100));
    // Next, a log that cannot hold most transactions.
    let small: Vec<&str> = settings.iter().copied().chain(["log.bytes=16384"]).collect();
    add(cut("tpcc-hash", &tiny(design, "tpcc-hash", &small), 100));
    let mut large = papers(design, 4, 100);
    settings.iter().for_each(|it| large.description.set(it).unwrap());
    add(cut("sps", &large, 100));
    println!("{design} {settings:?}: {inside:#?}");
    assert!(inside.iter().all(|(path, n)| *n > 0 || never.contains(&&**path)), "{inside:?}");
}

#[test]
fn undo_logging_survives_power_cuts() {
    survives("hw-undo", &[], &[]);
}

#[test]
fn redo_logging_survives_power_cuts() {
    survives("hw-redo", &[], &[]);
}

#[test]
fn undo_redo_logging_with_forced_write_backs_survives_power_cuts() {
    survives("hw-undo-redo", &[], &[]);
}

#[test]
fn redu_survives_power_cuts_when_it_writes_back_at_once() {
    // Eager write-back evicts lines before a bucket is full; the other policy does not.
    survives("redu", &[], &["a full bucket gives up a line"]);
}

#[test]
fn redu_survives_power_cuts_when_it_writes_back_the_least_recently_used() {
    survives("redu", &["redu.write_back=1"], &[]);
}

#[test]
fn redu_survives_power_cuts_without_a_filter() {
    for settings in [&["redu.filter=0"][..], &["redu.filter=0", "redu.write_back=1"]] {
        for name in ["cq", "tpcc-hash"] {
            cut(name, &tiny("redu", name, settings), 100);
        }
    }
}

#[test]
fn logs_survive_power_cuts_where_controllers_have_batteries() {
    // A slow memory makes slots scarce, and lines wait for logs without a slot.
    let settings = ["persist.point=\"accepted\"", "nvm.write_ns=2000", "nvm.write_hit_ns=2000"];
    for design in ["hw-undo", "hw-redo", "hw-undo-redo", "redu"] {
        for name in ["cq", "sps", "tpcc-hash"] {
            cut(name, &tiny(design, name, &settings), 100);
        }
    }
}

#[test]
fn slow_memory_stalls_stores_in_all_designs() {
    for design in ["hw-undo", "hw-redo", "hw-undo-redo", "redu"] {
        // Transactions of 16 lines, with a buffer of two and eight slots for all cores.
        let stalls = |settings: &[&str]| {
            let settings = [&["mc.wq=8", "log.buffer_lines=2"], settings].concat();
            run(design, &settings).cycles_per_transaction.log_stall
        };
        let slow = ["nvm.write_ns=4000", "nvm.write_hit_ns=4000"];
        let [fast, slow] = [stalls(&[]), stalls(&slow)];
        println!("{design}: {fast} {slow}");
        assert!(slow > 2.0 * fast && slow > 1000.0, "{design}: {fast} {slow}");
        // A buffer that holds all stores of a transaction never stalls.
        let wide = ["nvm.write_ns=4000", "nvm.write_hit_ns=4000", "log.buffer_lines=64"];
        assert_eq!(stalls(&wide), 0.0, "{design}");
    }
}

/// The four formats of log entries.
const LOGS: [&[&str]; 4] = [
    &["log.coalesce=0", "log.pack=0"],
    &["log.coalesce=1", "log.pack=0"],
    &["log.coalesce=0", "log.pack=1"],
    &["log.coalesce=1", "log.pack=1"],
];

#[test]
fn every_log_format_survives_power_cuts() {
    for design in ["hw-undo", "hw-redo", "hw-undo-redo", "redu"] {
        for settings in &LOGS[..3] {
            for name in ["rbt", "pc"] {
                cut(name, &tiny(design, name, settings), 60);
            }
        }
        for coalesce in ["log.coalesce=0", "log.coalesce=1"] {
            cut("pc", &tiny(design, "pc", &[coalesce, "log.gather=0"]), 60);
        }
    }
}

fn run(design: &str, settings: &[&str]) -> Outcome {
    let mut setup = papers(design, 4, 600);
    settings.iter().for_each(|it| setup.description.set(it).unwrap());
    let outcome = simulate("sps", 0.02, &setup).unwrap();
    assert_eq!(outcome.complaints, Vec::<String>::new(), "{design}");
    outcome
}

#[test]
fn coalescing_saves_bytes_and_packing_saves_writes() {
    // The workload swaps whole lines: 8 words of 16 bytes each become one entry of 72.
    let [none, _, pack, both] = LOGS.map(|settings| run("hw-redo", settings));
    let coalesce = run("hw-redo", LOGS[1]);
    let each = |outcome: &Outcome, n: u64| {
        let lines = outcome.lines_per_transaction.mean * outcome.transactions as f64;
        n as f64 / lines
    };
    let bytes = |it: &Outcome| each(it, it.design_counts["log_bytes"]);
    let writes = |it: &Outcome| {
        let by = it.nvm_writes;
        each(it, by.log_data + by.log_meta + by.commit_record)
    };
    let all = [&none, &coalesce, &pack, &both].map(|it| (bytes(it), writes(it)));
    println!("{all:?}");
    let ratio = bytes(&coalesce) / bytes(&none);
    assert!((0.55..0.58).contains(&ratio), "{ratio}");
    assert!((bytes(&both) / bytes(&coalesce) - 1.0).abs() < 0.01, "the same entries");
    let ratio = writes(&both) / writes(&none);
    assert!((0.5..0.83).contains(&ratio), "{ratio}");
}

#[test]
fn each_design_writes_its_log_and_each_line_once() {
    let counts = ["hw-undo", "hw-redo", "redu"].map(|design| {
        let outcome = run(design, &[]);
        let lines = outcome.lines_per_transaction.mean * outcome.transactions as f64;
        let data = outcome.nvm_writes.data as f64 / lines;
        // Lines that wait in DRAM may be overwritten before they are applied.
        let least = if design == "redu" { 0.7 } else { 0.93 };
        assert!((least..1.07).contains(&data), "{design}: {data}");
        outcome.nvm_writes.log_data as f64 / lines
    });
    let both = run("hw-undo-redo", &[]);
    let lines = both.lines_per_transaction.mean * both.transactions as f64;
    let twice = both.nvm_writes.log_data as f64 / lines;
    assert!(counts.iter().all(|log| (1.9..2.1).contains(&(twice / log))), "{counts:?} {twice}");
}

/// Checks that a store outside of a transaction, into a line that was just committed, reaches
/// memory after the committed value.
fn stores_outside_stay<D: Design>() {
    let slow = ["nvm.write_ns=2000", "nvm.write_hit_ns=2000"];
    let description = builtin("tiny-redu", &slow);
    let (extra, volatile) = (D::extra_lines(&description), D::volatile_lines(&description));
    let memory = Memory::new(&Sparse::zeros(8 * LINES as usize), extra, volatile, true);
    let machine = Machine::new(description.clone(), memory, D::new(&description, LINES));
    let lines = || (1..8_u32).map(|at| 40 * at);
    let program: Program<D> = Box::new(move |hart| {
        for round in 1..60 {
            for line in lines() {
                let at = Addr { object: pointer(word(line)), offset: 0 };
                hart.transact(|tx| tx.write(at, 2 * round)).unwrap();
                hart.store(word(line), 0, 2 * round + 1);
            }
            hart.settle();
            // Evict the lines, some of them before their committed values are applied.
            for line in 0..300 {
                hart.load(word(4096 + line), 0);
            }
            for line in lines() {
                assert_eq!(hart.load(word(line), 0), 2 * round + 1);
            }
        }
        for line in 0..300 {
            hart.load(word(4096 + line), 0);
        }
    });
    let machine = run_bare(Box::new(machine), vec![program]).unwrap();
    assert_eq!(machine.counts.wrong_fills, 0, "{}", D::NAME);
    for line in lines() {
        let (array, last) = (machine.memory.media_line(line), machine.memory.line(line));
        assert_eq!(array, Some(last), "{}: line {line}", D::NAME);
    }
}

#[test]
fn plain_store_survives_an_earlier_commit() {
    stores_outside_stay::<HwUndo>();
    stores_outside_stay::<HwRedo>();
    stores_outside_stay::<HwUndoRedo>();
    stores_outside_stay::<Redu>();
}

#[test]
fn hardware_logging_rejects_unsuitable_machine() {
    for design in ["hw-undo", "hw-redo", "hw-undo-redo", "redu"] {
        let error = simulate("bank", 0.01, &setup("lad", design, 2, 10)).unwrap_err();
        assert!(matches!(error, Error::Misfit { .. }), "{design}: {error}");
    }
}

#[test]
fn fallback_of_hardware_logs_survives_power_cuts() {
    const FALLS: &str = "a transaction falls back to software";
    const BESIDE: &str = "a transaction commits while software runs";
    // Buckets or a victim buffer without a free slot, and a log whose share is soon used.
    let places = ["redu.dram_cache_bytes=512", "log.bytes=32768"];
    let log = ["redu.dram_cache_bytes=65536", "log.bytes=16384"];
    // Entries of two words need more room.
    let both = ["log.bytes=24576"];
    let victims = ["redu.dram_cache_bytes=2048"];
    let lazy = "redu.write_back=1";
    let cases: [(&str, &[&str]); 7] = [
        ("redu", &places),
        ("redu", &log),
        ("redu", &[lazy, places[0], places[1]]),
        ("redu", &[lazy, log[0], log[1]]),
        ("hw-redo", &victims),
        ("hw-redo", &log),
        ("hw-undo-redo", &both),
    ];
    let undo: (&str, &[&str]) = ("hw-undo", &log[1..]);
    for (design, settings) in cases.into_iter().chain([undo]) {
        let mut inside: BTreeMap<String, u64> = BTreeMap::new();
        for name in ["rbt", "tpcc-hash", "cq", "peeping"] {
            let mut setup = setup("tiny-redu", design, 2, 150);
            settings.iter().for_each(|it| setup.description.set(it).unwrap());
            for (path, times) in cut(name, &setup, 200) {
                *inside.entry(path).or_default() += times;
            }
        }
        let of = |path: &str| inside.get(path).copied().unwrap_or(0);
        println!("{design} {settings:?}: {inside:#?}");
        assert!(of(FALLS) > 20, "{design} {settings:?}: {inside:?}");
        // Undo logging has nothing to apply, so its commits wait for no software.
        let waits = if design == "hw-undo" { of(BESIDE) == 0 } else { of(BESIDE) > 20 };
        assert!(waits, "{design} {settings:?}: {inside:?}");
    }
}

#[test]
fn open_record_does_not_block_fallback() {
    // Two cores write the same lines, and a few of their transactions do not fit.
    let mut setup = setup("tiny-redu", "hw-undo-redo", 2, 400);
    setup.description.set("log.bytes=81920").unwrap();
    let outcome = simulate("tpcc-hash", 0.05, &setup).unwrap();
    assert!((1..399).contains(&outcome.fallbacks), "{}", outcome.fallbacks);
    assert_eq!(outcome.complaints, [""; 0]);
}

#[test]
fn early_sealed_records_fit_or_transaction_falls_back() {
    // Nearly every line is evicted before its transaction ends, and a slow memory takes long for
    // each record. A core's share of the log is from none to many slots.
    let small = [
        "cores=8",
        "l1.bytes=512",
        "l2.bytes=512",
        "llc.bytes=2048",
        "nvm.banks=1",
        "nvm.write_ns=20000",
        "nvm.write_hit_ns=20000",
        "log.buffer_lines=1",
        "persist.point=\"accepted\"",
    ];
    for design in ["hw-undo", "hw-undo-redo"] {
        for bytes in [4096, 8192, 20480, 28672, 32768, 49152] {
            let mut setup = setup("tiny-redu", design, 8, 60);
            let log = format!("log.bytes={bytes}");
            let settings = small.into_iter().chain([&*log]);
            settings.for_each(|it| setup.description.set(it).unwrap());
            let outcome = simulate("sps", 0.02, &setup);
            let outcome = outcome.unwrap_or_else(|error| panic!("{design}, {log}: {error}"));
            assert_eq!(outcome.complaints, [""; 0], "{design}, {log}");
            // The smallest logs have no share for any core; with the others, transactions start to
            // log.
            let entries = outcome.design_counts.get("log_entries").is_some_and(|it| *it > 0);
            assert_eq!(entries, bytes > 20480, "{design}, {log}");
            assert!(outcome.fallbacks > 0, "{design}, {log}");
        }
    }
}

#[test]
fn exhausted_transaction_identifiers_force_write_back() {
    // Lines stay in DRAM or in caches, and so do transactions whose records they need. A log of 64
    // MiB has room for all of them.
    let data = |design: &str, names: u32| {
        let mut setup = setup("tiny-redu", design, 2, 100);
        setup.warm_up_most = 0;
        let log = ["log.bytes=67108864", &format!("log.names={names}")];
        let stay = ["redu.write_back=1", "redu.dram_cache_bytes=4194304"];
        log.iter().chain(&stay).for_each(|it| setup.description.set(it).unwrap());
        let outcome = simulate("sps", 0.1, &setup).unwrap();
        assert_eq!(outcome.complaints, [""; 0], "{design}, {names} identifiers");
        assert_eq!(outcome.fallbacks, 0, "{design}, {names} identifiers");
        outcome.nvm_writes.data
    };
    for names in [1, 2, 40] {
        for design in ["hw-undo", "hw-redo", "hw-undo-redo"] {
            assert!(data(design, names) > 0, "{design}");
        }
        // With an identifier for each transaction, all lines stay in DRAM.
        let [few, enough] = [names, 1000].map(|names| data("redu", names));
        println!("{few} lines of data with {names} identifiers, {enough} with enough");
        assert!(few > 1000 && enough == 0, "{few} with {names} identifiers, {enough} with enough");
    }
}

#[test]
fn fallback_frees_its_transaction_identifier() {
    // In the smallest log, no core has a share, and no record is written. With one core, no other
    // core waits when the last record of a dropped attempt becomes durable.
    let pairs = [(1, 1), (2, 1), (2, 2)];
    for bytes in [4096, 16384, 32768, 49152] {
        for ((cores, names), design) in pairs.into_iter().flat_map(|pair| {
            ["hw-undo", "hw-redo", "hw-undo-redo", "redu"].map(|design| (pair, design))
        }) {
            let case = format!("{design}, {cores} cores, {names} identifiers, {bytes}");
            let mut setup = setup("tiny-redu", design, cores, 60);
            let settings = [format!("log.bytes={bytes}"), format!("log.names={names}")];
            // A small victim buffer or DRAM cache, too small for a transaction.
            let small = "redu.dram_cache_bytes=2048".to_owned();
            settings.into_iter().chain([small]).for_each(|it| setup.description.set(&it).unwrap());
            let outcome = simulate("tpcc-hash", 0.02, &setup);
            let outcome = outcome.unwrap_or_else(|it| panic!("{case}: {it}"));
            assert_eq!(outcome.complaints, [""; 0], "{case}");
            // The largest log has room for all undo entries of a single core.
            let fits = cores == 1 && bytes == 49152 && design.starts_with("hw-undo");
            assert!(outcome.fallbacks > 0 || fits, "{case}");
        }
    }
}

#[test]
fn fallbacks_depend_on_hardware_capacity() {
    for design in ["hw-undo", "hw-redo", "hw-undo-redo", "redu"] {
        let mut large = setup("tiny-redu", design, 2, 150);
        large.description.set("redu.dram_cache_bytes=65536").unwrap();
        assert_eq!(simulate("rbt", 0.02, &large).unwrap().fallbacks, 0, "{design}");
        // A quarter of this log is no more than a single log message needs.
        large.description.set("log.bytes=8192").unwrap();
        let outcome = simulate("sps", 0.02, &large).unwrap();
        // A fallback is counted at its start, so one of the two cores' may straddle the start of
        // the window.
        let (most, fallbacks) = (outcome.transactions, outcome.fallbacks);
        assert_eq!((fallbacks.max(149), most), (fallbacks, 150), "{design}");
        assert_eq!(outcome.complaints, [""; 0], "{design}");
    }
}
