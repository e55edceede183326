//! A complete simulation: load, warm up, measure, check.
//!
//! ```text
//!   load (no time) | warm up: the last cache has wrapped | measured transactions | rest, check
//! ```
//! The warm-up also lasts until the design's circular log, if any, has wrapped
//! ([`Design::is_warm`]).
//!
//! The measurement is a window of whole transactions over all cores. Its counters are meaningful
//! when the backlog of unwritten lines is the same at both ends. A window is *steady* when the two
//! backlogs differ by at most 2 % of the lines written in between. If the window wrote nothing, as
//! with a persistent cache that holds all data, the bound is 2 % of the backlog.
//!
//! - An unsteady window counts as warm-up, and the next window is tried, a few times: memory below
//!   the caches fills up too.
//! - A periodic activity of the design must happen often enough in a window ([`Design::ROUNDS`]).
//!   Until then the window is extended, up to a few times its length and always by whole lengths. A
//!   window that started anywhere and ended with a round would have more rounds than its share.
//! - A window of fewer than ten transactions per core is not steady.

mod cuts;
mod rest;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use words::{Erased, ErasedTx, Stop};

use crate::design::{self, Design};
use crate::error::{Error, HEAP_BYTES_MAX};
use crate::image::{self, Image};
use crate::machine::controller::Counts as Requests;
use crate::machine::counts::Counts;
use crate::machine::description::Description;
use crate::machine::kernel;
use crate::machine::memory::Memory;
use crate::machine::sparse::Sparse;
use crate::machine::when::Time;
use crate::machine::{Hart, Isolation, Machine};
use crate::persist::{History, Persistent, Trace, requests};
use crate::program::{Client, Loaded, Program};
use crate::report::{
    self, Backlog, Caches, CyclesPerTransaction, Machine as Named, NvmWrites, Outcome, Spread,
};

/// The default limit of the warm-up, as a multiple of the measured transactions. With the workloads
/// of LAD, the last-level cache has wrapped by then, or never will.
pub const WARM_UP: u64 = 16;

/// The largest number of windows. The last one is measured, steady or not.
const WINDOWS: u32 = 4;

/// The largest length of a window, as a multiple of the requested one.
const LONGEST: u64 = 4;

/// The least number of transactions per core in a steady window. With fewer, the partial
/// transactions at its edges outweigh the whole ones.
const FEWEST: u64 = 10;

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The machine.
    pub description: Description,
    /// The design's name.
    pub design: String,
    /// Cores that run transactions.
    pub cores: usize,
    /// Measured transactions, over all cores.
    pub transactions: u64,
    /// The limit of the warm-up in transactions, in case that the last-level cache or the design's
    /// log do not wrap: data that fit in a cache never make it wrap.
    pub warm_up_most: u64,
    /// The seed for the report; the program has already been built from it.
    pub seed: u64,
    /// Compares every line from memory with its expected value, checks line isolation, and runs the
    /// program's own check at the end.
    pub check: bool,
    /// The number of power cuts whose recovered state is compared with the expected one. With power
    /// cuts, all transactions are measured, from the first on.
    pub power_cuts: u64,
    /// Violations after which the power is not cut any more.
    pub violations_max: u64,
    /// A file for all requests to memory controllers (see [`crate::persist::requests`]).
    pub export_trace: Option<PathBuf>,
    /// The form of that file.
    pub trace_format: requests::Format,
}

/// The progress of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Transactions measured so far: 0 during the warm-up. The count restarts after an unsteady
    /// window, and for the run in tagged form.
    Transactions(u64),
    /// Power cuts made so far.
    PowerCuts(u64),
}

/// A callback for progress, called very often.
type OnProgress<'t> = &'t mut dyn FnMut(Progress);

/// Checks whether a program can run on a machine, as far as that is known in advance.
///
/// # Errors
/// As [`run`], except for errors of the running program.
pub fn check(setup: &Setup, program: &dyn Program) -> Result<(), Error> {
    design::by_name(&setup.design, Check { setup, program }).ok_or_else(|| no_design(setup))?
}

