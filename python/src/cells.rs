//! An open transaction beside its worker, and a view beside its pool.
//!
//! Both borrow from their neighbour. Python keeps them across calls, so each pair is one value.

use std::sync::Arc;

use self_cell::{MutBorrow, self_cell};

use crate::engine::{Begun, Engine, Hand, Still};

/// The transaction, until it ends.
type BegunOf<'a> = Option<Box<dyn Begun + 'a>>;

type StillOf<'a> = Box<dyn Still + 'a>;

self_cell!(
    /// A worker and its open transaction.
    pub(crate) struct OpenCell {
        owner: MutBorrow<Box<dyn Hand>>,
        #[not_covariant]
        dependent: BegunOf,
    }
);

self_cell!(
    /// A pool and a view of it.
    pub(crate) struct ViewCell {
        owner: Arc<dyn Engine>,
        #[not_covariant]
        dependent: StillOf,
    }
);
