//! `lastword pool scrub`: compares every page of a closed pool's heap with its checksum.

use lastword::Scrub;
use serde::Serialize;

use crate::args::{Format, PoolScrub};
use crate::failure::{Failure, Verdict};
use crate::report::{complain, json, print, table};

/// Compares the pages and prints the result.
///
/// # Errors
/// The pool cannot be read, or is damaged elsewhere.
pub(crate) fn run(arguments: &PoolScrub) -> Result<Verdict, Failure> {
    let PoolScrub { path, output } = arguments;
    let Scrub { pages, compared, lost_checksums, damaged, .. } = lastword::scrub(path)?;
    let path = path.display().to_string();
    let sound = damaged.is_empty() && lost_checksums == 0;
    let found = Found { path, sound, pages, compared, lost_checksums, damaged };
    print(&match output.format {
        Format::Json => json::object(&found),
        Format::Table => found.text(),
    })?;
    let complaint = |at: &u64| format!("{}: the page at byte {at} is damaged", found.path);
    let mut complaints: Vec<String> = found.damaged.iter().map(complaint).collect();
    if lost_checksums > 0 {
        complaints
            .push(format!("{}: the checksums of {lost_checksums} pages are damaged", found.path));
    }
    complain(&complaints);
    Ok(Verdict::of(found.sound))
}

/// The result of a scrub.
#[derive(Debug, Serialize)]
struct Found {
    path: String,
    /// No page differs from its checksum, and no checksum is damaged.
    sound: bool,
    /// Pages of the heap.
    pages: usize,
    /// Pages that have a checksum.
    compared: usize,
    /// Pages whose checksums are damaged.
    lost_checksums: usize,
    /// Offsets of the damaged pages in the file.
    damaged: Vec<u64>,
}

impl Found {
    /// Formats the table. The first line is the verdict.
    fn text(&self) -> String {
        let verdict = match (self.damaged.len(), self.compared) {
            (0, _) if self.lost_checksums > 0 => "has damaged checksums".into(),
            (0, 0) => "has no checksums to compare".into(),
            (0, _) => "has no damaged page".into(),
            (1, _) => "has 1 damaged page".into(),
            (count, _) => format!("has {} damaged pages", table::grouped(count as u64)),
        };
        let mut rows = vec![
            ("pages", table::grouped(self.pages as u64)),
            ("compared", table::grouped(self.compared as u64)),
            ("damaged checksums", table::grouped(self.lost_checksums as u64)),
            ("without a checksum", table::grouped((self.pages - self.compared) as u64)),
        ];
        let place = |at: &u64| ("damaged page", format!("at byte {at}"));
        rows.extend(self.damaged.iter().map(place));
        format!("{} {verdict}\n\n{}", self.path, table::pairs(&rows))
    }
}
