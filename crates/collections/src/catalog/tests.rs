//! Names, types and the root of a pool.

use words::Transact;
use words::mock::Mock;

use super::*;

fn opened<C: Named>(mock: &mut Mock, name: &str) -> Opened<C> {
    mock.transact(|tx| open::<C, _>(tx, name)).unwrap()
}

#[test]
fn collection_is_found_by_its_name_and_types() {
    let mut mock = Mock::new(1 << 16);
    let Opened::Created(users) = opened::<HashMap<str, u64>>(&mut mock, "users") else {
        panic!("it is new");
    };
    mock.transact(|tx| users.put(tx, "ann", 7)).unwrap();
    let Opened::Created(names) = opened::<BTreeSet<(u32, String)>>(&mut mock, "") else {
        panic!("it is new");
    };
    assert!(mock.transact(has_root).unwrap());
    assert_eq!(opened(&mut mock, "users"), Opened::Found(users));
    assert_eq!(opened(&mut mock, ""), Opened::Found(names));
    assert_eq!(mock.transact(|tx| users.get(tx, "ann")).unwrap(), Some(7));
    let Opened::Created(log) = opened::<crate::Vec<[u64; 2]>>(&mut mock, "log") else {
        panic!("it is new");
    };
    mock.transact(|tx| log.push(tx, [1, 2])).unwrap();
    assert_eq!(opened(&mut mock, "log"), Opened::Found(log));
    let other = opened::<VecDeque<[u64; 2]>>(&mut mock, "log");
    assert_eq!(other, Opened::Other(crate::Vec::<[u64; 2]>::types()));
    let list = mock.transact(list).unwrap();
    let texts = list.iter().map(|(name, types)| format!("{name}: {types}"));
    let expected = [
        ": BTreeSet<(u32, str)>",
        "log: Vec<[u64; 2]> (values of 16 bytes)",
        "users: HashMap<str, u64> (values of 8 bytes)",
    ];
    assert!(texts.eq(expected), "{list:?}");
}

#[test]
fn other_types_are_refused() {
    mod other {
        /// Has the name and not the layout.
        #[derive(
            Clone,
            Copy,
            zerocopy::TryFromBytes,
            zerocopy::IntoBytes,
            zerocopy::Immutable,
            zerocopy::KnownLayout,
        )]
        #[repr(C)]
        pub(super) struct Lengths(pub(super) [u64; 3]);
    }
    let mut mock = Mock::new(1 << 16);
    let created = opened::<HashMap<u64, Lengths>>(&mut mock, "of a struct");
    assert!(matches!(created, Opened::Created(_)));
    let stored = HashMap::<u64, Lengths>::types();
    assert_eq!(opened::<Counter>(&mut mock, "of a struct"), Opened::Other(stored.clone()));
    type Other = HashMap<u64, other::Lengths>;
    assert_eq!(opened::<Other>(&mut mock, "of a struct"), Opened::Other(stored.clone()));
    let set = opened::<BTreeMap<u64, Lengths>>(&mut mock, "of a struct");
    assert_eq!(set, Opened::Other(stored));
}

#[test]
fn root_of_a_program_is_kept() {
    let mut mock = Mock::new(1 << 16);
    assert_eq!(mock.transact(|tx| find::<Counter, _>(tx, "visits")).unwrap(), None);
    let object = mock
        .transact(|tx| {
            let object = tx.alloc(5_u64)?;
            tx.set_root(object.to_bits())?;
            Ok(object.to_bits())
        })
        .unwrap();
    assert_eq!(opened::<Counter>(&mut mock, "visits"), Opened::OwnRoot);
    assert_eq!(mock.transact(|tx| tx.root()).unwrap(), object);
    assert!(!mock.transact(has_root).unwrap());
}

#[test]
fn removed_name_leaves_no_memory() {
    let mut mock = Mock::new(1 << 16);
    let Opened::Created(visits) = opened::<Counter>(&mut mock, "visits") else {
        panic!("it is new");
    };
    let before = mock.objects();
    let Opened::Created(users) = opened::<HashMap<str, str>>(&mut mock, "users") else {
        panic!("it is new");
    };
    let wrong = mock.transact(|tx| remove::<Counter, _>(tx, "users")).unwrap();
    assert_eq!(wrong, None);
    let removed = mock.transact(|tx| remove::<HashMap<str, str>, _>(tx, "users")).unwrap();
    assert_eq!(removed, Some(users));
    mock.transact(|tx| users.free(tx)).unwrap();
    assert_eq!(mock.objects(), before);
    assert_eq!(opened(&mut mock, "visits"), Opened::Found(visits));
}
