//! `recording`: a machine in memory whose power can be cut, for crash tests.
//!
//! ```text
//!   FileHome, FileLog, PoolFile          MappedHome, MappedLog
//!        | system calls                       | stores, write-backs, fences
//!   [ names | lengths | sectors ]        [ lines ]          what is durable, and what may be
//! ```
//!
//! It stands below the back ends, in place of the kernel and of memory, so that the code that is
//! tested is the code that runs. Every sector and every line knows what is certainly durable and
//! what may be; when the power goes, a [`Choose`]r says which of it is, but only of what is read
//! afterwards, and only where there is a difference. docs/internals/crash-model.md numbers the
//! assumptions (A1 to A12); the files here cite them.
//!
//! | file | what it models |
//! |---|---|
//! | `machine` | one boot after the other; names; crash points and questions |
//! | `sectors` | files: contents by sector, lengths, syncs, writes under way |
//! | `lines` | mapped memory: contents by cache line, write-backs, fences of threads |
//! | `system` | the calls, as [`System`] wants them |
//!
//! Invariants:
//! - A handle, a mapping or a name belongs to one boot: after the crash every call on it fails,
//!   what is stored is lost, and who fences or reads is unwound.
//! - Whoever reads what a crash has left undecided has it decided first; so what was read once
//!   stays so.

mod lines;
mod machine;
mod sectors;
mod system;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt;

use crate::sync::{Arc, Mutex, lock};
use crate::system::System;
use machine::Machine;

pub use machine::{Ask, Image, Model, Question};
pub(crate) use system::{Queue, RecordedArea, RecordedFile};

/// Who decides what the world does. Everything that is not the program's doing is asked here.
pub trait Choose: Send {
    /// One of the question's options: a number below `question.options`, which is at least 2. 0 is
    /// always the quietest: no crash, no fault, nothing of what was not yet durable.
    fn choose(&mut self, question: Question) -> usize;

    /// Whether it wants to be told what happens.
    fn listens(&self) -> bool {
        false
    }

    /// Is told what happens, for traces.
    fn hear(&mut self, what: fmt::Arguments<'_>) {
        let _ = what;
    }
}

/// What the thread that runs unwinds with when the power goes: catch it and [boot again].
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

    /// The machine's files as they are durable; nothing may be on its way.
    ///
    /// # Panics
    /// When something is.
    pub fn image(&self) -> Image {
        lock(&self.machine).image()
    }

    /// The machine stands still for so long that every line has left its cache.
    pub fn rest(&self) {
        lock(&self.machine).rest();
    }

    /// The system of this boot. After a crash it is dead: ask for the next one.
    pub fn system(&self) -> System {
        System::of(Arc::new(system::Recorded::new(self.clone())))
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

    /// A moment at which the power may go, for who looks whether it did.
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

    /// The process ends, without closing anything; the machine goes on. What it has written stays,
    /// as durable as it is; a call that goes on failing works again.
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

    /// A number that differs, but for chance, between two states of what is durable.
    pub fn digest(&self) -> u64 {
        lock(&self.machine).digest()
    }

    /// Changes what is asked about from here on.
    pub fn set_model(&self, change: impl FnOnce(&mut Model)) {
        change(&mut lock(&self.machine).model);
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("boots", &self.boots()).finish_non_exhaustive()
    }
}

/// Unwinds, without what a panic says.
fn cut() -> ! {
    std::panic::resume_unwind(Box::new(PowerCut))
}
