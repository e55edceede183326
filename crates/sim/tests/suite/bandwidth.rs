//! Bandwidth, overlap and the window: streams reach the bound that a description sets, and never
//! exceed it.
//!
//! `cargo test -p lastword-sim-tests --test suite bandwidth -- --nocapture` prints bound and
//! measurement.

use crate::bare::{Core, alone, builtin, fresh_cycle, machine_of, pointer, run, timed, word};
use sim::design::Volatile;
use sim::machine::description::Description;
use sim::machine::kernel::Program;

/// A machine limited only by memory: no address translation, and a window that holds everything.
/// Memory is not refreshed.
fn open(name: &str, settings: &[&str]) -> Description {
    let wide =
        ["tlb.entries=0", "core.rob=4096", "core.load_queue=4096", "l1.mshrs=64", "nvm.refi_ns=0"];
    builtin(name, &[&wide, settings].concat())
}

fn cycles(description: &Description, ns: f64) -> u64 {
    (ns * description.clock_ghz).round() as u64
}

/// Runs the same program on every core, each on its own lines. Returns the last cycle.
fn all_cores(description: &Description, program: impl Fn(&mut Core<'_>) + Clone + 'static) -> u64 {
    let programs = (0..description.cores).map(|_| -> Program<Volatile> {
        let program = program.clone();
        Box::new(move |hart| program(hart))
    });
    run(machine_of(description, Volatile), programs.collect()).expect("all end").now()
}

#[test]
fn loads_of_open_rows_reach_burst_bandwidth() {
    for name in ["lad", "redu", "ssp"] {
        let description = open(name, &["cores=4"]);
        let (each, cores) = (2048, description.cores as u64);
        let took = all_cores(&description, move |hart| {
            let first = hart.core() as u32 * each;
            (0..each).for_each(|line| {
                hart.load(word(first + line), 0);
            });
        });
        let lines = u64::from(each) * cores;
        let burst = cycles(&description, description.nvm.burst_ns);
        let bound = lines * burst / u64::from(description.nvm.channels);
        let share = bound as f64 / took as f64;
        println!(
            "{name:5} loads: {lines} lines in {took} cycles, bursts alone {bound}: {share:.3}"
        );
        assert!(took >= bound, "{name}: more than the channels can carry");
        assert!(share > 0.9, "{name}: {share}");
    }
}

/// The writes visit all banks of one channel in turn.
#[test]
fn queued_writes_keep_all_banks_busy() {
    for name in ["lad", "redu", "ssp"] {
        let settings =
            ["nvm.channels=1", "persist.point=media", "core.store_buffer=512", "mc.wq=256"];
        let description = open(name, &settings);
        let nvm = &description.nvm;
        let (banks, run) = (nvm.banks, nvm.interleave_bytes / 64);
        let lines = 20 * banks;
        let (took, machine) = alone(&description, 0, move |hart| {
            let line = |i: u32| i % banks * run + i / banks % run + i / banks / run * run * banks;
            (0..lines).for_each(|i| hart.store(word(line(i)), 0, 1));
            timed(hart, |hart| (0..lines).for_each(|i| hart.write_back(line(i))))
        });
        let (burst, write) =
            (cycles(&description, nvm.burst_ns), cycles(&description, nvm.write_hit_ns));
        let bound = u64::from(lines) * burst.max((burst + write) / u64::from(banks));
        let share = bound as f64 / took as f64;
        println!("{name:5} queue of writes: {lines} lines in {took}, bound {bound}: {share:.3}");
        assert_eq!(machine.counts.nvm_writes_total(), u64::from(lines));
        assert!(took >= bound, "{name}: more than the banks can write");
        assert!(share > 0.85, "{name}: {share}");
    }
}

#[test]
fn independent_misses_overlap_up_to_the_mshrs() {
    // With many banks, a fast bus and a single latency, only the misses in flight are a limit.
    let plain = [
        "nvm.banks=4096",
        "nvm.row_bytes=64",
        "nvm.burst_ns=0.5",
        "nvm.ccd_l_ns=0",
        "nvm.rrd_s_ns=0",
        "nvm.rrd_l_ns=0",
        "nvm.faw_ns=0",
        "network.hop=0",
    ];
    let misses = 512_u32;
    for mshrs in [1_u64, 2, 4, 8, 16, 32] {
        let mut description = open("lad", &plain);
        description.l1.mshrs = mshrs as u32;
        let (one, _) = alone(&description, 0, |hart| {
            timed(hart, |hart| {
                hart.load(word(9000), 0);
            })
        });
        let (took, _) = alone(&description, 0, move |hart| {
            timed(hart, |hart| {
                (0..misses).for_each(|i| {
                    hart.load(word(i * 17), 0);
                })
            })
        });
        let expected = u64::from(misses) * one / mshrs;
        println!(
            "lad: {misses} independent misses, {mshrs:2} at a time: {took} cycles, {expected}"
        );
        assert!(took + one >= expected && took <= expected + expected / 20 + one, "{mshrs}");
    }
}

#[test]
fn serial_loads_do_not_overlap() {
    let took = |setting: &str| {
        let description = builtin("lad", &["tlb.entries=0", setting]);
        let (took, _) = alone(&description, 0, |hart| {
            timed(hart, |hart| {
                (0..64).for_each(|i| {
                    hart.load(word(i * 17), 0);
                })
            })
        });
        took
    };
    let (serial, free) = (took("core.serial_loads=true"), took("core.serial_loads=false"));
    println!("lad: 64 loads one by one: {serial} cycles, otherwise {free}");
    assert!(serial >= 64 * 78, "each takes at least a read of memory: {serial}");
    assert!(serial > 4 * free, "{serial} and {free}");
}

#[test]
fn dependent_misses_do_not_overlap() {
    for name in ["lad", "redu", "ssp"] {
        let description = open(name, &["llc.bytes=1048576"]);
        let nodes = 200_u32;
        let line = |i: u32| 1 + i * 37;
        let (took, _) = alone(&description, 0, move |hart| {
            // Build a list of nodes, then evict all of them to memory.
            for i in 0..nodes {
                hart.store(word(line(i)), 0, pointer(word(line(i + 1))));
                hart.write_back(line(i));
            }
            hart.fence();
            (0..40_000).for_each(|i| {
                hart.load(word(20_000 + i), 0);
            });
            hart.fence();
            let began = fresh_cycle(hart);
            let mut object = pointer(word(line(0)));
            for i in 0..nodes {
                object = hart.load(word(line(i)), object);
            }
            let chased = {
                hart.fence();
                hart.cycle() - began
            };
            (0..40_000).for_each(|i| {
                hart.load(word(20_000 + i), 0);
            });
            let strided = timed(hart, |hart| {
                (0..nodes).for_each(|i| {
                    hart.load(word(line(i)), 0);
                })
            });
            (chased, strided)
        });
        let (chased, strided) = took;
        let each = chased / u64::from(nodes);
        println!(
            "{name:5} {nodes} nodes: {chased} cycles one by one ({each} each), {strided} at once"
        );
        let least = description.l1.latency
            + description.llc.latency
            + cycles(&description, description.nvm.read_hit_ns);
        assert!(each >= least, "{name}: each load waits for the previous one");
        assert!(chased > 3 * strided, "{name}: independent loads overlap");
    }
}

#[test]
fn window_hides_exactly_its_capacity() {
    let description = builtin("lad", &["tlb.entries=0"]);
    let (rob, width) = (u64::from(description.core.rob), u64::from(description.core.width));
    let with = |instructions: u64| {
        let (took, _) = alone(&description, 0, move |hart| {
            timed(hart, |hart| {
                hart.load(word(5000), 0);
                hart.instructions(instructions);
            })
        });
        took
    };
    let alone = with(0);
    println!("lad: a miss takes {alone} cycles; with a full window {}", with(rob - 2));
    assert_eq!(with(rob - 2), alone, "instructions that fit are hidden");
    for more in [300, 3000] {
        let (took, rest) = (with(rob + more), more / width);
        println!("lad: with {more} instructions more than that {took} cycles");
        assert!((alone + rest..=alone + rest + 3).contains(&took), "{took}");
    }
}
