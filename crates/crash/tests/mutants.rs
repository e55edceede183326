//! Mutation tests: every injectable bug is found, and without it the same tests find no violation.
//!
//! A row of [`DETECTIONS`] names a bug and a cheap way to find it: a case with a tier, searched for
//! at most [`EXECUTIONS`] executions, or a test of one part, a function in [`PARTS`]. The last
//! lines of output are the table of docs/internals/mutants.md. With `UPDATE` it is written there.
#![allow(clippy::unwrap_used, reason = "a test program")]

#[path = "mutants/collections.rs"]
mod collections;
#[path = "mutants/concurrent.rs"]
mod concurrent;
#[path = "mutants/conversions.rs"]
mod conversions;
#[path = "mutants/growing_log.rs"]
mod growing_log;
#[path = "mutants/heaps.rs"]
mod heaps;
#[path = "mutants/hostile.rs"]
mod hostile;
#[path = "mutants/migrations.rs"]
mod migrations;
#[path = "mutants/paced.rs"]
mod paced;
#[path = "mutants/pairs.rs"]
mod pairs;
#[path = "mutants/parts.rs"]
mod parts;
#[path = "mutants/readers.rs"]
mod readers;
#[path = "mutants/refused.rs"]
mod refused;
#[path = "mutants/replicas.rs"]
mod replicas;
#[path = "mutants/replication.rs"]
mod replication;
#[path = "mutants/seam.rs"]
mod seam;
#[path = "mutants/seam_checksums.rs"]
mod seam_checksums;
#[path = "mutants/slot_losses.rs"]
mod slot_losses;
#[path = "mutants/snapshots.rs"]
mod snapshots;
#[path = "mutants/transfers.rs"]
mod transfers;
#[path = "mutants/trees.rs"]
mod trees;
#[path = "mutants/views.rs"]
mod views;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use crash::{Case, Found, Limits, Prepared, Tier, explore};
use faults::mutants::page::{self, Outcome};
use faults::mutants::{self, By, DETECTIONS, Detection, Mutant, Search, entry};
use libtest_mimic::{Arguments, Failed, Trial};

/// Limit of executions of a case.
const EXECUTIONS: u64 = 5000;

/// A test of one part: returns its violation, if it finds one with this bug or without any.
type Part = fn(Option<Mutant>) -> Option<String>;

