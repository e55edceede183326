//! `lad`: a transaction is staged in the controllers' queues, which have batteries, and committed
//! by a message to all of them; there is no log. `lad-base`: the same, without its short cut.
//! (Gupta, Daglis, Falsafi, MICRO 2019, sections 3 and 4.)
//!
//! ```text
//!   Off --begin, stores drained--> Run --end, stores drained--> Flush --all acknowledged--> Commit
//!    ^                              | stores mark lines of L1     | marked lines, held in queues |
//!    |                              `- one that leaves is flushed                                |
//!    `------- lad: the first controller has acknowledged; lad-base: all of them have ------------'
//! ```
//! A *flush* carries a line from L1 through its home tile, whose copy is clean from then on, to its
//! controller, which holds it in a slot of its queue: it is read from there, and not written. The
//! *commit* tells each controller the transaction's number: it notes it as the last one of that
//! core that is committed (`DTX_CID`, a persistent register), and holds its lines no longer.
//!
//! When `overflow` of a queue's slots, or more, are held, the controller logs the oldest held line:
//! it reads what the array has of it, writes that into its undo log, and then holds it no longer.
//! ```text
//!   controller's log   2i    | old words of the line                                            |
//!                      2i + 1| seal | line | owner | the entry's number | 0 ...  2i is durable
//! ```
//!
//! Invariants:
//! - A line of a transaction reaches the array after the commit, or after its old words are in the
//!   log.
//! - The last cache's copy of a flushed line is clean: it would write the line as if it were
//!   nobody's.
//! - A commit is acknowledged to the program when at least one controller has its register set;
//!   each line of the transaction is then in a controller, or in the array behind its log.
//!
//! When power fails, batteries put all writes of transactions aside, in order ("purgatory"), with
//! what is queued behind one of them for the same line; the rest goes home. Recovery takes for each
//! core the largest number that any controller's register has, stores back what the log says of
//! later transactions, and then writes what was put aside and is committed.
//!
//! Choices where the paper is silent, or has a hole: numbers have 64 bits (the paper's 8 would be
//! compared wrongly after a lap). The log is undone newest entry first, and cleared so: a line that
//! was logged twice in a transaction has uncommitted words in its second entry. A transaction that
//! has written nothing is not committed. Marked lines are flushed one a cycle and port.

use std::collections::VecDeque;

use words::Stop;

use super::Design;
use super::dtx::{self, Dtx, Stages, dtx, owner, parts};
use crate::machine::cache::{MARKED, State};
use crate::machine::controller::{Class, Id, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::memory::line_of;
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Tell};
use crate::mutants::{Mutant, planted};
use crate::persist::{Change, Cut, Persistent};

/// The design as the paper has it.
pub type Lad = Staged<false>;

/// The design that waits for all controllers.
pub type LadBase = Staged<true>;

/// Entries of a controller's log.
const LOG_ENTRIES: u32 = 512;

/// The first word of an entry that is whole.
const SEAL: u64 = u64::from_le_bytes(*b"lad-undo");

/// Cycles for which a flush is at least under way.
const ON_ITS_WAY: Time = 50;

// What it does rarely.
const LEAVES: &str = "a marked line leaves its cache";
const ASKED: &str = "another core asks for a marked line";
const LOGS: &str = "a queue logs a held line";
const PARTIAL: &str = "some controllers know of a commit";
const SUSPENDED: &str = "a thread is suspended in a transaction";

/// The design's state.
#[derive(Debug)]
pub struct Staged<const ALL: bool> {
    cores: Vec<Thread>,
    controllers: Vec<Logging>,
    /// Slots of a queue that may be held before it logs.
    threshold: usize,
    /// Cycles between suspensions of a thread, if there are any, and how long each of them takes.
    suspends: Option<(Time, Time)>,
}

/// A thread of LAD: the one of a core.
#[derive(Clone, Debug, Default)]
struct Thread {
    dtx: Dtx,
    /// Commits that are under way, for each controller, oldest first.
    commits: Vec<VecDeque<When>>,
    /// When it is suspended next.
    suspended: Time,
}

/// What a controller does when too much is held.
#[derive(Clone, Debug)]
struct Logging {
    /// The first line of its log, and entries that were written, ever.
    first: u32,
    entries: u64,
    /// The write that is being logged, and since when.
    busy: Option<(Id, Time)>,
    /// Whose entries the slots of its log have.
    owners: Vec<u64>,
}

