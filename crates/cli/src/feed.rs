//! `lastword feed`: the transactions of a stream as lines of JSON.

use std::io::Write;
use std::time::Duration;

use lastword::TxId;
use lastword::replication::Group;
use replica::{End, Groups};
use serde::Serialize;

use crate::args::Feed;
use crate::failure::{Failure, Verdict};
use crate::output;

/// The longest wait for a group, between two looks at the end of the stream.
const LOOK: Duration = Duration::from_millis(200);

/// A transaction.
#[derive(Serialize)]
struct Line {
    id: u64,
    writes: Vec<Run>,
}

/// Neighbouring words that a transaction writes.
#[derive(Serialize)]
struct Run {
    /// The position of the first word in the heap, in bytes.
    at: u64,
    /// In hexadecimal: JSON numbers of many programs are exact to 53 bits only.
    words: Vec<String>,
}

/// Prints the transactions.
///
/// # Errors
/// The stream cannot be read, or a message of it is damaged.
pub(crate) fn run(arguments: &Feed) -> Result<Verdict, Failure> {
    let link = crate::replica::link(&arguments.stream)?;
    let stream = link.stream();
    let Some(end) = End::of(&**stream)? else {
        return Err(replica::Error::Empty.into());
    };
    let after = arguments.after.map(TxId);
    let mut groups = match after {
        Some(after) => Groups::after(stream, after)?,
        None => Groups::oldest(stream)?,
    };
    while arguments.follow || groups.position() < end.position {
        match groups.next(LOOK) {
            Ok(Some(group)) => print(&group, after.unwrap_or_default())?,
            Ok(None) => {}
            Err(replica::Error::Stream(error)) if arguments.follow && error.is_transient() => {
                std::thread::sleep(LOOK);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Verdict::Held)
}

fn print(group: &Group, after: TxId) -> Result<(), Failure> {
    group.check().map_err(lastword::Error::from)?;
    output::stream(|out| {
        for (runs, id) in group.transactions().zip(group.first.0..) {
            if id <= after.0 {
                continue;
            }
            let writes = runs.iter().map(|(index, words)| Run {
                at: 8 * index,
                words: words.iter().map(|word| format!("{word:#x}")).collect(),
            });
            let writes = writes.collect();
            let line = Line { id, writes };
            writeln!(out, "{}", serde_json::to_string(&line)?)?;
        }
        Ok(())
    })
}
