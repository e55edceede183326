//! The C side (`c/`): libitm's transactions and plain code, over the same structures.
//!
//! Plain code has no isolation, so each of its threads has a structure of its own, with its share
//! of the keys; together they are as large as the structure that threads share elsewhere. libitm
//! chooses its method by the number of threads and by the processor. For one thread it would run
//! without any isolation, or with hardware transactions where available. [`use_ml_wt`] selects its
//! software method (one thread, hash insert, M/s: ml_wt 6.3, serialirr 7.9, htm 15.7).

use std::ffi::c_int;
use std::ptr::NonNull;

use super::work::{Call, Content, Work};
use super::{Runner, Subject};
use crate::failure::Failure;

/// `struct peer` of `c/structures.h`.
#[repr(C)]
struct Peer {
    opaque: [u8; 0],
}

type Run = unsafe extern "C" fn(*mut Peer, u64, *const Call, u64);

unsafe extern "C" {
    fn peer_new(kind: u64, size: u64, threads: u64) -> *mut Peer;
    fn peer_free(peer: *mut Peer);
    fn peer_content(peer: *const Peer, out: *mut u64) -> c_int;
    fn itm_hash(peer: *mut Peer, thread: u64, calls: *const Call, count: u64);
    fn itm_tatp(peer: *mut Peer, thread: u64, calls: *const Call, count: u64);
    fn itm_tree(peer: *mut Peer, thread: u64, calls: *const Call, count: u64);
    fn itm_writes(peer: *mut Peer, thread: u64, calls: *const Call, count: u64);
    fn itm_announced(peer: *mut Peer, thread: u64, calls: *const Call, count: u64);
    fn plain_hash(peer: *mut Peer, thread: u64, calls: *const Call, count: u64);
    fn plain_tatp(peer: *mut Peer, thread: u64, calls: *const Call, count: u64);
    fn plain_tree(peer: *mut Peer, thread: u64, calls: *const Call, count: u64);
    fn plain_writes(peer: *mut Peer, thread: u64, calls: *const Call, count: u64);
    fn plain_announced(peer: *mut Peer, thread: u64, calls: *const Call, count: u64);
}

/// How many threads the C side has arenas for.
pub(crate) const THREADS_MAX: u64 = 64;

/// Makes libitm use `ml_wt`, its multi-lock write-through method, whatever the number of threads.
pub(crate) fn use_ml_wt() {
    // SAFETY: called at the beginning of `stm::run`, before this program has a second thread.
    unsafe { std::env::set_var("ITM_DEFAULT_METHOD", "ml_wt") };
}

/// One structure of the C side.
#[derive(Debug)]
struct Structure(NonNull<Peer>);

// SAFETY: the structure is memory that belongs to no thread, and is freed once.
unsafe impl Send for Structure {}
// SAFETY: `Foreign` is the only user. It lets several threads run on one structure only with
// libitm's transactions, which isolate them, and reads it out when no runner lives
// (`Subject::contents`).
unsafe impl Sync for Structure {}

impl Structure {
    fn new(work: Work, shards: u64, threads: u64) -> Result<Structure, Failure> {
        let kind = match work {
            Work::Hash => 0,
            Work::Tatp => 1,
            Work::Tree => 2,
            Work::Writes | Work::Announced => 3,
        };
        // SAFETY: it only allocates, and returns null when memory is exhausted.
        let peer = unsafe { peer_new(kind, work.size(shards), threads) };
        let structure = Structure(NonNull::new(peer).ok_or(Failure::NoMemory)?);
        let mut calls = Vec::new();
        work.load(shards, |call| calls.push(call));
        // SAFETY: the structure is of this work's kind, no other thread knows it, and keys are in
        // 1..=keys, for which it has room.
        unsafe { plain(work)(structure.0.as_ptr(), 0, calls.as_ptr(), calls.len() as u64) };
        Ok(structure)
    }

    fn content(&self) -> Content {
        let mut out = [0; 3];
        // SAFETY: `out` has the three words that it fills; no thread runs on the structure.
        let sound = unsafe { peer_content(self.0.as_ptr(), out.as_mut_ptr()) } != 0;
        Content { sound, count: out[0], keys: out[1], values: out[2] }
    }
}

impl Drop for Structure {
    fn drop(&mut self) {
        // SAFETY: it came from `peer_new`, and runners, which borrow it, are gone.
        unsafe { peer_free(self.0.as_ptr()) };
    }
}

/// libitm's transactions on one structure, or plain code on one for each thread.
#[derive(Debug)]
pub(crate) struct Foreign {
    run: Run,
    structures: Vec<Structure>,
}

impl Foreign {
    /// Transactions of libitm, made and loaded.
    pub(crate) fn libitm(work: Work, threads: u64) -> Result<Foreign, Failure> {
        let run: Run = match work {
            Work::Hash => itm_hash,
            Work::Tatp => itm_tatp,
            Work::Tree => itm_tree,
            Work::Writes => itm_writes,
            Work::Announced => itm_announced,
        };
        Ok(Foreign { run, structures: vec![Structure::new(work, 1, threads)?] })
    }

    /// Plain code, made and loaded: a structure for each thread.
    pub(crate) fn plain(work: Work, threads: u64) -> Result<Foreign, Failure> {
        let structures = (0..threads).map(|_| Structure::new(work, threads, 1));
        Ok(Foreign { run: plain(work), structures: structures.collect::<Result<_, _>>()? })
    }
}

fn plain(work: Work) -> Run {
    match work {
        Work::Hash => plain_hash,
        Work::Tatp => plain_tatp,
        Work::Tree => plain_tree,
        Work::Writes => plain_writes,
        Work::Announced => plain_announced,
    }
}

impl Subject for Foreign {
    fn runner(&self, thread: usize) -> Result<Runner<'_>, Failure> {
        // Shared by all threads, or one for each: then it has one arena.
        let (structure, arena) = match self.structures.as_slice() {
            [shared] => (shared, thread as u64),
            own => (&own[thread], 0),
        };
        let run = self.run;
        Ok(Box::new(move |calls| {
            // SAFETY: the structure is of the kind that `run` works on, and lives as long as the
            // runner; the calls are as many as is said, their keys in range. Several threads run
            // on one structure only when `run` is a transaction of libitm, each with its arena.
            unsafe { run(structure.0.as_ptr(), arena, calls.as_ptr(), calls.len() as u64) };
            Ok(())
        }))
    }

    fn contents(&self) -> Result<Vec<Content>, Failure> {
        Ok(self.structures.iter().map(Structure::content).collect())
    }
}
