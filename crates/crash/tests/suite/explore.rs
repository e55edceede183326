//! The explorer on every design and workload.
//!
//! No promise may be violated. For coverage, crashes must both lose and keep transactions without
//! acknowledgement. These explorations are short and seeded. `lastword crash explore` runs longer
//! ones.

use crash::{Case, Limits, Outcome, Prepared, Statistics, Tier, designs, explore, workload};

/// Explores executions of a case. Panics with a trace on a violation.
fn go(case: &str, tier: Tier, executions: u64) -> Statistics {
    let case: Case = case.parse().unwrap();
    let prepared = Prepared::new(&case).unwrap().unwrap();
    let limits = Limits { executions, threads: 1, ..Limits::default() };
    let found = explore(&case, &prepared, tier, limits);
    if let Some((violation, trace)) = found.violation {
        panic!("{violation}\nlastword crash replay '{trace}'");
    }
    let Statistics { executions, distinct_images, recoveries, outcome, .. } = found.statistics;
    println!("{case}: {executions} executions, {distinct_images} images, {recoveries} recoveries");
    println!("  {outcome:?}");
    found.statistics
}

/// Asserts that some crash kept all transactions and that another lost one.
fn both(statistics: &Statistics) {
    let outcome = statistics.outcome;
    assert!(outcome.all_present > 0, "no crash kept an unacknowledged transaction");
    assert!(outcome.none + outcome.some_lost > 0, "no crash lost a transaction");
}

/// All executions of the smallest cases (tier A).
#[test]
fn smallest_cases_survive_every_crash() {
    for case in [
        "medium=file transactions=2 moves=3",
        "medium=file transactions=1 moves=2 crashes=2",
        "medium=file transactions=1 moves=2 sync=1 cow=1",
        "medium=file transactions=2 moves=3 partitions=2",
        "medium=memory transactions=2 moves=3 every_word=0",
        "medium=memory transactions=1 moves=2 crashes=2 every_word=0",
        "medium=memory transactions=1 moves=2 sync=1 cow=1 every_word=0",
        "medium=cache transactions=1 moves=3",
        "medium=file transactions=2 moves=3 group=2 compress=1",
        "medium=memory transactions=2 moves=3 group=2 persist_threads=2 every_word=0",
        "design=undo medium=file transactions=1 moves=2",
        "design=undo medium=cache transactions=1 moves=2",
        "design=snapshot medium=cache transactions=2 moves=3 group=2",
        "design=redo medium=file transactions=1 moves=2",
        "design=redo medium=cache transactions=1 moves=2",
    ] {
        let statistics = go(case, Tier::A, u64::MAX);
        assert!(statistics.complete, "{case}: some executions were not explored");
        both(&statistics);
    }
}

/// All executions from the pool's creation on. After each crash the pool is missing or whole.
#[test]
fn crash_during_creation_leaves_no_pool_or_a_whole_one() {
    for case in [
        "medium=file create=1 transactions=0 moves=0 crashes=2",
        "medium=file create=1 transactions=0 moves=0 kills=1 crashes=1",
        "medium=memory create=1 transactions=0 moves=0 crashes=1 every_word=0",
    ] {
        let statistics = go(case, Tier::A, u64::MAX);
        assert!(statistics.complete, "{case}: some executions were not explored");
        assert!(statistics.recoveries > 100, "{case}: nothing was recovered");
    }
}

/// Creation on a file system without safe renames and links.
#[test]
fn creation_without_safe_renames_survives_every_crash() {
    for case in [
        "medium=file create=1 transactions=0 moves=0 crashes=1 naming=0",
        "medium=memory create=1 transactions=0 moves=0 crashes=1 every_word=0 naming=0",
    ] {
        let statistics = go(case, Tier::A, u64::MAX);
        assert!(statistics.complete, "{case}: some executions were not explored");
        assert!(statistics.recoveries > 50, "{case}: nothing was recovered");
    }
    // With a second crash or a kill the executions are too many for tier A.
    for case in [
        "medium=file create=1 transactions=0 moves=0 crashes=2 naming=0",
        "medium=file create=1 transactions=0 moves=0 kills=1 crashes=1 naming=0",
    ] {
        let statistics = go(case, Tier::B { deviations: 2 }, 2_000);
        assert!(statistics.recoveries > 100, "{case}: nothing was recovered");
    }
}

