//! The one generator that drives every choice, and remembers them: the choices are the trace.

use std::collections::VecDeque;

use medium::recording::{Ask, Choose, Question};
use medium::sync::{Arc, Mutex, lock};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A choice that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// What was asked.
    pub ask: Ask,
    /// How many answers there were.
    pub options: u16,
    /// The answer.
    pub chosen: u16,
}

/// How choices are made that nobody has laid down.
#[derive(Clone, Debug)]
pub enum Policy {
    /// The quietest: no crash, and of what is uncertain nothing is there.
    AllOld,
    /// Of what is uncertain everything is there.
    AllNew,
    /// Only what was written last is there.
    OnlyNewest,
    /// Everything but what was written last is there.
    AllButNewest,
    /// By chance.
    Chance(Box<Chance>),
    /// By bytes, one for each choice; the quietest when they are used up.
    Bytes(VecDeque<u8>),
}

/// Random choices: the whole execution has one temper, so that long ways are gone too.
#[derive(Clone, Debug)]
pub struct Chance {
    random: Xoshiro256PlusPlus,
    /// A crash at one of so many crash points.
    crash_in: u32,
    /// A fault at one of so many calls.
    fault_in: u32,
    /// Another move than the simplest at one of so many.
    other_in: u32,
    /// How uncertain contents turn out after the last crash.
    contents: Contents,
}

#[derive(Clone, Copy, Debug)]
enum Contents {
    Old,
    New,
    Mixed,
}

impl Chance {
    /// The choices of a seed.
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

/// A choice from 0 to `last`. Most bytes let things go well, so that long ways are gone too.
fn by_byte(byte: u8, ask: Ask, last: usize) -> usize {
    let bad = byte.checked_sub(224).map(usize::from);
    match ask {
        Ask::Crash | Ask::Fault => bad.map_or(0, |bad| 1 + bad % last),
        _ => usize::from(byte) % (last + 1),
    }
}

/// Makes choices: first those laid down, then by its policy.
#[derive(Clone, Debug)]
pub struct Picker {
    laid_down: Vec<u16>,
    policy: Policy,
    made: Vec<Made>,
    /// What was heard, when somebody wants to know.
    heard: Option<Vec<String>>,
}

impl Picker {
    /// The choices of `laid_down`, then by `policy`.
    pub fn new(laid_down: Vec<u16>, policy: Policy) -> Picker {
        Picker { laid_down, policy, made: Vec::new(), heard: None }
    }

    /// The same, and keeps what happens.
    pub fn listening(self) -> Picker {
        Picker { heard: Some(Vec::new()), ..self }
    }

    /// What was chosen.
    pub fn made(&self) -> &[Made] {
        &self.made
    }

    /// What has happened, line by line; empty unless it listens.
    pub fn heard(&self) -> &[String] {
        self.heard.as_deref().unwrap_or_default()
    }

    fn pick(&mut self, question: Question) -> usize {
        let laid_down = self.laid_down.get(self.made.len()).map(|&choice| usize::from(choice));
        // A choice that is too large comes from a trace that was shortened: the last one, then.
        let chosen = match laid_down {
            Some(choice) => choice.min(question.options - 1),
            None => self.policy.choose(question),
        };
        let (options, chosen_16) = (question.options as u16, chosen as u16);
        self.made.push(Made { ask: question.ask, options, chosen: chosen_16 });
        if let Some(heard) = &mut self.heard
            && chosen > 0
            && !matches!(question.ask, Ask::Tester)
        {
            heard.push(format!("  [{:?}: {chosen} of {}]", question.ask, question.options));
        }
        chosen
    }
}

/// A picker that machine and tester share.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<Picker>>);

impl Shared {
    /// Shares a picker.
    pub(crate) fn new(picker: Picker) -> Shared {
        Shared(Arc::new(Mutex::new(picker)))
    }

    /// A choice of the tester's own.
    pub(crate) fn pick(&self, options: usize) -> usize {
        if options < 2 {
            return 0;
        }
        lock(&self.0).pick(Question { ask: Ask::Tester, options, newest: false })
    }

    /// Tells what happens.
    pub(crate) fn tell(&self, what: std::fmt::Arguments<'_>) {
        if let Some(heard) = &mut lock(&self.0).heard {
            heard.push(what.to_string());
        }
    }

    /// Looks at the picker.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&Picker) -> R) -> R {
        look(&lock(&self.0))
    }
}

impl Choose for Shared {
    fn choose(&mut self, question: Question) -> usize {
        lock(&self.0).pick(question)
    }

    fn listens(&self) -> bool {
        lock(&self.0).heard.is_some()
    }

    fn hear(&mut self, what: std::fmt::Arguments<'_>) {
        let place = place();
        self.tell(format_args!("  {what}{place}"));
    }
}

/// Where in the product this happens, as well as the symbols tell.
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
