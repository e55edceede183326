//! Transactions that the hardware cannot hold: how a log in software takes over from one in
//! hardware, under all four designs.
//!
//! ```text
//!   store:    room in the core's share of the log, and what else the design needs.  None: software
//!   software: what is committed -> home   |   Log Start's line: "at home before this record"
//!             the attempt's old words -> home, durable;  drop word: durable       (where undone)
//!             the attempt's letters, lines and records are forgotten
//!   a commit while software may still store: the first line again, before its locks are free
//! ```
//! Recovery of the hardware's log and of software's never undo what the other has done:
//!
//! - *Redone* is a transaction whose commit word is not before the mark in Log Start's line. No
//!   commit before the mark is put over what software has written, for all of it was at home first.
//!   No commit behind the mark has written a line that software has locked: whoever had the lock
//!   before has committed before software began, or has waited with its locks until the mark was
//!   behind its commit. (Who commits when software has all its data in memory need not wait: that
//!   has all its lines locked until its own commit word is durable.)
//! - *Undone* is a transaction that has neither a commit word nor a drop word. An attempt that ends
//!   in software has a drop word before software's log has anything: so what software commits is
//!   never taken back. And its lines were what they had been, in memory, before the drop word was:
//!   so nobody needs it to be undone.
//! - What software undoes are lines of its own open transaction. It has them locked, and the two
//!   above say that hardware neither redoes nor undoes anything there.
//!
//! So the lines that the two recoveries write are not the same ones, but for lines that software
//! has committed: these are in memory, and hardware redoes, or undoes, words that were stored
//! later. The order of both is free; the hardware's is first.
//!
//! Of each log: `hw-undo` has everything home when it commits, and needs only the drop word;
//! `hw-redo` and `redu` bring nothing of an open transaction home, and need only the mark;
//! `hw-undo-redo` needs both. It puts the attempt's words back behind the mark: of their lines what
//! was committed before is at home by then, and a scan that does not know of these write-backs
//! misses nothing.
//!
//! Why nobody waits for each other: the mark waits for commits and for lines on their way home, of
//! which none waits for a lock. (It could not wait for Log Start, which an open transaction keeps
//! where it is that may wait for software's locks.) A line on its way home waits for the record
//! that has its entries, and that record for nobody: the open one is sealed when software begins,
//! and, as long as it runs or anybody waits so, with each entry for which a line waits. Room in the
//! log, and what else a design needs, are there when a store is executed: so nothing that hardware
//! holds waits for room.
//!
//! Who gives up a transaction in hardware, and has no room for what it stores back, goes the same
//! way, up to where software would begin.

use rustc_hash::FxHashMap;

use words::Stop;

use super::core::{drain, forget, has_room, seal};
use super::reader::Scan;
use super::record::Layout;
use super::{Content, Logging, controller};
use crate::design::soft_log::{self, SoftLog};
use crate::machine::controller::Class;
use crate::machine::description::Description;
use crate::machine::when::When;
use crate::machine::{Hart, Machine};
use crate::mutants::{Mutant, planted};
use crate::persist::{Cut, Persistent};

/// What it does rarely.
pub(super) const FALLS: &str = "a transaction falls back to software";
const BESIDE: &str = "a transaction commits while software runs";

/// Who runs in software.
#[derive(Debug)]
pub(super) struct Software {
    /// The logs.
    log: SoftLog,
    /// Whether software runs a core's transaction, which may store to lines that it has not stored
    /// to yet.
    runs: Vec<bool>,
    /// Cores that wait, with their locks, until whatever is committed is at home.
    hurries: usize,
    /// Cores that wait until something more is at home.
    waiting: Vec<When>,
}

impl Software {
    /// Logs in software that begin at this line.
    pub(super) fn new(description: &Description, first: u32) -> Software {
        let log = SoftLog::new(description, first);
        Software { log, runs: vec![false; description.cores], hurries: 0, waiting: Vec::new() }
    }

    /// A core's transaction is over, or will not store anything more.
    pub(super) fn is_over(&mut self, core: usize) {
        self.runs[core] = false;
    }

    /// Whether a line on its way home may be waited for by somebody who has locks.
    pub(super) fn needs_home(&self) -> bool {
        self.is_running() || self.hurries > 0 && !planted(Mutant::OpenRecordStays)
    }

    /// Whether software runs any core's transaction.
    fn is_running(&self) -> bool {
        self.runs.contains(&true)
    }

    /// See [`Design::soft_log`](crate::design::Design::soft_log).
    pub(super) fn log(&mut self) -> &mut SoftLog {
        &mut self.log
    }

    pub(super) fn class_of(&self, line: u32) -> Class {
        self.log.class_of(line).unwrap_or(Class::Data)
    }
}

