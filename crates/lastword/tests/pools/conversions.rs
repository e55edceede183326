//! Conversions of named collections: interrupted after every step, by several threads at once, and
//! in pools that are too small.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use lastword::collections::catalog::{self, Converted, Opened};
use lastword::collections::{BTreeMap, Counter, HashMap, Vec as Stored};
use lastword::{Decoupled, Design, Error, NamedError, Options, Pool, Snapshot, Stop};

use crate::names::EMULATED;

const USERS: u64 = 150;

mod v1 {
    #[lastword::persist]
    #[derive(Debug, PartialEq)]
    pub(super) struct User {
        pub(super) age: u64,
    }
}

/// The size and the name stay.
mod v2 {
    #[lastword::persist]
    #[derive(Debug, PartialEq)]
    pub(super) struct User {
        pub(super) born: u64,
    }
}

type Old = HashMap<str, v1::User>;
type New = HashMap<str, v2::User>;

fn changed(old: v1::User) -> v2::User {
    v2::User { born: 2000 - old.age }
}

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(1 << 20).medium(EMULATED)
}

fn fill<D: Design>(pool: &Pool<D>) {
    let users: Old = pool.named("users").unwrap();
    let log: Stored<u32> = pool.named("log").unwrap();
    let filled = pool.run(|tx| {
        let user = |age: u64| (age.to_string(), v1::User { age });
        users.extend(tx, (0..USERS).map(user))?;
        log.extend(tx, 0..USERS as u32)
    });
    filled.unwrap().ticket.wait().unwrap();
}

fn check<D: Design>(pool: &Pool<D>, users: New, log: Stored<str>) {
    let found = pool.run(|tx| {
        assert_eq!((users.check(tx)?.damage, log.check(tx)?.damage), (vec![], vec![]));
        assert_eq!((users.len(tx)?, log.len(tx)?), (USERS, USERS));
        for age in 0..USERS {
            assert_eq!(log.get(tx, age)?, Some(age.to_string()));
            assert_eq!(users.get(tx, age.to_string())?, Some(v2::User { born: 2000 - age }));
        }
        Ok(())
    });
    let _ = found.unwrap();
}

/// Does one step in a pool that is then left as by a crash. Returns whether it was the last.
fn step_and_crash<D: Design>(path: &Path) -> bool {
    let pool = Pool::<D>::open_as(path, options()).unwrap();
    let users =
        pool.run(|tx| catalog::convert_step::<Old, New, _>(tx, "users", 9, &mut { changed }));
    let users = users.unwrap();
    let log = pool.run(|tx| {
        let mut change = |number: u32| number.to_string();
        catalog::convert_step::<Stored<u32>, Stored<str>, _>(tx, "log", 9, &mut change)
    });
    let log = log.unwrap();
    log.ticket.wait().unwrap();
    let is_last = log.value != Converted::Unfinished;
    let is_unfinished = users.value == Converted::Unfinished;
    if is_unfinished {
        let closed =
            [pool.named::<Old>("users").unwrap_err(), pool.named::<New>("users").unwrap_err()];
        for error in closed {
            assert!(matches!(error, Error::Named(NamedError::Converting { .. })), "{error}");
            let text = error.to_string();
            assert!(text.contains("run `Pool::convert` with these types to its end"), "{text}");
        }
    }
    pool.abandon();
    !is_unfinished && is_last
}

#[test]
fn conversion_resumes_after_crash() {
    fn crashed<D: Design>() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users.pool");
        let pool = Pool::<D>::create_as(&path, options()).unwrap();
        fill(&pool);
        pool.close().unwrap();
        let steps = (1..).find(|_| step_and_crash::<D>(&path)).unwrap();
        assert!(steps >= USERS / 9, "{steps} steps");
        let pool = Pool::<D>::open_as(&path, options()).unwrap();
        let (users, log) = (pool.named("users").unwrap(), pool.named("log").unwrap());
        check(&pool, users, log);
        pool.close().unwrap();
        assert!(lastword::check(&path).unwrap().sound().is_ok());
    }
    crashed::<Decoupled>();
    crashed::<Snapshot>();
}

/// Threads convert a name and open it at the same time: no value is converted twice.
#[test]
fn threads_share_a_conversion() {
    fn shared<D: Design>() {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::<D>::create_as(dir.path().join("users.pool"), options()).unwrap();
        fill(&pool);
        let converted = std::thread::scope(|scope| {
            let pool = &pool;
            let open = move || match pool.named::<New>("users") {
                Ok(_) | Err(Error::Named(NamedError::Converting { .. })) => {}
                Err(Error::Named(NamedError::OtherTypes { .. })) => {}
                Err(error) => panic!("{error}"),
            };
            scope.spawn(move || (0..200).for_each(|_| open()));
            let convert = || {
                let users = pool.convert::<Old, New>("users", changed).unwrap();
                let log = pool.convert::<Stored<u32>, Stored<str>>("log", |n| n.to_string());
                (users, log.unwrap())
            };
            let threads = [(); 3].map(|()| scope.spawn(convert));
            threads.map(|thread| thread.join().unwrap())
        });
        let (users, log) = converted[0];
        assert!(converted.iter().all(|&it| it == (users, log)));
        check(&pool, users, log);
    }
    shared::<Decoupled>();
    shared::<Snapshot>();
}

