//! Groups by way of io_uring: several at a time, and nobody waits for the device who need not.
//!
//! ```text
//!   append        groups under way -> submission queue -> the kernel        locks `under_way`
//!   acknowledge   completion queue -> groups under way -> the oldest        locks both, in turns
//!                 asleep in the kernel until something completes            locks `completions`
//! ```
//!
//! Invariants:
//! - The holder of `under_way`'s lock has the submission queue to itself, and leaves it empty,
//!   unless the kernel refused what is in it; then nothing is submitted any more, and groups are
//!   written by blocking calls (see `under_way`).
//! - Who has locked `completions` has the completion queue to himself. It is locked first.
//! - At most [`DEPTH`] writes are in both queues and the kernel together, so neither overflows.
//! - The kernel reads a group's memory from submission to completion: its buffer is in `under_way`
//!   for so long, whoever sent it and whatever became of him, and dropping waits for it.
//!
//! Measured without gain, 4 and 64 KiB, one to eight in flight, on ext4 on a virtual disk, five
//! rounds, interleaved: a registered file, registered buffers, cooperative task running (within
//! 3 % of the median, where rounds differ by 10). Cooperative task running also lets a thread that
//! appended and then computes hold back everybody's completions.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{EnterFlags, IoUring, opcode, types};
use rustix::io::{Errno, ReadWriteFlags};

use super::under_way::{Failure, GroupFile, Next, Taken, UnderWay};
use crate::Buffer;
use crate::sync::{Mutex, MutexGuard, TryLockError, lock, thread};
use crate::system::FIRST_FD;

/// Groups under way at most. One durable 4 KiB write at a time: 6 300/s; 8: 28 000/s; 16: 46 000/s
/// (64 KiB: 5 900, 19 000, 25 000; a virtual disk): 8 keep up with any log that one thread fills,
/// and what is lost in a crash stays small.
pub(super) const DEPTH: usize = 8;

/// Bytes of one write at most: less than what the kernel takes in one call (2 GiB) and what a
/// submission can say (4 GiB), in whole pages.
const WRITE_BYTES_MAX: usize = 1 << 30;

/// How often the kernel may refuse a call for want of memory or because its queue is full, before
/// that is an error. Any number would do: what cannot be submitted is written by a blocking call.
const REFUSALS_MAX: u32 = 100;

/// Queues on a descriptor that is not standard input, output or errors: those numbers are free
/// where the process started with them closed, and are the program's to open.
fn ring() -> Option<IoUring> {
    // Each of the others takes one of the numbers until the last one has its own.
    let mut others = Vec::new();
    loop {
        let ring = IoUring::new(DEPTH as u32).ok()?;
        if ring.as_raw_fd() >= FIRST_FD {
            return Some(ring);
        }
        others.push(ring);
    }
}

/// A pair of queues to the kernel, and the groups it may be reading.
pub(super) struct Uring {
    /// Before `under_way`, so that the queues are gone before the memory they name.
    ring: IoUring,
    under_way: Mutex<UnderWay>,
    completions: Mutex<()>,
    write_bytes_max: usize,
}

