//! File back end for any disk: the heap goes through the page cache, log groups bypass it.

mod blocking;
mod home;
mod in_flight;
mod log;
mod queued;
mod target;
mod uring;

pub use self::home::FileHome;
pub use self::log::FileLog;
