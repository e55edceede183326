//! Types with `#[lastword::persist]`: stored, read field by field, and compared when a collection
//! is opened.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use lastword::prelude::*;
use lastword::{Design, Field, NamedError};

use crate::names::EMULATED;

use bank::{AccountCrateFields, AccountFields};

#[lastword::persist]
#[repr(u8)]
#[derive(Debug, PartialEq)]
enum Door {
    Open = 1,
    Shut,
}

#[lastword::persist]
#[derive(Debug, PartialEq)]
struct Room {
    number: u32,
    door: Door,
    is_lit: bool,
    r#type: u16,
}

/// A list of rooms.
#[lastword::persist]
#[derive(Debug, PartialEq)]
struct Floor {
    next: Ptr<Self>,
    rooms: [Room; 2],
    best: Room,
    /// The name of a method of pointers.
    cast: u64,
}

#[lastword::persist]
#[derive(Debug, PartialEq)]
struct Point(i32, i32);

#[lastword::persist]
#[repr(transparent)]
#[derive(Debug, PartialEq, Eq)]
struct Cents {
    cents: u64,
}

mod bank {
    use lastword::{Field, Ptr};

    #[allow(unreachable_pub, reason = "its fields have every lower visibility")]
    #[lastword::persist]
    pub struct Account {
        pub id: u64,
        pub(crate) owner: u64,
        pub(super) branch: u64,
        cents: u64,
    }

    impl Account {
        pub(crate) fn new(cents: u64) -> Account {
            Account { id: 1, owner: 2, branch: 3, cents }
        }
    }

    pub(crate) fn cents(account: Ptr<Account>) -> Field<u64> {
        account.cents()
    }
}

const ROOM: Room = Room { number: 7, door: Door::Open, is_lit: true, r#type: 9 };

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(1 << 20).medium(EMULATED)
}

fn pool() -> (tempfile::TempDir, Pool) {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(dir.path().join("pool"), options()).unwrap();
    (dir, pool)
}

fn fields_are_read_and_written<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::<D>::create_as(&path, options()).unwrap();
    let floor = Floor { next: Ptr::NULL, rooms: [ROOM; 2], best: ROOM, cast: 5 };
    let made = pool.run(|tx| {
        let at = tx.alloc(floor)?;
        tx.set_root_ptr(at)?;
        tx.set(at.next(), at)?;
        tx.set(at.best().door(), Door::Shut)?;
        tx.update(at.best().r#type(), |ty| ty + 1)?;
        tx.set(at.best().is_lit(), false)?;
        tx.set(field!(at, Floor, cast), 6)?;
        Ok(at)
    });
    let at = made.unwrap().value;
    pool.close().unwrap();
    let pool = Pool::<D>::open_as(&path, options()).unwrap();
    let root = pool.run(|tx| tx.root_ptr::<Floor>()).unwrap().value;
    let best = Room { door: Door::Shut, r#type: 10, is_lit: false, ..ROOM };
    let expected = Floor { next: at, rooms: [ROOM; 2], best, cast: 6 };
    assert_eq!(pool.run(|tx| tx.get(root)).unwrap().value, expected, "{}", D::NAME);
    assert_eq!(pool.run(|tx| tx.get(root.best().number())).unwrap().value, 7);
}

#[test]
fn field_methods_read_and_write_in_every_design() {
    every_durable!(fields_are_read_and_written());
}

#[test]
fn field_method_is_the_place_of_field_macro() {
    let floor: Ptr<Floor> = Ptr::from_bits(64);
    assert_eq!(floor.best().addr(), field!(floor, Floor, best).addr());
    let lit: Field<bool> = floor.best().is_lit();
    assert_eq!(lit.addr(), field!(field!(floor, Floor, best), Room, is_lit).addr());
    let cents: Ptr<Cents> = Ptr::from_bits(64);
    assert_eq!(cents.cents().addr(), cents.addr());
}

#[test]
fn method_of_a_pointer_stays_its_own() {
    let floor: Ptr<Floor> = Ptr::from_bits(64);
    let other: Ptr<u64> = floor.cast();
    assert_eq!(other.to_bits(), 64);
}

/// A private field has a private method, which this module cannot call.
#[test]
fn field_methods_keep_their_fields_visibility() {
    let (_dir, pool) = pool();
    let done = pool.run(|tx| {
        let account = tx.alloc(bank::Account::new(4))?;
        use bank::AccountSuperFields;
        let ids = [account.id(), account.owner(), account.branch(), bank::cents(account)];
        ids.map(|field| tx.get(field)).into_iter().collect::<Result<Vec<_>, _>>()
    });
    assert_eq!(done.unwrap().value, [1, 2, 3, 4]);
}

#[test]
fn unknown_variant_is_refused() {
    let (_dir, pool) = pool();
    let read = pool.run(|tx| {
        let room = tx.alloc(ROOM)?;
        let door: Field<u8> = room.field_at(std::mem::offset_of!(Room, door));
        tx.set(door, 3)?;
        tx.get(room.door())
    });
    assert!(matches!(read.unwrap_err(), Error::BadValue));
}

#[test]
fn arrays_and_tuple_structs_are_values() {
    let (_dir, pool) = pool();
    let points = pool.hash_map::<str, [Point; 2]>("points").unwrap();
    let cents = pool.btree_map::<u8, Cents>("cents").unwrap();
    let done = pool.run(|tx| {
        points.put(tx, "line", [Point(0, 0), Point(3, -4)])?;
        cents.put(tx, 1, Cents { cents: 5 })?;
        Ok((points.get(tx, "line")?, cents.get(tx, 1)?))
    });
    let expected = (Some([Point(0, 0), Point(3, -4)]), Some(Cents { cents: 5 }));
    assert_eq!(done.unwrap().value, expected);
}

/// Types of the same name and size.
mod other {
    pub(crate) mod reordered {
        #[lastword::persist]
        pub(crate) struct Room {
            number: u32,
            is_lit: bool,
            door: crate::persist::Door,
            r#type: u16,
        }
    }

    pub(crate) mod deeper {
        #[lastword::persist]
        #[repr(u8)]
        pub(crate) enum Door {
            Shut = 1,
            Open,
        }

        #[lastword::persist]
        pub(crate) struct Room {
            number: u32,
            door: Door,
            is_lit: bool,
            r#type: u16,
        }
    }

    pub(crate) mod grown {
        #[lastword::persist]
        #[repr(u8)]
        pub(crate) enum Door {
            Open = 1,
            Shut,
            Ajar,
        }

        #[lastword::persist]
        pub(crate) struct Room {
            number: u32,
            door: Door,
            is_lit: bool,
            r#type: u16,
        }
    }

    pub(crate) mod plain {
        use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

        #[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub(crate) struct Room {
            number: u32,
            door: u8,
            is_lit: bool,
            r#type: u16,
        }

        pub(crate) const ROOM: Room = Room { number: 7, door: 1, is_lit: true, r#type: 9 };
    }

    pub(crate) mod named {
        #[lastword::persist(name = "Room")]
        pub(crate) struct RoomV1 {
            number: u32,
            door: crate::persist::Door,
            is_lit: bool,
            r#type: u16,
        }
    }
}

fn refused<V: lastword::collections::Value + 'static>(pool: &Pool) -> String {
    match pool.hash_map::<str, V>("rooms") {
        Err(error @ Error::Named(NamedError::OtherTypes { .. })) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a map of other types was opened"),
    }
}

