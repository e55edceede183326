//! The part of docs/internals/mutants.md about the simulated machine: every mutant and the tests
//! that detect it.

use std::fmt::Write;
use std::path::Path;

use super::{Row, lad, logged, ssp};
use crate::mutants::Mutant;

/// The text before the table.
const HEAD: &str = "## The simulated machine

Mutants of the simulated machine and of its designs, a list of their own
(`crates/sim/src/mutants.rs`). Power cuts detect a design's mutant by the state that recovery
leaves, by the comparison of each line that is read from memory, or by a deadlock. Each mutant is
detected on the machine of its paper and on the tiny one, where the same run without the mutant
passes. The settings that make a large machine take the path are beside the rows, in
`crates/sim/src/crash/tests`. One mutant is detected only by the tests of a part, because the
designs mask it.

    cargo test -p lastword-sim --lib crash
    cargo test -p lastword-sim --lib every_machine_mutant

`UPDATE=1 cargo test -p lastword-sim --lib page_of_mutants` writes the table.

| name | what it breaks | design | machines | found by |
|---|---|---|---|---|
";

/// The tests that detect a mutant with one design, and their machines.
struct Detection {
    mutant: Mutant,
    design: &'static str,
    machines: Vec<&'static str>,
    by: String,
}

const REDU: [&str; 2] = ["tiny-redu", "redu"];
const SSP: [&str; 2] = ["tiny-ssp", "ssp"];
const SIZES: &str = "cuts: transactions of two sizes";

/// Mutants that are detected by test programs.
const OTHERS: [(Mutant, &str, [&str; 2], &str); 17] = [
    (Mutant::SoftwareEarly, "redu", REDU, SIZES),
    (Mutant::SoftwareEarly, "hw-redo", REDU, SIZES),
    (Mutant::SoftwareEarly, "hw-undo-redo", REDU, SIZES),
    (Mutant::CommitsBeside, "redu", REDU, SIZES),
    (Mutant::CommitsBeside, "hw-redo", REDU, SIZES),
    (Mutant::CommitsBeside, "hw-undo-redo", REDU, SIZES),
    (Mutant::DropWithoutWord, "hw-undo", REDU, SIZES),
    (Mutant::DropWithoutWord, "hw-undo-redo", REDU, SIZES),
    (Mutant::OpenRecordStays, "hw-undo-redo", REDU, "a deadlock"),
    (Mutant::SspRedoSoftwareEarly, "ssp-redo", SSP, "cuts: a late lock"),
    (Mutant::SspRedoTakesMore, "ssp-redo", SSP, "cuts: a late lock"),
    (
        Mutant::LadPlainWritesHeap,
        "lad",
        ["tiny-lad", "lad"],
        "cuts: stores outside of transactions",
    ),
    (Mutant::SspRetagsDirty, "ssp", SSP, "cuts: stores outside of transactions"),
    (Mutant::SspLeavesEarly, "ssp", SSP, "the values that its core reads"),
    (Mutant::SspEndsEarly, "ssp", SSP, "the state of other cores"),
    (Mutant::SspTurnsBackEarly, "ssp", SSP, "an invariant"),
    (Mutant::SspDropsEarly, "ssp", SSP, "an invariant"),
];

/// Mutants that only the tests of a part detect, because the designs mask them. (A hardware log
/// reserves room for a store's records when the store executes, so log lines precede the data that
/// wait for them. Data that came first would survive in a battery-backed slot.)
const PARTS: [(Mutant, &str); 1] = [(Mutant::HeldHasSlot, "the controller's tests")];

fn detections() -> Vec<Detection> {
    let mut all: Vec<Detection> = Vec::new();
    let rows: [&[Row]; 6] =
        [&lad::ROWS, &lad::PAPER, &logged::ROWS, &logged::PAPER, &ssp::ROWS, &ssp::PAPER];
    for Row { mutant, design, workload, machine, .. } in rows.into_iter().flatten() {
        let by = format!("cuts: {workload}");
        let same = all.iter_mut().find(|it| (it.mutant, it.design) == (*mutant, design));
        match same {
            Some(it) => {
                it.machines.push(machine);
                if !it.by.split([' ', ',']).any(|name| name == *workload) {
                    write!(it.by, ", {workload}").unwrap();
                }
            }
            None => all.push(Detection { mutant: *mutant, design, machines: vec![machine], by }),
        }
    }
    for (mutant, design, machines, by) in OTHERS {
        all.push(Detection { mutant, design, machines: machines.to_vec(), by: by.to_owned() });
    }
    for (mutant, by) in PARTS {
        all.push(Detection { mutant, design: "-", machines: Vec::new(), by: by.to_owned() });
    }
    for mutant in Mutant::OF_THE_MACHINE {
        let machines = vec!["tiny-lad", "tiny-redu"];
        all.push(Detection {
            mutant: *mutant,
            design: "-",
            machines,
            by: "random steps".to_owned(),
        });
    }
    all
}

#[test]
fn every_design_mutant_has_a_tiny_and_a_paper_row() {
    let all = detections();
    for mutant in Mutant::ALL {
        let of_it: Vec<&Detection> = all.iter().filter(|it| it.mutant == *mutant).collect();
        assert!(!of_it.is_empty(), "no test detects {}", mutant.name());
        let is_of_a_part = PARTS.iter().any(|(part, _)| part == mutant);
        for Detection { design, machines, .. } in of_it {
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
fn page_of_mutants_is_current() {
    let mut part = HEAD.to_owned();
    let all = detections();
    for mutant in Mutant::ALL {
        for it in all.iter().filter(|it| it.mutant == *mutant) {
            let (name, what, machines) = (mutant.name(), mutant.what(), it.machines.join(", "));
            writeln!(part, "| {name} | {what} | {} | {machines} | {} |", it.design, it.by).unwrap();
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
    let problem = "docs/internals/mutants.md differs from the rows: run the test with UPDATE=1";
    assert!(page == expected, "{problem}");
}
