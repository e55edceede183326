//! The part of docs/internals/mutants.md about the simulated machine: every bug is there, with the
//! test that finds it.

use std::fmt::Write;
use std::path::Path;

use super::{Row, lad, logged, ssp};
use crate::mutants::Mutant;

/// What stands before the table.
const HEAD: &str = "## The simulated machine

Bugs of the simulated machine and of its designs, a list of their own (`crates/sim/src/mutants.rs`).
Power cuts find those of designs: by recovery's result, by the comparison of each line that comes
from memory, or because a machine cannot continue. Each is found on the machine of its paper and on
the tiny one, where the same run without the bug shows nothing. `crates/sim/src/crash/tests` has the
settings that make a large machine take the path. The tests of a part alone find one bug: designs
hide it by their own checks.

    cargo test -p lastword-sim --lib crash
    cargo test -p lastword-sim --lib every_bug

`UPDATE=1 cargo test -p lastword-sim --lib page_of_mutants` writes the table.

| name | what it breaks | design | machines | found by |
|---|---|---|---|---|
";

/// What finds a bug: on which design and machines.
struct Way {
    mutant: Mutant,
    design: &'static str,
    machines: Vec<&'static str>,
    by: String,
}

const REDU: [&str; 2] = ["tiny-redu", "redu"];
const SSP: [&str; 2] = ["tiny-ssp", "ssp"];
const SIZES: &str = "cuts: transactions of two sizes";

/// Those whose programs are the tests' own.
const OTHERS: [(Mutant, &str, [&str; 2], &str); 17] = [
    (Mutant::SoftwareEarly, "redu", REDU, SIZES),
    (Mutant::SoftwareEarly, "hw-redo", REDU, SIZES),
    (Mutant::SoftwareEarly, "hw-undo-redo", REDU, SIZES),
    (Mutant::CommitsBeside, "redu", REDU, SIZES),
    (Mutant::CommitsBeside, "hw-redo", REDU, SIZES),
    (Mutant::CommitsBeside, "hw-undo-redo", REDU, SIZES),
    (Mutant::DropWithoutWord, "hw-undo", REDU, SIZES),
    (Mutant::DropWithoutWord, "hw-undo-redo", REDU, SIZES),
    (Mutant::OpenRecordStays, "hw-undo-redo", REDU, "a machine that cannot go on"),
    (Mutant::SspRedoSoftwareEarly, "ssp-redo", SSP, "cuts: a late lock"),
    (Mutant::SspRedoTakesMore, "ssp-redo", SSP, "cuts: a late lock"),
    (Mutant::LadPlainGoesHome, "lad", ["tiny-lad", "lad"], "cuts: stores of no transaction"),
    (Mutant::SspRetagsDirty, "ssp", SSP, "cuts: stores of no transaction"),
    (Mutant::SspLeavesEarly, "ssp", SSP, "what its core reads"),
    (Mutant::SspEndsEarly, "ssp", SSP, "what other cores know"),
    (Mutant::SspTurnsBackEarly, "ssp", SSP, "what contradicts itself"),
    (Mutant::SspDropsEarly, "ssp", SSP, "what contradicts itself"),
];

/// Those that the tests of a part show: what designs do in front of it hides them. (Lines of a log
/// come before the data that wait for them, for there is room for the entries of a store when it is
/// executed. Data that came first would survive in a slot with a battery.)
const PARTS: [(Mutant, &str); 1] = [(Mutant::HeldHasSlot, "the controller's tests")];

fn ways() -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    let rows: [&[Row]; 6] =
        [&lad::ROWS, &lad::PAPER, &logged::ROWS, &logged::PAPER, &ssp::ROWS, &ssp::PAPER];
    for Row { mutant, design, workload, machine, .. } in rows.into_iter().flatten() {
        let by = format!("cuts: {workload}");
        let same = ways.iter_mut().find(|way| (way.mutant, way.design) == (*mutant, design));
        match same {
            Some(way) => {
                way.machines.push(machine);
                if !way.by.split([' ', ',']).any(|name| name == *workload) {
                    write!(way.by, ", {workload}").unwrap();
                }
            }
            None => ways.push(Way { mutant: *mutant, design, machines: vec![machine], by }),
        }
    }
    for (mutant, design, machines, by) in OTHERS {
        ways.push(Way { mutant, design, machines: machines.to_vec(), by: by.to_owned() });
    }
    for (mutant, by) in PARTS {
        ways.push(Way { mutant, design: "-", machines: Vec::new(), by: by.to_owned() });
    }
    for mutant in Mutant::OF_THE_MACHINE {
        let machines = vec!["tiny-lad", "tiny-redu"];
        ways.push(Way { mutant: *mutant, design: "-", machines, by: "random steps".to_owned() });
    }
    ways
}

#[test]
fn every_bug_of_a_design_is_found_on_the_machine_of_its_paper_and_on_the_tiny_one() {
    let ways = ways();
    for mutant in Mutant::ALL {
        let of_it: Vec<&Way> = ways.iter().filter(|way| way.mutant == *mutant).collect();
        assert!(!of_it.is_empty(), "nothing finds {}", mutant.name());
        let is_of_a_part = PARTS.iter().any(|(part, _)| part == mutant);
        for Way { design, machines, .. } in of_it {
            if is_of_a_part {
                continue;
            }
            let is_tiny = |name: &&&str| name.starts_with("tiny-");
            let tiny = machines.iter().filter(is_tiny).count();
            let paper = machines.len() - tiny;
            assert!(tiny > 0, "{} with {design}", mutant.name());
            let is_of_a_design = *design != "-";
            assert_eq!(paper > 0, is_of_a_design, "{} with {design}", mutant.name());
        }
    }
}

#[test]
fn the_page_of_mutants_says_what_finds_them() {
    let mut part = HEAD.to_owned();
    let ways = ways();
    for mutant in Mutant::ALL {
        for way in ways.iter().filter(|way| way.mutant == *mutant) {
            let (name, what, machines) = (mutant.name(), mutant.what(), way.machines.join(", "));
            writeln!(part, "| {name} | {what} | {} | {machines} | {} |", way.design, way.by)
                .unwrap();
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/mutants.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let before = page.split("## The simulated machine").next().unwrap();
    let expected = format!("{before}{part}");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(page == expected, "docs/internals/mutants.md is not what the rows say: UPDATE=1");
}
