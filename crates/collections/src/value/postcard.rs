//! Values of any type that serde knows, in postcard's format.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use words::Stop;

use super::{AsValue, Value};
use crate::definitions::short_name;

/// The type of a map's values that are any `T` with serde's traits, encoded by [postcard].
///
/// There are no values of this type: a map with values of type `Postcard<User>` takes and returns
/// `User`. Postcard's format names no fields. A `User` with other fields is therefore another type,
/// and its old values have to be migrated.
///
/// ```
/// use collections::{AsValue, Postcard, Value};
///
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct User { name: String, logins: Vec<u64> }
///
/// let user = User { name: "ann".into(), logins: vec![7, 300] };
/// let bytes = AsValue::<Postcard<User>>::encode(&user)?;
/// assert_eq!(*bytes, *b"\x03ann\x02\x07\xac\x02");
/// assert_eq!(Postcard::<User>::decode(bytes)?, user);
/// # Ok::<(), words::Stop>(())
/// ```
///
/// [postcard]: https://postcard.jamesmunns.com/wire-format
#[derive(Debug)]
pub struct Postcard<T>(PhantomData<fn() -> T>);

impl<T: Serialize + DeserializeOwned> Value for Postcard<T> {
    type Owned = T;
    const FIXED: Option<usize> = None;

    fn name() -> String {
        format!("Postcard<{}>", short_name(std::any::type_name::<T>()))
    }

    fn decode(bytes: Cow<'_, [u8]>) -> Result<T, Stop> {
        match postcard::take_from_bytes(&bytes) {
            Ok((value, [])) => Ok(value),
            _ => Err(Stop::BadValue),
        }
    }
}

impl<T: Serialize + DeserializeOwned> AsValue<Postcard<T>> for T {
    fn encode(&self) -> Result<Cow<'_, [u8]>, Stop> {
        postcard::to_allocvec(self).map(Cow::Owned).map_err(|_| Stop::BadValue)
    }
}

impl<T: Serialize + DeserializeOwned> AsValue<Postcard<T>> for &T {
    fn encode(&self) -> Result<Cow<'_, [u8]>, Stop> {
        postcard::to_allocvec(*self).map(Cow::Owned).map_err(|_| Stop::BadValue)
    }
}
