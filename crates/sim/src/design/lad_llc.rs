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
//! Choice where the paper is silent: a set that has no way for a held line, or for its older
//! version, stops the run with an error. The paper's transactions are too small for that.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::Design;
use crate::machine::cache::{MARKED, State};
use crate::machine::controller::{Class, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::memory::{LineWords, line_of};
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Tell};
use crate::mutants::{Mutant, planted};
use crate::persist::{Change, Cut, Persistent, Queued};

/// The bank of registers of the first bank; the next one's follows. Indexed by core.
const COMMITTED: u32 = 0;

// What it does rarely.
const LEAVES: &str = "a marked line leaves its cache";
const SECOND: &str = "a line has two versions in the last cache";
const EVICTED: &str = "a committed line leaves the last cache";
const PARTIAL: &str = "some banks know of a commit";

/// The design's state.
#[derive(Debug)]
pub struct LadLlc {
    cores: Vec<Dtx>,
    /// What the banks keep of each line, oldest first.
    kept: FxHashMap<u32, Vec<Version>>,
    /// The transaction for which each held line is held: a later one of the same core may have
    /// staged it before a bank knows of the commit.
    holders: FxHashMap<u32, u64>,
    /// What happens next in the banks: by time, then in the order of sending.
    next: BTreeMap<(Time, u64), Event>,
    /// Numbers versions and events.
    count: u64,
}

