//! `hw-redo`: a redo log in hardware, from which the controller applies data to the heap image
//! after the commit.
//!
//! The design follows WrAP (Doshi, Giles and Varman, HPCA 2016) in the form that the ReDU paper
//! (MICRO 2018, section V) builds as a baseline.
//!
//! ```text
//!   store:   new words -> log
//!   commit:  buffer -> log, commit word: durable
//!   retire:  log lines of the transaction <- NVM;  its lines -> heap image;  all there: over
//!   a modified line leaves the last cache -> victim buffer in DRAM, until its log is retired
//!   a line is read from memory:   victim buffer first (table, line), and then NVM
//! ```
//! Invariants:
//! - A transaction's words reach the heap image after its commit word is durable.
//! - A line with unapplied words is modified in the caches, is cached with the contents of the
//!   victim buffer, or is in the victim buffer alone.
//! - Transactions are retired in commit order, so the heap image ends with the youngest words.
//! - Log Start passes a transaction's records only after its lines are applied.
//!
//! Recovery applies the new words of transactions with a commit word, oldest first.
//!
//! Choices where the papers are silent:
//! - The victim buffer has as many lines as ReDU's DRAM cache. A line may take any free place; the
//!   table is a chain of one line per bucket.
//! - A transaction begins when the buffer is at most half full and has places for a quarter more
//!   lines than are unapplied. The cores share that quarter. A transaction that exceeds its core's
//!   share of it, or of the log, falls back to software (see [`log`]). All committed transactions
//!   are retired first.
//! - The controller reads sixteen transactions ahead, 32 log lines at a time, and writes
//!   `log.window` lines at a time.
//! - Words are written with a byte mask, so the rest of the line is not read.
//! - A modified line is dropped when its log is retired: the heap image has its contents.
//! - A word that was stored outside of a transaction is written with its line. Unapplied committed
//!   values of that word are dropped. A line with such words beside transactional ones is not
//!   supported: no program here has one.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use words::Stop;

use super::Design;
use super::dram::{self, Dram, InDram, MORE, WAYS};
use super::log::{self, Content, Log, Logging, Slot, parts, tag};
use super::soft_log::SoftLog;
use crate::machine::controller::{Class, Id, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::memory::{LOCK_LINES, LineWords, line_of};
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Message, Notify};
use crate::mutants::{Mutant, injected};
use crate::persist::{Cut, Persistent};

/// Kinds of tags: a read of a log line, and a write to the heap image.
const LOGGED: u64 = MORE;
const APPLY: u64 = MORE + 1;

/// Transactions that are read ahead, and log lines that are read at a time.
const AHEAD: usize = 16;
const READS: usize = 32;

const RETIRES: &str = "a transaction is being retired";
const BUFFERED: &str = "a line goes to the victim buffer";

/// State of the design.
#[derive(Debug)]
pub struct HwRedo {
    log: Log,
    dram: Dram,
    /// Unapplied words of transactions.
    logged: FxHashMap<u64, Logged>,
    /// Committed transactions in commit order, and those whose logs are being read.
    committed: VecDeque<u64>,
    reading: VecDeque<u64>,
    reads: usize,
    /// Lines to apply, in this order, and the transactions of the writes in flight.
    to_apply: VecDeque<(u64, u32)>,
    writing: FxHashMap<u64, u64>,
    numbers: u64,
    window: usize,
    /// The last transaction that logged a line, until it is retired; 0 for a plain store. Entries
    /// of plain stores stay. The caches need not hold the same version of such a line, so an older
    /// version may leave the last cache before a younger one.
    youngest: FxHashMap<u32, u64>,
    /// Lines with unapplied words, each of which may need a place in the buffer; all places; and
    /// the places that one transaction may use.
    lines: usize,
    places: usize,
    share: usize,
    /// The victim buffer, its free places, and lines in flight to it.
    victims: FxHashMap<u32, Victim>,
    free: Vec<usize>,
    coming: FxHashMap<u64, (u32, u64, LineWords)>,
}

/// The remaining work for a transaction.
#[derive(Debug, Default)]
struct Logged {
    /// New words of its lines.
    words: BTreeMap<u32, (u8, LineWords)>,
    /// Log lines to read.
    places: Vec<u32>,
    /// Outstanding reads and writes.
    left: usize,
    since: Time,
}