/// Runs a program on a machine.
///
/// # Errors
/// [`Error::NoDesign`] with the existing names; [`Error::Misfit`]; [`Error::Trace`]; errors of the
/// running program.
pub fn run(
    setup: &Setup,
    program: &dyn Program,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, Error> {
    design::by_name(&setup.design, Simulation { setup, program, progress })
        .ok_or_else(|| no_design(setup))?
}

/// Runs a program on a machine with a given design, which need not be registered.
///
/// # Errors
/// As [`run`].
pub fn run_design<D: Design>(
    setup: &Setup,
    program: &dyn Program,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, Error> {
    design::Visitor::visit::<D>(Simulation { setup, program, progress })
}

fn no_design(setup: &Setup) -> Error {
    Error::NoDesign { name: setup.design.clone(), known: design::names() }
}

/// A visitor that makes the checks before a simulation.
struct Check<'s> {
    setup: &'s Setup,
    program: &'s dyn Program,
}

impl design::Visitor for Check<'_> {
    type Out = Result<(), Error>;

    fn visit<D: Design>(self) -> Result<(), Error> {
        fitting::<D>(self.setup, self.program).map(|_| ())
    }
}

/// Returns the machine of a run, if the design and the program fit it.
fn fitting<D: Design>(setup: &Setup, program: &dyn Program) -> Result<Description, Error> {
    let mut description = setup.description.clone();
    description.cores = setup.cores;
    if setup.power_cuts > 0 && !D::DURABLE {
        return Err(Error::NothingDurable { design: D::NAME });
    }
    description.validate()?;
    D::fits(&description).map_err(|problem| Error::Misfit {
        design: D::NAME,
        machine: description.name.clone(),
        problem,
    })?;
    let bytes = program.heap_bytes();
    if bytes > HEAP_BYTES_MAX {
        return Err(Error::TooLarge { program: program.name().to_owned(), gib: bytes >> 30 });
    }
    Ok(description)
}

struct Simulation<'s> {
    setup: &'s Setup,
    program: &'s dyn Program,
    progress: OnProgress<'s>,
}

impl design::Visitor for Simulation<'_> {
    type Out = Result<Outcome, Error>;

    fn visit<D: Design>(self) -> Result<Outcome, Error> {
        let Simulation { setup, program, progress } = self;
        let description = fitting::<D>(setup, program)?;
        let trace = setup.export_trace.as_deref().map(requests::Export::create).transpose()?;
        let mut image = Image::format(program.heap_bytes())?;
        let loaded = program.load(&mut Erased::new(&mut image), setup.cores)?;
        let origin = Origin::Loaded(image.into_words());
        let mut start = Start { setup, description, loaded: &*loaded, origin };

        let on_done = &mut |done| progress(Progress::Transactions(done));
        let ran = start.run::<D>(false, on_done)?;
        let machine = &ran.machine;
        if let (Some(trace), Some(requests)) = (trace, &machine.requests) {
            let channels = memories(&machine.description);
            trace.write(requests, setup.trace_format, &channels)?;
        }
        let mut outcome = ran.window.outcome(setup, program.name(), D::NAME, machine);
        outcome.isolation_hits = rest::isolation_hits(machine);
        if start.keeps_media() {
            outcome.complaints = rest::complaints(machine, &*loaded, start.bytes())?;
            outcome.image_hash = Some(rest::image_hash(machine, start.heap_words() as u64));
        }
        if setup.power_cuts > 0 {
            start.cut_all(ran, &mut outcome, progress)?;
        }
        outcome.checked = start.keeps_media().then_some(outcome.complaints.is_empty());
        Ok(outcome)
    }
}

/// Returns the name of each channel, and the cycles of a clock of its memory: a quarter of a line's
/// burst, in eight transfers at double rate.
fn memories(description: &Description) -> Vec<(String, f64)> {
    let kinds = [("nvm", Some(&description.nvm)), ("dram", description.dram.as_ref())];
    let kinds = kinds.into_iter().filter_map(|(name, memory)| Some((name, memory?)));
    let channels = kinds.flat_map(|(name, memory)| {
        let clock = memory.burst_ns / 4.0 * description.clock_ghz;
        (0..memory.channels).map(move |index| (format!("{name}{index}"), clock))
    });
    channels.collect()
}

/// The initial state of a run.
struct Start<'s> {
    setup: &'s Setup,
    description: Description,
    loaded: &'s dyn Loaded,
    origin: Origin,
}

