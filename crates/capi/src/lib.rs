//! The C ABI, which implements the headers in `include` over [`lastword`].
//!
//! | file | content |
//! |---|---|
//! | `status` | status codes of calls, and their texts |
//! | `message` | the text of a thread's last failed call |
//! | `options` | the struct of options, in every version |
//! | `sized` | other structs, in every version |
//! | `usage` | the use of the heap |
//! | `handle` | handles that detect their use after closing |
//! | `design` | dispatch over the registry of designs, by one `match` |
//! | `bytes` | byte access to objects, which consist of words |
//! | `thread` | thread identity, and the end of threads that have workers |
//! | `reader` | pools that are only read, and their workers |
//! | `pool`, `worker`, `objects` | the functions of `lastword.h` |
//! | `maps`, `cursor` | those of `lastword_maps.h` |
//! | `admin` | those of `lastword_admin.h` |
//!
//! A function checks its arguments, dispatches to the design by one `match`, and converts the
//! result into a status. Nothing unwinds into C, since [`status::PANIC`] reports a caught panic.
//!
//! The headers are written by hand and are the documentation of the functions. `tests/header.rs`
//! compares them with this crate, and writes the designs' constants into `lastword.h` from the
//! registry. The guide is docs/guide/c.md.
#![allow(clippy::missing_safety_doc, reason = "the header has each function's requirements")]
#![allow(clippy::missing_errors_doc, reason = "the header has each function's statuses")]

pub mod admin;
mod bytes;
pub mod cursor;
pub mod design;
pub mod handle;
pub mod maps;
pub mod message;
pub mod objects;
pub mod options;
pub mod pool;
mod reader;
mod sized;
pub mod status;
pub mod thread;
pub mod usage;
pub mod worker;

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The status of a failed call.
type Status = c_int;

/// Returns the library's version. Minor and patch take a byte each, the major version the rest.
#[unsafe(no_mangle)]
pub extern "C" fn lw_version() -> u32 {
    let number = |text: &str| text.parse::<u32>().unwrap_or(0);
    let [major, minor, patch] = [
        number(env!("CARGO_PKG_VERSION_MAJOR")),
        number(env!("CARGO_PKG_VERSION_MINOR")),
        number(env!("CARGO_PKG_VERSION_PATCH")),
    ];
    major << 16 | minor << 8 | patch
}

/// Returns the text of a status.
#[unsafe(no_mangle)]
pub extern "C" fn lw_strerror(status: c_int) -> *const c_char {
    status::text(status).as_ptr()
}

/// Runs the work of a function and returns its status. Catches panics, which must not unwind into
/// C.
#[inline(always)]
fn guard(work: impl FnOnce() -> Result<(), Status>) -> c_int {
    // An access that panics marks its transaction as failed, so no later call uses it.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => status::OK,
        Ok(Err(status)) => {
            message::settle();
            status
        }
        Err(_) => {
            message::settle();
            status::PANIC
        }
    }
}
