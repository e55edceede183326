//! The world outside of the pool: what the program has shown, which no crash takes back.

use std::any::{Any, TypeId, type_name};
use std::fmt;

use faults::recording::Recorder;
use medium::sync::{Arc, Mutex, lock};

use super::Cause;
use super::failure::DETAIL;
use crate::picker::Shared;

/// A note: a value of any type that can be printed.
pub(super) trait Note: Any + fmt::Debug + Send + Sync {
    fn type_name(&self) -> &'static str;
}

impl<T: Any + fmt::Debug + Send + Sync> Note for T {
    fn type_name(&self) -> &'static str {
        type_name::<T>()
    }
}

/// The notes of an execution.
#[derive(Clone, Default)]
pub(super) struct Notes {
    /// In order.
    shown: Vec<Arc<dyn Note>>,
    /// The types that the program has asked for, with their names.
    asked: Vec<(TypeId, &'static str)>,
}

impl Notes {
    /// Returns the number of notes.
    pub(super) fn len(&self) -> usize {
        self.shown.len()
    }

    /// Returns a type that was asked for and never shown, and a type that was shown and never asked
    /// for: probably a mistake of the test.
    pub(super) fn mistaken(&self) -> Option<Cause> {
        let of = |note: &Arc<dyn Note>| (&**note as &dyn Any).type_id();
        let is_shown = |asked: TypeId| self.shown.iter().any(|note| of(note) == asked);
        let is_asked = |shown: TypeId| self.asked.iter().any(|(asked, _)| *asked == shown);
        let (_, asked) = self.asked.iter().find(|(asked, _)| !is_shown(*asked))?;
        let shown = self.shown.iter().find(|note| !is_asked(of(note)))?;
        Some(Cause::NeverShown { asked, shown: (**shown).type_name() })
    }
}

/// The world outside of the program: customers, other machines, a screen.
///
/// A step notes with [`show`](World::show) what the program has shown to the world. Notes survive
/// every crash, so an invariant compares the recovered pool with them. Clones are the same world: a
/// program may keep one, as the mailer or the socket that it sends with.
#[derive(Clone)]
pub struct World {
    recorder: Recorder,
    /// The boot that it belongs to. A process that has ended shows nothing.
    boot: u64,
    picker: Shared,
    notes: Arc<Mutex<Notes>>,
}

impl World {
    pub(super) fn new(recorder: &Recorder, picker: &Shared, notes: &Arc<Mutex<Notes>>) -> World {
        World {
            recorder: recorder.clone(),
            boot: recorder.boots(),
            picker: picker.clone(),
            notes: Arc::clone(notes),
        }
    }

    /// Notes that the program has shown this to the world: a reply, a message, a printed line. The
    /// power may fail right afterwards. A transaction that the note reports should be durable
    /// before the call.
    pub fn show<T: Any + Clone + fmt::Debug + Send + Sync>(&self, note: T) {
        if self.recorder.boots() != self.boot {
            return;
        }
        self.picker.log(format_args!("{DETAIL}shown: {note:?}"));
        lock(&self.notes).shown.push(Arc::new(note));
        // A second unwinding would abort the process.
        if !std::thread::panicking() {
            self.recorder.crash_point();
        }
    }

    /// Returns the notes of this type, in the order in which they were shown. A `u64` is not an
    /// `i32`: a type of the program's own, as `struct Done(u64)`, prevents such mistakes.
    pub fn shown<T: Any + Clone>(&self) -> Vec<T> {
        let mut notes = lock(&self.notes);
        let asked = (TypeId::of::<T>(), type_name::<T>());
        if !notes.asked.contains(&asked) {
            notes.asked.push(asked);
        }
        let of_type =
            notes.shown.iter().filter_map(|note| (&**note as &dyn Any).downcast_ref::<T>());
        of_type.cloned().collect()
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("shown", &lock(&self.notes).shown).finish_non_exhaustive()
    }
}
