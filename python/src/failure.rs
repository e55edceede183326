//! Errors of the engine as exceptions.
//!
//! The classes are in `lastword/errors.py`, since each has an exception of Python as second base.

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
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Engine(error) => raise(class(&error), error.to_string()),
            Failure::Class(name, message) => raise(name, message),
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

    /// A call in a forked child.
    pub(crate) fn forked(call: &'static str) -> Failure {
        Failure::Engine(Error::Forked { call })
    }
}

/// Returns an exception of a class of `lastword/errors.py`.
pub(crate) fn raise(class: &str, message: String) -> PyErr {
    Python::attach(|py| {
        let made = py
            .import("lastword.errors")
            .and_then(|module| module.getattr(class))
            .and_then(|class| class.call1((&message,)));
        match made {
            Ok(exception) => PyErr::from_value(exception),
            // The interpreter is shutting down.
            Err(_) => PyRuntimeError::new_err(message),
        }
    })
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
