//! The tables of docs/internals/mutants.md that list the trials of mutants.

use std::fmt::Write;
use std::path::Path;

use libtest_mimic::Failed;

/// The number and the name of a mutant, and the model that must detect it.
pub(crate) type Row = (u32, &'static str, &'static str);

/// Checks the table of the trials with this tool; with `UPDATE` in the environment, writes it.
///
/// # Errors
/// If the table differs, or the page has no section for the tool.
pub(crate) fn is_current(tool: &str, rows: Vec<Row>) -> Result<(), Failed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/mutants.md");
    let page = std::fs::read_to_string(&path)?;
    let expected = with_table(&page, tool, &table(rows)).ok_or("the page has no such section")?;
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected)?;
    } else if page != expected {
        let problem = "docs/internals/mutants.md differs from the trials: run with UPDATE=1";
        return Err(problem.into());
    }
    Ok(())
}

/// Returns the page with another table in the section of this tool.
fn with_table(page: &str, tool: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(&format!("\n### Under {tool}\n"))?;
    let after = &rest[rest.find("\n##").unwrap_or(rest.len())..];
    Some(format!("{before}\n### Under {tool}\n\n{table}{after}"))
}

fn table(mut rows: Vec<Row>) -> String {
    rows.sort_unstable();
    let mut table = "| number | name | detected by |\n|---|---|---|\n".to_owned();
    for (number, name, model) in rows {
        writeln!(table, "| {number} | {name} | {model} |").expect("a string grows");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_one_tool_leaves_rest_of_page() {
        let page = "a\n### Under loom\n\nold\n\n### Under shuttle\n\nold\n\n## b\n";
        let new = with_table(page, "loom", "new\n").unwrap();
        assert_eq!(new, "a\n### Under loom\n\nnew\n\n### Under shuttle\n\nold\n\n## b\n");
        let new = with_table(&new, "shuttle", "new\n").unwrap();
        assert_eq!(new, "a\n### Under loom\n\nnew\n\n### Under shuttle\n\nnew\n\n## b\n");
        assert_eq!(with_table(page, "other", "new\n"), None);
    }
}
