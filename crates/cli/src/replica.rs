//! `lastword replica`: the stream of a replicated pool, and its followers.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lastword::Options;
use replica::{End, Follower, Lag, Link, LogStream};
use serde::Serialize;

use crate::args::{
    Format, ReplicaCommand, ReplicaCreate, ReplicaFollow, ReplicaPromote, ReplicaStatus, StreamUrl,
};
use crate::failure::{Failure, Verdict};
use crate::output;
use crate::report::{json, print, table};

/// Runs the command and prints its report.
///
/// # Errors
/// The stream or the pool cannot be used.
pub(crate) fn run(command: &ReplicaCommand) -> Result<Verdict, Failure> {
    match command {
        ReplicaCommand::Create(arguments) => create(arguments),
        ReplicaCommand::Status(arguments) => status(arguments),
        ReplicaCommand::Follow(arguments) => follow(arguments),
        ReplicaCommand::Promote(arguments) => promote(arguments),
    }
}

fn create(arguments: &ReplicaCreate) -> Result<Verdict, Failure> {
    let stream = replica::stream::create(&arguments.url).map_err(replica::Error::from)?;
    output::print("the stream is created, and empty")?;
    for warning in stream.warnings().map_err(replica::Error::from)? {
        output::print(&format!("warning: {warning}"))?;
    }
    Ok(Verdict::Held)
}

/// Opens the stream of a command.
pub(crate) fn link(url: &StreamUrl) -> Result<Link, Failure> {
    let stream: Arc<dyn LogStream> =
        Arc::from(replica::stream::open(&url.stream).map_err(replica::Error::from)?);
    Ok(Link::shared(stream).patience(Duration::from_secs_f64(url.patience)))
}

/// The end of a stream.
#[derive(Debug, Serialize)]
struct Description {
    stream: String,
    messages: u64,
    first: u64,
    last: u64,
    term: Option<u64>,
    primary: Option<String>,
    generation: Option<u64>,
    replicated: Option<u64>,
    last_message_age_seconds: Option<f64>,
    warnings: Vec<String>,
}

fn status(arguments: &ReplicaStatus) -> Result<Verdict, Failure> {
    let link = link(&arguments.stream)?;
    let stream = &**link.stream();
    let (first, last) = stream.bounds().map_err(replica::Error::from)?;
    let warnings = stream.warnings().map_err(replica::Error::from)?;
    let end = End::of(stream)?;
    let age = |end: End| SystemTime::now().duration_since(end.sent).unwrap_or_default();
    let described = Description {
        stream: arguments.stream.stream.clone(),
        messages: (last + 1).saturating_sub(first),
        first,
        last,
        term: end.map(|end| end.term.number),
        primary: end.map(|end| format!("{:#018x}", end.term.writer.pool)),
        generation: end.map(|end| end.term.writer.generation),
        replicated: end.map(|end| end.complete.0),
        last_message_age_seconds: end.map(|end| age(end).as_secs_f64()),
        warnings,
    };
    match arguments.output.format {
        Format::Json => print(&json::object(&described))?,
        Format::Table => {
            print(&table::pairs(&described.rows()))?;
            for warning in &described.warnings {
                print(&format!("warning: {warning}"))?;
            }
        }
    }
    Ok(Verdict::Held)
}

impl Description {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("stream", self.stream.clone()),
            ("messages", format!("{} ({} to {})", self.messages, self.first, self.last)),
        ];
        let (Some(term), Some(primary)) = (self.term, &self.primary) else {
            rows.push(("primary", "none yet".into()));
            return rows;
        };
        let text = |number: Option<u64>| number.unwrap_or_default().to_string();
        rows.push(("term", term.to_string()));
        rows.push(("primary", format!("pool {primary}, opening {}", text(self.generation))));
        rows.push(("last transaction", text(self.replicated)));
        let age = self.last_message_age_seconds.unwrap_or_default();
        rows.push(("last message", format!("{age:.1} s ago")));
        rows
    }
}

/// Opens a follower with the pool's own layout.
fn open(pool: &Path, link: &Link) -> Result<Follower, Failure> {
    let info = lastword::inspect(pool)?;
    let (layout, version) = &info.layout;
    Ok(Follower::open(pool, Options::new().layout(layout, *version).max_bytes(u64::MAX), link)?)
}

fn follow(arguments: &ReplicaFollow) -> Result<Verdict, Failure> {
    let link = link(&arguments.stream)?;
    let follower = open(&arguments.pool, &link)?;
    if arguments.once {
        let last = follower.catch_up(link.waits())?;
        follower.close()?;
        let pool = arguments.pool.display();
        output::print(&format!("{pool} has the stream's transactions up to {last}"))?;
        return Ok(Verdict::Held);
    }
    let mut shown = String::new();
    loop {
        follower.check()?;
        let status = follower.status();
        let lag = match follower.lag() {
            Ok(Lag { ids, bytes, time, .. }) => {
                format!("{ids} transactions, {bytes} bytes, {} ms behind", time.as_millis())
            }
            Err(error) => format!("lag unknown: {error}"),
        };
        let term = status.term.map_or(0, |term| term.number);
        let line = format!("term {term}, transaction {}: {lag}", status.applied);
        if line != shown {
            output::print(&line)?;
            shown = line;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn promote(arguments: &ReplicaPromote) -> Result<Verdict, Failure> {
    let link = link(&arguments.stream)?;
    let primary = open(&arguments.pool, &link)?.promote()?;
    let status = primary.status();
    primary.close()?;
    let (pool, term, last) = (arguments.pool.display(), status.term.number, status.replicated);
    output::print(&format!(
        "{pool} is the primary of term {term}, after transaction {last}: open it with \
         `replica::Primary`"
    ))?;
    Ok(Verdict::Held)
}
