//! Errors of the engine as exceptions.
//!
//! The classes are in `lastword/errors.py`, since each has an exception of Python as second base.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lastword::{Error, MediumError, NamedError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The reason why a call failed, until the thread is attached to the interpreter again.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the engine.
    Engine(Error),
    /// A class of `lastword/errors.py`, and the message.
    Class(&'static str, String),
    /// An error of the engine about a path.
    At(Error, PathBuf),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Engine(error) => raise_about(&error, None),
            Failure::Class(name, message) => raise(name, message),
            Failure::At(error, path) => raise_about(&error, Some(&path)),
        }
    }
}

impl Failure {
    /// The transaction met a conflict and had no effect.
    pub(crate) fn conflict() -> Failure {
        let message = "the transaction met a conflict with another one and had no effect: run it \
                       again, or use `pool.run`, which does";
        Failure::Class("Conflict", message.to_owned())
    }

    /// A call on a pool that this process has closed.
    pub(crate) fn closed(call: &str) -> Failure {
        Failure::Class("Closed", format!("cannot call `{call}`: the pool is closed"))
    }

    /// Adds the path of the pool, for the exception's `filename`.
    pub(crate) fn at(self, path: &Path) -> Failure {
        match self {
            Failure::Engine(error) => Failure::At(error, path.to_owned()),
            failure => failure,
        }
    }

    /// A call on a pool after a close that has failed since the pool was in use.
    pub(crate) fn closing(call: &str) -> Failure {
        let message = format!(
            "cannot call `{call}`: the pool is closing, and an earlier call of `close` found it in \
             use; call `close` again"
        );
        Failure::Class("Closed", message)
    }

    /// A close of a pool in use.
    pub(crate) fn still_used(waited: Duration) -> Failure {
        let message = format!(
            "cannot close the pool: transactions or other calls have not ended in {waited:?}; no \
             others begin; end these, then call `close` again"
        );
        Failure::Class("InUse", message)
    }

    /// A call on a view that is closed.
    pub(crate) fn view_closed() -> Failure {
        Failure::Class("Closed", "the view is closed".to_owned())
    }

    /// A call in a forked child.
    pub(crate) fn forked(call: &'static str) -> Failure {
        Failure::Engine(Error::Forked { call })
    }
}

/// Returns an exception of a class of `lastword/errors.py`.
pub(crate) fn raise(class: &str, message: String) -> PyErr {
    make(class, message, errno(class), None)
}

/// Returns the exception of an error of the engine.
fn raise_about(error: &Error, path: Option<&Path>) -> PyErr {
    let class = class(error);
    let errno = match error {
        Error::Medium(error) => refused_with(error).or_else(|| errno(class)),
        _ => errno(class),
    };
    make(class, error.to_string(), errno, path)
}

/// Makes an exception. One with an error number is an `OSError`.
fn make(class: &str, message: String, errno: Option<i32>, path: Option<&Path>) -> PyErr {
    Python::attach(|py| {
        let made = py.import("lastword.errors").and_then(|module| {
            let class = module.getattr(class)?;
            match (errno, path) {
                (None, _) => class.call1((&message,)),
                (Some(errno), None) => class.call1((errno, &message)),
                (Some(errno), Some(path)) => class.call1((errno, &message, path.to_string_lossy())),
            }
        });
        match made {
            Ok(exception) => PyErr::from_value(exception),
            // The interpreter is shutting down.
            Err(_) => PyRuntimeError::new_err(message),
        }
    })
}

/// Returns the error number of the classes that are an `OSError`.
fn errno(class: &str) -> Option<i32> {
    Some(match class {
        "NotFound" => ENOENT,
        "Exists" => EEXIST,
        "InUse" => EBUSY,
        "Full" => ENOSPC,
        "HeldUp" | "Timeout" => ETIMEDOUT,
        "Damaged" | "IOFailure" | "Poisoned" | "FileLost" => EIO,
        _ => return None,
    })
}

// Linux's, on every architecture that Rust supports but MIPS and SPARC.
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;
const ETIMEDOUT: i32 = 110;

/// Returns the system's error number.
fn refused_with(error: &MediumError) -> Option<i32> {
    match error {
        MediumError::Io { source, .. }
        | MediumError::Transfer { source, .. }
        | MediumError::NoDax { source, .. }
        | MediumError::NoLocks { source, .. }
        | MediumError::Kept { source, .. } => source.raw_os_error(),
        MediumError::NoSpace { .. } | MediumError::Unallocated { .. } => Some(ENOSPC),
        _ => None,
    }
}

/// Returns the class of an error.
fn class(error: &Error) -> &'static str {
    match error {
        Error::Medium(error) => of_medium(error),
        Error::Full { .. } | Error::NoGrowth { .. } | Error::ViewLimit { .. } => "Full",
        Error::Named(NamedError::OtherTypes { .. }) => "WrongType",
        Error::Named(_) | Error::Layout { .. } | Error::WrongMedium { .. } => "Mismatch",
        Error::FormatVersion { .. }
        | Error::UnknownDesign { .. }
        | Error::UnknownMedium { .. }
        | Error::OtherShadow { .. } => "Mismatch",
        Error::NotAPool { .. }
        | Error::Contradiction { .. }
        | Error::Truncated { .. }
        | Error::TooLong { .. }
        | Error::BadAreas { .. }
        | Error::OnlyLog { .. }
        | Error::LogMissing { .. }
        | Error::WrongLog { .. }
        | Error::DamagedLog { .. }
        | Error::DamagedHeap { .. }
        | Error::BadValue
        | Error::BadPointer { .. } => "Damaged",
        Error::BadOption { .. } | Error::BadSize => "BadOption",
        Error::TransactionTooLarge { .. }
        | Error::SlotTooSmall { .. }
        | Error::CopiesTooSmall { .. }
        | Error::ShadowTooSmall { .. } => "TooLarge",
        Error::ReadOnly => "ReadOnly",
        Error::InsideTransaction { .. } => "Nested",
        Error::Poisoned { .. } | Error::StepPanicked { .. } => "Poisoned",
        Error::HeldUp { .. } | Error::StarvationLockHeld { .. } | Error::Blocked { .. } => "HeldUp",
        Error::TooManyWorkers { .. } => "TooManyThreads",
        Error::NameLost { .. } | Error::Cut { .. } => "FileLost",
        Error::InUse(_) | Error::StillUsed(_) => "InUse",
        Error::Closed { .. } => "Closed",
        Error::Forked { .. } => "Forked",
        _ => "Error",
    }
}

fn of_medium(error: &MediumError) -> &'static str {
    match error {
        MediumError::InUse { .. } => "InUse",
        MediumError::AlreadyExists { .. } => "Exists",
        MediumError::NotFound { .. } | MediumError::NoDirectory { .. } => "NotFound",
        MediumError::Truncated { .. }
        | MediumError::BadArea { .. }
        | MediumError::DamagedPages { .. }
        | MediumError::OutOfHeap { .. }
        | MediumError::TornBatch { .. }
        | MediumError::OutOfLog { .. } => "Damaged",
        _ => "IOFailure",
    }
}
