//! Tests of SSP and the designs that it is compared with: they survive power cuts, and have the
//! expected costs.

#![allow(clippy::unwrap_used, reason = "only tests use these helpers")]

use std::collections::BTreeMap;

use crate::bare::{LINES, builtin, fresh_cycle, machine_of, pointer, run, word};
use crate::common::{setup, simulate};
use sim::Setup;
use sim::design::{Design, SspRedo, SspUndo};
use sim::machine::Hart;
use sim::machine::transaction::Transaction;
use sim::report::Outcome;
use words::{Addr, Words};

const WORKLOADS: [&str; 8] =
    ["tatp-hash", "rbt", "cq", "pc", "sps", "tpcc-hash", "pages", "pages-shared"];

/// Settings of a tiny machine for transactions of more than four pages.
const ROOMY: [&str; 2] = ["design.ssp.write_set=64", "design.ssp.cache_entries=160"];

/// The number of power cuts of a run.
const CUTS: u64 = 150;

fn cut(name: &'static str, setup: &Setup) -> Outcome {
    let setup = Setup { power_cuts: CUTS, ..setup.clone() };
    let scale = if name == "rbt" { 0.5 } else { 0.02 };
    let outcome = simulate(name, scale, &setup).unwrap();
    let Setup { design, description, .. } = setup;
    let none = Vec::<String>::new();
    assert_eq!(outcome.complaints, none, "{design} on {} with {name}", description.name);
    assert_eq!((outcome.violations, outcome.power_cuts), (Some(0), Some(CUTS)));
    outcome
}

