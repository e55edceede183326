//! Fault injection: the checks of workloads find changed words and torn transactions.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::{SMALL, Torn, addresses, check, is_present, loaded, run};
use words::mock::Refused;
use words::{Erased, ErasedTx, Stop, Transact, Words};
use workloads::{
    Bank, BpTreeRand, Btree, Btree16, Btree32, BtreeUpdate, Btreemap, Chains, ChainsSparse, Cq,
    Echo, HashRand, HashTable, Hashmap, Kind, Kmeans, List, Memcached, Options, Pc, RbTreeZipf,
    Rbt, Rbtreemap, Records, Records20, Scatter, SessionStore, Sps, Sps1, Ssca2, Swap, TatpBtree,
    TatpHash, TatpMix, TpccBtree, TpccHash, Typed, Vacation, Vector, Violation, Workload, Writes,
    YcsbA, YcsbE, YcsbPut,
};

/// Changes words one after another and back, and counts how often the check finds it. The check
/// cannot verify some words (free slots, spare fields), so only a share must be found.
fn finds_damage<W: Workload>(share: f64) -> Vec<Violation> {
    finds_damage_of(Kind::by_name(W::NAME).unwrap(), share)
}

fn finds_damage_of(kind: Kind, share: f64) -> Vec<Violation> {
    let tiny = Options { scale: 0.0001, ..SMALL };
    let (mut mock, workload) = loaded(kind, &tiny);
    let mut clients = [workload.client(0, 1), workload.client(1, 1)];
    run(&mut mock, &workload, &mut clients, 500);
    let (mut tried, mut seen, mut violations) = (0, 0, Vec::new());
    let all = addresses(&mock);
    // The first words densely: a small workload's tables may be there whole. The odd step meets
    // every field of a row.
    for at in all[..60].iter().chain(all.iter().step_by((all.len() / 150) | 1)) {
        let old = mock.transact(|tx| tx.read(*at)).unwrap();
        mock.transact(|tx| tx.write(*at, old ^ 0x41)).unwrap();
        tried += 1;
        match workload.check(&mut Erased::any(&mut mock)) {
            Ok(found) if found.is_empty() => {}
            Ok(found) => {
                seen += 1;
                violations.push(found[0]);
            }
            Err(error) => {
                let refused: Refused = error.downcast().unwrap();
                assert!(matches!(refused.stop, Stop::BadPointer | Stop::BadValue));
                seen += 1;
            }
        }
        mock.transact(|tx| tx.write(*at, old)).unwrap();
    }
    assert_eq!(check(&workload, &mut mock), [], "{}", kind.name);
    assert!(f64::from(seen) > share * f64::from(tried), "{}: {seen} of {tried}", kind.name);
    for violation in &violations {
        let text = violation.to_string();
        assert!(text.contains("expected") && text.contains("found"), "{text}");
    }
    violations
}

/// Returns how often this count is wrong.
fn count(found: &[Violation], what: &str) -> usize {
    let is_it = |v: &&Violation| matches!(v, Violation::Count { what: w, .. } if *w == what);
    found.iter().filter(is_it).count()
}

#[test]
fn checks_find_injected_damage() {
    let found = finds_damage::<Bank>(0.01);
    assert!(count(&found, "cents in all accounts") > 0, "{found:?}");
    assert!(count(&found, "transfers in all accounts") > 0, "{found:?}");
    let found = finds_damage::<HashTable>(0.5);
    assert!(found.iter().any(|v| matches!(v, Violation::Value { .. })), "{found:?}");
    for found in
        [finds_damage::<Btree>(0.5), finds_damage::<Btree16>(0.4), finds_damage::<Btree32>(0.4)]
    {
        assert!(found.iter().any(|v| matches!(v, Violation::Structure(_))), "{found:?}");
        assert!(found.iter().any(|v| matches!(v, Violation::Value { .. })), "{found:?}");
    }
    for found in [finds_damage::<TatpHash>(0.3), finds_damage::<TatpBtree>(0.3)] {
        assert!(count(&found, "a subscriber's number") > 0, "{found:?}");
        assert!(found.iter().any(|v| matches!(v, Violation::Value { .. })), "{found:?}");
    }
    for found in [finds_damage::<Records>(0.5), finds_damage::<Records20>(0.5)] {
        assert!(found.iter().any(|v| matches!(v, Violation::Record { .. })), "{found:?}");
        assert!(found.iter().any(|v| matches!(v, Violation::Structure(_))), "{found:?}");
    }
    for found in
        [finds_damage::<Chains>(0.5), finds_damage::<ChainsSparse>(0.5), finds_damage::<List>(0.5)]
    {
        assert!(found.iter().any(|v| matches!(v, Violation::Record { .. })), "{found:?}");
    }
    let found = finds_damage::<Rbt>(0.8);
    assert!(found.iter().any(|v| matches!(v, Violation::Value { .. })), "{found:?}");
    assert!(found.iter().any(|v| matches!(v, Violation::Structure(_))), "{found:?}");
    for found in [finds_damage::<Cq>(0.4), finds_damage::<Pc>(0.5), finds_damage::<Sps>(0.9)] {
        assert!(found.iter().any(|v| matches!(v, Violation::Record { .. })), "{found:?}");
    }
    let found = finds_damage::<Kmeans>(0.2);
    assert!(count(&found, "a centre beyond that of a sequential run") > 0, "{found:?}");
    let found = finds_damage::<TatpMix>(0.3);
    assert!(found.iter().any(|v| matches!(v, Violation::Structure(_))), "{found:?}");
    assert!(found.iter().any(|v| matches!(v, Violation::Record { .. })), "{found:?}");
    let found = finds_damage::<Vacation>(0.4);
    assert!(count(&found, "places of a row") > 0, "{found:?}");
    assert!(count(&found, "reservations of a customer") > 0, "{found:?}");
    let found = finds_damage::<Ssca2>(0.9);
    assert!(count(&found, "an edge that was never added") > 0, "{found:?}");
    assert!(count(&found, "the number of an edge at its node") > 0, "{found:?}");
    for found in [finds_damage::<BtreeUpdate>(0.5), finds_damage::<SessionStore>(0.5)] {
        assert!(found.iter().any(|v| matches!(v, Violation::Value { .. })), "{found:?}");
    }
    for found in [finds_damage::<TpccHash>(0.1), finds_damage::<TpccBtree>(0.1)] {
        assert!(found.iter().any(|v| matches!(v, Violation::Condition { .. })), "{found:?}");
    }
    for found in [finds_damage::<YcsbA>(0.1), finds_damage::<YcsbE>(0.1)] {
        assert!(found.iter().any(|v| matches!(v, Violation::Record { .. })), "{found:?}");
    }
    for found in [finds_damage::<Writes>(0.9), finds_damage::<Scatter>(0.9)] {
        assert!(found.iter().any(|v| matches!(v, Violation::Value { .. })), "{found:?}");
    }
}

