//! Handles of pools and workers that detect their use after closing.
//!
//! A handle is a pointer to a shell that is never freed. So a call with a closed handle reads valid
//! memory and returns [`status::CLOSED`]. A shell is reused after 1024 others were closed,
//! which bounds the memory of programs that open a worker for each request.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Status, status};

/// Closed shells that wait before the oldest one is reused.
const KEPT: usize = 1024;

/// The target of a handle. Its alignment keeps the owners of different handles off one cache line,
/// since every access reads its own.
#[repr(C, align(64))]
pub struct Shell<T> {
    /// The only thread that may access the value. 0 if all may, and after closing.
    pub(crate) owner: AtomicUsize,
    is_open: AtomicBool,
    /// The value while the shell is open.
    inside: UnsafeCell<Option<T>>,
}

// SAFETY: `inside` is only written by `Closed`, while the shell is not open. `Closed` has exclusive
// access then, by its queue or by the swap of `is_open`. All other accesses are shared references
// to
// `T`, or come from the owner alone.
unsafe impl<T> Sync for Shell<T> {}

/// The closed shells of a type.
pub struct Closed<T: 'static>(Mutex<VecDeque<&'static Shell<T>>>);

impl<T> Closed<T> {
    /// Returns a list without shells.
    pub const fn empty() -> Closed<T> {
        Closed(Mutex::new(VecDeque::new()))
    }

    /// Returns a handle to the value, for this owner or, with 0, for all threads.
    pub fn open(&self, inside: T, owner: usize) -> *mut Shell<T> {
        let mut closed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The queue is first in, first out, so the oldest closed handle is reused. Newer ones are
        // more likely to be used by mistake.
        let reused = if closed.len() > KEPT { closed.pop_front() } else { None };
        let shell = reused.unwrap_or_else(|| Box::leak(Box::new(Shell::empty())));
        shell.owner.store(owner, Ordering::Relaxed);
        // SAFETY: the shell is not open, and this call took it from the queue or allocated it.
        unsafe { *shell.inside.get() = Some(inside) };
        // Release pairs with the acquire load of `is_open`, so a thread that reads true also reads
        // the value.
        shell.is_open.store(true, Ordering::Release);
        ptr::from_ref(shell).cast_mut()
    }

    /// Closes a shell and returns its value.
    pub fn close(&self, shell: &'static Shell<T>) -> Result<T, Status> {
        // Of two calls that close the same handle, only one gets the value.
        if !shell.is_open.swap(false, Ordering::AcqRel) {
            return Err(status::CLOSED);
        }
        shell.owner.store(0, Ordering::Relaxed);
        // SAFETY: the swap returned true to this call alone.
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

    /// Returns the shell of a handle.
    ///
    /// # Safety
    /// The handle is NULL or comes from [`Closed::open`].
    #[inline(always)]
    pub unsafe fn of(handle: *mut Shell<T>) -> Result<&'static Shell<T>, Status> {
        // SAFETY: shells are never freed.
        unsafe { handle.as_ref() }.ok_or(status::INVALID)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Returns the value of an open shell. It is valid until a call closes the shell.
    #[inline(always)]
    pub fn inside(&'static self) -> Result<&'static T, Status> {
        if !self.is_open() {
            return Err(status::CLOSED);
        }
        // SAFETY: `inside` is written only while the shell is not open.
        unsafe { (*self.inside.get()).as_ref() }.ok_or(status::CLOSED)
    }

    /// Returns the value to its owner, for which the shell is always open.
    ///
    /// # Safety
    /// The calling thread is the owner.
    #[inline(always)]
    pub(crate) unsafe fn inside_of_owner(&'static self) -> &'static T {
        // SAFETY: a shell with an owner is open, and `inside` is written only while it is not.
        unsafe { (*self.inside.get()).as_ref().unwrap_unchecked() }
    }
}
