//! The entries of collections with names.
//!
//! ```text
//!   collection "stock": HashMap<str, u64>, 3 entries
//!     "apple": 100
//!     ... and 2 more
//! ```
//!
//! Entries are indented, and names and text are escaped, so no content looks like another line. In
//! JSON Lines a collection is a line with its `name`, kind, types and size. Each entry is a line
//! with `collection`, with `key` or `index`, and with `value`.

use std::io::{self, Write};
use std::ops::ControlFlow;

use lastword::collections::encoded::Decoded;
use lastword::{CollectionAtRest, HeapAtRest};
use serde::Serialize;

use crate::args::{DumpFormat, PoolDump};
use crate::failure::Failure;
use crate::output;
use crate::report::{Collection, Json, json, table};

/// A dump of a pool in memory.
pub(super) struct Dump<'h> {
    heap: &'h HeapAtRest,
    /// The collections to print.
    collections: Vec<CollectionAtRest<'h>>,
    /// Damage of the catalog and of collections, for standard error.
    damage: Vec<String>,
}

/// The line of an entry.
#[derive(Serialize)]
struct Entry<'c, 'd> {
    collection: &'c str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Json<'d>>,
    /// Position in a vector or queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json<'d>>,
}

/// The line of damage that ends the entries.
#[derive(Serialize)]
struct Damaged<'c> {
    collection: &'c str,
    damage: &'c str,
}

impl<'h> Dump<'h> {
    /// Finds the collections to print.
    ///
    /// # Errors
    /// [`Failure::NoCollection`].
    pub(super) fn new(heap: &'h HeapAtRest, arguments: &PoolDump) -> Result<Dump<'h>, Failure> {
        let (mut collections, mut damage) = (Vec::new(), Vec::new());
        match heap.collections() {
            Ok(found) => collections = found.unwrap_or_default(),
            Err(error) => damage.push(format!(
                "{}: the catalog of collections is damaged: {error}",
                arguments.path.display()
            )),
        }
        if let Some(name) = &arguments.collection {
            collections.retain(|collection| collection.info().name == *name);
            if collections.is_empty() && damage.is_empty() {
                let (path, name) = (arguments.path.clone(), name.clone());
                return Err(Failure::NoCollection { path, name });
            }
        }
        Ok(Dump { heap, collections, damage })
    }

    /// Prints the collections, and the objects unless a collection was named. Returns the damage.
    ///
    /// # Errors
    /// A failed write.
    pub(super) fn stream(self, arguments: &PoolDump) -> Result<Vec<String>, Failure> {
        let Dump { heap, collections, mut damage } = self;
        output::stream(|out| {
            for collection in &collections {
                damage.extend(print(collection, arguments, out)?);
            }
            match arguments.collection {
                Some(_) => Ok(()),
                None => super::print(heap, arguments, out),
            }
        })?;
        Ok(damage)
    }
}

/// Prints a collection, and returns its damage.
fn print(
    collection: &CollectionAtRest<'_>,
    arguments: &PoolDump,
    out: &mut impl Write,
) -> io::Result<Option<String>> {
    let shown = Collection::of(collection.info());
    let (name, quoted) = (&*shown.name, shown.quoted_name());
    match arguments.format {
        DumpFormat::Jsonl => {
            writeln!(out, "{}", json::line(&shown))?;
        }
        DumpFormat::Table => writeln!(out, "collection {quoted}: {}", shown.description())?,
    }
    let (mut number, mut written) = (0, Ok(()));
    let done = collection.for_each(|key, value| {
        if arguments.limit.is_some_and(|limit| number >= limit) {
            written = more(&shown, number, arguments, out);
            return ControlFlow::Break(());
        }
        written = match arguments.format {
            DumpFormat::Jsonl => {
                let index = key.is_none().then_some(number);
                let (key, value) = (key.as_ref().map(Json), value.as_ref().map(Json));
                let entry = Entry { collection: name, key, index, value };
                writeln!(out, "{}", json::line(&entry))
            }
            DumpFormat::Table => writeln!(out, "  {}", line(number, key, value)),
        };
        number += 1;
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    written?;
    let ended = done.err().map(|error| error.to_string());
    if let Some(damage) = &ended {
        match arguments.format {
            DumpFormat::Jsonl => {
                writeln!(out, "{}", json::line(&Damaged { collection: name, damage }))?;
            }
            DumpFormat::Table => writeln!(out, "  damaged: {damage}")?,
        }
    }
    let damage = ended.or(shown.damage);
    Ok(damage.map(|damage| {
        let path = arguments.path.display();
        format!("{path}: collection {quoted} is damaged: {damage}")
    }))
}

/// Formats an entry.
fn line(number: u64, key: Option<Decoded<'_>>, value: Option<Decoded<'_>>) -> String {
    match (key, value) {
        (Some(key), Some(value)) => format!("{key}: {value}"),
        (Some(key), None) => key.to_string(),
        (None, Some(value)) => format!("{number}: {value}"),
        (None, None) => number.to_string(),
    }
}

/// Prints the number of entries behind the limit.
fn more(
    shown: &Collection,
    printed: u64,
    arguments: &PoolDump,
    out: &mut impl Write,
) -> io::Result<()> {
    match (arguments.format, shown.length) {
        (DumpFormat::Jsonl, _) => Ok(()),
        (DumpFormat::Table, Some(length)) => {
            writeln!(out, "  ... and {} more", table::grouped(length.saturating_sub(printed)))
        }
        (DumpFormat::Table, None) => writeln!(out, "  ... and more"),
    }
}
