//! `redu`: a redo log in hardware, with data written back from a cache in DRAM.
//!
//! Source: Jeong and others, MICRO 2018, section IV.
//!
//! ```text
//!   store:   new words -> log; the line is marked in L1      (`log/write_combining.rs`)
//!   a marked line leaves L1, or another core asks for it   -> DRAM cache, not committed
//!   commit:  buffer -> log, commit word   |   marked lines -> DRAM cache     in parallel
//!            durable, and all of them there: committed
//!   DRAM cache -> NVM:   eager: lines of committed transactions, in turn
//!                        least recently used: when a bucket is full
//!   a line is read from memory:   filter, DRAM cache (table, line), NVM
//! ```
//! The controller counts each transaction's lines in the DRAM cache. A committed transaction with
//! no line left needs its records no more.
//!
//! **A gap in the paper.** An open transaction B may overwrite a line that A has committed before
//! the line is written back. Suppose that A's count merely went down. A could then be over, Log
//! Start could pass its records, and power could fail before B commits: A's words would be lost.
//! Here the line moves from A's count to B's, and B inherits A's need for records. Log Start then
//! stays before both.
//!
//! Invariants:
//! - A program line reaches NVM only from the DRAM cache, and only after its transaction is
//!   committed.
//! - Below L1 a line is clean: L2 and the last cache hold the contents of the DRAM cache or of NVM.
//! - For a line that is not written back, the log retains the records of its last writer and of all
//!   writers since the last write-back.
//!
//! Recovery applies the new words of transactions with a commit word, oldest first, except those
//! under the applied watermark. A transaction that the hardware cannot hold falls back to software:
//! see [`log`] and `places`.
//!
//! Choices where the paper is silent:
//! - The flush at commit finds one marked line a cycle and leaves it in L1, clean. It is
//!   acknowledged when DRAM has accepted table and line.
//! - A modified line of no transaction enters the DRAM cache as committed if the cache has the
//!   line. Otherwise it goes to memory.
//! - Eager write-back has `log.window` lines in flight. Lines that wait for the window may be
//!   overwritten first.
//! - With the policy of least recent use and half of the log used, the lines of transactions that
//!   block Log Start are written back.
//! - The transaction table is in the controller.

mod cache;
mod filter;
mod places;
mod write_back;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use words::Stop;

use super::Design;
use super::dram::{self, Dram, InDram, MORE};
use super::log::{self, Content, Log, Logging, parts};
use super::soft_log::SoftLog;
use crate::machine::cache::{MARKED, State};
use crate::machine::controller::{Class, Id};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::memory::{LOCK_LINES, LineWords, line_of};
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Message};
use crate::mutants::{Mutant, injected};
use crate::persist::{Cut, Persistent};
use cache::{Before, Cache};
use filter::Filter;
use places::Places;
use write_back::State as WriteBacks;

/// Kinds of tags: a read of a line for its write-back, and the write-back.
const FETCHED: u64 = MORE;
const WRITE_BACK: u64 = MORE + 1;
/// Kind of tag: the write-back of a version that was overwritten in the cache.
const OLD: u64 = MORE + 2;

const LEAVES: &str = "a marked line leaves its first cache";
const ASKED: &str = "another core asks for a marked line";
const MOVED: &str = "an open transaction has a line that another one has committed";
const AGES: &str = "a line is overwritten whose records are old";
const VICTIM: &str = "a full bucket gives up a line";

/// State of the design.
#[derive(Debug)]
pub struct Redu {
    log: Log,
    dram: Dram,
    cache: Cache,
    /// The filter. Without one, every read looks into the table.
    filter: Option<Filter>,
    /// Whether the policy is least recently used rather than eager.
    lazy: bool,
    /// The transaction table.
    table: BTreeMap<u64, Entry>,
    /// Lines in flight to the DRAM cache, and the acknowledgements that each core waits for.
    coming: FxHashMap<u64, Coming>,
    flushes: Vec<Vec<When>>,
    numbers: u64,
    /// The marked line that has just left L1. The lower caches need not write it.
    taken: Option<u32>,
    write_backs: WriteBacks,
    places: Places,
}

/// An entry of the transaction table.
#[derive(Clone, Debug, Default)]
struct Entry {
    committed: bool,
    /// Its lines in the DRAM cache.
    count: u64,
    /// Lines that it has put there; another transaction may have overwritten some.
    lines: Vec<u32>,
    /// Whether its lines are queued for write-back.
    queued: bool,
    /// Time since which it has a line that another transaction committed.
    moved: Option<Time>,
}

/// A line in flight to the DRAM cache.
#[derive(Clone, Copy, Debug)]
struct Coming {
    line: u32,
    serial: u64,
    words: LineWords,
    waiter: Option<(usize, When)>,
}

