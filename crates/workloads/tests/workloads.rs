//! Every workload on the mock: loads, runs, holds, knows what it wrote, and finds damage.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use words::mock::Mock;
use words::{Addr, Allocate, Objects, Ptr, Stop, Transact, Words};
use workloads::{
    Bank, BpTreeRand, BpTreeZipf, Btree, Btree16, Btree32, BtreeUpdate, Btreemap, Chains,
    ChainsSparse, Cq, DataSet, Echo, Empty, HashRand, HashTable, HashZipf, Hashmap, Kmeans, List,
    Memcached, NAMES, Options, Pc, RbTreeRand, RbTreeZipf, Rbt, Rbtreemap, Records, Records20,
    Scatter, SessionStore, Sps, Sps1, Ssca2, Swap, TatpBtree, TatpHash, TatpMix, TpccBtree,
    TpccBtree32, TpccHash, Vacation, Vector, Violation, Visitor, Workload, Writes, YcsbA, YcsbB,
    YcsbC, YcsbD, YcsbE, YcsbF, YcsbPut, by_name, next_run,
};

const SMALL: Options = Options {
    scale: 0.0005,
    seed: 1,
    workers: 3,
    update_percent: None,
    zipf: None,
    low_conflict: false,
    data: None,
};

/// A loaded heap.
fn loaded<W: Workload>(options: &Options) -> (Mock, W) {
    let mut mock = Mock::forgiving(W::heap_bytes(options) as usize);
    let workload = W::load(&mut mock, options).unwrap();
    (mock, workload)
}

/// Runs transactions of these clients in turns.
fn run<W: Workload>(mock: &mut Mock, workload: &W, clients: &mut [W::Client], rounds: usize) {
    for _ in 0..rounds {
        for client in &mut *clients {
            workload.next(client);
            run_one(mock, workload, client);
        }
    }
}

/// Runs the client's transaction, which does what the workload says of it.
fn run_one<W: Workload>(mock: &mut Mock, workload: &W, client: &W::Client) {
    let mut written = 0;
    let done = mock.transact(|tx| {
        let mut counting = Torn { mock: tx, left: usize::MAX, asked: 0 };
        let done = workload.run(client, &mut counting);
        written = counting.asked;
        done
    });
    let expected = if workload.gives_up(client) { Err(Stop::Aborted) } else { Ok(()) };
    assert_eq!(done.map_err(|refused| refused.stop), expected, "{}", W::NAME);
    assert!(written == 0 || !workload.reads_only(client), "{} wrote", W::NAME);
}

fn is_present<W: Workload>(mock: &mut Mock, workload: &W, client: &W::Client) -> bool {
    mock.transact(|tx| workload.is_present(client, tx)).unwrap()
}

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

