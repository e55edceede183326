//! The calling thread: its number, and the closing of its workers at its end.
//!
//! A thread that ends closes the workers that it has opened. A transaction that is open in one of
//! them is aborted, for no other thread may end it, and it would keep what it has locked until the
//! process ends. The number of each worker is free for another thread.
//!
//! An exit of the process skips this. The thread that calls `exit` may be in a body or a callback
//! and hold locks of the library. The open transaction is never committed anyway.
//!
//! The first thread may end alone, too, by `pthread_exit`. The C library runs no destructors of
//! thread-locals then (glibc: `__libc_start_call_main`), but it runs those of thread-specific keys,
//! which an exit of the process does not. So a key's destructor closes the workers of that thread.

use std::cell::{Cell, RefCell};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::guard;
use crate::worker::{self, lw_worker};

/// The workers that a thread has opened.
struct Opened {
    workers: RefCell<Vec<&'static lw_worker>>,
    /// A callback of the program runs in this thread.
    calls_back: Cell<bool>,
}

thread_local! {
    static OPENED: Opened =
        const { Opened { workers: RefCell::new(Vec::new()), calls_back: Cell::new(false) } };
}

/// Serializes the closing of workers by other threads and by threads that end. The second of two
/// threads that find the same worker finds it closed.
static CLOSING: Mutex<()> = Mutex::new(());

/// The calling thread: a number that no other living thread has, and that is not 0.
#[inline(always)]
pub(crate) fn number() -> usize {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        let own: usize;
        // SAFETY: it reads the thread's pointer to itself, which the ABI puts there. The call below
        // does the same.
        unsafe {
            std::arch::asm!(
                "mov {}, fs:0",
                out(reg) own,
                options(nostack, preserves_flags, readonly, pure)
            );
        }
        own
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    // SAFETY: it cannot fail.
    unsafe {
        libc::pthread_self() as usize
    }
}

/// Whether this is the thread that the process began with: it mostly ends because the process does.
fn is_first() -> bool {
    // SAFETY: neither can fail.
    unsafe { libc::gettid() == libc::getpid() }
}

/// The calling thread has opened a worker.
pub(crate) fn opens(worker: &'static lw_worker) {
    // Where the thread is ending already, the worker stays until its pool is closed.
    let _ = OPENED.try_with(|opened| opened.workers.borrow_mut().push(worker));
    if is_first()
        && let Some(key) = first_ends_key()
    {
        // SAFETY: the key was made and is never deleted. The value is only compared with null: the
        // destructor runs where it is not. A failure (no memory) leaves the worker to its pool.
        unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(worker).cast()) };
    }
}

/// The key whose destructor runs when the first thread ends alone; made once.
fn first_ends_key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is written before this returns 0. The library that has the destructor
        // stays loaded while the first thread has a destructor of `OPENED` to run, so whenever it
        // has a value under this key.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(first_ends)) };
        (made == 0).then_some(key)
    })
}

/// The first thread ends by `pthread_exit`; others go on.
unsafe extern "C" fn first_ends(_worker: *mut libc::c_void) {
    let _ = OPENED.try_with(Opened::close);
}

/// The calling thread has closed one of its workers.
pub(crate) fn closes(worker: &'static lw_worker) {
    let others = |opened: &Opened| {
        opened.workers.borrow_mut().retain(|other| !std::ptr::eq(*other, worker));
    };
    let _ = OPENED.try_with(others);
}

/// Runs a callback of the program.
pub(crate) fn call_back(callback: impl FnOnce()) {
    let set = |on| OPENED.try_with(|opened| opened.calls_back.replace(on)).unwrap_or(on);
    // It may be within another: one that waits runs callbacks.
    let before = set(true);
    callback();
    set(before);
}

/// Keeps threads that end from closing their workers meanwhile.
pub(crate) fn closing() -> MutexGuard<'static, ()> {
    CLOSING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opened {
    /// The thread ends, and not the process.
    fn close(&self) {
        let workers = self.workers.take();
        if workers.is_empty() || self.calls_back.get() {
            return;
        }
        let _closing = closing();
        for worker in workers {
            // A panic would end the process; this worker is lost then, and nothing else.
            guard(|| {
                worker::close_of_ending_thread(worker);
                Ok(())
            });
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Where the process ends, the first thread comes here.
        if !is_first() {
            self.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls_back() -> bool {
        OPENED.with(|opened| opened.calls_back.get())
    }

    #[test]
    fn nested_callback_leaves_the_outer_one_marked() {
        assert!(!calls_back());
        call_back(|| {
            call_back(|| assert!(calls_back()));
            assert!(calls_back(), "the thread is still in the outer callback");
        });
        assert!(!calls_back());
    }
}
