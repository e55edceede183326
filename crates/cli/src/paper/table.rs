//! Results for a terminal: a sheet an experiment, then what there is to say about its rows.

use super::Listed;
use super::number::{in_its_unit, spread, with_unit};
use super::results::{Experiment, Results, Row};
use super::standing::{Standing, Tally};
use crate::report::table::{NONE, named, sheet, width};

/// All experiments and how many marks hold.
pub(crate) fn table(results: &Results) -> String {
    let within = width();
    let mut text = head(results);
    for experiment in &results.experiments {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.id == experiment.id).collect();
        text += &format!("\n{}\n", one(experiment, &rows, within));
    }
    text + "\n" + &Tally::of(results).sentence()
}

/// `reproduce --list`.
pub(super) fn list(listed: &[Listed<'_>]) -> String {
    let line = |one: &Listed<'_>| {
        let title = match one.named_only {
            true => format!("{} (when it is named)", one.title),
            false => one.title.to_owned(),
        };
        [one.id.to_owned(), title, one.source.to_owned(), one.rows.to_string()]
    };
    let lines: Vec<_> = listed.iter().map(line).collect();
    named(["id", "experiment", "in the paper", "rows"], &lines)
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
    text += &sheet(["what", "paper", "ours", "mark", "held"], &lines);
    for (why, names) in reasons(rows) {
        text += "\n";
        text += &wrapped(&format!("{}: {why}", names.join(", ")), within);
    }
    text
}

/// Each reason once, in the order of its first row, with all rows that have it.
fn reasons<'a>(rows: &[&'a Row]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = vec![];
    for row in rows {
        let Some(why) = row.why.as_deref() else { continue };
        match reasons.iter_mut().find(|(told, _)| *told == why) {
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
        some(row.mark.clone()),
        format!("{} {}", standing.word(), standing.sign()),
    ]
}

/// Lines of at most so many letters, the later ones indented; a longer word is not cut.
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
    use super::super::sample;
    use super::*;

    #[test]
    fn the_table_tells_every_row_and_ends_with_the_sum() {
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
    fn a_reason_is_told_once_for_all_its_rows() {
        let results = sample::large();
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.id == "D2").collect();
        let reasons = reasons(&rows);
        assert_eq!(reasons.len(), 2);
        let names: usize = reasons.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(names, rows.iter().filter(|row| row.why.is_some()).count());
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(wrapped("one two three four", 12), "  one two\n    three\n    four");
        assert_eq!(wrapped("extraordinary", 5), "  extraordinary");
        assert_eq!(wrapped("", 5), "  ");
    }
}
