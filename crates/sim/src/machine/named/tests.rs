//! Tests of machines' names, files, settings and texts.

use std::cell::RefCell;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::design::{ALL, Design, Visitor, by_name};
use crate::machine::description::Point;

thread_local! {
    /// The full keys that designs have read.
    pub(super) static ASKED: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

fn builtin(name: &str) -> Description {
    Description::builtin(name).expect("it is built in")
}

/// Returns the error of a setting.
fn refused(machine: &str, setting: &str) -> String {
    let mut changed = builtin(machine);
    let error = changed.set(setting).expect_err(setting);
    assert_eq!(changed, builtin(machine), "the machine is unchanged");
    error.to_string()
}

/// Returns the validation error of a machine with these settings.
fn invalid(machine: &str, settings: &[&str]) -> String {
    let mut changed = builtin(machine);
    for setting in settings {
        changed.set(setting).expect("it can be set");
    }
    changed.validate().expect_err("the machine is invalid").to_string()
}

#[test]
fn builtin_machines_are_valid() {
    for name in NAMES {
        let machine = builtin(name);
        assert_eq!(machine.name, name);
        assert!(machine.validate().is_ok());
    }
}

#[test]
fn builtin_machines_match_the_papers() {
    let lad = builtin("lad");
    assert_eq!((lad.cores, lad.l2.as_ref(), lad.dram.as_ref()), (15, None, None));
    assert_eq!((lad.nvm.channels, lad.mc.wq, lad.persist.point), (4, 64, Point::Accepted));
    let redu = builtin("redu");
    assert_eq!((redu.nvm.read_miss_ns, redu.nvm.write_ns), (50.0, 150.0));
    assert_eq!((redu.clock_ghz, redu.persist.point), (2.0, Point::Media));
    let ssp = builtin("ssp");
    assert_eq!((ssp.cycles(50.0), ssp.cycles(200.0)), (185, 740), "3.7 cycles a nanosecond");
    // 12,288 sets, which is no power of two.
    assert_eq!(ssp.llc.bytes / 64 / u64::from(ssp.llc.ways), 12_288);
}

#[test]
fn times_round_to_the_nearest_cycle() {
    let machine = builtin("lad");
    let cycles = [0.0, 0.24, 0.26, 11.2, 13.75, 38.7].map(|ns| machine.cycles(ns));
    assert_eq!(cycles, [0, 0, 1, 22, 28, 77]);
}

#[test]
fn tiny_machines_keep_keys_and_latencies() {
    for name in ["lad", "redu", "ssp"] {
        let (paper, tiny) = (builtin(name).leaves(), builtin(&format!("tiny-{name}")).leaves());
        assert!(paper.keys().eq(tiny.keys()), "{name}: the same keys");
        let is_time = |key: &&String| key.contains("_ns") || key.ends_with("latency");
        for key in paper.keys().filter(is_time) {
            assert_eq!(paper[key], tiny[key], "{name}: {key}");
        }
    }
}

#[test]
fn setting_changes_any_key_by_path() {
    let mut machine = builtin("redu");
    let settings = [
        "mc.wq=8",
        "nvm.write_ns = 600",
        "clock_ghz=2.5",
        "llc.inclusive=false",
        "persist.point=accepted",
        "name=\"mine\"",
        "design.redu.write_back=1",
        "log.pack=0",
    ];
    for setting in settings {
        machine.set(setting).expect(setting);
    }
    assert_eq!((machine.mc.wq, machine.nvm.write_ns, machine.clock_ghz), (8, 600.0, 2.5));
    assert_eq!((machine.llc.inclusive, machine.persist.point), (false, Point::Accepted));
    assert_eq!(machine.name, "mine");
    assert_eq!(machine.parameter("redu", "write_back"), 1.0);
    assert_eq!(machine.parameter("log", "pack"), 0.0);
    assert!(machine.validate().is_ok());
}

#[test]
fn design_parameter_has_default_on_other_machines() {
    let mut machine = builtin("redu");
    assert_eq!(machine.parameter("lad", "overflow"), 0.8);
    machine.set("lad.overflow=0.5").expect("it is known");
    assert_eq!(machine.parameter("lad", "overflow"), 0.5);
    assert!(machine.text().contains("design.lad.overflow = 0.5\n"));
}

/// A visitor that returns the parameters that a design reads before it runs.
struct Asks;

impl Visitor for Asks {
    type Out = BTreeSet<String>;

    fn visit<D: Design>(self) -> BTreeSet<String> {
        let machine = builtin(D::MACHINE);
        ASKED.take();
        D::fits(&machine).expect("its own machine");
        let extra = 4096;
        let _ =
            (D::extra_lines(&machine), D::volatile_lines(&machine), D::line_map(&machine, extra));
        let _ = D::new(&machine, extra);
        ASKED.take()
    }
}

#[test]
fn design_reads_exactly_its_listed_parameters() {
    for design in ALL {
        let asked = by_name(design.name, Asks).expect("it is in the list");
        let unnamed: Vec<_> = asked.iter().filter(|key| !design.goes_by(key)).collect();
        assert!(unnamed.is_empty(), "{} asks for {unnamed:?}", design.name);
        let asks = |table: &&&str| asked.iter().any(|key| key[7..].starts_with(**table));
        let named: Vec<_> = design.parameters.iter().filter(asks).collect();
        assert_eq!(named.len(), design.parameters.len(), "{} asks for {named:?}", design.name);
        assert!(design.goes_by("mc.wq") && design.goes_by("cores"));
    }
    let lad = ALL.iter().find(|design| design.name == "lad").expect("it is in the list");
    assert!(lad.goes_by("lad.overflow") && lad.goes_by("design.lad.overflow"));
    assert!(!lad.goes_by("ssp.write_set") && !lad.goes_by("design.log.bytes"));
}

#[test]
fn unknown_key_error_lists_known_keys() {
    let near = refused("lad", "mc.wqs=8");
    assert_eq!(
        near,
        "no key `mc.wqs`: there are mc.forward, mc.overhead, mc.remote_ns, mc.wq, \
         mc.write_age_ns; do you mean `mc.wq`?"
    );
    let parts = refused("lad", "nonsense=8");
    assert!(parts.starts_with("no key `nonsense`: there are clock_ghz, core.*, cores, design.*"));
    assert!(refused("lad", "mc=8").contains("mc.wq"), "a part is no key");
    assert_eq!(
        refused("lad", "l2.bytes=4096"),
        "machine lad has no `l2`, so no `l2.bytes`: choose a machine that has one (redu, ssp, \
         tiny-redu, tiny-ssp), or write a file"
    );
    let design = refused("lad", "design.lad.overflw=0.5");
    assert_eq!(
        design,
        "no key `design.lad.overflw`: there are design.lad.away_cycles, design.lad.overflow, \
         design.lad.suspend_cycles; do you mean `design.lad.overflow`?"
    );
    assert!(refused("lad", "design.absent.x=1").contains("design.redu.*"));
    for nothing in ["mc.wq", "=8", "mc.wq=", ""] {
        assert!(refused("lad", nothing).contains("lacks a key or a value: write key=value"));
    }
}

#[test]
fn misspelt_key_error_suggests_similar_keys() {
    let meant = |setting: &str| {
        let said = refused("ssp", setting);
        said.split_once("; do you mean ").map_or("", |(_, meant)| meant).to_owned()
    };
    for (setting, key) in [
        ("ssp-undo.side-by-side=0", "`ssp-undo.side_by_side`?"),
        ("design.ssp-undo.side-by-side=0", "`design.ssp-undo.side_by_side`?"),
        ("side_by_side=0", "`ssp-undo.side_by_side`?"),
        ("ssp_undo.side_by_side=0", "`ssp-undo.side_by_side`?"),
        ("nvm.wirte_ns=600", "`nvm.write_ns`?"),
        ("core=2", "`cores`?"),
        ("l3.latency=2", "`l1.latency` or `l2.latency` or `llc.latency`?"),
        ("nonsense=8", ""),
    ] {
        assert_eq!(meant(setting), key, "{setting}");
    }
    // The error lists the keys of the table in question only.
    let said = refused("ssp", "ssp-undo.side-by-side=0");
    let those = "there are design.ssp-undo.line, design.ssp-undo.side_by_side; do you mean";
    assert!(said.contains(those), "{said}");
}

#[test]
fn unfit_value_error_names_expected_type() {
    let cases = [
        ("mc.wq=many", "mc.wq = many: it must be a whole number"),
        ("mc.wq=8.5", "mc.wq = 8.5: it must be a whole number"),
        ("mc.wq=-1", "mc.wq = -1: it must be a whole number from 0 to 2^32 - 1"),
        ("l1.bytes=-1", "l1.bytes = -1: it must be a whole number, not negative"),
        ("nvm.write_ns=true", "nvm.write_ns = true: it must be a number"),
        ("nvm.write_ns=nan", "nvm.write_ns = nan: it must be a number"),
        ("llc.inclusive=1", "llc.inclusive = 1: it must be true or false"),
        ("persist.point=disk", "persist.point = disk: it must be `accepted` or `media`"),
    ];
    for (setting, says) in cases {
        let said = refused("lad", setting);
        assert_eq!(said, says);
    }
}

#[test]
fn file_error_names_its_line() {
    let lad = BUILTIN[0].1;
    let said = |from: &str, to: &str| {
        let text = lad.replacen(from, to, 1);
        assert_ne!(text, lad, "it has {from}");
        Description::parse(&text).expect_err(to).to_string()
    };
    let line = 1 + lad.split("\nwq = ").next().expect("it has one").lines().count();
    let key = said("\nwq = 64", "\nwqs = 64");
    assert!(key.starts_with(&format!("line {line}: unknown field `wqs`, expected")), "{key}");
    assert!(key.contains("`wq`, `write_age_ns`, `overhead`, `forward`, `remote_ns`"), "{key}");
    assert!(said("\nwq = 64", "\nwq = \"64\"").starts_with(&format!("line {line}: invalid type")));
    assert!(said("\nwq = 64", "\nwq = ").starts_with(&format!("line {line}: ")));
    assert!(said("\nwq = 64", "\n").contains("missing field `wq`"));
    assert!(said("overflow = 0.8", "overflw = 0.8").contains("no key `design.lad.overflw`"));
    assert!(said("\nwq = 64", "\nwq = 4").contains("mc.wq = 4: it must be from 8"));
}

#[test]
fn machine_is_found_by_name_or_path() {
    assert_eq!(Description::named("ssp").expect("it is built in"), builtin("ssp"));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/redu.toml");
    assert_eq!(Description::named(path).expect("it is there"), builtin("redu"));
    let unknown = Description::named("lda").expect_err("there is none").to_string();
    assert!(unknown.starts_with("no machine `lda`: there are lad, redu, ssp, tiny-lad"));
    let missing = Description::named("no/such.toml").expect_err("there is none").to_string();
    assert!(missing.starts_with("cannot read no/such.toml: "), "{missing}");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let wrong = Description::from_file(&manifest).expect_err("it is no machine").to_string();
    assert!(wrong.contains("Cargo.toml: line ") && wrong.contains(": unknown field `"), "{wrong}");
}

#[test]
fn validation_reports_all_problems() {
    let said = invalid("lad", &["cores=65", "mc.wq=4", "core.width=0", "l1.bytes=1000"]);
    assert_eq!(
        said,
        "cores = 65: it must be from 1 to 16; mc.wq = 4: it must be from 8 to 4096; core.width = \
         0: it must be from 1 to 65536; l1.bytes = 1000: it must be a multiple of 128, a set of \
         l1.ways = 2 lines of 64 bytes"
    );
    let said = invalid("lad", &["cores=17"]);
    assert_eq!(said, "cores = 17: it must be from 1 to 16");
    let said = invalid("lad", &["network.rows=2", "llc.banks=8"]);
    assert_eq!(said, "cores = 15: it must be from 1 to 8, the tiles of the mesh: one each");
    let said = invalid("lad", &["llc.bytes=64"]);
    assert_eq!(
        said,
        "llc.bytes = 64: it must be a multiple of 16384, a set of llc.ways = 16 lines of 64 \
         bytes in each of llc.banks = 16"
    );
}

#[test]
fn inconsistent_machine_is_rejected() {
    let cases: [(&str, &[&str], &str); 19] = [
        ("lad", &["cores=0"], "cores = 0"),
        ("lad", &["clock_ghz=0"], "clock_ghz = 0"),
        ("lad", &["l1.ways=0"], "l1.ways = 0"),
        ("lad", &["nvm.channels=0"], "nvm.channels = 0"),
        ("lad", &["nvm.banks=0"], "nvm.banks = 0"),
        ("lad", &["nvm.row_bytes=100"], "nvm.row_bytes = 100: it must be a multiple of 64"),
        ("lad", &["nvm.burst_ns=0.1"], "nvm.burst_ns = 0.1: it must be at least a cycle"),
        ("lad", &["nvm.read_miss_ns=5"], "nvm.read_miss_ns = 5: it must be at least nvm.read_hit"),
        ("lad", &["network.rows=0"], "network.rows = 0: it must be 0 if network.columns is"),
        ("lad", &["network.rows=2"], "llc.banks = 16: it must be at most 8"),
        ("lad", &["lad.overflow=-1"], "design.lad.overflow = -1: it must be from 0"),
        ("lad", &["lad.overflow=5"], "design.lad.overflow = 5: it must be from 0 to 1"),
        ("redu", &["redu.filter=7"], "design.redu.filter = 7: it must be 0 or 1"),
        ("redu", &["log.bytes=64"], "log.bytes = 64: it must be a whole number from 4096 to 42949"),
        ("redu", &["log.bytes=1e15"], "log.bytes = 1000000000000000: it must be a whole number"),
        ("ssp", &["ssp-redo.log_bytes=0"], "design.ssp-redo.log_bytes = 0: it must be a whole"),
        ("redu", &["l2.bytes=16384"], "l2.bytes = 16384: it must be at least l1.bytes, 32768"),
        ("redu", &["llc.bytes=131072"], "llc.bytes = 131072: it must be at least 262144"),
        ("ssp", &["name=a b"], "name = \"a b\": it must be 1 to 64 of"),
    ];
    for (machine, settings, says) in cases {
        let said = invalid(machine, settings);
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn machine_hash_is_fnv_1a_of_its_text() {
    // The published test vectors of the function.
    assert_eq!(fnv_1a(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(fnv_1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(fnv_1a(b"foobar"), 0x8594_4171_f739_67e8);
    let machine = builtin("lad");
    assert_eq!(machine.hash(), format!("{:016x}", fnv_1a(machine.text().as_bytes())));
    let mut other = machine.clone();
    other.set("mc.wq=63").expect("it can be set");
    assert_ne!(other.hash(), machine.hash());
    other.set("mc.wq=64").expect("it can be set");
    assert_eq!(other.hash(), machine.hash());
}

#[test]
fn canonical_text_has_sorted_lines() {
    let text = builtin("tiny-lad").text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.is_sorted());
    let some = [
        "clock_ghz = 2.0",
        "design.lad.overflow = 0.8",
        "llc.inclusive = false",
        "mc.wq = 8",
        "name = \"tiny-lad\"",
        "nvm.read_hit_ns = 11.2",
        "persist.point = \"accepted\"",
    ];
    for line in some {
        assert!(lines.contains(&line), "{line} in\n{text}");
    }
}

#[test]
fn simulator_page_lists_all_keys_and_machines() {
    let page = include_str!("../../../../../docs/research/simulator.md");
    let keys = NAMES.iter().flat_map(|name| builtin(name).leaves().into_keys());
    let mut missing: Vec<String> = keys.chain(NAMES.map(str::to_owned)).collect();
    missing.retain(|name| !page.contains(&format!("`{name}`")));
    assert!(missing.is_empty(), "{missing:?}");
    // The keys are in the first cell of each row.
    let rows = page.lines().filter(|line| line.starts_with("| `") && line.contains('.'));
    let cells = rows.filter_map(|line| line.split('|').nth(1));
    let named = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    for key in named.filter(|key| key.contains('.')) {
        let has_it = |name: &&str| builtin(name).leaves().contains_key(key);
        assert!(NAMES.iter().any(has_it), "no machine has {key}");
    }
}

/// A machine and settings of its keys, with any value of each key's type.
fn settings() -> impl Strategy<Value = (&'static str, Vec<(String, String)>)> {
    let machine = prop::sample::select(NAMES.to_vec());
    machine.prop_flat_map(|name| {
        let leaves: Vec<(String, Value)> = builtin(name).leaves().into_iter().collect();
        let one = prop::sample::select(leaves).prop_flat_map(|(key, old)| {
            let value = match old {
                Value::Integer(_) => (0..=u32::MAX).prop_map(|n| n.to_string()).boxed(),
                Value::Float(_) => prop::num::f64::NORMAL.prop_map(|n| format!("{n:?}")).boxed(),
                Value::Boolean(_) => any::<bool>().prop_map(|b| b.to_string()).boxed(),
                _ if key == "persist.point" => prop_oneof!["accepted", "media"].boxed(),
                _ => "[a-z\"'\\\\=\u{e9} ]{0,9}z".prop_map(|text| text).boxed(),
            };
            (Just(key), value)
        });
        (Just(name), prop::collection::vec(one, 0..8))
    })
}

proptest! {
    #[test]
    fn canonical_text_round_trips((name, settings) in settings()) {
        let mut machine = builtin(name);
        for (key, value) in &settings {
            prop_assert!(machine.set(&format!("{key}={value}")).is_ok(), "{} = {}", key, value);
        }
        let again = read(&machine.text()).expect("it is a text");
        prop_assert_eq!(&again, &machine);
        prop_assert_eq!(again.text(), machine.text());
        prop_assert_eq!(again.hash(), machine.hash());
    }
}