/// Crashes at every store and write find the same images as crashes before barriers, because the
/// uncertain content only grows between two barriers.
#[test]
fn crashes_at_every_store_find_no_new_image() {
    for medium in ["file", "memory"] {
        let case = format!("workload=append medium={medium} transactions=1 moves=2");
        let sparse = go(&format!("{case} every_word=0"), Tier::A, u64::MAX);
        let dense = go(&format!("{case} every_word=0 every_store=1"), Tier::A, u64::MAX);
        assert!(sparse.complete && dense.complete);
        assert!(dense.executions > sparse.executions, "{case}: no crash at any store");
        assert_eq!(dense.distinct_images, sparse.distinct_images, "{case}");
    }
}

/// Executions near four policies, with two crashes (tier B).
#[test]
fn executions_near_the_four_policies_survive() {
    for case in [
        "workload=append medium=file transactions=3 moves=6 crashes=2",
        "workload=append medium=memory transactions=3 moves=6 crashes=2",
    ] {
        both(&go(case, Tier::B { deviations: 2 }, 3_000));
    }
}

/// Explores random executions with each of these options on every medium. In each combination,
/// crashes must both lose and keep transactions.
fn at_random(case: &str, media: &[&str], options: &[&str], executions: u64) {
    let mut all = Statistics::default();
    let cases = media.iter().flat_map(|medium| options.iter().map(move |more| (medium, more)));
    for (seed, (medium, more)) in (1..).zip(cases) {
        let case = format!("{case} medium={medium} workers=2 all_moves=1 crashes=3 {more}");
        let Outcome { all_present, some_lost, none } =
            go(&case, Tier::C { seed }, executions).outcome;
        all.outcome.all_present += all_present;
        all.outcome.some_lost += some_lost;
        all.outcome.none += none;
    }
    both(&all);
}

/// The designs that all others build on.
const FIRST: [&str; 2] = ["decoupled", "decoupled-serial"];

const MEDIA: &[&str] = &["file", "memory", "cache"];

/// Returns the workloads of which one execution takes milliseconds. `reuse` has a test of its own.
fn small() -> impl Iterator<Item = &'static str> {
    workload::NAMES.into_iter().filter(|name| !name.starts_with("tpcc") && *name != "reuse")
}

/// Random executions of every design and small workload, with all options (tier C).
#[test]
fn every_design_and_workload_survives_random_crashes() {
    let options = ["", "sync=1", "cow=1", "create=1 kills=1", "kills=2 garbage=1"];
    for design in designs::names() {
        for workload in small() {
            let case = format!("design={design} workload={workload} transactions=8 moves=24");
            // All together take half a minute; `lastword crash explore` goes further.
            let executions = if FIRST.contains(&design) { 6 } else { 3 };
            at_random(&case, MEDIA, &options, executions);
        }
    }
}

/// Long random executions that fill a small heap, on every design. Some meet a full heap, and
/// reclaimed memory serves some of those.
#[test]
fn reused_memory_survives_random_crashes() {
    let options = ["", "sync=1 kills=1", "crashes=1", "switch=1"];
    let (mut met_full, mut served) = (0, 0);
    for design in designs::names() {
        let cases = MEDIA.iter().flat_map(|medium| options.iter().map(move |more| (medium, more)));
        for (seed, (medium, more)) in (1..).zip(cases) {
            let case = format!(
                "design={design} workload=reuse medium={medium} transactions=60 moves=80 workers=2 \
                 all_moves=1 crashes=2 {more}"
            );
            let statistics = go(&case, Tier::C { seed }, 2);
            met_full += statistics.met_full;
            served += statistics.served;
        }
    }
    assert!(met_full > 100 && served > 10, "{met_full} met a full heap, {served} were served");
}

/// Random executions of TPC-C over each kind of shadow. Designs with slots are left out, because a
/// slot of so small a log does not hold the loading transaction.
#[test]
fn tpcc_survives_random_crashes() {
    for design in designs::names().filter(|name| name.starts_with("decoupled")) {
        for workload in ["tpcc-hash", "tpcc-btree"] {
            let case = format!("design={design} workload={workload} transactions=8 moves=24");
            at_random(&case, &["file", "memory"], &["", "kills=2 garbage=1"], 24);
        }
    }
}

