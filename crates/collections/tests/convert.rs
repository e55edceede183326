//! Conversions of named collections, step by step.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;

use collections::catalog::{self, Convert, Converted, Named, Opened};
use collections::{BTreeMap, Counter, HashMap, Vec as Stored, VecDeque};
use words::mock::Mock;
use words::{Stop, Transact};

const COUNT: u64 = 230;

/// Two structs of one name: versions of a type.
mod v1 {
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout,
    )]
    #[repr(C)]
    pub(super) struct User(pub(super) u64);
}
mod v2 {
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout,
    )]
    #[repr(C)]
    pub(super) struct User(pub(super) [u64; 12]);
}

fn open<C: Named>(mock: &mut Mock, name: &str) -> Opened<C> {
    mock.transact(|tx| catalog::open(tx, name)).unwrap()
}

fn created<C: Named>(mock: &mut Mock, name: &str) -> C {
    let Opened::Created(collection) = open(mock, name) else { panic!("it is new") };
    collection
}

/// One step, with a closure of its own, as after a restart.
fn step<C: Convert<N>, N: Named>(
    mock: &mut Mock,
    most: usize,
    change: fn(C::Old) -> C::New,
) -> Converted<N> {
    let mut change = change;
    mock.transact(|tx| catalog::convert_step::<C, N, _>(tx, "name", most, &mut change)).unwrap()
}

/// Converts a collection, and checks the name and the memory between the steps.
fn converted<C: Convert<N> + PartialEq + Debug, N: Named + PartialEq + Debug>(
    fill: fn(&mut Mock, C),
    change: fn(C::Old) -> C::New,
    check: fn(&mut Mock, N),
    free: fn(&mut Mock, N),
) {
    let mut mock = Mock::new(8 << 20);
    let _: Counter = created(&mut mock, "other");
    let before = mock.live();
    let old: C = created(&mut mock, "name");
    fill(&mut mock, old);
    let mut steps = 0;
    let new = loop {
        match step::<C, N>(&mut mock, 7, change) {
            Converted::Unfinished => steps += 1,
            Converted::Finished(new) => break new,
            other => panic!("{other:?}"),
        }
        assert!(mock.words_written() < 4000, "{} words", mock.words_written());
        let closed = Opened::Converting { from: C::types(), to: N::types() };
        assert!(matches!(open::<C>(&mut mock, "name"), Opened::Converting { .. }));
        assert_eq!(open::<N>(&mut mock, "name"), closed);
        assert!(matches!(open::<Counter>(&mut mock, "name"), Opened::Converting { .. }));
        assert_eq!(mock.transact(|tx| catalog::remove::<C, _>(tx, "name")).unwrap(), None);
        assert_eq!(mock.transact(|tx| catalog::remove::<N, _>(tx, "name")).unwrap(), None);
        let listed = mock.transact(catalog::list).unwrap();
        assert!(listed[0].1.to_string().starts_with("unfinished conversion of "), "{listed:?}");
    };
    assert!(steps as u64 >= COUNT / 7, "{steps} steps");
    check(&mut mock, new);
    assert!(open::<N>(&mut mock, "name") == Opened::Found(new));
    let again = step::<C, N>(&mut mock, 7, change);
    assert!(again == Converted::Opened(Opened::Found(new)), "a conversion repeats");
    let removed = mock.transact(|tx| catalog::remove::<N, _>(tx, "name")).unwrap();
    assert!(removed == Some(new));
    free(&mut mock, new);
    assert_eq!(mock.live(), before, "memory leaks");
}

fn longer(v1::User(number): v1::User) -> v2::User {
    v2::User([number; 12])
}

fn text(number: u64) -> String {
    "text".repeat(if number % 50 == 3 { 300 } else { number as usize % 9 })
}

#[test]
fn hash_map_is_converted_in_steps() {
    converted::<HashMap<str, v1::User>, HashMap<str, v2::User>>(
        |mock, map| {
            for number in 0..COUNT {
                mock.transact(|tx| map.put(tx, text(number) + "x", v1::User(number))).unwrap();
                mock.transact(|tx| map.put(tx, number.to_string(), v1::User(number))).unwrap();
            }
        },
        longer,
        |mock, map| {
            assert_eq!(mock.transact(|tx| map.check(tx)).unwrap().damage, []);
            for number in 0..COUNT {
                let found = mock.transact(|tx| map.get(tx, number.to_string())).unwrap();
                assert_eq!(found, Some(v2::User([number; 12])));
            }
        },
        |mock, map| mock.transact(|tx| map.free(tx)).unwrap(),
    );
}

