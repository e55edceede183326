//! Designs: the protocols by which a simulated machine makes transactions durable.
//!
//! A design is one file or folder. The steps that a core takes in program order are straight-line
//! code over a [`Hart`], which may wait. The reactions of the hardware to an event are functions of
//! the [`Machine`], which never wait.
//!
//! | design | begin, store | commit | reaction to events |
//! |---|---|---|---|
//! | [`volatile`](Volatile) | - | - | - |
//! | [`sw-undo`](SwUndo) | old words to a log | data, then a commit word | - |
//! | [`lad`](Lad), [`lad-base`](LadBase) | stores drained | flush, commit messages | marks, logs |
//! | [`lad-llc`](LadLlc) | stores drained | flush, commit messages | marks, keeps versions |
//! | [`hw-undo`](HwUndo) | - | data, then a commit word | logs, holds data back |
//! | [`hw-redo`](HwRedo) | - | commit word | logs, applies data from the log |
//! | [`hw-undo-redo`](HwUndoRedo) | - | commit word | logs, scans caches |
//! | [`redu`](Redu) | - | commit word, flush to DRAM | logs, marks, writes back |
//! | [`ssp`](Ssp) | pages to write are noted | data, then a journal of bits | lines change places |
//! | [`ssp-undo`](SspUndo) | - | data, then a number | each store waits for its entry |
//! | [`ssp-redo`](SspRedo) | older data are written back | log, then a record | logs, keeps lines |
//!
//! *Heap image* below means the copy of the program's lines in persistent memory. A design
//! *applies* a committed line when it writes the line there.

mod dram;
mod dtx;
mod hw_redo;
mod hw_undo;
mod hw_undo_redo;
mod lad;
mod lad_llc;
mod log;
mod redu;
pub mod soft_log;
mod ssp;
mod ssp_redo;
mod ssp_undo;
mod striped;
mod sw_undo;
mod volatile;

pub use hw_redo::HwRedo;
pub use hw_undo::HwUndo;
pub use hw_undo_redo::HwUndoRedo;
pub use lad::{Lad, LadBase};
pub use lad_llc::LadLlc;
pub use redu::Redu;
pub use ssp::Ssp;
pub use ssp_redo::SspRedo;
pub use ssp_undo::SspUndo;
pub use sw_undo::SwUndo;
pub use volatile::Volatile;

use words::Stop;

use crate::machine::cache::State;
use crate::machine::controller::{Class, Id, Write};
use crate::machine::description::{Description, Point};
use crate::machine::named::parameter_of;
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Message};
use crate::persist::{Cut, Failing, Persistent};
use soft_log::SoftLog;

/// Cycles for which a path counts as in flight once its write is sent.
const IN_FLIGHT_CYCLES: Time = 50;