#[test]
fn reordered_fields_are_refused_with_both_lists() {
    let (_dir, pool) = pool();
    let _ = pool.hash_map::<str, Room>("rooms").unwrap();
    let text = refused::<other::reordered::Room>(&pool);
    let [stored, wanted] = [
        "HashMap<str, Room> (values of 8 bytes) with struct Room { number: u32 at 0, door: Door at \
         4, is_lit: bool at 5, type: u16 at 6 }, enum Door: u8 { Open = 1 | Shut = 2 }",
        "HashMap<str, Room> (values of 8 bytes) with struct Room { number: u32 at 0, is_lit: bool \
         at 4, door: Door at 5, type: u16 at 6 }, enum Door: u8 { Open = 1 | Shut = 2 }",
    ];
    assert!(text.contains(&format!("its type is {stored}, not {wanted};")), "{text}");
}

#[test]
fn changed_variants_of_a_field_are_refused() {
    let (_dir, pool) = pool();
    let _ = pool.hash_map::<str, Room>("rooms").unwrap();
    let text = refused::<other::deeper::Room>(&pool);
    assert!(text.contains("enum Door: u8 { Shut = 1 | Open = 2 }"), "{text}");
}

#[test]
fn added_variant_is_accepted_once() {
    let (_dir, pool) = pool();
    let _ = pool.hash_map::<str, Room>("rooms").unwrap();
    let _ = pool.hash_map::<str, other::grown::Room>("rooms").unwrap();
    // The old program would not know the new variant.
    let text = refused::<Room>(&pool);
    assert!(text.contains("is HashMap<str, Room>") && text.contains("Ajar = 3"), "{text}");
}

#[test]
fn type_may_get_its_macro_later() {
    let (_dir, pool) = pool();
    let before = pool.hash_map::<str, other::plain::Room>("rooms").unwrap();
    pool.run(|tx| before.put(tx, "a", other::plain::ROOM)).unwrap().ticket.wait().unwrap();
    let after = pool.hash_map::<str, Room>("rooms").unwrap();
    assert_eq!(pool.run(|tx| after.get(tx, "a")).unwrap().value, Some(ROOM));
    // Its fields are compared from then on, and a type without a macro is not.
    refused::<other::reordered::Room>(&pool);
    let _ = pool.hash_map::<str, other::plain::Room>("rooms").unwrap();
    refused::<other::reordered::Room>(&pool);
}

#[test]
fn old_type_keeps_its_name_in_the_pool() {
    let (_dir, pool) = pool();
    let _ = pool.hash_map::<str, Room>("rooms").unwrap();
    assert!(pool.hash_map::<str, other::named::RoomV1>("rooms").is_ok());
}
