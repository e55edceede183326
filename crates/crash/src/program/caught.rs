//! Panics of a user's program, caught with their message and without its print.
//!
//! One failing assertion panics in many executions, because shrinking repeats it. The report prints
//! it once. A hook for the whole process keeps the message of a panic in a guarded call, and passes
//! every other panic on to the hook before it.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

use super::StepResult;

std::thread_local! {
    /// The message of the last panic of a guarded call; `None` outside of such calls.
    static GUARDED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a call. Returns the message of its panic, with its place.
///
/// A power failure unwinds without a message: the text is then empty.
pub(super) fn catch(call: &mut dyn FnMut() -> StepResult) -> Result<StepResult, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !keep(info) {
                before(info);
            }
        }));
    });
    GUARDED.set(Some(String::new()));
    let outcome = panic::catch_unwind(AssertUnwindSafe(call));
    let message = GUARDED.take().unwrap_or_default();
    outcome.map_err(|_| message)
}

/// Keeps the message of a panic in a guarded call; returns whether it is one.
fn keep(info: &PanicHookInfo<'_>) -> bool {
    let kept = GUARDED.try_with(|guarded| {
        let mut guarded = guarded.borrow_mut();
        let Some(kept) = &mut *guarded else { return false };
        let text = info.payload_as_str().unwrap_or("a panic without a message");
        let place = info.location().map(|place| format!(" ({place})")).unwrap_or_default();
        *kept = format!("{text}{place}");
        true
    });
    // A panic in a thread that ends may find the value dropped.
    kept.unwrap_or(false)
}
