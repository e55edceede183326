//! Results for a terminal: a table for each experiment, followed by the remarks on its rows.

use std::io::IsTerminal;

use comfy_table::{CellAlignment, Table, presets};

use super::number::{in_its_unit, spread, with_unit};
use super::standing::{Standing, Tally};
use crate::results::{Experiment, Listed, Results, Row};

/// Placeholder of a missing value.
const NONE: &str = "-";

/// Columns where standard output is no terminal.
const WIDTH: usize = 100;

/// Returns an empty table: with lines on a terminal, with spaces elsewhere.
fn empty() -> Table {
    let mut table = Table::new();
    let is_terminal = std::io::stdout().is_terminal();
    table.load_style(if is_terminal { presets::UTF8_FULL_CONDENSED } else { presets::NOTHING });
    table
}

/// Returns rows under a header; columns from `numbers` on are aligned to the right.
fn sheet<const N: usize>(header: [&str; N], rows: &[[String; N]], numbers: usize) -> String {
    let mut table = empty();
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(numbers) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// Returns all experiments and the count of targets that hold.
pub(crate) fn table(results: &Results) -> String {
    let within = empty().width().map_or(WIDTH, usize::from);
    let mut text = head(results);
    for experiment in &results.experiments {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.id == experiment.id).collect();
        text += &format!("\n{}\n", one(experiment, &rows, within));
    }
    text + "\n" + &Tally::of(results).sentence()
}

/// Returns a list of experiments, as `reproduce --list` prints it.
pub(crate) fn list(listed: &[Listed]) -> String {
    let line = |one: &Listed| {
        let title = match one.named_only {
            true => format!("{} (only when named)", one.title),
            false => one.title.clone(),
        };
        [one.id.clone(), title, one.source.clone(), one.rows.to_string()]
    };
    let lines: Vec<_> = listed.iter().map(line).collect();
    sheet(["id", "experiment", "in the paper", "rows"], &lines, 4)
}

fn head(results: &Results) -> String {
    let machine = &results.machine;
    let kind = if results.quick { "quick" } else { "full" };
    let commit = results.commit.map_or_else(String::new, |commit| format!("; commit {commit}"));
    format!(
        "{}: {}\n{kind}, {} rounds, seed {}, {:.0} s; {}, {} cores{commit}\n",
        results.paper,
        results.title,
        results.rounds,
        results.seed,
        results.seconds,
        machine.cpu,
        machine.cores,
    )
}

fn one(experiment: &Experiment, rows: &[&Row], within: usize) -> String {
    let mut text = format!("{} {}\n{}", experiment.id, experiment.title, experiment.source);
    if rows.is_empty() {
        return text;
    }
    let lines: Vec<_> = rows.iter().map(|row| line(row)).collect();
    text += "\n";
    text += &sheet(["what", "paper", "ours", "target", "held"], &lines, 1);
    for (why, names) in reasons(rows) {
        text += "\n";
        text += &wrapped(&format!("{}: {why}", names.join(", ")), within);
    }
    text
}

/// Returns each reason once, in the order of its first row, with all of its rows.
fn reasons<'a>(rows: &[&'a Row]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = vec![];
    for row in rows {
        let Some(why) = row.why.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(&row.what),
            None => reasons.push((why, vec![&row.what])),
        }
    }
    reasons
}

fn line(row: &Row) -> [String; 5] {
    let standing = Standing::of(row);
    let ours = row.ours.map(|over| {
        let (over, unit) = in_its_unit(&over, &row.unit);
        let spread = spread(&over).map_or_else(String::new, |spread| format!(" ({spread})"));
        with_unit(over.median, unit) + &spread
    });
    let some = |text: Option<String>| text.unwrap_or_else(|| NONE.into());
    [
        row.what.clone(),
        some(row.paper.clone()),
        some(ours),
        some(row.target.clone()),
        format!("{} {}", standing.word(), standing.sign()),
    ]
}

/// Breaks a text into lines of at most `within` characters, the later ones indented. A longer word
/// stays whole.
fn wrapped(text: &str, within: usize) -> String {
    const INDENT: &str = "    ";
    let (mut lines, mut line) = (vec![], String::from("  "));
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > within {
            lines.push(std::mem::replace(&mut line, INDENT.into()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    lines.push(line);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn table_has_every_row_and_ends_with_the_tally() {
        let results = sample::small();
        let text = table(&results);
        for row in &results.rows {
            assert!(text.contains(&row.what));
            let why: Vec<_> = row.why.iter().flat_map(|why| why.split_whitespace()).collect();
            assert!(why.iter().all(|word| text.contains(word)));
        }
        assert!(text.contains("0.970 (0.950 to 0.990)"), "{text}");
        assert!(text.contains("does not hold ✗"));
        assert!(text.ends_with("1 cannot be run here"));
    }

    #[test]
    fn reason_is_printed_once_for_its_rows() {
        let results = sample::large();
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.id == "D2").collect();
        let reasons = reasons(&rows);
        assert_eq!(reasons.len(), 2);
        let names: usize = reasons.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(names, rows.iter().filter(|row| row.why.is_some()).count());
    }

    #[test]
    fn long_lines_break_between_words() {
        assert_eq!(wrapped("one two three four", 12), "  one two\n    three\n    four");
        assert_eq!(wrapped("extraordinary", 5), "  extraordinary");
        assert_eq!(wrapped("", 5), "  ");
    }
}
