//! Reports, options and refusals of `lastword run` and `demo`.

use std::io::Write;

use crate::common::{Room, TINY, keys, with};
use lastword::{Addr, Allocate, Objects, Options, Pool, Words};

#[test]
fn workload_check_holds_on_every_design() {
    let room = Room::new();
    const TARGETS: [(&str, &str); 4] =
        [("decoupled", "file"), ("volatile", ""), ("decoupled", "emulated"), ("plain", "")];
    for (number, workload) in workloads::NAMES.into_iter().enumerate() {
        // The first workloads run on all; the medium and the missing isolation matter to none.
        let targets = if number < 3 { &TARGETS[..] } else { &TARGETS[..2] };
        for &(design, medium) in targets {
            let durable = design == "decoupled";
            let command = ["run", workload, "--design", design, "--medium", medium];
            let command = if durable { &command[..] } else { &command[..4] };
            let report = room.json(0, &with(command, &TINY));
            assert_eq!(report["checked"], true, "{command:?}");
            assert_eq!(report["transactions"], 3000, "{command:?}");
            assert_eq!(report["workload"], workload);
            assert_eq!(report["medium"].as_str(), durable.then_some(medium), "{command:?}");
        }
    }
    assert_eq!(room.files(), [""; 0], "a temporary pool is left");
}

#[test]
fn workers_share_transactions() {
    let room = Room::new();
    for durability in ["async", "sync"] {
        let command = ["run", "bank", "--threads", "3", "--durability", durability];
        let some = ["--transactions", "1000", "--scale", "0.001", "--log-bytes", "256K"];
        let report = room.json(0, &with(&command, &some));
        assert_eq!((&report["transactions"], &report["checked"]), (&1000.into(), &true.into()));
        assert_eq!(report["threads"], 3);
        assert!(report["persist_barriers"].as_u64().unwrap() > 0);
        if durability == "sync" {
            assert_eq!(report["commit_latency_ns"], report["durable_latency_ns"]);
        }
    }
}

/// Keys of the report of `run`.
const REPORT_KEYS: &[&str] = &[
    "aborts",
    "bandwidth_gbps",
    "checked",
    "commit",
    "commit_latency_ns",
    "compress",
    "cpu_seconds",
    "cycles_per_grace_period",
    "design",
    "device_writes",
    "durability",
    "durable_by_next",
    "durable_latency_ns",
    "durable_transactions_per_second",
    "evictions",
    "grace_periods",
    "group",
    "group_ms",
    "heap",
    "heap_image_bytes",
    "latency_cycles",
    "log_bytes",
    "log_combined_bytes",
    "log_combined_words",
    "log_payload_bytes",
    "log_stored_bytes",
    "log_wraps",
    "machine",
    "medium",
    "outstanding",
    "ownership_records",
    "padding_bytes",
    "page_ins",
    "page_waits",
    "pause_us",
    "peak_rss_bytes",
    "persist_barriers",
    "persist_threads",
    "readers",
    "reading_latency_ns",
    "reproduce_threads",
    "ring_full_waits",
    "scale",
    "seconds",
    "seed",
    "shadow",
    "shadow_bytes",
    "threads",
    "transactions",
    "transactions_per_cpu_second",
    "transactions_per_device_write",
    "transactions_per_second",
    "workload",
    "worst_100ms_transactions",
    "worst_100ms_transactions_per_second",
    "write_amplification",
    "writes_per_transaction",
];

#[test]
fn run_report_has_documented_keys() {
    let room = Room::new();
    let report = room.json(0, &with(&["run", "tatp-hash"], &TINY));
    assert_eq!(keys(&report), REPORT_KEYS);
    let cpu = ["emulated_delay", "other", "persist", "reproduce", "workers"];
    assert_eq!(keys(&report["cpu_seconds"]), cpu);
    for latency in ["commit_latency_ns", "durable_latency_ns"] {
        assert_eq!(keys(&report[latency]), ["max", "p50", "p90", "p99", "samples"]);
        let at = |key: &str| report[latency][key].as_u64().unwrap();
        assert!(at("p50") <= at("p90") && at("p90") <= at("p99") && at("p99") <= at("max"));
    }
    assert_eq!(keys(&report["machine"]), ["cores", "cpu"]);
    let number = |key: &str| report[key].as_f64().unwrap();
    assert_eq!(number("writes_per_transaction"), 1.0);
    assert!(number("log_bytes") >= number("log_payload_bytes"));
    assert!(number("durable_transactions_per_second") <= number("transactions_per_second"));
    assert!(number("transactions_per_cpu_second") > 0.0);
    assert!(number("peak_rss_bytes") > 1e6);
    assert!(report["heap"]["live_bytes"].as_u64().unwrap() > 0, "{report}");
    let device_bytes = number("log_bytes") + number("heap_image_bytes");
    assert_eq!(number("write_amplification"), device_bytes / (8.0 * 3000.0));
    let each = number("transactions_per_device_write");
    assert_eq!(each, 3000.0 / number("device_writes"));
    let short = room.json(0, &with(&["run", "empty"], &TINY));
    for none in ["write_amplification", "transactions_per_device_write"] {
        assert!(short[none].is_null(), "{none} without writes");
    }
    assert!(
        short["worst_100ms_transactions"].is_null(),
        "3000 empty transactions take less than 100 ms"
    );
}