/// The tests of one part, by the names that [`DETECTIONS`] knows.
const PARTS: [(&str, Part); 72] = [
    ("heap image of two threads", parts::heap_image_of_two_threads),
    ("combined heap image of two threads", parts::combined_heap_image_of_two_threads),
    ("a header that lies", parts::a_header_that_lies),
    ("a log that grows", growing_log::a_log_that_grows),
    ("a stream that lacks transactions", replication::a_stream_that_lacks_transactions),
    ("a deposed primary", replication::a_deposed_primary),
    ("a stream without replies", replicas::a_stream_without_replies),
    ("a new primary", replicas::a_new_primary),
    ("a group in parts", replicas::a_group_in_parts),
    ("a message of an old term", replicas::a_message_of_an_old_term),
    ("a former primary that follows", replicas::a_former_primary_that_follows),
    ("a stream that lags", replication::a_stream_that_lags),
    ("a group that never was", parts::a_group_that_never_was),
    ("a group that is gone", parts::a_group_that_is_gone),
    ("a wrap that ends too early", parts::a_wrap_that_ends_too_early),
    ("a published file", parts::a_published_file),
    ("a payload that explodes", parts::a_payload_that_explodes),
    ("a page between parts", parts::a_page_between_parts),
    ("a run across parts", parts::a_run_across_parts),
    ("a page with hot words", paced::a_page_with_hot_words),
    ("pages that wait", paced::pages_that_wait),
    ("a view of changing pages", views::a_view_of_changing_pages),
    ("a store beside a new view", views::a_store_beside_a_new_view),
    ("a view beside a transaction", views::a_view_beside_a_transaction),
    ("damaged pages", hostile::damaged_pages),
    ("a compacted pool", transfers::a_compacted_pool),
    ("a heap that grows meanwhile", heaps::a_heap_that_grows_meanwhile),
    ("a heap that is nearly full", heaps::a_heap_that_is_nearly_full),
    ("a heap on a full disk", heaps::a_heap_on_a_full_disk),
    ("a reader beside its owner", readers::a_reader_beside_its_owner),
    ("an interrupted migration", migrations::an_interrupted_migration),
    ("a reader that stays", snapshots::a_reader_that_stays),
    ("a forked child", hostile::a_forked_child),
    ("a removed pool", hostile::a_removed_pool),
    ("a sparse copy", hostile::a_sparse_copy),
    ("a stopped process", hostile::a_stopped_process),
    ("an interrupted renewal", hostile::an_interrupted_renewal),
    ("an older copy", hostile::an_older_copy),
    ("a freed array", heaps::a_freed_array),
    ("concurrent allocations", pairs::concurrent_allocations),
    ("a write to a freed string", pairs::a_write_to_a_freed_string),
    ("a group outside the heap", parts::a_group_outside_the_heap),
    ("a heap of format 1", heaps::a_heap_of_format_1),
    ("concurrent transactions", concurrent::concurrent_transactions),
    ("concurrent changes of a tree", trees::concurrent_changes_of_a_tree),
    ("filled and freed collections", collections::filled_and_freed_collections),
    ("a refused name", collections::a_refused_name),
    ("an interrupted conversion", conversions::an_interrupted_conversion),
    ("a lost record of another slot", hostile::a_lost_record_of_another_slot),
    ("a lost end of a log", hostile::a_lost_end_of_a_log),
    ("a lost end of a slot", hostile::a_lost_end_of_a_slot),
    ("lost pages of undo", |bug| slot_losses::lost_pages("undo", bug)),
    ("lost pages of redo", |bug| slot_losses::lost_pages("redo", bug)),
    ("lost pages of snapshot", |bug| slot_losses::lost_pages("snapshot", bug)),
    ("a run freed to a used bin", pairs::a_run_freed_to_a_used_bin),
    ("a refused opening", refused::a_refused_opening),
    ("a lost end beside its owner", readers::a_lost_end_beside_its_owner),
    ("stores of commits", seam::stores_of_commits),
    ("a lost page after a power failure", seam::a_lost_page_after_a_power_failure),
    ("a lost page after a checkpoint", seam::a_lost_page_after_a_checkpoint),
    ("stores of a heap image", seam::stores_of_a_heap_image),
    ("stores of checksums", seam_checksums::stores_of_checksums),
    ("stores of new checksums", seam_checksums::stores_of_new_checksums),
    ("stores of a scrub", seam_checksums::stores_of_a_scrub),
    ("calls of checksums", seam_checksums::calls_of_checksums),
    ("calls of a damaged page", seam_checksums::calls_of_a_damaged_page),
    ("calls of a file pool", seam::calls_of_a_file_pool),
    ("calls of a new pool", seam::calls_of_a_new_pool),
    ("calls of a removal", seam::calls_of_a_removal),
    ("calls of an opening", seam::calls_of_an_opening),
    ("calls of a log read", seam::calls_of_a_log_read),
    ("a write for io_uring", seam::a_write_for_io_uring),
];

/// Outcomes of the detections that have found their bug, by their place in [`DETECTIONS`].
type Outcomes = Arc<Mutex<BTreeMap<usize, Outcome>>>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let outcomes = Outcomes::default();
    let mut trials = vec![Trial::test("every_part_is_in_the_registry", every_part_is_known)];
    for (number, it) in DETECTIONS.iter().enumerate() {
        let (name, outcomes) = (entry(it.mutant).name, Arc::clone(&outcomes));
        let dies = move || dies(number, &outcomes);
        trials.push(Trial::test(format!("killed::{name}::{number}"), dies));
    }
    hush();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list && arguments.filter.is_none() {
        report(&outcomes.lock().unwrap_or_else(PoisonError::into_inner));
    }
    conclusion.exit_code()
}

