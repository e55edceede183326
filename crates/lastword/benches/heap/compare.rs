//! Runs two builds of this program in turn and prints the ratios of their figures.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::Failure;
use crate::arguments::number;
use crate::store::{median, quantile};
use crate::table::{Cell, Table};

/// Figures by row and column, one list for each build.
type Figures = BTreeMap<(String, String), [Vec<f64>; 2]>;

pub(crate) fn run(texts: &[String]) -> Result<(), Failure> {
    let [old, new, options @ ..] = texts else { return Err("compare OLD NEW [OPTIONS]".into()) };
    let mut options = options.to_vec();
    if options.first().is_none_or(|option| option.starts_with("--")) {
        options.insert(0, "speed".into());
    }
    let mut rounds = 9;
    if let Some(at) = options.iter().position(|option| option == "--rounds") {
        rounds = number(options.get(at + 1).ok_or("--rounds needs a value")?)?;
        options.drain(at..at + 2);
    }
    options.extend(["--rounds", "1", "--json"].map(String::from));
    let mut figures = Figures::new();
    for round in 0..rounds {
        // Each build runs first in every second round.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let program = [old, new][which];
            let output = Command::new(program).args(&options).stderr(Stdio::inherit()).output()?;
            if !output.status.success() {
                return Err(format!("{program} failed: {}", output.status).into());
            }
            for line in String::from_utf8(output.stdout)?.lines() {
                add(&mut figures, line, which);
            }
        }
    }
    let title = format!("{} of {rounds} rounds, {new} by {old}", options.join(" "));
    let columns = ["old", "new", "ratio", "ratio_p10", "ratio_p90"];
    let mut table = Table::new("compare", title, &columns);
    for ((row, column), [old, new]) in figures {
        let mut ratios: Vec<f64> = old.iter().zip(&new).map(|(old, new)| new / old).collect();
        ratios.sort_by(f64::total_cmp);
        let ratio = |part| Cell::Number(quantile(&ratios, part), 3);
        let both = [median(old), median(new)].map(|number| Cell::Number(number, 1));
        let cells = both.into_iter().chain([ratio(0.5), ratio(0.1), ratio(0.9)]).collect();
        table.row(format!("{row}: {column}"), cells);
    }
    println!("{}\n{}", table.title, table.text());
    Ok(())
}

/// Adds the numbers of a row, a flat JSON object that [`Table::print`] wrote. No string in it has a
/// quotation mark, and none has a comma or a colon before a number's name.
fn add(figures: &mut Figures, line: &str, which: usize) {
    let Some((_, rest)) = line.split_once("\"row\":\"") else { return };
    let Some((row, rest)) = rest.split_once('"') else { return };
    for field in rest.trim_end_matches('}').split(",\"") {
        let Some((column, text)) = field.split_once("\":") else { continue };
        // Percentiles of a single round repeat its figure.
        if column.contains("_p") {
            continue;
        }
        if let Ok(figure) = text.parse() {
            let key = (row.to_owned(), column.to_owned());
            figures.entry(key).or_default()[which].push(figure);
        }
    }
}
