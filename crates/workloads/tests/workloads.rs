//! Every workload on the mock: loading, runs, checks, and recognition of its own writes.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{SMALL, addresses, check, is_present, load, loaded, on_each, open, run, run_one};
use words::mock::Mock;
use words::{Allocate, AnyError, Erased, ErasedTx, Objects, Ptr, Stop, Transact, Words};
use workloads::{
    AnyClient, Bank, DataSet, Empty, Kind, NAMES, Options, Visitor, Workload, by_name, next_run,
};

fn holds_after_many_transactions(kind: Kind) {
    let (mut mock, workload) = loaded(kind, &SMALL);
    assert_eq!(check(&workload, &mut mock), [], "{} after loading", kind.name);
    let mut clients: Vec<AnyClient> = (0..3).map(|index| workload.client(index, 1)).collect();
    for _ in 0..10 {
        run(&mut mock, &workload, &mut clients, 150);
        for client in &clients {
            assert!(is_present(&mut mock, &workload, client), "{}", kind.name);
        }
        assert_eq!(check(&workload, &mut mock), [], "{}", kind.name);
    }
    assert!(mock.bytes_live() < kind.heap_bytes(&SMALL), "{}", kind.name);
    // Freed for another workload, whose head and parts remain.
    Empty::load(&mut mock, &SMALL).unwrap();
    assert_eq!(mock.objects(), 2, "{}: memory leaks", kind.name);
}

#[test]
fn every_workload_is_consistent_after_many_transactions() {
    on_each(Kind::all(), holds_after_many_transactions);
}

fn opens(kind: Kind) {
    let mut mock = Mock::new(kind.heap_bytes(&SMALL) as usize);
    assert!(open(kind, &mut mock).is_none(), "{}: an empty heap", kind.name);
    let workload = load(kind, &mut mock, &SMALL);
    let mut client = workload.client(0, 1);
    run(&mut mock, &workload, std::slice::from_mut(&mut client), 20);
    let opened = open(kind, &mut mock).unwrap();
    assert!(is_present(&mut mock, &opened, &client), "{}", kind.name);
    assert_eq!(check(&opened, &mut mock), [], "{}", kind.name);
    // The opened handle generates the same transactions.
    let (mut ours, mut theirs) = (workload.client(1, 2), opened.client(1, 2));
    run(&mut mock, &workload, std::slice::from_mut(&mut ours), 20);
    (0..20).for_each(|_| opened.next(&mut theirs));
    assert!(is_present(&mut mock, &opened, &theirs), "{}", kind.name);
    // Loading again changes nothing.
    let objects = mock.objects();
    let again = load(kind, &mut mock, &SMALL);
    assert!(is_present(&mut mock, &again, &ours), "{}", kind.name);
    assert_eq!(mock.objects(), objects);
}

#[test]
fn loaded_workload_is_reopened() {
    Kind::all().for_each(opens);
}

fn holds_with_every_data_set(kind: Kind) {
    let sets = [
        DataSet::Large { bytes: 4096 },
        DataSet::Large { bytes: 16384 },
        DataSet::Random { objects: 1 },
        DataSet::Random { objects: 4 },
        DataSet::Random { objects: 64 },
    ];
    for (data, update_percent) in sets.into_iter().zip([None, Some(50), None, Some(0), Some(50)]) {
        let options = Options { data: Some(data), update_percent, zipf: Some(0.8), ..SMALL };
        let (mut mock, workload) = loaded(kind, &options);
        let tuned = |index: usize| {
            let mut client = workload.client(index, 1);
            workload.tune(&mut client, &options);
            client
        };
        let mut clients: Vec<AnyClient> = (0..3).map(tuned).collect();
        for _ in 0..2 {
            run(&mut mock, &workload, &mut clients, 150);
            for client in &clients {
                assert!(is_present(&mut mock, &workload, client), "{} {data}", kind.name);
            }
        }
        assert_eq!(check(&workload, &mut mock), [], "{} {data}", kind.name);
        let opened = open(kind, &mut mock).unwrap();
        assert!(is_present(&mut mock, &opened, &clients[0]), "{} {data}", kind.name);
        // Each transaction is distinguished from those before it.
        for _ in 0..50 {
            opened.next(&mut clients[0]);
            let present = is_present(&mut mock, &opened, &clients[0]);
            assert_eq!(present, opened.reads_only(&clients[0]), "{} {data}", kind.name);
            run_one(&mut mock, &opened, &clients[0]);
            assert!(is_present(&mut mock, &opened, &clients[0]), "{} {data}", kind.name);
        }
        assert!(mock.bytes_live() < kind.heap_bytes(&options), "{} {data}", kind.name);
    }
}

