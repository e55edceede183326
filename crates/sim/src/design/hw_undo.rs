//! `hw-undo`: an undo log in hardware.
//!
//! The design follows ATOM (Joshi and others, HPCA 2017) in the form that the ReDU paper (MICRO
//! 2018, section V) builds as a baseline: with the same log as ReDU.
//!
//! ```text
//!   store:   old words -> log; posted: it waits only for room to send them (see `log`)
//!   line on the way to memory:   waits in the controller until its entries are durable
//!   commit:  buffer -> log;  clwb of each line, sfence: data are durable;  commit word: durable
//! ```
//! Invariants:
//! - A line of the program reaches memory after the log entries about it.
//! - All lines of a transaction are in memory before its commit word is in the log.
//!
//! Recovery restores the old words of transactions without a commit word, newest entry first.
//!
//! A transaction that the log cannot hold falls back to software: see [`log`]. Committed data are
//! already in the heap image. The fallback therefore only restores the lines that the attempt has
//! written, and logs that fact.
//!
//! Choices where the paper is silent:
//! - The old words of a missing store come from the fill, which the controller has seen (source
//!   logging). ATOM's core therefore sends only an address. On this machine, a message from the
//!   core to the controller has room for both and costs the same.

use words::Stop;

use super::Design;
use super::log::{self, Content, Log, Logging, WAITS};
use super::soft_log::SoftLog;
use crate::machine::controller::{Class, Id, Write};
use crate::machine::counts::Phase;
use crate::machine::description::{Description, Point};
use crate::machine::when::When;
use crate::machine::{Hart, Machine, Message};
use crate::mutants::{Mutant, injected};
use crate::persist::{Cut, Persistent};

/// State of the design.
#[derive(Debug)]
pub struct HwUndo {
    log: Log,
}

impl Design for HwUndo {
    const NAME: &'static str = "hw-undo";
    const ABOUT: &'static str = "undo logging in hardware, data written before the commit (ATOM)";
    const MACHINE: &'static str = "redu";
    const PARAMETERS: &'static [&'static str] = &["log"];
    const RARE: &'static [&'static str] = &[log::RARE[0], log::RARE[2], log::RARE[3], WAITS];

    fn fits(description: &Description) -> Result<(), &'static str> {
        log::fits(description)
    }

    fn extra_lines(description: &Description) -> u32 {
        log::lines(description)
    }

    fn new(description: &Description, extra: u32) -> HwUndo {
        HwUndo { log: Log::new(description, extra, Content::Old) }
    }

    fn resumes(description: &Description, extra: u32, state: &Persistent) -> Option<Self> {
        Some(log::resumed(description, extra, state))
    }

    fn begin(hart: &mut Hart<'_, Self>) {
        log::begin(hart);
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        log::store(hart, word, object, value)
    }

    fn falls_back(hart: &mut Hart<'_, Self>) {
        log::falls_back(hart);
    }

    fn software_commits(hart: &mut Hart<'_, Self>) {
        log::software_commits(hart);
    }

    fn soft_log(&mut self) -> Option<&mut SoftLog> {
        Some(self.log.soft_log())
    }

    fn class_of(&self, line: u32) -> Class {
        self.log.class_of(line)
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        if !log::end_body(hart) {
            return;
        }
        hart.enter(Phase::Prepare);
        let core = hart.core();
        log::drain(hart.machine(), core);
        log::seal(hart.machine(), core);
        for line in hart.lines().to_vec() {
            hart.write_back(line);
        }
        if !injected(Mutant::CommitBeforeData) {
            hart.fence();
        }
        hart.enter(Phase::Commit);
        let cycle = hart.cycle();
        hart.at(cycle);
        let token = log::commit(hart.machine(), core);
        hart.wait_for(token);
    }

    fn waits(machine: &mut Machine<Self>, core: usize, word: u64, _: When) -> Option<When> {
        log::waits(machine, core, word)
    }

    fn drained(machine: &mut Machine<Self>, core: usize, word: u64, old: u64) {
        log::note(machine, core, word, old);
    }

    fn leaves_llc(machine: &mut Machine<Self>, line: u32) -> bool {
        log::push_out(machine, line);
        false
    }

    fn arrives(machine: &mut Machine<Self>, _: usize, id: Id, write: &mut Write) {
        log::hold_back(machine, id, write);
    }

    fn notified(machine: &mut Machine<Self>, _: usize, _: usize, tag: u64, point: Point) {
        log::write_reached(machine, tag, point);
    }

    fn message(machine: &mut Machine<Self>, _: usize, _: usize, [message, _]: Message) {
        log::message(machine, message);
    }

    fn is_warm(&self) -> bool {
        self.log.has_wrapped()
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        log::recover(description, extra, Content::Old, state)
    }
}

impl Logging for HwUndo {
    fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    fn committed(machine: &mut Machine<Self>, serial: u64) {
        log::finish(machine, serial);
    }
}
