//! The back end for any disk: pages of the heap by way of the page cache, groups of the log past
//! it.

mod blocking;
mod home;
mod log;
mod queued;
mod target;
mod under_way;
mod uring;

pub use self::home::FileHome;
pub use self::log::{FileLog, LogPath};
