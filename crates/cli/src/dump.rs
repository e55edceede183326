//! `lastword pool dump`: every live object, a line each.
//!
//! ```text
//!   pointer             kind    bytes  taken        first words
//!   0x5ab1000000010050  object     16     32  root  0x2a 0x5ab1000000010070 ...
//! ```
//!
//! `taken` is what the object takes with its header: the slot of its size class, or a block's share
//! of its array. Nothing is printed before the whole heap was found sound; then lines are printed
//! as they are found, and a reader that goes away ends it.

use std::io::{self, BufWriter, Write};

use lastword::{HeapAtRest, Kind, Live};
use serde::Serialize;

use crate::args::{Format, PoolDump};
use crate::failure::{Failure, Verdict};
use crate::report::{json, printed};

/// Runs it.
///
/// # Errors
/// As `pool check`.
pub(crate) fn run(arguments: &PoolDump) -> Result<Verdict, Failure> {
    let PoolDump { path, output, .. } = arguments;
    let snapshot = match crate::pool::sound(path, output, |path| HeapAtRest::load(path))? {
        Some(snapshot) => snapshot,
        None => return Ok(Verdict::Failed),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let result = print(&snapshot, arguments, &mut out).and_then(|()| out.flush());
    let _ = out.into_parts(); // what a reader that went away has left in it goes nowhere
    printed(result)?;
    Ok(Verdict::Held)
}

fn print(snapshot: &HeapAtRest, arguments: &PoolDump, out: &mut impl Write) -> io::Result<()> {
    let root = snapshot.root();
    for live in snapshot.objects() {
        let line = Line::new(snapshot, &live, root, arguments.words);
        match arguments.output.format {
            Format::Json => writeln!(out, "{}", json::line(&line))?,
            Format::Table => line.write(out)?,
        }
    }
    Ok(())
}

/// One object.
#[derive(Debug, Serialize)]
struct Line {
    /// In hexadecimal digits, as the program has it.
    pointer: String,
    /// `object`, or `block` of an array.
    kind: &'static str,
    /// Bytes that were asked for.
    bytes: u64,
    /// Bytes that it takes, header included.
    taken_bytes: u64,
    /// Whether it is the program's root.
    root: bool,
    /// The first words, in hexadecimal digits.
    words: Vec<String>,
    /// Words that are not shown.
    more_words: u64,
}

impl Line {
    fn new(snapshot: &HeapAtRest, live: &Live, root: u64, shown: usize) -> Line {
        let words: Vec<String> =
            snapshot.words(live).take(shown).map(|word| format!("{word:#x}")).collect();
        Line {
            pointer: format!("{:#018x}", live.object),
            kind: if live.kind == Kind::Block { "block" } else { "object" },
            bytes: live.bytes,
            taken_bytes: live.taken_bytes,
            root: live.object == root,
            more_words: live.bytes.div_ceil(8) - words.len() as u64,
            words,
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Line { pointer, kind, bytes, taken_bytes, words, .. } = self;
        let root = if self.root { "root" } else { "" };
        write!(out, "{pointer}  {kind:<6} {bytes:>5} {taken_bytes:>6}  {root:<4}")?;
        words.iter().try_for_each(|word| write!(out, " {word}"))?;
        writeln!(out, "{}", if self.more_words > 0 { " ..." } else { "" })
    }
}
