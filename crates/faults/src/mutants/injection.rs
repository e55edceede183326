//! Puts a bug into a thread.

use super::{ALL, Mutant};

/// Returns the bug of this name, where this build has hooks.
pub fn by_name(name: &str) -> Option<Mutant> {
    let all = if system::mutants::ENABLED { ALL } else { &[] };
    all.iter().find(|entry| entry.name == name).map(|entry| entry.mutant)
}

/// Guard of an injected bug: dropping it removes the bug from this thread.
#[derive(Debug)]
#[must_use]
pub struct Injected(());

/// Injects a bug into this thread, or none.
///
/// # Panics
/// If this build has no hooks; [`by_name`] finds no bug there.
pub fn inject(mutant: Option<Mutant>) -> Injected {
    assert!(mutant.is_none() || system::mutants::ENABLED, "a build without hooks has no bugs");
    system::mutants::inject(mutant);
    Injected(())
}

impl Drop for Injected {
    fn drop(&mut self) {
        system::mutants::inject(None);
    }
}
