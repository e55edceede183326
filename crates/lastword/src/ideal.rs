//! Ideal reproduction: the log is freed and nothing is written home, as if the log had no end. It
//! shows what bringing home costs (the Pisces paper's DudeTM-ideal, section 5.2, figure 7).
//!
//! Such a pool is its shadow in memory and nothing else: what leaves the log is in no file. So it
//! is for [`Medium::Emulated`] alone, with a shadow that never reads home again; from its first
//! transaction on its superblock names a design that nobody opens, however it is closed; and it is
//! never marked as left in good order.

use medium::{Counts, HomeMedium};

use crate::{Error, Medium, Options, Shadow};

/// What the superblock of such a pool names as its design.
pub(crate) const NAME: &str = "decoupled-ideal";

/// Refuses where something would be lost that somebody rests on.
///
/// # Errors
/// [`Error::NotForIdeal`].
pub(crate) fn check(options: &Options, medium: Medium) -> Result<(), Error> {
    if !options.ideal_reproduce {
        return Ok(());
    }
    let reads_home = options.shadow == Shadow::Software || options.shadow_bytes.is_some();
    match medium {
        Medium::Emulated { .. } if reads_home => {
            Err(Error::NotForIdeal { found: "a shadow that reads home again" })
        }
        Medium::Emulated { .. } => Ok(()),
        medium => Err(Error::NotForIdeal { found: medium.name() }),
    }
}

/// A home that keeps nothing.
pub(crate) struct Nowhere;

impl HomeMedium for Nowhere {
    fn write_back(&mut self, _writes: &[u64]) -> Result<(), medium::Error> {
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), medium::Error> {
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}
