//! The world outside of the pool: what the program has shown, which no crash takes back.

use std::any::Any;
use std::fmt;

use faults::recording::Recorder;
use medium::sync::{Arc, Mutex, lock};

use super::failure::DETAIL;
use crate::picker::Shared;

/// A note: a value of any type that can be printed.
pub(super) trait Note: Any + fmt::Debug + Send + Sync {}

impl<T: Any + fmt::Debug + Send + Sync> Note for T {}

/// The notes of an execution, in order.
pub(super) type Notes = Vec<Arc<dyn Note>>;

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
        lock(&self.notes).push(Arc::new(note));
        // A second unwinding would abort the process.
        if !std::thread::panicking() {
            self.recorder.crash_point();
        }
    }

    /// Returns the notes of this type, in the order in which they were shown.
    pub fn shown<T: Any + Clone>(&self) -> Vec<T> {
        let notes = lock(&self.notes);
        let of_type = notes.iter().filter_map(|note| (&**note as &dyn Any).downcast_ref::<T>());
        of_type.cloned().collect()
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("shown", &*lock(&self.notes)).finish_non_exhaustive()
    }
}
