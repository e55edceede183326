//! How a row stands: a word and a sign, the same in every output.

use super::results::{Experiment, Results, Row};

/// How a row stands against its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Holds,
    DoesNotHold,
    /// Nothing was measured, for the reason that is given.
    CannotBeRun,
    /// It was measured, and has no mark.
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

    /// Of a whole experiment.
    pub(crate) fn of_experiment(experiment: &Experiment, tally: &Tally) -> Standing {
        match experiment.held {
            None if tally.marks == 0 && tally.reported > 0 => Standing::Reported,
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

    /// Its name in the page's style sheet.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Standing::Holds => "holds",
            Standing::DoesNotHold => "fails",
            Standing::CannotBeRun | Standing::Reported => "open",
        }
    }
}

/// How many marks hold.
pub(crate) struct Tally<'a> {
    pub(crate) marks: usize,
    pub(crate) held: usize,
    pub(crate) not_held: Vec<&'a Row>,
    pub(crate) cannot_be_run: usize,
    /// Rows that were measured, and have no mark.
    pub(crate) reported: usize,
}

impl<'a> Tally<'a> {
    /// Of all experiments.
    pub(crate) fn of(results: &'a Results) -> Tally<'a> {
        Tally::of_rows(results.rows.iter())
    }

    pub(crate) fn of_rows(rows: impl Iterator<Item = &'a Row>) -> Tally<'a> {
        let mut tally =
            Tally { marks: 0, held: 0, not_held: vec![], cannot_be_run: 0, reported: 0 };
        for row in rows {
            let standing = Standing::of(row);
            tally.marks += usize::from(row.mark.is_some());
            match standing {
                Standing::Holds => tally.held += 1,
                Standing::DoesNotHold => tally.not_held.push(row),
                Standing::CannotBeRun => tally.cannot_be_run += 1,
                Standing::Reported => tally.reported += 1,
            }
        }
        tally
    }

    /// In one line.
    pub(crate) fn sentence(&self) -> String {
        let mut text = format!("{} of {} marks hold", self.held, self.marks);
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
    use super::super::sample;
    use super::*;

    #[test]
    fn every_mark_is_counted_once() {
        let results = sample::small();
        let tally = Tally::of(&results);
        assert_eq!((tally.marks, tally.held, tally.cannot_be_run), (3, 1, 1));
        assert_eq!(
            tally.sentence(),
            "1 of 3 marks hold; these do not: D2 latency/<b>; 1 cannot be run here"
        );
    }

    #[test]
    fn an_experiment_that_nobody_judged_says_why() {
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
