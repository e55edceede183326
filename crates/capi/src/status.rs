//! The status codes that C functions return.

use std::ffi::{CStr, c_int};

use lastword::{Error, IdealError, MediumError, Stop, TransferError};

/// Defines each status once, with its constant, its name in the header, its number and its text.
macro_rules! statuses {
    ($($name:ident $c:literal $number:literal $text:literal,)*) => {
        $(#[doc = $c] pub const $name: c_int = $number;)*

        /// Names as in the header, and numbers.
        pub const ALL: &[(&str, c_int)] = &[$(($c, $number)),*];

        /// Returns the meaning of a status and the remedy.
        pub fn text(status: c_int) -> &'static CStr {
            let bytes: &'static [u8] = match status {
                $($number => concat!($text, "\0").as_bytes(),)*
                1.. => b"a status of the program\0",
                _ => b"no status of this library\0",
            };
            CStr::from_bytes_with_nul(bytes).unwrap_or_default()
        }
    };
}

statuses! {
    OK "LW_OK" 0 "no error",
    CONFLICT "LW_CONFLICT" -1
        "a conflict with another transaction: abort this one and begin again",
    INVALID "LW_EINVAL" -2
        "an argument is NULL (in C++: closed or moved from) or out of range: take options from \
         lw_options_default, and give an object 1 to 1024 bytes",
    CLOSED "LW_ECLOSED" -3 "the handle is closed",
    OTHER_THREAD "LW_ETHREAD" -4
        "the worker belongs to another thread: open one worker for each thread",
    NESTED "LW_ENESTED" -5 "this thread has an open transaction: end it first",
    IDLE "LW_EIDLE" -6 "the worker has no open transaction: begin one first",
    ADDRESS "LW_EADDRESS" -7
        "no such word in a live object of this pool: the address is NULL, wild, freed or of \
         another pool, the offset is past the object's end or no multiple of 8, or the block is \
         not yet prepared",
    FULL "LW_EFULL" -8
        "the heap is full, or its free memory is in pieces that are too short: free an object of \
         the same size, all objects of another size or an array, or open the pool with \
         more options.max_bytes. lw_pool_heap_usage returns the free memory",
    TOO_LARGE "LW_ETOOLARGE" -9
        "the transaction exceeds its worker's limit: split it, or raise the limit. LW_DECOUPLED: 8 \
         bytes for each of options.ring_entries (also in lw_pool_open), then a quarter of \
         options.log_bytes at creation. LW_UNDO, LW_REDO: a slot, 1/64 of log_bytes. LW_SNAPSHOT: \
         a slot, and 16 bytes of copies for each of ring_entries",
    READ_ONLY "LW_EREADONLY" -10 "a write in a read-only transaction",
    BUSY "LW_EBUSY" -11
        "in use: end the open transaction, or close the pool in the other program",
    WORKERS "LW_EWORKERS" -12
        "no free worker: close one, or create the pool with more options.log_bytes (64 KiB for \
         each worker, at most 64 workers; LW_PLAIN has one)",
    HELD_UP "LW_EHELDUP" -13
        "a transaction that does not end retains a resource of this one, which had no effect: run \
         it again when the other has ended, keep transactions short, or open the pool with more \
         options.patience_ms or options.ring_entries",
    EXISTS "LW_EEXIST" -14 "a file of that name exists: open it, or remove it first",
    MISSING "LW_ENOENT" -15 "no such file or directory: check the path, or create the pool first",
    IO "LW_EIO" -16
        "the system refused a call: durable transactions are safe; close the pool, fix the cause, \
         and open it again",
    DAMAGED "LW_EDAMAGED" -17
        "not a pool, or a damaged one: acknowledged transactions may be lost. If the pool is open, \
         copy its readable objects into another pool first. Restore it from a backup; if it was \
         closed cleanly and only its log is lost, open it with options.without_log",
    MISMATCH "LW_EMISMATCH" -18
        "another layout, format, medium, root or types of a map than requested: open it with the \
         options, types and program that created it",
    NOT_DURABLE "LW_ENOTDURABLE" -19 "the design is not durable: its data ends with the process",
    UNKNOWN "LW_EUNKNOWN" -20 "an ID that the pool has not assigned",
    PANIC "LW_EPANIC" -21
        "a bug in Lastword: the handle is unusable; close the pool, or end the process, and open \
         it again",
    FORKED "LW_EFORKED" -23
        "a forked child: the pool belongs to the process that opened it",
    NAME "LW_ENAME" -22
        "a file of the pool was removed or replaced while it was open, so no transaction may \
         write: save the pool with lw_pool_backup (LW_DECOUPLED) or, before this process ends, \
         copy the content of its descriptor in /proc/<process>/fd, shown as deleted, to a new name",
    NO_MEMORY "LW_ENOMEM" -24
        "the system has no memory for the pool or a worker: no committed transaction is lost; \
         request less (options.bytes of a new pool, options.ownership_records, \
         options.ring_entries), or give the process more memory",
    PLACE "LW_EPLACE" -25
        "the path cannot hold a pool: options.message has the reason (a file in the way, a fixed \
         directory, a link, no locks, no persistent memory); choose another path or medium",
}

