//! Sticky failure state: the first failure of a pool fails every later operation.
//!
//! After a failed write or sync, durability is unknown: the kernel may have dropped the dirty
//! pages, and a later success would prove nothing. So the pool keeps the first failure, and every
//! later call returns it until the pool is opened again.

use std::sync::{Arc, OnceLock};

use medium::mutants::{Mutant, injected};

use crate::error::Error;
use crate::sync::{AtomicBool, Ordering};

/// The first failure of a pool, if there was one.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    set: AtomicBool,
    cause: OnceLock<Arc<Error>>,
}

impl Poison {
    /// Stores a failure if it is the first; returns the error to report.
    pub(crate) fn put(&self, error: Error) -> Error {
        if injected(Mutant::PoisonFlagBeforeCause) {
            self.set.store(true, Ordering::Release);
            crate::sync::thread::yield_now(); // no model checker switches threads at the cause
        }
        let cause = self.cause.get_or_init(|| Arc::new(error));
        // Release: pairs with `check`.
        self.set.store(true, Ordering::Release);
        Error::Poisoned { cause: Arc::clone(cause) }
    }

    /// Returns a guard for the run of a step, to be disarmed at its end. A step that panics loses
    /// the groups it had in memory, so the guard poisons the pool: it must not go on, and must not
    /// be shut down cleanly.
    pub(crate) fn on_panic(&self, step: &'static str) -> OnPanic<'_> {
        OnPanic { poison: self, step }
    }

    /// Returns the failure, if there was one.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !self.set.load(Ordering::Acquire) {
            return Ok(());
        }
        let cause = self.cause.get().expect("the cause is kept before the flag is set");
        Err(Error::Poisoned { cause: Arc::clone(cause) })
    }
}

/// See [`Poison::on_panic`].
pub(crate) struct OnPanic<'p> {
    poison: &'p Poison,
    step: &'static str,
}

impl OnPanic<'_> {
    /// Ends the guard of a step that has not panicked. The thread may be panicking for another
    /// reason (a step may run in a destructor), so the guard cannot ask the thread.
    pub(crate) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        self.poison.put(Error::StepPanicked { step: self.step });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_failure_is_sticky() {
        let poison = Poison::default();
        assert!(poison.check().is_ok());
        poison.put(Error::InsideTransaction { call: "wait" });
        poison.put(Error::InsideTransaction { call: "flush" });
        let message = poison.check().unwrap_err().to_string();
        assert!(message.contains("wait"), "{message}");
    }
}
