//! Power cuts of a finished run, in both of its forms, and of a run that continues after recovery.

use std::collections::BTreeMap;

use super::{OnProgress, Origin, Progress, Ran, Setup, Start, rest};
use crate::crash;
use crate::design::Design;
use crate::error::Error;
use crate::machine::Machine;
use crate::persist::{Persistent, Trace};
use crate::report::Outcome;

/// The divisors of the transactions and of the power cuts of a run that continues after recovery.
const AFTER: (u64, u64) = (4, 4);

/// The result of a run that continues after recovery.
#[derive(Default)]
struct After {
    report: crash::Report,
    complaints: Vec<String>,
    isolation_hits: u64,
    taken: BTreeMap<String, u64>,
}

impl Start<'_> {
    /// Makes the requested power cuts and adds their results to the outcome.
    pub(super) fn cut_all<D: Design>(
        &mut self,
        ran: Ran<D>,
        outcome: &mut Outcome,
        progress: OnProgress<'_>,
    ) -> Result<(), Error> {
        let Ran { machine, window, before } = ran;
        outcome.rare_paths_taken = Some(taken(&machine));
        let on_cut = &mut |done| progress(Progress::PowerCuts(done));
        let (mut report, left) = self.cut(&machine, before, false, on_cut)?;
        drop(machine);
        if report.violations_total >= self.setup.violations_max {
            outcome.power_cuts = Some(report.cuts);
            note(report, outcome);
            return Ok(());
        }
        let on_done = &mut |done| progress(Progress::Transactions(done));
        let Ran { machine, window: tagged, before } = self.run::<D>(true, on_done)?;
        if tagged.cycles() != window.cycles() {
            return Err(Error::Failed {
                why: "the tagged run takes another number of cycles than the run with values",
            });
        }
        let wrong = machine.counts.wrong_fills;
        if wrong > 0 {
            outcome
                .complaints
                .push(format!("{wrong} lines from memory were of other stores than the last"));
        }
        let first = report.cuts;
        let on_cut = &mut |done| progress(Progress::PowerCuts(first + done));
        report.add(self.cut(&machine, before, true, on_cut)?.0);
        outcome.power_cuts = Some(report.cuts);
        drop(machine);
        if let Some(left) = left {
            let all = report.cuts;
            let on_cut = &mut |_| progress(Progress::PowerCuts(all));
            let After { report: again, complaints, isolation_hits, taken } =
                self.go_on::<D>(left, on_cut)?;
            report.add(again);
            let all = outcome.rare_paths_taken.get_or_insert_default();
            taken.into_iter().for_each(|(path, times)| *all.entry(path).or_default() += times);
            outcome.complaints.extend(complaints);
            outcome.isolation_hits = outcome.isolation_hits.map(|hits| hits + isolation_hits);
        }
        note(report, outcome);
        Ok(())
    }

    /// Continues from a recovered state on a new machine, if the design supports it, and cuts power
    /// again. These cuts come on top of the requested ones. The new clients restart their counts,
    /// so the program's check means nothing here, as in a tagged run.
    fn go_on<D: Design>(
        &self,
        left: Persistent,
        on_cut: &mut dyn FnMut(u64),
    ) -> Result<After, Error> {
        let Start { setup, ref description, loaded, .. } = *self;
        if D::resumes(description, (self.heap_words() / 8) as u32, &left).is_none() {
            return Ok(After::default());
        }
        let setup = Setup {
            transactions: setup.transactions.div_ceil(AFTER.0),
            power_cuts: setup.power_cuts.div_ceil(AFTER.1),
            export_trace: None,
            trace_format: Default::default(),
            ..setup.clone()
        };
        let (description, origin) = (description.clone(), Origin::Left(left, self.heap_words()));
        let mut start = Start { setup: &setup, description, loaded, origin };
        let Ran { machine, before, .. } = match start.run::<D>(false, on_cut) {
            // The recovered heap is not the result of these clients' transactions.
            Err(error @ Error::Stopped { .. }) => {
                let complaints = vec![format!("after recovery: {error}")];
                return Ok(After { complaints, ..After::default() });
            }
            ran => ran?,
        };
        let mut complaints = Vec::new();
        rest::complain(
            &mut complaints,
            machine.counts.wrong_fills,
            "lines from memory had wrong words after recovery",
        );
        let isolation_hits = rest::isolation_hits(&machine).unwrap_or_default();
        rest::complain(&mut complaints, isolation_hits, rest::SHARED_AFTER);
        let (report, _) = start.cut(&machine, before, true, on_cut)?;
        Ok(After { report, complaints, isolation_hits, taken: taken(&machine) })
    }

    /// Makes half of the power cuts, in the run with values or in the tagged one.
    fn cut<D: Design>(
        &self,
        machine: &Machine<D>,
        before: Persistent,
        tagged: bool,
        on_cut: &mut dyn FnMut(u64),
    ) -> Result<(crash::Report, Option<Persistent>), Error> {
        let Setup { power_cuts, seed, violations_max, .. } = *self.setup;
        let cuts = if tagged { power_cuts / 2 } else { power_cuts.div_ceil(2) };
        // The program cannot check tags.
        let loaded = (!tagged).then_some(self.loaded);
        let extra = (self.heap_words() / 8) as u32;
        // The two forms are cut at different times.
        let seed = seed ^ u64::from(tagged) << 32;
        let run = crash::Run { machine, before, extra, loaded, violations_max };
        crash::cut_power(run, cuts, seed, on_cut)
    }
}

/// Adds the result of all cuts to the outcome.
fn note(report: crash::Report, outcome: &mut Outcome) {
    outcome.violations = Some(report.violations_total);
    let named = |(name, cuts): (&'static str, u64)| (name.to_owned(), cuts);
    outcome.rare_paths_cut = Some(report.rare_paths.into_iter().map(named).collect());
    outcome.complaints.extend(report.violations);
}

/// Returns the uses of each rare path of the design in a run.
fn taken<D: Design>(machine: &Machine<D>) -> BTreeMap<String, u64> {
    let mut times: BTreeMap<String, u64> =
        D::RARE.iter().map(|name| ((*name).to_owned(), 0)).collect();
    for (name, ..) in machine.trace.iter().flat_map(Trace::rare_paths) {
        *times.entry((*name).to_owned()).or_default() += 1;
    }
    times
}