/// Random executions with groups that are combined, compressed, packed and stored separately. They
/// include log wraps, bursts and faults.
#[test]
fn groups_of_every_kind_are_atomic() {
    let options = [
        "group=1",
        "group=4",
        "group=100",
        "compress=1",
        "persist_threads=2",
        "group=4 compress=1 persist_threads=2 faults=1",
        "group=4 compress=1 sync=1 kills=1 garbage=1",
    ];
    for workload in small() {
        for medium in ["file", "memory"] {
            let case = format!("workload={workload} transactions=12 moves=40");
            at_random(&case, &[medium], &options, 6);
        }
    }
}

/// Groups of `snapshot`, of one worker and of several, ended by every cause.
#[test]
fn worker_groups_are_atomic() {
    for workload in ["cells", "churn", "append", "sides"] {
        let case = format!("design=snapshot workload={workload} transactions=12 moves=40");
        let options = [
            "workers=1 group=2",
            "workers=1 group=3 faults=1",
            "workers=1 group=100 kills=1 garbage=1",
            "group=2",
            "workers=3 group=3 faults=1",
            "group=100 kills=1 garbage=1",
            "group=2 recycle=1",
            "recycle=2 kills=1",
        ];
        at_random(&case, &["file", "memory", "cache"], &options, 4);
    }
}

/// Every crash of the smallest case in which two workers have a group each.
#[test]
fn crash_may_lose_either_workers_group() {
    let case =
        "design=snapshot workload=sides medium=cache workers=2 group=2 transactions=2 moves=2";
    let statistics = go(case, Tier::A, u64::MAX);
    assert!(statistics.complete, "some executions were not explored");
    both(&statistics);
    assert!(statistics.outcome.some_lost > 0, "{:?}", statistics.outcome);
}

/// Each boot opens the pool under another design, or the same, and recovers the last one's state.
#[test]
fn designs_recover_each_others_pools() {
    for workload in ["cells", "churn"] {
        for medium in ["file", "memory", "cache"] {
            for options in ["", "sync=1 kills=1", "create=1"] {
                let case = format!(
                    "workload={workload} medium={medium} switch=1 transactions=10 moves=30 \
                     workers=2 all_moves=1 crashes=4 {options}"
                );
                go(&case, Tier::C { seed: 3 }, 30);
            }
        }
    }
}

/// Calls that fail, once and for good, with crashes before and after.
#[test]
fn failed_calls_lose_nothing() {
    let everything = "transactions=8 moves=24 workers=2 all_moves=1 crashes=2 kills=1";
    for workload in ["cells", "bulk"] {
        for medium in ["file", "memory"] {
            for options in
                ["faults=2", "faults=1 sticky=1", "faults=2 create=1", "faults=1 queue=0"]
            {
                let case = format!("workload={workload} medium={medium} {everything} {options}");
                let statistics = go(&case, Tier::C { seed: 7 }, 70);
                assert!(statistics.faults > 20, "{case}: {} calls failed", statistics.faults);
            }
        }
    }
}

/// File systems that refuse direct writes, durable ones, or both. Groups use blocking writes after
/// the first refusal, while other groups are still in the queue.
#[test]
fn refused_kinds_of_writes_lose_nothing() {
    let everything = "medium=file transactions=8 moves=24 workers=2 all_moves=1 crashes=2 kills=1";
    for refused in ["direct=0", "dsync=0", "direct=0 dsync=0"] {
        for workload in ["cells", "bulk"] {
            for options in ["", "sync=1", "queue=0", "faults=1", "create=1"] {
                let case = format!("workload={workload} {everything} {refused} {options}");
                go(&case, Tier::C { seed: 11 }, 30);
            }
        }
    }
}

/// A partitioned heap image, with few partitions and with one per page, and crashes between them.
#[test]
fn partitioned_heap_image_survives_random_crashes() {
    for partitions in [2, 16] {
        for workload in ["churn", "bulk"] {
            let case =
                format!("workload={workload} partitions={partitions} transactions=8 moves=24");
            at_random(&case, MEDIA, &["", "sync=1 kills=1", "faults=2 kills=1"], 10);
        }
    }
}

