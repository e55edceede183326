//! The fallback of transactions that the hardware cannot hold: a software log takes over from the
//! hardware log, in all four designs.
//!
//! ```text
//!   store:    room in the core's share of the log, and in the design's structures.  None: software
//!   software: commits -> heap image       |   applied watermark in the line of Log Start
//!             the attempt's old words -> heap image, durable;  drop word: durable (where undone)
//!             the attempt's log messages, lines and records are forgotten
//!   a commit while software may still store: the watermark again, before its locks are free
//! ```
//! The recoveries of the hardware log and of the software log never undo each other's work:
//!
//! - *Redo* covers transactions whose commit word is not before the watermark. Commits before it
//!   cannot overwrite software's words, since the heap image had all of them first. Commits after
//!   it have not written any line that software has locked. The previous holder of such a lock
//!   either committed before software began, or waited with its locks until the watermark covered
//!   its commit. (A transaction that commits when software has all its data in memory need not
//!   wait: software keeps its lines locked until its own commit word is durable.)
//! - *Undo* covers transactions with neither a commit word nor a drop word. An attempt that ends in
//!   software has a drop word before the software log has any entry, so recovery never takes back
//!   software's commits. The attempt's lines have their old contents in memory before the drop
//!   word, so no undo of it is missing.
//! - Software undoes only lines of its own open transaction. These lines are locked, and by the two
//!   points above hardware neither redoes nor undoes any of them.
//!
//! The two recoveries therefore write disjoint lines, except lines that software has committed.
//! These are in memory, and hardware redoes or undoes only words that were stored later. The order
//! of the two is free; the hardware's is first.
//!
//! Each design needs a part of this protocol:
//!
//! | design | applied at commit | drop word | watermark |
//! |---|---|---|---|
//! | `hw-undo` | all data | needed | - |
//! | `hw-redo`, `redu` | nothing of an open transaction | - | needed |
//! | `hw-undo-redo` | some lines | needed | needed |
//!
//! `hw-undo-redo` restores the attempt's words after the watermark is durable. The heap image has
//! all earlier commits of these lines by then, so a scan that does not know of these write-backs
//! misses nothing.
//!
//! The protocol has no deadlock. The watermark waits for commits and for write-backs, which need no
//! lock. (It could not wait for Log Start: an open transaction that blocks Log Start may wait for
//! software's locks.) A write-back waits for the record with its entries, and that record waits for
//! no transaction. The open record is sealed when software begins. While software runs or any core
//! waits for the watermark, each entry with a waiting line seals it too. Room in the log and in the
//! design's structures is reserved before a store executes, so nothing that hardware holds waits
//! for room.
//!
//! A hardware transaction that aborts without room for the stores that restore its words takes the
//! same path, up to the point at which software would begin.

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
use crate::mutants::{Mutant, injected};
use crate::persist::{Cut, Persistent};

/// Rarely taken paths.
pub(super) const FALLS: &str = "a transaction falls back to software";
const BESIDE: &str = "a transaction commits while software runs";

/// State of the software fallback.
#[derive(Debug)]
pub(super) struct Software {
    /// The software logs.
    log: SoftLog,
    /// Whether software runs a core's transaction, which may store to further lines.
    runs: Vec<bool>,
    /// Cores that wait, with their locks, until all commits are applied.
    expediting: usize,
    /// Tokens of cores that wait for the next write-back.
    waiting: Vec<When>,
}

impl Software {
    /// Returns software logs that begin at this line.
    pub(super) fn new(description: &Description, first: u32) -> Software {
        let log = SoftLog::new(description, first);
        Software { log, runs: vec![false; description.cores], expediting: 0, waiting: Vec::new() }
    }

    /// Notes that a core's transaction is over or will not store to further lines.
    pub(super) fn is_over(&mut self, core: usize) {
        self.runs[core] = false;
    }

    /// Whether a transaction with locks may wait for a write-back.
    pub(super) fn needs_write_back(&self) -> bool {
        self.is_running() || self.expediting > 0 && !injected(Mutant::OpenRecordStays)
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

/// Lines of persistent memory that the hardware log and the software log need.
pub(in crate::design) fn lines(description: &Description) -> u32 {
    Layout::lines(description) + SoftLog::lines(description)
}

/// Stores a word, if the hardware can hold it.
///
/// # Errors
/// [`Stop::TooLarge`] when the log or the design has no room.
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

/// Ends the hardware attempt of a core's transaction that falls back, or that aborts without room.
pub(in crate::design) fn falls_back<D: Logging>(hart: &mut Hart<'_, D>) {
    let cycle = hart.cycle();
    hart.at(cycle);
    let (core, since) = (hart.core(), hart.machine().now());
    let log = hart.machine().design.log();
    log.software.runs[core] = true;
    let content = log.content;
    // Lines that wait for the attempt's entries must not wait for its end.
    seal(hart.machine(), core);
    if !injected(Mutant::SoftwareEarly) {
        apply_all(hart);
    }
    if content != Content::New {
        put_back(hart);
    }
    forget(hart);
    D::forgets(hart);
    let until = hart.cycle();
    hart.machine().rare(FALLS, since, until);
}

/// Notes that a core's software transaction has its data in memory and is about to commit. It
/// writes no further lines, so parallel commits cannot conflict with it.
pub(in crate::design) fn software_commits<D: Logging>(hart: &mut Hart<'_, D>) {
    let core = hart.core();
    hart.machine().design.log().software.is_over(core);
}

/// Completes a hardware commit. While software runs, the transaction keeps its locks until recovery
/// need not redo it.
pub(in crate::design) fn beside_software<D: Logging>(hart: &mut Hart<'_, D>) {
    let runs = hart.machine().design.log().software.is_running();
    if runs && !injected(Mutant::CommitsBeside) {
        let since = hart.cycle();
        apply_all(hart);
        let until = hart.cycle();
        hart.machine().rare(BESIDE, since, until);
    }
}

/// Waits until all commits are in the heap image and the durable watermark covers them. Designs
/// without redo return at once: their data are applied at commit.
fn apply_all<D: Logging>(hart: &mut Hart<'_, D>) {
    let core = hart.core();
    let log = hart.machine().design.log();
    if log.content == Content::Old {
        return;
    }
    let record = log.next();
    log.software.expediting += 1;
    while D::expedite(hart.machine(), record) {
        let token = hart.machine().open_token();
        hart.machine().design.log().software.waiting.push(token);
        hart.wait_for(token);
    }
    let known = controller::raise_watermark(hart.machine(), record, core);
    hart.wait_for(known);
    hart.machine().design.log().software.expediting -= 1;
}

/// Wakes the cores that wait for write-backs or commits.
pub(in crate::design) fn look_again<D: Logging>(machine: &mut Machine<D>) {
    let now = machine.now();
    let waiting = std::mem::take(&mut machine.design.log().software.waiting);
    waiting.into_iter().for_each(|token| machine.notify(token, now));
}

/// Restores the words that a core's attempt has overwritten, through the caches; they are durable
/// on return. These stores need no log entries. Entries for all the words precede them, and until
/// the drop word is durable recovery restores the same words.
fn put_back<D: Logging>(hart: &mut Hart<'_, D>) {
    let core = hart.core();
    drain(hart.machine(), core);
    seal(hart.machine(), core);
    let found: Vec<_> = hart.overwritten().collect();
    let writing = &mut hart.machine().design.log().cores[core];
    writing.runs = false;
    if injected(Mutant::AttemptStays) {
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

/// Brings the persistent state to that after some transaction, from a log of this content and the
/// software log after it.
///
/// # Errors
/// [`Cut`] when power fails again.
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