#[test]
fn refused_conversion_names_all_types() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(dir.path().join("users.pool"), options()).unwrap();
    fill(&pool);
    let wrong = pool.convert::<HashMap<str, u8>, HashMap<str, u16>>("users", u16::from);
    let text = wrong.unwrap_err().to_string();
    assert!(text.contains("is HashMap<str, User> (values of 8 bytes) with struct User"), "{text}");
    let wanted = "not HashMap<str, u8> (values of 1 bytes) or HashMap<str, u16>";
    assert!(text.contains(wanted), "{text}");
    let alike = pool.convert::<Old, Old>("users", |old| old).unwrap_err();
    assert!(matches!(alike, Error::Named(NamedError::Alike { .. })), "{alike}");
    assert!(pool.named::<Old>("users").is_ok(), "nothing has begun");
}

/// 64 values are more than the log holds.
#[test]
fn long_values_are_converted_in_small_transactions() {
    let dir = tempfile::tempdir().unwrap();
    let options = options().bytes(4 << 20).log_bytes(128 << 10);
    let pool = Pool::create(dir.path().join("texts.pool"), options).unwrap();
    let old = pool.btree_map::<u64, str>("texts").unwrap();
    for number in 0..70 {
        let text = number.to_string().repeat(4000);
        let _ = pool.run(|tx| old.put(tx, number, &text)).unwrap();
    }
    type Texts<T> = BTreeMap<u64, T>;
    let new = pool.convert::<Texts<str>, Texts<[u8]>>("texts", String::into_bytes).unwrap();
    let last = pool.run(|tx| new.get_with(tx, 69, <[u8]>::len)).unwrap();
    assert_eq!(last.value, Some(8000));
    assert_eq!(pool.run(|tx| new.len(tx)).unwrap().value, 70);
}

#[test]
fn conversion_resumes_after_full_pool() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("users.pool");
    let pool = Pool::create(&path, options()).unwrap();
    let old: Stored<u64> = pool.named("list").unwrap();
    let ballast: Stored<[u8]> = pool.named("ballast").unwrap();
    for first in (0..2000).step_by(500) {
        let _ = pool.run(|tx| old.extend(tx, first..first + 500)).unwrap();
    }
    while pool.run(|tx| ballast.push(tx, [0; 1000])).is_ok() {}
    let _ = pool.run(|tx| (0..50).try_for_each(|_| ballast.pop(tx).map(drop))).unwrap();
    type New = Stored<[u64; 20]>;
    let full = pool.convert::<Stored<u64>, New>("list", |n| [n; 20]).unwrap_err();
    assert!(matches!(full, Error::Full { .. }), "{full}");
    let left = pool.run(|tx| old.len(tx)).unwrap().value;
    assert!(0 < left && left < 2000, "{left} elements are left");
    assert!(pool.run(|tx| ballast.clear_step(tx, 1000)).unwrap().value);
    let new = pool.convert::<Stored<u64>, New>("list", |n| [n; 20]).unwrap();
    let all = pool.run(|tx| new.iter(tx).collect::<Result<Vec<_>, _>>()).unwrap().value;
    assert!(all.into_iter().eq((0..2000).map(|n| [n; 20])));
    pool.close().unwrap();
    assert!(lastword::check(&path).unwrap().sound().is_ok());
}

/// A program of several versions converts in the migrations of its layout.
#[test]
fn migration_converts_a_collection() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("users.pool");
    let pool = Pool::create(&path, options().layout("users", 1)).unwrap();
    fill(&pool);
    pool.close().unwrap();
    let options = options().layout("users", 3).migrate(1, |tx, _| {
        match catalog::convert_step::<Old, New, _>(tx, "users", 20, &mut { changed })? {
            Converted::Unfinished => Ok(Some(1)),
            Converted::Finished(_) | Converted::Opened(Opened::Found(_)) => Ok(None),
            _ => Err(Stop::BadValue),
        }
    });
    let options = options.migrate(2, |tx, _| {
        let mut change = |number: u32| number.to_string();
        match catalog::convert_step::<Stored<u32>, Stored<str>, _>(tx, "log", 20, &mut change)? {
            Converted::Unfinished => Ok(Some(1)),
            Converted::Finished(_) | Converted::Opened(Opened::Found(_)) => Ok(None),
            _ => Err(Stop::BadValue),
        }
    });
    let pool = Pool::open(&path, options).unwrap();
    check(&pool, pool.named("users").unwrap(), pool.named("log").unwrap());
    assert!(pool.named::<Counter>("users").is_err());
}
