//! Crash tests of the shop: each program passes, and each mistake is found.

mod bank;
mod jobs;
mod orders;

use lastword_crash::{Cause, Explorer};

/// Explores a program with a mistake, and checks the report: this invariant fails, so many steps
/// are left, and the trace fails alone in the same way.
fn finds<S: 'static>(explorer: &Explorer<S>, invariant: &str, steps: usize) {
    let failure = explorer.explore().expect_err("the mistake is found");
    println!("{failure}");
    let is_expected = |cause: &Cause| match cause {
        Cause::Invariant { name, .. } => name == invariant,
        _ => false,
    };
    assert!(is_expected(failure.cause()), "{failure}");
    assert_eq!(failure.steps().len(), steps, "{failure}");
    let again = explorer.replay(failure.trace()).expect_err("the trace fails, too");
    assert_eq!(again.cause(), failure.cause());
    assert_eq!(again.explored().executions, 1);
}
