//! The items of `crate::sync` over loom.
//!
//! loom switches threads at dependent operations, and remembers only the last operation on each
//! object. It therefore misses switches in two cases. Each case adds a *touch*: an operation that
//! orders no memory and depends on every other touch of its object.
//! - Loads do not depend on each other, and a thread's own load hides another thread's earlier load
//!   from a later store. A load therefore touches its atomic.
//! - Unlocking is no operation for loom, so no switch falls between locking and unlocking.
//!   `try_lock` and unlocking therefore touch their mutex.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::LockResult;
use std::time::Duration;

use real_medium::mutants::{Mutant, injected};

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{Ordering, fence};
pub(crate) use std::sync::Arc;

/// Sizes are small.
pub(crate) const MODELED: bool = true;

/// Returns the number of cores of the modeled machine.
pub(crate) fn cores() -> usize {
    2
}

/// A fence, which this bug removes.
pub(crate) fn fence_unless(mutant: Mutant, order: Ordering) {
    if !injected(mutant) {
        fence(order);
    }
}

/// Raises an epoch before this thread loads whether others wait for it. The model checker takes
/// `SeqCst` operations for `AcqRel`, so a fence is in their place here. It orders more than they
/// do. The product's `raise` says which order a waiter may rely on.
pub(crate) fn raise(epoch: &AtomicU64, release: Ordering, unfenced: Mutant) {
    epoch.fetch_add(1, release);
    fence_unless(unfenced, Ordering::SeqCst);
}

/// A prefetch has no effect that a model could see.
pub(crate) fn prefetch_write<T>(_words: &[T], _index: usize) {}

/// A condition variable without waiters: its notification is an operation without effects.
#[derive(Debug, Default)]
struct Touch(loom::sync::Condvar);

impl Touch {
    fn touch(&self) {
        // A destructor during unwinding must not switch threads.
        if !std::thread::panicking() {
            self.0.notify_all();
        }
    }
}

macro_rules! atomic {
    ($name:ident, $value:ty, { $($method:ident),* }) => {
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            inner: loom::sync::atomic::$name,
            touch: Touch,
        }

        impl $name {
            pub(crate) fn new(value: $value) -> $name {
                let inner = loom::sync::atomic::$name::new(value);
                $name { inner, touch: Touch::default() }
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.touch.touch();
                self.inner.load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.inner.store(value, order);
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.inner.compare_exchange(current, new, success, failure)
            }

            $(
                pub(crate) fn $method(&self, value: $value, order: Ordering) -> $value {
                    self.inner.$method(value, order)
                }
            )*
        }
    };
}

/// Stores a value for other threads before this thread reads theirs. The product swaps with
/// `SeqCst`, which loom treats as `AcqRel`: both threads could then miss each other. A `SeqCst`
/// fence takes its place. It orders as much as the swap does, and no more than the models' other
/// fences.
pub(crate) fn announce(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

atomic!(AtomicBool, bool, { swap });
atomic!(AtomicU64, u64, { swap, fetch_add, fetch_and, fetch_max, fetch_sub, fetch_or });
atomic!(AtomicUsize, usize, { fetch_add, fetch_max, fetch_sub });

/// A mutex.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    inner: loom::sync::Mutex<T>,
    touch: Touch,
}

/// A locked mutex.
#[derive(Debug)]
pub(crate) struct MutexGuard<'m, T> {
    /// `None` after a drop or during a wait.
    inner: Option<loom::sync::MutexGuard<'m, T>>,
    touch: &'m Touch,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex { inner: loom::sync::Mutex::new(value), touch: Touch::default() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            self.touch.touch();
            drop(inner);
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_deref().expect("the guard has its lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_deref_mut().expect("the guard has its lock")
    }
}

/// Locks a mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let inner = mutex.inner.lock().expect("loom's mutexes are never poisoned");
    MutexGuard { inner: Some(inner), touch: &mutex.touch }
}

/// Locks a mutex if it is free.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.touch.touch();
    let inner = mutex.inner.try_lock().ok()?;
    Some(MutexGuard { inner: Some(inner), touch: &mutex.touch })
}

/// A condition variable whose timed waits time out at once.
#[derive(Debug, Default)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'m, T>(
        &self,
        mut guard: MutexGuard<'m, T>,
    ) -> LockResult<MutexGuard<'m, T>> {
        let touch = guard.touch;
        touch.touch();
        let inner = guard.inner.take().expect("the guard has its lock");
        let inner = self.0.wait(inner).expect("loom's mutexes are never poisoned");
        Ok(MutexGuard { inner: Some(inner), touch })
    }

    /// Returns whether the wait has timed out, which it always has.
    pub(crate) fn wait_timeout<T>(&self, guard: MutexGuard<'_, T>, _longest: Duration) -> bool {
        drop(guard);
        thread::yield_now();
        true
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Models have no time, so a pause does nothing.
pub(crate) fn pause(_spins: u64) {}

/// Lets other threads run.
pub(crate) fn rest(_look: u32) {
    thread::yield_now();
}

/// Threads, with the `Debug` that loom's handles lack.
pub(crate) mod thread {
    use std::fmt;

    pub(crate) use loom::thread::{Thread, current, park, spawn, yield_now};

    pub(crate) struct JoinHandle<T>(loom::thread::JoinHandle<T>);

    impl<T> JoinHandle<T> {
        pub(crate) fn join(self) -> std::thread::Result<T> {
            self.0.join()
        }

        pub(crate) fn thread(&self) -> &Thread {
            self.0.thread()
        }
    }

    impl<T> fmt::Debug for JoinHandle<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("JoinHandle")
        }
    }

    pub(crate) struct Builder(loom::thread::Builder);

    impl Builder {
        pub(crate) fn new() -> Builder {
            Builder(loom::thread::Builder::new())
        }

        pub(crate) fn name(self, name: String) -> Builder {
            Builder(self.0.name(name))
        }

        pub(crate) fn spawn<T: Send + 'static>(
            self,
            run: impl FnOnce() -> T + Send + 'static,
        ) -> super::io::Result<JoinHandle<T>> {
            self.0.spawn(run).map(JoinHandle)
        }
    }
}