/// The origin of a run's memory.
enum Origin {
    /// The heap after loading.
    Loaded(Sparse),
    /// The recovered state from which the run continues, and the words of the heap.
    Left(Persistent, usize),
}

/// A finished run.
struct Ran<D> {
    machine: Box<Machine<D>>,
    window: Rc<Window>,
    /// The persistent state before the run.
    before: Persistent,
}

impl Start<'_> {
    fn bytes(&self) -> u64 {
        8 * self.heap_words() as u64
    }

    fn heap_words(&self) -> usize {
        match &self.origin {
            Origin::Loaded(words) => words.length(),
            Origin::Left(_, words) => *words,
        }
    }

    fn keeps_media(&self) -> bool {
        self.setup.check || self.setup.power_cuts > 0
    }

    /// Returns the design and memory at the start: fresh ones, or those of a recovered state.
    fn begin<D: Design>(&self) -> (D, Memory) {
        let Start { setup, description, origin, .. } = self;
        let lines = (self.heap_words() / 8) as u32;
        let volatile = D::volatile_lines(description);
        let keeps_media = setup.check || setup.power_cuts > 0;
        match origin {
            Origin::Loaded(words) => {
                let extra = D::extra_lines(description) + D::table_lines(lines);
                let memory = Memory::new(words, extra, volatile, keeps_media);
                (D::new(description, lines), memory)
            }
            Origin::Left(left, _) => {
                let memory = Memory::new(&left.words(), 0, volatile, keeps_media);
                let design = D::resumes(description, lines, left);
                (design.expect("the caller has checked that the design resumes"), memory)
            }
        }
    }

    /// Runs the clients of all cores.
    fn run<D: Design>(
        &mut self,
        tagged: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Ran<D>, Error> {
        let (design, mut memory) = self.begin::<D>();
        let heap_words = self.heap_words() as u64;
        let Start { setup, description, loaded, origin } = self;
        if tagged {
            memory.tag(heap_words);
        }
        let before = match memory.media() {
            Some(media) if setup.power_cuts > 0 => media.clone(),
            _ => Sparse::default(),
        };
        let before = match origin {
            Origin::Loaded(_) => Persistent::new(before, description.nvm.channels as usize),
            Origin::Left(left, _) => left.with_lines(before),
        };
        let mut machine = Box::new(Machine::new(description.clone(), memory, design));
        machine.requests = setup.export_trace.is_some().then(Vec::new);
        if setup.power_cuts > 0 {
            machine.trace = Some(Trace::default());
            machine.history = Some(History::default());
        }
        machine.isolation = setup.check.then(Isolation::default);

        let window = Rc::new(Window::new(setup, &machine));
        let programs = (0..setup.cores).map(|core| core_program(*loaded, core, &window));
        let programs = programs.collect();
        let began = Instant::now();
        let heap = (image::heap(8 * heap_words), image::TAG, 8 * heap_words);
        let machine = kernel::run(machine, heap, programs, &mut |_| progress(window.measured()))?;
        window.host_seconds.set(began.elapsed().as_secs_f64());
        if let Some(why) = machine.failed {
            return Err(Error::Failed { why });
        }
        if let Some(stop) = window.stopped.get() {
            return Err(Error::Stopped { stop });
        }
        Ok(Ran { machine, window, before })
    }
}

/// Returns the program of a core: its client's transactions, until the window ends.
fn core_program<D: Design>(
    loaded: &dyn Loaded,
    core: usize,
    window: &Rc<Window>,
) -> kernel::Program<D> {
    let (mut client, window) = (loaded.client(core), Rc::clone(window));
    Box::new(move |hart| {
        while !window.is_over() {
            client.next();
            match transact(hart, &*client) {
                Err(Error::Stopped { stop: Stop::Aborted }) if client.gives_up() => {}
                Err(Error::Stopped { stop }) => window.stopped.set(Some(stop)),
                Err(_) => return window.failed.set(true),
                Ok(()) => {}
            }
            window.finished(hart);
            hart.compute(client.outside_instructions());
        }
    })
}

fn transact<D: Design>(hart: &mut Hart<'_, D>, client: &dyn Client) -> Result<(), Error> {
    hart.transact(|tx| client.run(&mut ErasedTx::new(tx)))
}

