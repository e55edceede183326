//! The groups of the log that are under way: sent in order, completed in any, taken in order.
//!
//! ```text
//!   oldest                        latest
//!   durable | sent | failed | sent          taken: durable, then none before the second is
//!   number                        number + 3
//! ```
//!
//! Invariants:
//! - A group leaves only when it is durable and all before it have left. One that failed stays,
//!   and so do all behind it.
//! - The memory of a group under way neither moves nor changes: the kernel reads it.

use std::collections::VecDeque;
use std::io;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::Buffer;
use crate::mutants::{Mutant, planted};

/// Groups under way.
#[derive(Debug)]
pub(super) struct UnderWay {
    groups: VecDeque<Group>,
    /// The oldest group's number; each has the one that follows the number of the group before.
    oldest: u64,
}

/// A group under way.
#[derive(Debug)]
struct Group {
    buffer: Buffer,
    /// Where it goes: its first byte in the file, and how many.
    offset: u64,
    bytes: usize,
    /// How many of them are durable.
    written: usize,
    writes: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The kernel may read it.
    Sent,
    Durable,
    /// With what the system answered, until somebody was told.
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
    /// What the system answered; nothing when somebody was told already.
    pub(super) source: Option<io::Error>,
}

impl UnderWay {
    /// None, with room for `depth`.
    pub(super) fn new(depth: usize) -> UnderWay {
        UnderWay { groups: VecDeque::with_capacity(depth), oldest: 0 }
    }

    /// The number that the oldest group has, or the next one will have.
    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Takes the first `words` words of a group that is to be sent; answers its number.
    pub(super) fn add(&mut self, offset: u64, buffer: Buffer, words: usize) -> u64 {
        let bytes = buffer.words()[..words].as_bytes().len();
        // Nothing to write is written.
        let state = if bytes == 0 { State::Durable } else { State::Sent };
        self.groups.push_back(Group { buffer, offset, bytes, written: 0, writes: 0, state });
        self.oldest + self.groups.len() as u64 - 1
    }

    /// What is still to be written of a group that is sent, and where.
    pub(super) fn rest(&self, number: u64) -> Option<(&[u8], u64)> {
        let group = self.groups.get(number.checked_sub(self.oldest)? as usize)?;
        let rest = &group.buffer.words().as_bytes()[group.written..group.bytes];
        matches!(group.state, State::Sent).then_some((rest, group.offset + group.written as u64))
    }

    /// Notes what became of a write of a group: how many bytes are durable, or an error. Answers
    /// whether what is left of it must be sent (again): a write may end early, and one whose thread
    /// ends is cancelled.
    pub(super) fn complete(&mut self, number: u64, result: Result<usize, Errno>) -> bool {
        let at = number.wrapping_sub(self.oldest);
        let group = usize::try_from(at).ok().and_then(|at| self.groups.get_mut(at));
        let Some(group) = group.filter(|group| matches!(group.state, State::Sent)) else {
            let early = planted(Mutant::TakenUnderWay) || planted(Mutant::TakenOutOfOrder);
            debug_assert!(early, "a completion of group {number}, which is not sent");
            return false;
        };
        match result {
            Err(Errno::INTR | Errno::AGAIN | Errno::CANCELED) => return true,
            Err(errno) => group.state = State::Failed(Some(errno.into())),
            Ok(0) => group.state = State::Failed(Some(io::ErrorKind::WriteZero.into())),
            Ok(written) => {
                group.writes += 1;
                group.written = group.bytes.min(group.written + written);
                if group.written < group.bytes && !planted(Mutant::ShortGroupNotResumed) {
                    return true;
                }
                group.state = State::Durable;
            }
        }
        false
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

    /// Whether a planted bug takes the oldest group, durable or not.
    fn is_taken_early(&self) -> bool {
        let any_durable = || self.groups.iter().any(|group| matches!(group.state, State::Durable));
        planted(Mutant::TakenUnderWay) || planted(Mutant::TakenOutOfOrder) && any_durable()
    }

    /// Whether the kernel may read any group.
    pub(super) fn any_sent(&self) -> bool {
        self.groups.iter().any(|group| matches!(group.state, State::Sent))
    }

    /// Never frees what the kernel may still read.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.groups));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::seq::SliceRandom;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn groups_that_complete_in_any_order_and_in_pieces_are_taken_in_the_order_they_came() {
        let mut waited = 0;
        for seed in 0..200 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut under_way = UnderWay::new(8);
            let (mut sent, mut came, mut taken) = (Vec::new(), 0, 0);
            while taken < 50 {
                while came < 50 && under_way.len() < 8 && random.random_bool(0.7) {
                    let words = random.random_range(1..2000);
                    let mut group = Buffer::new(words);
                    group.words_mut()[0] = came;
                    sent.push(under_way.add(came << 20, group, words));
                    came += 1;
                }
                sent.shuffle(&mut random);
                if let Some(number) = sent.pop() {
                    let (rest, _) = under_way.rest(number).unwrap();
                    let result = match random.random_range(0..4) {
                        0 => Err(Errno::AGAIN),
                        1 => Ok(random.random_range(1..=rest.len())),
                        _ => Ok(rest.len()),
                    };
                    let before = rest.len() - result.unwrap_or(0);
                    let again = under_way.complete(number, result);
                    assert_eq!(again, before > 0, "seed {seed}");
                    assert_eq!(again, under_way.rest(number).is_some(), "seed {seed}");
                    if again {
                        let (rest, at) = under_way.rest(number).unwrap();
                        assert_eq!(rest.len(), before, "seed {seed}");
                        assert_eq!(at >> 20, number, "seed {seed}");
                        sent.push(number);
                    }
                }
                while let Some(group) = under_way.take().unwrap() {
                    assert_eq!(group.buffer.words()[0], taken, "seed {seed}");
                    assert!(!sent.contains(&taken), "seed {seed}");
                    taken += 1;
                }
                waited += usize::from(under_way.len() > sent.len());
            }
            assert!(!under_way.any_sent());
        }
        assert!(waited > 100, "no durable group ever waited for an older one");
    }

    #[test]
    fn what_came_before_a_failed_group_is_taken_and_nothing_from_there_on() {
        let mut under_way = UnderWay::new(4);
        let numbers = [0, 1, 2, 3].map(|at| under_way.add(at, Buffer::new(512), 512));
        assert!(!under_way.complete(numbers[3], Ok(4096)));
        assert!(!under_way.complete(numbers[1], Err(Errno::IO)));
        assert!(under_way.take().unwrap().is_none());
        assert!(!under_way.complete(numbers[0], Ok(4096)));
        assert_eq!(under_way.take().unwrap().unwrap().bytes, 4096);
        let failure = under_way.take().unwrap_err();
        assert_eq!((failure.offset, failure.bytes), (1, 4096));
        assert_eq!(failure.source.as_ref().and_then(Errno::from_io_error), Some(Errno::IO));
        assert!(under_way.any_sent());
        assert!(!under_way.complete(numbers[2], Ok(0)));
        assert!(!under_way.any_sent());
        assert!(under_way.take().unwrap_err().source.is_none(), "told twice");
        assert_eq!(under_way.len(), 3);
    }
}
