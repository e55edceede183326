//! Power cuts of a run that is over, in both of its forms, and of one that goes on after recovery.

use std::collections::BTreeMap;

use super::{Progress, Ran, Setup, Start, Tell, rest};
use crate::crash;
use crate::design::Design;
use crate::error::Error;
use crate::machine::Machine;
use crate::persist::{Persistent, Trace};
use crate::report::Outcome;

/// A run that goes on after recovery is so many times shorter, and power is cut so many times less
/// often.
const AFTER: (u64, u64) = (4, 4);

/// What a run that goes on after recovery has shown.
#[derive(Default)]
struct After {
    report: crash::Report,
    complaints: Vec<String>,
    isolation_hits: u64,
    taken: BTreeMap<String, u64>,
}

impl Start<'_> {
    /// Cuts power as often as was asked for, and adds what that has shown.
    pub(super) fn cut_all<D: Design>(
        &mut self,
        ran: Ran<D>,
        outcome: &mut Outcome,
        progress: Tell<'_>,
    ) -> Result<(), Error> {
        let Ran { machine, window, before } = ran;
        outcome.rare_paths_taken = Some(taken(&machine));
        let told = &mut |done| progress(Progress::PowerCuts(done));
        let (mut report, left) = self.cut(&machine, before, false, told)?;
        drop(machine);
        let told = &mut |done| progress(Progress::Transactions(done));
        let Ran { machine, window: tagged, before } = self.run::<D>(true, told)?;
        if tagged.cycles() != window.cycles() {
            return Err(Error::Failed { why: "what payloads carry has changed a time" });
        }
        let wrong = machine.counts.wrong_fills;
        if wrong > 0 {
            outcome.complaints.push(format!("{wrong} lines came from memory by other stores"));
        }
        let first = report.cuts;
        let told = &mut |done| progress(Progress::PowerCuts(first + done));
        report.add(self.cut(&machine, before, true, told)?.0);
        outcome.power_cuts = Some(report.cuts);
        drop(machine);
        if let Some(left) = left {
            let all = report.cuts;
            let told = &mut |_| progress(Progress::PowerCuts(all));
            let After { report: again, complaints, isolation_hits, taken } =
                self.go_on::<D>(left, told)?;
            report.add(again);
            let all = outcome.rare_paths_taken.get_or_insert_default();
            taken.into_iter().for_each(|(path, times)| *all.entry(path).or_default() += times);
            outcome.complaints.extend(complaints);
            outcome.isolation_hits = outcome.isolation_hits.map(|hits| hits + isolation_hits);
        }
        outcome.violations = Some(report.violations_total);
        let named = |(name, cuts): (&'static str, u64)| (name.to_owned(), cuts);
        outcome.rare_paths_cut = Some(report.rare_paths.into_iter().map(named).collect());
        outcome.complaints.extend(report.violations);
        Ok(())
    }

    /// Lets a new machine go on with what a recovery has left, if its design says how, and cuts
    /// power again. These cuts are not among those that were asked for. Clients count from the
    /// beginning again: what they say of the heap means nothing, as when it is tagged.
    fn go_on<D: Design>(
        &self,
        left: Persistent,
        told: &mut dyn FnMut(u64),
    ) -> Result<After, Error> {
        let Start { setup, ref description, loaded, .. } = *self;
        let mut words = left.words();
        words.truncate(self.heap_words());
        if D::resumes(description, (words.len() / 8) as u32, &left).is_none() {
            return Ok(After::default());
        }
        let setup = Setup {
            transactions: setup.transactions.div_ceil(AFTER.0),
            power_cuts: setup.power_cuts.div_ceil(AFTER.1),
            export_trace: None,
            ..setup.clone()
        };
        let (description, left) = (description.clone(), Some(left));
        let mut start = Start { setup: &setup, description, loaded, words, left };
        let Ran { machine, before, .. } = match start.run::<D>(false, told) {
            // Of a heap that no transactions have made.
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
            "wrong lines came after recovery",
        );
        let isolation_hits = rest::isolation_hits(&machine).unwrap_or_default();
        rest::complain(&mut complaints, isolation_hits, rest::SHARED_AFTER);
        let (report, _) = start.cut(&machine, before, true, told)?;
        Ok(After { report, complaints, isolation_hits, taken: taken(&machine) })
    }

    /// Cuts power half of the times of a run: of one with values, or of the tagged one.
    fn cut<D: Design>(
        &self,
        machine: &Machine<D>,
        before: Persistent,
        tagged: bool,
        told: &mut dyn FnMut(u64),
    ) -> Result<(crash::Report, Option<Persistent>), Error> {
        let Setup { power_cuts, seed, .. } = *self.setup;
        let cuts = if tagged { power_cuts / 2 } else { power_cuts.div_ceil(2) };
        // What is tagged is no heap that a program could check.
        let loaded = (!tagged).then_some(self.loaded);
        let extra = (self.heap_words() / 8) as u32;
        // At other moments than those of the other form.
        let seed = seed ^ u64::from(tagged) << 32;
        crash::cut_power(crash::Run { machine, before, extra, loaded }, cuts, seed, told)
    }
}

/// How often a run took each path that its design takes rarely.
fn taken<D: Design>(machine: &Machine<D>) -> BTreeMap<String, u64> {
    let mut times: BTreeMap<String, u64> =
        D::RARE.iter().map(|name| ((*name).to_owned(), 0)).collect();
    for (name, ..) in machine.trace.iter().flat_map(Trace::rare_paths) {
        *times.entry((*name).to_owned()).or_default() += 1;
    }
    times
}
