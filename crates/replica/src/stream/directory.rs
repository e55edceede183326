//! A stream in a directory, one file a message: for tests, and for copies without a network.
//!
//! ```text
//!   stream                   the head: identity of the stream, first position that is kept
//!   00000000000000000041     message 41, in the format of `file`
//!   00000000000000000042
//!   .append-43-9f3c...       message 43 until it is complete
//!   lock                     held while messages are trimmed
//! ```
//!
//! Any number of handles and processes may use the directory, also over NFS. `rsync` may copy it at
//! any time: a copy that lacks later messages is an earlier state of the stream.
//!
//! An append writes a temporary file, makes it durable, and gives it the name of its position. That
//! fails if the name is taken. Appends take no lock, so a stopped process never holds up another.
//!
//! Invariants:
//! - A name that is a position has a complete message, and only trimming removes it.
//! - A call reports a message only after the directory with its name is durable. A follower could
//!   otherwise apply a message that a power failure then removes.
//! - A position below the head's first one is trimmed, whether its file is there or not. The head
//!   is durable before a file is removed.
//! - An append reads the head after its message has got the name. A slow append could otherwise
//!   reuse the name of a message that was appended *and* trimmed meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;

use self::file::{Broken, Head};
use super::{LogStream, ReadStream, StreamError};

pub mod file;

/// Largest message, in bytes: the default limit of a NATS server, so that messages can be moved.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Polling interval of the directory: NFS does not notify of changes.
const POLL: Duration = Duration::from_millis(5);

const HEAD: &str = "stream";
const LOCK: &str = "lock";
const TEMPORARY: &str = ".append-";

/// A stream in a directory. Clones share a handle.
#[derive(Clone, Debug)]
pub struct DirectoryStream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    identity: u64,
    /// A position that the stream has durably reached: the search for the last one begins here.
    reached: AtomicU64,
}

