//! One execution of a program: boot after boot, until a clean shutdown or a failure.
//!
//! ```text
//!   open, start | step, background, step | close | open, start, check the invariants
//!        power fails here, or there ^         ^
//! ```
//!
//! Everything runs in one thread. A power failure unwinds it, and the next boot opens the pool with
//! the bytes that survived. The picker orders the steps of several workers and the background steps
//! of the pool. A step runs to its end before the next one begins.
//!
//! Between two transactions of a step the pool of a real program may persist the first one in the
//! background. No call of the recorded machine is there, so the picker cannot run a step of the
//! pool. Instead the first choice of an execution decides how fast the background is: nothing is
//! persisted before the program waits, or each commit is durable when it returns
//! ([`Durability::Sync`]). Designs that are durable on return have no such choice. `snapshot` has
//! it, because its groups are durable later.
//!
//! Invariants:
//! - A boot after a crash shows at least the transactions that were durable before the crash. For
//!   `snapshot` only the program's invariants check that, because its recovered IDs are not exact.
//! - A later crash revokes nothing that an opening has shown.

use std::error::Error as StdError;
use std::time::Duration;

use faults::recording::{Choose, Image, Model, Question, Recorder};
use lastword::{Design, Durability, LogFormat, Options, Promise, Snapshot};
use medium::sync::{Arc, Mutex};

use super::caught::catch;
use super::failure::DETAIL;
use super::process::{Process, State};
use super::world::Notes;
use super::{Cause, Plan, StepResult, World};
use crate::picker::{Made, Picker, Policy, Shared};

/// Sizes of a pool whose program sets none: small, because every boot reads all of it.
const HEAP_BYTES: u64 = 256 << 10;
const LOG_BYTES: u64 = 128 << 10;
/// A slot of a smaller log is too small for a transaction that creates a collection.
const SLOTS_BYTES: u64 = 1 << 20;

/// The steps that an execution runs: of each worker, the numbers of its steps.
pub(super) type Selected = Vec<Vec<usize>>;

/// The state before the first step, made once.
pub(super) struct Prepared {
    image: Image,
    notes: Notes,
    committed: u64,
}

/// A part of an execution, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Start,
    Step { worker: usize, step: usize },
    Background(&'static str),
    Close,
}

/// A point of an execution that repeats exactly: the choices made up to there, and a digest of the
/// durable bytes and the notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) made: usize,
    pub(super) digest: u64,
    pub(super) notes: usize,
    /// The part that ends here.
    pub(super) place: Place,
}

/// The observations of an execution.
#[derive(Default)]
pub(super) struct Record {
    pub(super) made: Vec<Made>,
    pub(super) marks: Vec<Mark>,
    pub(super) events: Vec<String>,
    pub(super) cause: Option<Cause>,
    /// The mistake of a type of notes that was never shown.
    pub(super) mistaken: Option<Cause>,
    /// Digests of the durable bytes after recoveries.
    pub(super) states: Vec<u64>,
    pub(super) cuts: u64,
    /// Crashes that kept all transactions that were not yet durable, and those that lost some.
    pub(super) kept: u64,
    pub(super) lost: u64,
}

/// The end of a part of the program.
enum Ended {
    Done,
    PowerCut,
    Error(String),
    Panic(String),
}

/// Runs a part of the program.
fn guard(recorder: &Recorder, boot: u64, call: &mut dyn FnMut() -> StepResult) -> Ended {
    let outcome = catch(call);
    // After a power failure the program may return any error, and may panic: its machine is off.
    if recorder.boots() != boot {
        return Ended::PowerCut;
    }
    match outcome {
        Ok(Ok(())) => Ended::Done,
        Ok(Err(error)) => Ended::Error(with_sources(&*error)),
        Err(message) => Ended::Panic(message),
    }
}

/// Returns the text of an error with its sources; many errors repeat their source.
fn with_sources(error: &dyn StdError) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}

/// Returns the number of speeds of the background.
pub(super) fn speeds(plan: &Plan) -> usize {
    let design = plan.opener.design();
    // With `Options::group` a commit of `snapshot` is durable later.
    let is_later = design.durability == Promise::InBackground || design.name == Snapshot::NAME;
    if is_later { 2 } else { 1 }
}

