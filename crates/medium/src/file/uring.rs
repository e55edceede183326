//! Group writes by io_uring: several groups in flight, and an append does not wait for the device.
//!
//! ```text
//!   append        groups in flight -> submission queue -> the kernel        locks `in_flight`
//!   acknowledge   completion queue -> groups in flight -> the oldest        locks both, in turns
//!                 asleep in the kernel until something completes            locks `completions`
//! ```
//!
//! Invariants:
//! - The holder of `in_flight`'s lock has exclusive use of the submission queue, and leaves it
//!   empty unless the kernel refused its entry. Then nothing more is submitted, and groups are
//!   written by blocking calls (see `in_flight`).
//! - The holder of `completions` has exclusive use of the completion queue. It is locked first.
//! - At most [`DEPTH`] writes are in both queues and the kernel together, so neither overflows.
//! - The kernel reads a group's memory from submission to completion. Its buffer stays in
//!   `in_flight` for that time, even if the sending thread ends, and dropping waits for it.
//!
//! Several variants gained nothing: a registered file, registered buffers, cooperative task
//! running. They were within 3 % of the median, where rounds differ by 10. Measured with 4 and
//! 64 KiB, one to eight in flight, on ext4 on a virtual disk, five rounds, interleaved.
//! Cooperative task running has another drawback: a thread that appends and then computes delays
//! every thread's completions.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use io_uring::{EnterFlags, IoUring, opcode, squeue, types};
use rustix::io::{Errno, ReadWriteFlags};

use super::in_flight::{Failure, GroupFile, InFlight, Next, Taken};
use crate::buffer::Buffer;
use crate::sync::{Mutex, MutexGuard, TryLockError, lock, thread};
use system::FIRST_FD;
use system::mutants::{Mutant, injected};

/// Maximum number of groups in flight.
///
/// Durable writes a second on a virtual disk:
///
/// | in flight | 4 KiB | 64 KiB |
/// |---|---|---|
/// | 1 | 6 300 | 5 900 |
/// | 8 | 28 000 | 19 000 |
/// | 16 | 46 000 | 25 000 |
///
/// 8 keep up with any log that one thread fills, and the loss in a crash stays small.
pub(super) const DEPTH: usize = 8;

/// Maximum bytes of one write, in whole pages: below the kernel's limit for one call (2 GiB) and
/// the largest length in a submission (4 GiB).
const WRITE_BYTES_MAX: usize = 1 << 30;

/// Refusals of a call, for lack of memory or because the queue is full, that become an error. Any
/// number would do: a group that cannot be submitted is written by a blocking call.
const REFUSALS_MAX: u32 = 100;

/// Creates queues on a descriptor other than standard input, output or errors. Those numbers are
/// free if the process started with them closed, but they belong to the program.
fn queues() -> Option<IoUring> {
    // Each unwanted pair occupies a low descriptor until one pair has a number above them.
    let mut others = Vec::new();
    loop {
        let queues = IoUring::new(DEPTH as u32).ok()?;
        if queues.as_raw_fd() >= FIRST_FD {
            return Some(queues);
        }
        others.push(queues);
    }
}

/// Returns the entry for a write that is durable when it completes.
fn durable_write(file: RawFd, bytes: &[u8], offset: u64) -> squeue::Entry {
    let flags = match injected(Mutant::QueuedWriteNotDurable) {
        false => ReadWriteFlags::DSYNC,
        true => ReadWriteFlags::empty(),
    };
    let write = opcode::Write::new(types::Fd(file), bytes.as_ptr(), bytes.len() as u32);
    write.offset(offset).rw_flags(flags.bits() as i32).build()
}

/// Returns the flags of such an entry, for a test: a queue is memory that the kernel reads, so no
/// system call has them.
#[cfg(any(test, feature = "mutants"))]
pub(crate) fn queued_write_flags() -> u32 {
    /// Place of `rw_flags` in `struct io_uring_sqe`.
    const FLAGS_AT: usize = 28;
    let entry = durable_write(0, &[0; 8], 0);
    // SAFETY: an entry is `struct io_uring_sqe`, of 64 bytes without padding.
    let bytes: [u8; 64] = unsafe { std::mem::transmute(entry) };
    u32::from_ne_bytes([0, 1, 2, 3].map(|at| bytes[FLAGS_AT + at]))
}