#[test]
fn full_pool_ends_run_with_size_that_is_needed() {
    let room = Room::new();
    room.expect(0, &["pool", "create", "a.pool", "--bytes", "1M", "--log-bytes", "8M"]);
    let run = ["run", "tatp-btree", "--pool", "a.pool", "--scale", "0.1", "--transactions", "10"];
    let output = room.run(&run);
    let text = crate::common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("its heap of 1048576 bytes has no room for 6400000 bytes more"),
        "{text}"
    );
    // 25 000 blocks of 272 bytes, and the allocator's own 64 KiB.
    assert!(text.contains("`max_bytes` of at least 6881280"), "{text}");
    let heap = &room.json(0, &["pool", "info", "a.pool"])["heap"];
    assert_eq!(heap["live_bytes"], 0, "the load was rolled back: {heap}");
}

/// The workload writes few words repeatedly, so combining a thousand transactions shrinks the log.
#[test]
fn combination_and_compression_shrink_log() {
    let room = Room::new();
    let command = ["run", "tatp-hash", "--pool", "a.pool", "--group", "1000", "--group-ms", "1000"];
    let command = [&command[..], &["--compress", "--persist-threads", "2"]].concat();
    let report = room.json(0, &with(&command, &TINY));
    let number = |key: &str| report[key].as_f64().unwrap();
    assert!(10.0 * number("log_combined_bytes") < number("log_payload_bytes"), "{report}");
    assert_eq!((&report["group"], &report["group_ms"]), (&1000.into(), &1000.into()));
    assert_eq!((&report["compress"], &report["persist_threads"]), (&true.into(), &2.into()));
    let info = room.json(0, &["pool", "info", "a.pool"]);
    assert_eq!((&info["group"], &info["compress"]), (&1000.into(), &true.into()));
    let info = room.expect(0, &["pool", "info", "a.pool"]);
    assert!(info.contains("combined, up to 1 000 transactions, LZ4"), "{info}");
    // A combined group is one block, which compression cannot shrink. Groups without combination
    // are larger, and compression shrinks them.
    let report = room.json(0, &with(&["run", "tatp-hash", "--compress"], &TINY));
    let number = |key: &str| report[key].as_f64().unwrap();
    assert_eq!(number("log_combined_bytes"), number("log_payload_bytes"));
    assert!(number("log_stored_bytes") < number("log_combined_bytes"), "{report}");
    // The pool reports the options of its last run and does not fix them.
    room.json(0, &with(&["run", "tatp-hash", "--pool", "a.pool"], &["--transactions", "10"]));
    let info = room.json(0, &["pool", "info", "a.pool"]);
    assert_eq!((&info["group"], &info["compress"]), (&0.into(), &false.into()));
    room.expect(2, &["run", "empty", "--group", "0"]);
}

#[test]
fn run_reports_worst_100_ms() {
    let room = Room::new();
    let command = ["run", "tatp-hash", "--scale", "0.001", "--seconds", "0.5"];
    for durability in ["async", "sync"] {
        let report = room.json(0, &with(&command, &["--durability", durability, "--threads", "2"]));
        let number = |key: &str| report[key].as_f64().unwrap();
        let worst = number("worst_100ms_transactions");
        assert!(worst <= number("transactions"));
        assert_eq!(number("worst_100ms_transactions_per_second"), 10.0 * worst);
    }
}

#[test]
fn emulated_medium_has_requested_costs() {
    let room = Room::new();
    let command = ["run", "bank", "--medium", "emulated", "--latency-cycles", "5000"];
    let report = room.json(0, &with(&with(&command, &TINY), &["--bandwidth-gbps", "2.5"]));
    assert_eq!((&report["latency_cycles"], &report["bandwidth_gbps"]), (&5000.into(), &2.5.into()));
    assert!(report["cpu_seconds"]["emulated_delay"].as_f64().unwrap() > 0.0);
    let report = room.json(0, &with(&["run", "bank"], &TINY));
    assert!(report["latency_cycles"].is_null() && report["bandwidth_gbps"].is_null());
}

