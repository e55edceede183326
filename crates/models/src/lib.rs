//! Models of the concurrency protocols, and mutants that prove the models effective.
//!
//! ```text
//!   crates/log/src/{ring,persistent}.rs       --#[path]-->  tests/loom     beside loom's atomics
//!   crates/lastword/src/{perform,persist,..}  --#[path]-->  tests/shuttle  beside shuttle's
//! ```
//!
//! The protocol files access all state that threads share through `crate::sync`. Each of the two
//! test programs is a crate root with its own `sync`, and compiles the very same files.
//!
//! | tool | explores | cannot see |
//! |---|---|---|
//! | loom | all interleavings and stale loads, up to some preemptions | loads of later stores |
//! | shuttle | random and prioritised schedules of whole pipelines | missing fences |
//!
//! Limits of loom, and the measures against them:
//! - A load never returns a later store of another thread (load buffering), for example when a
//!   ring's word is overwritten before its copy is made. The ring's model passes each word on in a
//!   cell, which loom checks for happens-before.
//! - loom misses switches around loads and unlocking; tests/loom/sync.rs lists them and adds them.
//! - `SeqCst` accesses count as `AcqRel`. The protocols use `SeqCst` fences, which loom orders, and
//!   `announce`, for which tests/loom/sync.rs has a fence.
//! - loom's fences are slightly stronger than the language's: each happens before the next.
//! - A wait with a timeout never times out. Timed waits in the models' `sync` time out at once.
//! - Additions and compare-exchanges see the latest value, as in the language.
//! - A load returns one of the last seven stores, and a model has at most five threads.
//! - `Arc` is the standard one, because no protocol here depends on the order of its counts.
//!
//! A *mutant* is a hook in a protocol file that removes one protection (`system::mutants`). A
//! *trial* injects it into the thread that explores a model, and the model must then fail with the
//! right message (tests/loom/trials.rs, tests/shuttle/trials.rs). Both tools run all threads of a
//! model as coroutines of that thread. So all of them have the bug, and trials run in parallel.
//! shuttle prints each failure, including the failures that its trials must end with. Only the
//! test's result counts.
//!
//! Each test program ends with a line per mutant: its number in the list of mutants in
//! docs/internals/mutants.md, the model that has killed it, and the number of executions.
//!
//! shuttle's model `lists` runs the whole of `decoupled` over a machine whose power may fail at any
//! time. [`history`] judges the transactions' reads and the state after each crash.
//!
//! `EXECUTIONS=1 cargo test -p lastword-models` prints the number of executions of each model.
//! Longer runs: `PREEMPTIONS=n` goes deeper with loom, `SCHEDULES=n` explores n times as many
//! schedules with shuttle, and `SEED=n` other schedules.

#[path = "../../crash/src/oracle/history.rs"]
pub mod history;
pub mod oracle;
pub mod outcomes;
mod page;
pub mod trials;