/// The measured window of transactions.
struct Window {
    /// The requested number of transactions.
    wanted: u64,
    /// The limit of the warm-up in transactions.
    warm_up_most: u64,
    cores: u64,
    /// Finished transactions of all cores, since the start.
    finished: Cell<u64>,
    /// Misses after which the last-level cache has wrapped: twice its lines. Sets fill at random,
    /// so after as many misses as lines, half of the sets are not full.
    wraps: u64,
    began: Cell<Option<Edge>>,
    /// The number of windows that may still follow.
    more: Cell<u32>,
    /// The largest length of a window whose rounds are incomplete.
    longest: u64,
    ended: RefCell<Option<(Edge, Counts, Vec<Requests>)>>,
    stopped: Cell<Option<Stop>>,
    failed: Cell<bool>,
    /// Accesses before the window.
    accesses: Cell<u64>,
    host_seconds: Cell<f64>,
}

/// A boundary of the window.
#[derive(Clone, Copy)]
struct Edge {
    at: Time,
    finished: u64,
    backlog: u64,
}

impl Window {
    fn new<D: Design>(setup: &Setup, machine: &Machine<D>) -> Window {
        let wanted = setup.transactions.max(1);
        Window {
            wanted,
            warm_up_most: if setup.power_cuts > 0 { 0 } else { setup.warm_up_most },
            cores: setup.cores as u64,
            finished: Cell::new(0),
            wraps: 2 * machine.description.llc.bytes / 64,
            began: Cell::new(None),
            more: Cell::new(if setup.power_cuts > 0 { 0 } else { WINDOWS - 1 }),
            longest: if setup.power_cuts > 0 { wanted } else { LONGEST * wanted },
            ended: RefCell::new(None),
            stopped: Cell::new(None),
            failed: Cell::new(false),
            accesses: Cell::new(0),
            host_seconds: Cell::new(0.0),
        }
    }

    fn is_over(&self) -> bool {
        self.ended.borrow().is_some() || self.stopped.get().is_some() || self.failed.get()
    }

    /// Returns the cycles of the finished window.
    fn cycles(&self) -> Time {
        let began = self.began.get().map_or(0, |began| began.at);
        self.ended.borrow().as_ref().map_or(0, |(end, ..)| end.at) - began
    }

    fn measured(&self) -> u64 {
        self.began.get().map_or(0, |began| self.finished.get() - began.finished)
    }

    /// Counts a finished transaction, and starts or ends the window at it.
    fn finished<D: Design>(&self, hart: &mut Hart<'_, D>) {
        if self.is_over() {
            return; // a transaction of another core that began within the window
        }
        self.finished.set(self.finished.get() + 1);
        let finished = self.finished.get();
        match self.began.get() {
            None => {
                let machine = hart.machine();
                let wrapped = machine.counts.llc_misses >= self.wraps && machine.design.is_warm();
                if wrapped || finished >= self.warm_up_most {
                    let edge = edge(hart, finished);
                    self.begin(hart, edge);
                }
            }
            Some(began) if self.is_long_enough::<D>(&hart.machine().counts) => {
                let (end, counts) = (edge(hart, finished), &hart.machine().counts);
                if self.more.get() == 0 || self.is_steady::<D>(began, end, counts) {
                    let (counts, channels) = (counts.clone(), hart.machine().channel_counts());
                    self.ended.borrow_mut().get_or_insert((end, counts, channels));
                } else {
                    self.more.set(self.more.get() - 1);
                    self.begin(hart, end);
                }
            }
            Some(_) => {}
        }
    }

    /// Returns whether the window may end here.
    fn is_long_enough<D: Design>(&self, counts: &Counts) -> bool {
        let measured = self.measured();
        let is_whole = measured > 0 && measured.is_multiple_of(self.wanted);
        is_whole && (has_rounds::<D>(counts) || measured >= self.longest)
    }

    /// Returns whether the window is steady: a level backlog, enough transactions, and enough
    /// rounds.
    fn is_steady<D: Design>(&self, began: Edge, end: Edge, counts: &Counts) -> bool {
        let is_level = is_as_much([began.backlog, end.backlog], counts.nvm_writes_total());
        let are_enough = end.finished - began.finished >= FEWEST * self.cores;
        is_level && are_enough && has_rounds::<D>(counts)
    }

