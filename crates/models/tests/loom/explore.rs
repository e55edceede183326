//! The entry to loom.

use crate::sync;

/// Explores all executions with at most `preemptions` preemptions (`None`: any number). The
/// environment variable `PREEMPTIONS` replaces a bound. The bounds were chosen so that each model
/// takes seconds. All models have also run with larger bounds, most of them without one.
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

/// Zeroed words of a ring or a heap.
pub(crate) fn words(count: usize) -> Box<[sync::AtomicU64]> {
    (0..count).map(|_| sync::AtomicU64::new(0)).collect()
}
