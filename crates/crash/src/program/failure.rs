//! The report of a failure: the cause, the shortened execution, and the line that replays it.

use std::fmt;

use super::Explored;

/// The begin of a program's event inside a step. Those of the machine are less indented.
pub(super) const DETAIL: &str = "    ";

/// Parts of the machine's events about contents after a crash.
const CONTENTS: [&str; 3] = [" was there", " lost", "kept "];

/// The reason for a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// An invariant does not hold after a crash, or at the end.
    Invariant {
        /// Its name.
        name: String,
        /// The error that it returned, or the message of its panic.
        message: String,
    },
    /// A transaction was acknowledged, and a crash has lost it: a bug of the library.
    Lost {
        /// The last transaction that is there.
        found: u64,
        /// The last transaction that was acknowledged.
        acknowledged: u64,
    },
    /// A step of the program, or its start, returned an error.
    Step {
        /// The name of the step.
        name: String,
        /// The error.
        message: String,
    },
    /// A step of the program, or its start, panicked.
    Panic {
        /// The name of the step.
        name: String,
        /// The message of the panic, with its place.
        message: String,
    },
    /// The program ran again with the same choices, and did something else.
    NotDeterministic {
        /// The step that differed.
        name: String,
        /// The difference.
        message: String,
    },
    /// A call of the pool failed: opening it after a crash, a background step, or its check.
    Pool {
        /// The call.
        call: &'static str,
        /// The error.
        message: String,
    },
    /// The program's state was dropped, and the pool has another owner: it cannot be closed.
    Held,
    /// Without a crash, notes of one type were asked for and never shown, and those of another type
    /// were shown and never asked for.
    NeverShown {
        /// The type that was asked for.
        asked: &'static str,
        /// A type that was shown, and never asked for.
        shown: &'static str,
    },
    /// No power failure was possible, so nothing was tested.
    NothingExplored,
}

impl Cause {
    /// Returns whether another cause is of the same kind: shrinking keeps the kind.
    pub(super) fn is_alike(&self, other: &Cause) -> bool {
        match (self, other) {
            (Cause::Invariant { name, .. }, Cause::Invariant { name: other, .. })
            | (Cause::Step { name, .. }, Cause::Step { name: other, .. })
            | (Cause::Panic { name, .. }, Cause::Panic { name: other, .. }) => name == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Invariant { name, message } => {
                write!(f, "the invariant `{name}` does not hold: {message}")
            }
            Cause::Lost { found, acknowledged } => write!(
                f,
                "transaction {acknowledged} was acknowledged, and after the crash {found} is the \
                 last one: a bug of lastword, please report it"
            ),
            Cause::Step { name, message } => write!(f, "`{name}` returned an error: {message}"),
            Cause::Panic { name, message } => write!(f, "`{name}` panicked: {message}"),
            Cause::NotDeterministic { name, message } => write!(
                f,
                "the program is not deterministic: `{name}` ran again and {message}; a step must \
                 not depend on a clock, a random number, the order of a std `HashMap`, another \
                 thread, or a variable outside of the pool and of the program's state"
            ),
            Cause::Pool { call, message } => write!(f, "the pool's `{call}` failed: {message}"),
            Cause::Held => f.write_str(
                "the program's state was dropped, and something else still holds the pool: keep \
                 every clone of the `Arc` in the state, and join threads when it is dropped",
            ),
            Cause::NeverShown { asked, shown } => write!(
                f,
                "`shown` asks for notes of type `{asked}`, and `show` notes only other types, as \
                 `{shown}`, which nothing asks for: give both the same type"
            ),
            Cause::NothingExplored => f.write_str(
                "no power failure was possible: no step waits for a ticket, shows a note or writes",
            ),
        }
    }
}

/// A failure that the explorer has found, and its shortest execution.
///
/// `Display` prints the whole report.
#[derive(Clone, Debug)]
pub struct Failure {
    pub(super) cause: Cause,
    pub(super) steps: Vec<String>,
    pub(super) events: Vec<String>,
    pub(super) trace: String,
    pub(super) explored: Explored,
}

impl Failure {
    /// Returns the reason.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Returns the names of the steps that are left of the program: the fewest that still fail.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// Returns the events of the execution, a line each.
    pub fn events(&self) -> &[String] {
        &self.events
    }

    /// Returns the trace, a line that [`Explorer::replay`](super::Explorer::replay) takes.
    pub fn trace(&self) -> &str {
        &self.trace
    }

    /// Returns the counts of the search up to this failure.
    pub fn explored(&self) -> &Explored {
        &self.explored
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.cause)?;
        shown(&self.events).try_for_each(|event| writeln!(f, "    {event}"))?;
        writeln!(f, "\n{}", self.explored)?;
        if self.trace.is_empty() {
            return Ok(());
        }
        writeln!(f, "to run this execution alone, as under a debugger:")?;
        write!(f, "    {}='{}' cargo test", super::VARIABLE, self.trace)?;
        match std::thread::current().name() {
            // With one test thread a test runs in the main thread.
            Some("main") | None => Ok(()),
            Some(test) => write!(f, " {test}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Returns the events that matter: those of the program, those of the machine where the power
/// fails, and the contents that survived. The other writes of the machine are many, and survive.
fn shown(events: &[String]) -> impl Iterator<Item = &String> {
    let is_head = |event: &str| !event.starts_with(' ');
    let parts = events.chunk_by(move |_, next| !is_head(next));
    parts.flat_map(move |part| {
        let is_cut = part.iter().any(|event| event.trim_start() == "the power goes");
        part.iter().filter(move |event| {
            let is_program = is_head(event) || event.starts_with(DETAIL);
            let is_content = CONTENTS.iter().any(|content| event.contains(content));
            is_cut || is_program || is_content
        })
    })
}
