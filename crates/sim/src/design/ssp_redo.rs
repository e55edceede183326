//! `ssp-redo`: a redo log in hardware, after DHTM (Joshi, Nagarajan, Cintra, Viglas, ISCA 2018), as
//! the SSP paper (section 5.1) compares with it: data go home behind the commit.
//!
//! ```text
//!   store     its line is in the log buffer; the oldest line there leaves it into the log
//!   commit    log buffer -> log, durable;  commit record, durable
//!   behind it lines -> memory;  the next transaction of the core begins when they are there
//! ```
//! A core's log, round and round, and its commit records likewise:
//! ```text
//!   group   | entries | line | line | ... up to 7 |    and behind it those lines' words
//!   record  | number of the commit | first line of its log | entries | sum of them |
//! ```
//! The record is sent when the log is durable, and has no sum then; or with it
//! (`ssp-redo.record_beside_log`), and then recovery takes a commit whose log has that sum.
//!
//! One line says up to which commit everything is at home. It is written when a core's log is half
//! full, and what it covers is room from then on. A commit takes two lines of the log or more, so
//! with a record for each two of them there is one for every commit that the log has.
//!
//! Invariants:
//! - Lines of an open transaction stay in the caches: the last one keeps them.
//! - When a commit record is durable, so is its log; or it says by the sum whether that is.
//! - Commits are numbered in the order in which their records are sent, which is that of the locks;
//!   everything is at home up to a number when it is for each commit up to there. Otherwise
//!   recovery could put an older commit's line over a younger one's.
//!
//! Recovery writes, in the order of their numbers, what the logs of all commits say that may not be
//! at home. A record whose log is not there is of a transaction that nobody was told of, and nobody
//! came behind it, for it has its locks. Its number is not used again: the record stays.
//!
//! A transaction that the last cache cannot keep has a log in software, and its commit word waits
//! until all that was committed before is known to be at home. Why neither log undoes what the
//! other has done:
//! - What software has committed is overwritten by no commit from before its last lock: these are
//!   at home by then, and recovery does not redo them. A commit that recovery redoes has a later
//!   number, so its record was sent when software had all its locks: it wrote other lines, or it
//!   had the lock after software and saw what that had written.
//! - What software has not committed is undone after everything was redone, to what its lines were
//!   when software had their locks: no commit of hardware has written them since.
//! - Nobody waits for each other: commits go home without a lock.

use std::collections::{BTreeMap, VecDeque};

use words::Stop;

use super::soft_log::{self, SoftLog};
use super::striped::Striped;
use super::{Design, ON_ITS_WAY};
use crate::machine::controller::{Class, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::memory::{LineWords, line_of};
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Tell};
use crate::mutants::{Mutant, planted};
use crate::persist::{Cut, Persistent};

/// Entries of a group.
const ENTRIES: usize = 7;

// What it does rarely.
const LEAVES: &str = "a line leaves the log buffer before the commit";
const BEHIND: &str = "lines of a commit are not at home";
const FULL: &str = "a log is half full: memory is told what is at home";
const SOFTWARE: &str = "software waits until what is committed is at home";

// Who wants to know of a write: the upper bits of its tag.
const RECORD_TAG: u64 = 1 << 56;
const DATA_TAG: u64 = 2 << 56;

/// The design's state.
#[derive(Debug)]
pub struct SspRedo {
    layout: Layout,
    /// Lines of a log buffer.
    buffer: usize,
    /// A transaction begins when its predecessor's lines are at home.
    waits: bool,
    /// A commit record is sent with the log, and not behind it.
    beside: bool,
    cores: Vec<Log>,
    /// The last commit's number, and those that are not at home.
    number: u64,
    open: BTreeMap<u64, Going>,
    /// For transactions whose lines the last cache cannot keep.
    soft: SoftLog,
}

/// A commit that is not at home.
#[derive(Clone, Copy, Debug)]
struct Going {
    core: usize,
    /// Lines that are on their way; none before the record is durable.
    left: usize,
    since: Time,
    /// Told when they are there.
    home: When,
}

