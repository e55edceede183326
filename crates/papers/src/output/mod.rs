//! Results as people and programs read them: a table for a terminal, a page, charts, CSV and JSON.

mod chart;
mod csv;
mod file;
mod html_page;
pub(crate) mod number;
mod scale;
mod section;
mod standing;
pub(crate) mod table;

use std::path::Path;

use crate::error::Error;
use crate::results::Results;

/// Writes the page, the charts and the tables to a directory.
///
/// # Errors
/// A file cannot be written; it then keeps its earlier content.
pub(crate) fn write(results: &Results, directory: &Path) -> Result<(), Error> {
    let name = &results.paper;
    let put = |file: String, text: String| file::put(directory, &file, &text);
    put(format!("{name}.json"), results.json() + "\n")?;
    put(format!("{name}.csv"), csv::rows(results))?;
    put(format!("{name}.html"), html_page::html(results))?;
    for figure in &results.figures {
        put(format!("{name}-{}.svg", figure.name), chart::svg(figure))?;
        put(format!("{name}-{}.csv", figure.name), csv::figure(figure))?;
    }
    Ok(())
}
