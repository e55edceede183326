//! An open transaction beside its worker, and a view beside its pool.
//!
//! Both borrow from their neighbour. Python keeps them across calls, so each pair is one value.

use std::sync::Arc;

use self_cell::{MutBorrow, self_cell};

use crate::engine::{Engine, OpenTx, ReadState, Worker};

/// The transaction, until it ends.
type OpenTxOf<'a> = Option<Box<dyn OpenTx + 'a>>;

type ReadStateOf<'a> = Box<dyn ReadState + 'a>;

self_cell!(
    /// A worker and its open transaction.
    pub(crate) struct OpenCell {
        owner: MutBorrow<Box<dyn Worker>>,
        #[not_covariant]
        dependent: OpenTxOf,
    }
);

self_cell!(
    /// A pool and a view of it.
    pub(crate) struct ViewCell {
        owner: Arc<dyn Engine>,
        #[not_covariant]
        dependent: ReadStateOf,
    }
);
