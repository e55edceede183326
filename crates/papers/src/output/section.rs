//! Section of the page for one experiment: the paper's finding, the setup here, figures and rows.

use super::chart;
use super::html_page::{anchor, badge, escaped, push};
use super::number::{in_its_unit, number, spread, with_unit};
use super::standing::{Standing, Tally};
use crate::results::{Experiment, Figure, Results, Row};

/// Returns the section of an experiment.
pub(super) fn html(experiment: &Experiment, results: &Results) -> String {
    let rows: Vec<&Row> = results.rows.iter().filter(|row| row.id == experiment.id).collect();
    let tally = Tally::of_rows(rows.iter().copied());
    let mut text = format!(
        "<section id=\"{}\">\n<h2><span class=\"id\">{}</span> {} {}</h2>\n\
         <p class=\"source\">{}{}</p>\n<dl class=\"story\">\n\
         <div><dt>The paper found</dt><dd>{}</dd></div>\n\
         <div><dt>Run here</dt><dd>{}</dd></div>\n</dl>\n",
        anchor(&[&experiment.id]),
        escaped(&experiment.id),
        escaped(&experiment.title),
        badge(Standing::of_experiment(experiment, &tally)),
        escaped(&experiment.source),
        counts(&tally),
        escaped(&experiment.found),
        escaped(&experiment.here),
    );
    let figures: Vec<&Figure> =
        results.figures.iter().filter(|figure| figure.id == experiment.id).collect();
    if !figures.is_empty() {
        text += "<div class=\"figures\">\n";
        text.extend(figures.into_iter().map(figure));
        text += "</div>\n";
    }
    if !rows.is_empty() {
        text += &table(&rows);
    }
    text + "</section>\n"
}

/// Returns the count of targets that hold; empty without targets.
fn counts(tally: &Tally) -> String {
    match (tally.targets, tally.cannot_be_run) {
        (0, _) => String::new(),
        (targets, 0) => format!("; {} of {targets} targets hold here", tally.held),
        (targets, most) if targets == most => {
            format!("; none of {targets} targets can be run here")
        }
        (targets, some) => {
            format!("; {} of {targets} targets hold here, {some} cannot be run", tally.held)
        }
    }
}

fn figure(figure: &Figure) -> String {
    let title = escaped(&figure.title);
    let label = format!("<svg aria-label=\"{title}\" ");
    let picture = chart::svg(figure).replacen("<svg ", &label, 1);
    format!(
        "<figure id=\"{}\">\n<figcaption>{title}</figcaption>\n{picture}{}</figure>\n",
        anchor(&["figure", &figure.name]),
        numbers(figure),
    )
}

/// Returns the figure's points as a table, for screen readers.
fn numbers(figure: &Figure) -> String {
    if figure.series.iter().all(|series| series.points.is_empty()) {
        return String::new();
    }
    let mut text = format!(
        "<details><summary>numbers</summary>\n<div class=\"scroll\"><table class=\"points\">\n\
         <tr><th>curve</th><th>{}</th><th>{}</th></tr>\n",
        escaped(&figure.x.label),
        escaped(&figure.y.label),
    );
    for series in &figure.series {
        for point in &series.points {
            let spread = spread(&point.y).map_or_else(String::new, small);
            push(
                &mut text,
                format_args!(
                    "<tr><td>{}</td><td>{}</td><td>{}{spread}</td></tr>\n",
                    escaped(&chart::name(series)),
                    number(point.x),
                    number(point.y.median),
                ),
            );
        }
    }
    text + "</table></div></details>\n"
}

fn table(rows: &[&Row]) -> String {
    let mut text = String::from(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Rows\">\n\
         <table class=\"rows\">\n<thead><tr><th>what</th><th>paper</th>\
         <th>here <small>least to most</small></th><th>target</th><th>held</th></tr></thead>\n",
    );
    for group in by_why(rows) {
        text += "<tbody>\n";
        text.extend(group.iter().map(|row| line(row)));
        if let Some(why) = group[0].why.as_deref() {
            let all =
                if group.len() > 1 { format!("All {}: ", group.len()) } else { String::new() };
            push(
                &mut text,
                format_args!(
                    "<tr class=\"why\"><td colspan=\"5\"><div>{all}{}</div></td></tr>\n",
                    escaped(why)
                ),
            );
        }
        text += "</tbody>\n";
    }
    text + "</table>\n</div>\n"
}

fn line(row: &Row) -> String {
    let standing = Standing::of(row);
    let ours = row.ours.map_or_else(none, |over| {
        let (over, unit) = in_its_unit(&over, &row.unit);
        let spread = spread(&over).map_or_else(String::new, small);
        format!("{}{spread}", escaped(&with_unit(over.median, unit)))
    });
    let some = |text: &Option<String>| text.as_deref().map_or_else(none, escaped);
    let what = escaped(&row.what);
    let what = match &row.command {
        Some(command) => format!(
            "<details><summary>{what}</summary><pre><code>{}</code></pre></details>",
            escaped(command)
        ),
        None => format!("<span class=\"bare\">{what}</span>"),
    };
    format!(
        "<tr id=\"{}\" class=\"{}\"><th scope=\"row\">{what}</th>\
         <td class=\"paper\">{}</td><td class=\"ours\">{ours}</td>\
         <td class=\"target\">{}</td><td class=\"verdict\">{}</td></tr>\n",
        anchor(&[&row.id, &row.name]),
        standing.class(),
        some(&row.paper),
        some(&row.target),
        badge(standing),
    )
}

fn none() -> String {
    "<span class=\"none\">–</span>".into()
}

fn small(spread: String) -> String {
    format!(" <small>{}</small>", escaped(&spread))
}

/// Splits rows into runs with the same reason, which the table then prints once.
fn by_why<'a>(rows: &'a [&'a Row]) -> impl Iterator<Item = &'a [&'a Row]> {
    rows.chunk_by(|a, b| a.why == b.why && a.why.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn adjacent_rows_share_a_reason() {
        let results = sample::small();
        let mut row = results.rows[1].clone();
        row.why = Some("two cores".into());
        let rows = [&results.rows[0], &row, &row, &results.rows[0]];
        let lengths: Vec<_> = by_why(&rows).map(<[_]>::len).collect();
        assert_eq!(lengths, [1, 2, 1]);
    }
}
