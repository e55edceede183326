//! Results as one self-contained HTML page, for the screen and for print.

use std::fmt::Write;

use super::section;
use super::standing::{Standing, Tally};
use crate::results::Results;

const STYLE: &str = include_str!("html_page.css");

/// Returns the page.
pub(crate) fn html(results: &Results) -> String {
    let title = escaped(&format!("{}: the paper's results, and the results here", results.paper));
    let sections: String =
        results.experiments.iter().map(|experiment| section::html(experiment, results)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{}<main>\n{}{sections}\
         </main>\n</body>\n</html>\n",
        navigation(results),
        summary(results),
    )
}

/// Returns the list of experiments, with the standing of each.
fn navigation(results: &Results) -> String {
    let mut text = String::from("<nav aria-label=\"Experiments\">\n<ol>\n");
    text += "<li><a href=\"#summary\"><b>Summary</b></a></li>\n";
    for experiment in &results.experiments {
        let (id, title) = (escaped(&experiment.id), escaped(&experiment.title));
        let anchor = anchor(&[&experiment.id]);
        let rows = results.rows.iter().filter(|row| row.id == experiment.id);
        let tally = Tally::of_rows(rows);
        let standing = badge(Standing::of_experiment(experiment, &tally));
        let count = match tally.targets {
            0 => String::new(),
            targets => format!(" <small>{}/{targets}</small>", tally.held),
        };
        push(
            &mut text,
            format_args!(
                "<li><a href=\"#{anchor}\"><b>{id}</b> <span class=\"title\">{title}</span> \
                 <span>{standing}{count}</span></a></li>\n"
            ),
        );
    }
    text + "</ol>\n</nav>\n"
}

fn summary(results: &Results) -> String {
    let tally = Tally::of(results);
    let mut text = format!(
        "<header id=\"summary\">\n<p class=\"eyebrow\">lastword reproduce {}</p>\n<h1>{}</h1>\n\
         <p class=\"lead\"><b>{} of {}</b> targets hold here.</p>\n",
        escaped(&results.paper),
        escaped(&results.title),
        tally.held,
        tally.targets,
    );
    let counts = [
        (Standing::Holds, tally.held),
        (Standing::DoesNotHold, tally.not_held.len()),
        (Standing::CannotBeRun, tally.cannot_be_run),
        (Standing::Reported, tally.reported),
    ];
    text += "<ul class=\"counts\">\n";
    for (standing, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        push(&mut text, format_args!("<li><b>{count}</b> {}</li>\n", badge(standing)));
    }
    text += "</ul>\n";
    if !tally.not_held.is_empty() {
        text += "<p>These do not hold:</p>\n<ul class=\"failing\">\n";
        for row in &tally.not_held {
            let anchor = anchor(&[&row.id, &row.name]);
            let (id, what) = (escaped(&row.id), escaped(&row.what));
            push(&mut text, format_args!("<li><a href=\"#{anchor}\">{id} {what}</a></li>\n"));
        }
        text += "</ul>\n";
    }
    text + &conditions(results) + "</header>\n"
}

fn conditions(results: &Results) -> String {
    let machine = &results.machine;
    let pairs = [
        ("The paper measured on", results.setup.clone()),
        ("Measured here on", format!("{}, {} cores", machine.cpu, machine.cores)),
        ("Commit", results.commit.unwrap_or("not known").to_owned()),
        (
            "Run",
            match results.quick {
                true => {
                    "quick: shorter trials, fewer rounds, smaller sweeps; the same targets".into()
                }
                false => "full".into(),
            },
        ),
        ("Rounds", results.rounds.to_string()),
        ("Seed", results.seed.to_string()),
        ("Trials took", format!("{:.0} s", results.seconds)),
    ];
    let mut text = String::from("<dl>\n");
    for (name, value) in pairs {
        let value = escaped(&value);
        push(&mut text, format_args!("<div><dt>{name}</dt><dd>{value}</dd></div>\n"));
    }
    text + "</dl>\n"
}

/// Returns the sign and the word of a standing.
pub(super) fn badge(standing: Standing) -> String {
    format!(
        "<span class=\"held {}\"><span aria-hidden=\"true\">{}</span> {}</span>",
        standing.class(),
        standing.sign(),
        standing.word()
    )
}

/// Escapes a text for HTML, attributes included.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Returns the fragment identifier of a place.
pub(super) fn anchor(parts: &[&str]) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    parts.join("-").chars().map(plain).collect()
}

pub(super) fn push(text: &mut String, arguments: std::fmt::Arguments) {
    text.write_fmt(arguments).expect("a string takes everything that is written");
}

#[cfg(test)]
mod tests {
    use super::super::number;
    use super::*;
    use crate::sample;

    #[test]
    fn page_has_every_row_escaped() {
        let results = sample::small();
        let page = html(&results);
        let some = |text: &Option<String>| text.clone().unwrap_or_default();
        for row in &results.rows {
            let texts = [&row.what, &some(&row.paper), &some(&row.target), &some(&row.why)];
            for text in texts.into_iter().chain([&some(&row.command)]) {
                assert!(page.contains(&escaped(text)), "{text}");
            }
            if let Some(ours) = row.ours {
                let (ours, unit) = number::in_its_unit(&ours, &row.unit);
                assert!(page.contains(&escaped(&number::with_unit(ours.median, unit))));
            }
            assert!(page.contains(Standing::of(row).word()));
        }
        for experiment in &results.experiments {
            let (found, here) = (&experiment.found, &experiment.here);
            for text in [&experiment.title, &experiment.source, found, here] {
                assert!(page.contains(&escaped(text)), "{text}");
            }
        }
        assert!(!page.contains("<b> & "), "the sample's text is escaped");
    }

    #[test]
    fn page_loads_nothing() {
        let page = html(&sample::small()).replace("http://www.w3.org/2000/svg", "");
        for foreign in ["http://", "https://", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn links_have_their_targets() {
        let page = html(&sample::small());
        let links: Vec<_> =
            page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(links.len() > 3);
        for link in links {
            assert_eq!(page.matches(&format!("id=\"{link}\"")).count(), 1, "{link}");
        }
    }

    /// By hand: `SAMPLE_PAGE=page.html cargo test -p lastword-papers sample_page -- --ignored`
    #[test]
    #[ignore = "writes a page to look at"]
    fn sample_page_is_written_for_inspection() {
        let path = std::env::var("SAMPLE_PAGE").expect("SAMPLE_PAGE names the file");
        std::fs::write(path, html(&sample::large())).unwrap();
    }
}
