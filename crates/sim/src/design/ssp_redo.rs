//! `ssp-redo`: a redo log in hardware, with data written back after the commit.
//!
//! The design follows DHTM (Joshi, Nagarajan, Cintra, Viglas, ISCA 2018) as the SSP paper (section
//! 5.1) uses it as a baseline.
//!
//! ```text
//!   store     its line enters the log buffer; the oldest line there leaves it for the log
//!   commit    log buffer -> log, durable;  commit record, durable
//!   then      lines -> memory;  the core's next transaction begins after they are there
//! ```
//! Each core has a circular log and a circular array of commit records:
//! ```text
//!   group   | entries | line | line | ... up to 7 |    followed by the words of those lines
//!   record  | number of the commit | first line of its log | entries | checksum |
//! ```
//! By default the record is sent after the log is durable, and its checksum is 0. With
//! `ssp-redo.record_beside_log` it is sent in parallel, and recovery takes a commit only if its log
//! has the record's checksum.
//!
//! One line in memory holds the applied watermark: all commits up to its number are in the heap
//! image. It is written when a core's log is half full, and the log space that it covers is
//! reusable from then on. A commit takes at least two lines of the log. One record for every two
//! log lines therefore suffices for all commits in the log.
//!
//! Invariants:
//! - Lines of an open transaction stay in the caches: the last cache keeps them.
//! - When a commit record is durable, so is its log, or the checksum reveals a log that is not.
//! - Commits are numbered in the order in which their records are sent, which agrees with the order
//!   of the locks. The watermark reaches a number only when every commit up to it is in the heap
//!   image. Otherwise recovery could overwrite a younger commit's line with an older one.
//!
//! Recovery applies the logs of all commits after the watermark, in the order of their numbers. A
//! record with an incomplete log belongs to a transaction that was never acknowledged. No
//! transaction depends on it, since it holds its locks until the acknowledgement. Its record stays,
//! and its number is not reused.
//!
//! A transaction whose lines the last cache cannot keep falls back to a software log. Its commit
//! word waits until the watermark covers all earlier commits. Neither log undoes the other's work:
//! - *No redo over software's commits.* Commits from before software's last lock are under the
//!   watermark, so recovery does not redo them. Recovery redoes only commits with later numbers,
//!   whose records were sent while software held all its locks. Such a commit wrote other lines, or
//!   it took the lock after software and saw software's words.
//! - *Undo of software's open transaction.* Recovery restores software's uncommitted lines after
//!   all redo, to their contents at the time of software's locks. No hardware commit has written
//!   them since.
//! - *No deadlock.* Write-backs of commits need no lock.

use std::collections::{BTreeMap, VecDeque};

use words::Stop;

use super::soft_log::{self, SoftLog};
use super::striped::Striped;
use super::{Design, IN_FLIGHT_CYCLES};
use crate::machine::controller::{Class, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::memory::{LineWords, line_of};
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Notify};
use crate::mutants::{Mutant, injected};
use crate::persist::{Cut, Persistent};

/// Entries of a group.
const ENTRIES: usize = 7;

// Rarely taken paths.
const LEAVES: &str = "a line leaves the log buffer before the commit";
const BEHIND: &str = "lines of a commit are not written back";
const FULL: &str = "a log is half full: the applied watermark is written";
const SOFTWARE: &str = "software waits until all commits are written back";

// Kinds of tags, in their upper bits.
const RECORD_TAG: u64 = 1 << 56;
const DATA_TAG: u64 = 2 << 56;

/// State of the design.
#[derive(Debug)]
pub struct SspRedo {
    layout: Layout,
    /// Lines of a log buffer.
    buffer: usize,
    /// Whether a transaction begins only after its predecessor's lines are in memory.
    waits: bool,
    /// Whether a commit record is sent in parallel with the log.
    beside: bool,
    cores: Vec<Log>,
    /// The last commit's number, and the commits that are not in the heap image.
    number: u64,
    open: BTreeMap<u64, WritingBack>,
    /// The software log of transactions whose lines the last cache cannot keep.
    soft: SoftLog,
}

/// A commit whose lines are not yet in the heap image.
#[derive(Clone, Copy, Debug)]
struct WritingBack {
    core: usize,
    /// Outstanding write-backs; none has been sent before the record is durable.
    left: usize,
    since: Time,
    /// Token for their completion.
    written_back: When,
}