/// A protocol that makes transactions durable on a machine. Every hook but [`new`](Design::new)
/// does nothing by default. Without hooks, the machine makes nothing durable.
pub trait Design: Sized + 'static {
    /// The name by which users select the design.
    const NAME: &'static str;

    /// A one-line summary.
    const ABOUT: &'static str;

    /// The built-in machine that runs the design unless the user names another.
    const MACHINE: &'static str;

    /// The parameters below `design` that affect this design: tables, or single numbers such as
    /// `redu.filter`. A run must not set any other parameter. It would describe a machine with
    /// another hash and identical behaviour.
    const PARAMETERS: &'static [&'static str] = &[];

    /// Whether a committed transaction survives a power failure.
    const DURABLE: bool = true;

    /// Whether the last cache is persistent. A persistent cache keeps its modified lines, whichever
    /// core owns them.
    const LLC_IS_PERSISTENT: bool = false;

    /// Whether a program line may lie under another line's number. [`place`](Design::place) then
    /// returns its place.
    const MOVES: bool = false;

    /// Rarely taken paths, by the names that the design passes to [`Machine::rare`]. Crash tests
    /// cut power inside each of these and of any other reported path. The list holds only paths
    /// that are taken when transactions share no data. A comparison of many runs fails when one of
    /// them was never cut.
    const RARE: &'static [&'static str] = &[];

    /// The design's periodic background work: the counter of its rounds, and the rounds that a
    /// measurement must contain. The cost of one transaction averages over many rounds.
    const ROUNDS: Option<(&'static str, u64)> = None;

    /// Checks that the design can run on a machine.
    ///
    /// # Errors
    /// The requirement that the machine does not meet.
    fn fits(description: &Description) -> Result<(), &'static str> {
        let _ = description;
        Ok(())
    }

    /// Lines of persistent memory that the design needs besides the heap.
    fn extra_lines(description: &Description) -> u32 {
        let _ = description;
        0
    }

    /// Lines of persistent memory that the design needs in proportion to the heap.
    fn table_lines(heap: u32) -> u32 {
        let _ = heap;
        0
    }

    /// Lines of volatile memory that the design needs.
    fn volatile_lines(description: &Description) -> u32 {
        let _ = description;
        0
    }

    /// Returns the idle design. Its own lines of persistent memory begin at `extra`.
    fn new(description: &Description, extra: u32) -> Self;

    /// Returns the design on a machine that starts from the state that recovery has left. Returns
    /// `None` when the design does not support this: then no run continues after a power failure.
    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        let _ = (description, extra, state);
        None
    }

    // Steps of a core, in program order.

    /// Begins a transaction.
    fn begin(hart: &mut Hart<'_, Self>) {
        let _ = hart;
    }

    /// Notes that the program is about to write these words.
    fn announced(hart: &mut Hart<'_, Self>, first: u64, words: u64) {
        let _ = (hart, first, words);
    }

    /// Stores a word within a transaction.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when the hardware cannot hold the transaction: see
    /// [`falls_back`](Design::falls_back).
    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        hart.store(word, object, value);
        Ok(())
    }

    /// Checks that the transaction can commit, after its body has run or its stores have been taken
    /// back.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when the hardware does not hold the whole transaction, as for a
    /// [`store`].
    ///
    /// [`store`]: Design::store
    fn executed(hart: &mut Hart<'_, Self>) -> Result<(), Stop> {
        let _ = hart;
        Ok(())
    }

    /// Commits a transaction. It is durable on return if the design makes anything durable.
    fn commit(hart: &mut Hart<'_, Self>) {
        let _ = hart;
    }

    /// Handles a walk of the page table for a heap page at this time, which has displaced another
    /// page from the TLB. Returns the extra cycles of the translation.
    #[inline]
    fn walked(hart: &mut Hart<'_, Self>, page: u32, left: Option<u32>, time: Time) -> Time {
        let _ = (hart, page, left, time);
        0
    }

    /// Abandons a transaction that the hardware cannot hold, after its stores have drained.
    ///
    /// The design forgets its state of the transaction. Here or in
    /// [`software_commits`](Design::software_commits), it ensures that no older version of the
    /// transaction's lines overwrites software's writes. The machine then drops the written lines
    /// from all caches and restores their words. The body runs again with the design's
    /// [`soft_log`](Design::soft_log) and keeps its locks.
    fn falls_back(hart: &mut Hart<'_, Self>) {
        let _ = hart;
    }

    /// Prepares for the commit word of a transaction in the software log. The transaction's data,
    /// if any, are durable.
    fn software_commits(hart: &mut Hart<'_, Self>) {
        let _ = hart;
    }

    // Reactions of the hardware to an event.

    /// Returns the place in caches and memory at which a core finds a program line. When no
    /// transaction is in flight, all cores find the line at one place.
    #[inline(always)]
    fn place(&self, core: usize, line: u32) -> u32 {
        let _ = core;
        line
    }

    /// Reacts to the oldest operation of a core's store buffer having to wait. Younger operations
    /// may have entered the buffer behind it.
    #[inline(always)]
    fn oldest_waits(machine: &mut Machine<Self>, core: usize) {
        let _ = (machine, core);
    }

    /// Returns the event that a store of this word waits for besides its line's arrival (`there`),
    /// or before it. The store could drain as soon as the line's bytes arrive.
    #[inline(always)]
    fn waits(machine: &mut Machine<Self>, core: usize, word: u64, there: When) -> Option<When> {
        let _ = (machine, core, word, there);
        None
    }

    /// Prepares a store to a program line at this place, which the core may write. Returns the
    /// line's place from now on: the same one, or the target of [`Machine::retag`].
    #[inline(always)]
    fn moves(machine: &mut Machine<Self>, core: usize, line: u32, place: u32) -> u32 {
        let _ = (machine, core, line);
        place
    }

    /// The software log of transactions that the hardware cannot hold. Without a software log, such
    /// a transaction ends with [`Stop::TooLarge`].
    fn soft_log(&mut self) -> Option<&mut SoftLog> {
        None
    }

    /// Counts inconsistencies within the design's state when no transaction is in flight. Any
    /// number but 0 is a bug.
    fn contradictions(&self) -> u64 {
        0
    }

    /// Returns the purpose of a line that caches write to memory.
    fn class_of(&self, line: u32) -> Class {
        let _ = line;
        Class::Data
    }

    /// Reacts to a drained store of a core. The word was `old` before.
    fn drained(machine: &mut Machine<Self>, core: usize, word: u64, old: u64) {
        let _ = (machine, core, word, old);
    }

    /// Reacts to a line's eviction from a core's first cache.
    fn leaves_l1(machine: &mut Machine<Self>, core: usize, line: u32, state: State) {
        let _ = (machine, core, line, state);
    }

    /// Reacts to the eviction of a modified line from a core's last private cache. Returns whether
    /// the design has taken the line. Otherwise the last cache receives it.
    fn leaves_core(machine: &mut Machine<Self>, core: usize, line: u32, state: State) -> bool {
        let _ = (machine, core, line, state);
        false
    }

    /// Reacts to the eviction of a modified line from the last cache. Returns whether the design
    /// has taken the line. Otherwise the machine writes it to memory.
    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        let _ = (machine, line);
        false
    }

    /// Reacts to another core's request for a line that this core owns.
    fn asked(machine: &mut Machine<Self>, core: usize, line: u32) {
        let _ = (machine, core, line);
    }

    /// Reacts to a core's read of a persistent line that has reached its channel. Returns whether
    /// the design takes the read. It then continues with [`Machine::fill_from_array`] or completes
    /// with [`Machine::fill_with`].
    #[inline]
    fn fill(machine: &mut Machine<Self>, channel: usize, line: u32, read: Id) -> bool {
        let _ = (machine, channel, line, read);
        false
    }

    /// Reacts to a write of a persistent line that has reached its channel. The design may still
    /// hold the write back.
    #[inline]
    fn arrives(machine: &mut Machine<Self>, channel: usize, id: Id, write: &mut Write) {
        let _ = (machine, channel, id, write);
    }

    /// Lines that the design has taken and not yet written to persistent memory.
    fn backlog(&self) -> u64 {
        0
    }

    /// Whether the design's structures are as full as they get: a circular log has wrapped, for
    /// example. No measurement starts before.
    fn is_warm(&self) -> bool {
        true
    }

    /// Reacts to a write of the design that has reached this point.
    fn notified(machine: &mut Machine<Self>, channel: usize, core: usize, tag: u64, point: Point) {
        let _ = (machine, channel, core, tag, point);
    }

    /// Reacts to a channel having accepted a write.
    fn accepted(machine: &mut Machine<Self>, channel: usize) {
        let _ = (machine, channel);
    }

    /// Receives the result of a read that the design has issued with [`Machine::read_array`] or
    /// [`Machine::read_below`].
    fn has_read(machine: &mut Machine<Self>, channel: usize, line: u32, tag: u64) {
        let _ = (machine, channel, line, tag);
    }

    /// Receives a message of the design at a channel.
    fn message(machine: &mut Machine<Self>, channel: usize, core: usize, message: Message) {
        let _ = (machine, channel, core, message);
    }

    /// Runs one of the design's background engines.
    fn engine(machine: &mut Machine<Self>, engine: usize) {
        let _ = (machine, engine);
    }

    // After a power failure. Both functions see only persistent state.

    /// Performs the work that batteries do when power fails. By default they write the controllers'
    /// queues to the heap image, in order. Where a write is durable only in the media, the machine
    /// has no batteries and its queues hold nothing.
    fn power_fails(description: &Description, state: &mut Failing) {
        let _ = description;
        for queued in state.take_queues().into_iter().flatten() {
            state.save_line(queued.line, queued.payload);
        }
    }

    /// Brings the persistent state to that after some transaction. Power may fail at any step;
    /// recovery then starts again.
    ///
    /// # Errors
    /// [`Cut`] when power fails again.
    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        let _ = (description, extra, state);
        Ok(())
    }

    /// Returns a function that finds a program line in the state that recovery has left.
    fn line_map(
        description: &Description,
        extra: u32,
    ) -> impl Fn(&Persistent, u32) -> u32 + use<Self> {
        let _ = (description, extra);
        |_, line| line
    }
}

