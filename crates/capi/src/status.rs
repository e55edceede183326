//! Numbers that say how a call ended.

use std::ffi::{CStr, c_int};

use lastword::{Error, MediumError, Stop};

/// The one list: a name as in the header without its prefix, the number, the text.
macro_rules! statuses {
    ($($name:ident $c:literal $number:literal $text:literal,)*) => {
        $(#[doc = $c] pub const $name: c_int = $number;)*

        /// Names as in the header, and numbers.
        pub const ALL: &[(&str, c_int)] = &[$(($c, $number)),*];

        /// What a status means, and what to do.
        pub(crate) fn text(status: c_int) -> &'static CStr {
            let bytes: &'static [u8] = match status {
                $($number => concat!($text, "\0").as_bytes(),)*
                1.. => b"the program's own status\0",
                _ => b"no status of this library\0",
            };
            CStr::from_bytes_with_nul(bytes).unwrap_or_default()
        }
    };
}

statuses! {
    OK "LW_OK" 0 "no error",
    CONFLICT "LW_CONFLICT" -1
        "another transaction was in the way: abort this one and begin again",
    INVALID "LW_EINVAL" -2
        "an argument is NULL (in C++: closed, moved from) or a number that it cannot be: options \
         come from lw_options_default, an object has 1 to 1024 bytes",
    CLOSED "LW_ECLOSED" -3 "the handle was closed",
    OTHER_THREAD "LW_ETHREAD" -4
        "the worker is another thread's: open one for each thread",
    NESTED "LW_ENESTED" -5 "this thread has a transaction: end it first",
    IDLE "LW_EIDLE" -6 "the worker has no transaction: begin one first",
    ADDRESS "LW_EADDRESS" -7
        "no such word in a live object of this pool: a null, wild or freed address, one of another \
         pool, an offset behind the object's end or no multiple of 8, a block not yet prepared",
    FULL "LW_EFULL" -8
        "the pool's heap is full: free something, or create a pool with more options.bytes",
    TOO_LARGE "LW_ETOOLARGE" -9
        "the transaction is larger than its worker may write: split it, or move the limit. \
         LW_DECOUPLED: 8 bytes for each of options.ring_entries, in lw_pool_open too, then a \
         quarter of options.log_bytes at creation; LW_UNDO, LW_REDO: a slot, 1/64 of log_bytes; \
         LW_SNAPSHOT: a slot, and 16 bytes of copies for each of ring_entries",
    READ_ONLY "LW_EREADONLY" -10 "a write in a transaction that was begun as read-only",
    BUSY "LW_EBUSY" -11
        "in use: end the transaction that is open, or close the pool where else it is open",
    WORKERS "LW_EWORKERS" -12
        "as many workers are open as there may be: close one, or create the pool with more \
         options.log_bytes: 64 KiB for each, at most 64 workers (LW_PLAIN: one)",
    HELD_UP "LW_EHELDUP" -13
        "a transaction that does not end keeps what this one needs: end it, or open the pool with \
         more options.patience_ms or options.ring_entries",
    EXISTS "LW_EEXIST" -14 "a file of that name exists: open it, or remove it first",
    MISSING "LW_ENOENT" -15 "no such file or directory: check the path, or create the pool first",
    IO "LW_EIO" -16
        "the system has refused a call: what was durable is safe; close the pool, mend the cause, \
         and open it again",
    DAMAGED "LW_EDAMAGED" -17
        "no pool, or a damaged one: restore it from a copy; if it was closed cleanly and only its \
         log is lost, open it with options.without_log",
    MISMATCH "LW_EMISMATCH" -18
        "the pool has another layout, format, medium or root: open it with the options and the \
         program that made it",
    NOT_DURABLE "LW_ENOTDURABLE" -19 "the design keeps nothing",
    UNKNOWN "LW_EUNKNOWN" -20 "an ID that the pool has not given out",
    PANIC "LW_EPANIC" -21 "a bug in Lastword: the handle is of no use any more",
    FORKED "LW_EFORKED" -23
        "the process was forked: the pool belongs to the process that opened it",
    NAME "LW_ENAME" -22
        "a file of the pool was removed or replaced while it was open: before this process ends, \
         copy the content of its descriptor in /proc/<process>/fd, shown as deleted, to a new name",
}

/// How an access ended that did not end well.
#[cold]
pub(crate) fn of_stop(stop: Stop) -> c_int {
    match stop {
        Stop::Conflict => CONFLICT,
        Stop::Full => FULL,
        Stop::BadPointer => ADDRESS,
        Stop::TooLarge => TOO_LARGE,
        Stop::ReadOnly => READ_ONLY,
        _ => INVALID,
    }
}

/// How a call ended that did not end well.
#[cold]
pub(crate) fn of(error: &Error) -> c_int {
    match error {
        Error::Medium(error) => of_medium(error),
        Error::NotAPool { .. }
        | Error::BadAreas { .. }
        | Error::Contradiction { .. }
        | Error::Truncated { .. }
        | Error::TooLong { .. }
        | Error::Cut { .. }
        | Error::Changed { .. }
        | Error::LogMissing { .. }
        | Error::WrongLog { .. }
        | Error::DamagedLog { .. }
        | Error::DamagedHeap { .. } => DAMAGED,
        Error::FormatVersion { .. }
        | Error::Layout { .. }
        | Error::WrongMedium { .. }
        | Error::UnknownDesign { .. }
        | Error::UnknownMedium { .. } => MISMATCH,
        Error::ShadowTooSmall { .. }
        | Error::TransactionTooLarge { .. }
        | Error::SlotTooSmall { .. }
        | Error::CopiesTooSmall { .. } => TOO_LARGE,
        Error::Full { .. } => FULL,
        Error::BadPointer { .. } => ADDRESS,
        Error::Stopped { stop } => of_stop(*stop),
        Error::ReadOnly => READ_ONLY,
        Error::InsideTransaction { .. } => NESTED,
        Error::StepPanicked { .. } => PANIC,
        Error::NoSuchTransaction { .. } => UNKNOWN,
        Error::NotDurable { .. } => NOT_DURABLE,
        Error::TooManyWorkers { .. } => WORKERS,
        Error::HeldUp { .. } | Error::GateClosed { .. } | Error::Blocked { .. } => HELD_UP,
        Error::NoRecords { .. }
        | Error::Thread { .. }
        | Error::Poisoned { .. }
        | Error::WorkerForgotten { .. } => IO,
        Error::NameLost { .. } => NAME,
        Error::Forked { .. } => FORKED,
        _ => INVALID,
    }
}

fn of_medium(error: &MediumError) -> c_int {
    match error {
        MediumError::InUse { .. } => BUSY,
        MediumError::AlreadyExists { .. } | MediumError::InTheWay { .. } => EXISTS,
        MediumError::NameTooLong { .. } => INVALID,
        MediumError::NotFound { .. } | MediumError::NoDirectory { .. } => MISSING,
        MediumError::Truncated { .. }
        | MediumError::BadArea { .. }
        | MediumError::OutOfHeap { .. } => DAMAGED,
        _ => IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_text_of_its_own() {
        let mut texts: Vec<_> = ALL.iter().map(|(_, number)| text(*number)).collect();
        assert!(texts.iter().all(|text| !text.is_empty()));
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), ALL.len());
        assert_eq!(text(7).to_str(), Ok("the program's own status"));
        assert_eq!(text(-99).to_str(), Ok("no status of this library"));
    }
}
