//! `lad-llc`: LAD's commit protocol with a persistent last cache. A commit writes nothing to
//! memory.
//!
//! The LAD paper (section 5) uses this combination of Kiln's persistent cache with LAD's protocol
//! as an upper bound.
//!
//! ```text
//!   L1 --flush: a marked line--> home bank: held for the transaction    bank --evict--> memory
//!   commit: all flushes acknowledged; a message to all banks; the first to acknowledge commits
//! ```
//! A bank stores each line with the number of the transaction that wrote it. A committed version
//! that is not in memory yet may precede a held line in its bank. The held line then takes another
//! way of the set. The older version is the only durable copy until the commit releases it.
//!
//! Invariants:
//! - A held line leaves its bank only through a younger version of its transaction, or through the
//!   commit.
//! - A committed line stays in its bank until a controller has accepted it.
//!
//! The banks survive a power failure. Recovery takes, per core, the largest number in any bank's
//! register, and applies the committed lines to the heap image, oldest first.
//!
//! Choices where the paper is silent:
//! - If a set has no way for the older version, that version is written to memory first. The
//!   younger one reaches its bank after a controller has accepted the older one. This counts as a
//!   fallback.
//! - A set whose ways are all held stops the run with an error. The paper's transactions are too
//!   small for that case.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Design;
use super::dtx::{self, Dtx, Stages, dtx, owner, parts};
use crate::machine::cache::{MARKED, State};
use crate::machine::controller::{Class, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::memory::{LineWords, line_of};
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Notify};
use crate::mutants::{Mutant, injected};
use crate::persist::{Change, Cut, Failing, Persistent, Queued};

// Rarely taken paths.
const LEAVES: &str = "a marked line leaves its cache";
const ASKED: &str = "another core asks for a marked line";
const SECOND: &str = "a line has two versions in the last cache";
const EVICTED: &str = "a committed line leaves the last cache";
const PARTIAL: &str = "some banks know of a commit";
const NO_WAY: &str = "a line waits until its older version is in memory";

/// State of the design.
#[derive(Debug)]
pub struct LadLlc {
    cores: Vec<Thread>,
    /// Versions of each line in the banks, oldest first.
    kept: FxHashMap<u32, Vec<Version>>,
    /// The transaction that holds each held line. A later transaction of the same core may have
    /// staged the line before a bank knows of the commit.
    holders: FxHashMap<u32, u64>,
    /// Events at the banks, by time, then by order of sending.
    next: BTreeMap<(Time, u64), Event>,
    /// Lines that wait until a version, by its number, is in memory, and since when.
    waiting: FxHashMap<u64, Vec<(Time, Event)>>,
    /// Numbers versions and events.
    count: u64,
}

/// A core's transaction, and the lines that are held for it.
#[derive(Clone, Debug, Default)]
struct Thread {
    dtx: Dtx,
    held: Vec<u32>,
}

/// A version of a line in a bank.
#[derive(Clone, Debug)]
struct Version {
    number: u64,
    owner: u64,
    payload: LineWords,
    since: Time,
}

/// An arrival at a bank.
#[derive(Clone, Debug)]
enum Event {
    /// A flushed line.
    Flushed { core: usize, line: u32, version: Version, token: When },
    /// A commit, with the lines that all banks hold for it.
    Commit { core: usize, bank: usize, number: u64, lines: Vec<u32>, token: When },
}

impl Stages for LadLlc {
    fn dtx(&mut self, core: usize) -> &mut Dtx {
        &mut self.cores[core].dtx
    }

    fn stage(machine: &mut Machine<Self>, core: usize, line: u32) {
        stage(machine, core, line);
    }
}

