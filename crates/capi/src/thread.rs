//! The identity of the calling thread, and the closing of its workers when it ends.
//!
//! A thread that ends closes the workers that it opened. Their open transactions are aborted, since
//! no other thread may end them and their ownership records would stay locked. The number of each
//! worker becomes free for another thread.
//!
//! | end | closes the thread's workers |
//! |---|---|
//! | a later thread returns or calls `pthread_exit` | by the destructor of a thread-local |
//! | the first thread calls `pthread_exit` | by the destructor of a thread-specific key |
//! | the first thread calls `exit` or returns from `main` | no |
//! | a later thread calls `exit` | by the thread-local, unless a body or a callback runs |
//!
//! The first thread needs a key. After its `pthread_exit` the C library runs destructors of keys,
//! but none of thread-locals (`__libc_start_call_main` of glibc). That also holds when it is the
//! last thread, where an exit of the process follows. An `exit` runs destructors of thread-locals
//! and none of keys.
//!
//! Workers may stay open at an exit, because their transactions are never committed. A thread that
//! calls `exit` inside a body or a callback may hold locks of the library, so closing its workers
//! could deadlock.

use std::cell::{Cell, RefCell};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::guard;
use crate::worker::{self, lw_worker};

/// The workers that a thread opened.
struct Opened {
    workers: RefCell<Vec<&'static lw_worker>>,
    /// Whether a callback of the program runs in this thread.
    calls_back: Cell<bool>,
}

thread_local! {
    static OPENED: Opened =
        const { Opened { workers: RefCell::new(Vec::new()), calls_back: Cell::new(false) } };
}

/// Serializes the closing of a pool and the end of threads. If both find the same worker, the
/// second one finds it closed.
static CLOSING: Mutex<()> = Mutex::new(());

/// Returns a number of the calling thread that is not 0, and that no other living thread has.
#[inline(always)]
pub(crate) fn number() -> usize {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        let own: usize;
        // SAFETY: the ABI places the thread's pointer to itself at this address. `pthread_self`
        // reads the same word.
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
    // SAFETY: `pthread_self` has no requirements and cannot fail.
    unsafe {
        libc::pthread_self() as usize
    }
}

/// Whether the calling thread is the first of the process. It mostly ends because the process does.
fn is_first() -> bool {
    // SAFETY: neither call has requirements, and neither can fail.
    unsafe { libc::gettid() == libc::getpid() }
}

/// Records that the calling thread opened a worker.
pub(crate) fn opens(worker: &'static lw_worker) {
    // In a thread that is ending already, the worker stays open until its pool is closed.
    let _ = OPENED.try_with(|opened| opened.workers.borrow_mut().push(worker));
    if is_first()
        && let Some(key) = first_ends_key()
    {
        // The key's destructor runs because its value is not null, and ignores the value. If the
        // call fails for lack of memory, the worker stays open until its pool is closed.
        // SAFETY: the key is valid, since it is never deleted.
        unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(worker).cast()) };
    }
}

/// Returns the key whose destructor runs when the first thread ends by `pthread_exit`.
fn first_ends_key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // The shared object must stay loaded while the first thread has a value under this key, or
        // `dlclose` would leave a dangling destructor. `opens` registers the destructor of `OPENED`
        // first, by glibc's `__cxa_thread_atexit_impl`, which pins the shared object until that
        // destructor ran. It never runs in a first thread that calls `pthread_exit`. musl has no
        // such function, and its `dlclose` unloads nothing.
        // SAFETY: `first_ends` has the required signature and stays loaded, as argued above. The
        // call sets `key` if it returns 0.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(first_ends)) };
        (made == 0).then_some(key)
    })
}

/// Closes the workers of the first thread when it ends by `pthread_exit`.
unsafe extern "C" fn first_ends(_worker: *mut libc::c_void) {
    let _ = OPENED.try_with(Opened::close);
}

/// Records that the calling thread closed one of its workers.
pub(crate) fn closes(worker: &'static lw_worker) {
    let others = |opened: &Opened| {
        opened.workers.borrow_mut().retain(|other| !std::ptr::eq(*other, worker));
    };
    let _ = OPENED.try_with(others);
}

/// Whether a callback of the program runs in this thread.
pub fn calls_back() -> bool {
    OPENED.try_with(|opened| opened.calls_back.get()).unwrap_or(false)
}

/// Runs a callback of the program.
pub fn call_back(callback: impl FnOnce()) {
    let set = |on| OPENED.try_with(|opened| opened.calls_back.replace(on)).unwrap_or(on);
    // A callback may run inside another one, because a wait runs callbacks.
    let before = set(true);
    // A panic cannot skip the reset below, because a callback is a C function.
    callback();
    set(before);
}

/// Keeps ending threads from closing their workers until the guard is dropped.
pub(crate) fn closing() -> MutexGuard<'static, ()> {
    CLOSING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opened {
    /// Closes the workers of an ending thread.
    fn close(&self) {
        let workers = self.workers.take();
        // A thread that ends inside a callback exits the process. It may hold locks of the library.
        if workers.is_empty() || self.calls_back.get() {
            return;
        }
        let _closing = closing();
        for worker in workers {
            // An uncaught panic would abort the process. A caught one loses this worker alone.
            guard(|| {
                worker::close_of_ending_thread(worker);
                Ok(())
            });
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // In the first thread this runs only when the process exits.
        if !is_first() {
            self.close();
        }
    }
}
