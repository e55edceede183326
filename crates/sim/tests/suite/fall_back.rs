//! Tests of the fallback: a transaction that the hardware cannot hold runs again on a software log.

use crate::common::{setup, simulate_design};
use sim::Error;
use sim::design::Design;
use sim::design::soft_log::{self, SoftLog};
use sim::machine::Hart;
use sim::machine::controller::Class;
use sim::machine::description::Description;
use sim::persist::{Cut, Persistent};
use words::Stop;

/// Hardware that can hold `LINES` lines of a transaction and writes them to memory at its end. The
/// end is not atomic, but these tests do not cut it.
struct Holds<const LINES: usize, const SOFT: bool>(SoftLog);

impl<const LINES: usize, const SOFT: bool> Design for Holds<LINES, SOFT> {
    const NAME: &'static str = "holds";
    const ABOUT: &'static str = "holds a few lines";
    const MACHINE: &'static str = "lad";

    fn extra_lines(description: &Description) -> u32 {
        SoftLog::lines(description)
    }

    fn new(description: &Description, extra: u32) -> Self {
        Holds(SoftLog::new(description, extra))
    }

    fn soft_log(&mut self) -> Option<&mut SoftLog> {
        SOFT.then_some(&mut self.0)
    }

    fn store(hart: &mut Hart<'_, Self>, word: u64, object: u64, value: u64) -> Result<(), Stop> {
        if hart.lines().len() > LINES {
            return Err(Stop::TooLarge);
        }
        hart.store(word, object, value);
        Ok(())
    }

    fn commit(hart: &mut Hart<'_, Self>) {
        hart.lines().to_vec().into_iter().for_each(|line| hart.write_back(line));
        hart.fence();
    }

    fn class_of(&self, line: u32) -> Class {
        self.0.class_of(line).unwrap_or(Class::Data)
    }

    fn recover(description: &Description, extra: u32, state: &mut Persistent) -> Result<(), Cut> {
        soft_log::recover(description, extra, state)
    }
}

#[test]
fn only_too_large_transactions_fall_back() {
    // A transaction of `sps` writes 16 lines, one of `rbt` 2 to 10.
    for (workload, fewest, most) in [("sps", 299, 301), ("rbt", 20, 280)] {
        let outcome = simulate_design::<Holds<4, true>>(workload, 0.1, &setup("lad", "", 2, 300));
        let outcome = outcome.unwrap();
        assert!((fewest..=most).contains(&outcome.fallbacks), "{workload}: {}", outcome.fallbacks);
        assert_eq!(outcome.complaints, [""; 0], "{workload}");
    }
    let held = simulate_design::<Holds<16, true>>("sps", 0.1, &setup("lad", "", 2, 300));
    assert_eq!(held.unwrap().fallbacks, 0);
}

#[test]
fn fallback_survives_power_cuts() {
    // No transaction fits, so the software log alone provides durability.
    let setup = sim::Setup { power_cuts: 500, ..setup("tiny-lad", "", 2, 200) };
    let outcome = simulate_design::<Holds<0, true>>("cq", 0.1, &setup).unwrap();
    assert_eq!(outcome.violations, Some(0));
    assert!(outcome.fallbacks >= 199, "{}", outcome.fallbacks);
}

#[test]
fn too_large_transaction_without_log_is_an_error() {
    let outcome = simulate_design::<Holds<4, false>>("sps", 0.1, &setup("lad", "", 2, 300));
    assert!(matches!(outcome, Err(Error::Stopped { stop: Stop::TooLarge })), "{outcome:?}");
}
