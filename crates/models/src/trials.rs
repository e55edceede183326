//! The harness of the test programs: models must hold, and mutants must fail.

use std::any::Any;
use std::cell::Cell;
use std::panic;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;
use std::time::Instant;

pub use faults::mutants::Mutant;
use faults::mutants::{Entry, entry, inject};
use libtest_mimic::{Arguments, Failed};

use crate::page;

/// A model: its name, and the function that explores it, which panics when the model does not hold.
pub type Model = (&'static str, fn());

/// A trial of a mutant: an injected bug, and the model that must detect it.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The bug.
    pub mutant: Mutant,
    /// The name of the model.
    pub model: &'static str,
    /// The function that explores it.
    pub explore: fn(),
    /// A part of the message with which the model must fail.
    pub says: &'static str,
}

/// The trials of mutants. A row is a model, a part of the message with which it must fail, and the
/// mutants that it must detect.
#[macro_export]
macro_rules! trials {
    ($($file:ident::$model:ident, $says:literal: $($mutant:ident),+;)*) => {
        &[$($($crate::trials::Trial {
            mutant: $crate::trials::Mutant::$mutant,
            model: concat!(stringify!($file), "::", stringify!($model)),
            explore: $file::$model,
            says: $says,
        },)+)*]
    };
}

/// The result for a mutant.
struct Fate {
    trial: Trial,
    killed: bool,
    executions: u64,
}

/// Runs the tests of a tool that the command line selects, with the options of `cargo test`, and
/// prints a table of the mutants. A mutant that survives is a failed test.
pub fn run(tool: &'static str, models: &[Model], trials: &'static [Trial]) -> ExitCode {
    let fates = Arc::new(Mutex::new(Vec::new()));
    let holds = |&(name, explore): &Model| {
        libtest_mimic::Trial::test(name, move || {
            let started = Instant::now();
            let (outcome, executions) = explored(explore, None);
            if std::env::var_os("EXECUTIONS").is_some() {
                println!(
                    "{name}: {executions} executions, {:.1} s",
                    started.elapsed().as_secs_f64()
                );
            }
            outcome.map_err(Failed::from)
        })
    };
    let fails = |&trial: &Trial| {
        let fates = Arc::clone(&fates);
        let name = format!("mutants::{}::{}", entry(trial.mutant).name, trial.model);
        libtest_mimic::Trial::test(name, move || {
            let (outcome, executions) = explored(trial.explore, Some(trial.mutant));
            let found = found(outcome, trial.says);
            let fate = Fate { trial, killed: found.is_ok(), executions };
            fates.lock().unwrap_or_else(PoisonError::into_inner).push(fate);
            found
        })
    };
    let row = |trial: &Trial| {
        let bug = entry(trial.mutant);
        (bug.number, bug.name, trial.model)
    };
    let page = move || page::is_current(tool, trials.iter().map(row).collect());
    let page = libtest_mimic::Trial::test("page_of_mutants_is_current", page);
    let tests = models.iter().map(holds).chain(trials.iter().map(fails)).chain([page]).collect();
    let mut arguments = Arguments::from_args();
    if tool == "loom" {
        // Each of its executions maps and unmaps the stacks of its threads, and each unmap
        // interrupts the other cores: two threads take longer than one, and twice as much processor
        // time.
        arguments.test_threads.get_or_insert(1);
    }
    let conclusion = libtest_mimic::run(&arguments, tests);
    report(&mut fates.lock().unwrap_or_else(PoisonError::into_inner));
    conclusion.exit_code()
}

/// Prints the table, with a line per mutant.
fn report(fates: &mut [Fate]) {
    if fates.is_empty() {
        return;
    }
    fates.sort_by_key(|Fate { trial, .. }| (entry(trial.mutant).number, trial.model));
    for Fate { trial: Trial { mutant, model, .. }, killed, executions } in &*fates {
        let Entry { number, name, .. } = entry(*mutant);
        let fate = if *killed { "killed by" } else { "SURVIVES" };
        println!("mutant {number:>3} {name}: {fate} {model}, {executions} executions");
    }
    let killed = fates.iter().filter(|fate| fate.killed).count();
    println!("mutants: {killed} killed, {} survived", fates.len() - killed);
}

fn found(outcome: Result<(), String>, says: &str) -> Result<(), Failed> {
    match outcome {
        Ok(()) => Err("the model passed: it does not detect this mutant".into()),
        Err(message) if message.contains(says) => Ok(()),
        Err(message) => Err(format!("the model failed in another way: {message}").into()),
    }
}

/// Counts an execution of the current model. Both tools run all threads of a model on the thread
/// that explores it, so a thread-local counter suffices.
pub fn execution() {
    EXECUTIONS.set(EXECUTIONS.get() + 1);
}

/// Explores on a thread of its own, because the tools keep state in thread-locals, and so do the
/// injected bugs. Returns the result and the number of executions.
fn explored(explore: fn(), mutant: Option<Mutant>) -> (Result<(), String>, u64) {
    hush();
    let run = move || {
        QUIET.set(mutant.is_some());
        let _bug = inject(mutant);
        let outcome = panic::catch_unwind(explore).map_err(|panic| message(&*panic));
        (outcome, EXECUTIONS.get())
    };
    thread::spawn(run).join().unwrap_or_else(|panic| (Err(message(&*panic)), 0))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static EXECUTIONS: Cell<u64> = const { Cell::new(0) };
}

/// Keeps the expected panics of mutants off the terminal.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use faults::mutants::BETWEEN_THREADS;

    #[test]
    fn every_mutant_between_threads_has_a_trial() {
        let tables =
            [include_str!("../tests/loom/trials.rs"), include_str!("../tests/shuttle/trials.rs")];
        let has_trial = |mutant: &Mutant| {
            let name = format!("{mutant:?}");
            let mut words = tables.iter().flat_map(|table| table.split([' ', ',', ';', '\n']));
            words.any(|word| word == name)
        };
        let untried: Vec<_> = BETWEEN_THREADS
            .iter()
            .map(|bug| bug.mutant)
            .filter(|mutant| !has_trial(mutant))
            .collect();
        assert!(untried.is_empty(), "no model must detect {untried:?}");
    }
}
