//! A log region whose neighbouring lines lie in different banks.

use crate::machine::description::Description;

/// A region of persistent memory that interleaves its lines over the banks. Many banks write a
/// sequential log in parallel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Striped {
    first: u32,
    /// Neighbouring lines within one bank, and the number of such runs.
    run: u32,
    runs: u32,
}

impl Striped {
    /// Returns a region of at least `lines` lines that begins at `first`.
    pub(super) fn new(description: &Description, first: u32, lines: u32) -> Striped {
        let run = description.nvm.interleave_bytes / 64;
        Striped { first, run, runs: lines.div_ceil(run) }
    }

    /// The number of lines of the region.
    pub(super) fn lines(&self) -> u32 {
        self.run * self.runs
    }

    /// The line after the region.
    pub(super) fn end(&self) -> u32 {
        self.first + self.lines()
    }

    /// Returns the line of this number. Numbers wrap at the end of the region.
    pub(super) fn line(&self, number: u64) -> u32 {
        let at = (number % u64::from(self.lines())) as u32;
        self.first + at % self.runs * self.run + at / self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_interleaves_lines_over_banks() {
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