/// A core's transaction.
#[derive(Clone, Debug, Default)]
struct Dtx {
    runs: bool,
    number: u64,
    flushes: Vec<When>,
    /// Lines that are held for it.
    held: Vec<u32>,
    /// Commits that some banks know of: which, since when, and how many do.
    partial: VecDeque<(u64, Time, usize)>,
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

/// A transaction's name: of core and number.
fn owner(core: usize, number: u64) -> u64 {
    (core as u64 + 1) << 48 | number
}

impl Design for LadLlc {
    const NAME: &'static str = "lad-llc";
    const ABOUT: &'static str = "LAD's commit to a last cache that is persistent (Kiln)";
    const MACHINE: &'static str = "lad";
    const LLC_IS_PERSISTENT: bool = true;
    const RARE: &'static [&'static str] = &[LEAVES, SECOND, EVICTED, PARTIAL];

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
            cores: vec![Dtx::default(); description.cores],
            kept: FxHashMap::default(),
            holders: FxHashMap::default(),
            next: BTreeMap::new(),
            count: 0,
        }
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        hart.settle();
        let dtx = dtx(hart);
        dtx.number += 1;
        dtx.runs = true;
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        hart.settle();
        hart.enter(Phase::Prepare);
        let (core, began) = (hart.core(), hart.cycle());
        let mut flushed: u64 = 0;
        for line in hart.lines().to_vec() {
            let ports = u64::from(hart.machine().description.l1.ports);
            hart.at(began + flushed / ports);
            // From here on nobody else acts: see `lad`.
            if hart.machine().mark(core, line, false) == Some(true) {
                stage(hart.machine(), core, line);
                flushed += 1;
            }
        }
        let flushes = std::mem::take(&mut dtx(hart).flushes);
        dtx(hart).runs = false;
        if flushes.is_empty() {
            return;
        }
        flushes.into_iter().for_each(|flush| hart.wait_for(flush));
        hart.enter(Phase::Commit);
        let tokens = tell_banks(hart.machine(), core);
        hart.wait_for_first(&tokens);
    }

    fn drained(machine: &mut Machine<Self>, core: usize, word: u64, _: u64) {
        let line = line_of(word);
        if machine.design.cores[core].runs && machine.memory.is_nvm(line) {
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
        }
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        let now = machine.now();
        let Some(version) = machine.design.kept.get(&line).and_then(|kept| kept.last()) else {
            return false;
        };
        let (number, payload) = (version.number, version.payload);
        let write = Write::new(u64::from(line), payload, Class::Data);
        let home = machine.home(line);
        machine.write_line(write, home, now, Tell::Design(0, u64::from(line) << 32 | number));
        machine.rare(EVICTED, now, now + 20);
        true
    }

    fn told(machine: &mut Machine<Self>, _: usize, _: usize, tag: u64, point: Point) {
        if point == Point::Accepted {
            drop_version(machine, (tag >> 32) as u32, tag & u64::from(u32::MAX));
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

    fn power_fails(_: &Description, state: &mut Persistent) {
        for queued in state.take_queues().into_iter().flatten() {
            state.save_home(queued.line, queued.payload);
        }
        for kept in state.take_kept() {
            state.save(0, kept);
        }
    }

    fn recover(description: &Description, _: u32, state: &mut Persistent) -> Result<(), Cut> {
        let banks = 0..description.llc.banks;
        let of = |core| banks.clone().map(|bank| state.register((COMMITTED + bank, core))).max();
        let cores = 0..description.cores as u32;
        let committed: Vec<u64> = cores.map(|core| of(core).unwrap_or(0)).collect();
        for kept in state.saved(0).to_vec() {
            let (core, number) = ((kept.owner >> 48) as usize, kept.owner & ((1 << 48) - 1));
            if core == 0 || number <= committed[core - 1] {
                state.set_line(kept.line, kept.payload)?;
            }
        }
        state.clear_saved()?;
        for bank in banks {
            for (core, number) in (0..).zip(&committed) {
                state.set_register((COMMITTED + bank, core), *number)?;
            }
        }
        Ok(())
    }
}

fn dtx<'h>(hart: &'h mut Hart<'_, LadLlc>) -> &'h mut Dtx {
    let core = hart.core();
    &mut hart.machine().design.cores[core]
}

/// Sends a line of the core's transaction to its bank, which has a place for it from here on.
fn stage(machine: &mut Machine<LadLlc>, core: usize, line: u32) {
    let now = machine.now();
    let arrives = machine.to_home(core, line);
    let is_older = |version: &Version, owner| version.owner != owner;
    let owner = owner(core, machine.design.cores[core].number);
    let kept = machine.design.kept.get(&line);
    let has_older = kept.is_some_and(|kept| kept.iter().any(|version| is_older(version, owner)));
    if !machine.hold(line, has_older) {
        machine.fail("a set of the last cache has no way that is not held: make `llc.ways` larger");
    }
    machine.clean_private(core, line);
    machine.design.holders.insert(line, owner);
    let token = machine.open_token();
    machine.design.count += 1;
    let payload = machine.memory.line(line);
    let version = Version { number: machine.design.count, owner, payload, since: now };
    let dtx = &mut machine.design.cores[core];
    dtx.flushes.push(token);
    dtx.held.push(line);
    machine
        .design
        .next
        .insert((arrives, version.number), Event::Flushed { core, line, version, token });
    machine.hasten_engine(0, arrives);
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
    let Dtx { number, .. } = machine.design.cores[core];
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
        machine.design.count += 1;
        let key = (time, machine.design.count);
        machine.design.next.insert(key, Event::Commit { core, bank, number, lines, token });
        machine.hasten_engine(0, time);
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
    let at = (COMMITTED + bank as u32, core as u32);
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
    note_partial(machine, core, number);
    let (home, tile) = (machine.home(bank as u32), machine.tile(core));
    let there = machine.send_now(home, tile, Size::Control);
    machine.tell(token, there);
}

/// Another bank knows of a commit.
fn note_partial(machine: &mut Machine<LadLlc>, core: usize, number: u64) {
    let (now, banks) = (machine.now(), machine.description.llc.banks as usize);
    let partial = &mut machine.design.cores[core].partial;
    let Some(at) = partial.iter().position(|commit| commit.0 == number) else {
        return partial.push_back((number, now, 1));
    };
    partial[at].2 += 1;
    if partial[at].2 == banks
        && let Some((_, since, _)) = partial.remove(at)
    {
        machine.rare(PARTIAL, since, now);
    }
}

/// A version of a line is in memory, or on its way with a battery.
fn drop_version(machine: &mut Machine<LadLlc>, line: u32, number: u64) {
    let Some(kept) = machine.design.kept.get_mut(&line) else { return };
    let Some(at) = kept.iter().position(|version| version.number == number) else { return };
    kept.remove(at);
    if kept.is_empty() {
        machine.design.kept.remove(&line);
    }
    machine.changed(Change::Dropped { number });
}
