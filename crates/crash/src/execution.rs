//! One execution of a case: boot after boot, until it ends in a clean shutdown or a violation.

mod moves;
mod noting;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use faults::mutants::{by_name, inject};
use faults::recording::{Choose, Image, Model, PowerCut, Question, Recorder};
use lastword::{AnyDesign, AnyPool, AnyWorker, Error, LogFormat, MediumError};

use noting::Noting;

use crate::case::{LOG_GROWTHS, Sizes};
use crate::designs;
use crate::oracle::{Left, States, Words};
use crate::picker::Shared;
use crate::workload::{Live, Scenario};
use crate::{Case, Picker, Violation, workload};

const PATH: &str = "/pool";

/// The number of the worker that loads.
const LOADER: usize = usize::MAX;

/// The initial state of a case, made once: the disk, and the content of the pool.
#[derive(Clone, Debug)]
pub struct Prepared {
    design: &'static AnyDesign,
    image: Image,
    start: Option<(u64, Words)>,
}

/// Choices without crashes.
struct Quiet;

impl Choose for Quiet {
    fn choose(&mut self, _question: Question) -> usize {
        0
    }
}

/// The outcomes of crashes for transactions that were committed and not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Crashes that kept all.
    pub all_present: u64,
    /// Crashes that lost a part.
    pub some_lost: u64,
    /// Crashes that lost all, of at least one.
    pub none: u64,
}

/// The observations of an execution.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The outcomes of its crashes.
    pub outcome: Outcome,
    /// Successful openings after a crash.
    pub recoveries: u64,
    /// Crashes while the pool was being opened.
    pub nested_crashes: u64,
    /// Calls that failed.
    pub faults: u64,
    /// Transactions that met a full heap.
    pub met_full: u64,
    /// Those of them whose body ended well after the pool had reclaimed memory.
    pub served: u64,
    /// Hashes of the durable images after recoveries; equal hashes mean equal images.
    pub images: Vec<u64>,
    /// The violation that ended it.
    pub violation: Option<Violation>,
}

struct Prepare<'a>(&'a Case, &'static AnyDesign);

impl workload::Visitor for Prepare<'_> {
    type Out = Result<Prepared, Error>;

    fn visit<S: Scenario>(self) -> Self::Out {
        let Prepare(case, design) = self;
        let mut model = case.model;
        model.calm();
        let recorder = Recorder::new(model, Box::new(Quiet));
        if case.create {
            return Ok(Prepared { design, image: recorder.image(), start: None });
        }
        let options = case.options(design, Sizes::of::<S>()).system(recorder.system());
        let pool = design.create(Path::new(PATH), options)?;
        S::load(&mut pool.any_worker()?.erased())?;
        let start = Some((pool.committed_id().0, Words::observe(&*pool, &Words::default())));
        pool.close()?;
        // Make the prepared pool fully durable: no write of it stays uncertain.
        recorder.rest();
        Ok(Prepared { design, image: recorder.image(), start })
    }
}

impl Prepared {
    /// Prepares a case; `None` when it names an unknown design or workload.
    pub fn new(case: &Case) -> Option<Result<Prepared, Error>> {
        workload::by_name(&case.workload, Prepare(case, designs::by_name(&case.design)?))
    }

    /// Runs one execution; returns its report, and the picker with the choices made.
    pub fn run(&self, case: &Case, picker: Picker) -> (Report, Picker) {
        let picker = Shared::new(picker);
        let run = Run { case, prepared: self, picker: &picker };
        let report = workload::by_name(&case.workload, run);
        let report = report.expect("a case that was prepared can be run");
        (report, picker.with(Clone::clone))
    }
}

#[derive(Clone, Copy)]
struct Run<'a> {
    case: &'a Case,
    prepared: &'a Prepared,
    picker: &'a Shared,
}