/// A core's log.
#[derive(Clone, Debug, Default)]
struct Log {
    /// Stores are those of a transaction; its lines may not go home yet; the last cache could not
    /// keep one.
    runs: bool,
    is_open: bool,
    too_large: bool,
    /// Lines of the transaction, and those of them that are in the log buffer, oldest first.
    lines: Vec<u32>,
    buffer: VecDeque<u32>,
    /// Lines of the log that were written, ever; where the transaction's begin.
    end: u64,
    first: u64,
    /// The entries of the group that is not full, and how many there are in all.
    group: Vec<u32>,
    entries: u64,
    /// Of all of them.
    sum: u32,
    /// Writes of the log that are not known to be durable.
    writes: Vec<When>,
    /// Commits whose log is kept: their numbers, and where that begins.
    kept: VecDeque<(u64, u64)>,
    /// Commit records, ever.
    records: u64,
    /// Told when the record is durable, and when the lines are at home.
    done: Option<When>,
    home: Option<When>,
}

/// Where everything lies.
#[derive(Clone, Debug)]
struct Layout {
    heap: u32,
    /// The line that says what is at home.
    home: u32,
    /// Each core's log and records.
    cores: Vec<(Striped, Striped)>,
    /// Half of a core's log: a transaction has room for so many lines.
    half: u64,
    /// The first line of the log in software.
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
        // One is half as long as the other: no commit takes fewer than two lines.
        let cores = (0..description.cores).map(|_| (region(2 * half), region(half))).collect();
        Layout { heap: extra, home: extra, cores, half: u64::from(half), soft: end }
    }
}

