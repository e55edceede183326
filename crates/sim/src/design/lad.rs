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
//! When `overflow` of a queue's slots, or more, are held, the controller logs the oldest held ones:
//! it reads what the array has of a line, writes that into its undo log, and holds it no longer.
//! It logs as many at once, up to `AT_ONCE`, as are held, or wait for a slot to be, above that.
//! ```text
//!   controller's log   2i    | old words of the line                                            |
//!                      2i + 1| seal | line | owner | the entry's number | 0 ...  2i is accepted
//! ```
//! The seal does not wait until the array has 2i: what has a slot is durable, since the slot has a
//! battery. It must not have one before 2i has. Both may have the same slots, which are given to
//! the oldest write first, and 2i is sent first. When power fails between the two there is no seal,
//! and the line is still held.
//!
//! Lines that are logged at once are different ones: a line's second write is not its first, and
//! only first ones are logged. So it is logged when the array has the first one, whose entry was
//! accepted before that was released: of one line's entries the number tells which is older, and
//! the seal of the older one is durable first. Entries of different lines may be accepted in any
//! order: each says what to store back in its own line, and no other.
//!
//! A commit may come at any moment of it. Before the entry is sent the line is no longer held, and
//! nothing is sent; after that recovery finds an owner that is committed, and skips the entry.
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

use super::dtx::{self, Dtx, Stages, dtx, owner, parts};
use super::{Design, ON_ITS_WAY};
use crate::machine::cache::{MARKED, State};
use crate::machine::controller::{Class, Id, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point, unkept};
use crate::machine::memory::line_of;
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Message, Tell};
use crate::mutants::{Mutant, planted};
use crate::persist::{Change, Cut, Failing, Persistent};

/// The design as the paper has it.
pub type Lad = Staged<false>;

/// The design that waits for all controllers.
pub type LadBase = Staged<true>;

/// Entries of a controller's log.
const LOG_ENTRIES: u32 = 512;

/// Lines that a controller logs at once, at most: far fewer than its log has entries, so that an
/// entry's lines are written before the same ones are again.
const AT_ONCE: usize = 4;

/// The first word of an entry that is whole.
const SEAL: u64 = u64::from_le_bytes(*b"lad-undo");

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
    /// The writes that are being logged, oldest first.
    busy: Vec<Busy>,
    /// Whose entries the slots of its log have.
    owners: Vec<u64>,
}