impl Design for LadLlc {
    const NAME: &'static str = "lad-llc";
    const ABOUT: &'static str = "LAD's commit to a last cache that is persistent (Kiln)";
    const MACHINE: &'static str = "lad";
    const LLC_IS_PERSISTENT: bool = true;
    const RARE: &'static [&'static str] = &[LEAVES, SECOND, EVICTED, PARTIAL, NO_WAY];

    fn fits(description: &Description) -> Result<(), &'static str> {
        let sets = description.llc.bytes / 64 / u64::from(description.llc.ways);
        if description.l2.is_some() || description.llc.inclusive {
            return Err("it marks lines in the only private cache, which the last cache must \
                        not include: `l2` must be absent and `llc.inclusive` false");
        }
        if !sets.is_power_of_two() {
            return Err("two versions of a line share a set: the last cache's sets must be a \
                        power of two");
        }
        match description.persist.point {
            Point::Accepted => Ok(()),
            Point::Media => {
                Err("its controllers have batteries: `persist.point` must be `accepted`")
            }
        }
    }

    fn new(description: &Description, _: u32) -> LadLlc {
        LadLlc {
            cores: vec![Thread::default(); description.cores],
            kept: FxHashMap::default(),
            holders: FxHashMap::default(),
            next: BTreeMap::new(),
            waiting: FxHashMap::default(),
            count: 0,
        }
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        let mut design = Self::new(description, extra);
        dtx::resume(&mut design, description, 0..description.llc.banks, state);
        Some(design)
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        hart.settle();
        dtx(hart).begin();
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        hart.settle();
        hart.enter(Phase::Prepare);
        dtx::flush(hart);
        dtx(hart).runs = false;
        if !dtx(hart).staged {
            return;
        }
        hart.enter(Phase::Commit);
        let core = hart.core();
        let tokens = notify_banks(hart.machine(), core);
        hart.wait_for_first(&tokens);
    }

    fn drained(machine: &mut Machine<Self>, core: usize, word: u64, _: u64) {
        let line = line_of(word);
        if machine.design.cores[core].dtx.runs && machine.memory.is_nvm(line) {
            machine.mark(core, line, true);
        }
    }

    fn leaves_core(machine: &mut Machine<Self>, core: usize, line: u32, state: State) -> bool {
        let marked = state & MARKED != 0;
        if marked {
            stage(machine, core, line);
            let now = machine.now();
            machine.rare(LEAVES, now, now + 20);
        }
        marked
    }

    fn asked(machine: &mut Machine<Self>, core: usize, line: u32) {
        if machine.mark(core, line, false) == Some(true) {
            stage(machine, core, line);
            let now = machine.now();
            machine.rare(ASKED, now, now + 20);
        }
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        let now = machine.now();
        if write_last(machine, line).is_none() {
            return false;
        }
        machine.rare(EVICTED, now, now + 20);
        true
    }

    fn notified(machine: &mut Machine<Self>, _: usize, _: usize, tag: u64, point: Point) {
        if point == Point::Accepted {
            let (line, number) = ((tag >> 32) as u32, tag & u64::from(u32::MAX));
            drop_version(machine, line, number);
            let now = machine.now();
            for (since, event) in machine.design.waiting.remove(&number).unwrap_or_default() {
                machine.rare(NO_WAY, since, now);
                send(machine, now, event);
            }
        }
    }

    fn engine(machine: &mut Machine<Self>, engine: usize) {
        let now = machine.now();
        while let Some(entry) = machine.design.next.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Event::Flushed { core, line, version, token } => {
                    flushed(machine, core, line, version, token);
                }
                Event::Commit { core, bank, number, lines, token } => {
                    committed(machine, core, bank, number, lines, token);
                }
            }
        }
        if let Some((&(time, _), _)) = machine.design.next.first_key_value() {
            machine.schedule_engine(engine, time);
        }
    }

    fn power_fails(_: &Description, state: &mut Failing) {
        for queued in state.take_queues().into_iter().flatten() {
            state.save_line(queued.line, queued.payload);
        }
        for kept in state.take_kept() {
            state.save(0, kept);
        }
    }

    fn recover(description: &Description, _: u32, state: &mut Persistent) -> Result<(), Cut> {
        let banks = 0..description.llc.banks;
        let first = if injected(Mutant::LlcOneBank) { banks.end - 1 } else { 0 };
        let committed = dtx::committed(description, first..banks.end, state);
        for kept in state.saved(0).to_vec() {
            let (core, number) = parts(kept.owner);
            if number <= committed[core as usize] {
                state.set_line(kept.line, kept.payload)?;
            }
        }
        state.clear_saved()?;
        dtx::set_committed(&committed, banks, state)
    }
}

/// Sends a line of the core's transaction to its bank, where a way is reserved for it from now on.
/// If the set has no way for an older version besides, the older version goes to memory first.
fn stage(machine: &mut Machine<LadLlc>, core: usize, line: u32) {
    let now = machine.now();
    let arrives = machine.to_home_tile(core, line);
    let owner = owner(core, machine.design.cores[core].dtx.number);
    let kept = machine.design.kept.get(&line);
    let has_older = kept.is_some_and(|kept| kept.iter().any(|version| version.owner != owner));
    let mut first = None;
    if !machine.hold(line, has_older) {
        machine.counts.fallbacks += 1;
        first = write_last(machine, line);
        if first.is_none() || !machine.hold(line, false) {
            machine.fail("all ways of a set of the last cache are held: make `llc.ways` larger");
        }
    }
    machine.clean_private(core, line);
    machine.design.holders.insert(line, owner);
    let token = machine.open_token();
    machine.design.count += 1;
    let payload = machine.memory.line(line);
    let version = Version { number: machine.design.count, owner, payload, since: now };
    let Thread { dtx, held } = &mut machine.design.cores[core];
    dtx.flushes.push(token);
    dtx.staged = true;
    held.push(line);
    let event = Event::Flushed { core, line, version, token };
    match first {
        Some(number) if injected(Mutant::LlcNoWait) => {
            drop_version(machine, line, number);
            send(machine, arrives, event);
        }
        Some(number) => machine.design.waiting.entry(number).or_default().push((now, event)),
        None => send(machine, arrives, event),
    }
}