    /// Restarts the counters at this edge.
    fn begin<D: Design>(&self, hart: &mut Hart<'_, D>, edge: Edge) {
        let counts = std::mem::take(&mut hart.machine().counts);
        hart.machine().restart_channel_counts();
        // Wrong fills are bugs whenever they happen, so the warm-up's count stays.
        hart.machine().counts.wrong_fills = counts.wrong_fills;
        self.accesses.set(self.accesses.get() + counts.accesses);
        self.began.set(Some(edge));
    }

    fn outcome<D: Design>(
        &self,
        setup: &Setup,
        workload: &str,
        design: &str,
        machine: &Machine<D>,
    ) -> Outcome {
        let began = self.began.get().expect("a window that is over has begun");
        let ended = self.ended.borrow();
        let (end, counts, channels) = ended.as_ref().expect("it is over");
        let transactions = end.finished - began.finished;
        let cycles = end.at - began.at + counts.afterwards / setup.cores as u64;
        let mean = |cycles: u64| cycles as f64 / transactions as f64;
        let phases = &counts.phases;
        let nvm_writes = NvmWrites::of(&counts.nvm_writes);
        let Counts { lines, pages, .. } = counts;
        Outcome {
            workload: workload.to_owned(),
            design: design.to_owned(),
            machine: Named::of(&machine.description),
            cores: setup.cores,
            seed: setup.seed,
            transactions,
            cycles,
            cycles_per_transaction: CyclesPerTransaction {
                total: mean(cycles * setup.cores as u64),
                begin: mean(phases.begin),
                log_stall: mean(phases.log_stall),
                prepare: mean(phases.prepare),
                commit: mean(phases.commit),
                abort: mean(phases.abort),
                locks: mean(phases.locks),
            },
            nvm_reads: counts.nvm_reads,
            nvm_writes,
            dram_reads: counts.dram_reads,
            dram_writes: counts.dram_writes,
            channels: report::channels(&machine.description, channels, end.at - began.at),
            caches: Caches {
                l1_misses: counts.l1_misses,
                llc_misses: counts.llc_misses,
                transfers: counts.transfers,
            },
            lines_per_transaction: Spread::of(lines.sum, transactions, lines.max),
            pages_per_transaction: Spread::of(pages.sum, transactions, pages.max),
            fallbacks: counts.fallbacks,
            design_counts: counts.by_name(),
            backlog: Backlog { begin: began.backlog, end: end.backlog },
            steady: self.is_steady::<D>(began, *end, counts),
            simulated_accesses: self.accesses.get() + machine.counts.accesses,
            host_seconds: self.host_seconds.get(),
            power_cuts: None,
            violations: None,
            rare_paths_taken: None,
            rare_paths_cut: None,
            checked: None,
            isolation_hits: None,
            image_hash: None,
            description: machine.description.clone(),
            complaints: Vec::new(),
        }
    }
}

fn edge<D: Design>(hart: &mut Hart<'_, D>, finished: u64) -> Edge {
    Edge { at: hart.cycle(), finished, backlog: hart.machine().backlog() }
}

/// Returns whether the backlog changed by at most 2 % of the lines written, or of the backlog if
/// none were.
fn is_as_much([before, after]: [u64; 2], written: u64) -> bool {
    50 * after.abs_diff(before) <= if written == 0 { before } else { written }
}

/// Returns whether the design's periodic activity has happened often enough.
fn has_rounds<D: Design>(counts: &Counts) -> bool {
    D::ROUNDS.is_none_or(|(name, wanted)| counts.of_design.get(name) >= Some(&wanted))
}

#[cfg(test)]
mod tests {
    use super::is_as_much;

    #[test]
    fn steady_backlog_changes_by_at_most_2_percent() {
        assert!(is_as_much([100, 102], 100));
        assert!(!is_as_much([100, 103], 100));
        assert!(!is_as_much([13_402, 13_394], 100), "the bound is relative to writes if any");
        // A tree in a persistent last-level cache, where no line is ever written.
        assert!(is_as_much([13_402, 13_394], 0));
        assert!(!is_as_much([10_000, 10_201], 0), "the cache still fills");
        assert!(is_as_much([0, 0], 0));
    }
}
