//! Tier D: coverage-guided exploration. A fuzzer's bytes are the choices. The first byte selects
//! the case, and each further byte is one choice ([`Policy::Bytes`]).
//!
//! This is the body of the fuzz target `explore`. `cargo test` runs it over the committed corpus
//! and over seeded random inputs.

use std::sync::OnceLock;

use crate::{Case, Picker, Policy, Prepared, Report, Trace};

/// The cases; the first byte of an input is an index into them.
pub const CASES: [&str; 12] = [
    "workload=cells medium=memory workers=2 crashes=3",
    "workload=cells medium=memory cow=1 sync=1 crashes=3 kills=1 every_word=0",
    "workload=churn medium=memory workers=2 crashes=3 every_word=0",
    "workload=bulk medium=memory crashes=2 every_word=0",
    "workload=cells medium=cache workers=2 crashes=3 kills=1",
    "workload=append medium=cache workers=2 sync=1 crashes=3",
    "workload=cells medium=file workers=2 crashes=3 kills=1 faults=1",
    "workload=cells medium=file cow=1 sync=1 crashes=3 garbage=1",
    "workload=churn medium=file workers=2 crashes=3 queue=0 faults=1",
    "workload=bulk medium=file crashes=3 kills=1",
    "workload=cells medium=file create=1 crashes=3 kills=1 faults=2 garbage=1",
    "design=decoupled-serial workload=append medium=file crashes=3 kills=1",
];

/// Limits of transactions and of moves.
const LENGTH: (usize, usize) = (12, 40);

/// Runs the execution that the input selects.
///
/// # Panics
/// On a violation, with the trace.
pub fn explore(input: &[u8]) {
    let (case, report, choices) = execute(input);
    if let Some(violation) = report.violation {
        panic!("{violation}\n{}", Trace { case: case.clone(), choices });
    }
}

/// Runs one execution; returns its case, its report and its choices.
pub fn execute(input: &[u8]) -> (&'static Case, Report, Vec<u16>) {
    let (first, rest) = input.split_first().unwrap_or((&0, &[]));
    let (case, prepared) = &cases()[usize::from(*first) % CASES.len()];
    let picker = Picker::new(Vec::new(), Policy::Bytes(rest.iter().copied().collect()));
    let (report, picker) = prepared.run(case, picker);
    (case, report, picker.made().iter().map(|made| made.chosen).collect())
}

fn cases() -> &'static [(Case, Prepared)] {
    static TABLE: OnceLock<Vec<(Case, Prepared)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let cases = CASES.iter().map(|line| {
            let mut case: Case = line.parse().expect("the table's lines are cases");
            (case.transactions, case.moves) = LENGTH;
            case.all_moves = true;
            let prepared = Prepared::new(&case).expect("the design and workload are known");
            (case, prepared.expect("a pool is prepared without faults"))
        });
        cases.collect()
    })
}
