//! Every workload on the mock: loads, runs, holds, knows what it wrote, and finds damage.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod common;

use common::{SMALL, addresses, is_present, loaded, run, run_one};
use words::mock::Mock;
use words::{Allocate, Objects, Ptr, Stop, Transact, Words};
use workloads::{
    Bank, BpTreeRand, BpTreeZipf, Btree, Btree16, Btree32, BtreeUpdate, Btreemap, Chains,
    ChainsSparse, Cq, DataSet, Echo, Empty, HashRand, HashTable, HashZipf, Hashmap, Kmeans, List,
    Memcached, NAMES, Options, Pc, RbTreeRand, RbTreeZipf, Rbt, Rbtreemap, Records, Records20,
    Scatter, SessionStore, Sps, Sps1, Ssca2, Swap, TatpBtree, TatpHash, TatpMix, TpccBtree,
    TpccBtree32, TpccHash, Vacation, Vector, Visitor, Workload, Writes, YcsbA, YcsbB, YcsbC, YcsbD,
    YcsbE, YcsbF, YcsbPut, by_name, next_run,
};

/// Does the same with every workload.
macro_rules! for_all {
    ($test:ident) => {
        $test::<Empty>();
        $test::<Bank>();
        $test::<HashTable>();
        $test::<Btree>();
        $test::<Btree16>();
        $test::<Btree32>();
        $test::<BtreeUpdate>();
        $test::<SessionStore>();
        $test::<TatpHash>();
        $test::<TatpBtree>();
        $test::<TatpMix>();
        $test::<TpccHash>();
        $test::<TpccBtree>();
        $test::<TpccBtree32>();
        $test::<Chains>();
        $test::<ChainsSparse>();
        $test::<List>();
        $test::<Rbt>();
        $test::<Cq>();
        $test::<Pc>();
        $test::<Sps>();
        $test::<Kmeans>();
        $test::<Ssca2>();
        $test::<Vacation>();
        $test::<Records>();
        $test::<Records20>();
        $test::<YcsbA>();
        $test::<YcsbB>();
        $test::<YcsbC>();
        $test::<YcsbD>();
        $test::<YcsbE>();
        $test::<YcsbF>();
        $test::<Writes>();
        $test::<Scatter>();
        $test::<Vector>();
        $test::<Swap>();
        $test::<Hashmap>();
        $test::<Btreemap>();
        $test::<Rbtreemap>();
        $test::<YcsbPut>();
        $test::<Echo>();
        $test::<RbTreeRand>();
        $test::<RbTreeZipf>();
        $test::<BpTreeRand>();
        $test::<BpTreeZipf>();
        $test::<HashRand>();
        $test::<HashZipf>();
        $test::<Sps1>();
        $test::<Memcached>();
    };
}

fn holds_after_many_transactions<W: Workload>() {
    let (mut mock, workload) = loaded::<W>(&SMALL);
    assert_eq!(workload.check(&mut mock).unwrap(), [], "{} after loading", W::NAME);
    let mut clients: Vec<W::Client> = (0..3).map(|index| workload.client(index, 1)).collect();
    for _ in 0..10 {
        run(&mut mock, &workload, &mut clients, 150);
        for client in &clients {
            assert!(is_present(&mut mock, &workload, client), "{}", W::NAME);
        }
        assert_eq!(workload.check(&mut mock).unwrap(), [], "{}", W::NAME);
    }
    assert!(mock.bytes_live() < W::heap_bytes(&SMALL), "{}", W::NAME);
}

#[test]
fn every_workload_holds_after_many_transactions() {
    for_all!(holds_after_many_transactions);
}

