//! Pool of counters, each on a page of its own, whose shadow holds fewer pages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use lastword::{Array, Design, Options, Pool, Shadow};
use tempfile::TempDir;

const PAGE: u64 = 4096;

pub(crate) const COUNTERS: u64 = 256;
/// Words from one counter to the next.
pub(crate) const APART: u64 = 512;

pub(crate) fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    (dir, path)
}

pub(crate) fn options(shadow: Shadow, pages: u64) -> Options {
    let options = Options::new().bytes(4 << 20).log_bytes(1 << 20).ring_entries(1 << 12);
    options.shadow(shadow).shadow_bytes(pages * PAGE)
}

pub(crate) fn counters<D: Design>(pool: &Pool<D>) -> Array<u64> {
    let array = pool.run(|tx| Array::reserve(tx, COUNTERS * APART)).unwrap().value;
    while !pool.run(|tx| array.prepare(tx, 16)).unwrap().value {}
    array
}
