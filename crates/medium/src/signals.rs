//! Signal of a write beyond the limit on the size of files (`RLIMIT_FSIZE`, `ulimit -f`).
//!
//! The kernel sends `SIGXFSZ` to the thread that writes, and by default the process ends without a
//! message. If the signal is ignored or blocked, the write fails with `EFBIG`. This is an ordinary
//! error that names the file and the limit.
//!
//! * A limit that is too low when a pool is created or opened: the library refuses, before it
//!   writes ([`PoolFile::check_size_limit`](crate::PoolFile::check_size_limit)).
//! * A limit that is lowered while a pool is open (`prlimit`): the library's own threads block the
//!   signal. In an application thread that helps, the application's disposition counts, because a
//!   library does not change its host's signals.
//! * The `lastword` program ignores it.
//!
//! ```
//! let worker = std::thread::spawn(|| {
//!     medium::signals::block_size_signal();
//!     // A write behind the limit fails here with an error.
//! });
//! # worker.join().unwrap();
//! ```

/// Blocks the signal in the calling thread. For threads that a library starts: the signal is sent
/// to the thread that writes, stays pending there, and goes when the thread ends.
pub fn block_size_signal() {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is a signal set to be initialized, which `sigemptyset` does; the number is that
    // of a signal; the old mask is not asked for.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Ignores the signal in the whole process, and in programs that it starts. For programs, not for
/// libraries.
pub fn ignore_size_signal() {
    // SAFETY: no handler is installed, so there is nothing that could run in a signal's context.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