/// Cuts power under all workloads, and returns the number of cuts inside each rare path.
fn cut_all(design: &str) -> BTreeMap<String, u64> {
    let mut inside = BTreeMap::new();
    for name in WORKLOADS {
        let mut tiny = setup("tiny-ssp", design, 2, 150);
        ROOMY.into_iter().for_each(|setting| tiny.description.set(setting).unwrap());
        let papers = ["sps", "tpcc-hash"].contains(&name);
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
    let mut inside = cut_all("ssp");
    // Small write sets, and a journal of four lines for the pages of eight cores.
    for (name, cores, settings) in [
        ("rbt", 2, &["ssp.journal_bytes=64"][..]),
        (
            "pages",
            8,
            &[
                "ssp.cache_entries=64",
                "nvm.row_bytes=128",
                "nvm.interleave_bytes=128",
                "ssp.journal_bytes=128",
            ],
        ),
    ] {
        let mut narrow = setup("tiny-ssp", "ssp", cores, 150 * cores as u64 / 2);
        settings.iter().for_each(|setting| narrow.description.set(setting).unwrap());
        let cuts = cut(name, &narrow).rare_paths_cut.unwrap();
        cuts.into_iter().for_each(|(path, times)| *inside.entry(path).or_default() += times);
    }
    assert_eq!(inside.len(), 11, "{inside:?}");
    assert!(inside.values().all(|cuts| *cuts > 0), "{inside:?}");
}

#[test]
fn ssp_undo_survives_power_cuts() {
    let inside = cut_all("ssp-undo");
    assert_eq!(inside.len(), 1, "{inside:?}");
    assert!(inside.values().all(|cuts| *cuts > 0), "{inside:?}");
}

#[test]
fn ssp_redo_survives_power_cuts() {
    let inside = cut_all("ssp-redo");
    assert_eq!(inside.len(), 4, "{inside:?}");
    assert!(inside.values().all(|cuts| *cuts > 0), "{inside:?}");
    for name in ["pages", "pages-shared", "sps"] {
        let mut beside = setup("tiny-ssp", "ssp-redo", 4, 300);
        let settings = ["cores=4", "ssp-redo.record_beside_log=1", "nvm.banks=4"];
        settings.iter().for_each(|setting| beside.description.set(setting).unwrap());
        cut(name, &beside);
    }
}

fn on_ssp(name: &'static str, design: &str, cores: usize, settings: &[&str]) -> Outcome {
    let mut setup = setup("ssp", design, cores, 1000);
    settings.iter().for_each(|setting| setup.description.set(setting).unwrap());
    let outcome = simulate(name, 0.1, &setup).unwrap();
    assert_eq!(outcome.complaints, Vec::<String>::new(), "{name} with {design}");
    outcome
}

#[test]
fn ssp_designs_write_expected_lines() {
    let lines = |outcome: &Outcome| {
        (outcome.lines_per_transaction.mean * outcome.transactions as f64).round() as u64
    };
    let near = |a: u64, b: u64| a.abs_diff(b) * 50 <= b;
    let undo = on_ssp("sps", "ssp-undo", 1, &[]);
    let writes = undo.nvm_writes;
    // All eight words of each line change, except for those that were equal.
    assert!(near(writes.log_data, 8 * lines(&undo)) && near(writes.data, lines(&undo)));
    assert!(near(writes.commit_record, undo.transactions), "{writes:?}");
    let by_line = on_ssp("sps", "ssp-undo", 1, &["ssp-undo.line=1"]);
    assert!(near(by_line.nvm_writes.log_data, 2 * lines(&by_line)), "two entries per line");
    let redo = on_ssp("sps", "ssp-redo", 1, &[]);
    let writes = redo.nvm_writes;
    assert!(near(writes.log_data, lines(&redo)) && near(writes.data, lines(&redo)), "{writes:?}");
    assert!(near(writes.commit_record, redo.transactions), "{writes:?}");
    let ssp = on_ssp("sps", "ssp", 1, &[]);
    let (writes, counts) = (ssp.nvm_writes, &ssp.design_counts);
    assert!(near(writes.data, lines(&ssp)), "each line once: {writes:?}");
    assert_eq!(writes.journal, counts["journal_lines"]);
    assert!(near(counts["flips"], lines(&ssp)), "{counts:?}");
    // No copy is written twice, and no page was swapped.
    assert!(near(writes.consolidation, counts["lines_copied"]), "{writes:?} {counts:?}");
    assert!(!counts.contains_key("page_table_lines"), "{counts:?}");
    let total = |design| {
        let outcome = on_ssp("rbt", design, 1, &[]);
        outcome.nvm_writes.total() as f64 / outcome.transactions as f64
    };
    let total = ["ssp-undo", "ssp-redo", "ssp"].map(total);
    assert!(total.is_sorted_by(|a, b| a > b), "{total:?}");
}

#[test]
fn ssp_transaction_cost_is_its_memory_waits() {
    // For a single core, a write takes 205 ns, which are 759 cycles, and its messages take 12.
    let one = on_ssp("rbt", "ssp", 1, &[]).cycles_per_transaction;
    assert!((760.0..900.0).contains(&one.commit), "the journal: {one:?}");
    let redo = on_ssp("rbt", "ssp-redo", 1, &[]).cycles_per_transaction;
    assert!((760.0..900.0).contains(&redo.commit) && redo.begin > 300.0, "{redo:?}");
    let never = on_ssp("rbt", "ssp-redo", 1, &["ssp-redo.wait_at_begin=0"]).cycles_per_transaction;
    assert!(never.begin < 60.0 && never.total < redo.total, "{never:?}");
    let beside = on_ssp("rbt", "ssp-redo", 1, &["ssp-redo.record_beside_log=1"]);
    let beside = beside.cycles_per_transaction;
    assert!(redo.prepare > 760.0 && beside.prepare < 60.0, "one wait, not two: {beside:?}");
    assert!((760.0..1000.0).contains(&beside.commit), "{beside:?}");
    let undo = on_ssp("rbt", "ssp-undo", 1, &[]);
    let entries = undo.nvm_writes.log_data as f64 / undo.transactions as f64;
    let undo = undo.cycles_per_transaction;
    assert!(undo.log_stall > 760.0 && undo.total > redo.total, "{undo:?}");
    // One after the other, the entries would take this long.
    assert!(undo.log_stall < 0.5 * 760.0 * entries, "{entries} entries in parallel: {undo:?}");
    assert!(one.total < redo.total, "{one:?}");
}

/// Returns the cycles of a transaction with two stores, a thousand cycles apart.
fn stores_far_from_each_other(side_by_side: &str) -> u64 {
    let mut description = builtin("ssp", &[side_by_side]);
    description.cores = 1;
    let at = |line: u32| Addr::new(pointer(word(line)), 0);
    let took = std::rc::Rc::new(std::cell::Cell::new(0));
    let out = std::rc::Rc::clone(&took);
    let program = move |hart: &mut Hart<'_, SspUndo>| {
        // Bring the lines into the caches first.
        hart.transact(|tx| tx.write(at(1), 1).and(tx.write(at(2), 1))).unwrap();
        let began = fresh_cycle(hart);
        let body = |tx: &mut Transaction<'_, '_, SspUndo>| {
            tx.write(at(1), 2)?;
            tx.compute(4000);
            tx.write(at(2), 2)
        };
        hart.transact(body).unwrap();
        out.set(hart.cycle() - began);
    };
    let design = SspUndo::new(&description, LINES / 2);
    run(machine_of(&description, design), vec![Box::new(program)]).unwrap();
    took.get()
}