/// Pair of queues to the kernel, and the groups that it may be reading.
pub(super) struct Uring {
    /// Before `in_flight`, so that the queues are dropped before the memory that they reference.
    queues: IoUring,
    in_flight: Mutex<InFlight>,
    completions: Mutex<()>,
    write_bytes_max: usize,
}

impl Uring {
    /// Returns queues that passed a trial call, if the system permits them.
    pub(super) fn new() -> Option<Uring> {
        // Any refusal means no io_uring: an old kernel, a filter, a limit, no memory.
        let queues = queues()?;
        let mut probe = io_uring::Probe::new();
        queues.submitter().register_probe(&mut probe).ok()?;
        if !probe.is_supported(opcode::Write::CODE) {
            return None;
        }
        let mut uring = Uring {
            queues,
            in_flight: Mutex::new(InFlight::new(DEPTH)),
            completions: Mutex::new(()),
            write_bytes_max: WRITE_BYTES_MAX,
        };
        uring.can_enter().then_some(uring)
    }

    /// Splits writes into pieces, so that tests resume groups.
    #[cfg(test)]
    pub(super) fn with_write_bytes_max(mut self, bytes: usize) -> Uring {
        self.write_bytes_max = bytes;
        self
    }

    // A filter may permit the setup and refuse the use; test before any group depends on it.
    fn can_enter(&mut self) -> bool {
        // SAFETY: the entry references no memory.
        let pushed = unsafe { self.queues.submission().push(&opcode::Nop::new().build()) };
        pushed.is_ok()
            && self.queues.submit_and_wait(1).is_ok()
            && self.queues.completion().next().is_some_and(|entry| entry.result() == 0)
    }

    /// Sends the first `words` words of a group to `offset` of the file. Does not fail:
    /// [`acknowledge`](Uring::acknowledge) returns the error.
    ///
    /// # Panics
    /// If [`DEPTH`] groups are already in flight.
    pub(super) fn append(&self, file: &dyn GroupFile, offset: u64, group: Buffer, words: usize) {
        let mut in_flight = lock(&self.in_flight);
        assert!(in_flight.len() < DEPTH, "{DEPTH} groups are in flight at most");
        let number = in_flight.add(offset, group, words);
        self.send(file, &mut in_flight, number);
    }

    /// Returns the oldest group, once it is durable. A caller that does not wait also gets `None`
    /// while another thread waits: that thread gets the group.
    pub(super) fn acknowledge(
        &self,
        file: &dyn GroupFile,
        wait: bool,
    ) -> Result<Option<Taken>, Failure> {
        let completions = match wait {
            true => lock(&self.completions),
            false => match self.completions.try_lock() {
                Ok(completions) => completions,
                Err(TryLockError::Poisoned(completions)) => completions.into_inner(),
                Err(TryLockError::WouldBlock) => return Ok(None),
            },
        };
        loop {
            let mut in_flight = lock(&self.in_flight);
            self.complete(&completions, &mut in_flight, Some(file));
            let oldest = in_flight.take()?;
            if oldest.is_some() || !wait || in_flight.len() == 0 {
                return Ok(oldest);
            }
            let rest = in_flight.rest(in_flight.oldest());
            let (bytes, offset) = rest.map_or((0, 0), |(rest, at)| (rest.len() as u64, at));
            // Sleep without `in_flight`, so that others can append. No completion is missed: only
            // the holder of `completions` takes any, and the kernel checks before it sleeps. A
            // completion will come: the oldest group is sent, or it would be durable or failed. The
            // loop ends: each pass takes a completion, and a group has a bounded number of them.
            drop(in_flight);
            let asleep = self.sleep(&completions);
            asleep.map_err(|error| Failure { offset, bytes, source: Some(error) })?;
        }
    }

    /// Returns whether groups are written by blocking calls, because the kernel did not write one.
    pub(super) fn is_blocking(&self) -> bool {
        lock(&self.in_flight).is_blocking()
    }

