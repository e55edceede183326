//! A stream whose calls a test pauses, fails, or serves from an older copy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use replica::{LogStream, MemoryStream, ReadStream, StreamError};

/// A call, before it reaches the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// After this position.
    Append(u64),
    Bounds,
    /// The message at this position.
    Get(u64),
    /// Of a reader.
    Next,
}

type Hook = dyn Fn(Call) -> Result<(), StreamError> + Send + Sync;

/// A stream with a hook. Clones share both.
#[derive(Clone)]
pub(crate) struct HookedStream {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    stream: MemoryStream,
    /// Reads go to this older copy, as to a server that lags.
    lagging: Option<MemoryStream>,
    /// Readers get no message.
    holds_readers: bool,
    hook: Arc<Hook>,
}

impl HookedStream {
    pub(crate) fn new(stream: MemoryStream) -> HookedStream {
        let shared =
            Shared { stream, lagging: None, holds_readers: false, hook: Arc::new(|_| Ok(())) };
        HookedStream { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Runs `hook` before each call. It may block, panic, or return the call's error.
    pub(crate) fn hook(
        &self,
        hook: impl Fn(Call) -> Result<(), StreamError> + Send + Sync + 'static,
    ) {
        self.lock().hook = Arc::new(hook);
    }

    /// Removes the hook.
    pub(crate) fn unhook(&self) {
        self.hook(|_| Ok(()));
    }

    /// Keeps messages from readers, which wait for the next one, until this is called with `false`.
    pub(crate) fn hold_readers(&self, hold: bool) {
        self.lock().holds_readers = hold;
    }

    /// Serves reads from a copy that ends with the message `last`.
    pub(crate) fn lag(&self, last: u64) {
        let copy = beginning(&self.lock().stream, last);
        self.lock().lagging = Some(copy);
    }

    /// Serves reads from the stream again.
    pub(crate) fn catch_up(&self) {
        self.lock().lagging = None;
    }

    pub(crate) fn is_lagging(&self) -> bool {
        self.lock().lagging.is_some()
    }

    /// Loses the messages after `last`. Returns the stream without them.
    pub(crate) fn lose_after(&self, last: u64) -> MemoryStream {
        let mut shared = self.lock();
        shared.stream = beginning(&shared.stream, last);
        shared.stream.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the stream for a call, after its hook.
    fn begin(&self, call: Call) -> Result<MemoryStream, StreamError> {
        // Not under the lock: a hook that blocks holds up no other call.
        let hook = Arc::clone(&self.lock().hook);
        hook(call)?;
        let shared = self.lock();
        let lagging = shared.lagging.as_ref().filter(|_| !matches!(call, Call::Append(_)));
        Ok(lagging.unwrap_or(&shared.stream).clone())
    }
}

/// Returns a stream with the first messages of another one.
fn beginning(stream: &MemoryStream, last: u64) -> MemoryStream {
    let copy = MemoryStream::with_message_bytes(stream.message_bytes_max());
    for at in 1..=last {
        copy.append(at - 1, &stream.get(at).unwrap().unwrap()).unwrap();
    }
    copy
}

impl LogStream for HookedStream {
    fn append(&self, after: u64, message: &[u8]) -> Result<u64, StreamError> {
        self.begin(Call::Append(after))?.append(after, message)
    }

    fn bounds(&self) -> Result<(u64, u64), StreamError> {
        self.begin(Call::Bounds)?.bounds()
    }

    fn get(&self, position: u64) -> Result<Option<Vec<u8>>, StreamError> {
        self.begin(Call::Get(position))?.get(position)
    }

    fn read_from(&self, after: u64) -> Result<Box<dyn ReadStream>, StreamError> {
        // As `read_from` of the stream: it may be trimmed there.
        drop(self.lock().stream.read_from(after)?);
        Ok(Box::new(Reader { stream: self.clone(), after }))
    }

    fn message_bytes_max(&self) -> usize {
        self.lock().stream.message_bytes_max()
    }

    fn warnings(&self) -> Result<Vec<String>, StreamError> {
        Ok(Vec::new())
    }
}

struct Reader {
    stream: HookedStream,
    after: u64,
}

impl ReadStream for Reader {
    fn next(&mut self, patience: Duration) -> Result<Option<(u64, Vec<u8>)>, StreamError> {
        let stream = self.stream.begin(Call::Next)?;
        if self.stream.lock().holds_readers {
            std::thread::sleep(patience.min(Duration::from_millis(1)));
            return Ok(None);
        }
        let next = stream.read_from(self.after)?.next(patience)?;
        self.after += u64::from(next.is_some());
        Ok(next)
    }
}
