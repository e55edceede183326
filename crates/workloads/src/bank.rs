//! `bank`: transfers between two of many accounts, with a counter for each worker.
//!
//! The sum of all accounts is constant. Every transfer is counted in both accounts and in its
//! worker's counter, and the counter carries the stamp of the worker's last transaction. The check
//! therefore verifies exactly which transfers a killed program had acknowledged.

use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Allocate, Array, BLOCK_STRIDE, LockId, Objects, Place, Stop, Transact, Words, work};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::keys::{below, generator};
use crate::lock::{self, Locks};
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::violation::Violations;
use crate::{CLIENTS_MAX, Options, Violation, Workload, scaled, with_slack};

/// Accounts at scale 1.
const ACCOUNTS: u64 = 100_000;

/// Initial content of an account.
const CENTS: u64 = 1000;

/// Largest transfer: a few in a row empty an account.
const CENTS_MAX: u64 = 400;

/// Accounts in a cache line.
const PER_LINE: u64 = 64 / size_of::<Account>() as u64;

/// Blocks that one transaction of loading prepares, and accounts that one fills.
const STEP: u64 = 256;

#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Account {
    cents: u64,
    /// Transfers from or to it.
    transfers: u64,
}

/// One worker's counter, a block of its own, so that workers do not conflict there.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Counter {
    tally: Tally,
    reserved: [u64; 29],
}

#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tally {
    /// Stamp of the worker's last transaction.
    stamp: u64,
    /// Its transfers, over all runs.
    done: u64,
    /// Its transfers declined for lack of money, over all runs.
    declined: u64,
}

/// Where the tables are.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    accounts: Array<Account>,
    counters: Array<Counter>,
}

/// A bank.
#[derive(Clone, Copy, Debug)]
pub struct Bank {
    tables: Tables,
}

/// One worker's transfers.
#[derive(Clone, Debug)]
pub struct BankClient {
    rng: Xoshiro256PlusPlus,
    index: u64,
    stamp: Stamp,
    from: u64,
    to: u64,
    cents: u64,
    locks: Locks<2>,
}

impl Build for Bank {
    const NAME: &'static str = "bank";
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Tables, Stop> {
        let accounts = Array::reserve(tx, size)?;
        Ok(Tables { accounts, counters: Array::reserve(tx, CLIENTS_MAX as u64)? })
    }

    /// Progress 0 and 1: preparing; 2 + n: account n is next.
    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let Some(first) = progress.checked_sub(2) else {
            let prepared = match progress {
                0 => tables.accounts.prepare(tx, STEP)?,
                _ => tables.counters.prepare(tx, STEP)?,
            };
            return Ok(Some(progress + u64::from(prepared)));
        };
        let end = (first + STEP).min(size);
        for account in first..end {
            tx.set(tables.accounts.at(account)?, Account { cents: CENTS, transfers: 0 })?;
        }
        Ok((end < size).then_some(2 + end))
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        tables.accounts.free(tx)?;
        tables.counters.free(tx)?;
        Ok(true)
    }
}

impl Workload for Bank {
    const NAME: &'static str = <Bank as Build>::NAME;
    const ABOUT: &'static str = "bank: a transfer between two random accounts, counted thrice";
    const ANNOUNCES: bool = true;
    type Client = BankClient;

    fn heap_bytes(options: &Options) -> u64 {
        let accounts = scaled(ACCOUNTS, options, 2);
        with_slack((accounts / 16 + 1 + CLIENTS_MAX as u64) * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Bank, T::Error> {
        let accounts = scaled(ACCOUNTS, options, 2);
        Ok(Bank { tables: root::load::<Bank, T>(worker, accounts)? })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Bank>, T::Error> {
        Ok(root::open::<Bank, T>(worker)?.map(|(_, tables)| Bank { tables }))
    }

    fn client(&self, index: usize, seed: u64) -> BankClient {
        let (rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        BankClient { rng, stamp, index: index as u64, from: 0, to: 0, cents: 0, locks: Locks::NONE }
    }

    #[inline]
    fn next(&self, client: &mut BankClient) {
        let accounts = self.tables.accounts.len().max(2); // fewer only in a damaged pool
        client.from = below(&mut client.rng, accounts);
        // Any account except the first.
        client.to = (client.from + 1 + below(&mut client.rng, accounts - 1)) % accounts;
        client.cents = 1 + below(&mut client.rng, CENTS_MAX);
        let lines = [client.from, client.to].map(|account| account / PER_LINE);
        client.locks = Locks::of(lines.map(|line| LockId::of(lock::ROWS, line)));
        client.stamp.advance();
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &BankClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        let Tables { accounts, counters } = self.tables;
        client.locks.take(tx)?;
        let (from, to) = (accounts.at(client.from)?, accounts.at(client.to)?);
        let tally = words::field!(counters.at(client.index)?, Counter, tally);
        tx.will_write(from.addr(), size_of::<Account>());
        tx.will_write(to.addr(), size_of::<Account>());
        tx.will_write(tally.addr(), size_of::<Tally>());
        let mut counted = tx.get(tally)?;
        counted.stamp = client.stamp.value(client.index);
        let mut payer = tx.get(from)?;
        if payer.cents < client.cents {
            counted.declined = counted.declined.wrapping_add(1);
        } else {
            counted.done = counted.done.wrapping_add(1);
            payer.cents -= client.cents;
            payer.transfers = payer.transfers.wrapping_add(1);
            tx.set(from, payer)?;
            let mut payee = tx.get(to)?;
            payee.cents = payee.cents.wrapping_add(client.cents);
            payee.transfers = payee.transfers.wrapping_add(1);
            tx.set(to, payee)?;
        }
        tx.set(tally, counted)
    }

    fn is_present<W: Words>(&self, client: &BankClient, tx: &mut W) -> Result<bool, Stop> {
        let tally = words::field!(self.tables.counters.at(client.index)?, Counter, tally);
        let found = tx.get(tally)?.stamp;
        Ok(client.stamp.is_in(found, client.index))
    }

    /// Reads all accounts and counters in one transaction.
    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let Tables { accounts, counters } = self.tables;
        let (cents, transfers, done, stamps) = worker.transact(|tx| {
            let (mut cents, mut transfers, mut done) = (0_u64, 0_u64, 0_u64);
            let mut stamps = Vec::new();
            for index in 0..accounts.len() {
                let account = tx.get(accounts.at(index)?)?;
                cents = cents.wrapping_add(account.cents);
                transfers = transfers.wrapping_add(account.transfers);
            }
            for index in 0..counters.len() {
                let tally = tx.get(words::field!(counters.at(index)?, Counter, tally))?;
                done = done.wrapping_add(tally.done);
                stamps.push((index, tally));
            }
            Ok((cents, transfers, done, stamps))
        })?;
        let mut violations = Violations::default();
        violations.expect("cents in all accounts", CENTS * accounts.len(), cents);
        violations.expect("transfers in all accounts", done.wrapping_mul(2), transfers);
        for (index, tally) in stamps {
            let unused = tally.stamp == 0 && tally.done == 0 && tally.declined == 0;
            if !unused && Stamp::of(tally.stamp, index).is_none() {
                violations.add(Violation::Value { key: index, found: tally.stamp });
            }
        }
        Ok(violations.0)
    }
}
