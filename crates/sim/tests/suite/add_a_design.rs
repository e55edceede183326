//! Tests that docs/research/add-a-design.md and its example design agree, and that the example
//! works.

#[allow(dead_code, reason = "its `main` is not called here")]
#[path = "../../examples/toy_design.rs"]
mod toy;

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/research/add-a-design.md");
const TOY: &str = include_str!("../../examples/toy_design.rs");
const DESIGN: &str = include_str!("../../src/design/mod.rs");

#[test]
fn page_quotes_the_toy_design() {
    let blocks = PAGE.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let blocks: Vec<&str> = blocks.collect();
    assert!(blocks.len() >= 4, "the page quotes the toy");
    for block in blocks {
        assert!(
            TOY.contains(block),
            "docs/research/add-a-design.md has a block that is not in the toy:\n{block}"
        );
    }
}

#[test]
fn page_lists_exactly_the_hooks() {
    let body = DESIGN.split("pub trait Design").nth(1).unwrap();
    let body = body.split("\n}\n").next().unwrap();
    let of_trait: BTreeSet<&str> = body
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("fn "))
        .map(|line| line.split('(').next().unwrap())
        .collect();
    let rows = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|line| line.split(['`', '(']).next().unwrap());
    let of_page: BTreeSet<&str> = rows.collect();
    assert_eq!(of_page, of_trait, "the page's table of hooks");
}

#[test]
fn toy_costs_more_than_a_log_with_fewer_waits() {
    for workload in ["sps", "tpcc-hash"] {
        let rows = toy::rows(workload, 200);
        for row in &rows {
            assert_eq!(row.complaints, Vec::<String>::new(), "{workload}, {}", row.design);
        }
        let cycles: Vec<f64> = rows.iter().map(|row| row.cycles_per_transaction.total).collect();
        assert!(cycles.is_sorted_by(|a, b| a < b), "{workload}: {cycles:?}");
    }
}

#[test]
fn toy_survives_power_cuts_and_its_mutant_does_not() {
    for workload in ["sps", "rbt", "tpcc-hash"] {
        let [toy, hasty] = toy::cuts(workload, 200);
        assert_eq!(toy.complaints, Vec::<String>::new(), "{workload}");
        assert_eq!((toy.violations, toy.power_cuts), (Some(0), Some(200)), "{workload}");
        assert!(hasty.violations > Some(0), "{workload}: {:?}", hasty.violations);
    }
}
