//! The text of the last failed call of each thread.
//!
//! A status names the kind of an error. The text has the path, the numbers and the remedy. Most
//! calls that fail in a transaction have no text, because a conflict must be cheap.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use lastword::Error;

use crate::{Status, status};

/// The last failed call.
struct Last {
    status: c_int,
    text: CString,
    /// Whether the call that set the text has not returned yet.
    is_fresh: bool,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// Sets the text of a failed call, and returns the status.
#[cold]
pub(crate) fn set(status: Status, text: &str) -> Status {
    // No text of the library has a 0, and a path of the program has none.
    let text = CString::new(text).unwrap_or_default();
    // In a thread that is ending there is no text.
    let _ = LAST.try_with(|last| last.replace(Some(Last { status, text, is_fresh: true })));
    status
}

/// Returns the status of an error, and sets its text.
#[cold]
pub(crate) fn of(error: &Error) -> Status {
    set(status::of(error), &error.to_string())
}

/// Ends a failed call. A text that this call has not set belongs to an earlier one.
#[cold]
pub(crate) fn settle() {
    let _ = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        let is_fresh = last.as_mut().is_some_and(|last| std::mem::take(&mut last.is_fresh));
        if !is_fresh {
            *last = None;
        }
    });
}

/// Returns the text of the thread's last failed call if it returned this status, else the text of
/// the status.
#[unsafe(no_mangle)]
pub extern "C" fn lw_message(status: c_int) -> *const c_char {
    let own = |last: &RefCell<Option<Last>>| {
        let last = last.borrow();
        let last = last.as_ref().filter(|last| last.status == status && !last.text.is_empty());
        last.map(|last| CStr::as_ptr(&last.text))
    };
    let own = LAST.try_with(own).ok().flatten();
    own.unwrap_or_else(|| status::text(status).as_ptr())
}