impl Design for SspRedo {
    const NAME: &'static str = "ssp-redo";
    const ABOUT: &'static str = "redo logging in hardware: data go home behind the commit (DHTM)";
    const MACHINE: &'static str = "ssp";
    const PARAMETERS: &'static [&'static str] = &["ssp-redo"];
    const RARE: &'static [&'static str] = &[LEAVES, BEHIND, FULL, SOFTWARE];

    fn fits(description: &Description) -> Result<(), &'static str> {
        if description.network.columns != 0 || description.nvm.channels != 1 {
            return Err("all cores write the line that says what is at home, and the younger of \
                        two writes must not arrive first: `network.columns` must be 0 and \
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
        if !planted(Mutant::SspForgetsNumbers) {
            // All that was committed is at home: no record that is there has a later number.
            design.number = state.line(design.layout.home)[0];
        }
        design.soft = SoftLog::resumed(description, design.layout.soft, state);
        Some(design)
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        hart.fence();
        if hart.machine().design.waits
            && let Some(home) = log(hart).home.take()
        {
            hart.wait_for(home);
        }
        if let Some(number) = too_old(hart)
            && !planted(Mutant::SspRedoKeepsNothing)
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
        // Whether a line is kept shows when its store has drained: for the last ones that is here.
        hart.fence();
        if log(hart).too_large { Err(Stop::TooLarge) } else { Ok(()) }
    }

    fn falls_back(hart: &mut Hart<'_, Self>) {
        let log = log(hart);
        (log.runs, log.is_open, log.too_large) = (false, false, false);
        log.buffer.clear();
        log.group.clear();
        log.writes.clear();
        // What was begun is not used again before what is around it.
        log.end += 1 + ENTRIES as u64;
        let lines = std::mem::take(&mut log.lines);
        for line in lines {
            let _ = hart.machine().keep(line, false);
        }
        if planted(Mutant::SspRedoSoftwareEarly) {
            all_at_home(hart);
        }
    }

    fn software_commits(hart: &mut Hart<'_, Self>) {
        if !planted(Mutant::SspRedoSoftwareEarly) {
            all_at_home(hart);
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
        if open.any(|log| log.lines.contains(&line)) && !planted(Mutant::SspRedoLetsLinesGo) {
            machine.fail("a line of a transaction leaves the last cache: make that larger");
        }
        false
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        // Its stores have drained, or are those of one that was given up.
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
        if !beside && !planted(Mutant::SspRedoRecordFirst) {
            log_is_durable(hart);
        }
        hart.enter(Phase::Commit);
        let (done, number) = commit(hart.machine(), core);
        hart.wait_for(done);
        if beside {
            log_is_durable(hart);
            go_home(hart.machine(), core, number);
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
        if is_new && !planted(Mutant::SspRedoLetsLinesGo) && !machine.keep(line, true) {
            machine.design.cores[core].too_large = true;
        }
        if let Some(line) = leaves {
            let now = machine.now();
            machine.rare(LEAVES, now, now + ON_ITS_WAY);
            append(machine, core, line);
        }
    }

    fn told(machine: &mut Machine<Self>, _: usize, core: usize, tag: u64, point: Point) {
        if point != machine.description.persist.point {
            return;
        }
        let number = tag & (RECORD_TAG - 1);
        match tag & !(RECORD_TAG - 1) {
            RECORD_TAG => {
                acknowledge(machine, core);
                if !machine.design.beside {
                    go_home(machine, core, number);
                }
            }
            _ => is_home(machine, number),
        }
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        let layout = Layout::new(description, extra);
        let home = state.line(layout.home)[0];
        let mut commits = BTreeMap::new();
        for (log, records) in &layout.cores {
            for record in 0..u64::from(records.lines()) {
                let [number, first, entries, sum, ..] = state.line(records.line(record));
                if number > home {
                    commits.insert(number, (log, first, entries, sum));
                }
            }
        }
        for (log, first, entries, sum) in commits.values() {
            let logged = logged(log, *first, *entries, state);
            if *sum == 0 || *sum == sum_of(&logged) || planted(Mutant::SspRedoTrustsRecords) {
                logged.into_iter().try_for_each(|(line, words)| state.set_line(line, words))?;
            }
        }
        if let Some((last, _)) = commits.last_key_value() {
            state.set_line(layout.home, [*last, 0, 0, 0, 0, 0, 0, 0])?;
        }
        soft_log::recover(description, layout.soft, state)
    }
}

/// What a commit's log says: lines and their words.
fn logged(log: &Striped, first: u64, entries: u64, state: &Persistent) -> Vec<(u32, LineWords)> {
    let (mut at, mut logged) = (first, Vec::new());
    while (logged.len() as u64) < entries {
        let [count, lines @ ..] = state.line(log.line(at));
        // Only a log that is not there says something else.
        let count = count.clamp(1, ENTRIES as u64).min(entries - logged.len() as u64);
        let of_it = (1..=count).zip(lines);
        logged.extend(of_it.map(|(behind, line)| (line as u32, state.line(log.line(at + behind)))));
        at += 1 + count;
    }
    logged
}

/// A commit's sum, as its record has it: never 0.
fn sum_of(logged: &[(u32, LineWords)]) -> u64 {
    in_record(logged.iter().fold(0, |sum, (line, words)| add_to(sum, *line, words)))
}

fn in_record(sum: u32) -> u64 {
    1 << 32 | u64::from(sum)
}

/// The sum of entries (CRC-32C) with one more.
fn add_to(sum: u32, line: u32, words: &LineWords) -> u32 {
    let bytes = std::iter::once(u64::from(line)).chain(*words).flat_map(u64::to_le_bytes);
    crc32c::crc32c_append(sum, &bytes.collect::<Vec<u8>>())
}

fn log<'h>(hart: &'h mut Hart<'_, SspRedo>) -> &'h mut Log {
    let core = hart.core();
    &mut hart.machine().design.cores[core]
}

/// The last commit of a core whose log must not be kept any more, if there is one: from there on it
/// takes more than half of the region.
fn too_old(hart: &mut Hart<'_, SspRedo>) -> Option<u64> {
    let half = hart.machine().design.layout.half;
    let log = log(hart);
    let old = log.kept.iter().take_while(|(_, first)| log.end - first > half);
    old.last().map(|(number, _)| *number)
}

/// Waits until memory knows that all that has been committed is at home.
fn all_at_home(hart: &mut Hart<'_, SspRedo>) {
    let (since, number) = (hart.cycle(), hart.machine().design.number);
    make_room(hart, number);
    let until = hart.cycle();
    hart.machine().rare(SOFTWARE, since, until);
}

/// Waits until everything is at home up to a commit, and makes it durable that it is, up to as many
/// more as by chance are: the logs of these are room. That is one write, however long it takes.
fn make_room(hart: &mut Hart<'_, SspRedo>, number: u64) {
    let waits: Vec<When> =
        hart.machine().design.open.range(..=number).map(|(_, going)| going.home).collect();
    waits.into_iter().for_each(|home| hart.wait_for(home));
    let core = hart.core();
    let machine = hart.machine();
    let SspRedo { open, number, layout, .. } = &machine.design;
    let home = open.first_key_value().map_or(*number, |(first, _)| first - 1);
    let line = layout.home;
    let done = write(machine, core, line, [home, 0, 0, 0, 0, 0, 0, 0], Class::LogMeta);
    machine.counts.add("home_lines", 1);
    hart.wait_for(done);
    for log in &mut hart.machine().design.cores {
        while log.kept.front().is_some_and(|(number, _)| *number <= home) {
            log.kept.pop_front();
        }
    }
}

/// Sends a line of a core's log to memory. Answers when the core knows that it is durable.
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
    machine.write_line(write, machine.tile(core), time, Tell::Core(core, done));
    done
}

/// Puts a line as it is now into a core's log. A transaction takes no more than half of that, with
/// its group that is not full: the other half may be what is kept, and is not written over.
fn append(machine: &mut Machine<SspRedo>, core: usize, line: u32) {
    let words = machine.memory.line(line);
    let SspRedo { cores, layout, .. } = &mut machine.design;
    let log = &mut cores[core];
    let taken = log.end + log.group.len() as u64 + 2 - log.first;
    if taken > layout.half && !planted(Mutant::SspRedoTakesMore) {
        return machine.fail("a transaction writes more lines than the log of its core holds");
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

/// Writes which lines a group has.
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

/// Waits until what a core has logged is durable.
fn log_is_durable(hart: &mut Hart<'_, SspRedo>) {
    let writes = std::mem::take(&mut log(hart).writes);
    writes.into_iter().for_each(|write| hart.wait_for(write));
}

/// Sends a core's commit record. Answers a token that is told when it is durable, and the commit's
/// number.
fn commit(machine: &mut Machine<SspRedo>, core: usize) -> (When, u64) {
    let (done, home, since) = (machine.open_token(), machine.open_token(), machine.now());
    let SspRedo { cores, layout, number, open, beside, .. } = &mut machine.design;
    *number += 1;
    let (number, log) = (*number, &mut cores[core]);
    let left = log.lines.len();
    open.insert(number, Going { core, left, since, home });
    (log.done, log.home) = (Some(done), Some(home));
    log.kept.push_back((number, log.first));
    let line = layout.cores[core].1.line(log.records);
    log.records += 1;
    let sum = if *beside { in_record(log.sum) } else { 0 };
    let words = [number, log.first, log.entries, sum, 0, 0, 0, 0];
    let write = Write::new(u64::from(line), words, Class::CommitRecord);
    let time = since + machine.description.l1.latency;
    let tell = Tell::Design(core, RECORD_TAG | number);
    machine.write_line(write, machine.tile(core), time, tell);
    (done, number)
}

/// A commit record is durable.
fn acknowledge(machine: &mut Machine<SspRedo>, core: usize) {
    let there = machine.answer(0, core, Size::Control);
    let done = machine.design.cores[core].done.take().expect("it waits");
    machine.tell(done, there);
}

/// A commit's record and log are durable: its lines go home.
fn go_home(machine: &mut Machine<SspRedo>, core: usize, number: u64) {
    let log = &mut machine.design.cores[core];
    log.is_open = false;
    let lines = log.lines.clone();
    for line in lines {
        let _ = machine.keep(line, false);
        let tell = Tell::Design(core, DATA_TAG | number);
        let (_, write) = machine.write_back(core, line, Class::Data, |_| {}, tell);
        if write.is_none() {
            is_home(machine, number);
        }
    }
}

/// A line of a commit is at home.
fn is_home(machine: &mut Machine<SspRedo>, number: u64) {
    let now = machine.now();
    let going = machine.design.open.get_mut(&number).expect("it is on its way");
    going.left -= 1;
    let Going { core, left, since, home } = *going;
    if left > 0 {
        return;
    }
    machine.design.open.remove(&number);
    machine.rare(BEHIND, since, now);
    let there = machine.answer(0, core, Size::Control);
    machine.tell(home, there);
}
