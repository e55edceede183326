//! The reason with which a program ends a transaction.

use std::any::Any;
use std::fmt;

/// A reason to end a transaction: any value with a text for the user.
///
/// [`Error::Aborted`](crate::Error::Aborted) shows that text, so the bound is `Display`.
/// Strings (`&'static str`, `String`) and all error types qualify. [`Reason::get`] returns the
/// value.
///
/// ```
/// use lastword::{Error, Options, Pool, Volatile};
///
/// #[derive(Debug)]
/// struct Insufficient { cents: u64 }
///
/// impl std::fmt::Display for Insufficient {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         write!(f, "{} cents are missing", self.cents)
///     }
/// }
///
/// let pool = Pool::<Volatile>::create_as("", Options::new().bytes(1 << 20))?;
/// let error = pool.run(|tx| tx.abort::<()>(Insufficient { cents: 7 })).unwrap_err();
/// assert_eq!(error.to_string(), "ended by the program: 7 cents are missing");
/// # Ok::<(), Error>(())
/// ```
///
/// The compiler rejects a type without `Display`:
/// ```compile_fail,E0277
/// # use lastword::{Error, Options, Pool, Volatile};
/// struct Silent;
/// let pool = Pool::<Volatile>::create_as("", Options::new().bytes(1 << 20))?;
/// let _ = pool.run(|tx| tx.abort::<()>(Silent));
/// # Ok::<(), Error>(())
/// ```
pub trait AbortReason: Any + fmt::Display + Send + Sync {}

impl<T: Any + fmt::Display + Send + Sync> AbortReason for T {}

/// The reason that a body passed to [`Tx::abort`](crate::Tx::abort). `Debug` and `Display` both
/// show its text.
pub struct Reason(pub(crate) Box<dyn AbortReason>);

impl Reason {
    /// Returns the reason if it has this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
