//! The crash-tested designs: every type of every durable design in the registry.

use lastword::perform::Serial;
use lastword::{AnyDesign, Decoupled};

/// `decoupled` over the memory that runs one transaction at a time: what differs from `decoupled`
/// is a fault of the transactional memory.
static SERIAL: AnyDesign = AnyDesign::new::<Decoupled<Serial>>("decoupled-serial", None);

/// Returns the designs, in the registry's order.
pub(crate) fn all() -> impl Iterator<Item = &'static AnyDesign> {
    <AnyDesign>::all().iter().chain([&SERIAL]).filter(|design| design.is_durable)
}

/// Returns the design of this name; `None` when no durable design has it.
pub(crate) fn by_name(name: &str) -> Option<&'static AnyDesign> {
    all().find(|design| design.type_name == name)
}

/// Returns the names of the designs.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|design| design.type_name)
}
