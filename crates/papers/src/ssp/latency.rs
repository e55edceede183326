//! S7, S8 and S14: slower memory, slower metadata (figures 8 and 9; section 5.3), and parameters
//! that the paper leaves open.

use super::{ALL, LOGS, MICRO, ONE, On, SSP};
use crate::rows::{Points, Rows, Uses, least, percent_above};
use crate::sheet::{linear, log};

/// Factors of memory latency over DRAM: over 50 ns for reads and writes, over 15 ns for reads of an
/// open row.
const TIMES: [u64; 4] = [1, 2, 4, 8];
const DRAM_NS: u64 = 50;
const DRAM_HIT_NS: u64 = 15;

/// Workloads of figure 8.
const SHOWN: [&str; 2] = ["rbtree", "bptree"];

fn slower(times: u64) -> On {
    let ns = times * DRAM_NS;
    let on = ONE.with("nvm.read_hit_ns", times * DRAM_HIT_NS).with("nvm.read_miss_ns", ns);
    on.with("nvm.rc_ns", ns).with("nvm.write_hit_ns", ns).with("nvm.write_ns", ns)
}

/// S7: memory as fast as DRAM and slower.
pub(super) fn memory(rows: &mut Rows<'_>) {
    for workload in SHOWN {
        let mut curves: Vec<(String, Points)> = Vec::new();
        for design in ALL {
            let points = TIMES.map(|times| {
                let rate = rows.row(format!("rate/{workload}/{times}/{design}"), |uses| {
                    // By the throughput of SSP at the latency of DRAM.
                    let base = slower(TIMES[0]).cycles(uses, workload, SSP)?;
                    Some(base / slower(times).cycles(uses, workload, design)?)
                });
                (times as f64, rate)
            });
            curves.push((design.to_owned(), points.to_vec()));
        }
        for log in LOGS {
            for times in TIMES {
                rows.row(format!("{log}/{workload}/{times}"), |uses| {
                    slower(times).speedup(uses, workload, log)
                });
            }
        }
        let title = format!("Throughput on slower memory, {workload}");
        let axes = (log("latency, by that of DRAM"), linear("by SSP's at DRAM latency"));
        rows.figure(workload, &title, axes, curves);
    }
    rows.row("redo-before-ssp", |uses| {
        let ratio = slower(TIMES[0]).speedup(uses, "rbtree", "ssp-redo")?;
        Some(percent_above(ratio.recip()))
    });
    rows.row("grows", |uses| {
        let steps = TIMES.windows(2).map(|pair| {
            let [less, more] =
                [pair[0], pair[1]].map(|times| slower(times).speedup(uses, "bptree", "ssp-redo"));
            Some(more? / less?)
        });
        least(steps)
    });
}

/// Latencies of the controller's metadata of a page, in cycles.
const METADATA: [u64; 5] = [20, 60, 100, 140, 180];

fn metadata_in(cycles: u64) -> On {
    ONE.with("design.ssp.hit_cycles", cycles).with("design.ssp.miss_cycles", cycles)
}

/// Returns the throughput lost from the fastest to the slowest metadata, in percent.
fn lost(uses: &Uses<'_>, workload: &str) -> Option<f64> {
    let [fast, slow] = [METADATA[0], METADATA[METADATA.len() - 1]]
        .map(|cycles| metadata_in(cycles).cycles(uses, workload, SSP));
    Some(percent_above(slow? / fast?))
}

/// Workloads that write to pages without recent writes.
const SENSITIVE: [&str; 2] = ["sps-1", "hash"];

/// S8: slower metadata.
pub(super) fn metadata(rows: &mut Rows<'_>) {
    let mut curves: Vec<(String, Points)> = Vec::new();
    for workload in MICRO {
        let points = METADATA.map(|cycles| {
            let rate = rows.row(format!("rate/{workload}/{cycles}"), |uses| {
                let base = metadata_in(METADATA[0]).cycles(uses, workload, SSP)?;
                Some(base / metadata_in(cycles).cycles(uses, workload, SSP)?)
            });
            (cycles as f64, rate)
        });
        curves.push((workload.to_owned(), points.to_vec()));
        rows.row(format!("lost/{workload}"), |uses| lost(uses, workload));
    }
    for workload in SENSITIVE {
        rows.row(format!("sensitive/{workload}"), |uses| {
            let others = MICRO.into_iter().filter(|of| !SENSITIVE.contains(of));
            let others = others.map(|of| lost(uses, of));
            Some(lost(uses, workload)? - crate::rows::most(others)?)
        });
    }
    for (random, zipf) in
        [("rbtree", "rbtree-zipf"), ("bptree", "bptree-zipf"), ("hash", "hash-zipf")]
    {
        rows.row(format!("flatter/{zipf}"), |uses| Some(lost(uses, random)? - lost(uses, zipf)?));
    }
    let title = "Throughput of SSP with slower metadata";
    let axes = (linear("cycles"), linear("by that with 20 cycles"));
    rows.figure("metadata", title, axes, curves);
}

/// Returns the parameters that the paper does not give, each with other plausible values.
fn variants() -> Vec<(&'static str, On)> {
    vec![
        ("as-is", ONE),
        ("banks-16", ONE.with("nvm.banks", 16)),
        ("banks-64", ONE.with("nvm.banks", 64)),
        ("accepted", ONE.with("persist.point", "accepted")),
        ("mshrs-4", ONE.with("l1.mshrs", 4)),
        ("serial-loads", ONE.with("core.serial_loads", "true")),
        ("no-wait", ONE.with("design.ssp-redo.wait_at_begin", 0)),
        ("one-wait", ONE.with("design.ssp-redo.record_beside_log", 1)),
        ("added", ONE.with("design.ssp.meta_model", 1)),
        ("journal-16k", ONE.with("design.ssp.journal_bytes", 16 << 10)),
        ("redo-log-64k", ONE.with("design.ssp-redo.log_bytes", 64 << 10)),
        ("undo-lines", ONE.with("design.ssp-undo.line", 1)),
        ("undo-one-by-one", ONE.with("design.ssp-undo.side_by_side", 0)),
        ("copies-elsewhere", ONE.with("design.ssp.copies_in_cache", 0)),
        ("keys-8k", On { keys: 0.008192, ..ONE }),
        ("keys-16k", On { keys: 0.016384, ..ONE }),
        ("keys-128k", On { keys: 0.131072, ..ONE }),
    ]
}

/// S14: each parameter varied alone.
pub(super) fn choices(rows: &mut Rows<'_>) {
    for (variant, on) in variants() {
        for log in LOGS {
            rows.row(format!("{variant}/{log}"), |uses| on.speedups(uses, &MICRO, log));
        }
    }
}
