//! File back end for any disk: the heap goes through the page cache, log groups bypass it.

mod blocking;
mod heap;
mod in_flight;
mod log;
mod mask;
mod page_index;
mod simulated_queue;
mod sweep;
mod target;
mod uring;

pub use self::heap::FileHeap;
pub use self::log::FileLog;
#[cfg(any(test, feature = "mutants"))]
pub(crate) use self::uring::queued_write_flags;
