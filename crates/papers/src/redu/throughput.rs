//! R1 to R4 and R11: cycles of a transaction (figure 10; sections I and V-B).

use super::{ALL, BASELINES, Case, REDU, TABLE_II, large, random};
use crate::rows::{Rows, Uses, geomean, least, most, percent_below};

/// Fills the mean ratios, also as reductions, and the ratio of each case.
fn means(rows: &mut Rows<'_>, cases: &[Case]) {
    for design in BASELINES {
        let ratio = |uses: &Uses<'_>| TABLE_II.all_by_redu(uses, cases, design);
        rows.row(format!("ratio/{design}"), ratio);
        rows.row(format!("reduction/{design}"), |uses| {
            ratio(uses).map(|ratio| percent_below(ratio.recip()))
        });
    }
}

fn each(rows: &mut Rows<'_>, cases: &[Case]) {
    for design in BASELINES {
        for case in cases {
            rows.row(format!("{design}/{}", case.name()), |uses| {
                TABLE_II.by_redu(uses, *case, design)
            });
        }
    }
    for case in cases {
        let name = format!("{REDU}/{}", case.name());
        rows.row(name, |uses| TABLE_II.cycles(uses, *case, REDU));
    }
}

/// R1: large objects, figure 10a.
pub(super) fn large_objects(rows: &mut Rows<'_>) {
    let cases = large(rows.budget);
    means(rows, &cases);
    each(rows, &cases);
}

/// R2: words in many objects, figure 10b.
pub(super) fn random_objects(rows: &mut Rows<'_>) {
    let cases = random(rows.budget);
    means(rows, &cases);
    each(rows, &cases);
}

/// R3: large and random sets.
pub(super) fn all(rows: &mut Rows<'_>) {
    let cases = [large(rows.budget), random(rows.budget)].concat();
    means(rows, &cases);
    for (faster, slower) in [("hw-undo", "hw-redo"), ("hw-redo", "hw-undo-redo")] {
        rows.row(format!("order/{faster}"), |uses| {
            let [less, more] =
                [faster, slower].map(|design| TABLE_II.all_by_redu(uses, &cases, design));
            Some(more? / less?)
        });
    }
}

/// R4: the best baseline depends on the data set; ReDU needs no knowledge of it.
pub(super) fn order(rows: &mut Rows<'_>) {
    for (set, cases, best) in
        [("large", large(rows.budget), "hw-undo"), ("random", random(rows.budget), "hw-redo")]
    {
        let ratio = |uses: &Uses<'_>, design| TABLE_II.all_by_redu(uses, &cases, design);
        rows.row(format!("{set}/best"), |uses| {
            let others = BASELINES.into_iter().filter(|design| *design != best);
            Some(least(others.map(|design| ratio(uses, design)))? / ratio(uses, best)?)
        });
        rows.row(format!("{set}/redu"), |uses| least(BASELINES.map(|of| ratio(uses, of))));
        for case in &cases {
            rows.row(format!("{set}/redu/{}", case.name()), |uses| {
                least(BASELINES.map(|design| TABLE_II.by_redu(uses, *case, design)))
            });
        }
    }
}

/// R11: software logging against the best and the worst hardware design.
pub(super) fn software(rows: &mut Rows<'_>) {
    let sets = [("large", large(rows.budget)), ("random", random(rows.budget))];
    let cases = sets.each_ref().map(|(_, cases)| &cases[..]).concat();
    let slower = |uses: &Uses<'_>, case, by: &str| {
        Some(TABLE_II.cycles(uses, case, "sw-undo")? / TABLE_II.cycles(uses, case, by)?)
    };
    rows.row("mean", |uses| geomean(cases.iter().map(|case| slower(uses, *case, "hw-undo"))));
    rows.row("least", |uses| least(cases.iter().map(|case| slower(uses, *case, "hw-undo"))));
    rows.row("most", |uses| most(cases.iter().map(|case| slower(uses, *case, "hw-undo"))));
    for design in ALL {
        rows.row(format!("mean/{design}"), |uses| {
            geomean(cases.iter().map(|case| slower(uses, *case, design)))
        });
    }
    for (set, cases) in &sets {
        for case in cases {
            let name = format!("{set}/{}", case.name());
            rows.row(name, |uses| slower(uses, *case, "hw-undo"));
        }
    }
}
