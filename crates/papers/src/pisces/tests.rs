//! Pisces' recipes: rows of full and quick runs, and their values for given trials.

use crate::sample::{self, judged};
use crate::statistics::Quantiles;
use crate::trial::Trial;

#[test]
fn pisces_runs_have_all_rows() {
    sample::assert_rows("pisces", invented, |id, _| id == "P8");
}

/// A thousand transactions whose duration identifies the command.
fn invented(command: &str) -> Trial {
    let has = |words: &str| format!("{command} ").contains(&format!("{words} "));
    let design = [
        ("snapshot", 200),
        ("snapshot-whole", 300),
        ("snapshot-group", 160),
        ("snapshot-unlogged", 150),
        ("decoupled", 250),
        ("decoupled-ideal", 240),
        ("mvcc", 400),
        ("plain", 180),
    ];
    let of_design = design.iter().find(|(name, _)| has(&format!("--design {name}")));
    let us = of_design.unwrap_or_else(|| panic!("of no design: {command}")).1;
    let us = if has("--update-percent 40") { us * 2 } else { us };
    let slow = has("--latency-ns 600") || has("--bandwidth-gbps 1");
    let fast = has("--latency-ns 500");
    let p50 = Some(if slow {
        120
    } else if fast {
        80
    } else {
        100
    });
    Trial {
        workers: if has("--threads 2") { 2 } else { 1 },
        aborts: if has("--threads 2") { 250 } else { 0 },
        seconds: 1e-6 * f64::from(us),
        durable_seconds: 1e-6 * f64::from(us),
        grace_periods: 125,
        grace_cycles: 50_000,
        reading_ns: Quantiles { p50, ..Trial::SAMPLE.reading_ns },
        ..Trial::SAMPLE
    }
}

#[test]
fn pisces_rows_follow_from_trials() {
    let results = judged("pisces", false, invented);
    let held = |id: &str, name: &str| sample::held(&results, id, name);
    // 250 ns for `decoupled` and 200 for `snapshot` in every setting.
    assert_eq!(held("P1", "ratio/chains/2/one"), (Some(1.25), Some(true)));
    assert_eq!(held("P1", "rate/snapshot/chains/20/two"), (Some(5e6), None));
    assert_eq!(held("P1", "aborts/snapshot/chains/20/two").0, Some(20.0));
    assert_eq!(held("P2", "ideal/btree-16/20/one").0, Some(1.042));
    assert_eq!(held("P3", "aborts/snapshot/one"), (Some(0.0), Some(true)));
    assert_eq!(held("P3", "aborts/snapshot/two"), (Some(20.0), Some(false)));
    assert_eq!(held("P4", "ratio/two").0, Some(1.25));
    assert_eq!(held("P5", "seconds/vacation/snapshot/one").0, Some(0.08));
    assert_eq!(held("P6", "flush-diff/chains/one").0, Some(50.0));
    assert_eq!(held("P6", "group/btree-16/two").0, Some(25.0));
    assert_eq!(held("P7", "mvcc/chains"), (Some(2.0), Some(true)));
    assert_eq!(held("P7", "plain/btree-16"), (Some(1.111), Some(true)));
    assert_eq!(held("P7", "decoupled/chains").1, Some(true));
    assert_eq!(held("P8", "latency/list/400"), (Some(1.0), Some(true)));
    assert_eq!(held("P8", "latency/list/500"), (Some(0.8), Some(false)));
    assert_eq!(held("P8", "latency/list/600"), (Some(1.2), Some(false)));
    assert_eq!(held("P8", "bandwidth/chains/1"), (Some(1.2), Some(false)));
    // 400 ns with 40 % updates, 200 without: (400 - 0.6 * 200) / 0.4.
    let of_ns = |ns: f64| (medium::cpu::cycles_per_second() as f64 * ns / 1e6).round() / 1000.0;
    assert_eq!(held("P9", "write/chains/one").0, Some(of_ns(700.0)));
    assert_eq!(held("P9", "write/vacation/one").0, Some(of_ns(200.0)));
    assert_eq!(held("P9", "period/vacation/two").0, Some(400.0));
    assert_eq!(held("P9", "periods/vacation/two").0, Some(1.0));
    assert_eq!(held("P9", "periods/chains/one").0, Some(2.5));
    assert_eq!(held("P10", "cost/tatp/one").0, Some(25.0));
}

#[test]
fn crews_extend_to_the_cores() {
    use crate::budget::crews;
    assert_eq!(crews(1, false), [1, 2]);
    assert_eq!(crews(2, false), [1, 2]);
    assert_eq!(crews(12, false), [1, 2, 4, 8]);
    assert_eq!(crews(12, true), [1, 2]);
    assert_eq!(crews(500, false), [1, 2, 4, 8, 16, 32, 64]);
}