#[test]
fn checks_of_stores_and_keys_find_injected_damage() {
    let found = [finds_damage::<Vector>(0.1), finds_damage::<Swap>(0.9)];
    assert!(found.iter().flatten().any(|v| matches!(v, Violation::Record { .. })), "{found:?}");
    for found in [
        finds_damage::<Hashmap>(0.1),
        finds_damage::<Btreemap>(0.1),
        finds_damage::<Rbtreemap>(0.1),
        finds_damage::<YcsbPut>(0.1),
        finds_damage::<Echo>(0.1),
    ] {
        assert!(found.iter().any(|v| matches!(v, Violation::Record { .. })), "{found:?}");
    }
    let found = finds_damage::<RbTreeZipf>(0.2);
    assert!(count(&found, "keys that a tree counts") > 0, "{found:?}");
    assert!(found.iter().any(|v| matches!(v, Violation::Structure(_))), "{found:?}");
    assert!(found.iter().any(|v| matches!(v, Violation::Value { .. })), "{found:?}");
    let found = finds_damage::<BpTreeRand>(0.05);
    assert!(count(&found, "keys that a tree counts") > 0, "{found:?}");
    assert!(found.iter().any(|v| matches!(v, Violation::Value { .. })), "{found:?}");
    let found = finds_damage::<HashRand>(0.1);
    assert!(found.iter().any(|v| matches!(v, Violation::Key { .. })), "{found:?}");
    assert!(found.iter().any(|v| matches!(v, Violation::Value { .. })), "{found:?}");
    let found = finds_damage::<Memcached>(0.05);
    assert!(found.iter().any(|v| matches!(v, Violation::Record { .. })), "{found:?}");
    assert!(count(&found, "the newer item of one") > 0, "{found:?}");
    let found = finds_damage::<Typed>(0.5);
    assert!(found.iter().any(|v| matches!(v, Violation::HashMap(_))), "{found:?}");
    assert!(found.iter().any(|v| matches!(v, Violation::BTreeMap(_))), "{found:?}");
    assert!(found.iter().any(|v| matches!(v, Violation::Record { .. })), "{found:?}");
    let found = finds_damage::<Sps1>(0.9);
    assert!(found.iter().any(|v| matches!(v, Violation::Value { .. })), "{found:?}");
}

/// Ends a transaction after every number of its writes but all, without rollback.
fn finds_torn_transactions<W: Workload>(expected: fn(&Violation) -> bool) {
    finds_torn_transactions_of(Kind::by_name(W::NAME).unwrap(), expected);
}

fn finds_torn_transactions_of(kind: Kind, expected: fn(&Violation) -> bool) {
    // Runs a transaction with only this many writes done; returns how many were requested.
    let tear = |writes: usize| {
        let (mut mock, workload) = loaded(kind, &SMALL);
        let mut client = workload.client(0, 1);
        run(&mut mock, &workload, std::slice::from_mut(&mut client), 30);
        workload.next(&mut client);
        let asked = mock.transact(|tx| {
            let mut torn = Torn { mock: tx, left: writes, asked: 0 };
            workload.run(&client, &mut ErasedTx::new(&mut torn))?;
            Ok(torn.asked)
        });
        let present = is_present(&mut mock, &workload, &client);
        (asked.unwrap(), present, check(&workload, &mut mock))
    };
    let (all, present, found) = tear(usize::MAX);
    assert!(present && found.is_empty() && all >= 4, "{}: {all} writes", kind.name);
    let mut shown = 0;
    for writes in 1..all {
        let (_, present, found) = tear(writes);
        // It may be whole if the missing writes changed no value: a place that was drawn twice.
        let torn = found.iter().any(expected);
        assert!(torn || present, "{}, {writes} of {all} writes: {found:?}", kind.name);
        shown += usize::from(torn);
    }
    assert!(shown + 3 >= all, "{}: {shown} of {all}", kind.name);
}

#[test]
fn torn_transaction_is_found() {
    finds_torn_transactions::<Records>(|v| matches!(v, Violation::Record { .. }));
    finds_torn_transactions::<Writes>(|v| matches!(v, Violation::Pair { .. }));
    finds_torn_transactions::<Kmeans>(|v| matches!(v, Violation::Count { .. }));
    finds_torn_transactions::<Scatter>(|v| matches!(v, Violation::Pair { .. }));
}
