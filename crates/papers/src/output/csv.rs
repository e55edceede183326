//! Results as CSV (RFC 4180): one header line, numbers unrounded.

use crate::results::{Figure, Results};

/// Returns the rows of all experiments, in order.
pub(crate) fn rows(results: &Results) -> String {
    let header = [
        "id", "name", "what", "paper", "median", "min", "max", "unit", "target", "held", "why",
        "rounds", "seed", "command",
    ];
    let mut text = line(header);
    for row in &results.rows {
        let ours = |part: fn(&crate::statistics::OverRounds) -> f64| {
            row.ours.as_ref().map_or_else(String::new, |over| part(over).to_string())
        };
        let some = |value: &Option<String>| value.clone().unwrap_or_default();
        text += &line([
            row.id.clone(),
            row.name.clone(),
            row.what.clone(),
            some(&row.paper),
            ours(|over| over.median),
            ours(|over| over.min),
            ours(|over| over.max),
            row.unit.clone(),
            some(&row.target),
            row.held.map_or_else(String::new, |held| held.to_string()),
            some(&row.why),
            row.rounds.to_string(),
            row.seed.to_string(),
            some(&row.command),
        ]);
    }
    text
}

/// Returns the points of one figure, curve by curve.
pub(crate) fn figure(figure: &Figure) -> String {
    let mut text = line(["series", "theirs", "x", "median", "min", "max"]);
    for series in &figure.series {
        for point in &series.points {
            text += &line([
                series.name.clone(),
                series.theirs.to_string(),
                point.x.to_string(),
                point.y.median.to_string(),
                point.y.min.to_string(),
                point.y.max.to_string(),
            ]);
        }
    }
    text
}

fn line<const N: usize>(fields: [impl AsRef<str>; N]) -> String {
    fields.map(|field| quoted(field.as_ref())).join(",") + "\r\n"
}

/// Returns a field, in quotes where it needs them.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn parse(text: &str) -> Vec<Vec<String>> {
        let (mut lines, mut fields, mut field) = (vec![], vec![], String::new());
        let (mut chars, mut is_inside) = (text.chars().peekable(), false);
        while let Some(next) = chars.next() {
            match next {
                '"' if is_inside && chars.peek() == Some(&'"') => {
                    chars.next();
                    field.push('"');
                }
                '"' => is_inside = !is_inside,
                ',' if !is_inside => fields.push(std::mem::take(&mut field)),
                '\r' if !is_inside => {}
                '\n' if !is_inside => {
                    fields.push(std::mem::take(&mut field));
                    lines.push(std::mem::take(&mut fields));
                }
                other => field.push(other),
            }
        }
        assert!(fields.is_empty() && field.is_empty(), "the last line is complete");
        lines
    }

    #[test]
    fn rows_survive_a_round_trip() {
        let results = sample::small();
        let lines = parse(&rows(&results));
        assert_eq!(lines.len(), 1 + results.rows.len());
        assert!(lines.iter().all(|line| line.len() == lines[0].len()));
        for (line, row) in lines[1..].iter().zip(&results.rows) {
            assert_eq!([&line[0], &line[1], &line[2]], [&row.id, &row.name, &row.what]);
            assert_eq!(line[3], row.paper.clone().unwrap_or_default());
            assert_eq!(line[4].parse().ok(), row.ours.map(|over| over.median));
            assert_eq!(line[9], row.held.map_or_else(String::new, |held| held.to_string()));
            assert_eq!(line[10], row.why.clone().unwrap_or_default());
            assert_eq!(line[13], row.command.clone().unwrap_or_default());
        }
    }

    #[test]
    fn points_survive_a_round_trip() {
        for one in &sample::small().figures {
            let lines = parse(&figure(one));
            let points: Vec<_> = one.series.iter().flat_map(|series| &series.points).collect();
            assert_eq!(lines.len(), 1 + points.len());
            for (line, point) in lines[1..].iter().zip(points) {
                assert_eq!(line[2].parse(), Ok(point.x));
                assert_eq!(line[3], point.y.median.to_string());
            }
        }
    }
}
