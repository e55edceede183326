//! The protocol files of `lastword::persist`, without what needs a medium.

#[path = "../../../lastword/src/persist/background.rs"]
pub(crate) mod background;
#[path = "../../../lastword/src/persist/frontier.rs"]
pub(crate) mod frontier;
#[path = "../../../lastword/src/persist/help.rs"]
pub(crate) mod help;
#[path = "../../../lastword/src/persist/merge.rs"]
pub(crate) mod merge;
#[path = "../../../lastword/src/persist/progress.rs"]
pub(crate) mod progress;
#[path = "../../../lastword/src/persist/redo.rs"]
pub(crate) mod redo;
#[path = "../../../lastword/src/persist/wake.rs"]
pub(crate) mod wake;

pub(crate) use help::Step;
pub(crate) use progress::Progress;
pub(crate) use wake::Event;