#[test]
fn emulated_latency_is_accepted_in_nanoseconds() {
    let room = Room::new();
    let command = with(&["run", "bank", "--medium", "emulated", "--latency-ns", "2000"], &TINY);
    let report = room.json(0, &command);
    let cycles = report["latency_cycles"].as_u64().unwrap();
    assert!((1000..20_000).contains(&cycles), "2 us of a counter of 0.5 to 10 GHz: {cycles}");
    room.refuse("--latency-cycles", &with(&command, &["--latency-cycles", "1000"]));
}

#[test]
fn readers_only_read() {
    let room = Room::new();
    let command = ["run", "chains", "--threads", "3", "--readers", "1", "--transactions", "9000"];
    let report = room.json(0, &with(&command, &["--scale", "0.01"]));
    assert_eq!((&report["readers"], &report["checked"]), (&1.into(), &true.into()));
    assert!(report["reading_latency_ns"]["p50"].as_u64().unwrap() > 0);
    let writes = report["writes_per_transaction"].as_f64().unwrap();
    let all = ["run", "chains", "--threads", "3", "--readers", "3", "--transactions", "9000"];
    let report = room.json(0, &with(&all, &["--scale", "0.01"]));
    assert_eq!(report["writes_per_transaction"], 0.0);
    assert!(report["commit_latency_ns"]["p50"].is_null(), "readers count as writers");
    let none = ["run", "chains", "--threads", "3", "--update-percent", "100"];
    let report = room.json(0, &with(&none, &["--transactions", "9000", "--scale", "0.01"]));
    assert!(report["reading_latency_ns"]["p50"].is_null());
    let all_write = report["writes_per_transaction"].as_f64().unwrap();
    assert!((0.6..0.72).contains(&(writes / all_write)), "two of three: {writes} of {all_write}");
    room.refuse("--threads", &["run", "chains", "--readers", "2"]);
    room.refuse("--readers", &["run", "bank", "--readers", "1"]);
}

#[test]
fn named_pool_is_kept_and_reused() {
    let room = Room::new();
    let command = with(&["run", "bank", "--pool", "bank.pool"], &TINY);
    for _ in 0..3 {
        assert_eq!(room.json(0, &command)["checked"], true);
        assert_eq!(room.files(), ["bank.pool", "bank.pool.log"]);
    }
    let info = room.json(0, &["pool", "info", "bank.pool"]);
    assert!(info["generation"].as_u64().unwrap() >= 6, "a run opens the pool less than twice");
    // Another workload, layout or medium is refused and leaves the pool as it is.
    let other = with(&["run", "hashtable", "--pool", "bank.pool"], &TINY);
    room.refuse("holds workload bank", &other);
    assert_eq!(room.json(0, &command)["checked"], true);
    room.refuse("layout", &with(&command, &["--layout", "other"]));
    room.refuse("medium", &with(&command, &["--medium", "emulated"]));
}

#[test]
fn foreign_pool_is_refused_unchanged() {
    let room = Room::new();
    let pool = Pool::create(room.path("own.pool"), Options::new().layout("own", 3)).unwrap();
    let own = pool
        .run(|tx| {
            let own = tx.alloc(42_u64)?;
            tx.set_root(own.to_bits())?;
            Ok(own)
        })
        .unwrap()
        .value;
    let command = with(&["run", "bank", "--pool", "own.pool"], &TINY);
    room.refuse("in use", &command);
    pool.close().unwrap();
    room.refuse("another program's data", &command);
    let pool = Pool::open(room.path("own.pool"), Options::new().layout("own", 3)).unwrap();
    assert_eq!(pool.run(|tx| tx.get(own)).unwrap().value, 42);
}

#[test]
fn failed_check_exits_with_1() {
    let room = Room::new();
    let command = with(&["run", "bank", "--pool", "bank.pool"], &TINY);
    room.json(0, &command);
    let pool = Pool::open(room.path("bank.pool"), Options::new()).unwrap();
    let forge = pool.run(|tx| {
        // Word 7 of the root points to the tables, their word 0 to the first account, and its
        // word 0 holds the cents.
        let root = tx.root()?;
        let tables = tx.read(Addr::new(root, 56))?;
        let account = tx.read(Addr::new(tables, 0))?;
        let cents = tx.read(Addr::new(account, 0))?;
        tx.write(Addr::new(account, 0), cents + 1)
    });
    forge.unwrap().ticket.wait().unwrap();
    pool.close().unwrap();
    let report = room.json(1, &command);
    assert_eq!(report["checked"], false);
    let output = room.run(&command);
    assert!(crate::common::text(&output.stderr).contains("check failed: cents in all accounts"));
    assert!(crate::common::text(&output.stdout).contains("FAILED"));
}

