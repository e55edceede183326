//! One experiment on the page: what the paper found, what is run here, figures and rows.

use super::chart;
use super::number::{in_its_unit, number, spread, with_unit};
use super::page::{anchor, badge, escaped, push};
use super::results::{Experiment, Figure, Results, Row};
use super::standing::{Standing, Tally};

/// The experiment with all that belongs to it.
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

/// What follows the source: nothing where there is no mark.
fn counts(tally: &Tally) -> String {
    match (tally.marks, tally.cannot_be_run) {
        (0, _) => String::new(),
        (marks, 0) => format!("; {} of {marks} marks hold here", tally.held),
        (marks, most) if marks == most => format!("; none of {marks} marks can be run here"),
        (marks, some) => {
            format!("; {} of {marks} marks hold here, {some} cannot be run", tally.held)
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

/// The figure's points, for who cannot see the curves.
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
         <th>here <small>least to most</small></th><th>mark</th><th>held</th></tr></thead>\n",
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
         <td class=\"mark\">{}</td><td class=\"verdict\">{}</td></tr>\n",
        anchor(&[&row.id, &row.name]),
        standing.class(),
        some(&row.paper),
        some(&row.mark),
        badge(standing),
    )
}

fn none() -> String {
    "<span class=\"none\">–</span>".into()
}

fn small(spread: String) -> String {
    format!(" <small>{}</small>", escaped(&spread))
}

/// Rows that follow each other and have the same reason, which need be told once.
fn by_why<'a>(rows: &'a [&'a Row]) -> impl Iterator<Item = &'a [&'a Row]> {
    rows.chunk_by(|a, b| a.why == b.why && a.why.is_some())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_reason_for_rows_in_a_row_is_told_once() {
        let results = sample::small();
        let mut row = results.rows[1].clone();
        row.why = Some("two cores".into());
        let rows = [&results.rows[0], &row, &row, &results.rows[0]];
        let lengths: Vec<_> = by_why(&rows).map(<[_]>::len).collect();
        assert_eq!(lengths, [1, 2, 1]);
    }
}