/// Returns the status of an access that stopped its transaction.
#[cold]
pub(crate) fn of_stop(stop: Stop) -> c_int {
    match stop {
        Stop::Conflict => CONFLICT,
        Stop::Full => FULL,
        Stop::BadPointer => ADDRESS,
        Stop::TooLarge => TOO_LARGE,
        Stop::ReadOnly => READ_ONLY,
        // Types of maps are compared when they are opened, and their bytes before each call.
        Stop::BadValue => DAMAGED,
        _ => INVALID,
    }
}

/// Returns the status of a failed call.
#[cold]
pub fn of(error: &Error) -> c_int {
    match error {
        Error::Medium(error) => of_medium(error),
        Error::NotAPool { .. }
        | Error::BadAreas { .. }
        | Error::Contradiction { .. }
        | Error::Truncated { .. }
        | Error::TooLong { .. }
        | Error::Cut { .. }
        | Error::Changed { .. }
        | Error::OnlyLog { .. }
        | Error::LogMissing { .. }
        | Error::WrongLog { .. }
        | Error::DamagedLog { .. }
        | Error::DamagedHeap { .. }
        | Error::BadValue
        | Error::Ideal(IdealError::NoContent { .. }) => DAMAGED,
        Error::FormatVersion { .. }
        | Error::Layout { .. }
        | Error::WrongMedium { .. }
        | Error::UnknownDesign { .. }
        | Error::UnknownMedium { .. }
        | Error::Named(_) => MISMATCH,
        Error::Transfer(error) => of_transfer(error),
        Error::ShadowTooSmall { .. }
        | Error::TransactionTooLarge { .. }
        | Error::SlotTooSmall { .. }
        | Error::CopiesTooSmall { .. } => TOO_LARGE,
        Error::Full { .. } => FULL,
        Error::InUse(_) => BUSY,
        Error::BadPointer { .. } => ADDRESS,
        Error::Stopped { stop } => of_stop(*stop),
        Error::ReadOnly => READ_ONLY,
        Error::InsideTransaction { .. } => NESTED,
        Error::StepPanicked { .. } => PANIC,
        Error::NoSuchTransaction { .. } => UNKNOWN,
        Error::NotDurable { .. } => NOT_DURABLE,
        Error::TooManyWorkers { .. } => WORKERS,
        Error::HeldUp { .. } | Error::StarvationLockHeld { .. } | Error::Blocked { .. } => HELD_UP,
        Error::NoRecords { .. } | Error::NoRing { .. } => NO_MEMORY,
        Error::Thread { .. } | Error::WorkerForgotten { .. } => IO,
        Error::Poisoned { cause } => of_poison(cause),
        Error::Migration { source, .. } => of(source),
        Error::NameLost { .. } => NAME,
        Error::Forked { .. } => FORKED,
        Error::Closed { .. } => CLOSED,
        Error::StillUsed(_) => BUSY,
        _ => INVALID,
    }
}

/// Returns the status of a poisoned pool. It follows the cause where the remedy depends on it. The
/// text of [`IO`] says that durable transactions are safe, which does not hold for lost content.
fn of_poison(cause: &Error) -> c_int {
    match of(cause) {
        status @ (DAMAGED | NAME | PANIC | NO_MEMORY) => status,
        _ => IO,
    }
}

fn of_transfer(error: &TransferError) -> c_int {
    match error {
        TransferError::Write { .. } | TransferError::Read { .. } => IO,
        TransferError::NotAnExport
        | TransferError::Incomplete { .. }
        | TransferError::Damaged { .. } => DAMAGED,
        TransferError::Version { .. } => MISMATCH,
        _ => INVALID,
    }
}

fn of_medium(error: &MediumError) -> c_int {
    match error {
        MediumError::InUse { .. } => BUSY,
        MediumError::AlreadyExists { .. } => EXISTS,
        MediumError::NameTooLong { .. } => INVALID,
        MediumError::NotFound { .. } | MediumError::NoDirectory { .. } => MISSING,
        MediumError::NotAFile { .. }
        | MediumError::InTheWay { .. }
        | MediumError::FixedDirectory { .. }
        | MediumError::NoDax { .. }
        | MediumError::NoLocks { .. } => PLACE,
        MediumError::Truncated { .. }
        | MediumError::BadArea { .. }
        | MediumError::DamagedPages { .. }
        | MediumError::OutOfHeap { .. }
        | MediumError::TornBatch { .. }
        | MediumError::OutOfLog { .. } => DAMAGED,
        MediumError::OutOfGroup { .. } => PANIC,
        MediumError::NoMemory { .. } => NO_MEMORY,
        _ => IO,
    }
}
