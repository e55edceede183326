//! The moment at which a view begins: the heap and the queues together are as of one transaction.
//!
//! ```text
//!   committing worker                     thread that begins a view
//!   1 durable                             a locks the queues of all workers
//!   2 locks its queue                     b reads the clock: the view's transaction
//!     links of new objects, timestamp     c collects what the heap lacks, from the queues
//!   3 into the queue                      d the caller's work: pages are watched
//!     from the queue to the heap          e unlocks the queues
//!     unlocks its queue
//! ```
//!
//! A worker holds its queue's lock from its timestamp on until the transaction is in the queue, and
//! each write-back holds it, too. So between a and e no transaction ends, and none is written back:
//! - Every transaction up to the clock of b is in the heap or in a queue, and no later one is.
//! - No later transaction has stored the link of a new object. That link would lie in memory that
//!   is free in the view, and an allocator may assume that free memory is zero.
//! - A worker whose lock follows e sees the work of d: it copies a page before it stores there.
//!
//! A view waits only for third stages that have begun. It waits for no body. A third stage that
//! writes back may wait for a copy to another view's file and, for a bounded number of polls, for a
//! grace period. A transaction stays in its queue while an older one runs, so step c finds its
//! words.
//!
//! Transactions that run during d may store links of objects that they lock, also without a copy of
//! the page. The frozen heap may have such links. They are void in every later generation: see
//! `link`. Links of transactions in queues are left out with the words of those.
//!
//! *Worker groups.* The clock may be above the IDs of transactions whose worker group has not
//! ended. So the view's ID is the durable watermark. The view has all transactions up to it. It may
//! have later ones, too: a worker group may end before another with lower IDs.

use std::collections::BTreeMap;

use medium::mutants::{Mutant, injected};

use super::Versions;
use crate::sync::{AtomicU64, Ordering, lock};

impl<M: AsRef<[AtomicU64]>> Versions<M> {
    /// Runs `work` while the heap is as of the returned transaction, except for the words that are
    /// passed to `work`: index and value.
    pub(crate) fn freeze(&self, work: impl FnOnce(BTreeMap<usize, u64>)) -> u64 {
        // Of all workers: a worker without transactions so far could end its first one meanwhile.
        // In one order, for views that begin at the same time. No other thread holds two.
        let queues: Vec<_> = self.table.all().map(|state| lock(&state.queue)).collect();
        // Acquire: as in `durable`. A waiting worker may move the clock without a transaction.
        let last = self.clock.load(Ordering::Acquire);
        let id = last.min(self.durable());
        let mut lacking = BTreeMap::new();
        if !injected(Mutant::QueuedWordsIgnored) {
            queues.iter().for_each(|queue| {
                queue.words(|word, value| {
                    lacking.insert(word, value);
                });
            });
        }
        work(lacking);
        drop(queues);
        id
    }
}