/// A line in the victim buffer.
#[derive(Clone, Copy, Debug)]
struct Victim {
    slot: usize,
    /// The transaction whose retirement releases the line.
    serial: u64,
    words: LineWords,
}

impl Design for HwRedo {
    const NAME: &'static str = "hw-redo";
    const ABOUT: &'static str = "redo logging in hardware, data applied from the log (WrAP)";
    const MACHINE: &'static str = "redu";
    const PARAMETERS: &'static [&'static str] = &["log", "redu.dram_cache_bytes"];
    const RARE: &'static [&'static str] =
        &[log::RARE[0], log::RARE[1], log::RARE[2], log::RARE[3], RETIRES, BUFFERED];

    fn fits(description: &Description) -> Result<(), &'static str> {
        if description.dram.is_none() {
            return Err("its victim buffer lies in DRAM: the machine must have a `dram` table");
        }
        log::fits(description)
    }

    fn extra_lines(description: &Description) -> u32 {
        log::lines(description)
    }

    fn volatile_lines(description: &Description) -> u32 {
        Dram::lines(description)
    }

    fn new(description: &Description, extra: u32) -> HwRedo {
        let dram = Dram::new(description, extra + log::lines(description) + LOCK_LINES);
        let free: Vec<usize> = (0..dram.buckets as usize * WAYS).rev().collect();
        HwRedo {
            log: Log::new(description, extra, Content::New),
            share: free.len() / 4 / description.cores,
            places: free.len(),
            lines: 0,
            dram,
            logged: FxHashMap::default(),
            committed: VecDeque::new(),
            reading: VecDeque::new(),
            reads: 0,
            to_apply: VecDeque::new(),
            writing: FxHashMap::default(),
            numbers: 0,
            window: log::window(description),
            youngest: FxHashMap::default(),
            victims: FxHashMap::default(),
            free,
            coming: FxHashMap::default(),
        }
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        Some(log::resumed(description, extra, state))
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        log::begin(hart);
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
        if !log::end_body(hart) {
            return;
        }
        hart.enter(Phase::Commit);
        let core = hart.core();
        log::drain(hart.machine(), core);
        let token = log::commit(hart.machine(), core);
        hart.wait_for(token);
        log::beside_software(hart);
    }

    fn waits(machine: &mut Machine<Self>, core: usize, word: u64, _: When) -> Option<When> {
        log::waits(machine, core, word)
    }

    fn drained(machine: &mut Machine<Self>, core: usize, word: u64, old: u64) {
        let line = line_of(word);
        let serial = match log::note(machine, core, word, old) {
            true => machine.design.log.running(core).expect("a logged store has a transaction"),
            false => 0,
        };
        if machine.memory.is_nvm(line) {
            machine.design.stored(line, serial);
            if serial == 0 {
                machine.design.forget(line, word as usize % 8);
            }
        }
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        if !machine.memory.is_nvm(line) {
            return false;
        }
        let Some(&serial) = machine.design.youngest.get(&line) else { return true };
        if serial == 0 {
            return false;
        }
        machine.design.numbers += 1;
        let (number, now) = (machine.design.numbers, machine.now());
        let words = machine.memory.line(line);
        machine.design.coming.insert(number, (line, serial, words));
        machine.send_from_home_tile(0, (line, Size::Data), now, [number, 0]);
        machine.rare(BUFFERED, now, now + 100);
        true
    }

    fn fill(machine: &mut Machine<Self>, _: usize, line: u32, read: Id) -> bool {
        if injected(Mutant::DramNotLookedUp) {
            return false;
        }
        let found = machine.design.victims.get(&line).map(|victim| (victim.slot, victim.words));
        machine.counts.add("dram_look_ups", 1);
        machine.counts.add("dram_read_hits", u64::from(found.is_some()));
        dram::look_up(machine, line, read, found, false);
        true
    }

    fn has_read(machine: &mut Machine<Self>, _: usize, _: u32, tag: u64) {
        let (kind, serial) = parts(tag);
        if !dram::has_read(machine, tag) && kind == LOGGED {
            machine.design.reads -= 1;
            machine.design.logged.get_mut(&serial).expect("its log is being read").left -= 1;
            go_on(machine);
        }
    }

    fn notified(machine: &mut Machine<Self>, _: usize, _: usize, tag: u64, point: Point) {
        let (kind, number) = parts(tag);
        if log::write_reached(machine, tag, point) || dram::write_reached(machine, tag, point) {
            return;
        }
        if kind == APPLY && point == machine.description.persist.point {
            line_applied(machine, number);
        }
    }

    fn message(machine: &mut Machine<Self>, _: usize, _: usize, [message, _]: Message) {
        if !log::message(machine, message) {
            buffer(machine, message);
        }
    }

    fn backlog(&self) -> u64 {
        let lines = self.logged.values().map(|logged| logged.words.len() as u64);
        lines.sum::<u64>() + self.victims.len() as u64
    }

    fn is_warm(&self) -> bool {
        self.log.has_wrapped()
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        log::recover(description, extra, Content::New, state)
    }
}

