//! The search over a program's executions, and the shortening of a failing one.
//!
//! | part | executions |
//! |---|---|
//! | plain | no crash, the steps in order; one for each speed of the background (`boots`) |
//! | near | those with one other choice: a power failure, a preemption, a background step |
//! | pairs | those with two, in an order that the seed shuffles; at most half of the rest |
//! | random | the rest of the limit, from the seed |
//!
//! `near` has at most three quarters of the limit. A longer program has more of them: then the seed
//! draws those that run, from all speeds alike, and [`Explored::skipped`] counts the others.
//!
//! Plain executions run twice, and all others repeat the begin of an earlier one. If they then ask
//! other questions, the program is not deterministic.
//!
//! At its first power failure an execution follows one of four policies for uncertain contents: all
//! old, all new, only the newest, all but the newest. Random executions mix them.
//!
//! A failure is shortened by dropping steps. Without a step the recorded choices would mean others,
//! so each candidate is searched again: `near` and, if the failure needed two choices, `pairs`.
//! Then choices are set to 0 where the failure stays the same.

use std::rc::Rc;
use std::time::Instant;

use faults::recording::Ask;
use medium::KeptMemory;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::FxHashSet;

use super::boots::{self, Mark, Prepared, Record, Selected};
use super::line::{self, Line};
use super::{Cause, Explored, Failure, Plan};
use crate::choices::trimmed;
use crate::picker::{Chance, Made, Picker, Policy};

/// Limit of the executions that shorten a failure.
const SHORTENING: u64 = 4000;
/// Limit of `pairs` for one candidate.
const PAIRS: usize = 300;

/// A prefix of choices, and the policy of those that follow.
#[derive(Clone)]
struct Prefix {
    /// The execution that it branches from, and the choice that differs.
    parent: Rc<Vec<Made>>,
    at: usize,
    chosen: u16,
    policy: Policy,
}

impl Prefix {
    /// Returns whether its own choice is a power failure.
    fn is_crash(&self) -> bool {
        self.parent[self.at].ask == Ask::Crash
    }

    fn choices(&self) -> Vec<u16> {
        let before = self.parent[..self.at].iter().map(|made| made.chosen);
        before.chain([self.chosen]).collect()
    }
}

/// A failing execution.
struct Found {
    selected: Selected,
    choices: Vec<u16>,
    cause: Cause,
    depth: Depth,
}

/// The number of choices in which an execution differs from the plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Plain,
    Near,
    Deep,
}

struct Search<'a> {
    plan: &'a Plan,
    prepared: &'a Prepared,
    explored: Explored,
    states: FxHashSet<u64>,
    started: Instant,
    /// The mistake of a type of notes, in a plain execution of all steps.
    mistaken: Option<Cause>,
}

/// Explores a program.
pub(super) fn explore(plan: &Plan) -> Result<Explored, Box<Failure>> {
    let _kept = KeptMemory::on_this_thread();
    let prepared = prepare(plan)?;
    let mut search = Search::new(plan, &prepared);
    let found = search.all();
    search.explored.states = search.states.len() as u64;
    let explored = search.explored.clone();
    let Some(found) = found else {
        if let Some(cause) = search.mistaken {
            return Err(Box::new(bare(cause, explored)));
        }
        if explored.power_failures == 0 {
            return Err(Box::new(bare(Cause::NothingExplored, explored)));
        }
        return Ok(explored);
    };
    let found = search.shorten(found);
    Err(Box::new(search.report(found, explored)))
}

/// Runs one execution, from its trace; `None` when the trace is of another explorer.
pub(super) fn replay(plan: &Plan, trace: &str) -> Option<Result<Explored, Box<Failure>>> {
    let Line { selected, choices } = line::read(plan, trace)?;
    let prepared = match prepare(plan) {
        Ok(prepared) => prepared,
        Err(failure) => return Some(Err(failure)),
    };
    let mut search = Search::new(plan, &prepared);
    let picker = Picker::new(choices.clone(), Policy::AllOld).recording();
    let record = search.run(&selected, picker);
    let explored = search.explored.clone();
    Some(match record.cause {
        None => Ok(explored),
        Some(cause) => {
            let found = Found { selected, choices, cause, depth: Depth::Deep };
            Err(Box::new(search.failure(found, record.events, explored)))
        }
    })
}

