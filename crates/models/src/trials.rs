//! The test programs' list of tests: models that must hold, twins that must not.

use std::any::Any;
use std::cell::Cell;
use std::panic;
use std::process::ExitCode;
use std::sync::Once;
use std::thread;

use libtest_mimic::{Arguments, Failed, Trial};

/// A model: what it says, and what explores it (panics when it does not hold).
pub type Model = (&'static str, fn());

/// A twin: its name, what explores it, and a part of the message that it must end with.
pub type Twin = (&'static str, fn(), &'static str);

/// Runs what the command line asks for, as `cargo test` understands it.
pub fn run(models: &[Model], twins: &[Twin]) -> ExitCode {
    let holds = |&(name, explore): &Model| {
        Trial::test(name, move || explored(explore, false).map_err(Failed::from))
    };
    let fails = |&(name, explore, says): &Twin| {
        Trial::test(format!("twins::{name}"), move || found(explore, says))
    };
    let trials = models.iter().map(holds).chain(twins.iter().map(fails)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn found(explore: fn(), says: &str) -> Result<(), Failed> {
    match explored(explore, true) {
        Ok(()) => Err("nothing was found: the model does not see this bug".into()),
        Err(message) if message.contains(says) => Ok(()),
        Err(message) => Err(format!("not the bug that was planted: {message}").into()),
    }
}

/// Explores on a thread of its own, because the tools keep state in thread-locals.
fn explored(explore: fn(), quietly: bool) -> Result<(), String> {
    hush();
    let run = move || {
        QUIET.set(quietly);
        panic::catch_unwind(explore).map_err(|panic| message(&*panic))
    };
    thread::spawn(run).join().unwrap_or_else(|panic| Err(message(&*panic)))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
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