impl<const ALL: bool> Staged<ALL> {
    /// Whether the transaction of this name is over; nobody's is.
    fn is_over(&self, owner: u64) -> bool {
        owner == 0 || {
            let (core, number) = parts(owner);
            let dtx = &self.cores[core as usize].dtx;
            dtx.number > number || !dtx.runs
        }
    }
}

impl<const ALL: bool> Stages for Staged<ALL> {
    fn dtx(&mut self, core: usize) -> &mut Dtx {
        &mut self.cores[core].dtx
    }

    fn stage(machine: &mut Machine<Self>, core: usize, line: u32) {
        let (make, tell) = staged(machine, core);
        let (_, write) = machine.write_back(core, line, Class::Data, make, tell);
        assert!(write.is_some(), "a marked line is modified");
    }
}

impl<const ALL: bool> Design for Staged<ALL> {
    const NAME: &'static str = if ALL { "lad-base" } else { "lad" };
    const ABOUT: &'static str = if ALL {
        "LAD whose commit waits for all controllers"
    } else {
        "staged in controllers with batteries, two-phase commit, no log (LAD)"
    };
    const MACHINE: &'static str = "lad";
    const PARAMETERS: &'static [&'static str] = &["lad"];
    const RARE: &'static [&'static str] = &[LEAVES, LOGS, PARTIAL, SUSPENDED];

    fn extra_lines(description: &Description) -> u32 {
        (2 * LOG_ENTRIES + 1) * description.nvm.channels
    }

    fn fits(description: &Description) -> Result<(), &'static str> {
        if description.l2.is_some() || description.llc.inclusive {
            return Err("it marks lines in the only private cache, and the last one does not \
                        include that: `l2` must be absent and `llc.inclusive` false");
        }
        match description.persist.point {
            Point::Accepted => Ok(()),
            Point::Media => Err("its controllers have batteries: `persist.point` is `accepted`"),
        }
    }

    fn new(description: &Description, extra: u32) -> Self {
        let channels = description.nvm.channels;
        let overflow = description.parameter("lad", "overflow");
        let suspend = description.parameter("lad", "suspend_cycles") as Time;
        let away = description.parameter("lad", "away_cycles") as Time;
        let commits = vec![VecDeque::new(); channels as usize];
        let thread = Thread { commits, suspended: suspend, ..Thread::default() };
        let logging = |channel| Logging {
            first: log_line(extra, channel, channels, 0),
            entries: 0,
            busy: None,
            owners: vec![0; LOG_ENTRIES as usize],
        };
        Staged {
            cores: vec![thread; description.cores],
            controllers: (0..channels).map(logging).collect(),
            threshold: (overflow * f64::from(description.mc.wq)).ceil() as usize,
            suspends: (suspend > 0).then_some((suspend, away)),
        }
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        hart.settle();
        dtx(hart).begin();
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        suspend_if_due(hart);
        hart.store(word, object, value);
        Ok(())
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        hart.settle();
        hart.enter(Phase::Prepare);
        dtx::flush(hart);
        if !dtx(hart).staged {
            dtx(hart).runs = false;
            return;
        }
        hart.enter(Phase::Commit);
        let (core, number) = (hart.core(), dtx(hart).number);
        let machine = hart.machine();
        let channels = machine.nvm_channels();
        let tokens: Vec<When> = (0..channels).map(|_| machine.open_token()).collect();
        for (channel, token) in tokens.iter().enumerate() {
            machine.design.cores[core].commits[channel].push_back(*token);
            machine.send_message(core, channel, number);
        }
        match ALL {
            true => tokens.into_iter().for_each(|token| hart.wait_for(token)),
            false => hart.wait_for_first(&tokens),
        }
        // Not before: until then its entries in the logs count.
        dtx(hart).runs = false;
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
            let (make, tell) = staged(machine, core);
            machine.carry(core, line, Class::Data, make, tell);
            let now = machine.now();
            machine.rare(LEAVES, now, now + ON_ITS_WAY);
        }
        marked
    }

    fn asked(machine: &mut Machine<Self>, core: usize, line: u32) {
        if machine.mark(core, line, false) == Some(true) {
            Self::stage(machine, core, line);
            let now = machine.now();
            machine.rare(ASKED, now, now + ON_ITS_WAY);
        }
    }

    fn class_of(&self, line: u32) -> Class {
        let first = self.controllers.first().map_or(u32::MAX, |logging| logging.first);
        if line < first { Class::Data } else { Class::UndoFallback }
    }

    fn message(machine: &mut Machine<Self>, channel: usize, core: usize, number: u64) {
        let at = (channel as u32, core as u32);
        if !planted(Mutant::LadRegisterLate) {
            machine.changed(Change::Register { at, value: number });
        }
        let (now, channels) = (machine.now(), machine.nvm_channels());
        if let Some(since) = machine.design.dtx(core).note_partial(number, now, channels) {
            machine.rare(PARTIAL, since, now);
        }
        machine.controller(channel).release_owner(now, owner(core, number));
        let there = machine.answer(channel, core, Size::Control);
        let token = machine.design.cores[core].commits[channel].pop_front();
        machine.tell(token.expect("each commit has its tokens"), there);
    }

    fn accepted(machine: &mut Machine<Self>, channel: usize) {
        log_if_full(machine, channel);
    }

    fn has_read(machine: &mut Machine<Self>, channel: usize, line: u32, _: u64) {
        write_entry(machine, channel, line);
    }

    fn told(machine: &mut Machine<Self>, channel: usize, _: usize, tag: u64, point: Point) {
        if tag != ENTRY || point != Point::Accepted {
            return;
        }
        let busy = machine.design.controllers[channel].busy.take();
        let (id, since) = busy.expect("its entry was written");
        let now = machine.now();
        machine.rare(LOGS, since, now);
        machine.controller(channel).release(now, id);
        log_if_full(machine, channel);
    }

    fn power_fails(_: &Description, state: &mut Persistent) {
        for (channel, queue) in state.take_queues().into_iter().enumerate() {
            let mut aside = Vec::new();
            for queued in queue {
                // What is nobody's but behind somebody's write of its line goes with that.
                if queued.owner != 0 || aside.contains(&queued.line) {
                    aside.push(queued.line);
                    state.save(channel, queued);
                } else {
                    state.save_home(queued.line, queued.payload);
                }
            }
        }
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        let channels = state.channels() as u32;
        let first = if planted(Mutant::LadOneController) { channels - 1 } else { 0 };
        let committed = dtx::committed(description, first..channels, state);
        let is_committed = |owner| {
            let (core, number) = parts(owner);
            match planted(Mutant::LadEightBits) {
                true => number as u8 <= committed[core as usize] as u8,
                false => number <= committed[core as usize],
            }
        };
        for channel in 0..channels {
            let lines = |slot| log_line(extra, channel, channels, slot);
            undo(state, lines, &is_committed)?;
        }
        for channel in 0..channels as usize {
            for queued in state.saved(channel).to_vec() {
                if queued.owner == 0 || is_committed(queued.owner) {
                    state.set_line(queued.line, queued.payload)?;
                }
            }
        }
        clear(extra, &committed, &is_committed, state)
    }
}

