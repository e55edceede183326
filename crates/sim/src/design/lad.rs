//! `lad`: transactions staged in the controllers' battery-backed queues and committed by a message
//! to all controllers, without a log. `lad-base` is the same protocol without LAD's early
//! acknowledgement.
//!
//! Source: Gupta, Daglis, Falsafi, MICRO 2019, sections 3 and 4.
//!
//! ```text
//!   Off --begin, stores drained--> Run --end, stores drained--> Flush --all acknowledged--> Commit
//!    ^                              | stores mark lines of L1     | marked lines, held in queues |
//!    |                              `- a line that leaves is flushed                             |
//!    `------- lad: the first controller has acknowledged; lad-base: all of them have ------------'
//! ```
//! A *flush* carries a line from L1 through its home tile to its controller. The home tile's copy
//! is clean from then on. The controller *holds* the line in a slot of its queue: reads find it
//! there, and it is not written. The *commit* message carries the transaction's number to each
//! controller. The controller records it as the core's last committed transaction (`DTX_CID`, a
//! persistent register) and releases the transaction's lines.
//!
//! When the held slots of a queue reach the share `overflow`, the controller logs the oldest held
//! lines. For each line, it reads the array's contents, writes them to its undo log and releases
//! the line. It logs as many lines at once, up to `AT_ONCE`, as are held or wait to be held beyond
//! that share.
//! ```text
//!   controller's log   2i    | old words of the line                                            |
//!                      2i + 1| seal | line | owner | the entry's number | 0 ...  2i is accepted
//! ```
//! The seal does not wait until the array has line 2i. A write with a slot is durable, since the
//! slot has a battery. The seal must not get a slot before line 2i. Both compete for the same
//! slots, which go to the oldest write first, and line 2i is sent first. If power fails between the
//! two, the log has no seal and the queue still holds the line.
//!
//! Lines that are logged at once differ: only the first queued write of a line can be logged, not a
//! second one. A second write is logged when the array has the first, whose entry was accepted
//! before its release. The entry numbers order the entries of one line, and the older seal becomes
//! durable first. Entries of different lines may be accepted in any order, since each affects only
//! its own line.
//!
//! A commit may arrive at any point. Before the entry is sent, the commit releases the line and the
//! controller sends nothing. Later, recovery finds a committed owner and skips the entry.
//!
//! Invariants:
//! - A line of a transaction reaches the array after the commit, or after its old words are in the
//!   log.
//! - The last cache's copy of a flushed line is clean. A modified copy would be written as a plain
//!   line.
//! - The program sees a commit after at least one controller has set its register. Each line of the
//!   transaction is then in a controller's queue, or in the array with its old words logged.
//!
//! When power fails, batteries save all transactional writes in order ("purgatory" in the paper),
//! together with plain writes queued after one of them for the same line. All other queued writes
//! go to the heap image. Recovery takes, per core, the largest number in any controller's register.
//! It restores the logged words of later transactions, and then applies the committed part of the
//! saved writes.
//!
//! Choices where the paper is silent or unsound:
//! - Numbers have 64 bits. The paper's 8 bits compare wrongly after they wrap.
//! - Recovery undoes the log newest entry first, and clears it in that order. A line that was
//!   logged twice in a transaction has uncommitted words in its second entry.
//! - A transaction without writes sends no commit.
//! - Marked lines are flushed one per cycle and port.

use std::collections::VecDeque;

use words::Stop;

use super::dtx::{self, Dtx, Stages, dtx, owner, parts};
use super::{Design, IN_FLIGHT_CYCLES};
use crate::machine::cache::{MARKED, State};
use crate::machine::controller::{Class, Id, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Interleaving, Point, unkept};
use crate::machine::memory::line_of;
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Message, Notify};
use crate::mutants::{Mutant, injected};
use crate::persist::{Change, Cut, Failing, Persistent};

/// LAD as in the paper.
pub type Lad = Staged<false>;

/// LAD with a commit that waits for all controllers.
pub type LadBase = Staged<true>;

/// Entries of a controller's log.
const LOG_ENTRIES: u32 = 512;

/// Most lines that a controller logs at once. The number is far below the log's capacity, so an
/// entry's lines are written before its slot is reused.
const AT_ONCE: usize = 4;

/// First word of a complete entry.
const SEAL: u64 = u64::from_le_bytes(*b"lad-undo");

