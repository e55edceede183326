//! Writes of a follower: words of another pool's transactions, also those of its allocator.

use words::{Addr, Stop};

use super::Tx;
use crate::design::{At, Design};

impl<D: Design> Tx<'_, D> {
    /// Writes neighboring words from `index` on, whatever objects have them.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] outside the heap; [`Stop::TooLarge`], [`Stop::Conflict`].
    pub(crate) fn replay_words(&mut self, index: u64, words: &[u64]) -> Result<(), Stop> {
        if index.saturating_add(words.len() as u64) > self.bound {
            return Err(self.refuse(Addr::new(0, 8 * index)));
        }
        let at = At { object: 0, index: index as usize };
        let done = self.design.write_run(self.local, at, words);
        self.check_size(done)
    }

    /// Writes a word with the value that it has, so that the transaction gets an ID.
    ///
    /// # Errors
    /// As [`replay_words`](Tx::replay_words).
    pub(crate) fn replay_nothing(&mut self) -> Result<(), Stop> {
        let at = At { object: 0, index: 0 };
        let word = self.design.read(self.local, at).map_err(|stop| self.end(stop))?;
        self.replay_words(0, &[word])
    }
}