/// The line of a controller's log, in its own channel.
fn log_line(extra: u32, channel: u32, channels: u32, slot: u32) -> u32 {
    extra.next_multiple_of(channels) + slot * channels + channel
}

/// Stores back what a controller's log says of transactions that are not committed, newest first.
fn undo(
    state: &mut Persistent,
    lines: impl Fn(u32) -> u32,
    is_committed: &impl Fn(u64) -> bool,
) -> Result<(), Cut> {
    let mut entries = Vec::new();
    for entry in 0..LOG_ENTRIES {
        let [seal, line, owner, number, ..] = state.line(lines(2 * entry + 1));
        if seal == SEAL && !is_committed(owner) {
            entries.push((number, line as u32, lines(2 * entry)));
        }
    }
    entries.sort_unstable();
    if planted(Mutant::LadOldestFirst) {
        entries.reverse();
    }
    for (_, line, old) in entries.into_iter().rev() {
        let old = state.line(old);
        state.set_line(line, old)?;
    }
    Ok(())
}

/// Ends recovery: every controller knows of all that is committed, so what was put aside and the
/// logs say nothing any more.
fn clear(
    extra: u32,
    committed: &[u64],
    is_committed: &impl Fn(u64) -> bool,
    state: &mut Persistent,
) -> Result<(), Cut> {
    let channels = state.channels() as u32;
    let mut seals = Vec::new();
    for channel in 0..channels {
        for entry in 0..LOG_ENTRIES {
            let line = log_line(extra, channel, channels, 2 * entry + 1);
            let [seal, _, owner, number, ..] = state.line(line);
            if seal == SEAL && !is_committed(owner) {
                seals.push((number, line));
            }
        }
    }
    // Newest first: of a line that was logged twice the older entry must outlive the younger one,
    // or a recovery that is cut here would undo it to what was not committed.
    seals.sort_unstable();
    if !planted(Mutant::LadClearsOldestFirst) {
        seals.reverse();
    }
    seals.into_iter().try_for_each(|(_, line)| state.set_line(line, [0; 8]))?;
    state.clear_saved()?;
    dtx::set_committed(committed, 0..channels, state)
}

