//! In-flight writes of groups to a file: sent in order, completed in any order, acknowledged in
//! order. (The groups themselves, before and after: `persist/in_flight.rs` of `lastword`.)
//!
//! ```text
//!   oldest                        latest
//!   durable | sent | failed | sent          taken: durable, then none before the second is
//!   number                        number + 3
//! ```
//!
//! Invariants:
//! - A group leaves only when it is durable and every earlier group has left. A failed group stays
//!   and blocks all later groups.
//! - The memory of a group in flight neither moves nor changes: the kernel reads it.
//!
//! # Fallback when io_uring cannot write
//!
//! io_uring passes a write that has to wait to a thread of its own. Where the process may start no
//! thread (`ulimit -u`, the limit of a pids cgroup), that write and every repetition complete with
//! ECANCELED. Some file systems refuse direct writes with EINVAL. A completion that reports that
//! nothing was begun therefore leads to one resubmission, and then to a blocking write. From then
//! on the queue is not used.
//!
//! Recovery sees no difference. It assumes that groups in flight are written in any order, whole or
//! in part, and that no group is acknowledged before all older ones are durable. A blocking write
//! is one such order, and `take` is the same for both paths. Nothing else can write the group's
//! range meanwhile: the completion shows that the kernel is done with the first attempt, and the
//! log reuses the range only after this group is acknowledged.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::buffer::Buffer;
use system::mutants::{Mutant, injected};

/// How often a group is given to the queue again, without a byte of it being written, before it is
/// written by a blocking call. Once: a thread that appends a group and ends takes its write with
/// it, which is no reason to give up the queue.
const RESUBMISSIONS_MAX: u32 = 1;

/// The file that groups are written to.
pub(super) trait GroupFile {
    /// For io_uring.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Writes at least one byte, durable on return. Ends: interruptions are counted.
    fn write_blocking(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno>;
}

/// Groups in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    groups: VecDeque<Group>,
    /// Number of the oldest group; the groups after it are numbered consecutively.
    oldest: u64,
    /// The queue did not write a group: the others are written by blocking calls too.
    blocking: bool,
}

/// Next action for a group after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// Submit the rest to the queue again.
    Submit,
    /// Write the rest by a blocking call.
    Write,
}

/// Group in flight.
#[derive(Debug)]
struct Group {
    buffer: Buffer,
    /// Where it goes: its first byte in the file, and how many.
    offset: u64,
    bytes: usize,
    /// How many of them are durable.
    written: usize,
    writes: u64,
    /// How often the queue was given it again since a byte of it was written.
    resubmissions: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The kernel may read it.
    Sent,
    Durable,
    /// With the system's error, until it is reported once.
    Failed(Option<io::Error>),
}

/// A group that is durable.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) buffer: Buffer,
    pub(super) bytes: u64,
    /// How many writes it took.
    pub(super) writes: u64,
}

/// A group that could not be written.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The system's error; `None` if it was already reported.
    pub(super) source: Option<io::Error>,
}

impl InFlight {
    /// None, with room for `depth`.
    pub(super) fn new(depth: usize) -> InFlight {
        InFlight { groups: VecDeque::with_capacity(depth), oldest: 0, blocking: false }
    }

    /// The number that the oldest group has, or the next one will have.
    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Adds the first `words` words of a group that is to be sent; returns its number.
    pub(super) fn add(&mut self, offset: u64, buffer: Buffer, words: usize) -> u64 {
        let bytes = buffer.words()[..words].as_bytes().len();
        // Nothing to write is written.
        let state = if bytes == 0 { State::Durable } else { State::Sent };
        let (written, writes, resubmissions) = (0, 0, 0);
        self.groups.push_back(Group {
            buffer,
            offset,
            bytes,
            written,
            writes,
            resubmissions,
            state,
        });
        self.oldest + self.groups.len() as u64 - 1
    }

