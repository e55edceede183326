//! The copy of the list of the workers' slots that the persist step knows.
//!
//! Workers register rarely, and a thread that waits for its own commit sends a group each time. So
//! the holder of the step's lock keeps a copy of the list, and looks at the list when its version
//! has changed.
//!
//! ```text
//!   worker                            persist step
//!   1 its slot onto the list          a read the clock
//!   2 version + 1                     b version unchanged? the copy has all slots that matter
//!   3 assign an ID (locked add)
//! ```
//!
//! Invariant: the copy has the slot of each worker that was assigned an ID up to the clock of a.
//! An addition to the clock also releases the stores before all earlier additions, so a load that
//! sees the ID of 3 sees 2. A worker whose 2 is later than b has no ID up to that clock.

use crate::sync::Arc;

/// The version of no list.
const NO_VERSION: u64 = u64::MAX;

/// See the module.
pub(super) struct KnownSlots<T> {
    pub(super) slots: Vec<Arc<T>>,
    pub(super) version: u64,
    /// Whether a slot in it is closed. Its records may still be in its ring.
    pub(super) some_closed: bool,
}

impl<T> Default for KnownSlots<T> {
    fn default() -> Self {
        KnownSlots { slots: Vec::new(), version: NO_VERSION, some_closed: false }
    }
}

impl<T> KnownSlots<T> {
    /// Copies the list.
    pub(super) fn copy(&mut self, list: &[Arc<T>], is_closed: impl Fn(&T) -> bool) {
        self.slots.clear();
        self.slots.extend(list.iter().map(Arc::clone));
        self.some_closed = list.iter().any(|slot| is_closed(slot));
    }
}
