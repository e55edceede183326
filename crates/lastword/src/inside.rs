//! Whether a transaction's body runs on this thread.
//!
//! A body may run again, and it holds locks of the transactional memory: running another
//! transaction inside it, or waiting for durability, would repeat effects or wait for itself.

use std::cell::Cell;

use crate::Error;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Held while a body runs.
#[derive(Debug)]
pub(crate) struct Inside(());

impl Inside {
    /// Enters, unless a body runs already. `call` is named in the error.
    #[inline]
    pub(crate) fn enter(call: &'static str) -> Result<Inside, Error> {
        if INSIDE.replace(true) { Err(Error::InsideTransaction { call }) } else { Ok(Inside(())) }
    }

    /// Refuses a call that may not be made inside.
    #[inline]
    pub(crate) fn refuse(call: &'static str) -> Result<(), Error> {
        if INSIDE.get() { Err(Error::InsideTransaction { call }) } else { Ok(()) }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_inside_a_body_is_refused_and_the_outer_one_goes_on() {
        let outer = Inside::enter("run").unwrap();
        assert!(Inside::enter("run").is_err());
        assert!(Inside::refuse("wait").is_err());
        drop(outer);
        assert!(Inside::refuse("wait").is_ok());
    }
}
