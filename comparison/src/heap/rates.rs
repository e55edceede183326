//! `--rates`: transactions by the second, as CSV for a graph.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::Setup;
use super::store::System;
use crate::failure::Failure;

/// The columns.
pub(crate) const HEADER: &str = "system,gib,zipf,workers,second,transactions,round";

/// A CSV file that grows by the rows of each run.
#[derive(Debug)]
pub(crate) struct Rates<W: Write> {
    out: W,
}

/// The CSV on a disk.
pub(crate) type RatesFile = Rates<BufWriter<File>>;

impl RatesFile {
    /// Makes the file, or empties it.
    pub(crate) fn create(path: &Path) -> Result<RatesFile, Failure> {
        let file = File::create(path).map_err(Failure::io("creating the file of --rates"))?;
        Rates::new(BufWriter::new(file))
    }
}

impl<W: Write> Rates<W> {
    fn new(mut out: W) -> Result<Rates<W>, Failure> {
        let written = writeln!(out, "{HEADER}");
        written.map_err(Failure::io("writing the file of --rates"))?;
        Ok(Rates { out })
    }

    /// Writes a row for each whole second of a run. Second 0 is the first.
    pub(crate) fn add(
        &mut self,
        system: System,
        setup: &Setup,
        by_second: &[u64],
    ) -> Result<(), Failure> {
        let Setup { gib, zipf, workers, round, .. } = setup;
        let mut rows = by_second.iter().enumerate();
        let write = |(second, transactions): (usize, &u64)| {
            let name = system.name();
            writeln!(self.out, "{name},{gib},{zipf},{workers},{second},{transactions},{round}")
        };
        // Flushed after each run, so that a failure of a later one loses none.
        let written = rows.try_for_each(write).and_then(|()| self.out.flush());
        written.map_err(Failure::io("writing the file of --rates"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_run_and_second() {
        let setup = Setup { gib: 0.25, zipf: 0.99, workers: 2, round: 1, ..Setup::for_tests() };
        let mut rates = Rates::new(Vec::new()).unwrap();
        rates.add(System::Rocksdb, &setup, &[7, 5]).unwrap();
        let text = String::from_utf8(rates.out).unwrap();
        let rows = "rocksdb,0.25,0.99,2,0,7,1\nrocksdb,0.25,0.99,2,1,5,1\n";
        assert_eq!(text, format!("{HEADER}\n{rows}"));
    }
}
