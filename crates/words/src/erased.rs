//! Type-erased [`Transact`]: transactions behind a `dyn` call.
//!
//! Code that is not timed, such as loading and checking a workload, is compiled once with it and
//! not once for each design.

use std::error::Error;
use std::fmt;

use crate::{Addr, Allocate, LockId, Seen, Stop, Transact, Words};

/// A worker whose transaction bodies see only [`Allocate`].
trait AnyTransact<E> {
    fn transact_any(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Allocate) -> Result<(), Stop>,
    ) -> Result<(), E>;
}

impl<T: Transact, E: From<T::Error>> AnyTransact<E> for T {
    fn transact_any(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Allocate) -> Result<(), Stop>,
    ) -> Result<(), E> {
        Ok(self.transact(|tx| body(tx))?)
    }
}

/// The error of an erased worker: its own error in a box.
#[derive(Debug)]
pub struct AnyError(Box<dyn Error + Send + Sync>);

impl AnyError {
    /// Boxes an error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> AnyError {
        AnyError(Box::new(error))
    }

    /// Returns the worker's own error, if it is an `E`.
    ///
    /// # Errors
    /// This error unchanged, when it has another type.
    pub fn downcast<E: Error + 'static>(self) -> Result<E, AnyError> {
        self.0.downcast().map(|error| *error).map_err(AnyError)
    }
}

impl fmt::Display for AnyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for AnyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// A type-erased worker; each access of a transaction is one virtual call.
///
/// ```
/// use words::{Erased, Objects, Transact, mock::Mock};
///
/// fn seven<T: Transact>(worker: &mut T) -> Result<u64, T::Error> {
///     let seven = worker.transact(|tx| tx.alloc(7_u64))?;
///     worker.transact(|tx| tx.get(seven))
/// }
///
/// let mut mock = Mock::new(1 << 16);
/// assert_eq!(seven(&mut Erased::new(&mut mock))?, 7);
/// # Ok::<(), words::mock::Refused>(())
/// ```
pub struct Erased<'w, E>(&'w mut dyn AnyTransact<E>);

impl<'w, E> Erased<'w, E> {
    /// Erases the type of a worker and keeps its error type.
    pub fn new(worker: &'w mut impl Transact<Error = E>) -> Erased<'w, E> {
        Erased(worker)
    }
}

impl<'w> Erased<'w, AnyError> {
    /// Erases the types of a worker and of its error.
    pub fn any<T: Transact>(worker: &'w mut T) -> Erased<'w, AnyError>
    where
        AnyError: From<T::Error>,
    {
        Erased(worker)
    }
}

impl<E: Error + Send + Sync + 'static> Transact for Erased<'_, E> {
    type Tx<'t>
        = ErasedTx<'t>
    where
        Self: 't;
    type Error = E;

    fn transact<R>(
        &mut self,
        mut body: impl FnMut(&mut ErasedTx<'_>) -> Result<R, Stop>,
    ) -> Result<R, E> {
        let mut result = None;
        self.0.transact_any(&mut |tx| {
            result = Some(body(&mut ErasedTx(tx))?);
            Ok(())
        })?;
        Ok(result.expect("a body that committed has returned its result"))
    }
}

/// A transaction of an [`Erased`] worker.
pub struct ErasedTx<'t>(&'t mut dyn Allocate);

impl<'t> ErasedTx<'t> {
    /// Erases the type of a transaction.
    pub fn new(tx: &'t mut dyn Allocate) -> ErasedTx<'t> {
        ErasedTx(tx)
    }
}

impl Words for ErasedTx<'_> {
    #[inline]
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.0.read(at)
    }

    #[inline]
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.0.write(at, value)
    }

    #[inline]
    fn read_words(&mut self, at: Addr, out: &mut [u64]) -> Result<(), Stop> {
        self.0.read_words(at, out)
    }

    #[inline]
    fn look(&mut self, object: u64) -> Result<Seen, Stop> {
        self.0.look(object)
    }

    #[inline]
    fn read_seen(&mut self, seen: Seen, offset: u64) -> Result<u64, Stop> {
        self.0.read_seen(seen, offset)
    }

    #[inline]
    fn read_words_seen(&mut self, seen: Seen, offset: u64, out: &mut [u64]) -> Result<(), Stop> {
        self.0.read_words_seen(seen, offset, out)
    }

    #[inline]
    fn write_words(&mut self, at: Addr, words: &[u64]) -> Result<(), Stop> {
        self.0.write_words(at, words)
    }

    #[inline]
    fn lock(&mut self, lock: LockId) -> Result<(), Stop> {
        self.0.lock(lock)
    }

    #[inline]
    fn protect(&mut self, at: Addr) -> Result<(), Stop> {
        self.0.protect(at)
    }

    #[inline]
    fn will_read(&mut self, at: Addr, bytes: usize) {
        self.0.will_read(at, bytes);
    }

    #[inline]
    fn will_write(&mut self, at: Addr, bytes: usize) {
        self.0.will_write(at, bytes);
    }

    #[inline]
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        self.0.retire(at, bytes)
    }

    #[inline]
    fn compute(&mut self, instructions: u32) {
        self.0.compute(instructions);
    }

    #[inline]
    fn after_last_read(&mut self) {
        self.0.after_last_read();
    }
}

impl Allocate for ErasedTx<'_> {
    #[inline]
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        self.0.allocate(bytes)
    }

    #[inline]
    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        self.0.reserve_blocks(blocks)
    }

    #[inline]
    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
        self.0.prepare_blocks(first, most)
    }

    #[inline]
    fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop> {
        self.0.allocate_pieces(bytes)
    }

    #[inline]
    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
        self.0.resize(first, from, to)
    }

    #[inline]
    fn root(&mut self) -> Result<u64, Stop> {
        self.0.root()
    }

    #[inline]
    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        self.0.set_root(object)
    }
}
