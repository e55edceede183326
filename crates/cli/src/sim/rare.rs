//! Rare paths of designs: how often runs took them, and how often power was cut inside them.

use std::collections::BTreeMap;

use sim::machine::description::Description;
use sim::report::Outcome;

use crate::report::table::{grouped, named};

/// Paths that a zero setting disables: path, table and key of the setting.
const SWITCHES: [(&str, &str, &str); 1] =
    [("a thread is suspended in a transaction", "lad", "suspend_cycles")];

/// One path, over any number of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rare {
    /// Times that runs took it.
    taken: u64,
    /// Power cuts inside it.
    pub(super) cut: u64,
    /// Runs in which it is enabled.
    on: u64,
    /// The setting that enables it, if one does.
    switch: Option<String>,
}

impl Rare {
    /// Describes a path that is disabled everywhere, and the setting that enables it.
    pub(super) fn off(&self) -> Option<String> {
        let switch = self.switch.as_ref().filter(|_| self.on == 0)?;
        Some(format!("off: {switch} above 0 switches it on"))
    }

    /// Formats the counts.
    fn shown(&self) -> String {
        match (self.off(), self.taken, self.cut) {
            (Some(off), ..) => off,
            (None, 0, 0) => "never taken: NOT TRIED".into(),
            (None, _, 0) => "never: NOT TRIED".into(),
            (None, _, cut) => grouped(cut),
        }
    }
}

/// Collects all paths of runs with power cuts, by design and name.
pub(super) fn of<'o>(
    outcomes: impl Iterator<Item = &'o Outcome>,
) -> BTreeMap<(&'o str, &'o str), Rare> {
    let mut all: BTreeMap<(&str, &str), Rare> = BTreeMap::new();
    for outcome in outcomes {
        let taken = outcome.rare_paths_taken.as_ref();
        for (path, cut) in outcome.rare_paths_cut.iter().flatten() {
            let rare = all.entry((&outcome.design, path)).or_default();
            rare.cut += cut;
            rare.taken += taken.and_then(|taken| taken.get(path)).copied().unwrap_or_default();
            let switch = switch(path);
            rare.on += u64::from(switch.is_none_or(|switch| is_on(switch, &outcome.description)));
            rare.switch = switch.map(|(table, key)| format!("{table}.{key}"));
        }
    }
    all
}

/// Returns the rows of one run: each path and its counts.
pub(super) fn rows(outcome: &Outcome) -> Vec<(&str, String)> {
    let all = of(std::iter::once(outcome)).into_iter();
    let row = all.map(|((_, path), rare)| {
        let taken = format!(", taken {} times", grouped(rare.taken));
        (path, rare.shown() + if rare.cut > 0 { &taken } else { "" })
    });
    row.collect()
}

/// Formats many runs: a line for each path of each design; `None` without power cuts.
pub(super) fn table<'o>(outcomes: impl Iterator<Item = &'o Outcome>) -> Option<String> {
    let all = of(outcomes);
    let row = |((design, path), rare): (&(&str, &str), &Rare)| {
        [(*design).to_owned(), (*path).to_owned(), grouped(rare.taken), rare.shown()]
    };
    let rows: Vec<[String; 4]> = all.iter().map(row).collect();
    (!rows.is_empty()).then(|| named(["design", "rare path", "taken", "cuts inside"], &rows))
}

fn switch(path: &str) -> Option<(&'static str, &'static str)> {
    let found = SWITCHES.iter().find(|(known, ..)| *known == path);
    found.map(|(_, table, key)| (*table, *key))
}

fn is_on((table, key): (&str, &str), description: &Description) -> bool {
    description.parameter(table, key) != 0.0
}

#[cfg(test)]
mod tests {
    use sim::design::{ALL, Design, Visitor, by_name};

    use super::*;

    /// Collects the rare paths that a design declares.
    struct Paths;

    impl Visitor for Paths {
        type Out = &'static [&'static str];

        fn visit<D: Design>(self) -> Self::Out {
            D::RARE
        }
    }

    #[test]
    fn switches_name_existing_paths_and_settings() {
        for (path, table, key) in SWITCHES {
            let has_it = |name: &str| by_name(name, Paths).unwrap().contains(&path);
            let designs = ALL.iter().filter(|about| has_it(about.name));
            assert!(designs.clone().count() > 0, "{path}");
            for about in designs {
                assert!(about.goes_by(&format!("{table}.{key}")), "{}", about.name);
                let machine = Description::builtin(about.machine).unwrap();
                assert!(machine.parameter(table, key) >= 0.0);
            }
        }
    }
}
