//! Designs: how a machine makes transactions durable.
//!
//! | design | begin, store | end | at a moment |
//! |---|---|---|---|
//! | [`volatile`](Volatile) | - | - | - |
//! | [`sw-undo`](SwUndo) | old words to a log | data, then a commit word | - |
//! | [`lad`](Lad), [`lad-base`](LadBase) | stores drained | flush, tell controllers | marks, logs |
//! | [`lad-llc`](LadLlc) | stores drained | flush, tell banks | marks, keeps versions |
//! | [`hw-undo`](HwUndo) | - | data, then a commit word | logs, holds data back |
//! | [`hw-redo`](HwRedo) | - | commit word | logs, brings data home from the log |
//! | [`hw-undo-redo`](HwUndoRedo) | - | commit word | logs, scans caches |
//! | [`redu`](Redu) | - | commit word, flush to DRAM | logs, marks, brings data home |
//! | [`ssp`](Ssp) | pages to write are noted | data, then a journal of bits | lines change places |
//! | [`ssp-undo`](SspUndo) | - | data, then a number | each store waits for its entry |
//! | [`ssp-redo`](SspRedo) | older data are at home | log, then a record | logs, keeps lines |
//!
//! A design is one file. What a core does itself, in the order of its program, is written as
//! straight code over a [`Hart`] that may wait; what hardware does at a moment is a function of the
//! [`Machine`], which cannot.

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
use crate::machine::describe::parameter_of;
use crate::machine::description::{Description, Point};
use crate::machine::when::{Time, When};
use crate::machine::{Hart, Machine, Message};
use crate::persist::{Cut, Failing, Persistent};
use soft_log::SoftLog;

/// Cycles for which a write is at least under way.
const ON_ITS_WAY: Time = 50;

