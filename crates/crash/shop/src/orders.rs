//! Orders, and an outbox with a message for each: the shop sends it once the order is durable, and
//! again after a crash. So each message is sent at least once, and no message lies.

use std::sync::Arc;

use lastword::collections::{BTreeMap, Counter};
use lastword::{Error, Pool};

/// A message to a customer.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub number: u64,
    pub customer: String,
}

type Send = dyn Fn(Message);

/// The shop's books.
pub struct Orders {
    pool: Arc<Pool>,
    /// The customer of each order.
    orders: BTreeMap<u64, str>,
    /// The orders whose message may not have been sent.
    outbox: BTreeMap<u64, str>,
    last: Counter,
    send: Box<Send>,
    /// The mistake: the last number, outside of the pool.
    last_in_memory: u64,
}

impl Orders {
    /// Opens the books, and sends the messages that a crash has left in the outbox.
    pub fn open(pool: Arc<Pool>, send: Box<Send>) -> Result<Orders, Error> {
        let (orders, outbox) = (pool.named("orders")?, pool.named("outbox")?);
        let last = pool.named("last order")?;
        let orders = Orders { pool, orders, outbox, last, send, last_in_memory: 0 };
        orders.send_all()?;
        Ok(orders)
    }

    /// Places an order, and sends its message.
    pub fn place(&self, customer: &str) -> Result<(), Error> {
        let placed = self.pool.run(|tx| {
            self.last.add(tx, 1)?;
            let number = self.last.get(tx)? as u64;
            self.orders.put(tx, number, customer)?;
            self.outbox.put(tx, number, customer)
        })?;
        placed.ticket.wait()?;
        self.send_all()
    }

    /// The same without the wait for the ticket: the customer may have a message of an order that a
    /// crash has lost.
    pub fn place_and_send_too_early(&self, customer: &str) -> Result<(), Error> {
        let number = self.pool.run(|tx| {
            self.last.add(tx, 1)?;
            let number = self.last.get(tx)? as u64;
            self.orders.put(tx, number, customer)?;
            Ok(number)
        })?;
        (self.send)(Message { number: number.value, customer: customer.to_owned() });
        number.ticket.wait()
    }

    /// The same with the message in a transaction of its own: a crash may lose it.
    pub fn place_in_two(&self, customer: &str) -> Result<(), Error> {
        let placed = self.pool.run(|tx| {
            self.last.add(tx, 1)?;
            let number = self.last.get(tx)? as u64;
            self.orders.put(tx, number, customer)?;
            Ok(number)
        })?;
        self.pool.run(|tx| self.outbox.put(tx, placed.value, customer))?.ticket.wait()?;
        self.send_all()
    }

    /// The same with numbers from a counter outside of the pool: after a crash it begins again.
    pub fn place_with_a_number_in_memory(&mut self, customer: &str) -> Result<(), Error> {
        self.last_in_memory += 1;
        let number = self.last_in_memory;
        let placed = self.pool.run(|tx| {
            self.orders.put(tx, number, customer)?;
            self.outbox.put(tx, number, customer)
        })?;
        placed.ticket.wait()?;
        self.send_all()
    }

    fn send_all(&self) -> Result<(), Error> {
        while let Some((number, customer)) = self.pool.run(|tx| self.outbox.first(tx))?.value {
            (self.send)(Message { number, customer });
            // Not durable yet: after a crash the message is sent again.
            let _ = self.pool.run(|tx| self.outbox.delete(tx, number))?;
        }
        Ok(())
    }

    /// Returns all orders.
    pub fn all(&self) -> Result<Vec<Message>, Error> {
        let orders = self.pool.run(|tx| {
            let mut all = Vec::new();
            for order in self.orders.iter(tx) {
                let (number, customer) = order?;
                all.push(Message { number, customer });
            }
            Ok(all)
        })?;
        Ok(orders.value)
    }
}