/// A write that is being logged.
#[derive(Clone, Copy, Debug)]
struct Busy {
    id: Id,
    line: u32,
    since: Time,
    /// Its entry is on its way: the array has been read.
    is_sent: bool,
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
            busy: Vec::new(),
            owners: vec![0; LOG_ENTRIES as usize],
        };
        Staged {
            cores: vec![thread; description.cores],
            controllers: (0..channels).map(logging).collect(),
            // Where no more can be held it would never be reached.
            threshold: ((overflow * f64::from(description.mc.wq)).ceil() as usize)
                .min(unkept(description.mc.wq as usize)),
            suspends: (suspend > 0).then_some((suspend, away)),
        }
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        let mut design = Self::new(description, extra);
        dtx::resume(&mut design, description, 0..description.nvm.channels, state);
        Some(design)
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
            machine.send_message(core, channel, [number, 0]);
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

    fn message(machine: &mut Machine<Self>, channel: usize, core: usize, [number, _]: Message) {
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
        // Only seals tell the design, each with the write that it is about.
        if point != Point::Accepted {
            return;
        }
        let busy = &mut machine.design.controllers[channel].busy;
        let at = busy.iter().position(|busy| busy.id == tag).expect("its entry was written");
        let Busy { id, since, .. } = busy.remove(at);
        let now = machine.now();
        machine.rare(LOGS, since, now);
        machine.controller(channel).release(now, id);
        log_if_full(machine, channel);
    }

    fn power_fails(_: &Description, state: &mut Failing) {
        for (channel, queue) in state.take_queues().into_iter().enumerate() {
            let mut aside = Vec::new();
            for queued in queue {
                // What is nobody's but behind somebody's write of its line goes with that.
                // No program shows it: every store of one is a transaction's here, and a cache
                // that has a line clean does not write it. Cores without a program do.
                let behind = aside.contains(&queued.line) && !planted(Mutant::LadPlainGoesHome);
                if queued.owner != 0 || behind {
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
    if !planted(Mutant::LadKeepsSeals) {
        seals.into_iter().try_for_each(|(_, line)| state.set_line(line, [0; 8]))?;
    }
    if !planted(Mutant::LadKeepsSaved) {
        state.clear_saved()?;
    }
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

/// Begins to log held lines, oldest first, while too much of a queue is held.
fn log_if_full<const ALL: bool>(machine: &mut Machine<Staged<ALL>>, channel: usize) {
    while logs_another(machine, channel) {}
}

/// Begins to log the oldest held line that is not being logged, if too much is held but for those
/// that are. Whether it has.
fn logs_another<const ALL: bool>(machine: &mut Machine<Staged<ALL>>, channel: usize) -> bool {
    let Staged { ref controllers, threshold, .. } = machine.design;
    let Some(Logging { busy, .. }) = controllers.get(channel) else { return false };
    // This is asked whenever a write gets a slot: mostly too few are held, and nothing is to do.
    let controller = machine.look_at(channel);
    let held = controller.held();
    if busy.len() >= AT_ONCE || held < threshold {
        return false;
    }
    // What waits for a slot counts too: or no more than one could be logged where the threshold is
    // all that may be held.
    if held + controller.held_outside() < threshold + busy.len() {
        return false;
    }
    let busy: Vec<Id> = busy.iter().map(|busy| busy.id).collect();
    let Some((id, write)) = controller.oldest_held(&busy) else { return false };
    let local = write.line;
    let line = machine.global_line(channel, local);
    let now = machine.now();
    machine.design.controllers[channel].busy.push(Busy { id, line, since: now, is_sent: false });
    if planted(Mutant::LadNoLog) {
        machine.controller(channel).release(now, id);
    }
    machine.read_array(line, 0);
    true
}

/// The array's words of a line that is logged are known: they go into the log.
fn write_entry<const ALL: bool>(machine: &mut Machine<Staged<ALL>>, channel: usize, line: u32) {
    let channels = machine.nvm_channels() as u32;
    let busy = &machine.design.controllers[channel].busy;
    let at = busy.iter().position(|busy| busy.line == line && !busy.is_sent);
    let at = at.expect("it is being logged");
    let id = busy[at].id;
    let held = machine.controller(channel).queued_write(id).filter(|write| write.held);
    let Some(owner) = held.map(|write| write.owner) else {
        // Its transaction was committed meanwhile.
        machine.design.controllers[channel].busy.remove(at);
        return log_if_full(machine, channel);
    };
    machine.counts.fallbacks += 1;
    let logging = &mut machine.design.controllers[channel];
    logging.busy[at].is_sent = true;
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
    let words = [SEAL, u64::from(line), owner, number, 0, 0, 0, 0];
    let old = Write::new(u64::from(lines[0]), old, Class::UndoFallback);
    let seal = Write::new(u64::from(lines[1]), words, Class::UndoFallback);
    // The older write has a slot first: see above.
    let mut sent = [(old, Tell::Nobody), (seal, Tell::Design(0, id))];
    if planted(Mutant::LadSealFirst) {
        sent.reverse();
    }
    for (write, tell) in sent {
        machine.log(channel, write, tell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::description::Point;
    use crate::mutants::plant;
    use crate::persist::{Change, Powered, Queued};

    /// Only the staged write says that the line is not to be written yet: a younger plain write of
    /// it has to wait behind it.
    #[test]
    fn a_plain_write_behind_a_staged_one_of_its_line_is_put_aside_with_it() {
        let recovered = || {
            let description = Description::named("tiny-lad").unwrap();
            let mut powered = Powered::new(Persistent::new(vec![0; 8 * 4096], 2));
            let owner = 1 << 48 | 1;
            let (staged, plain) = ((1, owner, [5; 8]), (2, 0, [6; 8]));
            for (id, owner, payload) in [staged, plain] {
                let queued = Queued { id, line: 8, owner, payload };
                powered.apply(&Change::Accepted { channel: 0, queued });
            }
            // The transaction has committed everywhere.
            powered.apply(&Change::Register { at: (0, 0), value: 1 });
            powered.apply(&Change::Register { at: (1, 0), value: 1 });
            let mut failing = powered.cut(Point::Accepted);
            Lad::power_fails(&description, &mut failing);
            let mut state = failing.over();
            Lad::recover(&description, 64, &mut state).unwrap();
            state.line(8)
        };
        assert_eq!(recovered(), [6; 8]);
        let _planted = plant(Mutant::LadPlainGoesHome);
        assert_eq!(recovered(), [5; 8]);
    }
}