    /// Submits the unwritten rest of a group to the kernel.
    fn send(&self, file: &dyn GroupFile, in_flight: &mut MutexGuard<'_, InFlight>, number: u64) {
        if in_flight.is_blocking() {
            return in_flight.write(number, file);
        }
        let Some((rest, offset)) = in_flight.rest(number) else { return };
        let rest = &rest[..rest.len().min(self.write_bytes_max)];
        let write = durable_write(file.fd().as_raw_fd(), rest, offset).user_data(number);
        let pushed = {
            // SAFETY: `in_flight` is locked, and its holder alone accesses the submission queue.
            let mut queue = unsafe { self.queues.submission_shared() };
            // A refused entry references memory that is kept, but it must never be submitted.
            // SAFETY: `rest` is a part of a buffer in `in_flight`, where nothing writes to it. The
            // buffer leaves when the group is durable, so after this write has completed; `drop`
            // waits for completion or leaks it. A buffer's memory does not move when the buffer
            // does.
            queue.is_empty() && unsafe { queue.push(&write) }.is_ok()
        };
        // An entry that the kernel did not take stays in the queue, and nothing is submitted from
        // here on. So the entry may reference freed memory, and the group is never written by two
        // writes at a time.
        if !pushed || !self.submit() {
            in_flight.give_queue_up();
            in_flight.write(number, file);
        }
    }

    /// Submits the one entry in the submission queue; `in_flight` is locked. Returns whether the
    /// kernel has taken it: it has not on any error, nor when it returns 0.
    fn submit(&self) -> bool {
        for _ in 0..REFUSALS_MAX {
            match self.enter(1, 0, EnterFlags::empty()) {
                Ok(0) => thread::yield_now(),
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    /// Records completions; resubmits the rest of short writes, if `file` is given.
    fn complete(
        &self,
        _completions: &MutexGuard<'_, ()>,
        in_flight: &mut MutexGuard<'_, InFlight>,
        file: Option<&dyn GroupFile>,
    ) {
        // SAFETY: `completions` is locked, and its holder alone accesses the completion queue.
        for entry in unsafe { self.queues.completion_shared() } {
            let (number, written) = (entry.user_data(), usize::try_from(entry.result()));
            let result = written.map_err(|_| Errno::from_raw_os_error(-entry.result()));
            match (in_flight.complete(number, result), file) {
                (Next::Nothing, _) => {}
                (Next::Submit, Some(file)) => self.send(file, in_flight, number),
                // This thread writes with both locks held, so other threads wait for the device
                // where the queue would let them continue. That is slower, and equally correct.
                (Next::Write, Some(file)) => in_flight.write(number, file),
                (_, None) => in_flight.refuse(number, Errno::CANCELED.into()),
            }
        }
    }

    /// Waits until something completes; only the holder of `completions` takes completions.
    fn sleep(&self, _completions: &MutexGuard<'_, ()>) -> io::Result<()> {
        self.enter(0, 1, EnterFlags::GETEVENTS).map(drop)
    }

    /// Enters the kernel. It ends: refusals are counted. Interruptions by signals are not counted,
    /// because the device goes on meanwhile and the kernel checks for a completion before it sleeps
    /// again. Their number depends only on the sender of the signals.
    fn enter(&self, submit: u32, complete: u32, flags: EnterFlags) -> io::Result<usize> {
        let submitter = self.queues.submitter();
        let mut refusals = 0;
        loop {
            // SAFETY: no memory is passed besides the queues, and the memory that their entries
            // reference outlives them (see `send`).
            let error = match unsafe { submitter.enter::<()>(submit, complete, flags.bits(), None) }
            {
                Ok(submitted) => return Ok(submitted),
                Err(error) => error,
            };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) if complete > 0 => {}
                Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) if refusals < REFUSALS_MAX => {
                    refusals += 1;
                    thread::yield_now();
                }
                _ => return Err(error),
            }
        }
    }
}

impl Drop for Uring {
    /// Waits until the kernel no longer reads any group. It ends: nothing more is submitted, so
    /// each pass takes one of at most [`DEPTH`] completions.
    fn drop(&mut self) {
        let completions = lock(&self.completions);
        let mut in_flight = lock(&self.in_flight);
        loop {
            self.complete(&completions, &mut in_flight, None);
            if !in_flight.any_sent() {
                return;
            }
            if self.sleep(&completions).is_err() {
                return in_flight.leak();
            }
        }
    }
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{PipeReader, PipeWriter, Read, Write};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::fs::FileExt;