    /// Returns the unwritten rest of a sent group, and its offset.
    pub(super) fn rest(&self, number: u64) -> Option<(&[u8], u64)> {
        let group = self.groups.get(number.checked_sub(self.oldest)? as usize)?;
        let rest = &group.buffer.words().as_bytes()[group.written..group.bytes];
        matches!(group.state, State::Sent).then_some((rest, group.offset + group.written as u64))
    }

    /// Records a completion of a group's write: the number of durable bytes, or an error.
    ///
    /// Each completion makes progress: a byte more, a resubmission less, or the blocking write. So
    /// a group is submitted at most `2 * bytes` times.
    pub(super) fn complete(&mut self, number: u64, result: Result<usize, Errno>) -> Next {
        let Some(group) = self.sent(number) else { return Next::Nothing };
        match result {
            Err(Errno::INTR | Errno::AGAIN | Errno::CANCELED)
                if group.resubmissions < RESUBMISSIONS_MAX =>
            {
                group.resubmissions += 1;
                Next::Submit
            }
            // Only errors that come before anything is written. After any other, such as EIO, the
            // kernel may take lost pages for clean, and a repetition could succeed wrongly.
            Err(errno) if is_not_begun(errno) => {
                self.blocking = true;
                Next::Write
            }
            result => match group.end_write(result) {
                true => Next::Submit,
                false => Next::Nothing,
            },
        }
    }

    /// Writes the rest of a group by blocking calls. It ends: each call writes a byte or fails.
    pub(super) fn write(&mut self, number: u64, file: &dyn GroupFile) {
        while let Some((rest, offset)) = self.rest(number) {
            let result = file.write_blocking(rest, offset);
            let Some(group) = self.sent(number) else { return };
            group.end_write(result);
        }
    }

    /// A group that was not acknowledged, failed or completed yet.
    fn sent(&mut self, number: u64) -> Option<&mut Group> {
        let at = usize::try_from(number.wrapping_sub(self.oldest)).ok();
        let group = at.and_then(|at| self.groups.get_mut(at));
        let sent = group.filter(|group| matches!(group.state, State::Sent));
        let early = injected(Mutant::TakenUnderWay) || injected(Mutant::TakenOutOfOrder);
        debug_assert!(sent.is_some() || early, "a completion of group {number}, which is not sent");
        sent
    }

    /// Whether the queue is not used any more.
    pub(super) fn is_blocking(&self) -> bool {
        self.blocking
    }

    /// The queue takes nothing any more: groups are written by blocking calls from here on.
    pub(super) fn give_queue_up(&mut self) {
        self.blocking = true;
    }

    /// A group could not even be sent.
    pub(super) fn refuse(&mut self, number: u64, source: io::Error) {
        if let Some(group) = self.groups.get_mut((number - self.oldest) as usize) {
            group.state = State::Failed(Some(source));
        }
    }

    /// The oldest group, if it is durable.
    pub(super) fn take(&mut self) -> Result<Option<Taken>, Failure> {
        let Some(oldest) = self.groups.front_mut() else { return Ok(None) };
        if let State::Failed(source) = &mut oldest.state {
            let (offset, bytes) = (oldest.offset, oldest.bytes as u64);
            return Err(Failure { offset, bytes, source: source.take() });
        }
        let early = self.is_taken_early();
        let durable = |group: &mut Group| early || matches!(group.state, State::Durable);
        let Some(group) = self.groups.pop_front_if(durable) else { return Ok(None) };
        self.oldest += 1;
        let Group { buffer, bytes, writes, .. } = group;
        Ok(Some(Taken { buffer, bytes: bytes as u64, writes }))
    }

    /// Returns whether an injected bug takes the oldest group before it is durable.
    fn is_taken_early(&self) -> bool {
        let any_durable = || self.groups.iter().any(|group| matches!(group.state, State::Durable));
        injected(Mutant::TakenUnderWay) || injected(Mutant::TakenOutOfOrder) && any_durable()
    }