/// The log of a core.
#[derive(Clone, Debug, Default)]
struct Log {
    /// Whether stores belong to a transaction; whether its lines must stay in the caches; whether
    /// the last cache failed to keep one.
    runs: bool,
    is_open: bool,
    too_large: bool,
    /// Lines of the transaction, and those of them in the log buffer, oldest first.
    lines: Vec<u32>,
    buffer: VecDeque<u32>,
    /// Total log lines written, and the first of the transaction.
    end: u64,
    first: u64,
    /// Entries of the incomplete group, and the transaction's total.
    group: Vec<u32>,
    entries: u64,
    /// Checksum of all entries.
    sum: u32,
    /// Writes to the log that are not known to be durable.
    writes: Vec<When>,
    /// Commits whose log is retained: their numbers and first lines.
    kept: VecDeque<(u64, u64)>,
    /// Total commit records.
    records: u64,
    /// Tokens for the durability of the record and for the write-back of the lines.
    done: Option<When>,
    written_back: Option<When>,
}

/// Placement of the log in persistent memory.
#[derive(Clone, Debug)]
struct Layout {
    heap: u32,
    /// The line that holds the applied watermark.
    watermark: u32,
    /// Each core's log and commit records.
    cores: Vec<(Striped, Striped)>,
    /// Half of a core's log: the most lines that a transaction may take.
    half: u64,
    /// First line of the software log.
    soft: u32,
}

impl Layout {
    fn new(description: &Description, extra: u32) -> Layout {
        let mut end = extra + 1;
        let mut region = |lines| {
            let region = Striped::new(description, end, lines);
            end = region.end();
            region
        };
        let half = (description.parameter("ssp-redo", "log_bytes") / 128.0) as u32;
        let half = half.max(1 + ENTRIES as u32);
        // The record array is half as long as the log, since no commit takes fewer than two lines.
        let cores = (0..description.cores).map(|_| (region(2 * half), region(half))).collect();
        Layout { heap: extra, watermark: extra, cores, half: u64::from(half), soft: end }
    }
}