/// Schedules an arrival at a bank.
fn send(machine: &mut Machine<LadLlc>, time: Time, event: Event) {
    machine.design.count += 1;
    let key = (time, machine.design.count);
    machine.design.next.insert(key, event);
    machine.schedule_engine(0, time);
}

/// Sends the last version of a line to memory, if a bank has any. Returns the version's number.
fn write_last(machine: &mut Machine<LadLlc>, line: u32) -> Option<u64> {
    let now = machine.now();
    let version = machine.design.kept.get(&line)?.last()?;
    let (number, payload) = (version.number, version.payload);
    if machine.design.waiting.contains_key(&number) {
        return Some(number);
    }
    let write = Write::new(u64::from(line), payload, Class::Data);
    let home = machine.home_tile(line);
    machine.write_line(write, home, now, Notify::Design(0, u64::from(line) << 32 | number));
    Some(number)
}

/// Stores a flushed line in its bank and acknowledges it.
fn flushed(machine: &mut Machine<LadLlc>, core: usize, line: u32, version: Version, token: When) {
    let Version { number, owner, payload, .. } = version;
    let queued = Queued { id: number, line, owner, payload };
    machine.changed(Change::Kept { queued });
    let kept = machine.design.kept.entry(line).or_default();
    let in_place = injected(Mutant::LlcInPlace);
    let younger = kept.iter().position(|version| in_place || version.owner == owner);
    let before = younger.map(|at| kept.remove(at).number);
    kept.push(version);
    if let Some(number) = before {
        machine.changed(Change::Dropped { number });
    }
    let (home, tile) = (machine.home_tile(line), machine.tile(core));
    let there = machine.send_now(home, tile, Size::Control);
    machine.notify(token, there);
}

/// Sends a commit to all banks. Returns a token for each acknowledgement.
fn notify_banks(machine: &mut Machine<LadLlc>, core: usize) -> Vec<When> {
    let number = machine.design.dtx(core).number;
    let mut held = std::mem::take(&mut machine.design.cores[core].held);
    held.sort_unstable();
    held.dedup();
    let banks = machine.description.llc.banks as usize;
    let notify = |bank: usize| {
        let token = machine.open_token();
        let tile = machine.tile(core);
        let home = machine.home_tile(bank as u32);
        let time = machine.send_now(tile, home, Size::Control) + machine.description.llc.directory;
        let of_bank = held.iter().copied().filter(|line| *line as usize % banks == bank);
        let lines = of_bank.collect();
        send(machine, time, Event::Commit { core, bank, number, lines, token });
        token
    };
    (0..banks).map(notify).collect()
}

/// Applies a commit to a bank and acknowledges it.
fn committed(
    machine: &mut Machine<LadLlc>,
    core: usize,
    bank: usize,
    number: u64,
    lines: Vec<u32>,
    token: When,
) {
    let at = (bank as u32, core as u32);
    machine.changed(Change::Register { at, value: number });
    for line in lines {
        let owner = owner(core, number);
        if machine.design.holders.get(&line) == Some(&owner) {
            machine.design.holders.remove(&line);
            machine.release_held(line);
        }
        let kept = machine.design.kept.entry(line).or_default();
        let own = kept.iter().position(|version| version.owner == owner);
        let Some(own) = own else { continue };
        let since = kept[own].since;
        let older: Vec<Version> = kept.drain(..own).collect();
        let now = machine.now();
        if !older.is_empty() {
            machine.rare(SECOND, since, now);
        }
        older.into_iter().for_each(|it| machine.changed(Change::Dropped { number: it.number }));
    }
    let (now, banks) = (machine.now(), machine.description.llc.banks as usize);
    if let Some(since) = machine.design.dtx(core).note_partial(number, now, banks) {
        machine.rare(PARTIAL, since, now);
    }
    let (home, tile) = (machine.home_tile(bank as u32), machine.tile(core));
    let there = machine.send_now(home, tile, Size::Control);
    machine.notify(token, there);
}

/// Removes a version of a line, which a controller has accepted or a battery covers.
fn drop_version(machine: &mut Machine<LadLlc>, line: u32, number: u64) {
    let Some(kept) = machine.design.kept.get_mut(&line) else { return };
    let Some(at) = kept.iter().position(|version| version.number == number) else { return };
    // Older versions go with it: in recovery they would overwrite it.
    let dropped: Vec<Version> = kept.drain(..=at).collect();
    if kept.is_empty() {
        machine.design.kept.remove(&line);
    }
    dropped.into_iter().for_each(|it| machine.changed(Change::Dropped { number: it.number }));
}