fn opens<W: Workload>() {
    let mut mock = Mock::new(W::heap_bytes(&SMALL) as usize);
    assert!(W::open(&mut mock).unwrap().is_none(), "{}: an empty heap", W::NAME);
    let workload = W::load(&mut mock, &SMALL).unwrap();
    let mut client = workload.client(0, 1);
    run(&mut mock, &workload, std::slice::from_mut(&mut client), 20);
    let opened = W::open(&mut mock).unwrap().unwrap();
    assert!(is_present(&mut mock, &opened, &client), "{}", W::NAME);
    assert_eq!(opened.check(&mut mock).unwrap(), [], "{}", W::NAME);
    // The opened handle draws the same transactions.
    let (mut ours, mut theirs) = (workload.client(1, 2), opened.client(1, 2));
    run(&mut mock, &workload, std::slice::from_mut(&mut ours), 20);
    (0..20).for_each(|_| opened.next(&mut theirs));
    assert!(is_present(&mut mock, &opened, &theirs), "{}", W::NAME);
    // Loading again leaves it as it is.
    let objects = mock.objects();
    let again = W::load(&mut mock, &SMALL).unwrap();
    assert!(is_present(&mut mock, &again, &ours), "{}", W::NAME);
    assert_eq!(mock.objects(), objects);
}

#[test]
fn what_load_made_open_finds() {
    for_all!(opens);
}

/// Does the same with every workload that has several data sets.
macro_rules! for_all_with_data {
    ($test:ident) => {
        $test::<Vector>();
        $test::<Swap>();
        $test::<Hashmap>();
        $test::<Btreemap>();
        $test::<Rbtreemap>();
        $test::<YcsbPut>();
        $test::<Echo>();
    };
}

fn holds_with_every_data_set<W: Workload>() {
    let sets = [
        DataSet::Large { bytes: 4096 },
        DataSet::Large { bytes: 16384 },
        DataSet::Random { objects: 1 },
        DataSet::Random { objects: 4 },
        DataSet::Random { objects: 64 },
    ];
    for (data, update_percent) in sets.into_iter().zip([None, Some(50), None, Some(0), Some(50)]) {
        let options = Options { data: Some(data), update_percent, zipf: Some(0.8), ..SMALL };
        let (mut mock, workload) = loaded::<W>(&options);
        let tuned = |index: usize| {
            let mut client = workload.client(index, 1);
            workload.tune(&mut client, &options);
            client
        };
        let mut clients: Vec<W::Client> = (0..3).map(tuned).collect();
        for _ in 0..2 {
            run(&mut mock, &workload, &mut clients, 150);
            for client in &clients {
                assert!(is_present(&mut mock, &workload, client), "{} {data}", W::NAME);
            }
        }
        assert_eq!(workload.check(&mut mock).unwrap(), [], "{} {data}", W::NAME);
        let opened = W::open(&mut mock).unwrap().unwrap();
        assert!(is_present(&mut mock, &opened, &clients[0]), "{} {data}", W::NAME);
        // Each transaction is told from those before it.
        for _ in 0..50 {
            opened.next(&mut clients[0]);
            let present = is_present(&mut mock, &opened, &clients[0]);
            assert_eq!(present, opened.reads_only(&clients[0]), "{} {data}", W::NAME);
            run_one(&mut mock, &opened, &clients[0]);
            assert!(is_present(&mut mock, &opened, &clients[0]), "{} {data}", W::NAME);
        }
        assert!(mock.bytes_live() < W::heap_bytes(&options), "{} {data}", W::NAME);
    }
}

#[test]
fn every_data_set_holds() {
    for_all_with_data!(holds_with_every_data_set);
}