fn prepare(plan: &Plan) -> Result<Prepared, Box<Failure>> {
    boots::prepare(plan).map_err(|cause| Box::new(bare(cause, Explored::default())))
}

/// A failure before the first execution, or of none.
fn bare(cause: Cause, explored: Explored) -> Failure {
    Failure { cause, steps: Vec::new(), events: Vec::new(), trace: String::new(), explored }
}

impl<'a> Search<'a> {
    fn new(plan: &'a Plan, prepared: &'a Prepared) -> Search<'a> {
        let started = Instant::now();
        let (explored, states) = (Explored::default(), FxHashSet::default());
        Search { plan, prepared, explored, states, started, mistaken: None }
    }

    fn run(&mut self, selected: &Selected, picker: Picker) -> Record {
        let record = boots::execute(self.plan, selected, self.prepared, picker);
        self.explored.executions += 1;
        self.explored.power_failures += record.cuts;
        self.explored.kept += record.kept;
        self.explored.lost += record.lost;
        self.states.extend(&record.states);
        record
    }

    fn is_over(&self) -> bool {
        self.explored.executions >= self.plan.executions
            || self.plan.time.is_some_and(|time| self.started.elapsed() >= time)
    }

    fn all(&mut self) -> Option<Found> {
        let selected = self.plan.all();
        let mut near = Vec::new();
        for plain in self.plains(&selected) {
            let plain = match plain {
                Ok(plain) => plain,
                Err(found) => return Some(found),
            };
            let is_crash = |made: &&Made| made.ask == Ask::Crash;
            self.explored.crash_points += plain.iter().filter(is_crash).count() as u64;
            near.extend(self.children(&plain, None));
        }
        if self.mistaken.is_some() {
            return None;
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.plan.seed);
        let most = self.room() - self.room() / 4;
        if near.len() > most {
            shuffle(&mut near, &mut random);
        }
        let mut pairs = Vec::new();
        for (at, prefix) in near.iter().enumerate() {
            if at == most || self.is_over() {
                let cuts = near[at..].iter().filter(|prefix| prefix.is_crash());
                self.explored.skipped = cuts.count() as u64;
                break;
            }
            match self.branch(&selected, prefix) {
                Err(found) => return Some(found),
                Ok(record) => pairs.extend(self.children(&Rc::new(record.made), Some(prefix))),
            }
        }
        shuffle(&mut pairs, &mut random);
        let half = self.room() / 2;
        for prefix in pairs.iter().take(half) {
            if self.is_over() {
                return None;
            }
            if let Err(found) = self.branch(&selected, prefix) {
                return Some(Found { depth: Depth::Deep, ..found });
            }
        }
        while !self.is_over() {
            // Seeds in a row would share most executions with the next seed of the user's.
            let seed = random.random();
            let policy = Policy::Chance(Box::new(Chance::new(seed)));
            let record = self.run(&selected, Picker::new(self.speed(seed), policy));
            if let Some(cause) = record.cause {
                let choices = record.made.iter().map(|made| made.chosen).collect();
                return Some(Found { selected, choices, cause, depth: Depth::Deep });
            }
        }
        None
    }

    /// Returns the number of executions that are left.
    fn room(&self) -> usize {
        self.plan.executions.saturating_sub(self.explored.executions) as usize
    }

    /// Returns the choice of a speed of the background.
    fn speed(&self, number: u64) -> Vec<u16> {
        match boots::speeds(self.plan) as u64 {
            1 => Vec::new(),
            speeds => vec![(number % speeds) as u16],
        }
    }

    /// Runs the plain execution of each speed.
    fn plains(&mut self, selected: &Selected) -> Vec<Result<Rc<Vec<Made>>, Found>> {
        let speeds = 0..boots::speeds(self.plan) as u64;
        speeds.map(|speed| self.plain(selected, self.speed(speed))).collect()
    }

    /// Runs an execution without crashes twice, and compares.
    fn plain(&mut self, selected: &Selected, laid_down: Vec<u16>) -> Result<Rc<Vec<Made>>, Found> {
        let mut run = || self.run(selected, Picker::new(laid_down.clone(), Policy::AllOld));
        let (first, again) = (run(), run());
        let found = |cause| Found {
            selected: selected.clone(),
            choices: laid_down.clone(),
            cause,
            depth: Depth::Plain,
        };
        let differs = first.marks.iter().zip(&again.marks).find(|(a, b)| a != b);
        if let Some((first, again)) = differs {
            return Err(found(self.not_deterministic(first, again)));
        }
        if let Some(cause) = first.cause.or(again.cause) {
            return Err(found(cause));
        }
        self.mistaken = self.mistaken.take().or(first.mistaken);
        Ok(Rc::new(first.made))
    }

    fn not_deterministic(&self, first: &Mark, again: &Mark) -> Cause {
        let message = match () {
            () if first.place != again.place => "another step was next",
            () if first.made != again.made => "used the pool in another way",
            () if first.notes != again.notes => "showed another number of notes",
            () => "wrote other bytes to the pool",
        };
        Cause::NotDeterministic { name: self.plan.name(first.place), message: message.to_owned() }
    }

    /// Runs an execution that differs from its parent in one choice.
    fn branch(&mut self, selected: &Selected, prefix: &Prefix) -> Result<Record, Found> {
        let laid_down = prefix.choices();
        let record = self.run(selected, Picker::new(laid_down, prefix.policy.clone()));
        let choices = || record.made.iter().map(|made| made.chosen).collect();
        let (selected, depth) = (selected.clone(), Depth::Near);
        let found = |cause| Found { selected, choices: choices(), cause, depth };
        let Prefix { parent, at, .. } = prefix;
        let question = |made: &Made| (made.ask, made.options);
        let same = record.made.len() > *at
            && record.made[..*at] == parent[..*at]
            && question(&record.made[*at]) == question(&parent[*at]);
        if let Some(cause) = &record.cause
            && same
        {
            return Err(found(cause.clone()));
        }
        if same {
            return Ok(record);
        }
        let both = record.made.iter().zip(&**parent).enumerate();
        let differs = both.skip_while(|(_, (a, b))| question(a) == question(b)).map(|(at, _)| at);
        let first = differs.min().unwrap_or(record.made.len());
        let before = record.marks.iter().find(|mark| mark.made > first).or(record.marks.last());
        let name = before.map_or_else(|| "start".to_owned(), |mark| self.plan.name(mark.place));
        let message = "used the pool in another way".to_owned();
        Err(found(Cause::NotDeterministic { name, message }))
    }

    /// Returns the executions that differ from this one in one choice that its policy made.
    fn children(&self, made: &Rc<Vec<Made>>, of: Option<&Prefix>) -> Vec<Prefix> {
        // There is a plain execution for each speed of the background.
        let speed = self.speed(0).len();
        let first = of.map_or(speed, |prefix| prefix.at + 1);
        // A policy decides contents, and the crash selects it.
        let has_crash = |made: &Made| made.ask == Ask::Crash && made.chosen > 0;
        let crashed = of.filter(|_| made[..first].iter().any(has_crash));
        let mut all = Vec::new();
        for (at, choice) in made.iter().enumerate().skip(first) {
            let policies = match (choice.ask, crashed) {
                (Ask::Content | Ask::Word | Ask::Name, _) => continue,
                (_, Some(prefix)) => vec![prefix.policy.clone()],
                (Ask::Crash, None) => {
                    vec![Policy::AllOld, Policy::AllNew, Policy::OnlyNewest, Policy::AllButNewest]
                }
                (_, None) => vec![Policy::AllOld],
            };
            for chosen in (0..choice.options).filter(|other| *other != choice.chosen) {
                all.extend(policies.iter().map(|policy| Prefix {
                    parent: Rc::clone(made),
                    at,
                    chosen,
                    policy: policy.clone(),
                }));
            }
        }
        all
    }

    /// Searches executions of fewer steps for a failure of this kind.
    ///
    /// If the failure needs a power failure, one of the plain execution is another: a step misses
    /// the effect of a step that is left out.
    fn find(&mut self, selected: &Selected, cause: &Cause, depth: Depth) -> Option<Found> {
        let is_same = |found: &Found| found.cause.is_alike(cause);
        let mut pairs = Vec::new();
        for plain in self.plains(selected) {
            let plain = match plain {
                Ok(plain) => plain,
                Err(found) if depth == Depth::Plain && is_same(&found) => return Some(found),
                Err(_) => continue,
            };
            for prefix in self.children(&plain, None) {
                match self.branch(selected, &prefix) {
                    Err(found) if is_same(&found) => return Some(found),
                    Ok(record) if depth == Depth::Deep => {
                        pairs.extend(self.children(&Rc::new(record.made), Some(&prefix)));
                    }
                    _ => {}
                }
            }
        }
        shuffle(&mut pairs, &mut Xoshiro256PlusPlus::seed_from_u64(self.plan.seed));
        let mut pairs = pairs.iter().take(PAIRS);
        let found = pairs.find_map(|prefix| self.branch(selected, prefix).err().filter(is_same));
        found.map(|found| Found { depth, ..found })
    }

    fn shorten(&mut self, mut found: Found) -> Found {
        if matches!(found.cause, Cause::NotDeterministic { .. }) {
            return found;
        }
        let limit = self.explored.executions + SHORTENING;
        // Halves first, then single steps.
        let mut piece = count(&found.selected).div_ceil(2);
        while piece > 0 && self.explored.executions < limit {
            let mut first = 0;
            while first < count(&found.selected) && self.explored.executions < limit {
                let fewer = without(&found.selected, first..first + piece);
                match self.find(&fewer, &found.cause, found.depth) {
                    Some(shorter) => found = shorter,
                    None => first += piece,
                }
            }
            piece /= 2;
        }
        self.zero(found, limit)
    }

    /// Sets choices to 0, from the last on, where the failure stays the same.
    fn zero(&mut self, mut found: Found, limit: u64) -> Found {
        let mut at = found.choices.len();
        while at > 0 && self.explored.executions < limit {
            at = at.min(found.choices.len());
            let Some(last) = found.choices[..at].iter().rposition(|choice| *choice > 0) else {
                break;
            };
            at = last;
            let mut choices = found.choices.clone();
            choices[at] = 0;
            let record = self.run(&found.selected, Picker::new(choices, Policy::AllOld));
            let not_zero = |choices: &[u16]| choices.iter().filter(|choice| **choice > 0).count();
            if let Some(cause) = record.cause
                && cause.is_alike(&found.cause)
            {
                let choices: Vec<u16> = record.made.iter().map(|made| made.chosen).collect();
                if not_zero(&choices) < not_zero(&found.choices) {
                    found = Found { choices, cause, ..found };
                }
            }
        }
        found
    }

    /// Runs the failing execution once more, with its events.
    fn report(&mut self, found: Found, explored: Explored) -> Failure {
        let found = Found { choices: trimmed(found.choices), ..found };
        let picker = Picker::new(found.choices.clone(), Policy::AllOld).recording();
        let record = self.run(&found.selected, picker);
        let found = match record.cause {
            Some(cause) if cause.is_alike(&found.cause) => Found { cause, ..found },
            _ if matches!(found.cause, Cause::NotDeterministic { .. }) => found,
            _ => {
                let message = format!("did not fail again, after: {}", found.cause);
                let name = "the failing execution".to_owned();
                Found { cause: Cause::NotDeterministic { name, message }, ..found }
            }
        };
        self.failure(found, record.events, explored)
    }

    fn failure(&self, found: Found, events: Vec<String>, explored: Explored) -> Failure {
        let Found { selected, choices, cause, .. } = found;
        let trace = line::write(self.plan, &selected, &choices);
        let each = selected.iter().enumerate();
        let places = each.flat_map(|(worker, steps)| {
            steps.iter().map(move |&step| boots::Place::Step { worker, step })
        });
        let steps = places.map(|place| self.plan.name(place)).collect();
        Failure { cause, steps, events, trace, explored }
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Xoshiro256PlusPlus) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.random_range(0..=last));
    }
}

fn count(selected: &Selected) -> usize {
    selected.iter().map(Vec::len).sum()
}

/// Returns the selection without some of its steps, numbered over all workers.
fn without(selected: &Selected, steps: std::ops::Range<usize>) -> Selected {
    let mut number = 0;
    let workers = selected.iter().map(|worker| {
        let left = worker.iter().copied().filter(|_| {
            number += 1;
            !steps.contains(&(number - 1))
        });
        left.collect()
    });
    workers.collect()
}
