//! `sw-undo`: an undo log in software, with `clwb` and `sfence` and no special hardware.
//!
//! [`soft_log`] implements the protocol. LAD and ReDU (sections 5) use such a log as a baseline.

use words::Stop;

use super::Design;
use super::soft_log::{self, Shape, SoftLog};
use crate::machine::Hart;
use crate::machine::controller::Class;
use crate::machine::description::Description;
use crate::persist::{Cut, Persistent};

/// State of the design.
#[derive(Debug)]
pub struct SwUndo(SoftLog);

impl Design for SwUndo {
    const NAME: &'static str = "sw-undo";
    const ABOUT: &'static str = "undo logging in software: clwb and sfence before each first store";
    const MACHINE: &'static str = "lad";
    const PARAMETERS: &'static [&'static str] = &["sw-undo"];

    fn extra_lines(description: &Description) -> u32 {
        description.cores as u32 * shape(description).lines
    }

    fn new(description: &Description, extra: u32) -> SwUndo {
        SwUndo(SoftLog::shaped(shape(description), description, extra))
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<SwUndo> {
        let SwUndo(logs) = SwUndo::new(description, extra);
        Some(SwUndo(logs.continued(state)))
    }

    fn soft_log(&mut self) -> Option<&mut SoftLog> {
        Some(&mut self.0)
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        soft_log::begin(hart);
    }

    fn announced(hart: &mut Hart<'_, Self>, first: u64, words: u64) {
        soft_log::announced(hart, first, words);
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        soft_log::store(hart, word, object, value);
        Ok(())
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        soft_log::commit(hart);
    }

    fn class_of(&self, line: u32) -> Class {
        self.0.class_of(line).unwrap_or(Class::Data)
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        soft_log::recover_shaped(shape(description), description, extra, state)
    }
}

/// Returns the shape of the logs on a machine.
fn shape(description: &Description) -> Shape {
    let parameter = |key| description.parameter("sw-undo", key);
    Shape {
        lines: (parameter("log_bytes") / 64.0) as u32,
        store_fences: parameter("sfence") != 0.0,
    }
}