/// Does the same with every workload that writes often enough, and something.
macro_rules! for_all_that_write {
    ($test:ident) => {
        $test::<Bank>();
        $test::<HashTable>();
        $test::<Btree>();
        $test::<Btree16>();
        $test::<Btree32>();
        $test::<BtreeUpdate>();
        $test::<SessionStore>();
        $test::<TatpHash>();
        $test::<TatpBtree>();
        $test::<TatpMix>();
        $test::<TpccHash>();
        $test::<TpccBtree>();
        $test::<TpccBtree32>();
        $test::<Chains>();
        $test::<ChainsSparse>();
        $test::<List>();
        $test::<Rbt>();
        $test::<Cq>();
        $test::<Pc>();
        $test::<Sps>();
        $test::<Kmeans>();
        $test::<Ssca2>();
        $test::<Vacation>();
        $test::<Records>();
        $test::<Records20>();
        $test::<YcsbA>();
        $test::<YcsbD>();
        $test::<YcsbF>();
        $test::<Writes>();
        $test::<Scatter>();
        $test::<Vector>();
        $test::<Swap>();
        $test::<Hashmap>();
        $test::<Btreemap>();
        $test::<Rbtreemap>();
        $test::<YcsbPut>();
        $test::<Echo>();
        $test::<RbTreeRand>();
        $test::<RbTreeZipf>();
        $test::<BpTreeRand>();
        $test::<BpTreeZipf>();
        $test::<HashRand>();
        $test::<HashZipf>();
        $test::<Sps1>();
        $test::<Memcached>();
    };
}

fn is_sharp<W: Workload>() {
    let (mut mock, workload) = loaded::<W>(&SMALL);
    // A first run leaves values everywhere; the second must not take them for its own.
    let mut earlier = workload.client(0, 1);
    run(&mut mock, &workload, std::slice::from_mut(&mut earlier), 3000);
    let mut client = workload.client(0, 2);
    for _ in 0..500 {
        workload.next(&mut client);
        let leaves_nothing = workload.reads_only(&client) || workload.gives_up(&client);
        let present = is_present(&mut mock, &workload, &client);
        assert!(present == leaves_nothing, "{}: never ran", W::NAME);
        run_one(&mut mock, &workload, &client);
        assert!(is_present(&mut mock, &workload, &client), "{}: ran", W::NAME);
    }
    // What the earlier run wrote is there, or was overwritten by the later one.
    assert!(is_present(&mut mock, &workload, &earlier), "{}", W::NAME);
    // A transaction that was given up is not there.
    workload.next(&mut client);
    while workload.reads_only(&client) || workload.gives_up(&client) {
        workload.next(&mut client);
    }
    let given_up = mock.transact(|tx| {
        workload.run(&client, tx)?;
        Err::<(), Stop>(Stop::Aborted)
    });
    assert_eq!(given_up.unwrap_err().stop, Stop::Aborted);
    assert!(!is_present(&mut mock, &workload, &client), "{}: given up", W::NAME);
    assert_eq!(workload.check(&mut mock).unwrap(), [], "{}", W::NAME);
}

#[test]
fn a_transaction_that_never_ran_is_not_present() {
    for_all_that_write!(is_sharp);
}

fn replays<W: Workload>() {
    let (mut mock, workload) = loaded::<W>(&SMALL);
    let (mut other, same) = loaded::<W>(&SMALL);
    for index in [0, 1, 200] {
        let (mut a, mut b) = (workload.client(index, 9), same.client(index, 9));
        for _ in 0..100 {
            workload.next(&mut a);
            same.next(&mut b);
            run_one(&mut mock, &workload, &a);
            run_one(&mut other, &same, &b);
            // Each is present where the other ran: the same key, the same value.
            assert!(is_present(&mut mock, &workload, &b), "{}", W::NAME);
            assert!(is_present(&mut other, &same, &a), "{}", W::NAME);
        }
    }
    assert_eq!(words_of(&mut mock), words_of(&mut other), "{}", W::NAME);
}

/// All words of live objects, in the order of their addresses.
fn words_of(mock: &mut Mock) -> Vec<u64> {
    let all = addresses(mock);
    mock.transact(|tx| all.iter().map(|&at| tx.read(at)).collect()).unwrap()
}

#[test]
fn equal_clients_do_equal_transactions() {
    for_all!(replays);
}

