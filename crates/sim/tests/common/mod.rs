//! Workloads as programs of the machine.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part")]

pub(crate) mod pages;
pub(crate) mod peeping;

use sim::machine::description::Description;
use sim::program::{Client, Ended, Loaded, Program};
use sim::report::Outcome;
use sim::{Error, Setup};
use words::{Erased, ErasedTx, Stop};
use workloads::{AnyClient, AnyWorkload, Kind, Options};

/// A workload of this name and size.
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) options: Options,
}

impl Named {
    fn kind(&self) -> Kind {
        Kind::by_name(self.name).unwrap()
    }
}

impl Program for Named {
    fn name(&self) -> &str {
        self.name
    }

    fn heap_bytes(&self) -> u64 {
        self.kind().heap_bytes(&self.options)
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let options = Options { workers: cores, ..self.options };
        let workload = self.kind().load(&mut Erased::any(worker), &options)?;
        Ok(Box::new(Works { workload, options }))
    }
}

struct Works {
    workload: AnyWorkload,
    options: Options,
}

struct Worker {
    workload: AnyWorkload,
    client: AnyClient,
}

impl Loaded for Works {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let mut client = self.workload.client(core, self.options.seed);
        self.workload.tune(&mut client, &self.options);
        Box::new(Worker { workload: self.workload.clone(), client })
    }

    fn check(&self, worker: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        let found = self.workload.check(&mut Erased::any(worker))?;
        Ok(found.iter().map(|violation| violation.to_string()).collect())
    }
}

impl Client for Worker {
    fn next(&mut self) {
        self.workload.next(&mut self.client);
    }

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        self.workload.run(&self.client, tx)
    }

    fn gives_up(&self) -> bool {
        self.workload.gives_up(&self.client)
    }
}

/// Returns a simulation on a built-in machine, with all checks.
pub(crate) fn setup(machine: &str, design: &str, cores: usize, transactions: u64) -> Setup {
    let description = Description::builtin(machine).unwrap();
    let design = design.to_owned();
    Setup {
        description,
        design,
        cores,
        transactions,
        seed: 1,
        check: true,
        warm_up_most: 4 * transactions,
        power_cuts: 0,
        violations_max: u64::MAX,
        export_trace: None,
        trace_format: Default::default(),
    }
}

/// Runs a workload on a built-in machine, with all checks.
pub(crate) fn simulate(name: &'static str, scale: f64, setup: &Setup) -> Result<Outcome, Error> {
    match name {
        "pages" => pages::run(1, false, setup),
        "pages-4" => pages::run(4, false, setup),
        "pages-shared" => pages::run(1, true, setup),
        "peeping" => sim::run(setup, &peeping::ONCE, &mut |_| {}),
        "peeping-again" => sim::run(setup, &peeping::AGAIN, &mut |_| {}),
        name => simulate_with(name, Options { scale, ..Options::default() }, setup),
    }
}

/// The same with the simulation's seed for the clients.
pub(crate) fn simulate_seeded(
    name: &'static str,
    scale: f64,
    setup: &Setup,
) -> Result<Outcome, Error> {
    simulate_with(name, Options { scale, seed: setup.seed, ..Options::default() }, setup)
}

/// The same with a design of the test.
pub(crate) fn simulate_design<D: sim::design::Design>(
    name: &'static str,
    scale: f64,
    setup: &Setup,
) -> Result<Outcome, Error> {
    let options = Options { scale, ..Options::default() };
    sim::run_design::<D>(setup, &Named { name, options }, &mut |_| {})
}

/// The same with these options, and one worker per core.
pub(crate) fn simulate_with(
    name: &'static str,
    options: Options,
    setup: &Setup,
) -> Result<Outcome, Error> {
    let options = Options { workers: setup.cores, ..options };
    sim::run(setup, &Named { name, options }, &mut |_| {})
}