impl Design for Redu {
    const NAME: &'static str = "redu";
    const ABOUT: &'static str = "redo logging in hardware, data written back from a DRAM cache";
    const MACHINE: &'static str = "redu";
    const PARAMETERS: &'static [&'static str] = &["log", "redu"];
    const RARE: &'static [&'static str] =
        &[log::RARE[0], log::RARE[1], log::RARE[2], log::RARE[3], LEAVES, MOVED, VICTIM, AGES];

    fn fits(description: &Description) -> Result<(), &'static str> {
        if description.dram.is_none() {
            return Err("its cache lies in DRAM: the machine must have a `dram` table");
        }
        if description.l2.is_none() || !description.llc.inclusive {
            return Err("lines that leave the first cache stay clean in the others: `l2` must be \
                        present and `llc.inclusive` true");
        }
        log::fits(description)
    }

    fn extra_lines(description: &Description) -> u32 {
        log::lines(description)
    }

    fn volatile_lines(description: &Description) -> u32 {
        Dram::lines(description)
    }

    fn new(description: &Description, extra: u32) -> Redu {
        let dram = Dram::new(description, extra + log::lines(description) + LOCK_LINES);
        let lazy = description.parameter("redu", "write_back") != 0.0;
        let filters = description.parameter("redu", "filter") != 0.0;
        Redu {
            log: Log::new(description, extra, Content::New),
            cache: Cache::new(dram.buckets),
            places: Places::new(dram.buckets, description.cores),
            dram,
            filter: filters.then(|| Filter::new(description, lazy)),
            lazy,
            table: BTreeMap::new(),
            coming: FxHashMap::default(),
            flushes: vec![Vec::new(); description.cores],
            numbers: 0,
            taken: None,
            write_backs: WriteBacks::new(log::window(description)),
        }
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        Some(log::resumed(description, extra, state))
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        log::begin(hart);
        let core = hart.core();
        let design = &mut hart.machine().design;
        let serial = design.log.running(core).expect("the transaction has begun");
        design.table.insert(serial, Entry::default());
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        log::store(hart, word, object, value)
    }

    fn falls_back(hart: &mut Hart<'_, Self>) {
        log::falls_back(hart);
    }

    fn software_commits(hart: &mut Hart<'_, Self>) {
        log::software_commits(hart);
    }

    fn soft_log(&mut self) -> Option<&mut SoftLog> {
        Some(self.log.soft_log())
    }

    fn class_of(&self, line: u32) -> Class {
        self.log.class_of(line)
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        let core = hart.core();
        let serial = hart.machine().design.log.last(core);
        if !log::end_body(hart) {
            hart.machine().design.table.remove(&serial);
            places::ends(hart.machine(), core);
            return;
        }
        hart.enter(Phase::Prepare);
        log::drain(hart.machine(), core);
        let token = log::commit(hart.machine(), core);
        let (began, lines) = (hart.cycle(), hart.lines().to_vec());
        let mut flushed = 0;
        for line in lines {
            hart.at(began + flushed);
            let machine = hart.machine();
            if machine.mark(core, line, false) == Some(true) {
                flush(machine, core, line, serial);
                flushed += 1;
            }
        }
        let flushes = std::mem::take(&mut hart.machine().design.flushes[core]);
        flushes.into_iter().for_each(|flush| hart.wait_for(flush));
        hart.enter(Phase::Commit);
        hart.wait_for(token);
        write_back::committed(hart.machine(), serial);
        places::ends(hart.machine(), core);
        log::beside_software(hart);
    }

    fn waits(machine: &mut Machine<Self>, core: usize, word: u64, _: When) -> Option<When> {
        log::waits(machine, core, word)
    }

    fn drained(machine: &mut Machine<Self>, core: usize, word: u64, old: u64) {
        if log::note(machine, core, word, old) {
            machine.mark(core, line_of(word), true);
        }
    }

    fn leaves_l1(machine: &mut Machine<Self>, core: usize, line: u32, state: State) {
        machine.design.taken = None;
        if state & MARKED != 0 {
            leaves_early(machine, core, line, LEAVES);
            machine.design.taken = Some(line);
        }
    }

    fn leaves_core(machine: &mut Machine<Self>, _: usize, line: u32, _: State) -> bool {
        machine.design.taken == Some(line)
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        if !machine.memory.is_nvm(line) {
            return false;
        }
        let design = &mut machine.design;
        if design.taken.take() == Some(line) {
            return true;
        }
        // A line of no transaction. Software's lines are written back or in flight already, and
        // need no detour: software waits for its own write-backs.
        let is_there = design.cache.find(design.dram.bucket(line), line).is_some()
            || design.write_backs.leaving(line).is_some();
        if !is_there && design.coming.values().all(|coming| coming.line != line) {
            return false;
        }
        let now = machine.now();
        send(machine, 0, line, 0, now, None);
        true
    }

    fn asked(machine: &mut Machine<Self>, core: usize, line: u32) {
        if machine.mark(core, line, false) == Some(true) {
            leaves_early(machine, core, line, ASKED);
        }
    }

    fn fill(machine: &mut Machine<Self>, _: usize, line: u32, read: Id) -> bool {
        if injected(Mutant::DramNotLookedUp) {
            return false;
        }
        let design = &mut machine.design;
        let slot = design.cache.find(design.dram.bucket(line), line);
        let found = slot.and_then(|slot| Some((slot, design.cache.line(slot)?.words)));
        if let (None, Some(leaving)) = (found, design.write_backs.leaving(line)) {
            machine.counts.add("dram_look_ups", 1);
            machine.counts.add("dram_read_hits", 1);
            dram::look_up(machine, line, read, Some(leaving), false);
            return true;
        }
        let is_there = found.is_some();
        let may = design.filter.as_ref().is_none_or(|filter| filter.may_have(line));
        let mut resets = false;
        if let Some(filter) = design.filter.as_mut().filter(|_| may) {
            resets = filter.judge(is_there);
        }
        if let Some(slot) = slot {
            design.cache.touch(slot);
        }
        let (has_filter, lazy) = (design.filter.is_some(), design.lazy);
        if has_filter {
            let names = [
                ["bloom_true_negatives", "bloom_false_negatives"],
                ["bloom_false_positives", "bloom_true_positives"],
            ];
            machine.counts.add(names[usize::from(may)][usize::from(is_there)], 1);
            machine.counts.add("bloom_resets", u64::from(resets));
        }
        if !may && !lazy {
            return false;
        }
        machine.counts.add("dram_look_ups", 1);
        machine.counts.add("dram_read_hits", u64::from(is_there));
        dram::look_up(machine, line, read, found, !may);
        true
    }

    fn has_read(machine: &mut Machine<Self>, _: usize, _: u32, tag: u64) {
        let (kind, number) = parts(tag);
        if !dram::has_read(machine, tag) && kind == FETCHED {
            write_back::fetched(machine, number);
        }
    }

    fn notified(machine: &mut Machine<Self>, _: usize, _: usize, tag: u64, point: Point) {
        let (kind, number) = parts(tag);
        if log::write_reached(machine, tag, point) || dram::write_reached(machine, tag, point) {
            return;
        }
        match kind {
            _ if point != machine.description.persist.point => {}
            WRITE_BACK => write_back::written_back(machine, number),
            OLD => write_back::old_written_back(machine, number),
            _ => {}
        }
    }

    fn message(machine: &mut Machine<Self>, _: usize, _: usize, [message, _]: Message) {
        if !log::message(machine, message) {
            let coming = machine.design.coming.remove(&message);
            insert(machine, coming.expect("each message announces a line"));
        }
    }

    fn is_warm(&self) -> bool {
        // A warm lazy cache is full, or the log forces its lines out.
        let is_full = !self.lazy || self.cache.is_full() || self.log.is_low();
        is_full && self.log.has_wrapped()
    }

    fn backlog(&self) -> u64 {
        self.cache.lines() + self.write_backs.left() + self.coming.len() as u64
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        log::recover(description, extra, Content::New, state)
    }
}

