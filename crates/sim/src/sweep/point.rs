//! One simulation of a sweep: the requested point, and its setup on a machine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::SweepError;
use crate::design::{self, ALL};
use crate::machine::description::Description;
use crate::machine::named::{DescribeError, fnv_1a};
use crate::run::{Setup, WARM_UP};

/// A point's own keys, besides the machine's, in the order in which points vary: the first is
/// slowest.
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

/// A requested point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The workload's name.
    pub workload: String,
    /// The design's name.
    pub design: String,
    /// A built-in machine or the path of a file; by default, the machine of the design's paper.
    pub machine: Option<String>,
    /// Cores that run transactions; by default, all cores of the machine.
    pub cores: Option<usize>,
    /// Measured transactions, over all cores.
    pub transactions: u64,
    /// The seed of the clients.
    pub seed: u64,
    /// A factor for the sizes of the workload's tables.
    pub scale: f64,
    /// The kind of data that transactions write, as the program names it; by default, the
    /// workload's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The percentage of transactions that write; by default, the workload's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_percent: Option<u8>,
    /// The exponent of Zipf's law for random keys; by default, the workload's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zipf: Option<f64>,
    /// Cores work on the same data where each could have its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// See [`Setup::check`].
    pub check: bool,
    /// See [`Setup::power_cuts`].
    pub power_cuts: u64,
    /// Settings of the machine, by key.
    pub settings: BTreeMap<String, String>,
}

impl Asked {
    /// Returns a point of this workload and design, with defaults for everything else.
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

    /// Adds a setting of the machine.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Asked {
        self.settings.insert(key.to_owned(), value.to_string());
        self
    }

    /// Resolves the point on its machine. Relative paths of machine files start at `directory`.
    ///
    /// # Errors
    /// The design or the machine does not exist, or the machine is invalid.
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
        // The machine of the result is the simulated one, with as many cores as run.
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
            violations_max: u64::MAX,
            export_trace: None,
            trace_format: Default::default(),
        };
        let mut point = Point { hash: String::new(), asked: self, setup };
        point.hash = format!("{:016x}", fnv_1a(point.text(program).as_bytes()));
        Ok(point)
    }

    /// Returns all values by key, except for defaults of machine, cores and data.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let keys = KEYS.iter().filter(|key| **key != "settings").map(|key| (*key).to_owned());
        let own = |key: &&String| !KEYS.contains(&key.as_str());
        let keys = keys.chain(self.settings.keys().filter(own).cloned());
        keys.filter_map(|key| self.value(&key).map(|value| (key, value))).collect()
    }

    /// Returns the value of a key.
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

/// Returns the rank of a key in the order of keys.
pub(super) fn place(key: &str) -> usize {
    KEYS.iter().position(|known| *known == key).unwrap_or(KEYS.len())
}

/// A resolved point of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// The point's name: 16 hexadecimal digits.
    pub hash: String,
    /// The requested point.
    pub asked: Asked,
    /// The parameters of its simulation.
    pub setup: Setup,
}

impl Point {
    /// Returns the text that is hashed: everything that a result depends on.
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
        .expect("writing to a string cannot fail");
        let optional = [
            ("data", data.as_ref().map(|data| format!("{data:?}"))),
            ("update_percent", update_percent.map(|percent| percent.to_string())),
            ("zipf", zipf.map(|exponent| format!("{exponent:?}"))),
            ("shared", shared.then(|| "true".to_owned())),
        ];
        for (key, value) in optional {
            text.extend(value.map(|value| format!("{key} = {value}\n")));
        }
        text + &description.text()
    }
}

/// Returns a built-in machine, or else one of a file in this directory.
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
