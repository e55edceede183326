//! `lastword pool check`: reports all damage of a pool, its effects and the remedies.
//!
//! A check writes nothing unless `--repair` is given: it replays a waiting log in memory. An
//! unclean shutdown is no damage. The exit status is 0 without damage (after a repair: none left),
//! 1 with damage, 2 if the pool could not be examined.

use std::path::Path;

use lastword::{Checked, Finding, Report, Severity, Usage};
use serde::Serialize;

use crate::args::{Format, PoolCheck};
use crate::failure::{Failure, Verdict};
use crate::pool::{Description, layout_text, owner_text, yes_no};
use crate::report::{Collection, HeapUse, complain, json, print, table};

/// Checks the pool and prints the findings.
///
/// # Errors
/// The pool cannot be examined, or a repair cannot be written.
pub(crate) fn run(arguments: &PoolCheck) -> Result<Verdict, Failure> {
    let PoolCheck { path, repair, expected, output } = arguments;
    let expected = expected.options();
    let (repaired, report) = if *repair {
        let repair = lastword::repair_with(path, &expected)?;
        (Some(Repaired::new(&repair.fixed, &repair.left)), repair.after)
    } else {
        (None, lastword::check_with(path, &expected)?)
    };
    let found = Found::new(&report, path, repaired);
    let printed = print(&match output.format {
        Format::Json => json::object(&found),
        Format::Table => found.text(path, report.severity()),
    });
    match *repair {
        true => printed.map_err(Failure::after("the repair is done"))?,
        false => printed?,
    }
    let damage = report.findings.iter().filter(|one| one.severity() > Severity::Harmless);
    complain(&damage.map(Finding::to_string).collect::<Vec<_>>());
    Ok(Verdict::of(report.is_sound()))
}

/// The report of a check.
#[derive(Debug, Serialize)]
struct Found {
    /// Absent when the pool's description has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// No damage, not even of one of two copies.
    sound: bool,
    /// Opening the pool would succeed.
    opens: bool,
    /// The pool's layout, when the description does not have it.
    #[serde(flatten)]
    layout: Option<Layout>,
    findings: Vec<Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repaired: Option<Repaired>,
    /// The pool's state after opening; absent when the pool does not open.
    #[serde(flatten)]
    shown: Option<Shown>,
}

/// A pool's layout.
#[derive(Debug, Serialize)]
struct Layout {
    layout: String,
    layout_version: u64,
}

/// A finding.
#[derive(Debug, Serialize)]
struct Line {
    problem: &'static str,
    /// `unchecked`, `harmless`, `spare`, `damage` or `refused`.
    severity: &'static str,
    file: String,
    /// Byte offset; absent when the finding concerns the whole file.
    at: Option<u64>,
    what: String,
    affected: String,
    remedy: String,
}

/// Results of a repair.
#[derive(Debug, Serialize)]
struct Repaired {
    fixed: Vec<Line>,
    left: Vec<Left>,
}

/// A finding that was not repaired.
#[derive(Debug, Serialize)]
struct Left {
    #[serde(flatten)]
    finding: Line,
    why: &'static str,
}

/// The pool's state after opening.
#[derive(Debug, Serialize)]
struct Shown {
    /// Opening the pool runs recovery.
    needs_recovery: bool,
    transactions_to_replay: u64,
    /// The last transaction visible after opening.
    durable_id: u64,
    /// The log ends in a torn write, which is no damage.
    torn_end: bool,
    objects: u64,
    object_bytes: u64,
    blocks: u64,
    #[serde(flatten)]
    info: Description,
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Unchecked => "unchecked",
        Severity::Harmless => "harmless",
        Severity::Spare => "spare",
        Severity::Damage => "damage",
        _ => "refused",
    }
}

impl Line {
    fn new(finding: &Finding) -> Line {
        let problem = &finding.problem;
        Line {
            problem: problem.name(),
            severity: severity(problem.severity()),
            file: finding.path.display().to_string(),
            at: finding.at,
            what: problem.to_string(),
            affected: problem.affected(),
            remedy: finding.remedy(),
        }
    }