// Rarely taken paths.
const LEAVES: &str = "a marked line leaves its cache";
const ASKED: &str = "another core asks for a marked line";
const LOGS: &str = "a queue logs a held line";
const PARTIAL: &str = "some controllers know of a commit";
const SUSPENDED: &str = "a thread is suspended in a transaction";

/// State of the design.
#[derive(Debug)]
pub struct Staged<const ALL: bool> {
    cores: Vec<Thread>,
    controllers: Vec<Logging>,
    logs: Logs,
    /// Held slots of a queue at which it starts to log.
    threshold: usize,
    /// Cycles between suspensions of a thread, and the cycles of each, if threads are suspended.
    suspends: Option<(Time, Time)>,
}

/// LAD's state of the thread on a core.
#[derive(Clone, Debug, Default)]
struct Thread {
    dtx: Dtx,
    /// Commits in flight, per controller, oldest first.
    commits: Vec<VecDeque<When>>,
    /// Time of the next suspension.
    suspended: Time,
}

/// Fallback logging of a controller.
#[derive(Clone, Debug)]
struct Logging {
    entries: u64,
    /// Writes that are being logged, oldest first.
    busy: Vec<Busy>,
    /// Owner of the entry in each slot of the log.
    owners: Vec<u64>,
}

/// A write that is being logged.
#[derive(Clone, Copy, Debug)]
struct Busy {
    id: Id,
    line: u32,
    since: Time,
    /// The array has been read and the entry is in flight.
    is_sent: bool,
}

impl<const ALL: bool> Staged<ALL> {
    /// Returns whether this transaction is over. Owner 0, which stands for no transaction, always
    /// is.
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
        let (make, notify) = staged(machine, core);
        let (_, write) = machine.write_back(core, line, Class::Data, make, notify);
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
            return Err("it marks lines in the only private cache, which the last cache must \
                        not include: `l2` must be absent and `llc.inclusive` false");
        }
        match description.persist.point {
            Point::Accepted => Ok(()),
            Point::Media => {
                Err("its controllers have batteries: `persist.point` must be `accepted`")
            }
        }
    }

    fn new(description: &Description, extra: u32) -> Self {
        let channels = description.nvm.channels;
        let overflow = description.parameter("lad", "overflow");
        let suspend = description.parameter("lad", "suspend_cycles") as Time;
        let away = description.parameter("lad", "away_cycles") as Time;
        let commits = vec![VecDeque::new(); channels as usize];
        let thread = Thread { commits, suspended: suspend, ..Thread::default() };
        let logging =
            |_| Logging { entries: 0, busy: Vec::new(), owners: vec![0; LOG_ENTRIES as usize] };
        Staged {
            cores: vec![thread; description.cores],
            controllers: (0..channels).map(logging).collect(),
            logs: Logs { extra, lines: description.nvm.interleaving() },
            // Above the queue's limit for held slots, the threshold would never be reached.
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
        // Entries in the logs are live until the commit is acknowledged, so the transaction runs
        // until here.
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
            let (make, notify) = staged(machine, core);
            machine.carry(core, line, Class::Data, make, notify);
            let now = machine.now();
            machine.rare(LEAVES, now, now + IN_FLIGHT_CYCLES);
        }
        marked
    }

    fn asked(machine: &mut Machine<Self>, core: usize, line: u32) {
        if machine.mark(core, line, false) == Some(true) {
            Self::stage(machine, core, line);
            let now = machine.now();
            machine.rare(ASKED, now, now + IN_FLIGHT_CYCLES);
        }
    }

    fn class_of(&self, line: u32) -> Class {
        if line < self.logs.first() { Class::Data } else { Class::UndoFallback }
    }

    fn message(machine: &mut Machine<Self>, channel: usize, core: usize, [number, _]: Message) {
        let at = (channel as u32, core as u32);
        if !injected(Mutant::LadRegisterLate) {
            machine.changed(Change::Register { at, value: number });
        }
        let (now, channels) = (machine.now(), machine.nvm_channels());
        if let Some(since) = machine.design.dtx(core).note_partial(number, now, channels) {
            machine.rare(PARTIAL, since, now);
        }
        machine.controller(channel).release_owner(now, owner(core, number));
        let there = machine.answer(channel, core, Size::Control);
        let token = machine.design.cores[core].commits[channel].pop_front();
        machine.notify(token.expect("each commit has one token per channel"), there);
    }

    fn accepted(machine: &mut Machine<Self>, channel: usize) {
        log_if_full(machine, channel);
    }

    fn has_read(machine: &mut Machine<Self>, channel: usize, line: u32, _: u64) {
        write_entry(machine, channel, line);
    }

    fn notified(machine: &mut Machine<Self>, channel: usize, _: usize, tag: u64, point: Point) {
        // Only seals notify the design. Their tag is the logged write.
        if point != Point::Accepted {
            return;
        }
        let busy = &mut machine.design.controllers[channel].busy;
        let at = busy
            .iter()
            .position(|busy| busy.id == tag)
            .expect("the seal belongs to a logged write");
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
                // A plain write queued after a transactional write of its line is saved with it. No
                // program exposes this: every store of a program here is transactional, and a cache
                // does not write a line that it has clean. The unit test below drives the queues
                // directly.
                let follows = aside.contains(&queued.line) && !injected(Mutant::LadPlainWritesHeap);
                if queued.owner != 0 || follows {
                    aside.push(queued.line);
                    state.save(channel, queued);
                } else {
                    state.save_line(queued.line, queued.payload);
                }
            }
        }
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        let channels = state.channels() as u32;
        let first = if injected(Mutant::LadOneController) { channels - 1 } else { 0 };
        let committed = dtx::committed(description, first..channels, state);
        let is_committed = |owner| {
            let (core, number) = parts(owner);
            match injected(Mutant::LadEightBits) {
                true => number as u8 <= committed[core as usize] as u8,
                false => number <= committed[core as usize],
            }
        };
        let logs =
            Logs { extra, lines: Interleaving { channels, ..description.nvm.interleaving() } };
        for channel in 0..channels {
            undo(state, |slot| logs.line(channel, slot), &is_committed)?;
        }
        for channel in 0..channels as usize {
            for queued in state.saved(channel).to_vec() {
                if queued.owner == 0 || is_committed(queued.owner) {
                    state.set_line(queued.line, queued.payload)?;
                }
            }
        }
        clear(logs, &committed, &is_committed, state)
    }
}