#[test]
fn ordered_map_is_converted_in_steps() {
    converted::<BTreeMap<(u32, String), str>, BTreeMap<(u32, String), u64>>(
        |mock, map| {
            for number in 0..COUNT {
                let key = (number as u32 % 7, number.to_string());
                mock.transact(|tx| map.put(tx, &key, text(number))).unwrap();
            }
        },
        |text| text.len() as u64,
        |mock, map| {
            assert_eq!(mock.transact(|tx| map.check(tx)).unwrap().damage, []);
            assert_eq!(mock.transact(|tx| map.len(tx)).unwrap(), COUNT);
            for number in 0..COUNT {
                let key = (number as u32 % 7, number.to_string());
                let found = mock.transact(|tx| map.get(tx, &key)).unwrap();
                assert_eq!(found, Some(text(number).len() as u64));
            }
        },
        |mock, map| mock.transact(|tx| map.free(tx)).unwrap(),
    );
}

#[test]
fn vector_keeps_its_order() {
    converted::<Stored<v1::User>, Stored<str>>(
        |mock, list| {
            mock.transact(|tx| list.extend(tx, (0..COUNT).map(v1::User))).unwrap();
        },
        |v1::User(number)| text(number),
        |mock, list| {
            assert_eq!(mock.transact(|tx| list.check(tx)).unwrap().damage, []);
            let all = mock.transact(|tx| list.iter(tx).collect::<Result<Vec<_>, _>>()).unwrap();
            assert!(all.into_iter().eq((0..COUNT).map(text)));
        },
        |mock, list| mock.transact(|tx| list.free(tx)).unwrap(),
    );
}

#[test]
fn queue_keeps_its_order() {
    converted::<VecDeque<str>, VecDeque<u64>>(
        |mock, queue| {
            for number in (0..COUNT).rev() {
                mock.transact(|tx| queue.push_front(tx, number.to_string())).unwrap();
            }
        },
        |text| text.parse().unwrap(),
        |mock, queue| {
            assert_eq!(mock.transact(|tx| queue.check(tx)).unwrap().damage, []);
            let all = mock.transact(|tx| queue.iter(tx).collect::<Result<Vec<_>, _>>()).unwrap();
            assert!(all.into_iter().eq(0..COUNT));
        },
        |mock, queue| mock.transact(|tx| queue.free(tx)).unwrap(),
    );
}

type Old = HashMap<u64, v1::User>;
type New = HashMap<u64, v2::User>;

#[test]
fn short_vectors_are_converted() {
    for len in 0..5 {
        let mut mock = Mock::new(1 << 16);
        let old: Stored<u32> = created(&mut mock, "name");
        mock.transact(|tx| old.extend(tx, 0..len)).unwrap();
        let new = loop {
            match step::<Stored<u32>, Stored<u64>>(&mut mock, 1, u64::from) {
                Converted::Unfinished => {}
                Converted::Finished(new) => break new,
                other => panic!("{other:?}"),
            }
        };
        let all = mock.transact(|tx| new.iter(tx).collect::<Result<Vec<_>, _>>()).unwrap();
        assert!(all.into_iter().eq(0..u64::from(len)), "{len} elements");
    }
}

#[test]
fn unknown_name_is_created_with_the_new_types() {
    let mut mock = Mock::new(1 << 16);
    let Converted::Opened(Opened::Created(new)) = step::<Old, New>(&mut mock, 7, longer) else {
        panic!("it is new");
    };
    assert_eq!(open(&mut mock, "name"), Opened::Found(new));
}

#[test]
fn other_types_are_refused_at_every_step() {
    let mut mock = Mock::new(1 << 20);
    let old: Old = created(&mut mock, "name");
    mock.transact(|tx| old.put(tx, 1, v1::User(1))).unwrap();
    let other = step::<HashMap<u64, u8>, HashMap<u64, u16>>(&mut mock, 7, u16::from);
    assert_eq!(other, Converted::Opened(Opened::Other(Old::types())));
    assert_eq!(step::<Old, New>(&mut mock, 7, longer), Converted::Unfinished);
    let live = mock.live();
    let expected = Opened::Converting { from: Old::types(), to: New::types() };
    let to = step::<Old, HashMap<u64, u8>>(&mut mock, 7, |_| 0);
    assert!(matches!(to, Converted::Opened(Opened::Converting { .. })));
    let from = step::<HashMap<u64, u8>, New>(&mut mock, 7, |_| v2::User([0; 12]));
    assert_eq!(from, Converted::Opened(expected));
    assert_eq!(mock.live(), live);
}