/// Reproduction that takes groups in and writes pages at the pace of the commits: pages with older
/// words wait, and log up to the oldest of them stays.
#[test]
fn pages_that_wait_survive_random_crashes() {
    let options = ["", "kills=1 garbage=1", "partitions=4", "cow=1", "faults=1", "group=3"];
    for workload in ["cells", "churn", "bulk", "append"] {
        let case = format!("workload={workload} paced=1 transactions=40 moves=120");
        at_random(&case, &["file"], &options, 15);
    }
}

/// Backups between the moves of an open pool: each copy has the state of its call, or the power
/// failed before the call returned and there is no copy.
#[test]
fn backups_survive_random_crashes() {
    let options = ["", "kills=1 garbage=1", "partitions=2", "faults=1", "group=3"];
    for workload in ["cells", "churn"] {
        let case = format!("workload={workload} backup=1 transactions=12 moves=40");
        at_random(&case, MEDIA, &options, 5);
    }
    at_random("workload=bulk backup=1 paced=1 transactions=20 moves=60", &["file"], &options, 10);
    let options = ["", "kills=1 garbage=1", "faults=1", "page_checksums=1 all_moves=1"];
    for design in ["undo", "redo", "snapshot"] {
        for workload in ["cells", "churn"] {
            let case = format!("design={design} workload={workload} backup=1 transactions=12");
            at_random(&format!("{case} moves=40"), MEDIA, &options, 5);
        }
    }
    at_random("design=snapshot workload=cells backup=1 group=3 moves=40", MEDIA, &[""], 10);
}

/// Heaps that grow, when they are full and by hand: every later opening finds the new size, and no
/// record of a transaction that used new memory is refused.
#[test]
fn growing_heaps_survive_random_crashes() {
    let options = ["", "kills=1 garbage=1", "partitions=2", "faults=1", "cow=1", "backup=1"];
    let case = "workload=reuse grow=1 transactions=20 moves=50";
    at_random(case, MEDIA, &options, 5);
    for design in ["undo", "redo", "snapshot", "decoupled-software"] {
        at_random(&format!("design={design} {case}"), MEDIA, &["", "kills=1 garbage=1"], 5);
    }
}

/// Logs that double on request: every later opening finds the new size, and all groups.
#[test]
fn growing_logs_survive_random_crashes() {
    let options = [
        "",
        "kills=1 garbage=1",
        "faults=1",
        "compress=1 group=3",
        "persist_threads=2",
        "paced=1",
        "backup=1",
        "grow=1",
    ];
    at_random("workload=append grow_log=1 transactions=60 moves=150", &["file"], &options, 10);
    at_random("workload=bulk grow_log=1 transactions=40 moves=80", &["file"], &options[..4], 5);
}

/// Heap images with checksums of pages: no crash makes a page look damaged, whatever it interrupts.
#[test]
fn page_checksums_survive_random_crashes() {
    let options = [
        "",
        "kills=1 garbage=1",
        "partitions=2",
        "faults=1",
        "cow=1 grow=1",
        "backup=1",
        "switch=1",
    ];
    for workload in ["cells", "reuse"] {
        let case = format!("workload={workload} page_checksums=1 transactions=12 moves=40");
        at_random(&case, MEDIA, &options, 10);
        for design in ["undo", "redo", "snapshot", "decoupled-software"] {
            let case = format!("design={design} {case}");
            at_random(&case, MEDIA, &["", "kills=1 garbage=1", "grow=1"], 5);
        }
    }
    for design in ["decoupled", "undo", "redo", "snapshot"] {
        let case = format!("design={design} workload=cells page_checksums=1");
        let case = format!("{case} transactions=12 moves=40");
        at_random(&case, MEDIA, &["", "create=1", "create=1 faults=1"], 10);
    }
    let paced = "workload=bulk page_checksums=1 paced=1 transactions=20 moves=60";
    at_random(paced, &["file"], &["", "kills=1 garbage=1", "backup=1", "partitions=3"], 15);
}

/// Background steps that are not taken leave groups in flight when the power fails, so the last of
/// several transactions are lost.
#[test]
fn crash_may_lose_the_last_of_several_groups() {
    let case = "workload=cells medium=file transactions=12 moves=40 all_moves=1 crashes=2";
    let statistics = go(case, Tier::C { seed: 1 }, 4_000);
    assert!(statistics.outcome.some_lost > 0, "{:?}", statistics.outcome);
}