#[test]
fn every_data_set_is_consistent() {
    on_each(Kind::all().filter(|kind| kind.supported.data), holds_with_every_data_set);
}

/// Returns every workload whose transactions write often enough.
fn all_that_write() -> impl Iterator<Item = Kind> {
    Kind::all().filter(|kind| !["empty", "ycsb-b", "ycsb-c", "ycsb-e"].contains(&kind.name))
}

fn is_sharp(kind: Kind) {
    let (mut mock, workload) = loaded(kind, &SMALL);
    // A first run leaves values everywhere; the second must not take them for its own.
    let mut earlier = workload.client(0, 1);
    run(&mut mock, &workload, std::slice::from_mut(&mut earlier), 3000);
    let mut client = workload.client(0, 2);
    for _ in 0..500 {
        workload.next(&mut client);
        let leaves_nothing = workload.reads_only(&client) || workload.gives_up(&client);
        let present = is_present(&mut mock, &workload, &client);
        assert!(present == leaves_nothing, "{}: never ran", kind.name);
        run_one(&mut mock, &workload, &client);
        assert!(is_present(&mut mock, &workload, &client), "{}: ran", kind.name);
    }
    // The earlier run's values are present, or the later one overwrote them.
    assert!(is_present(&mut mock, &workload, &earlier), "{}", kind.name);
    // An aborted transaction is not present.
    workload.next(&mut client);
    while workload.reads_only(&client) || workload.gives_up(&client) {
        workload.next(&mut client);
    }
    let given_up = mock.transact(|tx| {
        workload.run(&client, &mut ErasedTx::new(tx))?;
        Err::<(), Stop>(Stop::Aborted)
    });
    assert_eq!(given_up.unwrap_err().stop, Stop::Aborted);
    assert!(!is_present(&mut mock, &workload, &client), "{}: aborted", kind.name);
    assert_eq!(check(&workload, &mut mock), [], "{}", kind.name);
}

#[test]
fn unexecuted_transaction_is_not_present() {
    on_each(all_that_write(), is_sharp);
}

fn replays(kind: Kind) {
    let (mut mock, workload) = loaded(kind, &SMALL);
    let (mut other, same) = loaded(kind, &SMALL);
    for index in [0, 1, 200] {
        let (mut a, mut b) = (workload.client(index, 9), same.client(index, 9));
        for _ in 0..100 {
            workload.next(&mut a);
            same.next(&mut b);
            run_one(&mut mock, &workload, &a);
            run_one(&mut other, &same, &b);
            // Each is present where the other ran: the same key, the same value.
            assert!(is_present(&mut mock, &workload, &b), "{}", kind.name);
            assert!(is_present(&mut other, &same, &a), "{}", kind.name);
        }
    }
    assert_eq!(words_of(&mut mock), words_of(&mut other), "{}", kind.name);
}

/// Returns all words of live objects, in address order.
fn words_of(mock: &mut Mock) -> Vec<u64> {
    let all = addresses(mock);
    mock.transact(|tx| all.iter().map(|&at| tx.read(at)).collect()).unwrap()
}

#[test]
fn equal_clients_run_equal_transactions() {
    Kind::all().for_each(replays);
}

/// Kills loading after every number of transactions, then loads to the end.
fn survives_interrupted_loading(kind: Kind) {
    let tiny = Options { scale: 0.0002, ..SMALL };
    let (mut whole, workload) = loaded(kind, &tiny);
    let objects = whole.objects();
    let (mut steps, mut unfinished) = (0, 0);
    loop {
        let mut mock = Mock::new(kind.heap_bytes(&tiny) as usize);
        let mut killed = Killed { mock: &mut mock, left: steps };
        match kind.load(&mut Erased::any(&mut killed), &tiny) {
            Ok(_) => break,
            Err(died) => assert_eq!(died.to_string(), "killed"),
        }
        match open(kind, &mut mock) {
            None => unfinished += 1,
            // Killed after the end, before the result was returned.
            Some(opened) => assert_eq!(check(&opened, &mut mock), [], "{}", kind.name),
        }
        let again = load(kind, &mut mock, &tiny);
        assert_eq!(check(&again, &mut mock), [], "{}: step {steps}", kind.name);
        assert_eq!(mock.objects(), objects, "{}: step {steps}", kind.name);
        // Another workload in its place, from half built and from whole, leaks no memory either.
        for _ in 0..2 {
            Empty::load(&mut mock, &tiny).unwrap();
            assert_eq!(mock.objects(), 2, "{}: step {steps}", kind.name);
            let left = steps.min(3);
            let _ = kind.load(&mut Erased::any(&mut Killed { mock: &mut mock, left }), &tiny);
        }
        steps += 1;
    }
    assert!(unfinished >= 2 && unfinished + 1 >= steps, "{}: {unfinished} of {steps}", kind.name);
    assert_eq!(check(&workload, &mut whole), []);
}

