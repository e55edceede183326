//! Process that a value belongs to, as opposed to its forked children.
//!
//! A child of `fork` has a copy of everything but threads: the pool's memory, its descriptors with
//! their locks, its shared mappings, its queues to the kernel. A child that uses the pool writes
//! into its parent's files, in an order that the parent does not know, and waits for threads that
//! it does not have. So a pool keeps its [`Process`] and refuses calls in any other process.
//!
//! The kernel's process ID does not serve: it costs a system call, and another process may have
//! reused it. Instead, `pthread_atfork` makes the child count its forks. A child made past the C
//! library (`clone`, `vfork`) is not detected; it must only call `exec`.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use system::mutants::{Mutant, injected};

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
        injected(Mutant::ProcessIgnored) || FORKS.load(Ordering::Relaxed) == self.0
    }

    /// Forks a child; returns whether the value is the child's own process there. For tests.
    ///
    /// # Panics
    /// The system has no process left.
    #[cfg(any(test, feature = "mutants"))]
    pub fn is_current_in_child(self) -> bool {
        // SAFETY: the child loads an atomic and a thread's own variable, and calls `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "no child: {}", std::io::Error::last_os_error());
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(self.is_current())) };
        }
        let mut status = -1;
        // SAFETY: the status is a variable of this frame, and no other code waits for the child.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        assert!(waited == child && libc::WIFEXITED(status), "the child ended with {status:#x}");
        libc::WEXITSTATUS(status) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forked_child_is_another_process() {
        let process = Process::current();
        assert!(!process.is_current_in_child(), "the child took itself for its parent");
        assert!(process.is_current());
    }
}