#[test]
fn failed_run_leaves_no_files() {
    let room = Room::new();
    room.refuse("needs a heap of", &["run", "bank", "--bytes", "128K"]);
    room.refuse("at most 10^9", &["run", "bank", "--seconds", "1e300"]);
    room.refuse("leave --pool out", &["run", "bank", "--design", "volatile", "--pool", "a.pool"]);
    for medium in ["file", "emulated"] {
        let run = ["run", "bank", "--design", "plain", "--medium", medium];
        room.refuse("plain has no pool: leave --medium out", &run);
    }
    room.refuse("at least 128 KiB", &["run", "bank", "--log-bytes", "1K"]);
    room.refuse("no directory", &with(&["run", "bank", "--pool", "no/such.pool"], &TINY));
    room.refuse(
        "no free worker, and its limit is 1",
        &with(&["run", "bank", "--design", "plain", "--threads", "2"], &TINY),
    );
    assert_eq!(room.files(), [""; 0]);
}

/// The refusal names the options of the command line and comes before a pool is made.
#[test]
fn unsupported_shadow_is_refused() {
    let room = Room::new();
    for design in ["plain", "volatile", "undo", "redo"] {
        let run = ["run", "bank", "--design", design];
        let error = format!("{design} does not support --shadow software: leave it out");
        room.refuse(&error, &with(&run, &["--shadow", "software"]));
        let error = format!("{design} does not support --shadow-bytes: leave it out");
        room.refuse(&error, &with(&run, &["--shadow", "cow", "--shadow-bytes", "1M"]));
    }
    let compare = ["compare", "bank", "--designs", "decoupled,undo"];
    let error = "undo does not support --shadow software: leave it out";
    room.refuse(error, &with(&compare, &["--shadow", "software"]));
    let error = "`crash kill` does not support --shadow software: leave it out";
    room.refuse(error, &["crash", "kill", "--workload", "bank", "--shadow", "software"]);
    let full = ["--shadow", "full", "--shadow-bytes", "1M"];
    room.expect(0, &["pool", "create", "a.pool"]);
    let error = "leave --shadow-bytes out, or use --shadow cow or software";
    for command in [&["run", "bank"][..], &compare, &["crash", "kill"], &["pool", "info", "a.pool"]]
    {
        room.refuse(error, &with(command, &full));
    }
    assert_eq!(room.files(), ["a.pool", "a.pool.log"]);
    // A volatile design has no shadow and can still be compared with a design that has one.
    let compare = ["compare", "bank", "--designs", "volatile,decoupled", "--rounds", "1"];
    room.json(0, &with(&with(&compare, &["--shadow", "software"]), &TINY));
}

#[test]
fn refused_worker_thread_is_an_error() {
    // RLIMIT_NPROC counts all processes of a user and does not bind root.
    let is_root = rustix::process::geteuid().is_root();
    let has = |program: &str| std::process::Command::new(program).arg("--version").output().is_ok();
    if !is_root || !has("setpriv") || !has("prlimit") {
        // `writeln!` bypasses the test harness's capture, so that `.ci/run` can list these lines.
        let reason = "a user with a limit needs root, setpriv and prlimit";
        let _ = writeln!(std::io::stderr(), "skipped: refused_worker_thread_is_an_error: {reason}");
        return;
    }
    // The user has no other processes and owns the directory.
    let (room, user) = (Room::new(), 1_000_000_000 + std::process::id());
    std::os::unix::fs::chown(room.path(""), Some(user), None).unwrap();
    // The medium is mapped, because io_uring needs process slots of its own.
    let arguments = ["run", "bank", "--threads", "8", "--seconds", "600", "--scale", "0.001"];
    let arguments = with(&arguments, &["--medium", "emulated", "--pool", "a.pool"]);
    let mut refused = 0;
    // The limits allow the main, signal and background threads and up to 7 of the 8 workers.
    for processes in 3..=10 {
        let mut program = std::process::Command::new("setpriv");
        program.current_dir(room.path("")).args([&format!("--reuid={user}"), "--clear-groups"]);
        program.args(["prlimit", &format!("--nproc={processes}")]);
        program.arg(room.program().get_program()).args(&arguments);
        let output = program.output().unwrap();
        let stderr = crate::common::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{processes}: {stderr}");
        assert!(stderr.starts_with("error: ") && !stderr.contains("panicked"), "{stderr}");
        refused += usize::from(stderr.contains("cannot start a"));
        if room.path("a.pool").exists() {
            std::fs::remove_file(room.path("a.pool")).unwrap();
        }
        assert_eq!(room.files(), [""; 0]);
    }
    assert!(refused >= 4, "{refused}");
}