/// The places of the controllers' logs, from line `extra` on, each in its own channel.
#[derive(Clone, Copy, Debug)]
struct Logs {
    extra: u32,
    lines: Interleaving,
}

impl Logs {
    /// Returns the first line of all logs.
    fn first(self) -> u32 {
        self.extra.next_multiple_of(self.lines.channels)
    }

    /// Returns a line of a controller's log.
    fn line(self, channel: u32, slot: u32) -> u32 {
        self.lines.line(channel, self.lines.local(self.first()) + slot)
    }
}

/// Restores the words that a controller's log holds of uncommitted transactions, newest first.
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
    if injected(Mutant::LadOldestFirst) {
        entries.reverse();
    }
    for (_, line, old) in entries.into_iter().rev() {
        let old = state.line(old);
        state.set_line(line, old)?;
    }
    Ok(())
}

/// Ends recovery. Clears the logs and the saved writes, and sets every controller's registers to
/// the committed numbers.
fn clear(
    logs: Logs,
    committed: &[u64],
    is_committed: &impl Fn(u64) -> bool,
    state: &mut Persistent,
) -> Result<(), Cut> {
    let channels = state.channels() as u32;
    let mut seals = Vec::new();
    for channel in 0..channels {
        for entry in 0..LOG_ENTRIES {
            let line = logs.line(channel, 2 * entry + 1);
            let [seal, _, owner, number, ..] = state.line(line);
            if seal == SEAL && !is_committed(owner) {
                seals.push((number, line));
            }
        }
    }
    // Newest first: the older entry of a line that was logged twice must outlive the younger one.
    // Otherwise a recovery that is cut here would restore uncommitted words.
    seals.sort_unstable();
    if !injected(Mutant::LadClearsOldestFirst) {
        seals.reverse();
    }
    if !injected(Mutant::LadKeepsSeals) {
        seals.into_iter().try_for_each(|(_, line)| state.set_line(line, [0; 8]))?;
    }
    if !injected(Mutant::LadKeepsSaved) {
        state.clear_saved()?;
    }
    dtx::set_committed(committed, 0..channels, state)
}

