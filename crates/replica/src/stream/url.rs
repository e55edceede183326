//! Streams by URL.

use super::directory::DirectoryStream;
#[cfg(feature = "nats")]
use super::jetstream::{self, JetStream};
use super::{LogStream, StreamError};

/// Opens the stream of a URL:
///
/// - `dir:PATH`;
/// - `nats://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/STREAM`, with the feature `nats`. User
///   and password are taken literally. `?replicas=N` sets the copies of a stream that is created.
///   `?monitor=HOST:PORT,...` names monitoring ports, which show more settings to
///   [`LogStream::warnings`].
///
/// # Errors
/// [`StreamError::Refused`]: the URL has another form, or the stream does not exist.
/// [`StreamError::Unreachable`].
pub fn open(url: &str) -> Result<Box<dyn LogStream>, StreamError> {
    if let Some(path) = path(url) {
        return Ok(Box::new(DirectoryStream::open(path)?));
    }
    #[cfg(feature = "nats")]
    if url.starts_with("nats:") {
        return Ok(Box::new(JetStream::open(url)?));
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
    #[cfg(feature = "nats")]
    if url.starts_with("nats:") {
        return Ok(Box::new(JetStream::create(url)?));
    }
    Err(unknown(url))
}

fn path(url: &str) -> Option<&str> {
    url.strip_prefix("dir:").filter(|path| !path.is_empty())
}

fn unknown(url: &str) -> StreamError {
    #[cfg(feature = "nats")]
    let nats = jetstream::address::FORM;
    #[cfg(not(feature = "nats"))]
    let nats = "no other: this program was built without the feature `nats`";
    // A URL can contain a password, which comes after its scheme.
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    StreamError::Refused(format!(
        "a URL that begins with {scheme:?} names no stream: the forms are dir:PATH and {nats}"
    ))
}