/// How a machine makes transactions durable. Every hook but [`new`](Design::new) does nothing by
/// default: what is left is a machine on which nothing is made durable.
pub trait Design: Sized + 'static {
    /// What a user calls it.
    const NAME: &'static str;

    /// One line about it.
    const ABOUT: &'static str;

    /// The machine on which it runs unless another one is named.
    const MACHINE: &'static str;

    /// The numbers below `design` that it goes by: tables of them, and single ones, as in
    /// `redu.filter`. Nobody who asks for one run may change another one: it would be a machine of
    /// another hash on which everything is the same.
    const PARAMETERS: &'static [&'static str] = &[];

    /// Whether a committed transaction survives a power cut.
    const DURABLE: bool = true;

    /// Whether the last cache is persistent: then it keeps what it has modified, whoever owns it.
    const LLC_IS_PERSISTENT: bool = false;

    /// Whether a line of the program may lie elsewhere than under its own number: then
    /// [`place`](Design::place) says where.
    const MOVES: bool = false;

    /// Paths that it takes rarely, by the names that it gives to [`Machine::rare`]: power is cut
    /// inside of each, and of any other one that it takes. Here are those that a program takes
    /// whose transactions keep what they write to themselves: a comparison of many runs fails when
    /// one of them was never cut.
    const RARE: &'static [&'static str] = &[];

    /// What it does in the background from time to time, by the name under which it is counted, and
    /// how often that must be done in a measurement: what one transaction costs is told by many of
    /// these rounds.
    const ROUNDS: Option<(&'static str, u64)> = None;

    /// Whether it can run on a machine.
    ///
    /// # Errors
    /// What must be otherwise.
    fn fits(description: &Description) -> Result<(), &'static str> {
        let _ = description;
        Ok(())
    }

    /// Lines of persistent memory that it needs besides the heap.
    fn extra_lines(description: &Description) -> u32 {
        let _ = description;
        0
    }

    /// Lines of persistent memory that it needs besides, because the heap has so many.
    fn table_lines(heap: u32) -> u32 {
        let _ = heap;
        0
    }

    /// Lines of volatile memory that it needs.
    fn volatile_lines(description: &Description) -> u32 {
        let _ = description;
        0
    }

    /// The design at rest. Its own lines of persistent memory begin at `extra`.
    fn new(description: &Description, extra: u32) -> Self;

    /// The design on a machine that begins with what its recovery has left; `None` when it does not
    /// say how: then no run goes on after a power cut.
    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        let _ = (description, extra, state);
        None
    }

    // What a core does, in its program's order.

    /// A transaction begins.
    fn begin(hart: &mut Hart<'_, Self>) {
        let _ = hart;
    }

    /// The program says that it will write these words.
    fn announced(hart: &mut Hart<'_, Self>, first: u64, words: u64) {
        let _ = (hart, first, words);
    }

    /// A transaction stores a word.
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when the hardware cannot hold the transaction: see
    /// [`falls_back`](Design::falls_back).
    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        hart.store(word, object, value);
        Ok(())
    }

    /// The body of a transaction is over, or its stores were taken back: can it be committed?
    ///
    /// # Errors
    /// [`Stop::TooLarge`] when the hardware does not hold all of it, as for a [`store`].
    ///
    /// [`store`]: Design::store
    fn executed(hart: &mut Hart<'_, Self>) -> Result<(), Stop> {
        let _ = hart;
        Ok(())
    }

    /// A transaction ends: it is durable on return, where the design makes anything durable.
    fn commit(hart: &mut Hart<'_, Self>) {
        let _ = hart;
    }

    /// A core has walked the page table for a heap's page at this time, and another page is not
    /// known any more. Answers for how many cycles more the translation takes.
    #[inline]
    fn walked(hart: &mut Hart<'_, Self>, page: u32, left: Option<u32>, time: Time) -> Time {
        let _ = (hart, page, left, time);
        0
    }

    /// The hardware cannot hold the running transaction: it forgets what it has of it, and sees to
    /// it, here or when [`software_commits`](Design::software_commits), that nothing older of its
    /// lines comes after what software will write. Its stores have
    /// drained. Then the lines that it has written are dropped from all caches, its words are what
    /// they were, and its body runs again with the design's [`soft_log`](Design::soft_log), its
    /// locks kept.
    fn falls_back(hart: &mut Hart<'_, Self>) {
        let _ = hart;
    }

    /// The log in software is about to make a transaction durable: its data, if it has any, are,
    /// and the commit word is next.
    fn software_commits(hart: &mut Hart<'_, Self>) {
        let _ = hart;
    }

    // What the hardware does at a moment.

    /// Where a core finds a line of the program in caches and memory. When nothing is under way,
    /// all find it in one place.
    #[inline(always)]
    fn place(&self, core: usize, line: u32) -> u32 {
        let _ = core;
        line
    }

    /// The oldest operation of a core's store buffer waits, and others may have come behind it.
    #[inline(always)]
    fn behind(machine: &mut Machine<Self>, core: usize) {
        let _ = (machine, core);
    }

    /// A store of this word could drain as soon as its bytes are there. Answers what it waits for
    /// besides, or first.
    #[inline(always)]
    fn waits(machine: &mut Machine<Self>, core: usize, word: u64, there: When) -> Option<When> {
        let _ = (machine, core, word, there);
        None
    }

    /// A store is about to change a line of the program, which lies at this place and which the
    /// core may write. Answers where it lies from here on: there, or where it has been moved to by
    /// [`Machine::retag`].
    #[inline(always)]
    fn moves(machine: &mut Machine<Self>, core: usize, line: u32, place: u32) -> u32 {
        let _ = (machine, core, line);
        place
    }

    /// The log in software of transactions that the hardware cannot hold. Without one such a
    /// transaction ends with [`Stop::TooLarge`].
    fn soft_log(&mut self) -> Option<&mut SoftLog> {
        None
    }

    /// How much of what it has contradicts itself when nothing is under way: always 0, or it is
    /// wrong.
    fn contradictions(&self) -> u64 {
        0
    }

    /// What a line is for that caches write to memory.
    fn class_of(&self, line: u32) -> Class {
        let _ = line;
        Class::Data
    }

    /// A core's store has drained; the word was `old` before.
    fn drained(machine: &mut Machine<Self>, core: usize, word: u64, old: u64) {
        let _ = (machine, core, word, old);
    }

    /// A line leaves a core's first cache.
    fn leaves_l1(machine: &mut Machine<Self>, core: usize, line: u32, state: State) {
        let _ = (machine, core, line, state);
    }

    /// A modified line leaves a core's last private cache. Whether the design has taken it; else
    /// the last cache gets it.
    fn leaves_core(machine: &mut Machine<Self>, core: usize, line: u32, state: State) -> bool {
        let _ = (machine, core, line, state);
        false
    }

    /// A modified line leaves the last cache. Whether the design has taken it; else it is written
    /// to memory.
    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        let _ = (machine, line);
        false
    }

    /// Another core asks for a line that this one owns.
    fn asked(machine: &mut Machine<Self>, core: usize, line: u32) {
        let _ = (machine, core, line);
    }

    /// A core's read of a persistent line has reached its channel. Whether the design takes it:
    /// then it goes on by [`Machine::fill_from_array`], or is answered by [`Machine::fill_with`].
    #[inline]
    fn fill(machine: &mut Machine<Self>, channel: usize, line: u32, read: Id) -> bool {
        let _ = (machine, channel, line, read);
        false
    }

    /// A write of a persistent line has reached its channel: the design may still make it wait.
    #[inline]
    fn arrives(machine: &mut Machine<Self>, channel: usize, id: Id, write: &mut Write) {
        let _ = (machine, channel, id, write);
    }

    /// Lines that it has taken and that are not in persistent memory yet.
    fn backlog(&self) -> u64 {
        0
    }

    /// Whether what it has is as full as it gets: a log that is written round and round, say.
    /// Nothing is measured before.
    fn is_warm(&self) -> bool {
        true
    }

    /// A write that the design has sent has reached this point.
    fn told(machine: &mut Machine<Self>, channel: usize, core: usize, tag: u64, point: Point) {
        let _ = (machine, channel, core, tag, point);
    }

    /// A channel has accepted a write.
    fn accepted(machine: &mut Machine<Self>, channel: usize) {
        let _ = (machine, channel);
    }

    /// Memory has been read for the design: [`Machine::read_array`], [`Machine::read_below`].
    fn has_read(machine: &mut Machine<Self>, channel: usize, line: u32, tag: u64) {
        let _ = (machine, channel, line, tag);
    }

    /// A message of the design has reached a channel.
    fn message(machine: &mut Machine<Self>, channel: usize, core: usize, message: Message) {
        let _ = (machine, channel, core, message);
    }

    /// One of its background engines acts.
    fn engine(machine: &mut Machine<Self>, engine: usize) {
        let _ = (machine, engine);
    }

    // After a power cut. Neither sees more than what is persistent.

    /// What batteries do when power fails. By default they write the controllers' queues to where
    /// they belong, in order. Where a write counts only when memory has it, there are none, and
    /// nothing is in the queues.
    fn power_fails(description: &Description, state: &mut Failing) {
        let _ = description;
        for queued in state.take_queues().into_iter().flatten() {
            state.save_home(queued.line, queued.payload);
        }
    }

    /// Makes what is persistent the state after some transaction. It may be cut at any step, and
    /// begins again then.
    ///
    /// # Errors
    /// [`Cut`].
    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        let _ = (description, extra, state);
        Ok(())
    }

    /// Finds a line of the program in what recovery has left.
    fn finder(
        description: &Description,
        extra: u32,
    ) -> impl Fn(&Persistent, u32) -> u32 + use<Self> {
        let _ = (description, extra);
        |_, line| line
    }
}

/// What to do with a design whose type is known only by name.
pub trait Visitor {
    /// What comes out of it.
    type Out;

    /// Does it with this one.
    fn visit<D: Design>(self) -> Self::Out;
}

/// What there is to know of a design by its name.
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

    /// Whether it goes by a number of a machine: by all that are no parameters of designs, too.
    pub fn goes_by(&self, key: &str) -> bool {
        let Some(parameter) = parameter_of(key) else { return true };
        let is_it = |known: &str| {
            let rest = parameter.strip_prefix(known);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.parameters.iter().any(|known| is_it(known))
    }
}

/// The one list of designs.
macro_rules! designs {
    ($($design:ty),*) => {
        /// All designs, in the order in which they are listed.
        pub const ALL: &[About] = &[$(About::of::<$design>()),*];

        /// Calls `visitor` with the design of this name; `None` when there is none.
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

/// Their names, for people.
pub fn names() -> String {
    let names: Vec<&str> = ALL.iter().map(|design| design.name).collect();
    names.join(", ")
}
