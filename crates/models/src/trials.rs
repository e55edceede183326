//! The test programs' list of tests: models that must hold, twins that must not.

use std::any::Any;
use std::cell::Cell;
use std::panic;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};

/// A model: what it says, and what explores it (panics when it does not hold).
pub type Model = (&'static str, fn());

/// A twin: a protocol with one protection taken away.
#[derive(Clone, Copy, Debug)]
pub struct Twin {
    /// What is wrong.
    pub name: &'static str,
    /// Its number in the list of mutants, if it is in it.
    pub mutant: Option<u8>,
    /// The model that must find it.
    pub model: &'static str,
    /// What explores it.
    pub explore: fn(),
    /// A part of the message that it must end with.
    pub says: &'static str,
}

/// What has become of a twin.
struct Fate {
    twin: Twin,
    killed: bool,
    executions: u64,
}

/// Runs what the command line asks for, as `cargo test` understands it, and prints what has become
/// of the twins. One that survives is a test that fails.
pub fn run(models: &[Model], twins: &[Twin]) -> ExitCode {
    let fates = Arc::new(Mutex::new(Vec::new()));
    let holds = |&(name, explore): &Model| {
        Trial::test(name, move || {
            let started = Instant::now();
            let (outcome, executions) = explored(explore, false);
            if std::env::var_os("EXECUTIONS").is_some() {
                println!(
                    "{name}: {executions} executions, {:.1} s",
                    started.elapsed().as_secs_f64()
                );
            }
            outcome.map_err(Failed::from)
        })
    };
    let fails = |&twin: &Twin| {
        let fates = Arc::clone(&fates);
        Trial::test(format!("twins::{}", twin.name), move || {
            let (outcome, executions) = explored(twin.explore, true);
            let found = found(outcome, twin.says);
            let fate = Fate { twin, killed: found.is_ok(), executions };
            fates.lock().unwrap_or_else(PoisonError::into_inner).push(fate);
            found
        })
    };
    let trials = models.iter().map(holds).chain(twins.iter().map(fails)).collect();
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    report(&mut fates.lock().unwrap_or_else(PoisonError::into_inner));
    conclusion.exit_code()
}

/// The table: a line a twin.
fn report(fates: &mut [Fate]) {
    if fates.is_empty() {
        return;
    }
    fates.sort_by_key(|fate| (fate.twin.mutant.unwrap_or(u8::MAX), fate.twin.name));
    for Fate { twin: Twin { name, mutant, model, .. }, killed, executions } in &*fates {
        let number = mutant.map_or("-".to_owned(), |number| number.to_string());
        let fate = if *killed { "killed by" } else { "SURVIVES" };
        println!("mutant {number:>2} {name}: {fate} {model}, {executions} executions");
    }
    let killed = fates.iter().filter(|fate| fate.killed).count();
    println!("mutants: {killed} killed, {} survived", fates.len() - killed);
}

fn found(outcome: Result<(), String>, says: &str) -> Result<(), Failed> {
    match outcome {
        Ok(()) => Err("nothing was found: the model does not see this bug".into()),
        Err(message) if message.contains(says) => Ok(()),
        Err(message) => Err(format!("not the bug that was planted: {message}").into()),
    }
}

/// Counts an execution of the model that runs. Both tools run all threads of a model in the one
/// that explores it.
pub fn execution() {
    EXECUTIONS.set(EXECUTIONS.get() + 1);
}

/// Explores on a thread of its own, because the tools keep state in thread-locals; answers after
/// how many executions it ended.
fn explored(explore: fn(), quietly: bool) -> (Result<(), String>, u64) {
    hush();
    let run = move || {
        QUIET.set(quietly);
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

/// Keeps the panics that twins must end with off the terminal.
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
