//! Signals that end the program: they end every command alike.
//!
//! Ctrl-C, a closed terminal and `kill` end a command by SIGINT, SIGQUIT, SIGHUP or SIGTERM. The
//! program ends its writers (`demo`, `crash kill`), removes its temporary pools, and then dies by
//! the same signal, as it would without a handler. So its exit status is 128 and the signal's
//! number in a shell (130, 131, 129, 143), whether the command has temporary pools or not, and a
//! script that is interrupted stops.
//!
//! The first process of a container cannot die by such a signal: the kernel drops it. There the
//! program exits with the same number.
//!
//! Pools are open when their files are removed, and a running transaction may notice the removal.
//! Its error is not printed: the ending of the program is no failure ([`wait_if_ending`]).
//!
//! A signal that the parent ignores (`nohup`, a background job of a script) stays ignored.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::kill_round::kill_writers_and;
use crate::temporary;

/// Signals that end the program.
const ENDING: [c_int; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Installs the handlers.
///
/// A thread that cannot be started (a process limit) is no error. Without handlers a signal still
/// ends the program with the same status, and temporary pools are left to the next run.
pub(crate) fn handle() {
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let (ready, is_ready) = channel::<()>();
    // The thread itself installs the handlers. If it had no process slot, installed handlers would
    // swallow the signals.
    let handler = move || -> io::Result<()> {
        let chosen = ENDING.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut signals = Signals::new(chosen)?;
        drop(ready);
        signals.forever().for_each(end);
        Ok(())
    };
    if thread::Builder::new().name("signals".into()).spawn(handler).is_ok() {
        // Wait for the handlers: all are installed before the first file is created.
        let _ = is_ready.recv();
    }
}

/// Returns the set of signals that the process inherited as ignored, one bit each, from
/// `/proc/self/status`; empty where it is missing.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or_default()
}

/// Set before the first file is removed, so an error that a removal causes comes after it.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

fn end(signal: c_int) {
    IS_ENDING.store(true, Ordering::SeqCst);
    // A writer that runs has a pool open, and would report the removal of its files.
    kill_writers_and(|| {
        temporary::remove_all_and(|| {
            if std::process::id() != 1 {
                // Dies here. An error means that the signal's default action ends no process.
                let _ = emulate_default_handler(signal);
            }
            std::process::exit(128 + signal)
        });
    });
}

/// Waits for the program's end, once a signal ends it.
pub(crate) fn wait_if_ending() {
    while IS_ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_status() {
        let status = "Name:\tlastword\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001006\n";
        // SIGINT, SIGQUIT and SIGPIPE: a background job of a script.
        let expected = [SIGINT, SIGQUIT, 13].iter().fold(0, |set, signal| set | 1 << (signal - 1));
        assert_eq!(ignored(status), expected);
        assert_eq!((ignored(""), ignored("SigIgn:\tx")), (0, 0));
    }
}