impl DirectoryStream {
    /// Creates an empty stream in a directory, which is created if it is missing.
    ///
    /// # Errors
    /// [`StreamError::Refused`]: the directory has files already, or cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<DirectoryStream, StreamError> {
        let path = path.as_ref();
        fs::create_dir_all(path).map_err(|error| failed("create", path, &error))?;
        let mut entries = fs::read_dir(path).map_err(|error| failed("read", path, &error))?;
        if entries.next().is_some() {
            let why = format!("{} has files already: name an empty directory", path.display());
            return Err(StreamError::Refused(why));
        }
        let identity = file::random();
        put_head(path, Head { identity, first: 1 }, Name::IsFree)?;
        Ok(DirectoryStream::of(path, identity, 0))
    }

    /// Opens the stream of a directory.
    ///
    /// # Errors
    /// [`StreamError::Refused`]: the directory is missing, has no stream, or cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<DirectoryStream, StreamError> {
        let path = path.as_ref();
        let head = read_head(path)?;
        let stream = DirectoryStream::of(path, head.identity, 0);
        stream.clean(head)?;
        Ok(stream)
    }

    fn of(path: &Path, identity: u64, reached: u64) -> DirectoryStream {
        let (path, reached) = (path.to_owned(), AtomicU64::new(reached));
        DirectoryStream { shared: Arc::new(Shared { path, identity, reached }) }
    }

    /// Trims all messages before this position, and keeps the last one.
    ///
    /// # Errors
    /// [`StreamError::Unreachable`]: another process trims. [`StreamError::Refused`].
    pub fn trim(&self, first: u64) -> Result<(), StreamError> {
        let path = self.path().join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(|error| failed("open", &path, &error))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => (),
            Err(Errno::WOULDBLOCK) => {
                let why = format!("another process trims {}", self.path().display());
                return Err(StreamError::Unreachable(why));
            }
            Err(errno) => return Err(failed("lock", &path, &errno.into())),
        }
        let head = self.head()?;
        let first = first.min(self.last(head)?).max(head.first);
        if first > head.first {
            put_head(self.path(), Head { first, ..head }, Name::IsReplaced)?;
        }
        // Files that an earlier trimming has left behind are removed, too.
        for position in self.positions()?.into_iter().filter(|position| *position < first) {
            remove(&self.file(position))?;
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.shared.path
    }

    fn reached(&self) -> u64 {
        self.shared.reached.load(Ordering::Relaxed)
    }

    fn file(&self, position: u64) -> PathBuf {
        self.path().join(format!("{position:020}"))
    }

    fn head(&self) -> Result<Head, StreamError> {
        let head = read_head(self.path())?;
        if head.identity != self.shared.identity {
            let why = format!("{} has another stream than before", self.path().display());
            return Err(StreamError::Refused(format!("{why}: open it again")));
        }
        Ok(head)
    }

    fn exists(&self, position: u64) -> Result<bool, StreamError> {
        let path = self.file(position);
        match fs::symlink_metadata(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("look up", &path, &error)),
        }
    }

    /// Returns the last position of the dense run that begins with the first one.
    fn last(&self, head: Head) -> Result<u64, StreamError> {
        // The last message is never trimmed, so the stream has reached the head's first position;
        // an empty stream has not.
        let reached = self.reached();
        let mut last = reached.max(head.first - 1);
        while self.exists(last + 1)? {
            last += 1;
        }
        if last > reached {
            match sync_directory(self.path()) {
                // A copy that cannot be written loses no name.
                Err(error) if error.kind() != ErrorKind::ReadOnlyFilesystem => {
                    return Err(failed("sync", self.path(), &error));
                }
                _ => self.shared.reached.fetch_max(last, Ordering::Relaxed),
            };
        }
        Ok(last)
    }

    /// Removes the temporary files of appends that have failed or died.
    fn clean(&self, head: Head) -> Result<(), StreamError> {
        let last = self.last(head)?;
        for name in self.names()? {
            // An append whose position is taken has failed, or has its name.
            let position = name.strip_prefix(TEMPORARY).and_then(|rest| rest.split_once('-'));
            let position = position.and_then(|(position, _)| position.parse::<u64>().ok());
            if position.is_some_and(|position| position <= last) {
                // A copy may be read-only, and needs no cleaning.
                let _ = fs::remove_file(self.path().join(name));
            }
        }
        Ok(())
    }

    /// Returns the positions that have files, in order.
    fn positions(&self) -> Result<Vec<u64>, StreamError> {
        let names = self.names()?;
        let of_messages = names.iter().filter(|name| name.len() == 20);
        let mut positions: Vec<u64> = of_messages.filter_map(|name| name.parse().ok()).collect();
        positions.sort_unstable();
        Ok(positions)
    }

    fn names(&self) -> Result<Vec<String>, StreamError> {
        let error = |error| failed("read", self.path(), &error);
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path()).map_err(error)? {
            names.extend(entry.map_err(error)?.file_name().into_string());
        }
        Ok(names)
    }

    /// Gives a durable message the name of its position. Returns whether the name was free.
    fn publish(&self, temporary: &Path, position: u64) -> io::Result<bool> {
        match give_name(temporary, &self.file(position)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl LogStream for DirectoryStream {
    fn append(&self, after: u64, message: &[u8]) -> Result<u64, StreamError> {
        let (bytes, bytes_max) = (message.len(), MESSAGE_BYTES_MAX);
        if bytes > bytes_max {
            return Err(StreamError::TooLarge { bytes, bytes_max });
        }
        let position = after + 1;
        let follows_last = after == 0 || self.exists(after)?;
        if self.head()?.first > position || !follows_last || self.exists(position)? {
            return Err(StreamError::Conflict { after });
        }
        let name = format!("{TEMPORARY}{position}-{:016x}", file::random());
        let temporary = self.path().join(name);
        let header = file::header(self.shared.identity, position, message);
        let unknown = |why: String| StreamError::Unknown { after, why };
        let published = write_durable(&temporary, &[&header, message])
            .map_err(|error| failed("write", &temporary, &error))
            .and_then(|()| match self.publish(&temporary, position) {
                Ok(true) => Ok(()),
                Ok(false) => Err(StreamError::Conflict { after }),
                Err(error) if is_refusal(&error) => Err(failed("name", &temporary, &error)),
                // The name may be there: the reply of an NFS server can be lost, and `clean`
                // removes a temporary file whose position is taken, perhaps by this very message.
                Err(error) => Err(unknown(error.to_string())),
            });
        if published.is_err() {
            let _ = fs::remove_file(&temporary); // Best effort: `clean` removes it otherwise.
        }
        published?;
        sync_directory(self.path()).map_err(|error| unknown(error.to_string()))?;
        // See the module doc. `get` reports such a message as trimmed.
        if self.head().map_err(|error| unknown(error.to_string()))?.first > position {
            return Err(unknown("messages were trimmed beyond it meanwhile".to_owned()));
        }
        self.shared.reached.fetch_max(position, Ordering::Relaxed);
        Ok(position)
    }

    fn bounds(&self) -> Result<(u64, u64), StreamError> {
        let head = self.head()?;
        Ok((head.first, self.last(head)?))
    }

    fn get(&self, position: u64) -> Result<Option<Vec<u8>>, StreamError> {
        let path = self.file(position);
        let reached = self.reached();
        let read = match fs::read(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read", &path, &error)),
        };
        // The head is read after the file, so that the file was not trimmed when it was read.
        let head = self.head()?;
        let first = head.first;
        if position < first {
            return Err(StreamError::Trimmed { position, first });
        }
        let Some(bytes) = read else {
            if position <= reached {
                let why = format!("{} is missing: copy it again", path.display());
                return Err(StreamError::Refused(why));
            }
            return Ok(None);
        };
        // A copy that is not complete may have a gap before this message.
        if position > reached && position > self.last(head)? {
            return Ok(None);
        }
        match file::message(self.shared.identity, position, bytes) {
            Ok(message) => Ok(Some(message)),
            Err(Broken::Short) => Err(StreamError::Unreachable(format!(
                "{} ends too early: its copy is not complete",
                path.display()
            ))),
            Err(Broken::Damaged(why)) => Err(StreamError::Refused(format!(
                "{} is damaged: {why}; copy it again",
                path.display()
            ))),
        }
    }

    fn read_from(&self, after: u64) -> Result<Box<dyn ReadStream>, StreamError> {
        let first = self.head()?.first;
        let position = after + 1;
        if position < first {
            return Err(StreamError::Trimmed { position, first });
        }
        Ok(Box::new(Reader { stream: self.clone(), after }))
    }

    fn message_bytes_max(&self) -> usize {
        MESSAGE_BYTES_MAX
    }

    fn warnings(&self) -> Result<Vec<String>, StreamError> {
        Ok(vec![format!(
            "the stream is in the one directory {}: it is lost with its disk",
            self.path().display()
        )])
    }
}

struct Reader {
    stream: DirectoryStream,
    after: u64,
}

impl ReadStream for Reader {
    fn next(&mut self, patience: Duration) -> Result<Option<(u64, Vec<u8>)>, StreamError> {
        let begun = Instant::now();
        loop {
            if let Some(message) = self.stream.get(self.after + 1)? {
                self.after += 1;
                return Ok(Some((self.after, message)));
            }
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(left.min(POLL));
        }
    }
}

/// Whether a file's new name may be in use.
enum Name {
    IsFree,
    IsReplaced,
}

fn read_head(path: &Path) -> Result<Head, StreamError> {
    let name = path.join(HEAD);
    let bytes = match fs::read(&name) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let why = format!("{} has no stream: name its directory, or create it", path.display());
            return Err(StreamError::Refused(why));
        }
        read => read.map_err(|error| failed("read", &name, &error))?,
    };
    file::head(&bytes).map_err(|why| {
        StreamError::Refused(format!("{} is no head of a stream: {why}", name.display()))
    })
}

