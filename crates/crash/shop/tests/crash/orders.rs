//! Crash tests of the orders: messages of the outbox.

use lastword_crash::{Explorer, StepResult};
use shop::orders::{Message, Orders};

use crate::finds;

const HONEST: &str = "each message is of an order";
const COMPLETE: &str = "each order has its message";

/// Orders that are placed in this way. The world gets the messages.
fn orders(place: fn(&mut Orders, &str) -> StepResult) -> Explorer<Orders> {
    let start = Explorer::new(|pool, world| {
        let world = world.clone();
        Ok(Orders::open(pool, Box::new(move |message| world.show(message)))?)
    });
    start
        .step("ann orders", move |orders, _| place(orders, "ann"))
        .step("bob orders", move |orders, _| place(orders, "bob"))
        .step("cid orders", move |orders, _| place(orders, "cid"))
        .invariant(HONEST, |orders, world| {
            let (all, sent) = (orders.all()?, world.shown::<Message>());
            let lie = sent.into_iter().find(|message| !all.contains(message));
            lie.map_or(Ok(()), |lie| Err(format!("{lie:?}").into()))
        })
        .invariant(COMPLETE, |orders, world| {
            let sent = world.shown::<Message>();
            let silent = orders.all()?.into_iter().find(|order| !sent.contains(order));
            silent.map_or(Ok(()), |order| Err(format!("{order:?}").into()))
        })
}

#[test]
fn each_order_has_an_honest_message() {
    orders(|orders, customer| Ok(orders.place(customer)?)).run();
}

#[test]
fn message_before_the_ticket_is_found() {
    finds(&orders(|orders, customer| Ok(orders.place_and_send_too_early(customer)?)), HONEST, 1);
}

#[test]
fn message_in_another_transaction_is_found() {
    finds(&orders(|orders, customer| Ok(orders.place_in_two(customer)?)), COMPLETE, 1);
}

#[test]
fn number_outside_of_the_pool_is_found() {
    let place =
        |orders: &mut Orders, customer: &str| Ok(orders.place_with_a_number_in_memory(customer)?);
    finds(&orders(place), HONEST, 2);
}