impl Design for SspRedo {
    const NAME: &'static str = "ssp-redo";
    const ABOUT: &'static str = "redo logging in hardware: data written back after commit (DHTM)";
    const MACHINE: &'static str = "ssp";
    const PARAMETERS: &'static [&'static str] = &["ssp-redo"];
    const RARE: &'static [&'static str] = &[LEAVES, BEHIND, FULL, SOFTWARE];

    fn fits(description: &Description) -> Result<(), &'static str> {
        if description.network.columns != 0 || description.nvm.channels != 1 {
            return Err("all cores write the applied watermark, and the younger of two writes \
                        must not arrive first: `network.columns` must be 0 and \
                        `nvm.channels` 1");
        }
        match description.llc.inclusive {
            true => Ok(()),
            false => Err("the last cache keeps lines of open transactions: `llc.inclusive` must \
                          be true"),
        }
    }

    fn extra_lines(description: &Description) -> u32 {
        Layout::new(description, 0).soft + SoftLog::lines(description)
    }

    fn new(description: &Description, extra: u32) -> SspRedo {
        let parameter = |key| description.parameter("ssp-redo", key);
        SspRedo {
            layout: Layout::new(description, extra),
            buffer: parameter("buffer_lines") as usize,
            waits: parameter("wait_at_begin") != 0.0,
            beside: parameter("record_beside_log") != 0.0,
            cores: vec![Log::default(); description.cores],
            number: 0,
            open: BTreeMap::new(),
            soft: SoftLog::new(description, Layout::new(description, extra).soft),
        }
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        let mut design = Self::new(description, extra);
        if !injected(Mutant::SspForgetsNumbers) {
            // After recovery all commits are applied, so no record has a greater number.
            design.number = state.line(design.layout.watermark)[0];
        }
        design.soft = SoftLog::resumed(description, design.layout.soft, state);
        Some(design)
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        hart.fence();
        if hart.machine().design.waits
            && let Some(written_back) = log(hart).written_back.take()
        {
            hart.wait_for(written_back);
        }
        if let Some(number) = too_old(hart)
            && !injected(Mutant::SspRedoKeepsNothing)
        {
            let since = hart.cycle();
            make_room(hart, number);
            let until = hart.cycle();
            hart.machine().rare(FULL, since, until);
        }
        let log = log(hart);
        (log.runs, log.is_open, log.too_large) = (true, true, false);
        log.lines.clear();
        (log.first, log.entries, log.sum) = (log.end, 0, 0);
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        if log(hart).too_large {
            return Err(Stop::TooLarge);
        }
        hart.store(word, object, value);
        Ok(())
    }

    fn executed(hart: &mut Hart<'_, Self>) -> Result<(), Stop> {
        // Draining a store shows whether the last cache keeps its line. This waits for the last
        // stores.
        hart.fence();
        if log(hart).too_large { Err(Stop::TooLarge) } else { Ok(()) }
    }

    fn falls_back(hart: &mut Hart<'_, Self>) {
        let log = log(hart);
        (log.runs, log.is_open, log.too_large) = (false, false, false);
        log.buffer.clear();
        log.group.clear();
        log.writes.clear();
        // The incomplete group is skipped. Its lines are not reused before those around them.
        log.end += 1 + ENTRIES as u64;
        let lines = std::mem::take(&mut log.lines);
        for line in lines {
            let _ = hart.machine().keep(line, false);
        }
        if injected(Mutant::SspRedoSoftwareEarly) {
            write_back_all(hart);
        }
    }

    fn software_commits(hart: &mut Hart<'_, Self>) {
        if !injected(Mutant::SspRedoSoftwareEarly) {
            write_back_all(hart);
        }
    }

    fn soft_log(&mut self) -> Option<&mut SoftLog> {
        Some(&mut self.soft)
    }

    fn class_of(&self, line: u32) -> Class {
        self.soft.class_of(line).unwrap_or(Class::Data)
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        let mut open = machine.design.cores.iter().filter(|log| log.is_open);
        if open.any(|log| log.lines.contains(&line)) && !injected(Mutant::SspRedoLetsLinesGo) {
            machine
                .fail("a line of an open transaction leaves the last cache: make the cache larger");
        }
        false
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        // The stores have drained, including those of an aborted transaction.
        hart.fence();
        log(hart).runs = false;
        if log(hart).lines.is_empty() {
            return;
        }
        hart.enter(Phase::Prepare);
        let (core, mut cycle) = (hart.core(), hart.cycle());
        while let Some(line) = log(hart).buffer.pop_front() {
            hart.at(cycle);
            append(hart.machine(), core, line);
            cycle += 1;
        }
        end_group(hart.machine(), core);
        let beside = hart.machine().design.beside;
        if !beside && !injected(Mutant::SspRedoRecordFirst) {
            log_is_durable(hart);
        }
        hart.enter(Phase::Commit);
        let (done, number) = commit(hart.machine(), core);
        hart.wait_for(done);
        if beside {
            log_is_durable(hart);
            write_back_lines(hart.machine(), core, number);
        }
    }

    fn drained(machine: &mut Machine<Self>, core: usize, word: u64, _: u64) {
        let line = line_of(word);
        let SspRedo { ref mut cores, ref layout, buffer, .. } = machine.design;
        let log = &mut cores[core];
        if !log.runs || line >= layout.heap || log.buffer.contains(&line) {
            return;
        }
        log.buffer.push_back(line);
        let leaves = if log.buffer.len() > buffer { log.buffer.pop_front() } else { None };
        let is_new = !log.lines.contains(&line);
        if is_new {
            log.lines.push(line);
        }
        if is_new && !injected(Mutant::SspRedoLetsLinesGo) && !machine.keep(line, true) {
            machine.design.cores[core].too_large = true;
        }
        if let Some(line) = leaves {
            let now = machine.now();
            machine.rare(LEAVES, now, now + IN_FLIGHT_CYCLES);
            append(machine, core, line);
        }
    }

    fn notified(machine: &mut Machine<Self>, _: usize, core: usize, tag: u64, point: Point) {
        if point != machine.description.persist.point {
            return;
        }
        let number = tag & (RECORD_TAG - 1);
        match tag & !(RECORD_TAG - 1) {
            RECORD_TAG => {
                acknowledge(machine, core);
                if !machine.design.beside {
                    write_back_lines(machine, core, number);
                }
            }
            _ => line_written_back(machine, number),
        }
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        let layout = Layout::new(description, extra);
        let watermark = state.line(layout.watermark)[0];
        let mut commits = BTreeMap::new();
        for (log, records) in &layout.cores {
            for record in 0..u64::from(records.lines()) {
                let [number, first, entries, sum, ..] = state.line(records.line(record));
                if number > watermark {
                    commits.insert(number, (log, first, entries, sum));
                }
            }
        }
        for (log, first, entries, sum) in commits.values() {
            let logged = logged(log, *first, *entries, state);
            if *sum == 0 || *sum == sum_of(&logged) || injected(Mutant::SspRedoTrustsRecords) {
                logged.into_iter().try_for_each(|(line, words)| state.set_line(line, words))?;
            }
        }
        if let Some((last, _)) = commits.last_key_value() {
            state.set_line(layout.watermark, [*last, 0, 0, 0, 0, 0, 0, 0])?;
        }
        soft_log::recover(description, layout.soft, state)
    }
}