impl InDram for HwRedo {
    fn dram(&mut self) -> &mut Dram {
        &mut self.dram
    }
}

impl Logging for HwRedo {
    fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    fn appended(&mut self, serial: u64, slot: &Slot, places: Vec<u32>) {
        let logged = self.logged.entry(serial).or_default();
        logged.places.extend(places);
        let (mask, words) = logged.words.entry(slot.line).or_default();
        *mask |= slot.mask;
        for at in (0..8).filter(|at| slot.mask >> at & 1 != 0) {
            words[at] = slot.new[at];
        }
    }

    fn may_begin(&self) -> bool {
        let is_half_free = self.victims.len() + self.coming.len() <= self.free.len();
        is_half_free && 4 * self.lines <= 3 * self.places
    }

    fn has_place(hart: &mut Hart<'_, Self>, _: u64) -> bool {
        // `lines` already counts the line of the next store.
        hart.lines().len() <= hart.machine().design.share
    }

    fn expedite(machine: &mut Machine<Self>, record: u64) -> bool {
        // Retirement runs at full speed already.
        !machine.design.log.ended_before(record).is_empty()
    }

    fn forgets(hart: &mut Hart<'_, Self>) {
        let (core, lines) = (hart.core(), hart.lines().to_vec());
        let machine = hart.machine();
        let serial = machine.design.log.last(core);
        machine.design.logged.remove(&serial);
        for line in lines {
            forget_writer(machine, line, serial);
            if !injected(Mutant::VictimsStay) {
                leaves_buffer(machine, line, serial);
            }
        }
        if machine.design.may_begin() {
            log::room_again(machine);
        }
    }

    fn committed(machine: &mut Machine<Self>, serial: u64) {
        machine.design.committed.push_back(serial);
        go_on(machine);
    }
}

impl HwRedo {
    /// Records a store to a line by this transaction; 0 stands for a store outside of any.
    fn stored(&mut self, line: u32, serial: u64) {
        let before = self.youngest.insert(line, serial);
        self.lines += usize::from(serial != 0);
        self.lines -= usize::from(before.is_some_and(|before| before != 0));
    }

    /// Drops the unapplied committed values of a word. A store outside of any transaction has
    /// replaced them and must not be overwritten.
    fn forget(&mut self, line: u32, at: usize) {
        for logged in self.logged.values_mut() {
            if let Some((mask, _)) = logged.words.get_mut(&line) {
                *mask &= !(1 << at);
            }
        }
    }
}

/// Inserts a line that has reached the victim buffer.
fn buffer(machine: &mut Machine<HwRedo>, number: u64) {
    let design = &mut machine.design;
    let (line, serial, words) =
        design.coming.remove(&number).expect("each message announces a line");
    if !design.log.is_live(serial) {
        // Its log was retired meanwhile, so the heap image has the line.
        return;
    }
    let slot = match design.victims.get(&line) {
        Some(victim) => victim.slot,
        None => match design.free.pop() {
            Some(slot) => slot,
            None => return log::cannot_hold(machine),
        },
    };
    machine.design.victims.insert(line, Victim { slot, serial, words });
    machine.counts.add("dram_writes_of_lines", 1);
    dram::put(machine, slot, None);
}

