//! The C ABI: what `include/lastword.h` promises, over [`lastword`].
//!
//! | file | what it is |
//! |---|---|
//! | `status` | numbers that say how a call ended, and their texts |
//! | `options` | the struct of options, of any version |
//! | `handle` | what a program holds: it is known when it was closed |
//! | `design` | dispatch over the registry of designs, by one `match` |
//! | `bytes` | bytes of objects, which have words |
//! | `pool`, `worker` | the functions |
//!
//! A function here checks what it was given, goes to the design by one `match`, and turns how that
//! ended into a number. Nothing unwinds into C: a panic is caught and is [`status::PANIC`].
//!
//! The header is written by hand and is the documentation; `tests/header.rs` compares it with what
//! is here, and writes the designs' constants into it from the registry of designs.
//! docs: docs/guide/c.md.
#![allow(clippy::missing_safety_doc, reason = "the header says what each function asks for")]
#![allow(clippy::missing_errors_doc, reason = "the header says it")]

mod bytes;
pub mod design;
mod handle;
pub mod options;
pub mod pool;
pub mod status;
mod thread;
pub mod worker;

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a call ended that did not end well.
type Status = c_int;

/// The library's version: major, minor and patch, a byte each but for the first.
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

/// What a status means.
#[unsafe(no_mangle)]
pub extern "C" fn lw_strerror(status: c_int) -> *const c_char {
    status::text(status).as_ptr()
}

/// Runs what a function does, and answers how it ended.
#[inline(always)]
fn guard(work: impl FnOnce() -> Result<(), Status>) -> c_int {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => status::OK,
        Ok(Err(status)) => status,
        Err(_) => status::PANIC,
    }
}
