//! Tests of internals of the C interface that no C function exposes.
//!
//! These tests are not unit tests of the library: Cargo would compile the library a second time to
//! build them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod statuses;

use std::ptr;

use lastword_c::handle::{Closed, Shell};
use lastword_c::status;
use lastword_c::thread::{call_back, calls_back};

#[test]
fn closed_handle_is_detected_until_reused() {
    static SHELLS: Closed<u32> = Closed::empty();
    let open = |value| {
        // SAFETY: the handle comes from `open`.
        unsafe { Shell::of(SHELLS.open(value, 0)) }.unwrap()
    };
    let first = open(1);
    assert_eq!(SHELLS.close(first), Ok(1));
    assert_eq!(SHELLS.close(first).err(), Some(status::CLOSED));
    assert_eq!(first.inside().err(), Some(status::CLOSED));
    let closings = 4096;
    let mut reuses = 0;
    for value in 0..closings {
        let shell = open(value);
        reuses += usize::from(ptr::eq(shell, first));
        assert_eq!(SHELLS.close(shell), Ok(value));
    }
    assert!((2..5).contains(&reuses), "{reuses} reuses in {closings} closings");
}

#[test]
fn nested_callback_keeps_outer_mark() {
    assert!(!calls_back());
    call_back(|| {
        call_back(|| assert!(calls_back()));
        assert!(calls_back(), "the outer callback still runs");
    });
    assert!(!calls_back());
}
