//! Errors of a pool: the failed operation, its file, the reason and the remedy.

mod calls;
pub(crate) mod commands;
mod endless;
mod full;
mod ideal;
mod in_use;
mod log_damage;
mod lost_file;
mod mismatch;
mod named;
mod replication;
mod shown;
mod still_used;
mod transaction_limit;
mod transfer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lw_alloc::Shortage;
use thiserror::Error;
use words::TxId;

use self::calls::{forked, too_many_workers, worker_forgotten};
pub use self::log_damage::LogDamage;
pub use self::lost_file::{CutFile, LostFile};
use self::lost_file::{after_cut, after_failure, rescue, sentences};
pub(crate) use self::mismatch::layout;
use self::mismatch::{not_ours, other_layout, without};
use self::transaction_limit::{fewer, other_version};
use self::{endless::endless, endless::held_up, full::no_room};
pub use self::{ideal::IdealError, named::NamedError};
pub use self::{in_use::InUse, mismatch::LogMismatch, still_used::StillUsed};
pub use self::{replication::ReplicationError, transaction_limit::Limit, transfer::TransferError};
use crate::reason::Reason;

/// The reason why an operation on a pool failed.
///
/// `Debug` shows the same text as `Display`: a `main` that returns this error prints the remedy.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the medium: a file that cannot be opened, a full disk, a failed write.
    #[error(transparent)]
    Medium(#[from] medium::Error),

    /// The file has no valid superblock.
    #[error(
        "{path} is not a Lastword pool, or both its superblocks are damaged: \
         restore it from a backup, or create a new pool under another name"
    )]
    NotAPool {
        /// The file.
        path: PathBuf,
    },

    /// Both superblocks have valid checksums, and no update leaves such a pair.
    #[error(
        "the two superblocks of {path} contradict each other, so the current one is unknown: \
         restore the pool from a backup"
    )]
    Contradiction {
        /// The file.
        path: PathBuf,
    },

    /// The file has the format of another version of Lastword.
    #[error(
        "{path} has format version {found:#x}, and this program works with version {expected}: {}",
        other_version(*found)
    )]
    FormatVersion {
        /// The file.
        path: PathBuf,
        /// The version and feature bits in the file.
        found: u64,
        /// The version that this program reads.
        expected: u64,
    },

    /// The pool has another layout; see [`Options::migrate`](crate::Options::migrate).
    #[error("cannot open {path}: {}", other_layout(
        (found, *found_version), (expected, *expected_version), *migrating))]
    Layout {
        /// The file.
        path: PathBuf,
        /// The pool's layout name.
        found: Box<str>,
        /// The pool's layout version.
        found_version: u64,
        /// The requested layout name.
        expected: Box<str>,
        /// The requested layout version.
        expected_version: u64,
        /// Whether a migration from the pool's layout version is unfinished.
        migrating: bool,
    },

    /// The pool cannot change from its medium to the requested one.
    #[error("the pool cannot leave medium `{own}` for the requested one: open it on `{own}`")]
    WrongMedium {
        /// The pool's medium.
        own: &'static str,
    },

    /// The superblock describes areas that the file does not have.
    #[error(
        "{path} has {found} bytes, but its superblock requires {expected}: the file was truncated; \
         restore it from a backup"
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The required length in bytes.
        expected: u64,
        /// The actual length in bytes.
        found: u64,
    },

    /// The file has more bytes than its superblock describes.
    #[error(
        "{path} has {found} bytes, but its superblock describes {expected}: remove the appended \
         bytes (`{}`); if the superblock is from another backup, restore both files from the same \
         backup", commands::truncate(path, *expected)
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The required length in bytes.
        expected: u64,
        /// The actual length in bytes.
        found: u64,
    },

    /// The superblock has a valid checksum, but describes areas or numbers that no pool has.
    #[error(
        "the superblock of {path} has a valid checksum, but describes areas or numbers that no \
         pool has: restore both files from the same backup"
    )]
    BadAreas {
        /// The file.
        path: PathBuf,
    },

    /// The pool's own file does not exist, and a log with records is in the place of its log.
    #[error(
        "{path} is missing, but a log with transactions is in {log}: put the pool's file back, or \
         move the log away if that pool is given up"
    )]
    OnlyLog {
        /// The pool's file.
        path: PathBuf,
        /// The log file.
        log: PathBuf,
    },

    /// The pool's log file does not exist.
    #[error("{path} is missing{}", without(path, *needed_after))]
    LogMissing {
        /// The log file.
        path: PathBuf,
        /// Transactions after this one may be in the log alone; `None` after a clean shutdown.
        needed_after: Option<TxId>,
    },

    /// The log file is damaged, or belongs to another pool or another generation of this pool.
    #[error("{path} is not the log of this pool ({why}){}", not_ours(path, why, *needed_after))]
    WrongLog {
        /// The log file.
        path: PathBuf,
        /// The mismatch.
        why: LogMismatch,
        /// As in [`Error::LogMissing`].
        needed_after: Option<TxId>,
    },

    /// The log is in a state that no crash leaves.
    #[error("{path} is damaged at byte {at}: {why}; {remedy}", remedy = LogDamage::REMEDY)]
    DamagedLog {
        /// The file that holds the log.
        path: PathBuf,
        /// The byte offset in the file.
        at: u64,
        /// The damage.
        why: LogDamage,
    },

    /// The allocator's metadata are inconsistent.
    #[error("{path}: the heap is damaged: {damage}; restore it from a backup")]
    DamagedHeap {
        /// The file.
        path: PathBuf,
        /// The first damage found.
        damage: lw_alloc::Damage,
    },

    /// The requested shadow belongs to another design.
    #[error("this design does not support shadow `{asked}`: use `Pool::<{design}>` for it")]
    OtherShadow {
        /// The requested shadow.
        asked: &'static str,
        /// The design that supports it.
        design: &'static str,
    },

    /// A collection cannot be opened by its name.
    #[error(transparent)]
    Named(#[from] NamedError),

    /// An error of `ideal_reproduce`, which experiments use.
    #[doc(hidden)]
    #[error(transparent)]
    Ideal(#[from] IdealError),

    /// A transaction wrote to more pages than the shadow can hold at once.
    #[error(
        "a transaction writes to more pages than a shadow of {shadow_bytes} bytes holds: split it, \
         or open the pool with a larger `shadow_bytes`"
    )]
    ShadowTooSmall {
        /// Size of the shadow in bytes.
        shadow_bytes: u64,
    },

    /// An option has a value that no pool can have.
    #[error("{option} is {value}: {must}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// The requested value.
        value: u64,
        /// The rule that it violates.
        must: &'static str,
    },

    /// The heap has no room left.
    #[error("the pool is full: its heap of {heap_bytes} bytes has no room for {}", no_room(
        *wanted_bytes, *heap_bytes, (*free_bytes, *largest_free_bytes, *free_slot_bytes), shortage
    ))]
    Full {
        /// The requested size; 0 where it is unknown.
        wanted_bytes: u64,
        /// Size of the heap in bytes.
        heap_bytes: u64,
        /// Free memory for objects of every size, arrays and strings, after the roll-back.
        free_bytes: u64,
        /// The longest free part of it: an array or a long string needs one.
        largest_free_bytes: u64,
        /// Free slots of slabs that are in use: each serves objects of its size class.
        free_slot_bytes: u64,
        /// The memory that the request needs, and the frees that make room for it.
        shortage: Shortage,
    },

    /// `decoupled`: a transaction wrote more than its worker's ring or the log holds.
    #[error(
        "the transaction is too large: it may write at most {} bytes, the limit of {}",
        8 * words_max, limit.advice(*log_bytes, *ring_bytes)
    )]
    TransactionTooLarge {
        /// The limit that it exceeded.
        limit: Limit,
        /// The greatest number of words that one transaction may write.
        words_max: usize,
        /// Size of the log in bytes.
        log_bytes: u64,
        /// Size of a worker's volatile ring in bytes.
        ring_bytes: u64,
    },

    /// A transaction wrote more than its worker's slot of the log holds.
    #[error(
        "the transaction is too large: it may write at most {} bytes{}, as its worker's slot of \
         {slot_bytes} bytes also holds their addresses (design `{design}` divides the log of \
         {log_bytes} bytes into {slots} slots): split it, or create the pool with more `log_bytes`",
        8 * words_max,
        // Only the bound of `undo`, which scattered words miss, leaves no room for addresses.
        if 8 * *words_max as u64 == *slot_bytes { ", fewer when they are scattered" } else { "" }
    )]
    SlotTooSmall {
        /// The design.
        design: &'static str,
        /// The greatest number of words that one transaction may write. An upper bound under
        /// `undo`, which records the whole cache line of a word: scattered words take up to 16
        /// times as much, and long strings a third more.
        words_max: usize,
        /// Bytes of a slot that hold records.
        slot_bytes: u64,
        /// The number of slots in the log.
        slots: usize,
        /// Size of the log in bytes.
        log_bytes: u64,
    },

    /// `snapshot`: a transaction wrote or protected, and so copied, more than fits in memory.
    #[error(
        "a transaction writes or protects more objects than its worker's memory for copies of \
         {copies_bytes} bytes holds: split it, or open the pool with more `ring_entries` (16 bytes \
         each; {} are in use)", copies_bytes / 16
    )]
    CopiesTooSmall {
        /// Size of that memory in bytes.
        copies_bytes: u64,
    },

    /// A pointer does not lead to a live object of this pool.
    #[error(
        "object {object:#x}, offset {offset}: no such word in a live object of this pool (a wild \
         or freed pointer, or one of another pool)"
    )]
    BadPointer {
        /// The object part of the address.
        object: u64,
        /// The offset in bytes inside the object.
        offset: u64,
    },

    /// A stored value is not valid for its type.
    #[error("a stored value is not valid for its type: was it written through another type?")]
    BadValue,

    /// The body returned a [`Stop`](words::Stop) of its own without a further reason.
    #[error("the transaction was stopped: {stop}")]
    Stopped {
        /// The value that the body returned.
        stop: words::Stop,
    },

    /// A body wrote inside [`Worker::read`](crate::Worker::read).
    #[error("a write in a read-only transaction: use `run` instead of `read`")]
    ReadOnly,

    /// The body ended its transaction with [`Tx::abort`](crate::Tx::abort).
    #[error("ended by the program: {reason}")]
    Aborted {
        /// The reason that the body gave.
        reason: Reason,
        /// The greatest ID that the body may have seen. Wait for it before you report its result.
        seen: TxId,
    },

    /// A call that is not allowed while a transaction's body runs on this thread.
    #[error(
        "`{call}` was called while a transaction is open on this thread: a body may run again, \
         and must not wait; a transaction that was begun and forgotten ends when its worker begins \
         another or is dropped"
    )]
    InsideTransaction {
        /// The name of the call.
        call: &'static str,
    },

    /// The pool was written by a design that this program does not support.
    #[error("{path} has the unknown design {found:?}: open it with the program that wrote it")]
    UnknownDesign {
        /// The file.
        path: PathBuf,
        /// The design in the superblock.
        found: String,
    },

    /// The pool's last medium is unknown to this program, or does not fit the place of its log.
    #[error("{path} has the unknown medium {found:?}: open it with the program that wrote it")]
    UnknownMedium {
        /// The file.
        path: PathBuf,
        /// The medium in the superblock.
        found: String,
    },

    /// The transactional memory's ownership records do not fit in memory. Recovery may have written
    /// to the pool before, and no committed transaction is lost.
    #[error("no memory for {records} ownership records ({bytes} bytes); {}", fewer("records"))]
    NoRecords {
        /// The number of records.
        records: u64,
        /// Their size in bytes.
        bytes: u64,
    },

    /// A worker's ring, or under `snapshot` its memory for copies, does not fit in memory. The pool
    /// and its other workers are not affected.
    #[error("no memory for a worker's ring or copies ({bytes} bytes); {}", fewer("entries"))]
    NoRing {
        /// Their size in bytes.
        bytes: u64,
    },

    /// A step of the pool panicked, because memory was short or by a bug in Lastword. The panic's
    /// message has the details. Acknowledged transactions are safe: the pool opens again.
    #[error(
        "the {step} step panicked, and wrote the reason to standard error; reopen the pool, after \
         raising the memory limit if that is the reason, else report a bug in Lastword"
    )]
    StepPanicked {
        /// The step.
        step: &'static str,
    },

    /// A thread could not be started.
    #[error(
        "cannot start a thread: {source}; raise the limit on processes (`ulimit -u`, the pids \
         cgroup), or use fewer threads"
    )]
    Thread {
        /// The system's reason.
        source: std::io::Error,
    },

    /// The pool has not assigned this ID.
    #[error("transaction {id} does not exist: the last ID that this pool assigned is {committed}")]
    NoSuchTransaction {
        /// The requested ID.
        id: TxId,
        /// The last assigned ID.
        committed: TxId,
    },

    /// A durability call on a design whose data does not survive its process.
    #[error("design `{design}` is not durable: its data does not survive the process")]
    NotDurable {
        /// The design.
        design: &'static str,
    },

    /// The heap would be larger than [`Options::max_bytes`](crate::Options::max_bytes) or any file.
    #[error(
        "cannot grow the heap to {wanted} bytes: its limit is {max_bytes}; an open pool takes a \
         larger `max_bytes`, at most 15 TiB"
    )]
    NoGrowth {
        /// The requested size.
        wanted: u64,
        /// The limit.
        max_bytes: u64,
    },

    /// The views together would exceed [`Options::view_bytes`](crate::Options::view_bytes).
    #[error(
        "cannot open a view of {wanted} bytes: open views take {used} bytes, and `view_bytes` is \
         {limit}; drop a view, or open the pool with a larger limit"
    )]
    ViewLimit {
        /// The size of the new view.
        wanted: u64,
        /// The size of all open views.
        used: u64,
        /// The limit.
        limit: u64,
    },

    /// Ideal reproduction, for experiments, writes no heap image that a view could show.
    #[error("cannot view or back up a pool of `{design}`: ideal reproduction has no heap image")]
    NoView {
        /// The design.
        design: &'static str,
    },

    /// A process has the pool open, and it cannot be read beside that process.
    #[error(transparent)]
    InUse(#[from] InUse),

    /// An export, an import or a compaction has failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),

    /// A step of a migration has failed. The next opening with this migration continues it.
    #[error("the migration from layout version {from} is unfinished: {source}")]
    Migration {
        /// The version of the content.
        from: u64,
        /// The error of the step.
        source: Box<Error>,
    },

    /// The design has no room for another worker. `plain` has no isolation and one worker; `undo`,
    /// `redo` and `snapshot` have at most one worker for each slot of the log.
    #[error("{}", too_many_workers(design, *max, instead))]
    TooManyWorkers {
        /// The design.
        design: &'static str,
        /// The greatest number of workers at one time.
        max: usize,
        /// Another remedy.
        instead: &'static str,
    },

    /// `snapshot`: a long transaction retains old versions whose room this one needs. No effect.
    #[error("{}", held_up(what, *limit_bytes, *since, *waited, instead))]
    HeldUp {
        /// The resource that is exhausted, or the object that cannot be written.
        what: &'static str,
        /// Size of that resource in bytes, where it has one.
        limit_bytes: Option<u64>,
        /// The last ID when the oldest running transaction began.
        since: TxId,
        /// How long this worker waited; see [`Options::patience`](crate::Options::patience).
        waited: Duration,
        /// Another remedy.
        instead: &'static str,
    },

    /// A starving transaction runs alone and does not end: its body is long, or the program forgot
    /// it. This transaction had no effect.
    #[error("{}", endless("runs alone", *worker, *waited))]
    StarvationLockHeld {
        /// Number of the worker, counted from 0.
        worker: usize,
        /// How long this worker waited; see [`Options::patience`](crate::Options::patience).
        waited: Duration,
    },

    /// Another transaction keeps a word that this one needs, and does not end. No effect.
    #[error("{}", endless("keeps a word that this one needs", *worker, *waited))]
    Blocked {
        /// Number of the worker, counted from 0.
        worker: usize,
        /// How long this worker waited; see [`Options::patience`](crate::Options::patience).
        waited: Duration,
    },

    /// [`Pool::close_shared`](crate::Pool::close_shared) was called before.
    #[error("cannot call `{call}`: the pool is closed, or `close_shared` is closing it")]
    Closed {
        /// The name of the call.
        call: &'static str,
    },

    /// [`Pool::close_shared`](crate::Pool::close_shared) has waited in vain.
    #[error(transparent)]
    StillUsed(#[from] StillUsed),

    /// A forked child used its parent's pool. The call had no effect.
    #[error("{}", forked(call))]
    Forked {
        /// The name of the call.
        call: &'static str,
    },

    /// A worker was forgotten inside a transaction. The pool is left as a crash would leave it.
    #[error("{}", worker_forgotten(*durable))]
    WorkerForgotten {
        /// The durable watermark: this transaction and all before it are durable.
        durable: TxId,
    },

    /// A request for an object of 0 bytes, or of more than the maximum.
    #[error("an object has 1 to 1024 bytes: store larger data in an `Array` or `Bytes`")]
    BadSize,

    /// A file of an open pool was removed or replaced. Transactions that write are refused. The
    /// open files hold every acknowledged transaction until the process ends: back up the pool.
    #[error("{}; {}", sentences(.files, *.closed), rescue(.files, *.closed))]
    NameLost {
        /// The files.
        files: Vec<LostFile>,
        /// Whether the pool is closed, with a clean shutdown. Descriptors of files without a name
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

    /// A log record that was read back differs from the record that was written.
    #[error(
        "{path} does not hold what was written at byte {at}: another program changed it while the \
         pool was open, or the disk lost a write"
    )]
    Changed {
        /// The file that holds the log.
        path: PathBuf,
        /// The byte offset in the file.
        at: u64,
    },

    /// See [`replication`](crate::replication).
    #[error(transparent)]
    Replication(#[from] ReplicationError),

    /// An earlier write or sync failed. Every later operation returns this error.
    #[error("the pool cannot go on: {cause}. {}", after_failure(cause))]
    Poisoned {
        /// The first failure.
        cause: Arc<Error>,
    },
}

#[cfg(test)]
mod tests;
