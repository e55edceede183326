//! Retried system calls, with a bound, so that each of them ends whatever the system returns.
//!
//! | result | action |
//! |---|---|
//! | interrupted, or not now | the call again, [`ATTEMPTS_MAX`] times at most |
//! | no durable writes (`RWF_DSYNC`) | a plain write and an `fdatasync` |
//! | fewer bytes than requested | the rest, by the caller; no bytes at all are an error there |
//!
//! On local file systems only fatal signals interrupt a transfer. On FUSE and network file systems
//! any signal may. A signal that arrives faster than the call completes (a profiler's timer) would
//! then interrupt every attempt.

use std::io::IoSlice;

use rustix::io::{Errno, ReadWriteFlags, Result};

use crate::sync::thread;
use system::Handle;
use system::mutants::{Mutant, injected};

/// How often a call is made that is interrupted every time. Chosen: far more than any program
/// sends signals during a call, and over within a second where each attempt takes a millisecond.
pub(crate) const ATTEMPTS_MAX: u32 = 1000;

/// Makes a call that may be interrupted, until it is not.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempts = 1;
    loop {
        match call() {
            Err(Errno::INTR | Errno::AGAIN) if attempts < ATTEMPTS_MAX => {
                attempts += 1;
                thread::yield_now();
            }
            done => return done,
        }
    }
}

/// Writes, durable on return; may write less, but not nothing. One persist barrier.
pub(crate) fn write_durably(
    file: &dyn Handle,
    slices: &[IoSlice<'_>],
    offset: u64,
) -> Result<usize> {
    let written = uninterrupted(|| file.write(slices, offset, ReadWriteFlags::DSYNC));
    // A file system or a system that does not know the flag has written nothing. (EINVAL stands for
    // other refusals too; those meet the plain write as well, and are returned.)
    if !matches!(written, Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)) {
        return written;
    }
    let written = uninterrupted(|| file.write(slices, offset, ReadWriteFlags::empty()))?;
    // Repeated only when it was interrupted. After any other error the kernel takes the pages for
    // clean, and the next sync would succeed without them.
    if !injected(Mutant::PlainWriteNotSynced) {
        uninterrupted(|| file.sync_data())?;
    }
    Ok(written)
}
