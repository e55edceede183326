//! Completion times: known, or represented by a token until they are.
//!
//! A miss returns a *token* at once, and an instruction waits for the token only when it needs the
//! time. Independent loads therefore overlap. Each token is completed once, by the event that ends
//! the work.

/// A time in cycles of the cores' clock.
pub type Time = u64;

/// A time later than any event.
pub const NEVER: Time = u64::MAX >> 8;

const TOKEN: u64 = 1 << 63;

/// The initial and the largest number of tokens kept. More open tokens than that mean that some
/// event never completes its token.
const KEPT: usize = 1 << 14;
const KEPT_MOST: usize = 1 << 22;

/// A time, or the token of an unknown one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When(u64);

impl When {
    /// Returns a known time.
    #[inline]
    pub const fn at(time: Time) -> When {
        When(time)
    }

    /// Returns whether this is a token. Its time may be known nevertheless.
    #[inline]
    pub const fn is_token(self) -> bool {
        self.0 & TOKEN != 0
    }
}

/// The tokens of a machine.
///
/// Invariants:
/// - An open token is among the youngest, as many as are kept; all older ones completed long ago.
///   When a token stays open for longer than that, the number of kept tokens doubles.
#[derive(Debug)]
pub struct Tokens {
    /// The time of token `n`, at index `n` modulo the length, a power of two.
    times: Vec<Time>,
    /// The cores that wait for the token, a bit each.
    waiting: Vec<u64>,
    next: u64,
}

impl Tokens {
    /// Returns a set without open tokens.
    pub fn new() -> Tokens {
        Tokens { times: vec![0; KEPT], waiting: vec![0; KEPT], next: 0 }
    }

    /// Opens a token.
    pub fn open(&mut self) -> When {
        let mut slot = self.slot(self.next);
        if self.times[slot] == NEVER {
            self.grow();
            slot = self.slot(self.next);
        }
        self.times[slot] = NEVER;
        self.waiting[slot] = 0;
        self.next += 1;
        When(TOKEN | (self.next - 1))
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.times.len() - 1)
    }

    /// Doubles the number of kept tokens, because the oldest one is still open.
    #[cold]
    fn grow(&mut self) {
        let kept = self.times.len();
        assert!(kept < KEPT_MOST, "a token stays open while {KEPT_MOST} others were opened");
        let (times, waiting) = (vec![0; 2 * kept], vec![0; 2 * kept]);
        let times = std::mem::replace(&mut self.times, times);
        let waiting = std::mem::replace(&mut self.waiting, waiting);
        for number in self.next.saturating_sub(kept as u64)..self.next {
            let (old, new) = (number as usize & (kept - 1), self.slot(number));
            (self.times[new], self.waiting[new]) = (times[old], waiting[old]);
        }
    }

    /// Returns the time of a token, if it is known.
    #[inline]
    pub fn time(&self, when: When) -> Option<Time> {
        if !when.is_token() {
            return Some(when.0);
        }
        // A token older than those kept has completed, and its exact time no longer matters.
        let number = when.0 & !TOKEN;
        if number + (self.times.len() as u64) < self.next {
            return Some(0);
        }
        let time = self.times[self.slot(number)];
        (time != NEVER).then_some(time)
    }

    /// Registers a core as a waiter; [`notify`](Tokens::notify) returns it.
    pub fn ask(&mut self, when: When, core: usize) {
        debug_assert!(
            when.is_token() && self.time(when).is_none(),
            "only an open token has waiters"
        );
        let slot = self.slot(when.0 & !TOKEN);
        self.waiting[slot] |= 1 << core;
    }

    /// Completes a token. Returns the waiting cores, a bit each.
    pub fn notify(&mut self, when: When, time: Time) -> u64 {
        let slot = self.slot(when.0 & !TOKEN);
        debug_assert!(when.is_token() && self.times[slot] == NEVER, "a token completes once");
        self.times[slot] = time;
        std::mem::take(&mut self.waiting[slot])
    }
}

impl Default for Tokens {
    fn default() -> Tokens {
        Tokens::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_token_keeps_its_time() {
        let mut tokens = Tokens::new();
        let token = tokens.open();
        assert_eq!(tokens.time(token), None);
        tokens.ask(token, 3);
        assert_eq!(tokens.notify(token, 70), 8);
        assert_eq!(tokens.time(token), Some(70));
        for _ in 0..2 * KEPT {
            let other = tokens.open();
            tokens.notify(other, 80);
        }
        assert!(tokens.time(token).is_some_and(|time| time <= 70));
        assert_eq!(tokens.time(When::at(5)), Some(5));
    }

    #[test]
    fn late_token_keeps_its_waiters() {
        let mut tokens = Tokens::new();
        for _ in 0..100 {
            let early = tokens.open();
            tokens.notify(early, 1);
        }
        let late = tokens.open();
        tokens.ask(late, 5);
        for time in 0..3 * KEPT as u64 {
            let other = tokens.open();
            assert_eq!(tokens.time(other), None);
            tokens.notify(other, time);
            assert_eq!(tokens.time(other), Some(time));
        }
        assert_eq!(tokens.time(late), None);
        assert_eq!(tokens.notify(late, 9), 1 << 5);
        assert_eq!(tokens.time(late), Some(9));
    }

    #[test]
    #[should_panic(expected = "a token stays open")]
    fn token_that_never_completes_panics() {
        let mut tokens = Tokens::new();
        let _forgotten = tokens.open();
        for _ in 0..KEPT_MOST {
            let other = tokens.open();
            tokens.notify(other, 1);
        }
    }
}
