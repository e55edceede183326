//! `recording`: a machine in memory whose power can be cut, for crash tests.
//!
//! ```text
//!   FileHeap, FileLog, PoolFile          MappedHeap, MappedLog
//!        | system calls                       | stores, write-backs, fences
//!   [ names | lengths | sectors ]        [ lines ]          durable and possible contents
//! ```
//!
//! It stands below the back ends, in place of the kernel and of memory, so tests run the code of
//! real pools. Every sector and every line keeps its durable content and its possible contents.
//! After a power failure, a [`Choose`]r picks one of them, but only for data that is read, and only
//! where they differ. docs/internals/crash-model.md numbers the assumptions (A1 to A12); the files
//! here cite them.
//!
//! | file | models |
//! |---|---|
//! | `machine` | consecutive boots; names; crash points and choices |
//! | `sectors` | files: contents by sector, lengths, syncs, writes in flight |
//! | `lines` | mapped memory: contents by cache line, write-backs, fences of threads |
//! | `scripted` | choices of a script, and every series of choices in turn |
//! | `calls` | the system calls, as [`System`] requires them |
//!
//! Invariants:
//! - A handle, a mapping or a name belongs to one boot. After the crash every call on it fails, its
//!   stores are lost, and a thread that fences or reads is unwound.
//! - A read of undecided contents decides them first, so later reads return the same.

mod calls;
mod lines;
mod machine;
mod scripted;
mod sectors;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt;

use system::System;

use crate::sync::{Arc, Mutex, lock};
use machine::Machine;

pub use machine::{Ask, Image, Model, Question};
pub use scripted::{Scripted, every};

/// Chooser of the machine's behaviour: decides everything that the program does not.
pub trait Choose: Send {
    /// Returns one of the question's options: a number below `question.options`, which is at least
    /// 2. 0 is always the quietest: no crash, no fault, no content that was not yet durable.
    fn choose(&mut self, question: Question) -> usize;

    /// Returns whether it wants reports of events.
    fn listens(&self) -> bool {
        false
    }

    /// Receives an event, for traces.
    fn hear(&mut self, what: fmt::Arguments<'_>) {
        let _ = what;
    }
}

/// Payload with which the running thread unwinds at a power failure: catch it and [boot again].
///
/// [boot again]: Recorder::system
#[derive(Debug)]
pub struct PowerCut;

impl PowerCut {
    /// Whether a caught panic is one; if not, goes on with it.
    pub fn expect(panic: Box<dyn Any + Send>) {
        if !panic.is::<PowerCut>() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// A recorded machine. Clones are the same machine.
#[derive(Clone)]
pub struct Recorder {
    machine: Arc<Mutex<Machine>>,
}

impl Recorder {
    /// A machine without any file.
    pub fn new(model: Model, chooser: Box<dyn Choose>) -> Recorder {
        Recorder::from_image(&Image::default(), model, chooser)
    }

    /// A machine with the files of another.
    pub fn from_image(image: &Image, model: Model, chooser: Box<dyn Choose>) -> Recorder {
        Recorder { machine: Arc::new(Mutex::new(Machine::new(image, model, chooser))) }
    }

    /// Returns the machine's durable files; no write may be in flight.
    ///
    /// # Panics
    /// If a write is in flight.
    pub fn image(&self) -> Image {
        lock(&self.machine).image()
    }

    /// The machine stands still for so long that every line has left its cache.
    pub fn rest(&self) {
        lock(&self.machine).rest();
    }

    /// The system of this boot. After a crash it is dead: ask for the next one.
    pub fn system(&self) -> System {
        System::of(Arc::new(calls::Recorded::new(self.clone())))
    }

    /// A moment at which the power may go.
    ///
    /// # Panics
    /// Unwinds with [`PowerCut`] when the chooser says so.
    pub fn crash_point(&self) {
        let crashed = lock(&self.machine).crash_point();
        if crashed {
            cut();
        }
    }

    /// Crash point; returns whether the power failed there.
    pub fn may_crash(&self) -> bool {
        lock(&self.machine).crash_point()
    }

    /// How often the power went.
    pub fn cuts(&self) -> u64 {
        lock(&self.machine).cuts
    }

    /// Cuts the power.
    pub fn crash(&self) {
        lock(&self.machine).crash();
    }

    /// Ends the process without closing anything; the machine goes on. Its writes stay, as durable
    /// as they are. Calls that were set to keep failing work again.
    pub fn exit(&self) {
        lock(&self.machine).exit();
    }

    /// How many calls have failed.
    pub fn faults(&self) -> u64 {
        lock(&self.machine).failed
    }

    /// How often the power went, or the process ended.
    pub fn boots(&self) -> u64 {
        lock(&self.machine).boot()
    }

    /// Returns a digest of the durable state; different states differ except by chance.
    pub fn digest(&self) -> u64 {
        lock(&self.machine).digest()
    }

    /// Changes the choices to explore from here on.
    pub fn set_model(&self, change: impl FnOnce(&mut Model)) {
        change(&mut lock(&self.machine).model);
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("boots", &self.boots()).finish_non_exhaustive()
    }
}

/// Unwinds without a panic's message.
fn cut() -> ! {
    std::panic::resume_unwind(Box::new(PowerCut))
}
