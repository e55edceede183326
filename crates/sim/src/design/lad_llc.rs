//! `lad-llc`: LAD's commit with the last cache as what is persistent: nothing goes to memory for a
//! commit's sake. (LAD, section 5: Kiln's idea with LAD's protocol, the bound that the paper
//! compares with.)
//!
//! ```text
//!   L1 --flush: a marked line--> home bank: held for the transaction    bank --evict--> memory
//!   end: all flushes acknowledged; a message to all banks; the first to acknowledge commits
//! ```
//! A bank keeps each line with the number of the transaction that left it there. A held line that
//! comes upon one that is committed, and not in memory yet, takes another way of the set: the older
//! one is the only copy that would survive, until the commit lets it go.
//!
//! Invariants:
//! - A held line leaves its bank only by a younger one of its transaction, or by the commit.
//! - A committed line is in its bank until a controller has accepted it.
//!
//! When power fails the banks are what they are. Recovery takes for each core the largest number
//! that any bank has, and writes the committed lines to where they belong, oldest first.
//!
//! Choices where the paper is silent: where a set has no way for the older version, that is written
//! to memory first, and the younger one comes to its bank when a controller has accepted it
//! (counted as a fallback). A set all of whose ways are held stops the run with an error: the
//! paper's transactions are too small for that.

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
use crate::machine::{Hart, Machine, Tell};
use crate::mutants::{Mutant, planted};
use crate::persist::{Change, Cut, Failing, Persistent, Queued};

// What it does rarely.
const LEAVES: &str = "a marked line leaves its cache";
const ASKED: &str = "another core asks for a marked line";
const SECOND: &str = "a line has two versions in the last cache";
const EVICTED: &str = "a committed line leaves the last cache";
const PARTIAL: &str = "some banks know of a commit";
const NO_WAY: &str = "a line waits until its older version is in memory";

/// The design's state.
#[derive(Debug)]
pub struct LadLlc {
    cores: Vec<Thread>,
    /// What the banks keep of each line, oldest first.
    kept: FxHashMap<u32, Vec<Version>>,
    /// The transaction for which each held line is held: a later one of the same core may have
    /// staged it before a bank knows of the commit.
    holders: FxHashMap<u32, u64>,
    /// What happens next in the banks: by time, then in the order of sending.
    next: BTreeMap<(Time, u64), Event>,
    /// Lines that wait until a version is in memory, by its number, and since when.
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

/// A line as a bank has it.
#[derive(Clone, Debug)]
struct Version {
    number: u64,
    owner: u64,
    payload: LineWords,
    since: Time,
}

/// Something reaches a bank.
#[derive(Clone, Debug)]
enum Event {
    /// A line that is flushed.
    Flushed { core: usize, line: u32, version: Version, token: When },
    /// A commit, with the lines that are held for it in all banks.
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
            return Err("it marks lines in the only private cache, and the last one does not \
                        include that: `l2` must be absent and `llc.inclusive` false");
        }
        if !sets.is_power_of_two() {
            return Err("two versions of a line share a set: the last cache's sets must be a \
                        power of two");
        }
        match description.persist.point {
            Point::Accepted => Ok(()),
            Point::Media => Err("its controllers have batteries: `persist.point` is `accepted`"),
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
        let tokens = tell_banks(hart.machine(), core);
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

    fn told(machine: &mut Machine<Self>, _: usize, _: usize, tag: u64, point: Point) {
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
            machine.hasten_engine(engine, time);
        }
    }

    fn power_fails(_: &Description, state: &mut Failing) {
        for queued in state.take_queues().into_iter().flatten() {
            state.save_home(queued.line, queued.payload);
        }
        for kept in state.take_kept() {
            state.save(0, kept);
        }
    }

