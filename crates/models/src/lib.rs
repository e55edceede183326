//! Models of the concurrency protocols, and the proof that the models find bugs.
//!
//! ```text
//!   crates/log/src/{ring,persistent}.rs    --#[path]-->  tests/loom     beside loom's atomics
//!   crates/lastword/src/{perform,persist}  --#[path]-->  tests/shuttle  beside shuttle's
//!   reproduce, pipeline; design, ticket    --build.rs--> the same, without their own tests
//!   versions                                                  in smaller sizes, tests/loom
//!            |
//!            +-- build.rs: one protection taken away --> twins, which must fail
//! ```
//!
//! The protocol files reach everything that threads share through `crate::sync`. Each of the two
//! test programs is a crate root with a `sync` of its own and compiles the very same files.
//!
//! | tool | explores | cannot see |
//! |---|---|---|
//! | loom | all interleavings and stale loads, up to some preemptions | loads of later stores |
//! | shuttle | random and prioritised schedules of whole pipelines | missing fences |
//!
//! What loom lacks, and what stands for it:
//! - A load never sees a later store of another thread (load buffering), as when a ring's word is
//!   overwritten before its copy was made. The ring's model hands each word over in a cell that
//!   loom checks for happens-before.
//! - It misses switches around loads and unlocking; tests/loom/sync.rs says which, and adds them.
//! - `SeqCst` accesses count as `AcqRel`; the protocols use `SeqCst` fences, which it orders, and
//!   `announce`, for which tests/loom/sync.rs has one.
//!   Its fences are a little stronger than the language's (each happens before the next).
//! - Waiting with a timeout never times out. Timed waits in the models' `sync` time out at once.
//! - Additions and compare-exchanges see the latest value: as in the language.
//! - A load sees one of the last seven stores, and a model has at most five threads.
//! - `Arc` is the standard one: no protocol here rests on the order of its counts.
//!
//! A *twin* is a protocol file with one protection taken away (the tables in build/). Its text is
//! changed when this crate is built, and the build fails when the text is gone, so a twin cannot
//! grow apart from the product. shuttle prints the failures that its twins must end with; the
//! result of the test is what counts.
//!
//! Each test program ends with a line a twin: its number in the list of mutants that all crash
//! testing is measured by, the model that has killed it, after how many executions.
//!
//! shuttle's model `lists` runs the whole of `decoupled` over a machine whose power may fail at any
//! time, and [`history`] judges what transactions have read and what each crash has left.
//!
//! `EXECUTIONS=1 cargo test -p lastword-models` prints how many executions each model has taken.
//! Longer runs: `PREEMPTIONS=n` goes deeper with loom, `SCHEDULES=n` explores n times as many
//! schedules with shuttle and `SEED=n` others.

#[path = "../../crash/src/oracle/history.rs"]
pub mod history;
pub mod oracle;
pub mod outcomes;
pub mod trials;
