//! Standing of a row: a word and a sign, the same in every output.

use crate::results::{Experiment, Results, Row};

/// Standing of a row against its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Holds,
    DoesNotHold,
    /// Not measured, for the reason of the row.
    CannotBeRun,
    /// Measured, without a target.
    Reported,
}

impl Standing {
    pub(crate) fn of(row: &Row) -> Standing {
        match (row.held, row.ours) {
            (Some(true), _) => Standing::Holds,
            (Some(false), _) => Standing::DoesNotHold,
            (None, Some(_)) => Standing::Reported,
            (None, None) => Standing::CannotBeRun,
        }
    }

    /// Returns the standing of a whole experiment.
    pub(crate) fn of_experiment(experiment: &Experiment, tally: &Tally) -> Standing {
        match experiment.held {
            None if tally.targets == 0 && tally.reported > 0 => Standing::Reported,
            None => Standing::CannotBeRun,
            Some(true) => Standing::Holds,
            Some(false) => Standing::DoesNotHold,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Standing::Holds => "holds",
            Standing::DoesNotHold => "does not hold",
            Standing::CannotBeRun => "cannot be run",
            Standing::Reported => "reported",
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Standing::Holds => "✓",
            Standing::DoesNotHold => "✗",
            Standing::CannotBeRun => "∅",
            Standing::Reported => "·",
        }
    }

    /// Returns its class in the page's style sheet.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Standing::Holds => "holds",
            Standing::DoesNotHold => "fails",
            Standing::CannotBeRun | Standing::Reported => "open",
        }
    }
}

/// Counts of rows by standing.
pub(crate) struct Tally<'a> {
    pub(crate) targets: usize,
    pub(crate) held: usize,
    pub(crate) not_held: Vec<&'a Row>,
    pub(crate) cannot_be_run: usize,
    /// Rows that were measured and have no target.
    pub(crate) reported: usize,
}

impl<'a> Tally<'a> {
    /// Counts the rows of all experiments.
    pub(crate) fn of(results: &'a Results) -> Tally<'a> {
        Tally::of_rows(results.rows.iter())
    }

    pub(crate) fn of_rows(rows: impl Iterator<Item = &'a Row>) -> Tally<'a> {
        let mut tally =
            Tally { targets: 0, held: 0, not_held: vec![], cannot_be_run: 0, reported: 0 };
        for row in rows {
            let standing = Standing::of(row);
            tally.targets += usize::from(row.target.is_some());
            match standing {
                Standing::Holds => tally.held += 1,
                Standing::DoesNotHold => tally.not_held.push(row),
                Standing::CannotBeRun => tally.cannot_be_run += 1,
                Standing::Reported => tally.reported += 1,
            }
        }
        tally
    }

    /// Returns the counts as one line.
    pub(crate) fn sentence(&self) -> String {
        let mut text = format!("{} of {} targets hold", self.held, self.targets);
        if !self.not_held.is_empty() {
            let names: Vec<_> =
                self.not_held.iter().map(|row| format!("{} {}", row.id, row.name)).collect();
            text += &format!("; these do not: {}", names.join(", "));
        }
        if self.cannot_be_run > 0 {
            text += &format!("; {} cannot be run here", self.cannot_be_run);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn targets_are_counted_once() {
        let results = sample::small();
        let tally = Tally::of(&results);
        assert_eq!((tally.targets, tally.held, tally.cannot_be_run), (3, 1, 1));
        assert_eq!(
            tally.sentence(),
            "1 of 3 targets hold; these do not: D2 latency/<b>; 1 cannot be run here"
        );
    }

    #[test]
    fn experiment_without_verdict_has_a_standing() {
        let mut results = sample::small();
        let of = |results: &Results, id: &str| {
            let rows = || results.rows.iter().filter(|row| row.id == id);
            let experiment = results.experiments.iter().find(|one| one.id == id).unwrap();
            Standing::of_experiment(experiment, &Tally::of_rows(rows()))
        };
        assert_eq!(of(&results, "D1"), Standing::Holds);
        assert_eq!(of(&results, "D2"), Standing::DoesNotHold);
        assert_eq!(of(&results, "D3"), Standing::Reported);
        let row = results.rows.iter_mut().find(|row| row.id == "D3").unwrap();
        row.ours = None;
        assert_eq!(of(&results, "D3"), Standing::CannotBeRun);
    }
}
