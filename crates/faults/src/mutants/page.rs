//! The table of docs/internals/mutants.md.

use super::{DETECTIONS, Detection, Entry, entry};

/// The page, from the repository's root.
pub const PATH: &str = "docs/internals/mutants.md";

const HEAD: &str =
    "| number | name | what it breaks | found by | after | as |\n|---|---|---|---|---|---|\n";

/// Results of a detection: the number of executions, and the kind of violation.
pub type Outcome = (u64, String);

impl Detection {
    /// Returns the columns of its row that the registry fixes.
    fn columns(&self) -> String {
        let Entry { number, name, breaks, .. } = entry(self.mutant);
        format!("| {number} | {name} | {breaks} | {} |", self.by)
    }
}

/// Returns the table with the outcomes of all detections, in their order.
///
/// # Panics
/// If an outcome is missing.
pub fn table(outcomes: &[Outcome]) -> String {
    assert_eq!(outcomes.len(), DETECTIONS.len(), "each detection has an outcome");
    let rows = DETECTIONS.iter().zip(outcomes);
    let rows = rows.map(|(it, (after, kind))| format!("{} {after} | {kind} |\n", it.columns()));
    HEAD.to_owned() + &rows.collect::<String>()
}

/// Returns the page with another table in place of its own; `None` if it has none.
pub fn with_table(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(HEAD)?;
    let (_, after) = rest.split_once("\n\n")?;
    Some(format!("{before}{table}\n{after}"))
}

/// Returns the first difference between the page and the registry: a row that is missing, another
/// one, or one too many. Outcomes are not compared; they change with the code that is explored.
pub fn difference(page: &str) -> Option<String> {
    let Some((_, rest)) = page.split_once(HEAD) else { return Some("the table is gone".into()) };
    let mut rows = rest.lines().take_while(|line| line.starts_with('|'));
    for it in DETECTIONS {
        let columns = it.columns();
        match rows.next() {
            Some(row) if row.starts_with(&columns) => {}
            row => {
                return Some(format!("{columns} was expected, not {}", row.unwrap_or("the end")));
            }
        }
    }
    rows.next().map(|row| format!("{row} is in no detection"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::ALL;

    #[test]
    fn page_of_mutants_lists_every_detection() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/mutants.md");
        let page = std::fs::read_to_string(path).unwrap();
        let found = difference(&page);
        let remedy = "UPDATE=1 cargo test -p lastword-crash-tests --test mutants";
        assert!(found.is_none(), "{}: {remedy} writes the table", found.unwrap_or_default());
        let count = format!("each of the {} mutants", ALL.len());
        assert!(page.contains(&count), "the text does not say `{count}`");
    }

    #[test]
    fn missing_and_foreign_rows_are_found() {
        let outcomes = vec![(7, "lost".to_owned()); DETECTIONS.len()];
        let whole = format!("# Mutants\n\n{}\nText.\n", table(&outcomes));
        assert_eq!(difference(&whole), None);
        let (last, _) = whole.split_once("\n\nText").unwrap();
        let (short, _) = last.rsplit_once('\n').unwrap();
        assert!(difference(&format!("{short}\n")).unwrap().contains("the end"));
        let long = whole.replace("\n\nText", "\n| 1 | foreign | row |\n\nText");
        assert!(difference(&long).unwrap().contains("foreign"));
        assert!(difference("# Mutants\n").is_some());
        let rewritten = with_table(&long, &table(&outcomes)).unwrap();
        assert_eq!(rewritten, whole);
    }
}