#[test]
fn undo_entry_waits_for_its_store_to_retire() {
    // While the first store waits for its entry, the retirement time of the second store becomes
    // known; it is after the first entry is durable. The second entry therefore leaves no earlier
    // than in the mode that sends only the oldest store's entry. Without the wait it would be
    // durable 760 cycles earlier.
    let of = |switch| stores_far_from_each_other(&format!("ssp-undo.side_by_side={switch}"));
    let [alone, beside] = [0, 1].map(of);
    assert!(alone.abs_diff(beside) < 100, "{alone} {beside}");
}

#[test]
fn full_commit_lines_do_not_delay_consolidation() {
    // A transaction of sixteen pages fills four journal lines. No commit has room for the records
    // of pages that were consolidated in batches smaller than a line.
    let setup = setup("ssp", "ssp", 1, 1000);
    let outcome = simulate("sps", 0.3, &setup).unwrap();
    let counts = &outcome.design_counts;
    let (tlb, most) = (u64::from(setup.description.tlb.entries), counts["active_pages_most"]);
    assert!(counts["consolidations"] > outcome.transactions, "{counts:?}");
    assert!((tlb..2 * tlb).contains(&most), "{counts:?}");
    assert!(counts["waits_for_consolidation"] * 100 < counts["tlb_misses"], "{counts:?}");
}

#[test]
fn overflow_by_the_last_store_falls_back_once() {
    // Five lines of a set of four ways, stored at once: the overflow is known only when the last
    // store drains.
    let mut description = builtin("tiny-ssp", &["llc.bytes=4096", "llc.ways=4"]);
    description.cores = 1;
    let program = |hart: &mut Hart<'_, SspRedo>| {
        let at = |line: u32| Addr::new(pointer(word(line)), 0);
        for count in [4, 5, 1, 4] {
            hart.transact(|tx| (1..=count).try_for_each(|line| tx.write(at(16 * line), 1)))
                .unwrap();
        }
    };
    let design = SspRedo::new(&description, LINES / 2);
    let machine = run(machine_of(&description, design), vec![Box::new(program)]).unwrap();
    assert_eq!(machine.counts.fallbacks, 1);
}

#[test]
fn too_small_ssp_cache_error_names_the_key() {
    for entries in [1, 16, 200] {
        let mut setup = setup("ssp", "ssp", 4, 200);
        setup.description.set(&format!("ssp.cache_entries={entries}")).unwrap();
        let said = simulate("sps", 0.1, &setup).unwrap_err().to_string();
        assert!(said.contains("make `design.ssp.cache_entries` larger"), "{entries}: {said}");
    }
}