/// Continues retirement: reads logs ahead and applies what was read, in commit order.
fn go_on(machine: &mut Machine<HwRedo>) {
    loop {
        let now = machine.now();
        let design = &mut machine.design;
        while design.reading.len() < AHEAD {
            let Some(serial) = design.committed.pop_front() else { break };
            let logged = design.logged.get_mut(&serial).expect("a commit has entries");
            logged.places.sort_unstable();
            logged.places.dedup();
            logged.left = logged.places.len();
            logged.since = now;
            design.reading.push_back(serial);
        }
        read_logs(machine);
        let design = &mut machine.design;
        let Some(&first) = design.reading.front() else { break };
        if design.logged[&first].left > 0 {
            break;
        }
        design.reading.pop_front();
        let logged = design.logged.get_mut(&first).expect("its log was read");
        logged.left = logged.words.len();
        let lines: Vec<u32> = logged.words.keys().copied().collect();
        design.to_apply.extend(lines.into_iter().map(|line| (first, line)));
    }
    apply_lines(machine);
}

/// Reads log lines of the transactions to retire, the oldest first.
fn read_logs(machine: &mut Machine<HwRedo>) {
    for at in 0..machine.design.reading.len() {
        let serial = machine.design.reading[at];
        while machine.design.reads < READS {
            let logged = machine.design.logged.get_mut(&serial).expect("its log is being read");
            let Some(line) = logged.places.pop() else { break };
            machine.design.reads += 1;
            machine.counts.add("log_retire_reads", 1);
            machine.read_array(line, tag(LOGGED, serial));
        }
    }
}

/// Writes lines to the heap image in order, up to the window.
fn apply_lines(machine: &mut Machine<HwRedo>) {
    let window = match injected(Mutant::RetireYoungestFirst) {
        // One write at a time, so that the queue can hold a younger transaction's line.
        true => 1,
        false => machine.design.window,
    };
    while machine.design.writing.len() < window {
        let design = &mut machine.design;
        let next = match injected(Mutant::RetireYoungestFirst) {
            true => design.to_apply.pop_back(),
            false => design.to_apply.pop_front(),
        };
        let Some((serial, line)) = next else { break };
        design.numbers += 1;
        let number = design.numbers;
        design.writing.insert(number, serial);
        let (mask, words) = design.logged[&serial].words[&line];
        // The other words keep the contents of the youngest queued write of the line.
        let stored = machine.stored_line(0, line);
        let mut image = stored.unwrap_or_else(|| machine.memory.line(line));
        (0..8).filter(|at| mask >> at & 1 != 0).for_each(|at| image[at] = words[at]);
        let write = Write::new(u64::from(line), image, Class::Data);
        machine.log(0, write, Notify::Design(0, tag(APPLY, number)));
    }
}

/// Completes the write of a line. The last line retires its transaction.
fn line_applied(machine: &mut Machine<HwRedo>, number: u64) {
    let now = machine.now();
    let design = &mut machine.design;
    let serial = design.writing.remove(&number).expect("a write completes once");
    let logged = design.logged.get_mut(&serial).expect("its transaction is being retired");
    logged.left -= 1;
    if logged.left == 0 {
        let Logged { words, since, .. } =
            design.logged.remove(&serial).expect("its transaction is being retired");
        for line in words.into_keys() {
            forget_writer(machine, line, serial);
            leaves_buffer(machine, line, serial);
        }
        machine.rare(RETIRES, since, now);
        log::finish(machine, serial);
        if machine.design.may_begin() {
            log::room_again(machine);
        }
        log::look_again(machine);
    }
    apply_lines(machine);
    go_on(machine);
}

/// Forgets a transaction as the last writer of this line. The heap image has the line, or the
/// transaction was dropped.
fn forget_writer(machine: &mut Machine<HwRedo>, line: u32, serial: u64) {
    let design = &mut machine.design;
    if design.youngest.get(&line) == Some(&serial) {
        design.youngest.remove(&line);
        design.lines -= 1;
    }
}

/// Removes this line from the victim buffer if its last writer there is this transaction.
fn leaves_buffer(machine: &mut Machine<HwRedo>, line: u32, serial: u64) {
    let design = &mut machine.design;
    if design.victims.get(&line).is_some_and(|victim| victim.serial == serial) {
        let victim = design.victims.remove(&line).expect("the line was found above");
        design.free.push(victim.slot);
        dram::forget(machine, victim.slot);
    }
}
