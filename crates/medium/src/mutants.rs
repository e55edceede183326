//! Bugs to plant, each by its name: the proof that crash tests find such bugs.
//!
//! A place that keeps a promise asks [`planted`] whether to break it. Without the feature `mutants`
//! the answer is `false` when the program is compiled, and nothing of this is left; only tests
//! enable it. A bug is planted in one thread.
//!
//! The numbers are those of the list in docs/crash-model.md, which also has the mutants that no
//! product code is needed for, and those that wait for a design.

/// The one list: a variant, its number and name, and what it breaks.
macro_rules! mutants {
    ($($variant:ident $number:literal $name:literal $what:literal,)*) => {
        /// A bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Mutant {
            $(#[doc = $what] $variant,)*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$variant),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Mutant::$variant => $name,)* }
            }

            /// Its number in docs/crash-model.md.
            pub fn number(self) -> u32 {
                match self { $(Mutant::$variant => $number,)* }
            }

            /// What it breaks.
            pub fn what(self) -> &'static str {
                match self { $(Mutant::$variant => $what,)* }
            }
        }
    };
}

mutants! {
    GroupNotWrittenBack 1 "group-not-written-back"
        "A group of the log is stored into the cache and not written back; not by a durable write.",
    HomeBarrierSkipped 8 "home-barrier-skipped"
        "No barrier between the words at home and recycling.",
}

/// Whether this bug is planted here.
#[inline(always)]
pub fn planted(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    return thread::is_planted(mutant);
    #[cfg(not(feature = "mutants"))]
    {
        let _ = mutant;
        false
    }
}

/// The mutant of this name, where this build has them.
pub fn by_name(name: &str) -> Option<Mutant> {
    let all = if cfg!(feature = "mutants") { Mutant::ALL } else { &[] };
    all.iter().copied().find(|mutant| mutant.name() == name)
}

/// As long as it lives the bug is planted in this thread.
#[derive(Debug)]
#[must_use]
pub struct Planted(());

/// Plants a bug in this thread, or none.
///
/// # Panics
/// When there is no such bug; ask [`by_name`] first.
pub fn plant(name: Option<&str>) -> Planted {
    let mutant = name.map(|name| by_name(name).expect("this build has the mutant"));
    #[cfg(feature = "mutants")]
    thread::put(mutant);
    let _ = mutant;
    Planted(())
}

impl Drop for Planted {
    fn drop(&mut self) {
        #[cfg(feature = "mutants")]
        thread::put(None);
    }
}

#[cfg(feature = "mutants")]
mod thread {
    use std::cell::Cell;

    use super::Mutant;

    thread_local!(static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) });

    #[inline]
    pub(super) fn is_planted(mutant: Mutant) -> bool {
        PLANTED.get() == Some(mutant)
    }

    pub(super) fn put(mutant: Option<Mutant>) {
        PLANTED.set(mutant);
    }
}
