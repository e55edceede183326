//! An order book: the best price first, and the oldest order first at equal prices.
//!
//! ```text
//!   cargo run --release -p lastword --example orders [PATH]
//! ```
//!
//! An order trades against the other side, and its remaining shares enter the book in the same
//! transaction. Kill it and run it again: it continues after the last order and loses no share.

use std::path::{Path, PathBuf};

use lastword::prelude::*;

/// Price and number of an order, to the shares that are left. Prices of bids are negative, so that
/// the best order of each side is the first.
pub(crate) type Side = BTreeMap<(i64, u64), u64>;

#[derive(Clone, Copy)]
pub(crate) struct Book {
    pub(crate) bids: Side,
    pub(crate) asks: Side,
    pub(crate) orders: Counter,
}

fn main() -> Result<(), Error> {
    let default = || std::env::temp_dir().join("lastword-example-orders.pool");
    let path = std::env::args_os().nth(1).map_or_else(default, PathBuf::from);
    run(&path, 1000)
}

pub(crate) fn open(path: &Path) -> Result<(Pool, Book), Error> {
    let pool = Pool::open_or_create(path, Options::new().bytes(16 << 20).log_bytes(4 << 20))?;
    let (bids, asks, orders) = (pool.named("bids")?, pool.named("asks")?, pool.named("orders")?);
    Ok((pool, Book { bids, asks, orders }))
}

pub(crate) fn run(path: &Path, orders: u64) -> Result<(), Error> {
    let (pool, book) = open(path)?;
    let mut worker = pool.worker()?;
    for _ in 0..orders {
        let done = worker.run(|tx| {
            let number = book.orders.get(tx)? as u64 + 1;
            Ok((number, trade(tx, book, number)?))
        })?;
        let (number, traded) = done.value;
        done.ticket.wait()?; // durable before it is shown
        println!("{number} {traded}");
    }
    Ok(()) // dropping the pool closes it
}

/// Trades an order with the other side and adds the rest to the book. Returns the shares traded.
fn trade(tx: &mut impl Allocate, book: Book, number: u64) -> Result<u64, Stop> {
    let (is_bid, price, shares) = order(number);
    let (own, other) = if is_bid { (book.bids, book.asks) } else { (book.asks, book.bids) };
    let (rank, limit) = if is_bid { (-price, price) } else { (price, -price) };
    let mut left = shares;
    while left > 0 {
        // The first order of the other side, if its price matches.
        let Some((best, offered)) = other.range(..=(limit, u64::MAX)).first(tx)? else { break };
        let traded = left.min(offered);
        left -= traded;
        match offered - traded {
            0 => other.delete(tx, best)?,
            rest => other.put(tx, best, rest)?,
        };
    }
    if left > 0 {
        own.put(tx, (rank, number), left)?;
    }
    book.orders.add(tx, 1)?;
    Ok(shares - left)
}

/// Makes up an order: whether it is a bid, its price, and its shares.
pub(crate) const fn order(number: u64) -> (bool, i64, u64) {
    let dice = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (dice.is_multiple_of(2), 90 + (dice / 2 % 20) as i64, 1 + dice / 64 % 9)
}
