//! A process of the user's program: an open pool of any design, and the program's state.
//!
//! Only this file knows the pool's design. Everything above it is compiled once, whatever designs
//! and programs a crate tests.

use std::any::Any;
use std::error::Error as StdError;
use std::path::Path;

use lastword::{Design, DesignInfo, Error, Options, Pool};
use medium::sync::Arc;

use super::World;

/// The program's state, as [`Explorer::new`](super::Explorer::new) makes it.
pub(super) type State = Box<dyn Any>;

/// The function that makes the state of a process.
pub(super) type Start<D> = dyn Fn(Arc<Pool<D>>, &World) -> Result<State, Box<dyn StdError>>;

/// The path of the pool on the recorded machine.
const PATH: &str = "/pool";

/// Creates and opens the pool.
pub(super) trait Opener {
    /// Returns the design's properties.
    fn design(&self) -> &'static DesignInfo;

    /// Creates the pool if there is to be none, else opens it.
    fn open(&self, create: bool, options: Options) -> Result<Box<dyn Process + '_>, Error>;
}

/// An open pool.
pub(super) trait Process {
    /// Starts the program: returns its state.
    fn start(&self, world: &World) -> Result<State, Box<dyn StdError>>;

    /// Returns the committed and the durable ID.
    fn ids(&self) -> (u64, u64);

    /// Returns the names of the background steps.
    fn background(&self) -> &'static [&'static str];

    /// Runs a background step.
    fn run_background(&self, number: usize) -> Result<bool, Error>;

    /// Returns the damage of the heap.
    fn check_heap(&self) -> Result<(), lastword::Damage>;

    /// Closes the pool; `None` when the program holds it, too.
    fn close(self: Box<Self>) -> Option<Result<(), Error>>;

    /// Leaves the pool as a crash does.
    fn abandon(self: Box<Self>);
}

/// The opener of pools of one design.
pub(super) struct Typed<D: Design>(pub(super) Box<Start<D>>);

impl<D: Design> Opener for Typed<D> {
    fn design(&self) -> &'static DesignInfo {
        DesignInfo::of::<D>()
    }

    fn open(&self, create: bool, options: Options) -> Result<Box<dyn Process + '_>, Error> {
        let path = Path::new(PATH);
        let pool = match create {
            true => Pool::<D>::create_as(path, options)?,
            false => Pool::<D>::open_as(path, options)?,
        };
        Ok(Box::new(Open { pool: Arc::new(pool), start: &self.0 }))
    }
}

struct Open<'o, D: Design> {
    pool: Arc<Pool<D>>,
    start: &'o Start<D>,
}

impl<D: Design> Process for Open<'_, D> {
    fn start(&self, world: &World) -> Result<State, Box<dyn StdError>> {
        (self.start)(Arc::clone(&self.pool), world)
    }

    fn ids(&self) -> (u64, u64) {
        (self.pool.committed_id().0, self.pool.durable_id().0)
    }

    fn background(&self) -> &'static [&'static str] {
        D::STEPS
    }

    fn run_background(&self, number: usize) -> Result<bool, Error> {
        self.pool.design().step(number)
    }

    fn check_heap(&self) -> Result<(), lastword::Damage> {
        self.pool.check_heap().map(drop)
    }

    fn close(self: Box<Self>) -> Option<Result<(), Error>> {
        Arc::into_inner(self.pool).map(Pool::close)
    }

    fn abandon(self: Box<Self>) {
        // A clone in a thread of the program, or a forgotten clone, keeps the pool. Its machine is
        // off, so it does no harm.
        if let Some(pool) = Arc::into_inner(self.pool) {
            pool.abandon();
        }
    }
}
