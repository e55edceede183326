//! Waits of a worker for other threads, bounded by the pool's patience.

use medium::Patience;
use words::TxId;

use super::Core;
use crate::error::Error;
use crate::sync::{spin_loop, thread};

/// Polls before a waiting worker yields its core.
const SPINS: u32 = 1 << 8;

/// A wait in progress: the polls so far and the remaining patience.
pub(super) struct Waiting<'s> {
    core: &'s Core,
    looks: u32,
    patience: Patience,
}

impl<'s> Waiting<'s> {
    pub(super) fn begin(core: &'s Core) -> Waiting<'s> {
        Waiting { core, looks: 0, patience: Patience::new(core.options.patience) }
    }

    pub(super) fn look_again(&mut self) -> Result<(), Error> {
        self.core.workers.poison.check()?;
        self.looks = self.looks.saturating_add(1);
        if self.looks < SPINS {
            spin_loop();
        } else {
            thread::yield_now();
        }
        Ok(())
    }

    /// Polls again. Returns whether the caller should sleep from here on.
    pub(super) fn has_spun(&mut self) -> Result<bool, Error> {
        self.look_again()?;
        Ok(self.looks >= SPINS)
    }

    /// Polls on behalf of a worker that cannot continue. Fails when the pool's patience is over;
    /// the arguments describe the obstacle for [`Error::HeldUp`].
    pub(super) fn go_on(
        &mut self,
        problem: &'static str,
        limit_bytes: Option<u64>,
        instead: &'static str,
    ) -> Result<(), Error> {
        self.look_again()?;
        if self.looks < SPINS {
            return Ok(());
        }
        // Only a wait for freed chunks depends on other workers' groups. Groups therefore end at
        // few polls, so that other waits rarely cut them short.
        if self.looks.is_power_of_two() {
            self.core.end_all_groups()?;
        }
        if !self.patience.is_over() {
            return Ok(());
        }
        let (since, waited) = (TxId(self.core.versions.oldest()), self.patience.spent());
        Err(Error::HeldUp { what: problem, limit_bytes, since, waited, instead })
    }
}