impl InDram for Redu {
    fn dram(&mut self) -> &mut Dram {
        &mut self.dram
    }
}

impl Logging for Redu {
    fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    fn committed(_: &mut Machine<Self>, _: u64) {
        // The transaction commits only after its lines have reached the DRAM cache too: see
        // `commit`.
    }

    fn request_write_backs(machine: &mut Machine<Self>) {
        write_back::request_write_backs(machine);
    }

    fn has_place(hart: &mut Hart<'_, Self>, word: u64) -> bool {
        places::has_place(hart, word)
    }

    fn expedite(machine: &mut Machine<Self>, record: u64) -> bool {
        write_back::expedite(machine, record)
    }

    fn forgets(hart: &mut Hart<'_, Self>) {
        places::forgets(hart);
    }
}

/// Flushes a marked line that leaves its place in L1 before its transaction ends.
fn leaves_early(machine: &mut Machine<Redu>, core: usize, line: u32, why: &'static str) {
    // A transaction's end clears all its marks, so the line belongs to the core's last transaction.
    let serial = machine.design.log.last(core);
    let now = machine.now();
    machine.mark(core, line, false);
    flush(machine, core, line, serial);
    machine.rare(why, now, now + 100);
}

/// Sends a line from a core's L1 through its home tile to the DRAM cache. The caches keep it,
/// clean.
fn flush(machine: &mut Machine<Redu>, core: usize, line: u32, serial: u64) {
    machine.clean_private(core, line);
    let token = machine.open_token();
    machine.design.flushes[core].push(token);
    let time = machine.to_home_tile(core, line);
    send(machine, core, line, serial, time, Some((core, token)));
}