/// The second conversion would convert the values again.
#[test]
fn types_that_agree_are_refused() {
    mod of_one_size {
        #[derive(
            Clone,
            Copy,
            Debug,
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::Immutable,
            zerocopy::KnownLayout,
        )]
        #[repr(C)]
        pub(super) struct User([u8; 8]);
    }
    let mut mock = Mock::new(1 << 20);
    let _: Old = created(&mut mock, "name");
    let live = mock.live();
    type Alike = HashMap<u64, of_one_size::User>;
    let alike = step::<Old, Alike>(&mut mock, 7, |_| panic!("nothing is converted"));
    assert_eq!(alike, Converted::Alike);
    assert_eq!(mock.live(), live);
}

/// A program that has kept a handle of the old types changes the rest of the old collection.
#[test]
fn pairs_inserted_between_steps_are_converted() {
    let mut mock = Mock::new(1 << 20);
    let old: Old = created(&mut mock, "name");
    mock.transact(|tx| old.extend(tx, (0..20).map(|n| (n, v1::User(n))))).unwrap();
    for number in 100.. {
        match step::<Old, New>(&mut mock, 3, longer) {
            Converted::Unfinished if number < 104 => {
                mock.transact(|tx| old.put(tx, number, v1::User(number))).unwrap();
            }
            Converted::Unfinished => {}
            Converted::Finished(new) => {
                assert_eq!(mock.transact(|tx| new.len(tx)).unwrap(), 24);
                let late = mock.transact(|tx| new.get(tx, 103)).unwrap();
                return assert_eq!(late, Some(v2::User([103; 12])));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Every step is atomic: a conflict at each of its accesses changes nothing.
#[test]
fn step_with_a_conflict_is_repeated() {
    type Old = BTreeMap<u64, str>;
    type New = BTreeMap<u64, u64>;
    let convert = |mock: &mut Mock| step::<Old, New>(mock, 2, |text| text.len() as u64);
    for steps_before in 0..4 {
        for access in 0.. {
            let mut mock = Mock::new(1 << 16);
            let old: Old = created(&mut mock, "name");
            mock.transact(|tx| old.extend(tx, [(1, "a"), (2, "bb"), (3, "ccc")])).unwrap();
            for _ in 0..steps_before {
                assert_eq!(convert(&mut mock), Converted::Unfinished);
            }
            mock.conflict_after(access);
            let mut done = convert(&mut mock);
            let is_over = mock.take_conflict();
            let is_last = matches!(done, Converted::Finished(_));
            assert_eq!(is_last, steps_before == 3, "conflict at access {access}");
            while done == Converted::Unfinished {
                done = convert(&mut mock);
            }
            let Converted::Finished(new) = done else { panic!("{done:?}") };
            let pairs = mock.transact(|tx| new.range(..).collect(tx)).unwrap();
            assert_eq!(pairs, [(1, 1), (2, 2), (3, 3)], "conflict at access {access}");
            if is_over {
                break;
            }
        }
    }
}

#[test]
fn full_heap_loses_nothing() {
    // Without the memory for all new values: the mock never reuses memory.
    let mut mock = Mock::new(40 << 10);
    let old: Old = created(&mut mock, "name");
    mock.transact(|tx| old.extend(tx, (0..COUNT).map(|n| (n, v1::User(n))))).unwrap();
    let mut change = longer;
    let mut steps = 0;
    let refused = loop {
        let live = mock.live();
        let run = |tx: &mut _| catalog::convert_step::<Old, New, _>(tx, "name", 9, &mut change);
        match mock.transact(run) {
            Ok(done) => assert_eq!(done, Converted::Unfinished),
            Err(refused) => {
                assert_eq!(mock.live(), live);
                break refused;
            }
        }
        steps += 1;
    };
    assert_eq!(refused.stop, Stop::Full);
    assert!(steps > 3, "{steps} steps");
    let left = mock.transact(|tx| old.len(tx)).unwrap();
    assert!(left > 0 && left < COUNT, "{left} pairs are left");
    assert_eq!(mock.transact(|tx| old.check(tx)).unwrap().damage, []);
}