/// Stops loading after every number of transactions that is tried, then loads to the end.
fn survives_interrupted_loading<W: Workload>() {
    let tiny = Options { scale: 0.0002, ..SMALL };
    let (mut whole, workload) = loaded::<W>(&tiny);
    let objects = whole.objects();
    let (mut steps, mut unfinished) = (0, 0);
    loop {
        let mut mock = Mock::new(W::heap_bytes(&tiny) as usize);
        let mut killed = Killed { mock: &mut mock, left: steps };
        match W::load(&mut killed, &tiny) {
            Ok(_) => break,
            Err(died) => assert_eq!(died.to_string(), "killed"),
        }
        match W::open(&mut mock).unwrap() {
            None => unfinished += 1,
            // Killed when all was done, before it could be said.
            Some(opened) => assert_eq!(opened.check(&mut mock).unwrap(), [], "{}", W::NAME),
        }
        let again = W::load(&mut mock, &tiny).unwrap();
        assert_eq!(again.check(&mut mock).unwrap(), [], "{}: step {steps}", W::NAME);
        assert_eq!(mock.objects(), objects, "{}: step {steps}", W::NAME);
        // Another workload in its place, from half built and from whole, leaks nothing either.
        for _ in 0..2 {
            Empty::load(&mut mock, &tiny).unwrap();
            assert_eq!(mock.objects(), 2, "{}: step {steps}", W::NAME);
            let left = steps.min(3);
            let _ = W::load(&mut Killed { mock: &mut mock, left }, &tiny);
        }
        steps += 1;
    }
    assert!(unfinished >= 2 && unfinished + 1 >= steps, "{}: {unfinished} of {steps}", W::NAME);
    assert_eq!(workload.check(&mut whole).unwrap(), []);
}

/// A worker that is killed when so many transactions have committed.
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
fn interrupted_loading_goes_on_and_leaks_nothing() {
    for_all!(survives_interrupted_loading);
}

#[test]
fn a_root_of_another_program_is_left_alone() {
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
    let (mut mock, _) = loaded::<Bank>(&SMALL);
    assert_eq!(next_run(&mut mock).unwrap(), Some(1));
    assert_eq!(next_run(&mut mock).unwrap(), Some(2));
}

/// A conflict at every access of a transaction.
fn is_done_once<W: Workload>() {
    let (mut mock, workload) = loaded::<W>(&SMALL);
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
        assert!(is_present(&mut mock, &workload, &client), "{}", W::NAME);
    }
    assert!(conflicts > 200, "{}: {conflicts}", W::NAME);
    assert_eq!(workload.check(&mut mock).unwrap(), [], "{}", W::NAME);
}

#[test]
fn a_transaction_that_conflicts_is_done_once() {
    for_all_that_write!(is_done_once);
}

struct NameOf;
impl Visitor for NameOf {
    type Out = (&'static str, &'static str);
    fn visit<W: Workload>(self) -> Self::Out {
        (W::NAME, W::ABOUT)
    }
}

#[test]
fn every_name_leads_to_its_workload() {
    let names = "empty bank hashtable btree btree-16 btree-32 btree-update session-store \
                 tatp-hash tatp-btree tatp-mix tpcc-hash tpcc-btree tpcc-btree-32 chains \
                 chains-sparse list rbt cq pc sps kmeans ssca2 vacation records records-20 \
                 ycsb-a ycsb-b ycsb-c ycsb-d ycsb-e ycsb-f writes scatter vector swap hashmap \
                 btreemap rbtreemap ycsb-put echo rbtree rbtree-zipf bptree bptree-zipf hash \
                 hash-zipf sps-1 memcached";
    assert_eq!(NAMES.join(" "), names);
    for name in NAMES {
        let (found, about) = by_name(name, NameOf).unwrap();
        assert_eq!(found, name);
        assert!(!about.is_empty());
    }
    assert_eq!(by_name("Bank", NameOf), None);
}