fn send(
    machine: &mut Machine<Redu>,
    core: usize,
    line: u32,
    serial: u64,
    time: Time,
    waiter: Option<(usize, When)>,
) {
    let words = machine.memory.line(line);
    machine.design.numbers += 1;
    let number = machine.design.numbers;
    machine.design.coming.insert(number, Coming { line, serial, words, waiter });
    machine.send_from_home_tile(core, (line, Size::Data), time, [number, 0]);
}

/// Inserts a line that has reached the DRAM cache.
fn insert(machine: &mut Machine<Redu>, coming: Coming) {
    let Coming { line, serial, words, waiter } = coming;
    let design = &mut machine.design;
    let bucket = design.dram.bucket(line);
    let there = design.cache.find(bucket, line);
    let slot = match there {
        Some(slot) if !is_old(machine, slot, serial) => overwrite(machine, slot, serial, words),
        _ => {
            let design = &mut machine.design;
            let may_leave = |it: &cache::Line| design.is_committed(it.serial);
            let Some(slot) = there.or_else(|| design.cache.place(bucket, may_leave)) else {
                log::cannot_hold(machine);
                return dram::put(machine, bucket * dram::WAYS, waiter);
            };
            if design.cache.line(slot).is_some() {
                leaves(machine, slot, there.is_some());
            }
            let design = &mut machine.design;
            design.cache.put(slot, line, words, serial);
            if let Some(filter) = &mut design.filter {
                filter.insert(line);
            }
            design.counts_one(line, serial);
            slot
        }
    };
    machine.counts.add("dram_writes_of_lines", 1);
    dram::put(machine, slot, waiter);
    if serial == 0 {
        write_back::queue(machine, line);
    }
}

/// Whether an overwrite of the line in this slot would inherit a need for records older than half
/// of the log. A line under constant overwrites would otherwise block Log Start for ever.
fn is_old(machine: &mut Machine<Redu>, slot: usize, serial: u64) -> bool {
    let Redu { cache, log, .. } = &machine.design;
    let from = cache.serial(slot);
    from != serial && serial != 0 && log.is_old(from) && machine.design.is_committed(from)
}

/// Evicts the line in this slot, for another line of its bucket or for a new version of itself.
fn leaves(machine: &mut Machine<Redu>, slot: usize, is_same: bool) {
    let now = machine.now();
    write_back::give_up(machine, slot);
    let (path, count) =
        if is_same { (AGES, "dram_old_versions") } else { (VICTIM, "dram_victims") };
    machine.rare(path, now, now + 100);
    machine.counts.add(count, 1);
}

/// Overwrites a line in the DRAM cache. Returns its slot.
fn overwrite(machine: &mut Machine<Redu>, slot: usize, by: u64, words: LineWords) -> usize {
    let design = &mut machine.design;
    let there = *design.cache.line(slot).expect("the slot has a line");
    // A plain write extends the last transaction's version, whose words may not be written back.
    let (from, serial) = (there.serial, if by == 0 { there.serial } else { by });
    design.cache.renew(slot, words, serial);
    machine.counts.add("dram_write_hits", 1);
    if from != serial {
        let design = &mut machine.design;
        // A version of no transaction counts as older than any record.
        let end = design.log.end_of(from).unwrap_or(0);
        let before = Before { words: there.words, end, number: None, is_written_back: false };
        design.cache.keep_before(slot, before);
        moves(machine, there.line, from, serial);
    }
    slot
}

/// Transfers a line in the DRAM cache from one transaction to another.
fn moves(machine: &mut Machine<Redu>, line: u32, from: u64, serial: u64) {
    let now = machine.now();
    let design = &mut machine.design;
    design.counts_one(line, serial);
    if !injected(Mutant::ReduTrimsEarly) {
        design.log.inherit(serial, from);
    }
    if let Some(entry) = design.table.get_mut(&serial) {
        entry.moved.get_or_insert(now);
    }
    write_back::one_less(machine, from);
}

impl Redu {
    /// Counts one more line for a transaction.
    fn counts_one(&mut self, line: u32, serial: u64) {
        if let Some(entry) = self.table.get_mut(&serial) {
            entry.count += 1;
            entry.lines.push(line);
        }
    }

    /// Whether a transaction is committed. No transaction (0) counts as committed.
    fn is_committed(&self, serial: u64) -> bool {
        self.table.get(&serial).is_none_or(|entry| entry.committed)
    }
}
