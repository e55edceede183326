//! A simulation from its beginning to its end: load, warm up, measure, check.
//!
//! ```text
//!   load (no time) | warm up: the last cache has wrapped | measured transactions | rest, check
//! ```
//! And so has the design's log, if it writes one round and round ([`Design::is_warm`]).
//!
//! What is measured are whole transactions, of all cores together. The counts of such a window mean
//! something when what is left to be written is as much at its end as at its beginning: the window
//! is *steady* when the two differ by at most 2 % of what it wrote; or of what was left, where it
//! wrote nothing, as a persistent cache that holds all data does. One that is not is taken for
//! warming up, and the next is looked at, a few times: what is behind the caches fills up, too. A
//! design that does something from time to time must have done it often enough in a window
//! ([`Design::ROUNDS`]): until it has, the window is made longer, a few times as long at most, and
//! always by its whole length: one that ended where a round does, and began anywhere, would have
//! more rounds than its time has. One of fewer than ten transactions a core is not steady.

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
use crate::machine::counts::Counts;
use crate::machine::description::Description;
use crate::machine::kernel;
use crate::machine::memory::{Memory, copy_of};
use crate::machine::when::Time;
use crate::machine::{Hart, Isolation, Machine};
use crate::persist::{History, Persistent, Trace, requests};
use crate::program::{Client, Loaded, Program};
use crate::report::{Backlog, CyclesPerTransaction, Machine as Named, NvmWrites, Outcome, Spread};

/// As a multiple of the measured transactions, how long warming up may take unless somebody says
/// otherwise: with the workloads of LAD the last cache has wrapped by then, or never will.
pub const WARM_UP: u64 = 16;

/// Windows that are looked at, at most: the last one is measured, steady or not.
const WINDOWS: u32 = 4;

/// How many times as long as it was asked for a window is at most.
const LONGEST: u64 = 4;

/// Transactions of a core below which a window's edges, where others are in the middle of theirs,
/// weigh more than what is between them.
const FEWEST: u64 = 10;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The machine.
    pub description: Description,
    /// The design's name.
    pub design: String,
    /// Cores that run transactions.
    pub cores: usize,
    /// Transactions that are measured, of all cores.
    pub transactions: u64,
    /// Warming up ends after so many transactions, if the last cache, and the design's log, have
    /// not wrapped before: data that fit in a cache never make it wrap.
    pub warm_up_most: u64,
    /// Names the run; the program has drawn by it already.
    pub seed: u64,
    /// Whether every line that comes from memory is compared with what it must be, line isolation
    /// is watched, and the program's own check is made at the end.
    pub check: bool,
    /// Power is cut so many times, and what recovery makes of it is compared with what must be
    /// there. Then all transactions are measured, from the first one on.
    pub power_cuts: u64,
    /// A file that gets every request to a memory controller (see [`crate::persist::requests`]).
    pub export_trace: Option<PathBuf>,
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many transactions of the measurement are over: none while caches warm up, and from none
    /// on again when what was measured was not steady, or is run in another form.
    Transactions(u64),
    /// Power was cut so many times, of those that were asked for.
    PowerCuts(u64),
}

/// Who is told of it, all the time.
type Tell<'t> = &'t mut dyn FnMut(Progress);

/// Whether a program can be run on a machine, as far as that is known before it is.
///
/// # Errors
/// As [`run`], but for what stops the program.
pub fn check(setup: &Setup, program: &dyn Program) -> Result<(), Error> {
    design::by_name(&setup.design, Check { setup, program }).ok_or_else(|| no_design(setup))?
}

/// Runs a program on a machine.
///
/// # Errors
/// [`Error::NoDesign`] with the names that there are; [`Error::Misfit`]; [`Error::Trace`]; whatever
/// stops the program.
pub fn run(
    setup: &Setup,
    program: &dyn Program,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, Error> {
    design::by_name(&setup.design, Simulation { setup, program, progress })
        .ok_or_else(|| no_design(setup))?
}

/// Runs a program on a machine with a design that need not be in the list: one of your own.
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

/// What can be looked at before anything is simulated.
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

/// The machine as it runs, if design and program fit it.
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
    progress: Tell<'s>,
}

