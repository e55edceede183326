//! Ideal reproduction: frees the log without writing the heap image, as if the log were endless.
//!
//! It measures the cost of reproduction: the Pisces paper's DudeTM-ideal (section 5.2, figure 7).
//!
//! Such a pool exists only in its shadow: no file holds a transaction that has left the log. Three
//! rules follow:
//! - It runs on [`Medium::Emulated`] alone, with a shadow that never rereads the heap image.
//! - Its superblock names a design that no program opens. The name is durable before the first
//!   transaction and stays, however the pool is closed.
//! - It is never marked as cleanly shut down.

use medium::{Counts, HeapMedium};

use crate::error::IdealError;
use crate::{Error, Medium, Options, Shadow};

/// The design in the superblock of such a pool.
pub(crate) const NAME: &str = "decoupled-ideal";

/// Refuses a medium or shadow on which data would be lost unexpectedly.
///
/// # Errors
/// [`IdealError`].
pub(crate) fn check(options: &Options, medium: Medium) -> Result<(), Error> {
    if !options.ideal_reproduce {
        return Ok(());
    }
    let rereads_heap = options.shadow == Shadow::Software || options.shadow_bytes.is_some();
    match medium {
        Medium::Emulated { .. } if rereads_heap => {
            Err(IdealError::Unsupported { found: "a shadow that rereads the heap image" }.into())
        }
        Medium::Emulated { .. } => Ok(()),
        medium => Err(IdealError::Unsupported { found: medium.name() }.into()),
    }
}

/// A heap image that discards every write.
pub(crate) struct Nowhere;

impl HeapMedium for Nowhere {
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
