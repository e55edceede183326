//! `lastword pool dump`: the collections with their entries, and every live object, one a line.
//!
//! ```text
//!   collection "stock": HashMap<str, u64>, 1 entry
//!     "apple": 100
//!   pointer             kind    bytes  taken        first words
//!   0x5ab1000000010050  object     16     32  root  0x2a 0x5ab1000000010070 ...
//! ```
//!
//! [`entries`] prints the collections.
//!
//! `taken` is the object's size with its header: the slot of its size class, or a block's share of
//! its array. The whole heap is checked before anything is printed. Then lines are printed as the
//! scan finds objects, and a closed pipe ends the scan. With `--salvage` a damaged pool is printed,
//! too, without the objects on damaged pages.

mod entries;

use std::io::{self, Write};

use lastword::{HeapAtRest, Kind, Live, Severity};
use serde::Serialize;

use crate::args::{DumpFormat, PoolDump};
use crate::failure::{Failure, Verdict, is_damage};
use crate::output;
use crate::report::{complain, json, table};

/// Dumps the pool.
///
/// # Errors
/// As for `pool check`.
pub(crate) fn run(arguments: &PoolDump) -> Result<Verdict, Failure> {
    if arguments.salvage {
        return salvage(arguments);
    }
    let snapshot = match HeapAtRest::load(&arguments.path) {
        Ok(snapshot) => snapshot,
        Err(error) if is_damage(&error) => return damaged(arguments, &error),
        Err(error) => return Err(error.into()),
    };
    let damage = entries::Dump::new(&snapshot, arguments)?.stream(arguments)?;
    complain(&damage);
    Ok(Verdict::of(damage.is_empty()))
}

/// Prints the objects that lie on no damaged page, and complains about the damage.
fn salvage(arguments: &PoolDump) -> Result<Verdict, Failure> {
    let (snapshot, report) = HeapAtRest::salvage(&arguments.path)?;
    let more = entries::Dump::new(&snapshot, arguments)?.stream(arguments)?;
    let damage = report.findings.iter().filter(|one| one.severity() > Severity::Harmless);
    let damage: Vec<_> = damage.map(ToString::to_string).chain(more).collect();
    complain(&damage);
    Ok(Verdict::of(report.is_sound() && damage.is_empty()))
}

/// Prints the damage in place of objects.
fn damaged(arguments: &PoolDump, error: &lastword::Error) -> Result<Verdict, Failure> {
    let path = arguments.path.display().to_string();
    let damaged = Damaged { path, sound: false, damage: error.to_string() };
    output::print(&match arguments.format {
        DumpFormat::Jsonl => json::line(&damaged),
        DumpFormat::Table => table::pairs(&[("sound", "no".into()), ("damage", damaged.damage)]),
    })?;
    complain(&[error.to_string()]);
    Ok(Verdict::Failed)
}

/// The line printed for a damaged pool.
#[derive(Debug, Serialize)]
struct Damaged {
    path: String,
    sound: bool,
    damage: String,
}

/// Prints the objects.
fn print(snapshot: &HeapAtRest, arguments: &PoolDump, out: &mut impl Write) -> io::Result<()> {
    let root = snapshot.root();
    if arguments.format == DumpFormat::Table {
        let (pointer, kind, bytes, taken) = ("pointer", "kind", "bytes", "taken");
        writeln!(out, "{pointer:<18}  {kind:<6} {bytes:>5} {taken:>6}        first words")?;
    }
    for live in snapshot.objects().filter(|live| snapshot.is_whole(live)) {
        let shown = arguments.words.unwrap_or(if arguments.salvage { usize::MAX } else { 4 });
        let line = Line::new(snapshot, &live, root, shown);
        match arguments.format {
            DumpFormat::Jsonl => writeln!(out, "{}", json::line(&line))?,
            DumpFormat::Table => line.write(out)?,
        }
    }
    Ok(())
}

/// One object.
#[derive(Debug, Serialize)]
struct Line {
    /// In hexadecimal digits.
    pointer: String,
    /// `object`, or `block` of an array.
    kind: &'static str,
    /// Requested size.
    bytes: u64,
    /// Size with header.
    taken_bytes: u64,
    /// The object is the program's root.
    root: bool,
    /// The first words, in hexadecimal digits.
    words: Vec<String>,
    /// Number of words not printed.
    more_words: u64,
}

impl Line {
    fn new(snapshot: &HeapAtRest, live: &Live, root: u64, shown: usize) -> Line {
        let words: Vec<String> =
            snapshot.words(live).take(shown).map(|word| format!("{word:#x}")).collect();
        Line {
            pointer: format!("{:#018x}", live.object),
            kind: match live.kind {
                Kind::Block => "block",
                Kind::SlotString | Kind::RunString => "string",
                _ => "object",
            },
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
