//! Legend of a chart: the names of the curves in lines below the plot, where they cover no curve.

use plotters::style::text_anchor::{HPos, VPos};

use super::{Canvas, Drawn, Look, text, width};
use crate::results::Series;

/// Length of the line before a name.
const SAMPLE: i32 = 76;
const GAP: i32 = 40;
const MARGIN: i32 = 24;
const LINE: i32 = 48;

/// Names and their positions.
pub(super) struct Legend {
    entries: Vec<(String, i32, i32)>,
    lines: i32,
}

impl Legend {
    /// Arranges names in columns of equal width and in lines of nearly equal length.
    pub(super) fn of(names: &[String], within: i32) -> Legend {
        let widest = names.iter().map(|name| SAMPLE + width(name) + GAP).max().unwrap_or(GAP);
        let count = i32::try_from(names.len()).unwrap_or(i32::MAX);
        let fit = ((within - 2 * MARGIN + GAP) / widest).max(1);
        let lines = count.div_euclid(fit) + i32::from(count % fit > 0);
        let columns = (count + lines - 1) / lines.max(1);
        let place = |at: i32| (MARGIN + at % columns * widest, at / columns);
        let entries = names
            .iter()
            .zip(0..)
            .map(|(name, at)| {
                let (x, line) = place(at);
                (name.clone(), x, line)
            })
            .collect();
        Legend { entries, lines }
    }

    pub(super) fn height(&self) -> i32 {
        self.lines * LINE
    }

    pub(super) fn draw(&self, canvas: &Canvas, top: i32, looks: &[Look]) -> Drawn {
        for ((name, x, line), look) in self.entries.iter().zip(looks) {
            let y = top + line * LINE + LINE / 2;
            look.line(canvas, vec![(*x, y), (x + SAMPLE - 16, y)])?;
            look.mark(canvas, (x + (SAMPLE - 16) / 2, y))?;
            text(canvas, name, (x + SAMPLE, y), HPos::Left, VPos::Center)?;
        }
        Ok(())
    }
}

/// Returns the text of a curve in the legend, with its origin if the paper published it.
pub(crate) fn name(series: &Series) -> String {
    match series.theirs && !series.name.to_lowercase().contains("paper") {
        true => format!("{}, paper", series.name),
        false => series.name.clone(),
    }
}

/// Returns which of our names a published name contains: the longest, so that `dude-sync` does not
/// match `dude`.
pub(super) fn same(theirs: &str, ours: &[&str]) -> Option<usize> {
    let theirs = theirs.to_lowercase();
    let is_in = |name: &str| !name.is_empty() && theirs.contains(&name.to_lowercase());
    (0..ours.len()).filter(|place| is_in(ours[*place])).max_by_key(|place| ours[*place].len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_picture() {
        let names: Vec<_> = (0..20).map(|n| "x".repeat(2 * n)).collect();
        let legend = Legend::of(&names, 1200);
        assert!(legend.lines > 1);
        for (name, x, line) in &legend.entries {
            assert!(x + SAMPLE + width(name) <= 1200 && *line < legend.lines);
        }
        assert_eq!(Legend::of(&[], 1200).height(), 0);
    }

    #[test]
    fn published_curve_matches_the_longest_name() {
        assert_eq!(same("DUDE-Sync (paper)", &["dude", "dude-sync", ""]), Some(1));
        assert_eq!(same("Mnemosyne", &["dude"]), None);
    }
}
