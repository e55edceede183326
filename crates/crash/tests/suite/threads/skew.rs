//! Write skew by construction: each of two transactions reads one list and appends to the other
//! list, and the second one runs in the middle of the first.

use std::sync::mpsc;
use std::thread::scope;

use crash::oracle::history::{Anomaly, History, Kind, Level, Lists, Transaction};
use crash::workload::{Apart, Appender, Appends, Scenario};
use faults::recording::{Choose, Model, Question, Recorder};
use lastword::{Design, Medium, Options, Pool, Redo, Snapshot};

use super::lists;

/// A machine without power failures.
struct Calm;

impl Choose for Calm {
    fn choose(&mut self, _question: Question) -> usize {
        0
    }
}

/// The transactions of two workers, and how often each was run again.
struct Pair {
    history: History,
    again: [u64; 2],
}

/// The time of the second transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comes {
    /// After the first's reads, and before its writes and protects.
    Early,
    /// After all of the first but its commit.
    Late,
}

fn pair<D: Design, const PROTECTS: bool>(comes: Comes) -> Pair {
    let calm = Model { crashes: 0, every_word: false, ..Model::default() };
    let recorder = Recorder::new(calm, Box::new(Calm));
    let options = Options::new().bytes(Apart::<PROTECTS>::HEAP_BYTES).log_bytes(128 << 10);
    let options = options.ring_entries(1 << 12).medium(Medium::Dax).system(recorder.system());
    let pool = Pool::<D>::create_as("/pool", options).unwrap();
    let mut worker = pool.worker().unwrap();
    Apart::<PROTECTS>::load(&mut worker).unwrap();
    let append = Apart::<PROTECTS>::open(&mut worker).unwrap().unwrap();
    let client = |number, read, to| {
        let mut client: Appender = append.client(number, 1);
        (client.read, client.append) = (read, to);
        client
    };
    let clients = [client(0, 0, 1), client(1, 1, 0)];
    let mut seen = [Vec::new(), Vec::new()];
    let again = scope(|threads| {
        let [first_seen, second_seen] = &mut seen;
        let (go, wait) = mpsc::channel();
        let (ended, tries) = mpsc::channel();
        let second = {
            let (pool, client) = (&pool, &clients[1]);
            threads.spawn(move || {
                let mut worker = pool.worker().unwrap();
                wait.recv().unwrap();
                let done = worker.run(|tx| {
                    let observed = append.observe(client, tx);
                    if observed.is_err() {
                        // Its first attempt has ended; the other need not wait for more.
                        let _ = ended.send(());
                    }
                    *second_seen = observed?.list;
                    Ok(())
                });
                drop(done.unwrap());
                let _ = ended.send(());
                worker.conflicts()
            })
        };
        let mut other = Some(|| {
            go.send(()).unwrap();
            tries.recv().unwrap();
        });
        let done = worker.run(|tx| {
            if comes == Comes::Early {
                // Its later operations use the same snapshot.
                *first_seen = append.read(&clients[0], tx)?;
                other.take().into_iter().for_each(|other| other());
            }
            *first_seen = append.observe(&clients[0], tx)?.list;
            other.take().into_iter().for_each(|other| other());
            Ok(())
        });
        drop(done.unwrap());
        [worker.conflicts(), second.join().unwrap()]
    });
    drop(worker);
    let root = pool.run(|tx| words::Allocate::root(tx)).unwrap().value;
    let last: Lists = lists::<D, Apart<PROTECTS>>(&pool, root);
    let transactions = clients.iter().zip(seen).map(|(client, list)| Transaction {
        reads: vec![(client.read as u64, list)],
        appends: vec![(client.append as u64, client.value)],
        span: (0, 0),
    });
    let history = History { transactions: transactions.collect(), last };
    pool.close().unwrap();
    Pair { history, again }
}

/// Both commit at the first attempt, and neither has read the other's writes.
#[test]
fn write_skew_is_allowed_without_protect() {
    for comes in [Comes::Early, Comes::Late] {
        let Pair { history, again } = pair::<Snapshot, false>(comes);
        assert_eq!(again, [0, 0], "{comes:?}: the transactions conflicted");
        let skewed = history.check(Level::Serializable);
        let Err(Anomaly::Cycle(Kind::WriteSkew, _)) = skewed else {
            panic!("{comes:?}: {skewed:?}\n{history:?}")
        };
        history.check(Level::Snapshot).unwrap();
    }
}

/// One of the two is run again, whichever came second, and reads the other's writes.
#[test]
fn protect_prevents_write_skew() {
    for (comes, again) in [(Comes::Early, [true, false]), (Comes::Late, [false, true])] {
        let pair = pair::<Snapshot, true>(comes);
        assert_eq!(pair.again.map(|times| times > 0), again, "{comes:?}: {:?}", pair.again);
        pair.history.check(Level::Serializable).unwrap();
    }
}

/// The same two transactions under a serializable design.
#[test]
fn serializable_designs_prevent_write_skew() {
    for comes in [Comes::Early, Comes::Late] {
        let Pair { history, again } = pair::<Redo, false>(comes);
        assert!(again != [0, 0], "{comes:?}: no conflict");
        history.check(Level::Serializable).unwrap();
    }
}
