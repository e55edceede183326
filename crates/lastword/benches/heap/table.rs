//! Tables of results, as text or as JSON Lines.

use crate::arguments::Arguments;

/// A cell of a table.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Count(u64),
    /// A number and its decimals.
    Number(f64, usize),
    Share(f64),
    None,
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Count(number) => grouped(*number),
            Cell::Number(number, decimals) => format!("{number:.decimals$}"),
            Cell::Share(share) => format!("{:.1} %", 100.0 * share),
            Cell::None => "-".into(),
        }
    }

    fn json(&self) -> String {
        match self {
            Cell::Count(number) => number.to_string(),
            Cell::Number(number, _) | Cell::Share(number) if number.is_finite() => {
                number.to_string()
            }
            Cell::Number(..) | Cell::Share(_) | Cell::None => "null".into(),
        }
    }
}

/// Rows of cells, each with a name.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// Name of the group in JSON.
    pub(crate) group: &'static str,
    /// The columns after the row's name.
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<(String, Vec<Cell>)>,
}

impl Table {
    pub(crate) fn new(group: &'static str, title: String, columns: &[&'static str]) -> Table {
        Table { title, group, columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, name: impl Into<String>, cells: Vec<Cell>) {
        self.rows.push((name.into(), cells));
    }

    pub(crate) fn print(&self, arguments: &Arguments) {
        if arguments.json {
            self.rows.iter().for_each(|(name, cells)| {
                let cells = self.columns.iter().zip(cells);
                let cells: String =
                    cells.map(|(column, cell)| format!(",\"{column}\":{}", cell.json())).collect();
                let (design, group) = (&arguments.design, self.group);
                println!(
                    "{{\"group\":\"{group}\",\"design\":\"{design}\",\"row\":\"{name}\"{cells}}}"
                );
            });
        } else {
            println!("{}\n{}", self.title, self.text());
        }
    }

    /// Returns the table's text: names to the left, cells to the right.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![vec![String::new()]];
        lines[0].extend(self.columns.iter().map(|column| (*column).to_owned()));
        for (name, cells) in &self.rows {
            let mut line = vec![name.clone()];
            line.extend(cells.iter().map(Cell::text));
            lines.push(line);
        }
        let widths: Vec<usize> = (0..lines[0].len())
            .map(|at| lines.iter().filter_map(|line| line.get(at)).map(String::len).max())
            .map(|width| width.unwrap_or(0))
            .collect();
        let mut text = String::new();
        for line in &lines {
            for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let cell =
                    if at == 0 { format!("  {cell:<width$}") } else { format!("  {cell:>width$}") };
                text.push_str(&cell);
            }
            text.push('\n');
        }
        text
    }
}

/// Formats a number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