/// A worker that is killed after so many committed transactions.
struct Killed<'a> {
    mock: &'a mut Mock,
    left: usize,
}

#[derive(Debug)]
struct Died;
impl std::fmt::Display for Died {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("killed")
    }
}
impl std::error::Error for Died {}

impl From<Died> for AnyError {
    fn from(died: Died) -> AnyError {
        AnyError::new(died)
    }
}

impl Transact for Killed<'_> {
    type Tx<'t>
        = Mock
    where
        Self: 't;
    type Error = Died;

    fn transact<R>(&mut self, body: impl FnMut(&mut Mock) -> Result<R, Stop>) -> Result<R, Died> {
        self.left = self.left.checked_sub(1).ok_or(Died)?;
        Ok(self.mock.transact(body).unwrap())
    }
}

#[test]
fn interrupted_loading_continues_without_leaks() {
    on_each(Kind::all(), survives_interrupted_loading);
}

#[test]
fn root_of_another_program_is_refused() {
    let mut mock = Mock::new(1 << 20);
    let theirs: Ptr<u64> = mock.transact(|tx| tx.alloc(5_u64)).unwrap();
    mock.transact(|tx| tx.set_root(theirs.to_bits())).unwrap();
    assert!(Bank::open(&mut mock).unwrap().is_none());
    assert_eq!(Bank::load(&mut mock, &SMALL).unwrap_err().stop, Stop::Aborted);
    assert_eq!(next_run(&mut mock).unwrap(), None);
    assert_eq!(mock.transact(|tx| tx.get(theirs)).unwrap(), 5);
}

#[test]
fn runs_take_ascending_numbers() {
    let (mut mock, _) = loaded(Kind::by_name("bank").unwrap(), &SMALL);
    assert_eq!(next_run(&mut mock).unwrap(), Some(1));
    assert_eq!(next_run(&mut mock).unwrap(), Some(2));
}

/// Injects a conflict at every access of a transaction.
fn is_done_once(kind: Kind) {
    let (mut mock, workload) = loaded(kind, &SMALL);
    let mut client = workload.client(0, 1);
    let (mut access, mut conflicts) = (0, 0);
    for _ in 0..400 {
        workload.next(&mut client);
        mock.conflict_after(access);
        run_one(&mut mock, &workload, &client);
        if mock.take_conflict() {
            access = 0;
        } else {
            (access, conflicts) = (access + 1, conflicts + 1);
        }
        assert!(is_present(&mut mock, &workload, &client), "{}", kind.name);
    }
    assert!(conflicts > 200, "{}: {conflicts}", kind.name);
    assert_eq!(check(&workload, &mut mock), [], "{}", kind.name);
}

#[test]
fn conflicting_transaction_is_done_once() {
    all_that_write().for_each(is_done_once);
}

struct NameOf;
impl Visitor for NameOf {
    type Out = (&'static str, &'static str);
    fn visit<W: Workload>(self) -> Self::Out {
        (W::NAME, W::ABOUT)
    }
}

#[test]
fn every_workload_is_found_by_name() {
    for name in NAMES {
        let (found, about) = by_name(name, NameOf).unwrap();
        assert_eq!(found, name);
        assert!(!about.is_empty());
    }
    assert_eq!(by_name("Bank", NameOf), None);
}

/// Returns the names in a cell, such as "`btree`, `ycsb-a` to `ycsb-f`".
fn names(cell: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let parts: Vec<&str> = cell.split('`').collect();
    for at in (1..parts.len()).step_by(2).filter(|&at| !parts[at].starts_with('-')) {
        names.insert(parts[at].to_owned());
        if at > 1 && parts[at - 1] == " to " {
            let (stem, last) = parts[at].split_at(parts[at].len() - 1);
            let first = parts[at - 2].strip_prefix(stem).unwrap();
            let range = first.chars().next().unwrap()..=last.chars().next().unwrap();
            names.extend(range.map(|letter| format!("{stem}{letter}")));
        }
    }
    names
}

#[test]
fn workload_tables_equal_the_list() {
    let all: BTreeSet<String> = NAMES.into_iter().map(str::to_owned).collect();
    for (file, begin, column) in [
        ("crates/workloads/src/lib.rs", "//! | name | transaction |", 1),
        ("docs/reference/command-line.md", "| from | names |", 2),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text.lines().skip_while(|line| !line.starts_with(begin)).skip(2);
        let cells = rows.map_while(|line| line.split('|').nth(column));
        let found: BTreeSet<String> = cells.flat_map(names).collect();
        assert_eq!(found, all, "{file}");
    }
}
