//! Three programs that use Lastword. Each correct function has variants with a usual mistake,
//! which the crash tests find.

pub mod bank;
pub mod jobs;
pub mod orders;