/// Returns whether a recovered ID is at least that of every transaction that was durable. In
/// `snapshot` a transaction that has only protected has an ID and no record.
fn has_exact_ids(plan: &Plan) -> bool {
    plan.opener.design().name != Snapshot::NAME
}

/// Returns the pool's options. `prompt`: each commit is durable when it returns.
fn options(plan: &Plan, recorder: &Recorder, prompt: bool) -> Options {
    let log_bytes = match plan.opener.design().log {
        LogFormat::Slots { .. } => SLOTS_BYTES,
        LogFormat::Groups | LogFormat::None => LOG_BYTES,
    };
    let small = Options::new().bytes(HEAP_BYTES).log_bytes(log_bytes);
    let options = (plan.adjust)(small);
    let options = if prompt { options.durability(Durability::Sync) } else { options };
    options
        .medium(plan.medium)
        .system(recorder.system())
        // Clocks and threads would make replays differ.
        .group_time(Duration::MAX)
        .background(false)
}

struct Quiet;

impl Choose for Quiet {
    fn choose(&mut self, _question: Question) -> usize {
        0
    }
}

/// Creates the pool, runs the set-up, and checks the invariants.
pub(super) fn prepare(plan: &Plan) -> Result<Prepared, Cause> {
    let mut model = Model::default();
    model.calm();
    let recorder = Recorder::new(model, Box::new(Quiet));
    let boot = recorder.boots();
    let failed = |call, error: &dyn StdError| Cause::Pool { call, message: with_sources(error) };
    let process = plan.opener.open(true, options(plan, &recorder, false));
    let process = process.map_err(|error| failed("create", &error))?;
    let picker = Shared::new(Picker::new(Vec::new(), Policy::AllOld));
    let notes = Arc::new(Mutex::new(Notes::default()));
    let world = World::new(&recorder, &picker, &notes);
    let mut state = None;
    let mut call = || {
        let state = state.insert(process.start(&world)?);
        plan.set_up.as_ref().map_or(Ok(()), |set_up| set_up(&mut **state, &world))
    };
    match guard(&recorder, boot, &mut call) {
        Ended::Done | Ended::PowerCut => {}
        Ended::Error(message) => return Err(Cause::Step { name: "set-up".into(), message }),
        Ended::Panic(message) => return Err(Cause::Panic { name: "set-up".into(), message }),
    }
    let mut state = state.expect("the program has started");
    check(plan, &recorder, &mut state, &world)?;
    drop((state, world));
    let committed = process.ids().0;
    process.close().ok_or(Cause::Held)?.map_err(|error| failed("close", &error))?;
    // Every line leaves the cache: nothing of the set-up stays uncertain.
    recorder.rest();
    let notes = std::mem::take(&mut *medium::sync::lock(&notes));
    Ok(Prepared { image: recorder.image(), notes, committed })
}

/// Checks the invariants. A power failure meanwhile is noticed by the caller.
fn check(plan: &Plan, recorder: &Recorder, state: &mut State, world: &World) -> Result<(), Cause> {
    for invariant in &plan.invariants {
        let name = || invariant.name.clone();
        let mut call = || (invariant.call)(&mut **state, world);
        match guard(recorder, recorder.boots(), &mut call) {
            Ended::Done => {}
            Ended::PowerCut => return Ok(()),
            Ended::Error(message) | Ended::Panic(message) => {
                return Err(Cause::Invariant { name: name(), message });
            }
        }
    }
    Ok(())
}

/// Runs one execution of the selected steps.
pub(super) fn execute(
    plan: &Plan,
    selected: &Selected,
    prepared: &Prepared,
    picker: Picker,
) -> Record {
    let picker = Shared::new(picker);
    let model = Model { crashes: plan.crashes, every_word: false, ..Model::default() };
    let recorder = Recorder::from_image(&prepared.image, model, Box::new(picker.clone()));
    let mut execution = Execution {
        plan,
        selected,
        picker,
        notes: Arc::new(Mutex::new(prepared.notes.clone())),
        recorder,
        durable: prepared.committed,
        committed: prepared.committed,
        next: vec![0; selected.len()],
        turn: 0,
        prompt: false,
        record: Record::default(),
    };
    execution.prompt = execution.picker.pick(speeds(plan)) == 1;
    execution.record.cause = execution.boots().err();
    let Execution { picker, recorder, notes, mut record, .. } = execution;
    record.mistaken = medium::sync::lock(&notes).mistaken();
    record.cuts = recorder.cuts();
    picker.with(|picker| {
        record.made = picker.made().to_vec();
        record.events = picker.events().to_vec();
    });
    record
}