impl workload::Visitor for Run<'_> {
    type Out = Report;

    fn visit<S: Scenario>(self) -> Report {
        let Run { case, prepared, picker } = self;
        let named = |name: &String| by_name(name).expect("this build has the mutant");
        let injected = inject(case.inject.as_ref().map(named));
        let recorder = Recorder::from_image(&prepared.image, case.model, Box::new(picker.clone()));
        let mut execution = Execution {
            case,
            first: prepared.design,
            design: prepared.design,
            picker,
            recorder,
            states: None,
            made: prepared.start.is_some(),
            transactions: 0,
            moves: 0,
            turn: LOADER,
            is_full: false,
            // The oracle of several workers' groups does not know what a full heap reclaims.
            workers: if S::FILLS && case.group > 0 { 1 } else { case.workers },
            faults: 0,
            backups: Vec::new(),
            heap_bytes: 0,
            log_bytes: 0,
            log_bytes_max: S::LOG_BYTES << LOG_GROWTHS,
            report: Report::default(),
        };
        execution.states =
            prepared.start.clone().map(|(id, words)| execution.states_of::<S>(id, words));
        execution.report.violation = execution.boots::<S>().err();
        execution.report.faults = execution.recorder.faults();
        drop(injected);
        execution.report
    }
}

/// The state of an execution.
struct Execution<'a> {
    case: &'a Case,
    /// The case's design, and the one of the current boot.
    first: &'static AnyDesign,
    design: &'static AnyDesign,
    picker: &'a Shared,
    recorder: Recorder,
    /// `None` until the pool has been open once.
    states: Option<States>,
    /// Whether the pool was created, so that it must exist.
    made: bool,
    transactions: usize,
    moves: usize,
    /// The worker that runs next.
    turn: usize,
    /// Number of workers.
    workers: usize,
    /// Whether the last attempt has met a full heap, so that the pool reclaims memory now.
    is_full: bool,
    /// Failed calls when the pool was opened. Only a later failure excuses an error.
    faults: u64,
    backups: Vec<Backup>,
    /// The size that the heap has had durably.
    heap_bytes: u64,
    /// The size that the log has had durably, and the size up to which it doubles.
    log_bytes: u64,
    log_bytes_max: u64,
    report: Report,
}

/// A copy of the pool, and the state that it must have.
struct Backup {
    path: PathBuf,
    id: u64,
    words: Words,
    /// Whether the call has returned, so that the copy must exist.
    is_done: bool,
}

/// The end of a boot.
enum End {
    /// The pool was closed.
    Closed,
    /// The power failed.
    PowerCut,
    /// A call of the system failed: the program ends, and is started again.
    Broken,
}

/// The result of opening the pool.
enum Opened {
    Pool(Box<dyn AnyPool>),
    /// The power failed.
    PowerCut,
    /// A call failed, as injected.
    Broken,
}

