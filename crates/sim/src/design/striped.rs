//! Lines of a log, neighbours in different banks.

use crate::machine::description::Description;

/// A region of persistent memory whose lines, in their order, lie in one row after the other: what
/// is written in order is written by many banks at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Striped {
    first: u32,
    /// Lines of a row, and rows.
    row: u32,
    rows: u32,
}

impl Striped {
    /// A region of so many lines, or a few more, from `first` on.
    pub(super) fn new(description: &Description, first: u32, lines: u32) -> Striped {
        let row = description.nvm.row_bytes / 64;
        Striped { first, row, rows: lines.div_ceil(row) }
    }

    /// Its lines.
    pub(super) fn lines(&self) -> u32 {
        self.row * self.rows
    }

    /// The line behind it.
    pub(super) fn end(&self) -> u32 {
        self.first + self.lines()
    }

    /// The line of this number; the first one follows the last one.
    pub(super) fn line(&self, number: u64) -> u32 {
        let at = (number % u64::from(self.lines())) as u32;
        self.first + at % self.rows * self.row + at / self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_region_has_one_number_and_neighbours_lie_in_different_rows() {
        let description = Description::builtin("ssp").unwrap();
        let region = Striped::new(&description, 640, 100);
        assert_eq!((region.lines(), region.end()), (128, 768));
        let mut lines: Vec<u32> = (0..128).map(|number| region.line(number)).collect();
        assert!(lines.windows(2).all(|pair| pair[0] / 32 != pair[1] / 32));
        lines.sort_unstable();
        assert_eq!(lines, (640..768).collect::<Vec<u32>>());
        assert_eq!(region.line(130), region.line(2));
    }
}
