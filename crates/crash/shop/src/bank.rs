//! Accounts, and transfers between them.

use std::sync::Arc;

use lastword::collections::BTreeMap;
use lastword::{Error, Pool, Ticket};

/// A transfer.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub number: u64,
    pub from: u64,
    pub to: u64,
    pub cents: i64,
}

/// The bank's books.
pub struct Bank {
    pool: Arc<Pool>,
    accounts: BTreeMap<u64, i64>,
    /// The cents of each transfer, by its number.
    transfers: BTreeMap<u64, i64>,
}

impl Bank {
    pub fn open(pool: Arc<Pool>) -> Result<Bank, Error> {
        let (accounts, transfers) = (pool.named("accounts")?, pool.named("transfers")?);
        Ok(Bank { pool, accounts, transfers })
    }

    pub fn deposit(&self, account: u64, cents: i64) -> Result<Ticket<'_>, Error> {
        Ok(self.pool.run(|tx| self.accounts.put(tx, account, cents))?.ticket)
    }

    /// Moves money. The transfer is durable when the ticket is.
    pub fn transfer(&self, transfer: Transfer) -> Result<Ticket<'_>, Error> {
        let Transfer { number, from, to, cents } = transfer;
        let done = self.pool.run(|tx| {
            self.accounts.update(tx, from, |has| has - cents)?;
            self.accounts.update(tx, to, |has| has + cents)?;
            self.transfers.put(tx, number, cents)
        })?;
        Ok(done.ticket)
    }

    /// The same in two transactions. A power failure between them destroys money.
    pub fn transfer_in_two(&self, transfer: Transfer) -> Result<Ticket<'_>, Error> {
        let Transfer { number, from, to, cents } = transfer;
        let _ = self.pool.run(|tx| {
            self.accounts.update(tx, from, |has| has - cents)?;
            self.transfers.put(tx, number, cents)
        })?;
        Ok(self.pool.run(|tx| self.accounts.update(tx, to, |has| has + cents))?.ticket)
    }

    pub fn total(&self) -> Result<i64, Error> {
        let sum = self
            .pool
            .run(|tx| self.accounts.iter(tx).try_fold(0, |sum, account| Ok(sum + account?.1)))?;
        Ok(sum.value)
    }

    pub fn has_transfer(&self, number: u64) -> Result<bool, Error> {
        Ok(self.pool.run(|tx| self.transfers.contains_key(tx, number))?.value)
    }
}