impl design::Visitor for Simulation<'_> {
    type Out = Result<Outcome, Error>;

    fn visit<D: Design>(self) -> Result<Outcome, Error> {
        let Simulation { setup, program, progress } = self;
        let description = fitting::<D>(setup, program)?;
        let trace = setup.export_trace.as_deref().map(requests::Export::create).transpose()?;
        let mut image = Image::format(program.heap_bytes())?;
        let loaded = program.load(&mut Erased::new(&mut image), setup.cores)?;
        let words = image.into_words();
        let mut start = Start { setup, description, loaded: &*loaded, words, left: None };

        let told = &mut |done| progress(Progress::Transactions(done));
        let ran = start.run::<D>(false, told)?;
        let machine = &ran.machine;
        if let (Some(trace), Some(requests)) = (trace, &machine.requests) {
            trace.write(requests)?;
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

/// What runs begin with.
struct Start<'s> {
    setup: &'s Setup,
    description: Description,
    loaded: &'s dyn Loaded,
    /// The heap as it was loaded.
    words: Vec<u64>,
    /// What a recovery has left, where they begin with that.
    left: Option<Persistent>,
}

/// A run that is over.
struct Ran<D> {
    machine: Box<Machine<D>>,
    window: Rc<Window>,
    /// What was persistent in the beginning.
    before: Persistent,
}

impl Start<'_> {
    fn bytes(&self) -> u64 {
        8 * self.heap_words() as u64
    }

    fn heap_words(&self) -> usize {
        self.words.len()
    }

    fn keeps_media(&self) -> bool {
        self.setup.check || self.setup.power_cuts > 0
    }

    /// A machine's design and memory: new ones, or such as a recovery has left.
    fn begin<D: Design>(&self) -> (D, Memory) {
        let Start { setup, description, words, left, .. } = self;
        let lines = (words.len() / 8) as u32;
        let volatile = D::volatile_lines(description);
        let keeps_media = setup.check || setup.power_cuts > 0;
        match left {
            None => {
                let extra = D::extra_lines(description) + D::table_lines(lines);
                let memory = Memory::new(words, extra, volatile, keeps_media);
                (D::new(description, lines), memory)
            }
            Some(left) => {
                let memory = Memory::new(&left.words(), 0, volatile, keeps_media);
                let design = D::resumes(description, lines, left);
                (design.expect("it has said that it goes on"), memory)
            }
        }
    }

    /// Runs all cores' clients.
    fn run<D: Design>(
        &mut self,
        tagged: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Ran<D>, Error> {
        let (design, mut memory) = self.begin::<D>();
        let Start { setup, description, loaded, words, left } = self;
        let heap_words = words.len() as u64;
        if tagged {
            memory.tag(heap_words);
        }
        let before = match memory.media() {
            Some(media) if setup.power_cuts > 0 => copy_of(media, media.len()),
            _ => Vec::new(),
        };
        let before = match left {
            None => Persistent::new(before, description.nvm.channels as usize),
            Some(left) => left.with_lines(before),
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

/// What a core runs: its client's transactions, until the window is over.
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

/// Which transactions are measured.
struct Window {
    /// Those that are.
    wanted: u64,
    /// Warming up ends after so many transactions.
    warm_up_most: u64,
    /// Cores that run them.
    cores: u64,
    /// Transactions of all cores, since the beginning.
    finished: Cell<u64>,
    /// The last cache has wrapped after so many misses: twice as many as it has lines, since sets
    /// are filled at random, and after as many half of them are not full.
    wraps: u64,
    began: Cell<Option<Edge>>,
    /// Windows that may follow.
    more: Cell<u32>,
    /// Transactions that a window has at most, where its rounds are not done.
    longest: u64,
    ended: RefCell<Option<(Edge, Counts)>>,
    stopped: Cell<Option<Stop>>,
    failed: Cell<bool>,
    /// Accesses before the window.
    accesses: Cell<u64>,
    host_seconds: Cell<f64>,
}

/// One end of the window.
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

    /// Cycles of the window, which is over.
    fn cycles(&self) -> Time {
        let began = self.began.get().map_or(0, |began| began.at);
        self.ended.borrow().as_ref().map_or(0, |(end, _)| end.at) - began
    }

    fn measured(&self) -> u64 {
        self.began.get().map_or(0, |began| self.finished.get() - began.finished)
    }

    /// A transaction is over.
    fn finished<D: Design>(&self, hart: &mut Hart<'_, D>) {
        if self.is_over() {
            return; // of another core, which had begun before
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
                    self.ended.borrow_mut().get_or_insert((end, counts.clone()));
                } else {
                    self.more.set(self.more.get() - 1);
                    self.begin(hart, end);
                }
            }
            Some(_) => {}
        }
    }

    /// Whether the window may end.
    fn is_long_enough<D: Design>(&self, counts: &Counts) -> bool {
        let measured = self.measured();
        let is_whole = measured > 0 && measured.is_multiple_of(self.wanted);
        is_whole && (has_rounds::<D>(counts) || measured >= self.longest)
    }

    /// Whether what is left to be written is as much as it was, but for 2 % of what was written;
    /// there are transactions enough, and the design's rounds are done.
    fn is_steady<D: Design>(&self, began: Edge, end: Edge, counts: &Counts) -> bool {
        let is_level = is_as_much([began.backlog, end.backlog], counts.nvm_writes_total());
        let are_enough = end.finished - began.finished >= FEWEST * self.cores;
        is_level && are_enough && has_rounds::<D>(counts)
    }

    /// What is counted is counted from here on.
    fn begin<D: Design>(&self, hart: &mut Hart<'_, D>, edge: Edge) {
        let counts = std::mem::take(&mut hart.machine().counts);
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
        let (end, counts) = ended.as_ref().expect("it is over");
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

/// Whether as much is left as there was, beside what was written.
fn is_as_much([before, after]: [u64; 2], written: u64) -> bool {
    50 * after.abs_diff(before) <= if written == 0 { before } else { written }
}

/// Whether the design has done often enough what it does from time to time.
fn has_rounds<D: Design>(counts: &Counts) -> bool {
    D::ROUNDS.is_none_or(|(name, wanted)| counts.of_design.get(name) >= Some(&wanted))
}

#[cfg(test)]
mod tests {
    use super::is_as_much;

    #[test]
    fn what_is_left_may_change_by_a_fiftieth_of_what_was_written() {
        assert!(is_as_much([100, 102], 100));
        assert!(!is_as_much([100, 103], 100));
        assert!(!is_as_much([13_402, 13_394], 100), "not of what was left, when some was written");
        // A tree in a persistent last cache: nothing is ever written.
        assert!(is_as_much([13_402, 13_394], 0));
        assert!(!is_as_much([10_000, 10_201], 0), "it is still filled");
        assert!(is_as_much([0, 0], 0));
    }
}