/// Silences panics, which are the usual result of an injected bug; the tests report them.
fn hush() {
    std::panic::set_hook(Box::new(|_| ()));
}

/// Prints the table, or writes it to the page with `UPDATE`, and prints the number of dead mutants:
/// those that every detection of them has found.
fn report(outcomes: &BTreeMap<usize, Outcome>) {
    if outcomes.len() == DETECTIONS.len() {
        let table = page::table(&outcomes.values().cloned().collect::<Vec<_>>());
        print!("{table}");
        if std::env::var_os("UPDATE").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(page::PATH);
            let page = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, page::with_table(&page, &table).unwrap()).unwrap();
        }
    }
    let survives = |mutant: Mutant| {
        let mut all = DETECTIONS.iter().enumerate().filter(|(_, it)| it.mutant == mutant);
        all.any(|(number, _)| !outcomes.contains_key(&number))
    };
    let survived = mutants::ALL.iter().filter(|entry| survives(entry.mutant)).count();
    println!("mutants: {} killed, {survived} survived", mutants::ALL.len() - survived);
}

/// Checks that no part's test is forgotten. A name without a test fails where it is looked up.
fn every_part_is_known() -> Result<(), Failed> {
    let is_used = |name| DETECTIONS.iter().any(|it| matches!(it.by, By::Part(by) if by == name));
    let unused = PARTS.iter().find(|(name, _)| !is_used(*name));
    unused.map_or(Ok(()), |(name, _)| Err(format!("no detection is by `{name}`").into()))
}

fn search(case: &str, search: Search, injected: Option<Mutant>, executions: u64) -> Found {
    let tier = match search {
        Search::All => Tier::A,
        Search::Near { deviations } => Tier::B { deviations },
        Search::Random { seed } => Tier::C { seed },
    };
    let mut case: Case = case.parse().unwrap();
    case.inject = injected.map(|mutant| entry(mutant).name.to_owned());
    let prepared = Prepared::new(&case).expect("the design and workload are known").unwrap();
    explore(&case, &prepared, tier, Limits { executions, ..Limits::default() })
}

/// Returns the findings of a test with the bug and without it, and the number of executions.
fn found(by: By, mutant: Mutant) -> (Option<String>, Option<String>, u64) {
    match by {
        By::Case(case, tier) => {
            let Found { statistics, violation } = search(case, tier, Some(mutant), EXECUTIONS);
            let violation = violation.map(|(violation, _)| violation.to_string());
            // The same executions without the bug: it was the injected bug that was found.
            let clean = search(case, tier, None, statistics.executions).violation;
            let clean = clean.map(|(violation, trace)| format!("{violation}\n{trace}"));
            (violation, clean, statistics.executions)
        }
        By::Part(name) => {
            let part = PARTS.iter().find(|(known, _)| *known == name);
            let (_, find) = part.unwrap_or_else(|| panic!("`{name}` is not in `PARTS`"));
            (find(Some(mutant)), find(None), 1)
        }
    }
}

fn dies(number: usize, outcomes: &Outcomes) -> Result<(), Failed> {
    let Detection { mutant, by } = DETECTIONS[number];
    let (violation, clean, after) = found(by, mutant);
    if let Some(wrong) = clean {
        return Err(format!("without the bug {by} finds: {wrong}").into());
    }
    let Some(violation) = violation else {
        return Err(format!("{mutant:?} survives {after} executions of {by}").into());
    };
    if violation == seam::SKIPPED {
        return Ok(()); // without an outcome it is not counted as killed
    }
    let kind = violation.split(':').next().unwrap_or_default().to_owned();
    outcomes.lock().unwrap_or_else(PoisonError::into_inner).insert(number, (after, kind));
    Ok(())
}
