//! Streams by URL.

use super::directory::DirectoryStream;
use super::{LogStream, StreamError};

const FORMS: &str = "the forms are dir:PATH";

/// Opens the stream of a URL: `dir:PATH`.
///
/// # Errors
/// [`StreamError::Refused`]: the URL has another form, or the stream does not exist.
/// [`StreamError::Unreachable`].
pub fn open(url: &str) -> Result<Box<dyn LogStream>, StreamError> {
    if let Some(path) = path(url) {
        return Ok(Box::new(DirectoryStream::open(path)?));
    }
    Err(unknown(url))
}

/// Creates an empty stream at a URL, whose forms are those of [`open`].
///
/// # Errors
/// [`StreamError::Refused`]: the URL has another form, or the stream exists.
/// [`StreamError::Unreachable`].
pub fn create(url: &str) -> Result<Box<dyn LogStream>, StreamError> {
    if let Some(path) = path(url) {
        return Ok(Box::new(DirectoryStream::create(path)?));
    }
    Err(unknown(url))
}

fn path(url: &str) -> Option<&str> {
    url.strip_prefix("dir:").filter(|path| !path.is_empty())
}

fn unknown(url: &str) -> StreamError {
    // A URL can contain a password, which begins after its scheme.
    let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
    StreamError::Refused(format!("a URL that begins with {scheme:?} names no stream: {FORMS}"))
}
