//! The banks of a channel: which rows are open, and until when each bank is busy.

use super::{Line, Timing};
use crate::machine::when::Time;

/// Where the array has a line: its bank, and its row of that bank.
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
    /// Idle ones without an open row.
    ///
    /// # Panics
    /// Without a bank, or when what lies in one bank is no part of a row.
    pub(super) fn new(timing: &Timing) -> Banks {
        let Timing { banks, row_lines, interleave_lines, .. } = *timing;
        let is_part = (1..=row_lines).contains(&interleave_lines);
        assert!(banks > 0 && is_part, "lines go round banks");
        Banks { banks: vec![Bank::default(); banks as usize], row_lines, interleave_lines }
    }

    /// Where a line is. Four divisions: a request is asked once, and not whenever one is chosen.
    pub(super) fn place(&self, line: Line) -> Place {
        let (round, interleave) = (self.banks.len() as u64, self.interleave_lines);
        let part = line / interleave;
        let (bank, row) = (part % round, part / round / (self.row_lines / interleave));
        Place { bank: bank as usize, row }
    }

    /// When the bank of a place is free.
    #[inline]
    pub(super) fn free(&self, place: Place) -> Time {
        self.banks[place.bank].free
    }

    /// Whether the row of a place is open.
    #[inline]
    pub(super) fn is_open(&self, place: Place) -> bool {
        self.banks[place.bank].open == Some(place.row)
    }

    /// A place's row is open from here on, and its bank busy until then.
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
    fn lines_that_go_round_the_banks_find_their_row_open_a_round_later() {
        let lines = Banks::new(&Timing { interleave_lines: 1, ..TIMING });
        let rows = Banks::new(&TIMING);
        for line in 0..256 {
            let row = line / 128;
            assert_eq!(lines.place(line), Place { bank: line as usize % 8, row }, "{line}");
            assert_eq!(rows.place(line), Place { bank: line as usize / 16 % 8, row }, "{line}");
        }
    }
}
