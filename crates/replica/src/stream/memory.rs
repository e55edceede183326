//! A stream in the memory of one process, for tests and benchmarks.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{LogStream, ReadStream, StreamError};

/// A stream in memory. Clones share it. It survives no crash.
#[derive(Clone, Debug)]
pub struct MemoryStream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    messages: Mutex<Messages>,
    appended: Condvar,
    message_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Messages {
    trimmed: u64,
    kept: VecDeque<Vec<u8>>,
}

impl Messages {
    fn last(&self) -> u64 {
        self.trimmed + self.kept.len() as u64
    }

    fn get(&self, position: u64) -> Result<Option<&Vec<u8>>, StreamError> {
        let index = position.checked_sub(self.trimmed + 1);
        let index = index.ok_or(StreamError::Trimmed { position, first: self.trimmed + 1 })?;
        Ok(self.kept.get(index as usize))
    }
}

impl Default for MemoryStream {
    fn default() -> MemoryStream {
        MemoryStream::with_message_bytes(1 << 20)
    }
}

impl MemoryStream {
    /// Creates an empty stream that takes messages of at most 1 MiB.
    pub fn new() -> MemoryStream {
        MemoryStream::default()
    }

    /// Creates an empty stream that takes messages of at most `message_bytes_max` bytes.
    pub fn with_message_bytes(message_bytes_max: usize) -> MemoryStream {
        let (messages, appended) = (Mutex::default(), Condvar::new());
        MemoryStream { shared: Arc::new(Shared { messages, appended, message_bytes_max }) }
    }

    /// Trims all messages before this position, and keeps the last one.
    pub fn trim(&self, first: u64) {
        let mut messages = self.lock();
        while messages.kept.len() > 1 && messages.trimmed + 1 < first {
            messages.kept.pop_front();
            messages.trimmed += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        // No call leaves the messages half changed.
        self.shared.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogStream for MemoryStream {
    fn append(&self, after: u64, message: &[u8]) -> Result<u64, StreamError> {
        let (bytes, bytes_max) = (message.len(), self.shared.message_bytes_max);
        if bytes > bytes_max {
            return Err(StreamError::TooLarge { bytes, bytes_max });
        }
        let mut messages = self.lock();
        if messages.last() != after {
            return Err(StreamError::Conflict { after });
        }
        messages.kept.push_back(message.to_vec());
        drop(messages);
        self.shared.appended.notify_all();
        Ok(after + 1)
    }

    fn bounds(&self) -> Result<(u64, u64), StreamError> {
        let messages = self.lock();
        Ok((messages.trimmed + 1, messages.last()))
    }

    fn get(&self, position: u64) -> Result<Option<Vec<u8>>, StreamError> {
        Ok(self.lock().get(position)?.cloned())
    }

    fn read_from(&self, after: u64) -> Result<Box<dyn ReadStream>, StreamError> {
        self.lock().get(after + 1)?;
        Ok(Box::new(Reader { stream: self.clone(), after }))
    }

    fn message_bytes_max(&self) -> usize {
        self.shared.message_bytes_max
    }

    fn warnings(&self) -> Result<Vec<String>, StreamError> {
        Ok(vec!["the stream is in the memory of one process: it does not survive its end".into()])
    }
}

struct Reader {
    stream: MemoryStream,
    after: u64,
}

impl ReadStream for Reader {
    fn next(&mut self, patience: Duration) -> Result<Option<(u64, Vec<u8>)>, StreamError> {
        let begun = Instant::now();
        let mut messages = self.stream.lock();
        loop {
            if let Some(message) = messages.get(self.after + 1)? {
                self.after += 1;
                return Ok(Some((self.after, message.clone())));
            }
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.stream.shared.appended.wait_timeout(messages, left);
            messages = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
