//! The picker: it makes every choice of an execution and records it; the choices are the trace.

use std::collections::VecDeque;

use faults::recording::{Ask, Choose, Question};
use medium::sync::{Arc, Mutex, lock};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A choice that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The question.
    pub ask: Ask,
    /// The number of options.
    pub options: u16,
    /// The chosen option.
    pub chosen: u16,
}

/// The policy for choices beyond the given ones.
#[derive(Clone, Debug)]
pub enum Policy {
    /// No crash, and no uncertain content survives.
    AllOld,
    /// All uncertain content survives.
    AllNew,
    /// Only the last write survives.
    OnlyNewest,
    /// All but the last write survive.
    AllButNewest,
    /// Random.
    Chance(Box<Chance>),
    /// One byte per choice; after the last byte as [`AllOld`](Policy::AllOld).
    Bytes(VecDeque<u8>),
}

/// Random choices; the rates are constant in one execution, so that some executions get long.
#[derive(Clone, Debug)]
pub struct Chance {
    random: Xoshiro256PlusPlus,
    /// One crash in so many crash points.
    crash_in: u32,
    /// One fault in so many calls.
    fault_in: u32,
    /// One unusual move in so many.
    other_in: u32,
    /// The fate of uncertain content at the last crash.
    contents: Contents,
}

#[derive(Clone, Copy, Debug)]
enum Contents {
    Old,
    New,
    Mixed,
}

impl Chance {
    /// Makes the choices of a seed.
    pub fn new(seed: u64) -> Chance {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let crash_in = 2 << random.random_range(0..6);
        let fault_in = 4 << random.random_range(0..7);
        let other_in = 1 << random.random_range(0..6);
        let contents = Chance::contents(&mut random);
        Chance { random, crash_in, fault_in, other_in, contents }
    }

    fn contents(random: &mut Xoshiro256PlusPlus) -> Contents {
        [Contents::Old, Contents::New, Contents::Mixed][random.random_range(0..3)]
    }

    fn choose(&mut self, question: Question) -> usize {
        let (random, options) = (&mut self.random, question.options);
        let one_in = |random: &mut Xoshiro256PlusPlus, n| random.random_range(0..n) == 0;
        match question.ask {
            Ask::Crash => {
                let crash = one_in(random, self.crash_in);
                if crash {
                    self.contents = Chance::contents(random);
                }
                if crash { random.random_range(1..options) } else { 0 }
            }
            Ask::Fault if !one_in(random, self.fault_in) => 0,
            Ask::Tester if !one_in(random, self.other_in) => 0,
            Ask::Fault | Ask::Tester | Ask::Completion => random.random_range(0..options),
            Ask::Content | Ask::Word | Ask::Name => match self.contents {
                Contents::Old => 0,
                Contents::New => options - 1,
                Contents::Mixed => random.random_range(0..options),
            },
        }
    }
}

impl Policy {
    fn choose(&mut self, question: Question) -> usize {
        let last = question.options - 1;
        match (self, question.ask) {
            (Policy::Chance(chance), _) => chance.choose(question),
            (Policy::Bytes(bytes), ask) => by_byte(bytes.pop_front().unwrap_or(0), ask, last),
            (_, Ask::Crash | Ask::Fault | Ask::Tester | Ask::Completion) => 0,
            (Policy::AllOld, _) => 0,
            (Policy::AllNew, _) => last,
            (Policy::OnlyNewest, _) => {
                if question.newest {
                    last
                } else {
                    0
                }
            }
            (Policy::AllButNewest, _) => {
                if question.newest {
                    0
                } else {
                    last
                }
            }
        }
    }
}

/// Turns a byte into a choice from 0 to `last`. Most bytes cause no fault, so that some executions
/// get long.
fn by_byte(byte: u8, ask: Ask, last: usize) -> usize {
    let bad = byte.checked_sub(224).map(usize::from);
    match ask {
        Ask::Crash | Ask::Fault => bad.map_or(0, |bad| 1 + bad % last),
        _ => usize::from(byte) % (last + 1),
    }
}

/// A source of choices: first the given ones, then those of its policy.
#[derive(Clone, Debug)]
pub struct Picker {
    laid_down: Vec<u16>,
    policy: Policy,
    made: Vec<Made>,
    /// The recorded events, when recording is on.
    events: Option<Vec<String>>,
}

impl Picker {
    /// Makes a picker with the choices of `laid_down`, then of `policy`.
    pub fn new(laid_down: Vec<u16>, policy: Policy) -> Picker {
        Picker { laid_down, policy, made: Vec::new(), events: None }
    }

    /// Turns on the recording of events.
    pub fn recording(self) -> Picker {
        Picker { events: Some(Vec::new()), ..self }
    }

    /// Returns the choices made.
    pub fn made(&self) -> &[Made] {
        &self.made
    }

    /// Returns the recorded events, a line each; empty unless recording is on.
    pub fn events(&self) -> &[String] {
        self.events.as_deref().unwrap_or_default()
    }

    fn pick(&mut self, question: Question) -> usize {
        let laid_down = self.laid_down.get(self.made.len()).map(|&choice| usize::from(choice));
        // A choice that is out of range comes from a shortened trace: take the last option.
        let chosen = match laid_down {
            Some(choice) => choice.min(question.options - 1),
            None => self.policy.choose(question),
        };
        let (options, chosen_16) = (question.options as u16, chosen as u16);
        self.made.push(Made { ask: question.ask, options, chosen: chosen_16 });
        if let Some(events) = &mut self.events
            && chosen > 0
            && !matches!(question.ask, Ask::Tester)
        {
            events.push(format!("  [{:?}: {chosen} of {}]", question.ask, question.options));
        }
        chosen
    }
}

/// A picker that machine and explorer share.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<Picker>>);

impl Shared {
    /// Shares a picker.
    pub(crate) fn new(picker: Picker) -> Shared {
        Shared(Arc::new(Mutex::new(picker)))
    }

    /// Makes a choice of the explorer's own.
    pub(crate) fn pick(&self, options: usize) -> usize {
        if options < 2 {
            return 0;
        }
        lock(&self.0).pick(Question { ask: Ask::Tester, options, newest: false })
    }

    /// Records an event.
    pub(crate) fn log(&self, message: std::fmt::Arguments<'_>) {
        if let Some(events) = &mut lock(&self.0).events {
            events.push(message.to_string());
        }
    }

    /// Gives access to the picker.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&Picker) -> R) -> R {
        look(&lock(&self.0))
    }
}

impl Choose for Shared {
    fn choose(&mut self, question: Question) -> usize {
        // A second unwinding would abort the process.
        if question.ask == Ask::Crash && std::thread::panicking() {
            return 0;
        }
        lock(&self.0).pick(question)
    }

    fn listens(&self) -> bool {
        lock(&self.0).events.is_some()
    }

    fn hear(&mut self, message: std::fmt::Arguments<'_>) {
        let place = place();
        self.log(format_args!("  {message}{place}"));
    }
}

/// Returns the source location of the event, as far as symbols give it.
fn place() -> String {
    let trace = std::backtrace::Backtrace::force_capture().to_string();
    let ours = ["crates/lastword/src", "crates/log/src"];
    let mut frames = trace.lines().map(str::trim);
    let frame = frames.find_map(|line| {
        let start = ours.iter().find_map(|folder| line.find(folder))?;
        line.starts_with("at ").then(|| &line[start + "crates/".len()..])
    });
    frame.map(|frame| format!("  ({frame})")).unwrap_or_default()
}
