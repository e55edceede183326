//! Lines of a log, neighbours in different banks.

use crate::machine::description::Description;

/// A region of persistent memory whose lines, in their order, lie in one bank after the other: what
/// is written in order is written by many banks at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Striped {
    first: u32,
    /// Neighbouring lines of one bank, and how often there are as many.
    run: u32,
    runs: u32,
}

impl Striped {
    /// A region of so many lines, or a few more, from `first` on.
    pub(super) fn new(description: &Description, first: u32, lines: u32) -> Striped {
        let run = description.nvm.interleave_bytes / 64;
        Striped { first, run, runs: lines.div_ceil(run) }
    }

    /// Its lines.
    pub(super) fn lines(&self) -> u32 {
        self.run * self.runs
    }

    /// The line behind it.
    pub(super) fn end(&self) -> u32 {
        self.first + self.lines()
    }

    /// The line of this number; the first one follows the last one.
    pub(super) fn line(&self, number: u64) -> u32 {
        let at = (number % u64::from(self.lines())) as u32;
        self.first + at % self.runs * self.run + at / self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_region_has_one_number_and_neighbours_lie_in_different_banks() {
        for (run, end) in [(32, 768), (1, 740)] {
            let mut description = Description::builtin("ssp").unwrap();
            description.nvm.interleave_bytes = run * 64;
            let region = Striped::new(&description, 640, 100);
            assert_eq!((region.lines(), region.end()), (end - 640, end));
            let numbers = 0..u64::from(region.lines());
            let mut lines: Vec<u32> = numbers.map(|number| region.line(number)).collect();
            assert!(lines.windows(2).all(|pair| pair[0] / run != pair[1] / run));
            lines.sort_unstable();
            assert_eq!(lines, (640..end).collect::<Vec<u32>>());
            assert_eq!(region.line(u64::from(region.lines()) + 2), region.line(2));
        }
    }
}
