//! Detects that the process was started with its standard output closed.
//!
//! A parent may start a program with descriptor 1 closed (`prog >&-`, some supervisors). Before
//! `main`, Rust's runtime opens `/dev/null` in its place, so every write succeeds and the program
//! cannot see that its output is lost. [`stdout_was_closed`] can, because the loader calls the
//! entries of `.init_array` before the runtime starts.
//!
//! Only the command line uses this. The section's attribute and the check before `main` are unsafe
//! code, which the command line's crate forbids. A program that does not call
//! [`stdout_was_closed`] is linked without it.

use std::sync::atomic::{AtomicBool, Ordering};

/// Written before `main`, by the only thread there is.
static CLOSED: AtomicBool = AtomicBool::new(false);

#[used]
// SAFETY: the loader calls the function pointers of this section, one after the other, before
// `main`; this is one, of the type that the section has.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

/// Runs before Rust's runtime: it uses nothing but a system call and an atomic.
extern "C" fn look() {
    // SAFETY: F_GETFD reads a flag of the descriptor's number, and fails where it is closed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    // Relaxed: no other thread is there yet, and starting one synchronizes.
    CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// Whether standard output was closed when the process started: all that is written to it is lost.
pub fn stdout_was_closed() -> bool {
    // The loader finds the entry only if the linker keeps this module's object: name it.
    std::hint::black_box(&BEFORE_MAIN);
    CLOSED.load(Ordering::Relaxed)
}