#[test]
fn ssp_cache_latencies_are_simulated_or_added() {
    let total = |settings: &[&str]| {
        let outcome = on_ssp("sps", "ssp", 1, &[settings, &["ssp.cache_entries=200"]].concat());
        let misses = outcome.design_counts["ssp_cache_misses"] as f64;
        (outcome.cycles_per_transaction.total, misses / outcome.transactions as f64)
    };
    let (fast, misses) = total(&["ssp.miss_cycles=20"]);
    let (paper, _) = total(&[]);
    assert!(paper > fast, "{paper} {fast}");
    let (none, _) = total(&["ssp.meta_model=1", "ssp.hit_cycles=0", "ssp.miss_cycles=0"]);
    let (added, _) = total(&["ssp.meta_model=1", "ssp.hit_cycles=0", "ssp.miss_cycles=100"]);
    assert!((added - none - 100.0 * misses).abs() < 1.0, "{added} {none} {misses}");
    assert!(paper - fast < added - none + 85.0 * misses, "simulated latencies overlap");
}

#[test]
fn ssp_rejects_unsuitable_machine() {
    let lad = setup("lad", "ssp", 2, 10);
    let error = simulate("bank", 0.01, &lad).unwrap_err();
    assert!(matches!(error, sim::Error::Misfit { design: "ssp", .. }), "{error}");
    let mut large = setup("ssp", "ssp", 2, 10);
    large.description.set("ssp.cache_entries=5000").unwrap();
    let error = simulate("bank", 0.01, &large).unwrap_err();
    assert!(error.to_string().contains("4096"), "{error}");
}

#[test]
fn ssp_redo_rejects_machine_that_reorders_writes() {
    let mesh = setup("lad", "ssp-redo", 2, 10);
    let mut channels = setup("ssp", "ssp-redo", 2, 10);
    channels.description.set("nvm.channels=2").unwrap();
    for setup in [mesh, channels] {
        let error = simulate("bank", 0.01, &setup).unwrap_err();
        assert!(matches!(error, sim::Error::Misfit { design: "ssp-redo", .. }), "{error}");
        assert!(error.to_string().contains("the younger of two"), "{error}");
    }
}

#[test]
fn window_without_checkpoints_grows_by_whole_lengths() {
    let run = |bytes| on_ssp("sps", "ssp", 1, &[bytes]);
    let outcome = run("ssp.journal_bytes=65536");
    assert_eq!(outcome.transactions, 2000, "the tenth checkpoint is in the second thousand");
    assert!(outcome.design_counts["checkpoints"] >= 10, "{:?}", outcome.design_counts);
    let longest = run("ssp.journal_bytes=262144").transactions;
    assert_eq!(longest, 4000, "the longest window");
}

#[test]
fn fallback_waits_for_committed_data_with_one_write() {
    let mut large = setup("tiny-ssp", "ssp-redo", 2, 150);
    large.description.set("ssp-redo.log_bytes=1048576").unwrap();
    let outcome = cut("tpcc-hash", &large);
    assert!(outcome.fallbacks > 0);
    assert_eq!(outcome.design_counts["home_lines"], outcome.fallbacks);
}

#[test]
fn ssp_undo_with_line_entries_survives_power_cuts() {
    let mut tiny = setup("tiny-ssp", "ssp-undo", 2, 150);
    tiny.description.set("ssp-undo.line=1").unwrap();
    for name in ["rbt", "sps", "tpcc-hash"] {
        let outcome = cut(name, &tiny);
        assert!(outcome.nvm_writes.log_data > 0);
    }
}

#[test]
fn fallback_of_ssp_designs_survives_power_cuts() {
    for (design, name, fewest) in
        [("ssp", "rbt", 10), ("ssp", "sps", 140), ("ssp-redo", "tpcc-hash", 1)]
    {
        let outcome = cut(name, &setup("tiny-ssp", design, 2, 150));
        assert!(outcome.fallbacks >= fewest, "{design} {name}: {}", outcome.fallbacks);
        assert!(outcome.nvm_writes.log_data > 0);
    }
}