/// Suspends the thread if that is due. Its transaction is staged first, so that another thread on
/// the core finds no marked line.
fn suspend_if_due<const ALL: bool>(hart: &mut Hart<'_, Staged<ALL>>) {
    let Some((every, away)) = hart.machine().design.suspends else { return };
    let (core, since) = (hart.core(), hart.cycle());
    if since < hart.machine().design.cores[core].suspended {
        return;
    }
    hart.settle();
    if injected(Mutant::LadSuspendedUnmarks) {
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

/// Returns the setup of a write that is held for the core's transaction, and the notification of
/// its acceptance.
fn staged<const ALL: bool>(
    machine: &mut Machine<Staged<ALL>>,
    core: usize,
) -> (impl FnOnce(&mut Write) + use<ALL>, Notify) {
    let token = machine.open_token();
    let dtx = machine.design.dtx(core);
    dtx.flushes.push(token);
    dtx.staged = true;
    let owner = owner(core, dtx.number);
    let make = move |write: &mut Write| {
        write.held = true;
        write.owner = owner;
    };
    (make, Notify::Core(core, token))
}

/// Starts to log held lines, oldest first, while too many slots of a queue are held.
fn log_if_full<const ALL: bool>(machine: &mut Machine<Staged<ALL>>, channel: usize) {
    while logs_another(machine, channel) {}
}

/// Starts to log the oldest held line that is not being logged, if too many slots are held besides
/// those. Returns whether it has.
fn logs_another<const ALL: bool>(machine: &mut Machine<Staged<ALL>>, channel: usize) -> bool {
    let Staged { ref controllers, threshold, .. } = machine.design;
    let Some(Logging { busy, .. }) = controllers.get(channel) else { return false };
    // Every acceptance of a write calls this. Few slots are held mostly, so the common case returns
    // early.
    let controller = machine.look_at(channel);
    let held = controller.held();
    if busy.len() >= AT_ONCE || held < threshold {
        return false;
    }
    // Writes that wait for a slot count too. Otherwise a threshold equal to the limit would allow
    // only one line to be logged at a time.
    if held + controller.held_outside() < threshold + busy.len() {
        return false;
    }
    let busy: Vec<Id> = busy.iter().map(|busy| busy.id).collect();
    let Some((id, write)) = controller.oldest_held(&busy) else { return false };
    let local = write.line;
    let line = machine.global_line(channel, local);
    let now = machine.now();
    machine.design.controllers[channel].busy.push(Busy { id, line, since: now, is_sent: false });
    if injected(Mutant::LadNoLog) {
        machine.controller(channel).release(now, id);
    }
    machine.read_array(line, 0);
    true
}

/// Writes the log entry of a line after its contents have been read from the array.
fn write_entry<const ALL: bool>(machine: &mut Machine<Staged<ALL>>, channel: usize, line: u32) {
    let busy = &machine.design.controllers[channel].busy;
    let at = busy.iter().position(|busy| busy.line == line && !busy.is_sent);
    let at = at.expect("the line is being logged");
    let id = busy[at].id;
    let held = machine.controller(channel).queued_write(id).filter(|write| write.held);
    let Some(owner) = held.map(|write| write.owner) else {
        // Its transaction has committed meanwhile.
        machine.design.controllers[channel].busy.remove(at);
        return log_if_full(machine, channel);
    };
    machine.counts.fallbacks += 1;
    let logging = &mut machine.design.controllers[channel];
    logging.busy[at].is_sent = true;
    let slot = (logging.entries % u64::from(LOG_ENTRIES)) as u32;
    logging.entries += 1;
    let number = logging.entries;
    let old = machine.array_line(line);
    let design = &mut machine.design;
    let before = std::mem::replace(&mut design.controllers[channel].owners[slot as usize], owner);
    if !design.is_over(before) {
        machine.fail("a controller's log is full of entries of open transactions");
    }
    let logs = machine.design.logs;
    let lines = [2 * slot, 2 * slot + 1].map(|slot| logs.line(channel as u32, slot));
    let words = [SEAL, u64::from(line), owner, number, 0, 0, 0, 0];
    let old = Write::new(u64::from(lines[0]), old, Class::UndoFallback);
    let seal = Write::new(u64::from(lines[1]), words, Class::UndoFallback);
    // The older write gets a slot first, so line 2i precedes its seal: see the module docs.
    let mut sent = [(old, Notify::None), (seal, Notify::Design(0, id))];
    if injected(Mutant::LadSealFirst) {
        sent.reverse();
    }
    for (write, notify) in sent {
        machine.log(channel, write, notify);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::description::Point;
    use crate::mutants::inject;
    use crate::persist::{Change, Powered, Queued};

    /// Only the staged write shows that the line must not be written yet, so a younger plain write
    /// of the line waits behind it.
    #[test]
    fn plain_write_after_staged_write_is_saved_with_it() {
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
        let _injected = inject(Mutant::LadPlainWritesHeap);
        assert_eq!(recovered(), [5; 8]);
    }
}
