//! `comparison heap-graph`: the CSV of `heap --rates` as a graph, transactions of each second by
//! system.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use plotters::prelude::*;

use super::rates::HEADER;
use crate::failure::Failure;

/// Size of the picture.
const SIZE: (u32, u32) = (900, 420);

/// Okabe and Ito's palette, for systems in the order of their first rows.
const PALETTE: [RGBColor; 4] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x8A, 0x65),
    RGBColor(0xB5, 0x4F, 0x8B),
];

/// Options of `comparison heap-graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphOptions {
    /// CSV file of `heap --rates`.
    rates: PathBuf,
    /// SVG file to write.
    out: PathBuf,
    /// Size of the store, as in the CSV.
    #[arg(long, default_value = "1")]
    gib: String,
    /// Exponent of Zipf's law, as in the CSV.
    #[arg(long, default_value = "0")]
    zipf: String,
    /// Number of threads.
    #[arg(long, default_value = "1")]
    workers: String,
}

/// The rates of one system by the second.
type Curve = Vec<(f64, f64)>;

/// Draws the graph.
pub(crate) fn graph(options: &GraphOptions) -> Result<(), Failure> {
    let text = std::fs::read_to_string(&options.rates);
    let text = text.map_err(Failure::io("reading the file of --rates"))?;
    let wanted = [&*options.gib, &*options.zipf, &*options.workers];
    let curves = curves(&text, wanted).ok_or_else(|| Failure::NoRates {
        path: options.rates.clone(),
        run: format!("{} GiB, zipf {}, workers {}", wanted[0], wanted[1], wanted[2]),
    })?;
    draw(&options.out, &curves)
        .map_err(|error| Failure::Graph { path: options.out.clone(), error: error.to_string() })
}

/// Returns the curves of a run, with the names of their systems in the order of the file. `None`:
/// the text has no row of the run, or is no such file.
fn curves(text: &str, wanted: [&str; 3]) -> Option<Vec<(String, Curve)>> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return None;
    }
    let mut order = Vec::new();
    let mut sums: BTreeMap<(usize, u64), (f64, f64)> = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let [system, gib, zipf, workers, second, transactions, _] = fields[..] else { return None };
        if [gib, zipf, workers] != wanted {
            continue;
        }
        let place = order.iter().position(|known| known == system).unwrap_or_else(|| {
            order.push(system.to_owned());
            order.len() - 1
        });
        let sum = sums.entry((place, second.parse().ok()?)).or_default();
        *sum = (sum.0 + transactions.parse::<f64>().ok()?, sum.1 + 1.0);
    }
    let mut curves: Vec<(String, Curve)> =
        order.into_iter().map(|system| (system, Vec::new())).collect();
    for ((place, second), (sum, rounds)) in sums {
        curves[place].1.push((second as f64, sum / rounds));
    }
    (!curves.is_empty()).then_some(curves)
}

fn draw(out: &Path, curves: &[(String, Curve)]) -> Result<(), Box<dyn std::error::Error>> {
    let points = || curves.iter().flat_map(|(_, curve)| curve);
    let seconds = points().map(|point| point.0).fold(1.0, f64::max);
    let most = points().map(|point| point.1).fold(10.0, f64::max);
    let canvas = SVGBackend::new(out, SIZE).into_drawing_area();
    canvas.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&canvas)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(0.0..seconds, (100.0..2.0 * most).log_scale())?;
    let rate = |rate: &f64| match *rate {
        rate if rate >= 1e6 => format!("{} M", rate / 1e6),
        rate if rate >= 1e3 => format!("{} k", rate / 1e3),
        rate => rate.to_string(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_desc("seconds")
        .y_desc("transactions in a second")
        .y_label_formatter(&rate)
        .label_style(("sans-serif", 16))
        .draw()?;
    for ((system, curve), color) in curves.iter().zip(PALETTE.into_iter().cycle()) {
        // A second without a commit is at the lower edge.
        let curve = curve.iter().map(|(second, rate)| (*second, rate.max(100.0)));
        chart
            .draw_series(LineSeries::new(curve, color.stroke_width(2)))?
            .label(system)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font(("sans-serif", 16))
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    canvas.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_means_of_one_run() {
        let rows =
            "b,1,0,1,0,100,1\nb,1,0,1,0,300,2\na,1,0,1,0,7,1\nb,1,0,1,1,50,1\nb,3,0,1,0,9,1\n";
        let found = curves(&format!("{HEADER}\n{rows}"), ["1", "0", "1"]).unwrap();
        let b = ("b".to_owned(), vec![(0.0, 200.0), (1.0, 50.0)]);
        assert_eq!(found, [b, ("a".to_owned(), vec![(0.0, 7.0)])]);
        assert_eq!(curves(&format!("{HEADER}\n{rows}"), ["8", "0", "1"]), None);
        assert_eq!(curves(rows, ["1", "0", "1"]), None, "no header");
    }

    #[test]
    fn picture_names_each_system() {
        let out = tempfile::NamedTempFile::new().unwrap();
        let curve = |rate| vec![(0.0, rate), (1.0, 0.0)];
        draw(out.path(), &[("lastword".into(), curve(2e5)), ("lmdb".into(), curve(1e5))]).unwrap();
        let text = std::fs::read_to_string(out.path()).unwrap();
        assert!(["lastword", "lmdb", "seconds", "100 k"].iter().all(|part| text.contains(part)));
    }
}
