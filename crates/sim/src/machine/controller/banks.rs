//! The banks of a channel: the open row and the busy time of each.

use super::{Line, Timing};
use crate::machine::when::Time;

/// The bank and row of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) bank: usize,
    pub(super) row: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    free: Time,
    open: Option<u64>,
}

/// All banks of a channel.
#[derive(Clone, Debug)]
pub(super) struct Banks {
    banks: Vec<Bank>,
    row_lines: u64,
    interleave_lines: u64,
}

impl Banks {
    /// Returns idle banks without an open row.
    ///
    /// # Panics
    /// Without a bank, or when the interleaving exceeds a row.
    pub(super) fn new(timing: &Timing) -> Banks {
        let Timing { banks, row_lines, interleave_lines, .. } = *timing;
        let is_part = (1..=row_lines).contains(&interleave_lines);
        assert!(banks > 0 && is_part, "at least one bank, and an interleaving within one row");
        Banks { banks: vec![Bank::default(); banks as usize], row_lines, interleave_lines }
    }

    /// Returns the place of a line. This takes four divisions, so each request computes it once and
    /// not at every decision.
    pub(super) fn place(&self, line: Line) -> Place {
        let (round, interleave) = (self.banks.len() as u64, self.interleave_lines);
        let part = line / interleave;
        let (bank, row) = (part % round, part / round / (self.row_lines / interleave));
        Place { bank: bank as usize, row }
    }

    /// Returns when the bank of a place becomes free.
    #[inline]
    pub(super) fn free(&self, place: Place) -> Time {
        self.banks[place.bank].free
    }

    /// Returns whether the row of a place is open.
    #[inline]
    pub(super) fn is_open(&self, place: Place) -> bool {
        self.banks[place.bank].open == Some(place.row)
    }

    /// Opens the row of a place and keeps its bank busy until `until`.
    #[inline]
    pub(super) fn take(&mut self, place: Place, until: Time) {
        self.banks[place.bank] = Bank { free: until, open: Some(place.row) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TIMING;
    use super::*;

    #[test]
    fn interleaved_lines_share_rows_across_banks() {
        let lines = Banks::new(&Timing { interleave_lines: 1, ..TIMING });
        let rows = Banks::new(&TIMING);
        for line in 0..256 {
            let row = line / 128;
            assert_eq!(lines.place(line), Place { bank: line as usize % 8, row }, "{line}");
            assert_eq!(rows.place(line), Place { bank: line as usize / 16 % 8, row }, "{line}");
        }
    }
}
