//! The process that a value belongs to, and its forked children.
//!
//! A child of `fork` has a copy of everything but threads: the pool's memory, its descriptors with
//! the locks on them, its shared mappings, its queues to the kernel. A child that goes on with the
//! pool writes into the files of its parent, in an order that the parent does not know, and waits
//! for threads that it does not have. So a pool keeps its [`Process`], and refuses calls in another
//! one.
//!
//! The kernel's own number is no use: asking for it is a system call, and it may be another
//! process's by now. `pthread_atfork` has the child count its forks instead. A child that is made
//! past the C library (`clone`, `vfork`) is not noticed; it must only call `exec`.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Forks that led to this process, since the first [`Process::current`].
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The process that made this value.
///
/// ```
/// let process = medium::Process::current();
/// assert!(process.is_current());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

extern "C" fn forked() {
    // Relaxed: a child has one thread. An addition may be done where a fork interrupts anything.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

impl Process {
    /// The calling process.
    pub fn current() -> Process {
        static COUNTED: Once = Once::new();
        COUNTED.call_once(|| {
            // SAFETY: the handler takes nothing, lives as long as the program, and does one atomic
            // addition, which a child of a program with threads may do. An error (no memory) leaves
            // forks unnoticed, as without this module.
            unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        });
        Process(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is the calling process. A load.
    #[inline]
    pub fn is_current(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forked_child_is_another_process() {
        let process = Process::current();
        // SAFETY: the child calls nothing but `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::_exit(if process.is_current() { 1 } else { 0 }) };
        }
        let mut status = -1;
        // SAFETY: the status is ours to write.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child took itself for its parent");
        assert!(process.is_current());
    }
}
