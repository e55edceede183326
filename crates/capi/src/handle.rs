//! What a program holds of a pool or a worker.
//!
//! A handle leads to a shell that is never freed, so that a call with one that was closed is found
//! and answered. Shells are used again when so many others have been closed since
//! ([`KEPT`]): programs that open a worker for each request do not grow.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Status, status};

/// Closed shells that are kept before the first of them is used again.
const KEPT: usize = 1024;

/// What a handle leads to.
#[repr(C, align(64))]
pub struct Shell<T> {
    /// The thread that has what is inside to itself; 0: none, or it is closed.
    pub(crate) owner: AtomicUsize,
    is_open: AtomicBool,
    /// There while it is open.
    inside: UnsafeCell<Option<T>>,
}

// SAFETY: what is inside is written while it is not open, and nobody else has it then; whoever
// looks inside meanwhile does what `T` allows a shared reference, or is its owner.
unsafe impl<T> Sync for Shell<T> {}

/// The closed shells of a type.
pub(crate) struct Closed<T: 'static>(Mutex<VecDeque<&'static Shell<T>>>);

impl<T> Closed<T> {
    pub(crate) const fn new() -> Closed<T> {
        Closed(Mutex::new(VecDeque::new()))
    }

    /// A handle to this, for its owner or, where that is 0, for all.
    pub(crate) fn open(&self, inside: T, owner: usize) -> *mut Shell<T> {
        let mut closed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let again = if closed.len() > KEPT { closed.pop_front() } else { None };
        let shell = again.unwrap_or_else(|| Box::leak(Box::new(Shell::empty())));
        shell.owner.store(owner, Ordering::Relaxed);
        // SAFETY: it is not open, and in no queue any more.
        unsafe { *shell.inside.get() = Some(inside) };
        // Release: who finds it open finds what is inside.
        shell.is_open.store(true, Ordering::Release);
        ptr::from_ref(shell).cast_mut()
    }

    /// Closes a shell; answers what was inside.
    pub(crate) fn close(&self, shell: &'static Shell<T>) -> Result<T, Status> {
        if !shell.is_open.swap(false, Ordering::AcqRel) {
            return Err(status::CLOSED);
        }
        shell.owner.store(0, Ordering::Relaxed);
        // SAFETY: the swap has given it to nobody else.
        let inside = unsafe { (*shell.inside.get()).take() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(shell);
        inside.ok_or(status::CLOSED)
    }
}

impl<T> Shell<T> {
    fn empty() -> Shell<T> {
        Shell {
            owner: AtomicUsize::new(0),
            is_open: AtomicBool::new(false),
            inside: UnsafeCell::new(None),
        }
    }

    /// The shell of a handle.
    ///
    /// # Safety
    /// It is NULL, or a handle that [`Closed::open`] has given out.
    #[inline(always)]
    pub(crate) unsafe fn of(handle: *mut Shell<T>) -> Result<&'static Shell<T>, Status> {
        // SAFETY: shells are never freed.
        unsafe { handle.as_ref() }.ok_or(status::INVALID)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// What is inside, if it is open: for as long as nobody closes it.
    #[inline(always)]
    pub(crate) fn inside(&'static self) -> Result<&'static T, Status> {
        if !self.is_open() {
            return Err(status::CLOSED);
        }
        // SAFETY: it is written only while it is not open.
        unsafe { (*self.inside.get()).as_ref() }.ok_or(status::CLOSED)
    }

    /// The same for the owner, who knows that it is open.
    ///
    /// # Safety
    /// The calling thread is the owner.
    #[inline(always)]
    pub(crate) unsafe fn inside_of_owner(&'static self) -> &'static T {
        // SAFETY: while it has an owner it is open, and only a shell that is not is written.
        unsafe { (*self.inside.get()).as_ref().unwrap_unchecked() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_handle_is_known_until_many_others_are_closed() {
        static SHELLS: Closed<u32> = Closed::new();
        let open = |value| {
            // SAFETY: it comes from there.
            unsafe { Shell::of(SHELLS.open(value, 0)) }.unwrap_or_else(|_| unreachable!())
        };
        let first = open(1);
        assert_eq!(SHELLS.close(first), Ok(1));
        assert_eq!(SHELLS.close(first).err(), Some(status::CLOSED));
        assert_eq!(first.inside().err(), Some(status::CLOSED));
        let mut used_again = 0;
        for value in 0..4 * KEPT as u32 {
            let shell = open(value);
            used_again += usize::from(ptr::eq(shell, first));
            assert_eq!(SHELLS.close(shell), Ok(value));
        }
        assert!((2..5).contains(&used_again), "{used_again} times");
    }
}
