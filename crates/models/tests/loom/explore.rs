//! Runs loom.

use crate::sync;

/// Explores all executions with at most so many preemptions (any number: `None`). `PREEMPTIONS`
/// replaces a bound. The bounds of the models were chosen so that each takes seconds; all models
/// have also been run with larger ones, most of them with none.
pub(crate) fn explore(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    let bound = std::env::var("PREEMPTIONS").ok().and_then(|bound| bound.parse().ok());
    builder.preemption_bound = preemptions.map(|own| bound.unwrap_or(own));
    builder.max_branches = 10_000;
    builder.check(move || {
        models::trials::execution();
        model();
    });
}

/// Words of a ring or a heap, all zero.
pub(crate) fn words(count: usize) -> Box<[sync::AtomicU64]> {
    (0..count).map(|_| sync::AtomicU64::new(0)).collect()
}
