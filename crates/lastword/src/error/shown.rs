//! How an error is printed, and how it becomes an error of any kind.

use std::fmt;

use words::AnyError;

use super::Error;

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Error> for AnyError {
    fn from(error: Error) -> AnyError {
        AnyError::new(error)
    }
}
