//! Scripted choices, and all of them in turn.

use std::collections::BTreeSet;

use super::{Choose, Model, Question, Recorder};
use crate::sync::{Arc, Mutex, lock};

/// Chooser that follows a script and then always picks the first option.
#[derive(Debug, Default)]
pub struct Scripted {
    ahead: Vec<usize>,
    asked: Arc<Mutex<Vec<Question>>>,
}

impl Scripted {
    /// Picks these options first.
    pub fn new(ahead: Vec<usize>) -> Scripted {
        Scripted { ahead, asked: Arc::default() }
    }

    /// Returns the questions so far, also after the machine has taken the chooser.
    pub fn asked(&self) -> Arc<Mutex<Vec<Question>>> {
        Arc::clone(&self.asked)
    }
}

impl Choose for Scripted {
    fn choose(&mut self, question: Question) -> usize {
        let mut asked = lock(&self.asked);
        asked.push(question);
        self.ahead.get(asked.len() - 1).copied().unwrap_or(0)
    }
}

/// Runs a test once for each series of choices; returns the set of its results.
///
/// # Panics
/// If the same choices lead to other questions: the test is not deterministic.
pub fn every<T: Ord>(model: Model, run: impl Fn(&Recorder) -> T) -> BTreeSet<T> {
    let (mut all, mut scripts) = (BTreeSet::new(), vec![Vec::new()]);
    while let Some(ahead) = scripts.pop() {
        let chooser = Scripted::new(ahead.clone());
        let asked = chooser.asked();
        all.insert(run(&Recorder::new(model, Box::new(chooser))));
        let asked = lock(&asked);
        assert!(ahead.len() <= asked.len(), "the same choices lead to other questions");
        for (at, question) in asked.iter().enumerate().skip(ahead.len()) {
            for other in 1..question.options {
                let mut script = ahead.clone();
                script.resize(at, 0);
                script.push(other);
                scripts.push(script);
            }
        }
    }
    all
}