    /// Whether the kernel may read any group. (A group that is written by a blocking call is no
    /// longer `Sent` when that returns, and `self` is borrowed until then.)
    pub(super) fn any_sent(&self) -> bool {
        self.groups.iter().any(|group| matches!(group.state, State::Sent))
    }

    /// Leaks memory that the kernel may still read.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.groups));
    }
}

impl Group {
    /// Records the result of one write; returns whether part of the group is unwritten.
    fn end_write(&mut self, result: Result<usize, Errno>) -> bool {
        match result {
            Err(errno) => self.state = State::Failed(Some(errno.into())),
            // Of at least one byte: a device that takes none would be asked without end.
            Ok(0) => self.state = State::Failed(Some(io::ErrorKind::WriteZero.into())),
            Ok(written) => {
                self.writes += 1;
                self.resubmissions = 0;
                self.written = self.bytes.min(self.written + written);
                if self.written < self.bytes && !injected(Mutant::ShortGroupNotResumed) {
                    return true;
                }
                self.state = State::Durable;
            }
        }
        false
    }
}

/// Whether the system says that it wrote nothing and that another call may be able to: it was
/// interrupted, has no worker, or does not know this call, its flags or direct writes.
fn is_not_begun(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::INTR
            | Errno::AGAIN
            | Errno::CANCELED
            | Errno::INVAL
            | Errno::OPNOTSUPP
            | Errno::NOSYS
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::seq::SliceRandom;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use crate::sync::{Mutex, lock};

    #[test]
    fn groups_are_acknowledged_in_append_order() {
        let mut waited = 0;
        for seed in 0..200 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut in_flight = InFlight::new(8);
            let (mut sent, mut came, mut taken) = (Vec::new(), 0, 0);
            while taken < 50 {
                while came < 50 && in_flight.len() < 8 && random.random_bool(0.7) {
                    let words = random.random_range(1..2000);
                    let mut group = Buffer::new(words);
                    group.words_mut()[0] = came;
                    sent.push(in_flight.add(came << 20, group, words));
                    came += 1;
                }
                sent.shuffle(&mut random);
                if let Some(number) = sent.pop() {
                    let (rest, _) = in_flight.rest(number).unwrap();
                    let result = match random.random_range(0..4) {
                        0 => Err(Errno::AGAIN),
                        1 => Ok(random.random_range(1..=rest.len())),
                        _ => Ok(rest.len()),
                    };
                    let before = rest.len() - result.unwrap_or(0);
                    let again = in_flight.complete(number, result) != Next::Nothing;
                    assert_eq!(again, before > 0, "seed {seed}");
                    assert_eq!(again, in_flight.rest(number).is_some(), "seed {seed}");
                    if again {
                        let (rest, at) = in_flight.rest(number).unwrap();
                        assert_eq!(rest.len(), before, "seed {seed}");
                        assert_eq!(at >> 20, number, "seed {seed}");
                        sent.push(number);
                    }
                }
                while let Some(group) = in_flight.take().unwrap() {
                    assert_eq!(group.buffer.words()[0], taken, "seed {seed}");
                    assert!(!sent.contains(&taken), "seed {seed}");
                    taken += 1;
                }
                waited += usize::from(in_flight.len() > sent.len());
            }
            assert!(!in_flight.any_sent());
        }
        assert!(waited > 100, "no durable group ever waited for an older one");
    }

    #[test]
    fn what_came_before_a_failed_group_is_taken_and_nothing_from_there_on() {
        let mut in_flight = InFlight::new(4);
        let numbers = [0, 1, 2, 3].map(|at| in_flight.add(at, Buffer::new(512), 512));
        assert_eq!(in_flight.complete(numbers[3], Ok(4096)), Next::Nothing);
        assert_eq!(in_flight.complete(numbers[1], Err(Errno::IO)), Next::Nothing);
        assert!(in_flight.take().unwrap().is_none());
        assert_eq!(in_flight.complete(numbers[0], Ok(4096)), Next::Nothing);
        assert_eq!(in_flight.take().unwrap().unwrap().bytes, 4096);
        let failure = in_flight.take().unwrap_err();
        assert_eq!((failure.offset, failure.bytes), (1, 4096));
        assert_eq!(failure.source.as_ref().and_then(Errno::from_io_error), Some(Errno::IO));
        assert!(in_flight.any_sent());
        assert_eq!(in_flight.complete(numbers[2], Ok(0)), Next::Nothing);
        assert!(!in_flight.any_sent());
        assert!(in_flight.take().unwrap_err().source.is_none(), "reported twice");
        assert_eq!(in_flight.len(), 3);
    }

    #[test]
    fn group_of_which_no_byte_was_written_has_failed() {
        let mut in_flight = InFlight::new(4);
        let number = in_flight.add(0, Buffer::new(512), 512);
        assert_eq!(in_flight.complete(number, Ok(0)), Next::Nothing);
        let source = in_flight.take().unwrap_err().source.unwrap();
        assert_eq!(source.kind(), io::ErrorKind::WriteZero);
    }

    /// A file that takes a block at a time, and fails from some write on.
    struct Blocks {
        written: Mutex<Vec<(u64, usize)>>,
        fails_at: usize,
    }

    impl GroupFile for Blocks {
        fn fd(&self) -> BorrowedFd<'_> {
            unreachable!("blocking writes need no descriptor")
        }

        fn write_blocking(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
            let mut written = lock(&self.written);
            if written.len() == self.fails_at {
                return Err(Errno::INTR);
            }
            let here = bytes.len().min(4096);
            written.push((offset, here));
            Ok(here)
        }
    }

    #[test]
    fn cancelled_group_is_submitted_once_more_then_written() {
        for errno in [Errno::CANCELED, Errno::AGAIN, Errno::INTR] {
            let mut in_flight = InFlight::new(4);
            let number = in_flight.add(4096, Buffer::new(1536), 1536);
            assert_eq!(in_flight.complete(number, Err(errno)), Next::Submit);
            // A byte that was written shows that the queue works.
            assert_eq!(in_flight.complete(number, Ok(4096)), Next::Submit);
            assert_eq!(in_flight.complete(number, Err(errno)), Next::Submit);
            assert!(!in_flight.is_blocking());
            assert_eq!(in_flight.complete(number, Err(errno)), Next::Write);
            assert!(in_flight.is_blocking());
            let file = Blocks { written: Mutex::default(), fails_at: usize::MAX };
            in_flight.write(number, &file);
            assert_eq!(*lock(&file.written), [(8192, 4096), (12288, 4096)]);
            let taken = in_flight.take().unwrap().unwrap();
            assert_eq!((taken.bytes, taken.writes), (12288, 3));
        }
    }

    #[test]
    fn unsupported_write_is_blocking_at_once_and_may_fail() {
        for errno in [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS] {
            let mut in_flight = InFlight::new(4);
            let numbers = [0, 8192].map(|at| in_flight.add(at, Buffer::new(1024), 1024));
            assert_eq!(in_flight.complete(numbers[1], Err(errno)), Next::Write);
            let file = Blocks { written: Mutex::default(), fails_at: 2 };
            in_flight.write(numbers[1], &file);
            // Durable, and not taken before the older one, which fails: a blocking write is not
            // repeated.
            assert!(in_flight.take().unwrap().is_none());
            in_flight.write(numbers[0], &file);
            let failure = in_flight.take().unwrap_err();
            assert_eq!(failure.source.as_ref().and_then(Errno::from_io_error), Some(Errno::INTR));
            assert_eq!(*lock(&file.written), [(8192, 4096), (12288, 4096)]);
            assert!(!in_flight.any_sent());
        }
    }
}
