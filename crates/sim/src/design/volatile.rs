//! `volatile`: the baseline that makes nothing durable. The costs of other designs are relative to
//! it.

use super::Design;
use crate::machine::description::Description;

/// The design without hooks.
#[derive(Debug)]
pub struct Volatile;

impl Design for Volatile {
    const NAME: &'static str = "volatile";
    const ABOUT: &'static str = "nothing is durable: the baseline of the other designs";
    const MACHINE: &'static str = "lad";
    const DURABLE: bool = false;

    fn new(_: &Description, _: u32) -> Volatile {
        Volatile
    }
}
