//! When something is over: known, or to be told.
//!
//! A miss answers a *token* at once, and whoever needs its time waits for it; so loads that do not
//! depend on each other overlap. A token is told (resolved) once, by whoever finishes the work.

/// Cycles of the cores' clock.
pub type Time = u64;

/// Later than everything.
pub const NEVER: Time = u64::MAX >> 8;

const TOKEN: u64 = 1 << 63;

/// Tokens that are kept in the beginning, and at most: with more open ones somebody forgets to tell
/// them.
const KEPT: usize = 1 << 14;
const KEPT_MOST: usize = 1 << 22;

/// A time, or the token of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When(u64);

impl When {
    /// This time.
    #[inline]
    pub const fn at(time: Time) -> When {
        When(time)
    }

    /// Whether it is a token; its time may be known all the same.
    #[inline]
    pub const fn is_token(self) -> bool {
        self.0 & TOKEN != 0
    }
}

/// All tokens of a machine.
///
/// Invariants:
/// - A token that is not told yet is among the youngest, as many as are kept; an older one was told
///   long ago. Where a write waits for long, and others do not, more of them are kept from then on.
#[derive(Debug)]
pub struct Tokens {
    /// Of token `n` at `n` modulo its length, a power of two.
    told: Vec<Time>,
    /// The cores that wait for it, a bit each.
    waiting: Vec<u64>,
    next: u64,
}

impl Tokens {
    /// None is open.
    pub fn new() -> Tokens {
        Tokens { told: vec![0; KEPT], waiting: vec![0; KEPT], next: 0 }
    }

    /// A token that is not told.
    pub fn open(&mut self) -> When {
        let mut slot = self.slot(self.next);
        if self.told[slot] == NEVER {
            self.grow();
            slot = self.slot(self.next);
        }
        self.told[slot] = NEVER;
        self.waiting[slot] = 0;
        self.next += 1;
        When(TOKEN | (self.next - 1))
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.told.len() - 1)
    }

    /// Keeps twice as many: the oldest one is still open.
    #[cold]
    fn grow(&mut self) {
        let kept = self.told.len();
        assert!(kept < KEPT_MOST, "no token stays open while {KEPT_MOST} others come");
        let (told, waiting) = (vec![0; 2 * kept], vec![0; 2 * kept]);
        let told = std::mem::replace(&mut self.told, told);
        let waiting = std::mem::replace(&mut self.waiting, waiting);
        for number in self.next.saturating_sub(kept as u64)..self.next {
            let (old, new) = (number as usize & (kept - 1), self.slot(number));
            (self.told[new], self.waiting[new]) = (told[old], waiting[old]);
        }
    }

    /// The time, if it is known.
    #[inline]
    pub fn time(&self, when: When) -> Option<Time> {
        if !when.is_token() {
            return Some(when.0);
        }
        let number = when.0 & !TOKEN;
        if number + (self.told.len() as u64) < self.next {
            return Some(0);
        }
        let told = self.told[self.slot(number)];
        (told != NEVER).then_some(told)
    }

    /// Notes that a core wants to know; [`tell`](Tokens::tell) answers who did.
    pub fn ask(&mut self, when: When, core: usize) {
        debug_assert!(when.is_token() && self.time(when).is_none(), "only what is open is asked");
        let slot = self.slot(when.0 & !TOKEN);
        self.waiting[slot] |= 1 << core;
    }

    /// Tells a token's time. Answers the cores that have asked, a bit each.
    pub fn tell(&mut self, when: When, time: Time) -> u64 {
        let slot = self.slot(when.0 & !TOKEN);
        debug_assert!(when.is_token() && self.told[slot] == NEVER, "a token is told once");
        self.told[slot] = time;
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
    fn a_token_is_open_until_it_is_told_and_known_for_ever_after() {
        let mut tokens = Tokens::new();
        let token = tokens.open();
        assert_eq!(tokens.time(token), None);
        tokens.ask(token, 3);
        assert_eq!(tokens.tell(token, 70), 8);
        assert_eq!(tokens.time(token), Some(70));
        for _ in 0..2 * KEPT {
            let other = tokens.open();
            tokens.tell(other, 80);
        }
        assert!(tokens.time(token).is_some_and(|time| time <= 70));
        assert_eq!(tokens.time(When::at(5)), Some(5));
    }

    #[test]
    fn a_token_that_is_told_late_is_kept_until_then_and_so_is_who_waits_for_it() {
        let mut tokens = Tokens::new();
        for _ in 0..100 {
            let early = tokens.open();
            tokens.tell(early, 1);
        }
        let late = tokens.open();
        tokens.ask(late, 5);
        for time in 0..3 * KEPT as u64 {
            let other = tokens.open();
            assert_eq!(tokens.time(other), None);
            tokens.tell(other, time);
            assert_eq!(tokens.time(other), Some(time));
        }
        assert_eq!(tokens.time(late), None);
        assert_eq!(tokens.tell(late, 9), 1 << 5);
        assert_eq!(tokens.time(late), Some(9));
    }

    #[test]
    #[should_panic(expected = "no token stays open")]
    fn a_token_that_is_forgotten_is_found_out() {
        let mut tokens = Tokens::new();
        let _forgotten = tokens.open();
        for _ in 0..KEPT_MOST {
            let other = tokens.open();
            tokens.tell(other, 1);
        }
    }
}