fn put_head(path: &Path, head: Head, name: Name) -> Result<(), StreamError> {
    let temporary = path.join(format!("{TEMPORARY}head-{:016x}", file::random()));
    let put = write_durable(&temporary, &[&file::head_bytes(head)]).and_then(|()| match name {
        Name::IsFree => give_name(&temporary, &path.join(HEAD)),
        Name::IsReplaced => fs::rename(&temporary, path.join(HEAD)),
    });
    if put.is_err() {
        let _ = fs::remove_file(&temporary); // The error that follows matters more.
    }
    put.and_then(|()| sync_directory(path)).map_err(|error| failed("write", &temporary, &error))
}

/// Renames a file, unless the new name is in use.
fn give_name(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => return Ok(()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => (),
        Err(errno) => return Err(errno.into()),
    }
    // NFS has links alone. Its client may send a call twice, and the second one then reports the
    // name that the first one has made.
    let linked = fs::hard_link(from, to);
    if linked.is_err() && fs::metadata(from)?.nlink() < 2 {
        return linked;
    }
    let _ = fs::remove_file(from); // The new name counts. `clean` removes the old one otherwise.
    Ok(())
}

fn write_durable(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).open(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.sync_all()
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn remove(path: &Path) -> Result<(), StreamError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", path, &error)),
        _ => Ok(()),
    }
}

/// Returns whether a failed call has surely changed nothing.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
    )
}

/// The error of a call before a message has its name: nothing was appended.
fn failed(verb: &str, path: &Path, error: &io::Error) -> StreamError {
    let why = format!("cannot {verb} {}: {error}", path.display());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            StreamError::Unreachable(format!("{why}, so nothing was appended; free some space"))
        }
        ErrorKind::StaleNetworkFileHandle | ErrorKind::TimedOut | ErrorKind::Interrupted => {
            StreamError::Unreachable(why)
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            StreamError::Refused(format!("{why}; check its permissions and its mount"))
        }
        _ => StreamError::Refused(why),
    }
}
