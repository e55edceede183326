//! Cores that wait for each other are reported, with what each waits for.

use crate::bare::{alone, builtin, machine_of, run};
use sim::Error;
use sim::design::Volatile;
use sim::machine::kernel::Program;
use words::{LockId, Words};

/// A core that takes two locks in one transaction, and thinks in between.
fn takes(first: u64, second: u64) -> Program<Volatile> {
    Box::new(move |hart| {
        let done = hart.transact(|tx| {
            tx.lock(LockId(first))?;
            tx.compute(3000);
            tx.lock(LockId(second))
        });
        assert!(done.is_ok());
    })
}

#[test]
fn two_locks_in_opposite_order_are_a_deadlock_and_both_cores_are_named() {
    let description = builtin("lad", &[]);
    let machine = machine_of(&description, Volatile);
    let error = run(machine, vec![takes(1, 2), takes(2, 1)]).err().expect("nobody can go on");
    println!("{error}");
    let Error::Deadlock { cycle, ref waits } = error else { panic!("{error}") };
    assert_eq!(waits, "core 0 waits for lock 2, core 1 waits for lock 1");
    assert!(cycle > 1000, "they got their first locks");
    let waiting = error.to_string();
    assert!(waiting.starts_with(&format!("deadlock at cycle {cycle}: core 0 waits for")));
}

#[test]
fn two_locks_in_one_order_are_granted_one_core_after_the_other() {
    let description = builtin("lad", &[]);
    let (lone, _) = alone(&description, 0, |hart| {
        let done = hart.transact(|tx| tx.lock(LockId(1)).map(|()| tx.compute(3000)));
        assert!(done.is_ok());
        hart.cycle()
    });
    let machine = machine_of(&description, Volatile);
    let machine = run(machine, vec![takes(1, 2), takes(1, 2), takes(1, 2)]).expect("all end");
    assert_eq!(machine.counts.transactions, 3);
    assert!(machine.now() >= 3 * 1000, "their bodies do not overlap");
    assert!(machine.now() < 3 * lone + 1000, "{} is three times {lone}", machine.now());
}
