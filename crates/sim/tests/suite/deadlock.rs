//! Tests of the deadlock report, which names each core's wait.

use crate::bare::{alone, builtin, machine_of, run};
use sim::Error;
use sim::design::Volatile;
use sim::machine::kernel::Program;
use words::{LockId, Words};

/// A core that takes two locks in one transaction, and computes in between.
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
fn opposite_lock_order_is_reported_as_deadlock() {
    let description = builtin("lad", &[]);
    let machine = machine_of(&description, Volatile);
    let error =
        run(machine, vec![takes(1, 2), takes(2, 1)]).err().expect("the cores are deadlocked");
    println!("{error}");
    let Error::Deadlock { cycle, ref waits } = error else { panic!("{error}") };
    assert_eq!(waits, "core 0 waits for lock 2, core 1 waits for lock 1");
    assert!(cycle > 1000, "both cores have their first lock");
    let waiting = error.to_string();
    assert!(waiting.starts_with(&format!("deadlock at cycle {cycle}: core 0 waits for")));
}

#[test]
fn equal_lock_order_serializes_cores() {
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
    assert!(
        machine.now() < 3 * lone + 1000,
        "{} is more than about three times {lone}",
        machine.now()
    );
}