    /// Adds the rows of the table: problem and place, effect, remedy.
    fn rows(&self, rows: &mut Vec<(&'static str, String)>) {
        let place = self.at.map(|at| format!(" at byte {at}")).unwrap_or_default();
        rows.push((self.severity, format!("{}{place}: {}", self.file, self.what)));
        rows.push(("  affects", self.affected.clone()));
        rows.push(("  remedy", self.remedy.clone()));
    }
}

impl Repaired {
    fn new(fixed: &[Finding], left: &[(Finding, &'static str)]) -> Repaired {
        let left = left.iter().map(|(finding, why)| Left { finding: Line::new(finding), why });
        Repaired { fixed: fixed.iter().map(Line::new).collect(), left: left.collect() }
    }
}

impl Shown {
    fn new(checked: &Checked, path: &Path) -> Shown {
        let Checked { needs_recovery, transactions_to_replay, durable_id, torn_end, .. } = *checked;
        let usage = &checked.usage;
        let Usage { objects, object_bytes, blocks, .. } = *usage;
        let mut info = Description::without_flush(&checked.info);
        info.path = path.display().to_string();
        info.heap = Some(HeapUse::of(usage));
        info.collections = checked.collections.clone().map(Collection::all);
        Shown {
            needs_recovery,
            transactions_to_replay,
            durable_id: durable_id.0,
            torn_end,
            objects,
            object_bytes,
            blocks,
            info,
        }
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = self.info.rows();
        rows.extend([
            ("needs recovery", yes_no(self.needs_recovery)),
            ("transactions to replay", table::grouped(self.transactions_to_replay)),
            ("durable ID", table::grouped(self.durable_id)),
            ("log ends in a torn write", yes_no(self.torn_end)),
            ("objects", table::grouped(self.objects)),
            ("bytes in objects", table::bytes(self.object_bytes)),
            ("blocks", table::grouped(self.blocks)),
        ]);
        rows
    }
}

impl Found {
    fn new(report: &Report, path: &Path, repaired: Option<Repaired>) -> Found {
        let shown = report.checked.as_ref().map(|checked| Shown::new(checked, path));
        let layout = report.layout.clone().filter(|_| shown.is_none());
        let layout = layout.map(|(layout, layout_version)| Layout { layout, layout_version });
        Found {
            path: shown.is_none().then(|| path.display().to_string()),
            sound: report.is_sound(),
            opens: report.opens(),
            layout,
            findings: report.findings.iter().map(Line::new).collect(),
            repaired,
            shown,
        }
    }

    /// Formats the table. The first line is the verdict, which is all that most readers need.
    fn text(&self, path: &Path, severity: Severity) -> String {
        let verdict = match (severity, self.opens) {
            _ if self.sound => "is sound",
            (Severity::Spare, true) => "is whole and opens, but needs a repair",
            (_, true) => "is damaged; it opens",
            (_, false) => "is damaged; it does not open",
        };
        // Later transactions of a running process are not checked.
        let shown = self.shown.as_ref().filter(|shown| shown.info.in_use);
        let as_of = shown.map(|shown| {
            let (id, owner) = (shown.durable_id, owner_text(shown.info.owner));
            format!(", as of transaction {id}; it is in use {owner}")
        });
        let as_of = as_of.unwrap_or_default();
        format!("{} {verdict}{as_of}\n\n{}", path.display(), table::pairs(&self.rows()))
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = self.shown.as_ref().map(Shown::rows).unwrap_or_default();
        if let Some(Layout { layout, layout_version }) = &self.layout {
            rows.push(("layout", layout_text(layout, *layout_version)));
        }
        for finding in &self.findings {
            finding.rows(&mut rows);
        }
        if let Some(Repaired { fixed, left }) = &self.repaired {
            for one in fixed {
                rows.push(("repaired", format!("{}: {}", one.file, one.what)));
            }
            for Left { finding, why } in left {
                rows.push(("not repaired", format!("{}: {}: {why}", finding.file, finding.what)));
            }
        }
        rows.push(("opens", yes_no(self.opens)));
        rows.push(("sound", yes_no(self.sound)));
        rows
    }
}