    fn recover(description: &Description, _: u32, state: &mut Persistent) -> Result<(), Cut> {
        let banks = 0..description.llc.banks;
        let first = if planted(Mutant::LlcOneBank) { banks.end - 1 } else { 0 };
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

/// Sends a line of the core's transaction to its bank, which has a place for it from here on; but
/// where it has none for an older version besides, that one goes to memory first.
fn stage(machine: &mut Machine<LadLlc>, core: usize, line: u32) {
    let now = machine.now();
    let arrives = machine.to_home(core, line);
    let owner = owner(core, machine.design.cores[core].dtx.number);
    let kept = machine.design.kept.get(&line);
    let has_older = kept.is_some_and(|kept| kept.iter().any(|version| version.owner != owner));
    let mut first = None;
    if !machine.hold(line, has_older) {
        machine.counts.fallbacks += 1;
        first = write_last(machine, line);
        if first.is_none() || !machine.hold(line, false) {
            machine.fail(
                "a set of the last cache has no way that is not held: make `llc.ways` larger",
            );
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
        Some(number) if planted(Mutant::LlcNoWait) => {
            drop_version(machine, line, number);
            send(machine, arrives, event);
        }
        Some(number) => machine.design.waiting.entry(number).or_default().push((now, event)),
        None => send(machine, arrives, event),
    }
}

/// Something reaches a bank at this time.
fn send(machine: &mut Machine<LadLlc>, time: Time, event: Event) {
    machine.design.count += 1;
    let key = (time, machine.design.count);
    machine.design.next.insert(key, event);
    machine.hasten_engine(0, time);
}

/// Sends the last version of a line to memory, if a bank keeps any. Answers its number.
fn write_last(machine: &mut Machine<LadLlc>, line: u32) -> Option<u64> {
    let now = machine.now();
    let version = machine.design.kept.get(&line)?.last()?;
    let (number, payload) = (version.number, version.payload);
    if machine.design.waiting.contains_key(&number) {
        return Some(number);
    }
    let write = Write::new(u64::from(line), payload, Class::Data);
    let home = machine.home(line);
    machine.write_line(write, home, now, Tell::Design(0, u64::from(line) << 32 | number));
    Some(number)
}

/// A flushed line is in its bank.
fn flushed(machine: &mut Machine<LadLlc>, core: usize, line: u32, version: Version, token: When) {
    let Version { number, owner, payload, .. } = version;
    let queued = Queued { id: number, line, owner, payload };
    machine.changed(Change::Kept { queued });
    let kept = machine.design.kept.entry(line).or_default();
    let in_place = planted(Mutant::LlcInPlace);
    let younger = kept.iter().position(|version| in_place || version.owner == owner);
    let before = younger.map(|at| kept.remove(at).number);
    kept.push(version);
    if let Some(number) = before {
        machine.changed(Change::Dropped { number });
    }
    let (home, tile) = (machine.home(line), machine.tile(core));
    let there = machine.send_now(home, tile, Size::Control);
    machine.tell(token, there);
}

/// Tells all banks of a commit. Answers a token for each of them.
fn tell_banks(machine: &mut Machine<LadLlc>, core: usize) -> Vec<When> {
    let number = machine.design.dtx(core).number;
    let mut held = std::mem::take(&mut machine.design.cores[core].held);
    held.sort_unstable();
    held.dedup();
    let banks = machine.description.llc.banks as usize;
    let tell = |bank: usize| {
        let token = machine.open_token();
        let tile = machine.tile(core);
        let home = machine.home(bank as u32);
        let time = machine.send_now(tile, home, Size::Control) + machine.description.llc.directory;
        let of_bank = held.iter().copied().filter(|line| *line as usize % banks == bank);
        let lines = of_bank.collect();
        send(machine, time, Event::Commit { core, bank, number, lines, token });
        token
    };
    (0..banks).map(tell).collect()
}

/// A bank knows of a commit.
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
    let (home, tile) = (machine.home(bank as u32), machine.tile(core));
    let there = machine.send_now(home, tile, Size::Control);
    machine.tell(token, there);
}

/// A version of a line is in memory, or on its way with a battery.
fn drop_version(machine: &mut Machine<LadLlc>, line: u32, number: u64) {
    let Some(kept) = machine.design.kept.get_mut(&line) else { return };
    let Some(at) = kept.iter().position(|version| version.number == number) else { return };
    // With those before it, which would come after it in recovery.
    let dropped: Vec<Version> = kept.drain(..=at).collect();
    if kept.is_empty() {
        machine.design.kept.remove(&line);
    }
    dropped.into_iter().for_each(|it| machine.changed(Change::Dropped { number: it.number }));
}