/// Lines of persistent memory that the hardware's log and software's need.
pub(in crate::design) fn lines(description: &Description) -> u32 {
    Layout::lines(description) + SoftLog::lines(description)
}

/// A transaction stores a word, if the hardware can hold that.
///
/// # Errors
/// [`Stop::TooLarge`].
pub(in crate::design) fn store<D: Logging>(
    hart: &mut Hart<'_, D>,
    word: u64,
    object: u64,
    value: u64,
) -> Result<(), Stop> {
    let core = hart.core();
    if !(D::has_place(hart, word) && has_room(hart.machine(), core)) {
        return Err(Stop::TooLarge);
    }
    hart.store(word, object, value);
    Ok(())
}

/// A core's transaction falls back to software, or gives up and has no room to say so.
pub(in crate::design) fn falls_back<D: Logging>(hart: &mut Hart<'_, D>) {
    let cycle = hart.cycle();
    hart.at(cycle);
    let (core, since) = (hart.core(), hart.machine().now());
    let log = hart.machine().design.log();
    log.software.runs[core] = true;
    let content = log.content;
    // Lines that wait for its entries do not wait for its end.
    seal(hart.machine(), core);
    if !planted(Mutant::SoftwareEarly) {
        all_at_home(hart);
    }
    if content != Content::New {
        put_back(hart);
    }
    forget(hart);
    D::forgets(hart);
    let until = hart.cycle();
    hart.machine().rare(FALLS, since, until);
}

/// Software has a core's data in memory, and is about to commit them: its transaction writes no
/// lines any more, so commits beside it have none that it will write.
pub(in crate::design) fn software_commits<D: Logging>(hart: &mut Hart<'_, D>) {
    let core = hart.core();
    hart.machine().design.log().software.is_over(core);
}

/// A core's transaction is committed. Where software runs it keeps its locks until recovery need
/// not redo it.
pub(in crate::design) fn beside_software<D: Logging>(hart: &mut Hart<'_, D>) {
    let runs = hart.machine().design.log().software.is_running();
    if runs && !planted(Mutant::CommitsBeside) {
        let since = hart.cycle();
        all_at_home(hart);
        let until = hart.cycle();
        hart.machine().rare(BESIDE, since, until);
    }
}

/// Brings home whatever is committed, and makes that known to memory. Nothing has to be where
/// nothing is redone: there it is at home when it commits.
fn all_at_home<D: Logging>(hart: &mut Hart<'_, D>) {
    let core = hart.core();
    let log = hart.machine().design.log();
    if log.content == Content::Old {
        return;
    }
    let record = log.next();
    log.software.hurries += 1;
    while D::hurry(hart.machine(), record) {
        let token = hart.machine().open_token();
        hart.machine().design.log().software.waiting.push(token);
        hart.wait_for(token);
    }
    let known = controller::all_at_home(hart.machine(), record, core);
    hart.wait_for(known);
    hart.machine().design.log().software.hurries -= 1;
}

/// Something more is at home, or committed: who waits for that looks again.
pub(in crate::design) fn look_again<D: Logging>(machine: &mut Machine<D>) {
    let now = machine.now();
    let waiting = std::mem::take(&mut machine.design.log().software.waiting);
    waiting.into_iter().for_each(|token| machine.tell(token, now));
}

/// What a core's attempt has overwritten is stored back through the caches, and written to memory:
/// on return it is durable. The entries of all its words went ahead, and until the drop word is
/// durable recovery does the same; so these stores need no entries.
fn put_back<D: Logging>(hart: &mut Hart<'_, D>) {
    let core = hart.core();
    drain(hart.machine(), core);
    seal(hart.machine(), core);
    let found: Vec<_> = hart.overwritten().collect();
    let writing = &mut hart.machine().design.log().cores[core];
    writing.runs = false;
    if planted(Mutant::AttemptStays) {
        return;
    }
    writing.puts_back = found.iter().map(|(word, _, payload)| (*word, *payload)).collect();
    found.into_iter().for_each(|(word, value, _)| hart.store(word, 0, value));
    for line in hart.lines().to_vec() {
        hart.write_back(line);
    }
    hart.fence();
    hart.machine().design.log().cores[core].puts_back = FxHashMap::default();
}

/// Makes what is persistent the state after some transaction, from a log of this content and that
/// of software behind it.
///
/// # Errors
/// [`Cut`].
pub(in crate::design) fn recover(
    description: &Description,
    extra: u32,
    content: Content,
    state: &mut Persistent,
) -> Result<(), Cut> {
    let scan = Scan::of(Layout::of(description, extra, content), state);
    if content != Content::Old {
        scan.redo(state)?;
    }
    if content != Content::New {
        scan.undo(state)?;
    }
    scan.reset(state)?;
    soft_log::recover(description, extra + Layout::lines(description), state)
}