/// Lets the thread be suspended, if that is due: its transaction is staged as far as it has come,
/// so that whoever runs on the core meanwhile finds no mark.
fn suspend_if_due<const ALL: bool>(hart: &mut Hart<'_, Staged<ALL>>) {
    let Some((every, away)) = hart.machine().design.suspends else { return };
    let (core, since) = (hart.core(), hart.cycle());
    if since < hart.machine().design.cores[core].suspended {
        return;
    }
    hart.settle();
    if planted(Mutant::LadSuspendedUnmarks) {
        let lines = hart.lines().to_vec();
        lines.into_iter().for_each(|line| {
            hart.machine().mark(core, line, false);
        });
    }
    dtx::flush(hart);
    let resumes = hart.cycle() + away;
    hart.at(resumes);
    let machine = hart.machine();
    machine.design.cores[core].suspended = resumes + every;
    machine.rare(SUSPENDED, since, resumes);
}

/// A write that is held for the core's transaction, and who waits for it.
fn staged<const ALL: bool>(
    machine: &mut Machine<Staged<ALL>>,
    core: usize,
) -> (impl FnOnce(&mut Write) + use<ALL>, Tell) {
    let token = machine.open_token();
    let dtx = machine.design.dtx(core);
    dtx.flushes.push(token);
    dtx.staged = true;
    let owner = owner(core, dtx.number);
    let make = move |write: &mut Write| {
        write.held = true;
        write.owner = owner;
    };
    (make, Tell::Core(core, token))
}

/// Marks the entry of a log among the writes that the design has sent.
const ENTRY: u64 = 1;

/// Begins to log the oldest held line, when too much of a queue is held.
fn log_if_full<const ALL: bool>(machine: &mut Machine<Staged<ALL>>, channel: usize) {
    let Staged { ref controllers, threshold, .. } = machine.design;
    if channel >= controllers.len() || controllers[channel].busy.is_some() {
        return;
    }
    if machine.held(channel) < threshold {
        return;
    }
    let controller = machine.controller(channel);
    let Some((id, write)) = controller.oldest_held() else { return };
    let local = write.line;
    let line = machine.global_line(channel, local);
    let now = machine.now();
    machine.design.controllers[channel].busy = Some((id, now));
    if planted(Mutant::LadNoLog) {
        machine.controller(channel).release(now, id);
    }
    machine.read_array(line, 0);
}

/// The array's words of the line that is logged are known: they go into the log.
fn write_entry<const ALL: bool>(machine: &mut Machine<Staged<ALL>>, channel: usize, line: u32) {
    let channels = machine.nvm_channels() as u32;
    let (id, _) = machine.design.controllers[channel].busy.expect("it is being logged");
    let held = machine.controller(channel).queued_write(id).filter(|write| write.held);
    let Some(owner) = held.map(|write| write.owner) else {
        // Its transaction was committed meanwhile.
        machine.design.controllers[channel].busy = None;
        return log_if_full(machine, channel);
    };
    machine.counts.fallbacks += 1;
    let logging = &mut machine.design.controllers[channel];
    let slot = (logging.entries % u64::from(LOG_ENTRIES)) as u32;
    logging.entries += 1;
    let (number, first) = (logging.entries, logging.first);
    let old = machine.array_line(line);
    let design = &mut machine.design;
    let before = std::mem::replace(&mut design.controllers[channel].owners[slot as usize], owner);
    if !design.is_over(before) {
        machine.fail("a controller's log is full of entries of open transactions");
    }
    let lines = [first + 2 * slot * channels, first + (2 * slot + 1) * channels];
    let data = Write::new(u64::from(lines[0]), old, Class::UndoFallback);
    let data = machine.log(channel, data, Tell::Nobody);
    let words = [SEAL, u64::from(line), owner, number, 0, 0, 0, 0];
    let mut seal = Write::new(u64::from(lines[1]), words, Class::UndoFallback);
    seal.after = vec![data];
    machine.log(channel, seal, Tell::Design(0, ENTRY));
}