impl Execution<'_> {
    /// Runs boot after boot.
    fn boots<S: Scenario>(&mut self) -> Result<(), Violation> {
        let mut cuts = 0;
        loop {
            let after_crash = self.recorder.cuts() > cuts;
            cuts = self.recorder.cuts();
            if self.case.switch {
                self.switch();
            }
            match self.boot::<S>(after_crash)? {
                // After a clean shutdown no crash may change anything.
                End::Closed if self.recorder.may_crash() => {}
                End::Closed => break,
                End::PowerCut => {}
                End::Broken => self.recorder.exit(),
            }
        }
        // A last opening without faults: everything is present, and recovery has no work.
        self.picker.log(format_args!("the pool is opened for the last time"));
        self.recorder.set_model(Model::calm);
        self.design = self.first;
        let Opened::Pool(pool) = self.open::<S>(false)? else {
            return Err(Violation::Vanished);
        };
        self.check_end::<S>(&*pool)?;
        self.use_again::<S>(&*pool)?;
        self.check_backups::<S>()
    }

    /// Opens every copy and checks that it has the state of its call. A copy may be missing only if
    /// its call did not return.
    fn check_backups<S: Scenario>(&mut self) -> Result<(), Violation> {
        for Backup { path, id, words, is_done } in std::mem::take(&mut self.backups) {
            self.picker.log(format_args!("{} is opened", path.display()));
            let options = self.case.options(self.design, Sizes::of::<S>());
            let options = options.system(self.recorder.system());
            let copy = match self.design.open(&path, options) {
                Ok(copy) => copy,
                Err(Error::Medium(MediumError::NotFound { .. })) if !is_done => continue,
                Err(error) => return Err(Violation::Refused { error: error.to_string() }),
            };
            let found = copy.committed_id().0;
            if found != id {
                return Err(Violation::Lost { found, acknowledged: id });
            }
            let there = Words::observe(&*copy, &words);
            if let Some(word) = words.differences(&there).next() {
                let (expected, value) = (words.at(word), there.at(word));
                return Err(Violation::Torn { found, word, expected, value });
            }
            copy.check_heap().map_err(|damage| Violation::Heap { damage: damage.to_string() })?;
        }
        Ok(())
    }

    /// Picks any design for the next boot: it must recover the state that the last one left.
    fn switch(&mut self) {
        let mut designs = designs::all();
        let design = designs.nth(self.picker.pick(designs::all().count()));
        self.design = design.expect("the picker stays below the count");
        self.picker.log(format_args!("under {}", self.design.type_name));
    }

    fn check_end<S: Scenario>(&mut self, pool: &dyn AnyPool) -> Result<(), Violation> {
        let (found, states) = (pool.committed_id().0, self.states.as_ref());
        let committed = states.map_or(0, States::committed);
        if found < committed {
            return Err(Violation::Lost { found, acknowledged: committed });
        }
        self.recovered::<S>(pool).map(drop)
    }

    /// Uses the pool once more: not only its words must be right, it must also work.
    fn use_again<S: Scenario>(&mut self, pool: &dyn AnyPool) -> Result<(), Violation> {
        if !S::FILLS || self.states.is_none() {
            return Ok(());
        }
        let violation = |error: Error| match self.broken("end", &error) {
            Stopped::Broken => Violation::Failed { operation: "end", error: error.to_string() },
            Stopped::Violation(violation) => violation,
        };
        let mut worker = pool.any_worker().map_err(violation)?;
        let Some(scenario) = S::open(&mut worker.erased()).map_err(violation)? else {
            return Ok(());
        };
        let check = |worker: &mut dyn AnyWorker| match self.check(&scenario, pool, worker) {
            Ok(()) | Err(Stopped::Broken) => Ok(()),
            Err(Stopped::Violation(violation)) => Err(violation),
        };
        check(&mut *worker)?;
        scenario.end(&mut worker.erased()).map_err(violation)?;
        check(&mut *worker)
    }

    /// Runs from opening the pool to its end, or the machine's.
    fn boot<S: Scenario>(&mut self, after_crash: bool) -> Result<End, Violation> {
        self.picker.log(format_args!("the pool is opened"));
        let pool = match self.open::<S>(after_crash)? {
            Opened::PowerCut => return Ok(End::PowerCut),
            Opened::Broken => return Ok(End::Broken),
            Opened::Pool(pool) => pool,
        };
        let boots = self.recorder.boots();
        let lived = catch_unwind(AssertUnwindSafe(|| {
            let scenario = self.scenario::<S>(&*pool)?;
            let workers = (0..self.workers).map(|_| pool.any_worker());
            let workers: Result<Vec<_>, _> = workers.collect();
            let workers = workers.map_err(|error| self.broken("worker", &error))?;
            self.live(&*pool, &scenario, workers, boots)
        }));
        // A transaction may have committed before the power failed while it was made durable, and
        // another thread may have acknowledged it by then.
        if std::mem::take(&mut self.is_full) {
            self.states().cut_while_reclaiming(pool.committed_id().0);
        } else {
            self.note_commit(&*pool);
        }
        self.states().acknowledge(pool.durable_id().0);
        let end = match lived {
            Ok(Ok(())) => return self.close(pool),
            Ok(Err(Stopped::Broken)) => Ok(End::Broken),
            Ok(Err(Stopped::Violation(violation))) => Err(violation),
            Err(panic) => self.caught(panic),
        };
        pool.abandon();
        end
    }

    fn close(&mut self, pool: Box<dyn AnyPool>) -> Result<End, Violation> {
        self.picker.log(format_args!("the pool is closed"));
        let committed = pool.committed_id().0;
        match catch_unwind(AssertUnwindSafe(|| pool.close())) {
            Ok(Ok(())) => {
                self.states.iter_mut().for_each(|states| states.acknowledge(committed));
                Ok(End::Closed)
            }
            Ok(Err(error)) => match self.broken("close", &error) {
                Stopped::Broken => Ok(End::Broken),
                Stopped::Violation(violation) => Err(violation),
            },
            Err(panic) => self.caught(panic),
        }
    }

    /// Turns a power failure into its end; any other panic is a violation.
    fn caught(&self, panic: Box<dyn std::any::Any + Send>) -> Result<End, Violation> {
        if panic.is::<PowerCut>() {
            return Ok(End::PowerCut);
        }
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Violation::Panic { message: text.unwrap_or("something").to_owned() })
    }

    /// Accepts an error after an injected fault; any other error is a violation.
    fn broken(&self, operation: &'static str, error: &Error) -> Stopped {
        if self.recorder.faults() > self.faults {
            return Stopped::Broken;
        }
        Stopped::Violation(Violation::Failed { operation, error: error.to_string() })
    }

    /// Opens the pool, or creates it.
    fn open<S: Scenario>(&mut self, after_crash: bool) -> Result<Opened, Violation> {
        let options =
            || self.case.options(self.design, Sizes::of::<S>()).system(self.recorder.system());
        let (made, design, path) = (self.made, self.design, Path::new(PATH));
        self.faults = self.recorder.faults();
        let opened = catch_unwind(AssertUnwindSafe(|| match design.open(path, options()) {
            Err(error) if is_missing(&error) && !made => design.create(path, options()),
            opened => opened,
        }));
        let pool = match opened {
            Ok(Ok(pool)) => pool,
            Ok(Err(error)) if is_missing(&error) && made => return Err(Violation::Vanished),
            Ok(Err(error)) => match self.broken("open", &error) {
                Stopped::Broken => return Ok(Opened::Broken),
                Stopped::Violation(_) => {
                    return Err(Violation::Refused { error: error.to_string() });
                }
            },
            Err(panic) => {
                self.caught(panic)?;
                self.report.nested_crashes += 1;
                return Ok(Opened::PowerCut);
            }
        };
        self.made = true;
        if after_crash {
            self.report.recoveries += 1;
            self.report.images.push(self.recorder.digest());
        }
        // Close it explicitly below: a drop would close it too, and the power could fail in it.
        let recovered = self.recovered::<S>(&*pool).map(|left| {
            if after_crash {
                self.count_outcome(left);
            }
        });
        match recovered {
            // The state that was shown must survive all further crashes.
            Ok(()) if self.recorder.may_crash() => {
                pool.abandon();
                Ok(Opened::PowerCut)
            }
            Ok(()) => Ok(Opened::Pool(pool)),
            Err(violation) => {
                pool.abandon();
                Err(violation)
            }
        }
    }

    fn count_outcome(&mut self, left: Left) {
        let outcome = &mut self.report.outcome;
        *match left {
            Left { of: 0, .. } => return, // no transaction was at risk
            Left { there: 0, .. } => &mut outcome.none,
            Left { there, of } if there == of => &mut outcome.all_present,
            _ => &mut outcome.some_lost,
        } += 1;
    }

    /// Checks the state that an opening shows.
    fn recovered<S: Scenario>(&mut self, pool: &dyn AnyPool) -> Result<Left, Violation> {
        let found = pool.committed_id().0;
        self.picker.log(format_args!("  it shows the transactions up to {found}"));
        let words = self.words_of(pool);
        let left = match &mut self.states {
            Some(states) => states.recovered(found, words)?,
            None => {
                self.states = Some(self.states_of::<S>(found, words));
                Left::default()
            }
        };
        check_order(pool)?;
        pool.check_heap().map_err(|damage| Violation::Heap { damage: damage.to_string() })?;
        let (had, has) = (self.heap_bytes, pool.info().heap_bytes);
        if has < had {
            let damage = format!("it had grown to {had} bytes, and has {has}");
            return Err(Violation::Heap { damage });
        }
        let (had, has) = (self.log_bytes, pool.info().log_bytes);
        if has < had {
            let damage = format!("its log had grown to {had} bytes, and has {has}");
            return Err(Violation::Heap { damage });
        }
        Ok(left)
    }

    /// Returns the workload, loaded if necessary, and checked.
    fn scenario<S: Scenario>(&mut self, pool: &dyn AnyPool) -> Result<S, Stopped> {
        let mut worker = pool.any_worker().map_err(|error| self.broken("worker", &error))?;
        self.turn = LOADER;
        loop {
            let opened =
                S::open(&mut worker.erased()).map_err(|error| self.broken("look", &error))?;
            if let Some(scenario) = opened {
                self.check(&scenario, pool, &mut *worker)?;
                return Ok(scenario);
            }
            let loaded = S::load(&mut Noting { worker: &mut *worker, pool, execution: self });
            loaded.map_err(|error| self.broken("load", &error))?;
        }
    }

    /// Checks the workload's invariants, and that the heap holds its data and nothing else.
    fn check<S: Scenario>(
        &self,
        scenario: &S,
        pool: &dyn AnyPool,
        worker: &mut dyn AnyWorker,
    ) -> Result<(), Stopped> {
        let wrong = scenario.check(&mut worker.erased());
        let wrong = wrong.map_err(|error| self.broken("check", &error))?;
        if let Some(wrong) = wrong.first() {
            return Err(Violation::Workload { wrong: wrong.clone() }.into());
        }
        let live = scenario.live(&mut worker.erased());
        let Some(live) = live.map_err(|error| self.broken("check", &error))? else {
            return Ok(());
        };
        let usage = pool.check_heap();
        let usage = usage.map_err(|damage| Violation::Heap { damage: damage.to_string() })?;
        let found = Live::from(&usage);
        if found == live {
            return Ok(());
        }
        let wrong = format!("the heap has {found:?}, the workload {live:?}");
        Err(Violation::Workload { wrong }.into())
    }

    fn note_commit(&mut self, pool: &dyn AnyPool) {
        let (grouped, apart) = (self.is_grouped(), self.is_apart());
        if let Some(states) = &mut self.states {
            let (id, last) = (pool.committed_id().0, states.last_words().clone());
            let words = || Words::observe(pool, &last);
            match (grouped, apart) {
                (_, true) => states.commit_apart(self.turn, id, words()),
                (true, false) => states.commit_again(id, words),
                (false, false) => states.commit(id, words),
            }
        }
    }

    /// Makes the oracle of an initial state.
    fn states_of<S: Scenario>(&self, id: u64, words: Words) -> States {
        let isolates_objects =
            |design: &AnyDesign| design.log == LogFormat::Slots { grouped: true };
        let is_possible = self.case.switch || isolates_objects(self.first);
        States::new(id, words).by_meaning(S::FILLS && is_possible)
    }

    /// Returns whether a worker's transactions become durable in groups.
    fn is_grouped(&self) -> bool {
        self.case.group > 0 && self.design.log == LogFormat::Slots { grouped: true }
    }

    /// Returns whether each of several workers has its own groups.
    fn is_apart(&self) -> bool {
        self.is_grouped() && self.workers > 1
    }

    /// Copies the words of an open pool's heap.
    fn words_of(&self, pool: &dyn AnyPool) -> Words {
        let like = self.states.as_ref().map(States::last_words).cloned().unwrap_or_default();
        Words::observe(pool, &like)
    }

    fn states(&mut self) -> &mut States {
        self.states.as_mut().expect("the pool has been open")
    }
}

/// The reason to stop a boot.
enum Stopped {
    /// A call of the system failed, as injected.
    Broken,
    Violation(Violation),
}

impl From<Violation> for Stopped {
    fn from(violation: Violation) -> Stopped {
        Stopped::Violation(violation)
    }
}

fn check_order(pool: &dyn AnyPool) -> Result<(), Violation> {
    let ids = [pool.reproduced_id().0, pool.durable_id().0, pool.committed_id().0];
    if ids.is_sorted() { Ok(()) } else { Err(Violation::Order { ids }) }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Medium(MediumError::NotFound { path }) if path == Path::new(PATH))
}
