//! A paper's page in the book: its experiments, their published values and their targets.
//!
//! The page follows from the file of targets alone, so it is written when the book is built
//! (`examples/pages.rs`, which `.ci/book` runs) and no copy of it is committed.

use crate::error::Error;
use crate::targets::{Experiment, Paper, TargetRow};

/// Returns the page of a paper in Markdown, with a table for each experiment.
///
/// # Errors
/// [`Error::NoPaper`].
pub fn book_page(name: &str) -> Result<String, Error> {
    let Paper { paper, title, setup, experiment } = Paper::by_name(name)?;
    let mut page = format!(
        "# {paper}\n\n{title}. Measured on {setup}.\n\nGenerated from \
         `crates/papers/targets/{paper}.toml` when the book is built.\n`lastword reproduce \
         {paper}` runs the experiments and compares the results with these targets.\n"
    );
    for experiment in &experiment {
        let Experiment { id, title, source, found, here, .. } = experiment;
        page += &format!("\n## {id}: {title}\n\n{source}. {found}\n\n{here}\n");
        page += "\n| measured | unit | paper | target |\n|---|---|---|---|\n";
        for TargetRow { what, unit, paper, target, .. } in experiment.rows() {
            let dash = || "-".to_owned();
            let (paper, target) = (paper.unwrap_or_else(dash), target.text().unwrap_or_else(dash));
            page += &format!("| {what} | {unit} | {paper} | {target} |\n");
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_shows_every_experiment_and_row() {
        for name in crate::registry::NAMES {
            let page = book_page(name).unwrap();
            let mut lines = page.lines();
            for experiment in Paper::by_name(name).unwrap().experiment {
                let heading = format!("## {}: {}", experiment.id, experiment.title);
                assert!(lines.any(|line| line == heading), "{name}: {heading}");
                for TargetRow { what, unit, target, .. } in experiment.rows() {
                    let begin = format!("| {what} | {unit} | ");
                    let end = format!("| {} |", target.text().unwrap_or_else(|| "-".to_owned()));
                    let is_row = |line: &str| line.starts_with(&begin) && line.ends_with(&end);
                    assert!(lines.any(is_row), "{name}: {begin} ... {end}");
                }
            }
        }
        assert!(book_page("another").is_err());
    }

    /// A cell with a bar or a line break would end the row early.
    #[test]
    fn page_keeps_each_row_on_one_line_of_four_cells() {
        for name in crate::registry::NAMES {
            let page = book_page(name).unwrap();
            for line in page.lines().filter(|line| line.starts_with('|')) {
                assert_eq!(line.matches('|').count(), 5, "{name}: {line}");
                assert!(line.ends_with('|'), "{name}: {line}");
            }
        }
    }
}
