//! L1 to L4, L7 and L11 to L13: throughput by that of `volatile` (figure 8, tables 4 and 5;
//! sections 6.1, 6.4).

use super::{DURABLE, On, VOLATILE, WORKLOADS};
use crate::rows::{Rows, Uses, geomean, least, most, percent_above, percent_below};

/// From the shortest transaction to the longest, in table 5.
const BY_LENGTH: [&str; 6] = ["rbt", "tatp-hash", "cq", "pc", "sps", "tpcc-rows"];

/// Fills the geometric means and the ratio of each workload.
fn means(on: On, rows: &mut Rows<'_>) {
    for design in DURABLE {
        rows.row(format!("mean/{design}"), |uses| on.relative_of_six(uses, design));
        for workload in WORKLOADS {
            rows.row(format!("{design}/{workload}"), |uses| on.relative(uses, workload, design));
        }
    }
}

/// L1: cost of durability on one socket, and the order of the designs.
pub(super) fn one_socket(rows: &mut Rows<'_>) {
    let on = On::OneSocket;
    means(on, rows);
    for (faster, slower) in [("lad-llc", "lad"), ("lad", "lad-base"), ("lad-base", "sw-undo")] {
        rows.row(format!("order/{faster}"), |uses| {
            Some(on.relative_of_six(uses, faster)? / on.relative_of_six(uses, slower)?)
        });
    }
}

/// L2: cost of durability on two sockets, and the loss from one to two.
pub(super) fn two_sockets(rows: &mut Rows<'_>) {
    means(On::TwoSockets, rows);
    let lost = |uses: &Uses<'_>, design| {
        let [one, two] = [On::OneSocket, On::TwoSockets].map(|on| on.relative_of_six(uses, design));
        Some(one? - two?)
    };
    for design in DURABLE {
        rows.row(format!("lost/{design}"), |uses| lost(uses, design));
    }
    rows.row("base-loses-most", |uses| {
        Some(lost(uses, "lad-base")? - most(["lad", "lad-llc"].map(|of| lost(uses, of)))?)
    });
}

/// L3: gain of waiting for the first acknowledgement of a commit alone.
pub(super) fn first_ack(rows: &mut Rows<'_>) {
    for (on, name) in [(On::OneSocket, "one"), (On::TwoSockets, "two")] {
        let ratio = |uses: &Uses<'_>, workload| {
            let [base, lad] = ["lad-base", "lad"].map(|of| on.cycles(uses, workload, of));
            Some(base? / lad?)
        };
        rows.row(format!("{name}/mean"), |uses| {
            geomean(WORKLOADS.map(|workload| ratio(uses, workload))).map(percent_above)
        });
        for workload in WORKLOADS {
            rows.row(format!("{name}/{workload}"), |uses| ratio(uses, workload).map(percent_above));
        }
    }
}

/// L4: LAD, workload by workload.
pub(super) fn each(rows: &mut Rows<'_>) {
    for workload in WORKLOADS {
        rows.row(format!("ratio/{workload}"), |uses| On::OneSocket.relative(uses, workload, "lad"));
    }
}

/// L7: all cycles of a transaction.
pub(super) fn total(rows: &mut Rows<'_>) {
    let cycles = |uses: &_, workload, design| On::OneSocket.cycles(uses, workload, design);
    for design in ["lad", VOLATILE] {
        for workload in WORKLOADS {
            rows.row(format!("{design}/{workload}"), |uses| cycles(uses, workload, design));
        }
    }
    for pair in BY_LENGTH.windows(2) {
        rows.row(format!("order/{}", pair[1]), |uses| {
            Some(cycles(uses, pair[1], "lad")? / cycles(uses, pair[0], "lad")?)
        });
    }
}

/// L11: highest and lowest cost of software logging.
pub(super) fn extremes(rows: &mut Rows<'_>) {
    let ratio = |uses: &Uses<'_>, workload| On::OneSocket.relative(uses, workload, "sw-undo");
    for workload in WORKLOADS {
        rows.row(format!("ratio/{workload}"), |uses| ratio(uses, workload));
    }
    rows.row("cq-by-others", |uses| {
        let others = WORKLOADS.into_iter().filter(|workload| *workload != "cq");
        Some(ratio(uses, "cq")? / least(others.map(|workload| ratio(uses, workload)))?)
    });
}

/// L12: non-volatile memory instead of battery-backed memory.
pub(super) fn memory(rows: &mut Rows<'_>) {
    let (dram, nvm) = (On::OneSocket, On::Nvm);
    means(nvm, rows);
    for design in DURABLE {
        rows.row(format!("shift/{design}"), |uses| {
            Some(nvm.relative_of_six(uses, design)? - dram.relative_of_six(uses, design)?)
        });
    }
}

/// L13: average cost of software logging.
pub(super) fn logging(rows: &mut Rows<'_>) {
    rows.row("lost", |uses| On::OneSocket.relative_of_six(uses, "sw-undo").map(percent_below));
}