struct Execution<'a> {
    plan: &'a Plan,
    selected: &'a Selected,
    picker: Shared,
    recorder: Recorder,
    notes: Arc<Mutex<Notes>>,
    /// The last transaction that every later opening must show.
    durable: u64,
    /// The last transaction that was committed.
    committed: u64,
    /// The next step of each worker, as an index into `selected`.
    next: Vec<usize>,
    /// The worker that ran last.
    turn: usize,
    /// Whether each commit is durable when it returns.
    prompt: bool,
    record: Record,
}

/// The end of a boot.
enum End {
    Closed,
    PowerCut,
}

impl Execution<'_> {
    fn boots(&mut self) -> Result<(), Cause> {
        if self.prompt {
            self.picker.log(format_args!("the background persists each commit at once"));
        }
        loop {
            match self.boot(false)? {
                // After a clean shutdown no crash may change anything.
                End::Closed if self.recorder.may_crash() => {}
                End::Closed => break,
                End::PowerCut => {}
            }
        }
        self.picker.log(format_args!("the pool is opened for the last time"));
        self.recorder.set_model(Model::calm);
        self.boot(true).map(drop)
    }

    /// Runs from opening the pool to its end, or the machine's. `last`: only opens and checks it.
    fn boot(&mut self, last: bool) -> Result<End, Cause> {
        let is_first = self.recorder.boots() == 0 && !last;
        if !last {
            self.picker.log(format_args!("the pool is opened"));
        }
        let (plan, recorder, prompt) = (self.plan, self.recorder.clone(), self.prompt);
        let boot = recorder.boots();
        let mut opened = None;
        let mut open = || {
            opened = Some(plan.opener.open(false, options(plan, &recorder, prompt))?);
            Ok(())
        };
        let process = match self.part(boot, Place::Start, &mut open) {
            Ok(true) => opened.expect("it was opened"),
            Ok(false) => return Ok(End::PowerCut),
            Err(Cause::Step { message, .. } | Cause::Panic { message, .. }) => {
                return Err(Cause::Pool { call: "open", message });
            }
            Err(cause) => return Err(cause),
        };
        let world = World::new(&self.recorder, &self.picker, &self.notes);
        let mut state = None;
        let lived = self.live(&*process, &world, &mut state, (is_first, last));
        self.count(&*process);
        drop(world);
        let is_on = self.recorder.boots() == boot;
        let mut end = || {
            drop(state.take());
            Ok(())
        };
        let dropped = self.part(boot, Place::Close, &mut end);
        if is_on {
            // A destructor of the program may commit and flush.
            self.count(&*process);
        }
        if last || !matches!((&lived, &dropped), (Ok(true), Ok(true))) {
            process.abandon();
            return lived.and(dropped).map(|_| End::PowerCut);
        }
        self.close(boot, process)
    }

    /// Notes the transactions that are committed, and those that are durable.
    fn count(&mut self, process: &dyn Process) {
        let (committed, durable) = process.ids();
        (self.committed, self.durable) = (committed, self.durable.max(durable));
    }

    /// Starts the program, checks it, and runs its steps. Returns false if the power failed.
    fn live(
        &mut self,
        process: &dyn Process,
        world: &World,
        state: &mut Option<State>,
        (is_first, last): (bool, bool),
    ) -> Result<bool, Cause> {
        let boot = self.recorder.boots();
        if !is_first {
            self.recovered(process)?;
        }
        let mut start = || {
            *state = Some(process.start(world)?);
            Ok(())
        };
        if !self.part(boot, Place::Start, &mut start)? {
            return Ok(false);
        }
        let state = state.as_mut().expect("the program has started");
        if !is_first {
            check(self.plan, &self.recorder, state, world)?;
            if self.recorder.boots() != boot {
                return Ok(false);
            }
        }
        if last {
            return Ok(true);
        }
        self.mark(Place::Start);
        self.steps(process, world, state)
    }

    /// Checks the pool that an opening shows.
    fn recovered(&mut self, process: &dyn Process) -> Result<(), Cause> {
        let found = process.ids().0;
        self.picker.log(format_args!("{DETAIL}it has the transactions up to {found}"));
        self.record.states.push(self.recorder.digest());
        if found < self.durable && has_exact_ids(self.plan) {
            return Err(Cause::Lost { found, acknowledged: self.durable });
        }
        if self.committed > self.durable {
            let lost = found < self.committed;
            *(if lost { &mut self.record.lost } else { &mut self.record.kept }) += 1;
        }
        process
            .check_heap()
            .map_err(|damage| Cause::Pool { call: "check_heap", message: damage.to_string() })?;
        // The program may show what it finds.
        (self.committed, self.durable) = (found, found);
        Ok(())
    }

    /// Runs the steps that are left.
    fn steps(
        &mut self,
        process: &dyn Process,
        world: &World,
        state: &mut State,
    ) -> Result<bool, Cause> {
        let boot = self.recorder.boots();
        loop {
            if !self.background(boot, process)? {
                return Ok(false);
            }
            // The worker that ran last comes first, so each other choice is a preemption.
            let workers = self.selected.len();
            let order = (0..workers).map(|after| (self.turn + after) % workers);
            let has_steps = |worker: &usize| self.next[*worker] < self.selected[*worker].len();
            let ready: Vec<usize> = order.filter(has_steps).collect();
            if ready.is_empty() {
                return Ok(true);
            }
            let worker = ready[self.picker.pick(ready.len())];
            self.turn = worker;
            let step = self.selected[worker][self.next[worker]];
            let place = Place::Step { worker, step };
            self.picker.log(format_args!("{}", self.plan.name(place)));
            self.next[worker] += usize::from(!self.plan.repeats);
            let call = &self.plan.workers[worker].steps[step].call;
            let ran = self.part(boot, place, &mut || call(&mut **state, world))?;
            self.durable = self.durable.max(process.ids().1);
            if !ran {
                return Ok(false);
            }
            self.next[worker] += usize::from(self.plan.repeats);
            self.mark(place);
            if self.recorder.may_crash() {
                return Ok(false);
            }
        }
    }

    /// Runs a background step of the pool, or none.
    fn background(&mut self, boot: u64, process: &dyn Process) -> Result<bool, Cause> {
        // The other steps are those that a pool of this size runs.
        let is_run = |step: &&&str| **step != "pace";
        let steps: Vec<&str> = process.background().iter().filter(is_run).copied().collect();
        let Some(number) = self.picker.pick(1 + steps.len()).checked_sub(1) else {
            return Ok(true);
        };
        self.picker.log(format_args!("background step: {}", steps[number]));
        let mut call = || Ok(process.run_background(number).map(drop)?);
        let ran = match self.part(boot, Place::Background(steps[number]), &mut call) {
            Err(Cause::Step { message, .. } | Cause::Panic { message, .. }) => {
                Err(Cause::Pool { call: "step", message })
            }
            ran => ran,
        };
        self.durable = self.durable.max(process.ids().1);
        ran
    }

    fn close(&mut self, boot: u64, process: Box<dyn Process + '_>) -> Result<End, Cause> {
        self.picker.log(format_args!("the pool is closed"));
        let (mut process, mut closed) = (Some(process), None);
        let mut close = || {
            closed = process.take().and_then(|process| process.close());
            Ok(())
        };
        if !self.part(boot, Place::Close, &mut close)? {
            return Ok(End::PowerCut);
        }
        match closed {
            Some(Ok(())) => {
                self.durable = self.committed;
                Ok(End::Closed)
            }
            Some(Err(error)) => Err(Cause::Pool { call: "close", message: error.to_string() }),
            None => Err(Cause::Held),
        }
    }

    /// Runs a part of the program. Returns false if the power failed.
    fn part(
        &mut self,
        boot: u64,
        place: Place,
        call: &mut dyn FnMut() -> StepResult,
    ) -> Result<bool, Cause> {
        let name = || self.plan.name(place);
        match guard(&self.recorder, boot, call) {
            Ended::Done => Ok(true),
            Ended::PowerCut => Ok(false),
            Ended::Error(message) => Err(Cause::Step { name: name(), message }),
            Ended::Panic(message) => Err(Cause::Panic { name: name(), message }),
        }
    }

    fn mark(&mut self, place: Place) {
        let made = self.picker.with(|picker| picker.made().len());
        let notes = medium::sync::lock(&self.notes).len();
        self.record.marks.push(Mark { made, digest: self.recorder.digest(), notes, place });
    }
}
