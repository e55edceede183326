//! What can go wrong with a pool, and what to do about it.

mod limit;
mod lost_file;
mod mismatch;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use words::{AnyError, TxId};

pub use self::limit::Limit;
pub use self::lost_file::{CutFile, LostFile};
use self::lost_file::{after_cut, after_failure, rescue, sentences};
pub use self::mismatch::LogMismatch;
use crate::Reason;

/// Why a pool cannot do what was asked.
///
/// `Debug` shows the same text as `Display`, so that a `main` that returns it says what to do.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// The medium's: a file that cannot be opened, a full disk, a failed write.
    #[error(transparent)]
    Medium(#[from] medium::Error),

    /// The file has no valid superblock.
    #[error(
        "{path} is not a Lastword pool, or both its superblocks are damaged: \
         restore it from a copy, or create a new pool under another name"
    )]
    NotAPool {
        /// The file.
        path: PathBuf,
    },

    /// Both superblocks are whole, and no update has left one beside the other.
    #[error(
        "the two superblocks of {path} contradict each other, and either could be the true one: \
         restore the pool from a copy"
    )]
    Contradiction {
        /// The file.
        path: PathBuf,
    },

    /// The file's format is of another version of Lastword.
    #[error("{path} has format version {found:#x}; this program reads version {expected}")]
    FormatVersion {
        /// The file.
        path: PathBuf,
        /// The version and features that the file names.
        found: u64,
        /// The version that this program knows.
        expected: u64,
    },

    /// The pool was made for another program, or another version of it.
    #[error(
        "{path} has layout {found:?} version {found_version}, not {expected:?} version \
         {expected_version}: open it with the program that made it"
    )]
    Layout {
        /// The file.
        path: PathBuf,
        /// What the pool says.
        found: String,
        /// Its version.
        found_version: u64,
        /// What was asked for.
        expected: String,
        /// Its version.
        expected_version: u64,
    },

    /// A medium was asked for that is not the one that the pool was created on.
    #[error("the pool was created on medium `{own}` and can only be opened on it")]
    WrongMedium {
        /// The pool's medium.
        own: &'static str,
    },

    /// The superblock describes areas that the file does not have.
    #[error(
        "{path} has {found} bytes but its superblock needs {expected}: it was truncated; \
         restore it from a copy"
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes it must have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },

    /// The file has more bytes than its superblock describes.
    #[error(
        "{path} has {found} bytes but its superblock describes {expected}: if something was added \
         at its end, cut that off (`truncate -s {expected} {path}`); if its superblock is of \
         another time, restore both files from one copy"
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Bytes it must have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },

    /// The superblock describes areas, or has numbers, that no pool has.
    #[error(
        "the superblock of {path} is whole, and describes areas or has numbers that no pool has: \
         restore both files from one copy"
    )]
    BadAreas {
        /// The file.
        path: PathBuf,
    },

    /// The log file that belongs to the pool is not there.
    #[error("{path} is missing{}", without(*needed_after))]
    LogMissing {
        /// The log file.
        path: PathBuf,
        /// Transactions after this one may be in the log alone; nothing when the pool was closed
        /// cleanly.
        needed_after: Option<TxId>,
    },

    /// The log file is damaged, or of another pool or another time.
    #[error("{path} is not the log of this pool ({why}){}", not_ours(path, why, *needed_after))]
    WrongLog {
        /// The log file.
        path: PathBuf,
        /// What does not fit.
        why: LogMismatch,
        /// As in [`Error::LogMissing`].
        needed_after: Option<TxId>,
    },

    /// The log holds a whole group that no crash could have left.
    #[error(
        "{path} is damaged at byte {at}: a whole log group names words outside the heap or a \
         transaction out of order; restore both files from one copy"
    )]
    DamagedLog {
        /// The file that holds the log.
        path: PathBuf,
        /// Place in the file.
        at: u64,
    },

    /// The allocator's metadata do not fit together.
    #[error("{path}: the heap is damaged: {damage}")]
    DamagedHeap {
        /// The file.
        path: PathBuf,
        /// What was found.
        damage: lw_alloc::Damage,
    },

    /// A shadow was asked for that is another design's.
    #[error("a shadow `{asked}` is not this design's: use `Pool::<{design}>` for it")]
    OtherShadow {
        /// The shadow.
        asked: &'static str,
        /// The design that has it.
        design: &'static str,
    },

    /// Reproduction that writes nothing home was asked for where something would be lost by it.
    #[doc(hidden)]
    #[error(
        "`ideal_reproduce` writes nothing home, so that a pool is lost when it is closed: it is \
         for experiments on medium `emulated` with all of the heap in memory, not for {found}"
    )]
    NotForIdeal {
        /// What was asked for.
        found: &'static str,
    },

    /// The pool was run by a reproduction that writes nothing home.
    #[doc(hidden)]
    #[error(
        "{path} was run with `ideal_reproduce`, which writes nothing home: what was in it is gone; \
         create a new pool"
    )]
    NotAtHome {
        /// The file.
        path: PathBuf,
    },

    /// A transaction wrote to more pages than the shadow has room for at once.
    #[error(
        "a transaction writes to more pages than a shadow of {shadow_bytes} bytes holds: split it, \
         or open the pool with a larger `shadow_bytes`"
    )]
    ShadowTooSmall {
        /// Size of the shadow.
        shadow_bytes: u64,
    },

    /// A size or name in the options that no pool can have.
    #[error("{option} is {value}: {must}")]
    BadOption {
        /// Which option.
        option: &'static str,
        /// What was asked for.
        value: u64,
        /// What it must be.
        must: &'static str,
    },

    /// The heap has no room left.
    #[error(
        "the pool is full: its heap of {heap_bytes} bytes has no room for {} (its log has \
         {log_bytes} bytes); free something, or create a pool with more `bytes`",
        wanted(*wanted_bytes)
    )]
    Full {
        /// What was asked for; 0 where that is not known.
        wanted_bytes: u64,
        /// Size of the heap.
        heap_bytes: u64,
        /// Size of the log.
        log_bytes: u64,
    },

    /// `decoupled`: a transaction wrote more than its worker's ring or the log can hold.
    #[error(
        "a transaction may write {} bytes here, the limit of {}",
        8 * words_max, limit.advice(*log_bytes, *ring_bytes)
    )]
    TransactionTooLarge {
        /// Which of them it met.
        limit: Limit,
        /// Most words that one transaction may write.
        words_max: usize,
        /// Size of the log.
        log_bytes: u64,
        /// Size of a worker's volatile ring.
        ring_bytes: u64,
    },

    /// A transaction wrote more than its worker's slot of the log can hold.
    #[error(
        "a transaction writes more than its worker's slot of {slot_bytes} bytes holds (design \
         `{design}` cuts the log of {log_bytes} bytes into {slots} slots): split it, or create the \
         pool with more `log_bytes`"
    )]
    SlotTooSmall {
        /// The design.
        design: &'static str,
        /// Bytes of a slot that records may fill.
        slot_bytes: u64,
        /// Slots of the log.
        slots: usize,
        /// Size of the log.
        log_bytes: u64,
    },

    /// `snapshot`: a transaction writes or protects more objects than its worker has memory for:
    /// of each it makes a copy.
    #[error(
        "a transaction writes or protects more objects than its worker's memory for copies of \
         {copies_bytes} bytes holds: split it, or open the pool with more `ring_entries` (16 bytes \
         each; {} are in use)", copies_bytes / 16
    )]
    CopiesTooSmall {
        /// Bytes of that memory.
        copies_bytes: u64,
    },

    /// A pointer that leads to no object of this pool.
    #[error(
        "object {object:#x}, offset {offset}: no such word in a live object of this pool (a wild \
         or freed pointer, or one of another pool)"
    )]
    BadPointer {
        /// The address's object.
        object: u64,
        /// The offset inside it.
        offset: u64,
    },

    /// A stored value that its type does not allow.
    #[error("a stored value is no value of its type: written through a pointer of another type?")]
    BadValue,

    /// The body answered a stop of its own that says nothing more.
    #[error("the transaction was stopped: {stop}")]
    Stopped {
        /// What the body answered.
        stop: words::Stop,
    },

    /// A write inside [`Worker::read`](crate::Worker::read).
    #[error("a write in a read-only transaction: use `run` instead of `read`")]
    ReadOnly,

    /// The body ended its transaction with [`Tx::abort`](crate::Tx::abort).
    #[error("ended by the program: {reason}")]
    Aborted {
        /// What the body gave as its reason.
        reason: Reason,
        /// The moment that the body saw, to wait for before telling the world about it.
        seen: TxId,
    },

    /// A call that may not be made while a transaction's body runs on this thread.
    #[error(
        "`{call}` was called while a transaction is open on this thread: a body may run again, \
         and must not wait; a transaction that was begun and forgotten ends when its worker begins \
         another or is dropped"
    )]
    InsideTransaction {
        /// The call.
        call: &'static str,
    },

    /// The pool was written by a design that this program does not know.
    #[error("{path} was written by design {found:?}, which this program does not know")]
    UnknownDesign {
        /// The file.
        path: PathBuf,
        /// The design that the superblock names.
        found: String,
    },

    /// The pool was last on a medium that this program does not know, or that does not fit where
    /// its log is.
    #[error(
        "{path} was last on medium {found:?}, which this program cannot open: use the one that did"
    )]
    UnknownMedium {
        /// The file.
        path: PathBuf,
        /// The medium that the superblock names.
        found: String,
    },

    /// No memory for the ownership records of the transactional memory. The pool is as it was.
    #[error(
        "no memory for {records} ownership records ({bytes} bytes): ask for fewer with \
         `Options::ownership_records` (`ownership_records` of `lw_options`, `--ownership-records` \
         on the command line), or give the process more memory"
    )]
    NoRecords {
        /// How many.
        records: u64,
        /// Bytes of them.
        bytes: u64,
    },

    /// A step of the pool's own panicked: a bug in Lastword. The panic's message says more.
    #[error("the {step} step panicked")]
    StepPanicked {
        /// Which step.
        step: &'static str,
    },

    /// A thread could not be started.
    #[error(
        "cannot start a thread: {source}; raise the limit of processes (`ulimit -u`, the pids \
         cgroup), or use fewer threads"
    )]
    Thread {
        /// The system's reason.
        source: std::io::Error,
    },

    /// An ID that the pool has not given out.
    #[error(
        "transaction {id} is not of this pool: the last one that it has given out is {committed}"
    )]
    NoSuchTransaction {
        /// The ID that was asked for.
        id: TxId,
        /// The last one drawn.
        committed: TxId,
    },

    /// A design that keeps nothing was asked when something is durable.
    #[error("design `{design}` is not durable: nothing of it survives its process")]
    NotDurable {
        /// The design.
        design: &'static str,
    },

    /// The design has no room for another worker: `plain` has no isolation, so it has one; `undo`,
    /// `redo` and `snapshot` have as many as the log has slots.
    #[error(
        "design `{design}` has no free worker, and can have no more than {max}: drop \
         a `Worker`, wait until a `Pool::run` has returned, or {instead}"
    )]
    TooManyWorkers {
        /// The design.
        design: &'static str,
        /// Workers that it can have at a time.
        max: usize,
        /// What to do else.
        instead: &'static str,
    },

    /// `snapshot`: a transaction that does not end still needs what was there before others
    /// committed, and one that was to begin cannot go on without what that keeps. It has had no
    /// effect; what was acknowledged is safe.
    #[error(
        "{what}{}, and {waited:?} did not change that: a transaction that began when {since} was \
         the last ID has not ended, and keeps everything that was committed since. End it, or \
         {instead}",
        limit_bytes.map(|bytes| format!(" ({bytes} bytes)")).unwrap_or_default()
    )]
    HeldUp {
        /// What there is no room for, or cannot be written.
        what: &'static str,
        /// How much room there is, where that is the limit.
        limit_bytes: Option<u64>,
        /// Where the oldest running transaction began.
        since: TxId,
        /// How long the worker has waited while the process ran:
        /// [`Options::patience`](crate::Options::patience).
        waited: Duration,
        /// What to do else.
        instead: &'static str,
    },

    /// Another transaction runs alone after many lost attempts and does not end: its body is long,
    /// or the program has forgotten it. This transaction has had no effect.
    #[error(
        "worker {worker} has a transaction that keeps all others from beginning, and {waited:?} \
         did not change that: end it or drop its worker (a forgotten one leaves when the pool is \
         closed), or wait longer (`Options::patience`)"
    )]
    GateClosed {
        /// The worker's number: the first one of a pool is 0.
        worker: usize,
        /// How long was waited while the process ran:
        /// [`Options::patience`](crate::Options::patience).
        waited: Duration,
    },

    /// A process that was forked while the pool was open uses its parent's pool. Nothing was done.
    #[error(
        "`{call}` was called in a forked child: the pool belongs to the process that opened it; \
         use it there, or have the child open a pool of its own"
    )]
    Forked {
        /// The call.
        call: &'static str,
    },

    /// A worker was forgotten ([`std::mem::forget`]) inside a transaction of a group: committed
    /// transactions of that group were with it. The pool is as a crash would leave it.
    #[error(
        "closed without the transactions after {durable} of a worker that was forgotten inside a \
         transaction: their group was never made durable; drop each worker before its pool"
    )]
    WorkerForgotten {
        /// The last transaction that is durable with all before it.
        durable: TxId,
    },

    /// An object of no bytes, or of more than an object can have.
    #[error("an object has 1 to 1024 bytes: put what is larger into an `Array` or `Bytes`")]
    BadSize,

    /// A file of an open pool was removed, or another has its name. The pool goes on; what was
    /// acknowledged is in its files.
    #[error("{}; {}", sentences(.files, *.closed), rescue(.files, *.closed))]
    NameLost {
        /// Each of them.
        files: Vec<LostFile>,
        /// The pool is closed, with a clean shutdown. Descriptors of files without a name
        /// stay open until the process ends.
        closed: bool,
    },

    /// A file of an open pool was cut short by another program.
    #[error("{} was cut from {} to {} bytes while the pool was open: {}",
        .file.path.display(), .file.expected, .file.found, after_cut(.file, *.closed))]
    Cut {
        /// The file.
        file: CutFile,
        /// Whether the pool is closed.
        closed: bool,
    },

    /// A log record that was read back is not what was written.
    #[error(
        "{path} is not what was written to it at byte {at}: another program has changed it while \
         the pool was open, or the disk has lost a write"
    )]
    Changed {
        /// The file that holds the log.
        path: PathBuf,
        /// Place in the file.
        at: u64,
    },

    /// An earlier write or sync failed.
    #[error("the pool cannot go on, because: {cause}. {}", after_failure(cause))]
    Poisoned {
        /// The first failure.
        cause: Arc<Error>,
    },
}

fn wanted(bytes: u64) -> String {
    if bytes == 0 { "what was asked".into() } else { format!("{bytes} bytes more") }
}

/// What can be done about a pool without its log.
fn without(needed_after: Option<TxId>) -> String {
    let Some(last) = needed_after else {
        return "; the pool was closed cleanly, so its heap is whole: bring the log back, or open \
                the pool with the option `without_log` (`lastword pool check --repair \
                --without-log`), which makes a new log"
            .into();
    };
    format!(
        ", and the pool was not closed cleanly: transactions after {last} may be in its log alone; \
         bring the log back, or restore both files from one copy"
    )
}

/// What can be done about a pool with a file in place of its log.
fn not_ours(path: &Path, why: &LogMismatch, needed_after: Option<TxId>) -> String {
    match why {
        LogMismatch::Version { .. } => {
            ": open the pool with the program that has written it".into()
        }
        LogMismatch::Length { found, expected } if found > expected => format!(
            ": if something was added at its end, cut that off (`truncate -s {expected} {}`){}",
            path.display(),
            without(needed_after)
        ),
        _ => without(needed_after),
    }
}

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

#[cfg(test)]
mod tests;
