//! The back end for any disk: pages of the heap by way of the page cache, groups of the log past
//! it.

mod home;
mod log;

pub use self::home::FileHome;
pub use self::log::FileLog;
