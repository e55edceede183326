//! `lastword sim`: workloads on a simulated machine; see the `sim` crate and
//! docs/research/simulator.md.

mod merge;
mod rare;
mod sweep;
mod table;

use serde::Serialize;
use sim::design::{ALL, About};
use sim::machine::description::Description;
use sim::machine::named::NAMES;
use sim::report::Outcome;
use sim::{Progress, Setup, WARM_UP};
use workloads::{Kind, Options};

use crate::args::{Format, SimCommand, SimList, SimRun};
use crate::failure::{Failure, Verdict};
use crate::report::{self, json, progress};

/// Progress label of the phase before the power cuts.
const TRANSACTIONS: &str = "transactions measured";

/// Runs the command and prints its report.
///
/// # Errors
/// Invalid parameters, or a simulation that fails.
pub(crate) fn run(command: &SimCommand) -> Result<Verdict, Failure> {
    match command {
        SimCommand::Run(arguments) => run_one(arguments),
        SimCommand::Sweep(arguments) => sweep::run(arguments),
        SimCommand::Merge(arguments) => merge::run(arguments),
        SimCommand::List(arguments) => list(arguments),
    }
}

fn run_one(arguments: &SimRun) -> Result<Verdict, Failure> {
    let setup = setup(arguments)?;
    let options = Options {
        scale: arguments.scale,
        seed: arguments.seed,
        workers: setup.cores,
        update_percent: arguments.update_percent,
        zipf: arguments.zipf,
        low_conflict: !arguments.shared,
        data: arguments.data,
    };
    let kind = Kind::by_name(&arguments.workload.name).expect("the parser knows the names");
    let program = papers::program::Unloaded::new(kind, options)?;
    let shown = progress::bar(TRANSACTIONS, setup.transactions);
    let outcome = sim::run(&setup, &program, &mut |at| match at {
        Progress::Transactions(done) => shown.at(TRANSACTIONS, done, setup.transactions),
        Progress::PowerCuts(done) => shown.at("power cuts", done, setup.power_cuts),
    });
    shown.finish();
    let outcome = outcome?;
    report::complain(&outcome.complaints);
    report::print(&match arguments.output.format {
        Format::Json => json::object(&RunReport::of(arguments, &outcome)),
        Format::Table => table::outcome(&outcome, setup.transactions),
    })?;
    Ok(Verdict::of(outcome.checked != Some(false)))
}

/// The JSON of a run: its results, and the parameters that they depend on besides the machine.
/// Equal parameters give equal results.
#[derive(Serialize)]
struct RunReport<'r> {
    #[serde(flatten)]
    outcome: &'r Outcome,
    /// Version and commit of the simulator.
    program: &'r str,
    /// Minimum number of measured transactions.
    transactions_asked: u64,
    scale: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    update_percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zipf: Option<f64>,
    shared: bool,
}

impl<'r> RunReport<'r> {
    fn of(arguments: &SimRun, outcome: &'r Outcome) -> RunReport<'r> {
        let &SimRun { transactions, scale, data, update_percent, zipf, shared, .. } = arguments;
        let data = data.map(|data| data.to_string());
        let (program, transactions_asked) = (&*papers::points::PROGRAM, transactions);
        RunReport {
            outcome,
            program,
            transactions_asked,
            scale,
            data,
            update_percent,
            zipf,
            shared,
        }
    }
}

/// Returns the configured machine and the work to simulate on it.
pub(crate) fn setup(arguments: &SimRun) -> Result<Setup, Failure> {
    let SimRun { design, transactions, seed, check, power_cuts, export_trace, .. } = arguments;
    let own = ALL.iter().find(|known| known.name == design);
    let own = own.expect("the parser knows the names");
    let machine = arguments.machine.as_deref().unwrap_or(own.machine);
    let mut description = Description::named(machine)?;
    arguments.settings.iter().try_for_each(|setting| description.set(setting))?;
    let has = description.cores;
    let cores = arguments.cores.map_or(has, |cores| usize::try_from(cores).unwrap_or(usize::MAX));
    description.cores = cores;
    // First reject impossible machines: the advice below would be refused for them.
    description.validate()?;
    for setting in &arguments.settings {
        let key = setting.split_once('=').map_or("", |(key, _)| key.trim());
        if !own.goes_by(key) {
            let those = ALL.iter().filter(|other| other.goes_by(key)).map(|other| other.name);
            let others = those.collect::<Vec<_>>().join(", ");
            return Err(Failure::NotOfDesign { design: own.name, key: key.into(), others });
        }
    }
    if cores > has {
        return Err(Failure::TooManyCores { machine: description.name, has, cores });
    }
    Ok(Setup {
        description,
        design: design.clone(),
        cores,
        transactions: *transactions,
        seed: *seed,
        check: *check,
        warm_up_most: WARM_UP * transactions,
        power_cuts: *power_cuts,
        violations_max: u64::MAX,
        export_trace: export_trace.clone(),
        trace_format: arguments.trace_format.into(),
    })
}

/// The report of `lastword sim list`.
#[derive(Debug, Serialize)]
struct List {
    designs: Vec<DesignRow>,
    machines: Vec<MachineRow>,
    workloads: Vec<WorkloadRow>,
}

#[derive(Debug, Serialize)]
struct DesignRow {
    name: &'static str,
    about: &'static str,
    machine: &'static str,
    /// Parameters that can be set.
    parameters: &'static [&'static str],
}

#[derive(Debug, Serialize)]
struct MachineRow {
    name: &'static str,
    hash: String,
    cores: usize,
    clock_ghz: f64,
    llc_bytes: u64,
    nvm_channels: u32,
    nvm_read_ns: f64,
    nvm_write_ns: f64,
}

#[derive(Debug, Serialize)]
struct WorkloadRow {
    name: &'static str,
    about: &'static str,
}

fn list(arguments: &SimList) -> Result<Verdict, Failure> {
    let row = |&About { name, about, machine, parameters }| DesignRow {
        name,
        about,
        machine,
        parameters,
    };
    let list = List {
        designs: ALL.iter().map(row).collect(),
        machines: NAMES.iter().map(|name| machine_row(name)).collect::<Result<_, _>>()?,
        workloads: Kind::all()
            .map(|Kind { name, about, .. }| WorkloadRow { name, about })
            .collect(),
    };
    report::print(&match arguments.output.format {
        Format::Json => json::object(&list),
        Format::Table => table::list(&list),
    })?;
    Ok(Verdict::Held)
}

fn machine_row(name: &'static str) -> Result<MachineRow, Failure> {
    let machine = Description::builtin(name)?;
    Ok(MachineRow {
        name,
        hash: machine.hash(),
        cores: machine.cores,
        clock_ghz: machine.clock_ghz,
        llc_bytes: machine.llc.bytes,
        nvm_channels: machine.nvm.channels,
        nvm_read_ns: machine.nvm.read_miss_ns,
        nvm_write_ns: machine.nvm.write_ns,
    })
}
