//! One simulation: what is asked for, and what that is on its machine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::SweepError;
use crate::design::{self, ALL};
use crate::machine::describe::{DescribeError, fnv_1a};
use crate::machine::description::Description;
use crate::run::{Setup, WARM_UP};

/// The keys that are not the machine's, in the order in which points vary: the first slowest.
pub(super) const KEYS: [&str; 14] = [
    "workload",
    "design",
    "machine",
    "cores",
    "transactions",
    "seed",
    "scale",
    "data",
    "update_percent",
    "zipf",
    "shared",
    "check",
    "power_cuts",
    "settings",
];

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The workload's name.
    pub workload: String,
    /// The design's name.
    pub design: String,
    /// A built-in machine or the path of a file; none: that of the design's paper.
    pub machine: Option<String>,
    /// Cores that run transactions; none: all that the machine has.
    pub cores: Option<usize>,
    /// Transactions that are measured, of all cores.
    pub transactions: u64,
    /// Of the clients.
    pub seed: u64,
    /// Multiplies the sizes of the workload's tables.
    pub scale: f64,
    /// What its transactions write, in the program's words; none: the workload's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Share of the transactions that write, of 100; none: the workload's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_percent: Option<u8>,
    /// Exponent of Zipf's law by which keys are drawn; none: the workload's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zipf: Option<f64>,
    /// Whether cores work on the same data where each could have its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// See [`Setup::check`].
    pub check: bool,
    /// See [`Setup::power_cuts`].
    pub power_cuts: u64,
    /// Numbers of the machine, by key.
    pub settings: BTreeMap<String, String>,
}

impl Asked {
    /// This workload on this design, everything else as it is when nobody says anything.
    pub fn new(workload: impl Into<String>, design: impl Into<String>) -> Asked {
        Asked {
            workload: workload.into(),
            design: design.into(),
            machine: None,
            cores: None,
            transactions: 10_000,
            seed: 1,
            scale: 1.0,
            data: None,
            update_percent: None,
            zipf: None,
            shared: false,
            check: false,
            power_cuts: 0,
            settings: BTreeMap::new(),
        }
    }

    /// The same with a number of the machine changed.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Asked {
        self.settings.insert(key.to_owned(), value.to_string());
        self
    }

    /// The point on its machine. A machine that is a file lies in `directory`.
    ///
    /// # Errors
    /// There is no such design or machine, or the machine cannot be.
    pub fn resolve(self, directory: &Path, program: &str) -> Result<Point, SweepError> {
        let own = ALL.iter().find(|known| known.name == self.design);
        let own = own.ok_or_else(|| SweepError::NoDesign {
            name: self.design.clone(),
            known: design::names(),
        })?;
        let mut description = machine(self.machine.as_deref().unwrap_or(own.machine), directory)?;
        for (key, value) in &self.settings {
            description.set(&format!("{key}={value}"))?;
        }
        let (has, machine) = (description.cores, description.name.clone());
        let cores = self.cores.unwrap_or(has);
        if cores > has {
            return Err(SweepError::TooManyCores { machine, has, cores });
        }
        // As it is simulated, and as the result says.
        description.cores = cores;
        description.validate()?;
        let setup = Setup {
            description,
            design: self.design.clone(),
            cores,
            transactions: self.transactions,
            seed: self.seed,
            check: self.check,
            warm_up_most: WARM_UP * self.transactions,
            power_cuts: self.power_cuts,
            export_trace: None,
        };
        let mut point = Point { hash: String::new(), asked: self, setup };
        point.hash = format!("{:016x}", fnv_1a(point.text(program).as_bytes()));
        Ok(point)
    }

    /// All that is asked for, by key; without what nobody said of machine, cores and data.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let keys = KEYS.iter().filter(|key| **key != "settings").map(|key| (*key).to_owned());
        let own = |key: &&String| !KEYS.contains(&key.as_str());
        let keys = keys.chain(self.settings.keys().filter(own).cloned());
        keys.filter_map(|key| self.value(&key).map(|value| (key, value))).collect()
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<String> {
        match key {
            "workload" => Some(self.workload.clone()),
            "design" => Some(self.design.clone()),
            "machine" => self.machine.clone(),
            "cores" => {
                let cores = self.cores.map(|cores| cores.to_string());
                cores.or_else(|| self.settings.get("cores").cloned())
            }
            "transactions" => Some(self.transactions.to_string()),
            "seed" => Some(self.seed.to_string()),
            "scale" => Some(self.scale.to_string()),
            "data" => self.data.clone(),
            "update_percent" => self.update_percent.map(|percent| percent.to_string()),
            "zipf" => self.zipf.map(|exponent| exponent.to_string()),
            "shared" => self.shared.then(|| "true".to_owned()),
            "check" => Some(self.check.to_string()),
            "power_cuts" => Some(self.power_cuts.to_string()),
            key => self.settings.get(key).cloned(),
        }
    }
}

/// Where a key stands among others.
pub(super) fn place(key: &str) -> usize {
    KEYS.iter().position(|known| *known == key).unwrap_or(KEYS.len())
}

/// One simulation of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its name: 16 hexadecimal digits.
    pub hash: String,
    /// What was asked for.
    pub asked: Asked,
    /// What that is.
    pub setup: Setup,
}

impl Point {
    /// What the hash is over: everything that a result depends on.
    pub fn text(&self, program: &str) -> String {
        let Asked { workload, scale, data, update_percent, zipf, shared, .. } = &self.asked;
        let Setup { description, design, cores, transactions, seed, check, power_cuts, .. } =
            &self.setup;
        let mut text = String::from("lastword point 1\n");
        write!(
            text,
            "program = {program:?}\nworkload = {workload:?}\ndesign = {design:?}\n\
             cores = {cores}\ntransactions = {transactions}\nseed = {seed}\nscale = {scale:?}\n\
             check = {check}\npower_cuts = {power_cuts}\n"
        )
        .expect("a string takes everything that is written");
        let said = [
            ("data", data.as_ref().map(|data| format!("{data:?}"))),
            ("update_percent", update_percent.map(|percent| percent.to_string())),
            ("zipf", zipf.map(|exponent| format!("{exponent:?}"))),
            ("shared", shared.then(|| "true".to_owned())),
        ];
        for (key, value) in said {
            text.extend(value.map(|value| format!("{key} = {value}\n")));
        }
        text + &description.text()
    }
}

/// A built-in machine, else one of a file in this directory.
fn machine(name: &str, directory: &Path) -> Result<Description, DescribeError> {
    match Description::builtin(name) {
        Err(DescribeError::UnknownMachine { .. }) => {
            let path = directory.join(name);
            match path.exists() || name.contains(['/', '.']) {
                true => Description::from_file(&path),
                false => Description::builtin(name),
            }
        }
        machine => machine,
    }
}