#[test]
fn usage_error_exits_with_2() {
    let room = Room::new();
    for wrong in [
        &["run"][..],
        &["run", "no-such-workload"],
        &["run", "bank", "--design", "no-such-design"],
        &["run", "bank", "--medium", "no-such-medium"],
        &["run", "bank", "--no-such-flag"],
        &["run", "bank", "--seconds", "1", "--transactions", "1"],
        &["run", "bank", "--seconds", "0"],
        &["run", "bank", "--bytes", "1X"],
        &["run", "bank", "--bytes", "-1G"],
        &["run", "bank", "--seconds", "1x"],
        &["run", "bank", "--threads", "0"],
        &["run", "bank", "--scale", "-1"],
        &["run", "bank", "--durability", "perhaps"],
        &["run", "bank", "--format", "xml"],
        &["compare", "bank"],
        &["compare", "bank", "--designs", "volatile"],
        &["compare", "bank", "--designs", "volatile,no-such"],
        &["pool"],
        &["pool", "check"],
        &["no-such-command"],
    ] {
        let output = room.run(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{wrong:?}");
    }
    let output = room.run(&["run", "bank", "--design", "no-such-design"]);
    let stderr = crate::common::text(&output.stderr);
    assert!(stderr.contains("plain, volatile, decoupled"), "{stderr}");
    assert_eq!(room.files(), [""; 0]);
}

#[test]
fn help_lists_supported_values() {
    let room = Room::new();
    let help = room.expect(0, &["--help"]);
    for command in ["demo", "run", "compare", "pool"] {
        assert!(help.contains(command), "{help}");
    }
    assert!(!help.contains("kill-writer"), "{help}");
    let help = room.expect(0, &["run", "--help"]);
    for flag in ["--design", "--medium", "--pool", "--log-bytes", "--bandwidth-gbps", "--layout"] {
        assert!(help.contains(flag), "{help}");
    }
}

#[test]
fn demo_succeeds_and_removes_its_pool() {
    let room = Room::new();
    let text = room.expect(0, &["demo", "--seconds", "2"]);
    for round in 1..=5 {
        assert!(text.contains(&format!("round {round}  kill -9 after")), "{text}");
    }
    assert_eq!(text.matches("lost acknowledged 0   total balanced").count(), 5, "{text}");
    assert!(text.contains("TATP     volatile") && text.contains("CHECKED"), "{text}");
    assert_eq!(room.files(), [""; 0]);
    // The demo does not replace a file that another program made under its pool's name.
    std::fs::write(room.path("lastword-demo.pool"), "mine").unwrap();
    room.refuse("move it away", &["demo"]);
    assert_eq!(room.files(), ["lastword-demo.pool"]);
}

#[test]
fn transaction_options_are_applied_or_refused() {
    let room = Room::new();
    for (workload, options, writes) in [
        ("btree", &["--update-percent", "0"][..], 0.0..1e-9),
        ("ycsb-a", &["--update-percent", "100", "--zipf", "uniform"], 12.9..13.1),
        ("session-store", &["--zipf", "1.07"], 0.4..0.6),
        ("tpcc-hash", &["--low-conflict"], 100.0..300.0),
    ] {
        let command = with(&["run", workload], &with(options, &TINY));
        let report = room.json(0, &command);
        assert_eq!(report["checked"], true, "{command:?}");
        let found = report["writes_per_transaction"].as_f64().unwrap();
        assert!(writes.contains(&found), "{command:?}: {found} words a transaction");
    }
    room.refuse("--zipf is not supported by workload `bank`", &["run", "bank", "--zipf", "0.99"]);
    room.refuse(
        "--low-conflict is not supported by workload `btree`",
        &["run", "btree", "--low-conflict"],
    );
    room.refuse("it must not be negative", &["run", "btree", "--zipf=-1"]);
}

#[test]
fn simulated_design_is_refused_by_run() {
    let room = Room::new();
    let where_it_is = |design: &str| {
        format!(
            "it is a design of the simulated machine: run it with `lastword sim run WORKLOAD \
             --design {design}`"
        )
    };
    room.refuse(&where_it_is("redu"), &["run", "sps", "--design", "redu"]);
    room.refuse(&where_it_is("hw-undo"), &["compare", "sps", "--designs", "undo,hw-undo"]);
    room.refuse("a similar value exists: 'redo'", &["run", "sps", "--design", "redoo"]);
}
