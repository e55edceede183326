//! Shadows by name: the memory in front of the heap, and which design has it.

use clap::ValueEnum;
use lastword::{Options, Shadow};

use crate::args::Load;
use crate::designs::DesignName;
use crate::failure::Failure;

/// What the memory in front of the heap begins as.
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

/// That a shadow can have this bound.
///
/// # Errors
/// [`Failure::FullHasNoBound`].
pub(crate) fn check_bound(shadow: ShadowName, bytes: Option<u64>) -> Result<(), Failure> {
    match (shadow, bytes) {
        (ShadowName::Full, Some(_)) => Err(Failure::FullHasNoBound),
        _ => Ok(()),
    }
}

/// How a shadow is kept within a bound: a type of `decoupled` for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paging {
    None,
    Software,
    Evicting,
}

impl Load {
    /// How its shadow is kept within a bound.
    pub(crate) fn paging(&self) -> Paging {
        match (self.shadow, self.shadow_bytes) {
            (ShadowName::Software, _) => Paging::Software,
            (ShadowName::Cow, Some(_)) => Paging::Evicting,
            (ShadowName::Full | ShadowName::Cow, _) => Paging::None,
        }
    }

    /// That its shadow can be had with a design.
    ///
    /// # Errors
    /// What is to be left out of the command line.
    pub(crate) fn check_shadow(&self, design: DesignName) -> Result<(), Failure> {
        check_bound(self.shadow, self.shadow_bytes)?;
        match self.bounded_by() {
            Some(option) if !design.has_bounded_shadows() => {
                Err(Failure::NoBound { design: design.name(), option })
            }
            _ => Ok(()),
        }
    }

    /// What of the command line puts a bound on its shadow.
    pub(crate) fn bounded_by(&self) -> Option<&'static str> {
        match self.paging() {
            Paging::None => None,
            Paging::Software => Some("--shadow software"),
            Paging::Evicting => Some("--shadow-bytes"),
        }
    }

    /// The options with the shadow that was asked for.
    pub(crate) fn with_shadow(&self, options: Options) -> Options {
        let options = options.shadow(self.shadow.into());
        self.shadow_bytes.map_or(options.clone(), |bytes| options.shadow_bytes(bytes))
    }
}
