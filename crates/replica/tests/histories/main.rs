//! Histories of clients, and the checker that accepts or refuses them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod by_hand;
mod checker;
mod history;
mod porcupine;