/// Returns the lines and words in a commit's log.
fn logged(log: &Striped, first: u64, entries: u64, state: &Persistent) -> Vec<(u32, LineWords)> {
    let (mut at, mut logged) = (first, Vec::new());
    while (logged.len() as u64) < entries {
        let [count, lines @ ..] = state.line(log.line(at));
        // Only an incomplete log has another count. The clamp bounds the read; the checksum then
        // rejects the log.
        let count = count.clamp(1, ENTRIES as u64).min(entries - logged.len() as u64);
        let of_it = (1..=count).zip(lines);
        logged.extend(of_it.map(|(offset, line)| (line as u32, state.line(log.line(at + offset)))));
        at += 1 + count;
    }
    logged
}

/// Returns a commit's checksum as in its record: never 0.
fn sum_of(logged: &[(u32, LineWords)]) -> u64 {
    in_record(logged.iter().fold(0, |sum, (line, words)| add_to(sum, *line, words)))
}

fn in_record(sum: u32) -> u64 {
    1 << 32 | u64::from(sum)
}

/// Extends the checksum of entries (CRC-32C) by one entry.
fn add_to(sum: u32, line: u32, words: &LineWords) -> u32 {
    let bytes = std::iter::once(u64::from(line)).chain(*words).flat_map(u64::to_le_bytes);
    crc32c::crc32c_append(sum, &bytes.collect::<Vec<u8>>())
}

fn log<'h>(hart: &'h mut Hart<'_, SspRedo>) -> &'h mut Log {
    let core = hart.core();
    &mut hart.machine().design.cores[core]
}

/// Returns a core's last commit whose log must be released, if any. The log from its first line on
/// takes more than half of the region.
fn too_old(hart: &mut Hart<'_, SspRedo>) -> Option<u64> {
    let half = hart.machine().design.layout.half;
    let log = log(hart);
    let old = log.kept.iter().take_while(|(_, first)| log.end - first > half);
    old.last().map(|(number, _)| *number)
}

/// Waits until the durable watermark covers all commits.
fn write_back_all(hart: &mut Hart<'_, SspRedo>) {
    let (since, number) = (hart.cycle(), hart.machine().design.number);
    make_room(hart, number);
    let until = hart.cycle();
    hart.machine().rare(SOFTWARE, since, until);
}

/// Waits until all commits up to `number` are in the heap image, and writes the watermark. The
/// watermark also covers later commits that are already there. The logs under it become reusable.
/// The cost is one write, however long the wait.
fn make_room(hart: &mut Hart<'_, SspRedo>, number: u64) {
    let waits: Vec<When> =
        hart.machine().design.open.range(..=number).map(|(_, going)| going.written_back).collect();
    waits.into_iter().for_each(|token| hart.wait_for(token));
    let core = hart.core();
    let machine = hart.machine();
    let SspRedo { open, number, layout, .. } = &machine.design;
    let watermark = open.first_key_value().map_or(*number, |(first, _)| first - 1);
    let line = layout.watermark;
    let done = write(machine, core, line, [watermark, 0, 0, 0, 0, 0, 0, 0], Class::LogMeta);
    machine.counts.add("home_lines", 1);
    hart.wait_for(done);
    for log in &mut hart.machine().design.cores {
        while log.kept.front().is_some_and(|(number, _)| *number <= watermark) {
            log.kept.pop_front();
        }
    }
}

/// Writes a line of a core's log to memory. Returns a token for the core's acknowledgement that it
/// is durable.
fn write(
    machine: &mut Machine<SspRedo>,
    core: usize,
    line: u32,
    words: LineWords,
    class: Class,
) -> When {
    let done = machine.open_token();
    let write = Write::new(u64::from(line), words, class);
    let time = machine.now() + machine.description.l1.latency;
    machine.write_line(write, machine.tile(core), time, Notify::Core(core, done));
    done
}

