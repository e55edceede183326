//! Shadows by name, and the designs that support them.

use clap::ValueEnum;
use lastword::Shadow;

use crate::failure::Failure;

/// Initial contents of a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShadowName {
    /// The whole heap, read when the pool is opened
    Full,
    /// Pages are copied when they are first written
    Cow,
    /// Pages are read when they are first used, and looked up in a table
    Software,
}

impl ShadowName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ShadowName::Full => "full",
            ShadowName::Cow => "cow",
            ShadowName::Software => "software",
        }
    }
}

impl From<ShadowName> for Shadow {
    fn from(name: ShadowName) -> Shadow {
        match name {
            ShadowName::Full => Shadow::Full,
            ShadowName::Cow => Shadow::CopyOnWrite,
            ShadowName::Software => Shadow::Software,
        }
    }
}

/// Checks that a shadow supports this bound.
///
/// # Errors
/// [`Failure::FullHasNoBound`].
pub(crate) fn check_bound(shadow: ShadowName, bytes: Option<u64>) -> Result<(), Failure> {
    match (shadow, bytes) {
        (ShadowName::Full, Some(_)) => Err(Failure::FullHasNoBound),
        _ => Ok(()),
    }
}
