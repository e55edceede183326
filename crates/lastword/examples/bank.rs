//! A small ledger: accounts in an array, transfers that may be declined, tickets, and a crash.
//!
//! ```text
//!   cargo run --release -p lastword --example bank [PATH]
//! ```
//!
//! PATH is the pool. The first run creates it, and later runs continue with it. Default: a file in
//! the system's directory for temporary files.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use lastword::{Allocate, Array, Decoupled, Error, Objects, Options, Pool, Ptr, Stop, Ticket, Tx};

const ACCOUNTS: u64 = 1000;
const CENTS: u64 = 10_000;
const TRANSFERS: u64 = 20_000;
const WORKERS: u64 = 2;

/// A plain struct of whole words, stored as it is.
#[lastword::persist]
struct Account {
    cents: u64,
    /// Number of transfers to or from the account.
    transfers: u64,
}

/// The pool's root, from which all other objects are reached.
#[lastword::persist]
struct Ledger {
    accounts: Array<Account>,
}

/// The reason why a transfer was declined. Any type with `Display` can be a reason.
#[derive(Debug, thiserror::Error)]
#[error("the account has {has} cents, the transfer wants {wants}")]
struct Declined {
    has: u64,
    wants: u64,
}

/// The counts of one run.
pub(crate) struct Shown {
    /// Transfers in the ledger at the start.
    pub(crate) before: u64,
    /// Transfers whose tickets were durable before the crash.
    pub(crate) acknowledged: u64,
    pub(crate) declined: u64,
    /// Transfers in the ledger after the crash.
    pub(crate) recovered: u64,
}

fn main() -> Result<(), Error> {
    let default = || std::env::temp_dir().join("lastword-example-bank.pool");
    let path = std::env::args_os().nth(1).map_or_else(default, PathBuf::from);
    let shown = run(&path)?;
    let Shown { before, acknowledged, declined, recovered } = shown;
    println!("before {before}, acknowledged {acknowledged} (declined {declined}), now {recovered}");
    Ok(())
}

/// Opens the ledger, runs transfers, crashes, and audits the recovered ledger.
pub(crate) fn run(path: &Path) -> Result<Shown, Error> {
    let pool = open(path)?;
    let ledger = ledger(&pool)?;
    let before = audit(&pool, ledger)?;
    println!("{}: {before} transfers in the books, money balanced", path.display());

    let started = Instant::now();
    let books = &pool;
    let workers = thread::scope(|scope| {
        let spawn = |number| scope.spawn(move || transfers(books, ledger, number));
        let workers: Vec<_> = (0..WORKERS).map(spawn).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker ends")).collect::<Vec<_>>()
    });
    let (mut made, mut declined, mut last) = (0, 0, None);
    for worker in workers {
        let worker = worker?;
        made += worker.made;
        declined += worker.declined;
        // Durability follows the commit order: the later ticket covers both.
        last = last.max(worker.last.map(Ticket::id));
    }
    println!("{made} transfers committed, in {:.1?}", started.elapsed());
    let (committed, durable) = (pool.committed_id(), pool.durable_id());
    println!("committed up to {committed}, durable up to {durable}");
    let started = Instant::now();
    pool.wait_for(last.unwrap_or(durable))?;
    println!("durable up to {}, after a wait of {:.1?}", pool.durable_id(), started.elapsed());

    // More transfers without a wait for their tickets; then the volatile state is lost.
    transfers(&pool, ledger, WORKERS)?;
    pool.abandon();

    let pool = open(path)?;
    let recovered = audit(&pool, ledger)?;
    assert!(recovered >= before + made, "recovery kept every acknowledged transfer");
    println!("after a crash: {recovered} transfers in the books, money balanced");
    pool.close()?;
    Ok(Shown { before, acknowledged: made, declined, recovered })
}

fn open(path: &Path) -> Result<Pool, Error> {
    let options = Options::new().bytes(1 << 20).log_bytes(4 << 20).layout("example bank", 1);
    if path.exists() { Pool::open(path, options) } else { Pool::create(path, options) }
}

/// Returns the root, creating it in one transaction if needed: a crash leaves all of it or nothing.
fn ledger(pool: &Pool) -> Result<Ledger, Error> {
    let done = pool.run(|tx| {
        let root: Ptr<Ledger> = Ptr::from_bits(tx.root()?);
        if !root.is_null() {
            return tx.get(root);
        }
        let ledger = Ledger { accounts: Array::create(tx, ACCOUNTS)? };
        for number in 0..ACCOUNTS {
            tx.set(ledger.accounts.at(number)?, Account { cents: CENTS, transfers: 0 })?;
        }
        let root = tx.alloc(ledger)?;
        tx.set_root(root.to_bits())?;
        Ok(ledger)
    })?;
    // Wait before reporting that the ledger exists.
    done.ticket.wait()?;
    Ok(done.value)
}

struct Work<'p> {
    made: u64,
    declined: u64,
    last: Option<Ticket<'p>>,
}

/// Runs the transfers of one thread.
fn transfers(pool: &Pool, ledger: Ledger, number: u64) -> Result<Work<'_>, Error> {
    let mut worker = pool.worker()?;
    let mut work = Work { made: 0, declined: 0, last: None };
    let mut dice = number + 1;
    let mut roll = |below: u64| {
        // A linear congruential generator; its upper half is random enough here.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    for _ in 0..TRANSFERS {
        let from = roll(ACCOUNTS);
        let to = (from + 1 + roll(ACCOUNTS - 1)) % ACCOUNTS;
        let cents = 1 + roll(CENTS);
        // On a conflict with the other worker the body runs again, so it changes only the pool.
        match worker.run(|tx| transfer(tx, ledger, from, to, cents)) {
            Ok(done) => {
                work.made += 1;
                work.last = Some(done.ticket);
            }
            Err(Error::Aborted { reason, .. }) => {
                let Declined { has, wants } = reason.get().expect("the only reason that we give");
                assert!(has < wants);
                work.declined += 1;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(work)
}

fn transfer(
    tx: &mut Tx<'_, Decoupled>,
    ledger: Ledger,
    from: u64,
    to: u64,
    cents: u64,
) -> Result<(), Stop> {
    let from = ledger.accounts.at(from)?;
    let to = ledger.accounts.at(to)?;
    let mut account = tx.get(from)?;
    if account.cents < cents {
        // Aborts the transaction: it has no effect.
        return tx.abort(Declined { has: account.cents, wants: cents });
    }
    account.cents -= cents;
    account.transfers += 1;
    tx.set(from, account)?;
    tx.update(to.cents(), |has| has + cents)?;
    tx.update(to.transfers(), |count| count + 1)
}

/// Audits the ledger in one transaction, so that it sees no partial transfer. Returns the number of
/// transfers.
fn audit(pool: &Pool, ledger: Ledger) -> Result<u64, Error> {
    let mut worker = pool.worker()?;
    let (cents, entries) = worker
        .read(|tx| {
            let mut sums = (0, 0);
            for number in 0..ACCOUNTS {
                let account = tx.get(ledger.accounts.at(number)?)?;
                sums = (sums.0 + account.cents, sums.1 + account.transfers);
            }
            Ok(sums)
        })?
        .value;
    assert_eq!(cents, ACCOUNTS * CENTS, "no cent is made or lost");
    Ok(entries / 2)
}