/// An operation on a design that is known only by name.
pub trait Visitor {
    /// The result of the operation.
    type Out;

    /// Performs the operation on this design.
    fn visit<D: Design>(self) -> Self::Out;
}

/// The description of a design.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// See [`Design::NAME`].
    pub name: &'static str,
    /// See [`Design::ABOUT`].
    pub about: &'static str,
    /// See [`Design::MACHINE`].
    pub machine: &'static str,
    /// See [`Design::PARAMETERS`].
    pub parameters: &'static [&'static str],
}

impl About {
    const fn of<D: Design>() -> About {
        let (name, about, machine) = (D::NAME, D::ABOUT, D::MACHINE);
        About { name, about, machine, parameters: D::PARAMETERS }
    }

    /// Whether the design reads a parameter of a machine. Every design reads all that are not
    /// parameters of designs.
    pub fn goes_by(&self, key: &str) -> bool {
        let Some(parameter) = parameter_of(key) else { return true };
        let is_it = |known: &str| {
            let rest = parameter.strip_prefix(known);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.parameters.iter().any(|known| is_it(known))
    }
}

/// The one list of designs: both the table and the dispatch by name come from it.
macro_rules! designs {
    ($($design:ty),*) => {
        /// All designs, in the order of their listing.
        pub const ALL: &[About] = &[$(About::of::<$design>()),*];

        /// Calls `visitor` with the design of this name. Returns `None` when no design has it.
        pub fn by_name<V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            $(if name == <$design>::NAME {
                return Some(visitor.visit::<$design>());
            })*
            None
        }
    };
}

designs!(
    Volatile, SwUndo, Lad, LadBase, LadLlc, HwUndo, HwRedo, HwUndoRedo, Redu, SspUndo, SspRedo, Ssp
);

/// Returns the names of all designs, separated by commas.
pub fn names() -> String {
    let names: Vec<&str> = ALL.iter().map(|design| design.name).collect();
    names.join(", ")
}
