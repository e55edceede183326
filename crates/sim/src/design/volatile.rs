//! `volatile`: nothing is made durable. What the other designs cost is told against it.

use super::Design;
use crate::machine::description::Description;

/// The design that does nothing.
#[derive(Debug)]
pub struct Volatile;

impl Design for Volatile {
    const NAME: &'static str = "volatile";
    const ABOUT: &'static str = "nothing is durable: what the others cost is told against it";
    const MACHINE: &'static str = "lad";
    const DURABLE: bool = false;

    fn new(_: &Description, _: u32) -> Volatile {
        Volatile
    }
}