/// Appends a line's current words to a core's log. A transaction takes no more than half of the
/// log, including its incomplete group. The other half may hold retained commits, which must not be
/// overwritten.
fn append(machine: &mut Machine<SspRedo>, core: usize, line: u32) {
    let words = machine.memory.line(line);
    let SspRedo { cores, layout, .. } = &mut machine.design;
    let log = &mut cores[core];
    let taken = log.end + log.group.len() as u64 + 2 - log.first;
    if taken > layout.half && !injected(Mutant::SspRedoTakesMore) {
        return machine.fail("a transaction writes more lines than its core's log holds");
    }
    log.group.push(line);
    log.entries += 1;
    log.sum = add_to(log.sum, line, &words);
    let at = log.end + log.group.len() as u64;
    let is_full = log.group.len() == ENTRIES;
    let place = machine.design.layout.cores[core].0.line(at);
    let written = write(machine, core, place, words, Class::LogData);
    machine.design.cores[core].writes.push(written);
    if is_full {
        end_group(machine, core);
    }
}

/// Writes the header of a group: the lines of its entries.
fn end_group(machine: &mut Machine<SspRedo>, core: usize) {
    let SspRedo { cores, layout, .. } = &mut machine.design;
    let log = &mut cores[core];
    if log.group.is_empty() {
        return;
    }
    let mut words = [log.group.len() as u64, 0, 0, 0, 0, 0, 0, 0];
    for (word, line) in words[1..].iter_mut().zip(&log.group) {
        *word = u64::from(*line);
    }
    let place = layout.cores[core].0.line(log.end);
    log.end += 1 + log.group.len() as u64;
    log.group.clear();
    let written = write(machine, core, place, words, Class::LogMeta);
    machine.design.cores[core].writes.push(written);
}

/// Waits until a core's writes to the log are durable.
fn log_is_durable(hart: &mut Hart<'_, SspRedo>) {
    let writes = std::mem::take(&mut log(hart).writes);
    writes.into_iter().for_each(|write| hart.wait_for(write));
}

/// Sends a core's commit record. Returns a token for its durability, and the commit's number.
fn commit(machine: &mut Machine<SspRedo>, core: usize) -> (When, u64) {
    let (done, written_back, since) = (machine.open_token(), machine.open_token(), machine.now());
    let SspRedo { cores, layout, number, open, beside, .. } = &mut machine.design;
    *number += 1;
    let (number, log) = (*number, &mut cores[core]);
    let left = log.lines.len();
    open.insert(number, WritingBack { core, left, since, written_back });
    (log.done, log.written_back) = (Some(done), Some(written_back));
    log.kept.push_back((number, log.first));
    let line = layout.cores[core].1.line(log.records);
    log.records += 1;
    let sum = if *beside { in_record(log.sum) } else { 0 };
    let words = [number, log.first, log.entries, sum, 0, 0, 0, 0];
    let write = Write::new(u64::from(line), words, Class::CommitRecord);
    let time = since + machine.description.l1.latency;
    let notify = Notify::Design(core, RECORD_TAG | number);
    machine.write_line(write, machine.tile(core), time, notify);
    (done, number)
}

/// Acknowledges a durable commit record.
fn acknowledge(machine: &mut Machine<SspRedo>, core: usize) {
    let there = machine.answer(0, core, Size::Control);
    let done = machine.design.cores[core].done.take().expect("the core waits for its commit");
    machine.notify(done, there);
}

/// Starts the write-back of a commit whose record and log are durable.
fn write_back_lines(machine: &mut Machine<SspRedo>, core: usize, number: u64) {
    let log = &mut machine.design.cores[core];
    log.is_open = false;
    let lines = log.lines.clone();
    for line in lines {
        let _ = machine.keep(line, false);
        let notify = Notify::Design(core, DATA_TAG | number);
        let (_, write) = machine.write_back(core, line, Class::Data, |_| {}, notify);
        if write.is_none() {
            line_written_back(machine, number);
        }
    }
}

/// Completes the write-back of a line of a commit.
fn line_written_back(machine: &mut Machine<SspRedo>, number: u64) {
    let now = machine.now();
    let going = machine.design.open.get_mut(&number).expect("the commit is being written back");
    going.left -= 1;
    let WritingBack { core, left, since, written_back } = *going;
    if left > 0 {
        return;
    }
    machine.design.open.remove(&number);
    machine.rare(BEHIND, since, now);
    let there = machine.answer(0, core, Size::Control);
    machine.notify(written_back, there);
}
