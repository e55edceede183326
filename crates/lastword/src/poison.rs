//! A pool whose medium has failed says so for ever.
//!
//! After a failed write or sync nobody knows what is durable (the kernel may have dropped the
//! pages), and a later success would prove nothing. So the first failure is kept, and every later
//! call answers it, until the pool is opened again.

use std::sync::{Arc, OnceLock};

use crate::Error;
use crate::sync::{AtomicBool, Ordering};

/// The first failure of a pool, if there was one.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    set: AtomicBool,
    cause: OnceLock<Arc<Error>>,
}

impl Poison {
    /// Keeps a failure, if it is the first; answers what to tell.
    pub(crate) fn put(&self, error: Error) -> Error {
        let cause = self.cause.get_or_init(|| Arc::new(error));
        // Release: pairs with `check`.
        self.set.store(true, Ordering::Release);
        Error::Poisoned { cause: Arc::clone(cause) }
    }

    /// Held while a step runs, then disarmed: when it panics, what it had in hand is lost to
    /// memory, so the pool must not go on, and must not be closed as if all were well.
    pub(crate) fn on_panic(&self, step: &'static str) -> OnPanic<'_> {
        OnPanic { poison: self, step }
    }

    /// Answers the failure, if there was one.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !self.set.load(Ordering::Acquire) {
            return Ok(());
        }
        let cause = self.cause.get().expect("the cause is kept before the mark is set");
        Err(Error::Poisoned { cause: Arc::clone(cause) })
    }
}

/// See [`Poison::on_panic`].
pub(crate) struct OnPanic<'p> {
    poison: &'p Poison,
    step: &'static str,
}

impl OnPanic<'_> {
    /// The step is over and has not panicked. Whether the thread panics for another reason (a step
    /// may run in a destructor) is no matter.
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
    fn the_first_failure_is_told_ever_after() {
        let poison = Poison::default();
        assert!(poison.check().is_ok());
        poison.put(Error::InsideTransaction { call: "wait" });
        poison.put(Error::InsideTransaction { call: "flush" });
        let told = poison.check().unwrap_err().to_string();
        assert!(told.contains("wait"), "{told}");
    }
}