    use rustix::fs::OFlags;

    use crate::suite::or_skip;
    use crate::sync::Arc;

    /// Any file; fallback writes use `pwritev2`.
    impl<T: AsFd> GroupFile for T {
        fn fd(&self) -> BorrowedFd<'_> {
            self.as_fd()
        }

        fn write_blocking(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
            rustix::io::pwritev2(self, &[io::IoSlice::new(bytes)], offset, ReadWriteFlags::DSYNC)
        }
    }

    fn uring() -> Option<Uring> {
        or_skip(Uring::new().ok_or("it is not to be had here"), "io_uring")
    }

    // A write into a full pipe completes only once it is read, so tests control this device. The
    // pipe is filled with zeros.
    fn full_pipe() -> (PipeReader, PipeWriter, usize) {
        let (reader, mut writer) = io::pipe().unwrap();
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        let mut filled = 0;
        while let Ok(bytes) = writer.write(&[0; 4096]) {
            filled += bytes;
        }
        rustix::fs::fcntl_setfl(&writer, OFlags::empty()).unwrap();
        (reader, writer, filled)
    }

    fn group(word: u64) -> Buffer {
        let mut group = Buffer::new(512);
        group.words_mut().fill(word);
        group
    }

    /// Waits until a thread of this process sleeps in `io_uring_enter`.
    fn wait_until_asleep(id: rustix::thread::Pid) {
        let path = format!("/proc/self/task/{}/syscall", id.as_raw_nonzero());
        while !std::fs::read_to_string(&path).unwrap().starts_with("426 ") {
            thread::yield_now();
        }
    }

    /// Runs it on another thread, and waits until that thread sleeps in the kernel.
    fn asleep<T: Send + 'static>(
        run: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let (send, receive) = std::sync::mpsc::channel();
        let sleeper = thread::spawn(move || {
            send.send(rustix::thread::gettid()).unwrap();
            run()
        });
        wait_until_asleep(receive.recv().unwrap());
        sleeper
    }

    fn words(bytes: &[u8]) -> Vec<u64> {
        bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn append_proceeds_while_acknowledge_sleeps() {
        let Some(uring) = uring().map(Arc::new) else { return };
        let (mut reader, writer, filled) = full_pipe();
        let writer = Arc::new(writer);
        let file = tempfile::tempfile().unwrap();
        uring.append(&writer, 0, group(1), 512);
        let (its_uring, its_writer) = (uring.clone(), writer.clone());
        let sleeper = asleep(move || its_uring.acknowledge(&its_writer, true));
        uring.append(&file, 4096, group(2), 512);
        // The sleeping thread records that the second is durable, and still waits for the first.
        while lock(&uring.in_flight).rest(1).is_some() {
            thread::yield_now();
        }
        assert!(uring.acknowledge(&writer, false).unwrap().is_none());
        assert!(!sleeper.is_finished());
        let mut second = [0; 4096];
        file.read_exact_at(&mut second, 4096).unwrap();
        assert!(words(&second) == [2; 512]);
        let mut first = vec![0; filled + 4096];
        reader.read_exact(&mut first).unwrap();
        assert!(words(&first[filled..]) == [1; 512]);
        let taken = sleeper.join().unwrap().unwrap().unwrap();
        assert_eq!((taken.buffer.words()[0], taken.bytes, taken.writes), (1, 4096, 1));
        let taken = uring.acknowledge(&file, true).unwrap().unwrap();
        assert_eq!(taken.buffer.words()[0], 2);
        assert!(uring.acknowledge(&file, true).unwrap().is_none());
    }

    #[test]
    fn drop_waits_for_writes_in_flight() {
        let Some(uring) = uring() else { return };
        let (mut reader, writer, filled) = full_pipe();
        (0..3).for_each(|_| uring.append(&writer, 0, group(7), 512));
        let sleeper = asleep(move || drop(uring));
        assert!(!sleeper.is_finished());
        let mut all = vec![0; filled + 3 * 4096];
        reader.read_exact(&mut all).unwrap();
        assert!(words(&all[filled..]) == [7; 3 * 512]);
        sleeper.join().unwrap();
    }

    #[test]
    fn short_write_is_resumed() {
        let Some(uring) = uring() else { return };
        // Some kernels end the write when the pipe is full; others wait for room for all of it.
        let uring = Arc::new(uring.with_write_bytes_max(300 << 10));
        let (mut reader, writer) = io::pipe().unwrap();
        let mut group = Buffer::new(1 << 17);
        (0..1 << 17).for_each(|i| group.words_mut()[i] = i as u64);
        uring.append(&writer, 0, group, 1 << 17);
        let sleeper = asleep(move || uring.acknowledge(&writer, true));
        let mut all = vec![0; 1 << 20];
        reader.read_exact(&mut all).unwrap();
        assert!(words(&all).into_iter().eq(0..1 << 17));
        let taken = sleeper.join().unwrap().unwrap().unwrap();
        assert_eq!(taken.bytes, 1 << 20);
        assert!(taken.writes > 1);
    }

    #[test]
    fn refused_submission_falls_back_to_blocking_writes() {
        let Some(uring) = uring() else { return };
        let file = tempfile::tempfile().unwrap();
        uring.append(&file, 0, group(1), 512);
        assert!(!uring.is_blocking());
        // As if an earlier entry had been refused: it stays in the queue for good.
        // SAFETY: no other queue exists here, and the entry references no memory.
        unsafe { uring.queues.submission_shared().push(&opcode::Nop::new().build()).unwrap() };
        uring.append(&file, 4096, group(2), 512);
        assert!(uring.is_blocking());
        uring.append(&file, 8192, group(3), 512);
        for number in 1..=3 {
            let taken = uring.acknowledge(&file, true).unwrap().unwrap();
            assert_eq!(taken.buffer.words()[0], number);
        }
        let mut all = vec![0; 3 * 4096];
        file.read_exact_at(&mut all, 0).unwrap();
        assert!(words(&all) == [[1; 512], [2; 512], [3; 512]].concat());
        drop(uring);
    }

    #[test]
    fn more_groups_than_the_queues_hold_are_refused() {
        let Some(uring) = uring() else { return };
        let file = tempfile::tempfile().unwrap();
        let send = |i| uring.append(&file, 4096 * i as u64, group(1), 512);
        (0..DEPTH).for_each(send);
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| send(DEPTH)));
        let panic = panic.expect_err("the queue is full");
        let text = panic.downcast_ref::<String>().map_or("", String::as_str);
        let text = panic.downcast_ref::<&str>().copied().unwrap_or(text);
        assert!(text.contains("8 groups are in flight at most"), "{text}");
    }

    /// Refuses direct writes that begin inside a block, as some file systems refuse all of them.
    #[test]
    fn refused_direct_write_falls_back_to_blocking() {
        struct Half {
            direct: File,
            cached: File,
        }
        impl GroupFile for Half {
            fn fd(&self) -> BorrowedFd<'_> {
                self.direct.as_fd()
            }
            fn write_blocking(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
                self.cached.write_at(bytes, offset).map_err(|_| Errno::IO)
            }
        }
        let Some(uring) = uring() else { return };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let cached = File::create_new(&path).unwrap();
        let flags = OFlags::RDWR | OFlags::DIRECT;
        let direct = rustix::fs::open(&path, flags, rustix::fs::Mode::empty());
        let Some(direct) = or_skip(direct.map(File::from), "O_DIRECT") else { return };
        let file = Half { direct, cached };
        uring.append(&file, 0, group(1), 512);
        let taken = uring.acknowledge(&file, true).unwrap().unwrap();
        assert_eq!((taken.buffer.words()[0], uring.is_blocking()), (1, false));
        uring.append(&file, 4096 + 8, group(2), 512);
        uring.append(&file, 8192 + 8, group(3), 512);
        for number in [2, 3] {
            let taken = uring.acknowledge(&file, true).unwrap().unwrap();
            assert_eq!(taken.buffer.words()[0], number);
        }
        assert!(uring.is_blocking());
        let mut found = vec![0; 8192];
        std::fs::File::open(path).unwrap().read_exact_at(&mut found, 4096 + 8).unwrap();
        assert!(words(&found) == [[2; 512], [3; 512]].concat());
    }
}