/// The address of every word of a live object.
fn addresses(mock: &Mock) -> Vec<Addr> {
    let words =
        |(object, bytes): (u64, u64)| (0..bytes).step_by(8).map(move |at| Addr::new(object, at));
    mock.live().into_iter().flat_map(words).collect()
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

/// Changes words one after the other and back, and counts how often the check sees it. A word that
/// the check cannot know (free slots, spare fields) passes, so only a share must be seen.
fn finds_damage<W: Workload>(share: f64) -> Vec<Violation> {
    let tiny = Options { scale: 0.0001, ..SMALL };
    let (mut mock, workload) = loaded::<W>(&tiny);
    let mut clients = [workload.client(0, 1), workload.client(1, 1)];
    run(&mut mock, &workload, &mut clients, 500);
    let (mut tried, mut seen, mut violations) = (0, 0, Vec::new());
    let all = addresses(&mock);
    // The first words densely: a small workload's tables may lie there whole.
    // An odd step meets every field of a row.
    for at in all[..60].iter().chain(all.iter().step_by((all.len() / 150) | 1)) {
        let old = mock.transact(|tx| tx.read(*at)).unwrap();
        mock.transact(|tx| tx.write(*at, old ^ 0x41)).unwrap();
        tried += 1;
        match workload.check(&mut mock) {
            Ok(found) if found.is_empty() => {}
            Ok(found) => {
                seen += 1;
                violations.push(found[0]);
            }
            Err(refused) => {
                assert!(matches!(refused.stop, Stop::BadPointer | Stop::BadValue));
                seen += 1;
            }
        }
        mock.transact(|tx| tx.write(*at, old)).unwrap();
    }
    assert_eq!(workload.check(&mut mock).unwrap(), [], "{}", W::NAME);
    assert!(f64::from(seen) > share * f64::from(tried), "{}: {seen} of {tried}", W::NAME);
    for violation in &violations {
        let text = violation.to_string();
        assert!(text.contains("expected") && text.contains("found"), "{text}");
    }
    violations
}

#[test]
fn the_checks_find_planted_damage() {
    let count = |found: &[Violation], what: &str| {
        found.iter().filter(|v| matches!(v, Violation::Count { what: w, .. } if *w == what)).count()
    };
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
    let found = finds_damage::<Sps1>(0.9);
    assert!(found.iter().any(|v| matches!(v, Violation::Value { .. })), "{found:?}");
}

/// A heap whose transaction writes only so many words, and forgets the rest.
struct Torn<'a> {
    mock: &'a mut Mock,
    left: usize,
    asked: usize,
}
impl Words for Torn<'_> {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.mock.read(at)
    }
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.asked += 1;
        if self.left > 0 {
            self.left -= 1;
            self.mock.write(at, value)?;
        }
        Ok(())
    }
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        self.mock.retire(at, bytes)
    }
}
impl Allocate for Torn<'_> {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        self.mock.allocate(bytes)
    }
    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        self.mock.reserve_blocks(blocks)
    }
    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
        self.mock.prepare_blocks(first, most)
    }
    fn root(&mut self) -> Result<u64, Stop> {
        self.mock.root()
    }
    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        self.mock.set_root(object)
    }
}

/// A transaction that stops after every number of its writes but all, and is not rolled back.
fn shows_what_is_torn<W: Workload>(expected: fn(&Violation) -> bool) {
    // Runs a transaction of which this many writes are done; answers how many were asked for.
    let tear = |writes: usize| {
        let (mut mock, workload) = loaded::<W>(&SMALL);
        let mut client = workload.client(0, 1);
        run(&mut mock, &workload, std::slice::from_mut(&mut client), 30);
        workload.next(&mut client);
        let asked = mock.transact(|tx| {
            let mut torn = Torn { mock: tx, left: writes, asked: 0 };
            workload.run(&client, &mut torn)?;
            Ok(torn.asked)
        });
        let present = is_present(&mut mock, &workload, &client);
        (asked.unwrap(), present, workload.check(&mut mock).unwrap())
    };
    let (all, present, found) = tear(usize::MAX);
    assert!(present && found.is_empty() && all >= 4, "{}: {all} writes", W::NAME);
    let mut shown = 0;
    for writes in 1..all {
        let (_, present, found) = tear(writes);
        // It may be whole when what is missing was written before: a place that was drawn twice.
        let torn = found.iter().any(expected);
        assert!(torn || present, "{}, {writes} of {all} writes: {found:?}", W::NAME);
        shown += usize::from(torn);
    }
    assert!(shown + 3 >= all, "{}: {shown} of {all}", W::NAME);
}

#[test]
fn the_checks_find_a_torn_transaction_wherever_it_is_torn() {
    shows_what_is_torn::<Records>(|v| matches!(v, Violation::Record { .. }));
    shows_what_is_torn::<Writes>(|v| matches!(v, Violation::Pair { .. }));
    shows_what_is_torn::<Kmeans>(|v| matches!(v, Violation::Count { .. }));
    shows_what_is_torn::<Scatter>(|v| matches!(v, Violation::Pair { .. }));
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
                 btreemap rbtreemap ycsb-put echo rbtree rbtree-zipf bptree bptree-zipf hash hash-zipf \
                 sps-1 memcached";
    assert_eq!(NAMES.join(" "), names);
    for name in NAMES {
        let (found, about) = by_name(name, NameOf).unwrap();
        assert_eq!(found, name);
        assert!(!about.is_empty());
    }
    assert_eq!(by_name("Bank", NameOf), None);
}