impl Uring {
    /// Queues that were seen to work, where the system lets us have them.
    pub(super) fn new() -> Option<Uring> {
        // Any refusal will do: a kernel without it, a filter, a limit, no memory.
        let ring = ring()?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe).ok()?;
        if !probe.is_supported(opcode::Write::CODE) {
            return None;
        }
        let mut uring = Uring {
            ring,
            under_way: Mutex::new(UnderWay::new(DEPTH)),
            completions: Mutex::new(()),
            write_bytes_max: WRITE_BYTES_MAX,
        };
        uring.can_enter().then_some(uring)
    }

    /// Cuts writes into pieces, so that groups are resumed.
    #[cfg(test)]
    pub(super) fn with_write_bytes_max(mut self, bytes: usize) -> Uring {
        self.write_bytes_max = bytes;
        self
    }

    /// Filters may let us set it up and not use it; ask before it matters.
    fn can_enter(&mut self) -> bool {
        // SAFETY: the entry names no memory.
        let pushed = unsafe { self.ring.submission().push(&opcode::Nop::new().build()) };
        pushed.is_ok()
            && self.ring.submit_and_wait(1).is_ok()
            && self.ring.completion().next().is_some_and(|entry| entry.result() == 0)
    }

    /// Sends the first `words` words of a group to `offset` of the file. Does not fail:
    /// [`acknowledge`](Uring::acknowledge) returns the error.
    ///
    /// # Panics
    /// When [`DEPTH`] groups are under way.
    pub(super) fn append(&self, file: &dyn GroupFile, offset: u64, group: Buffer, words: usize) {
        let mut under_way = lock(&self.under_way);
        assert!(under_way.len() < DEPTH, "{DEPTH} groups are under way at most");
        let number = under_way.add(offset, group, words);
        self.send(file, &mut under_way, number);
    }

    /// The oldest group, once it is durable. Who does not wait is told `None` also while another
    /// thread waits: that one gets it.
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
            let mut under_way = lock(&self.under_way);
            self.complete(&completions, &mut under_way, Some(file));
            let oldest = under_way.take()?;
            if oldest.is_some() || !wait || under_way.len() == 0 {
                return Ok(oldest);
            }
            let rest = under_way.rest(under_way.oldest());
            let (bytes, offset) = rest.map_or((0, 0), |(rest, at)| (rest.len() as u64, at));
            // Asleep without `under_way`: others append meanwhile. No completion is missed: only
            // the holder of `completions` takes any, and the kernel looks before it sleeps. One
            // will come: the oldest group is sent, or it would be durable or failed. So the loop
            // ends: each turn takes a completion, and each group has a bounded number of them.
            drop(under_way);
            let asleep = self.sleep(&completions);
            asleep.map_err(|error| Failure { offset, bytes, source: Some(error) })?;
        }
    }

    /// Whether groups are written by blocking calls, because the kernel did not write one.
    pub(super) fn is_blocking(&self) -> bool {
        lock(&self.under_way).is_blocking()
    }

    /// Gives what is left of a group to the kernel.
    fn send(&self, file: &dyn GroupFile, under_way: &mut MutexGuard<'_, UnderWay>, number: u64) {
        if under_way.is_blocking() {
            return under_way.write(number, file);
        }
        let Some((rest, offset)) = under_way.rest(number) else { return };
        let bytes = rest.len().min(self.write_bytes_max) as u32;
        let write = opcode::Write::new(types::Fd(file.fd().as_raw_fd()), rest.as_ptr(), bytes)
            .offset(offset)
            .rw_flags(ReadWriteFlags::DSYNC.bits() as i32)
            .build()
            .user_data(number);
        let pushed = {
            // SAFETY: `under_way` is locked, and nobody looks at the submission queue without it.
            let mut queue = unsafe { self.ring.submission_shared() };
            // What is in it was refused, and names memory that is kept, but may not be submitted.
            // SAFETY: `bytes` bytes from `rest` on are a part of a buffer in `under_way`, where
            // nothing writes to it. It leaves when it is durable, so when this write has
            // completed; `drop` waits for completion or leaks it. A buffer's memory does not
            // move when the buffer does.
            queue.is_empty() && unsafe { queue.push(&write) }.is_ok()
        };
        // An entry that the kernel did not take stays in the queue and is never submitted: from
        // here on nothing is. So it can name memory that is freed, and the group is not written
        // twice at a time.
        if !pushed || !self.submit() {
            under_way.give_queue_up();
            under_way.write(number, file);
        }
    }

    /// Submits the one entry in the submission queue; `under_way` is locked. Returns whether the
    /// kernel has taken it: on any error, and when it returns 0, it has not.
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

    /// Notes what has completed; sends what is left of short writes, if there is a file for it.
    fn complete(
        &self,
        _completions: &MutexGuard<'_, ()>,
        under_way: &mut MutexGuard<'_, UnderWay>,
        file: Option<&dyn GroupFile>,
    ) {
        // SAFETY: `completions` is locked, and nobody looks at the completion queue without it.
        for entry in unsafe { self.ring.completion_shared() } {
            let (number, written) = (entry.user_data(), usize::try_from(entry.result()));
            let result = written.map_err(|_| Errno::from_raw_os_error(-entry.result()));
            match (under_way.complete(number, result), file) {
                (Next::Nothing, _) => {}
                (Next::Submit, Some(file)) => self.send(file, under_way, number),
                // By this thread, with both locks: others wait for the device as well as this one,
                // where the queue would have let them go on. That is slower, and no different.
                (Next::Write, Some(file)) => under_way.write(number, file),
                (_, None) => under_way.refuse(number, Errno::CANCELED.into()),
            }
        }
    }

    /// Waits until something completes; only the holder of `completions` takes it.
    fn sleep(&self, _completions: &MutexGuard<'_, ()>) -> io::Result<()> {
        self.enter(0, 1, EnterFlags::GETEVENTS).map(drop)
    }

    /// Enters the kernel. It ends: refusals are counted. Signals that interrupt a thread that waits
    /// are not, for the device goes on meanwhile, and the kernel looks for a completion before it
    /// sleeps again; how often that happens is for the sender of the signals to decide.
    fn enter(&self, submit: u32, complete: u32, flags: EnterFlags) -> io::Result<usize> {
        let submitter = self.ring.submitter();
        let mut refusals = 0;
        loop {
            // SAFETY: no memory is passed beside the queues', and what an entry in them names
            // stays for as long as it must (see `send`).
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
    /// Waits for the kernel to let go of the groups. Ends: nothing is submitted any more, so each
    /// turn takes one of at most [`DEPTH`] completions.
    fn drop(&mut self) {
        let completions = lock(&self.completions);
        let mut under_way = lock(&self.under_way);
        loop {
            self.complete(&completions, &mut under_way, None);
            if !under_way.any_sent() {
                return;
            }
            if self.sleep(&completions).is_err() {
                return under_way.leak();
            }
        }
    }
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uring").field("under_way", &self.under_way).finish_non_exhaustive()
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

    /// Any file; what falls back to a blocking write is written with `pwritev2`.
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

    // A write into a full pipe completes when somebody reads, and not before: a device that the
    // tests control. What the pipe was filled with are zeros.
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

    /// Runs it on another thread, until that sleeps in the kernel.
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
    fn one_appends_while_another_sleeps_and_a_later_completion_waits_for_its_turn() {
        let Some(uring) = uring().map(Arc::new) else { return };
        let (mut reader, writer, filled) = full_pipe();
        let writer = Arc::new(writer);
        let file = tempfile::tempfile().unwrap();
        uring.append(&writer, 0, group(1), 512);
        let (its_uring, its_writer) = (uring.clone(), writer.clone());
        let sleeper = asleep(move || its_uring.acknowledge(&its_writer, true));
        uring.append(&file, 4096, group(2), 512);
        // The sleeper notes that the second is durable and goes on waiting for the first.
        while lock(&uring.under_way).rest(1).is_some() {
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
    fn dropping_waits_for_the_kernel_to_let_go_of_every_group() {
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
    fn a_write_that_ends_early_is_resumed_where_it_ended() {
        let Some(uring) = uring() else { return };
        // Some kernels end the write when the pipe is full, others wait for room for all of it.
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
        // As if an earlier one had been refused: it stands in the queue for good.
        // SAFETY: no other queue exists here, and the entry names no memory.
        unsafe { uring.ring.submission_shared().push(&opcode::Nop::new().build()).unwrap() };
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
        let panic = panic.expect_err("there is no room");
        let told = panic.downcast_ref::<String>().map_or("", String::as_str);
        let told = panic.downcast_ref::<&str>().copied().unwrap_or(told);
        assert!(told.contains("8 groups are under way at most"), "{told}");
    }

    /// Direct writes that begin between blocks are refused, as all are by some file systems.
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
