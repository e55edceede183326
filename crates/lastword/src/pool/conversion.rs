//! Conversion of a named collection to other types, in transactions of a few values each.

use collections::catalog::{self, Converted, Opened};
use collections::{Convert, Named};

use super::Pool;
use crate::design::Design;
use crate::error::{Error, NamedError};
use crate::worker::is_size_limit;

/// Values that a transaction converts at most: as many as an iterator of a map reads at once.
const STEP: usize = 64;

impl<D: Design> Pool<D> {
    /// Converts the collection of this name from the types of `C` to those of `N`, and returns it.
    ///
    /// `C` and `N` are the same kind of collection: a [`HashMap`], [`BTreeMap`], [`IndexedMap`],
    /// [`Vec`] or [`VecDeque`]. The keys and the order of elements stay. A collection that already
    /// has the new types is opened as it is, and an unknown name is created with them. So a program
    /// may call this in place of [`named`](Pool::named) at each start:
    ///
    /// ```
    /// use lastword::collections::HashMap;
    /// use lastword::{Options, Pool};
    ///
    /// mod v1 {
    ///     #[lastword::persist]
    ///     pub struct User { pub age: u32 }
    /// }
    /// mod v2 {
    ///     #[lastword::persist]
    ///     pub struct User { pub age: u32, pub visits: u32 }
    /// }
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let pool = Pool::create(dir.path().join("users.pool"), Options::new())?;
    /// let old = pool.hash_map::<str, v1::User>("users")?;
    /// pool.run(|tx| old.put(tx, "ann", v1::User { age: 40 }))?;
    /// let users = pool.convert::<HashMap<str, v1::User>, HashMap<str, v2::User>>(
    ///     "users",
    ///     |old| v2::User { age: old.age, visits: 0 },
    /// )?;
    /// assert_eq!(pool.run(|tx| users.get(tx, "ann"))?.value.unwrap().age, 40);
    /// assert!(pool.hash_map::<str, v1::User>("users").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// `change` gets each value, and may get it again: a transaction that meets a conflict repeats.
    /// If a value holds a pointer, for example a collection, copy the pointer into the new value.
    /// The object that it points to stays.
    ///
    /// **Durability.** The conversion runs in transactions of up to 64 values, fewer if these are
    /// too large for one. It is durable on return. After a crash, or an error such as
    /// [`Error::Full`], all values are there, each in its old form or its new one. The next call
    /// continues, and converts no value twice. Until the last step, opening the name is refused,
    /// with the old types and the new ([`NamedError::Converting`]).
    ///
    /// The conversion cannot be undone or given up: a pool that is full must grow first, and
    /// `change` must return a value for each old one.
    ///
    /// **Handles.** A handle of the old types that was opened before dangles once the last value
    /// has moved. Until then the handle reads the values that are not yet moved. The conversion
    /// also converts values that are inserted through it. In a vector, their order may change.
    /// Several threads may convert one name at once. They share the work, and all return the new
    /// collection.
    ///
    /// **Cost.** Each value is removed and inserted once. A [`Vec`] then swaps its elements in
    /// pairs. A new value of the same size class can use the memory of an old one. New values of
    /// another size class can use it only when the slab of the old values is empty. The heap may
    /// therefore need room for the old and the new values.
    ///
    /// # Errors
    /// [`NamedError`] if the collection has neither of the two types, if another conversion of it
    /// is unfinished, if the pool cannot distinguish the two types, or if the pool's root is an
    /// object of the program. [`Error::Full`] if the pool has no room. Otherwise as
    /// [`run`](Pool::run).
    ///
    /// [`HashMap`]: collections::HashMap
    /// [`BTreeMap`]: collections::BTreeMap
    /// [`IndexedMap`]: collections::IndexedMap
    /// [`Vec`]: collections::Vec
    /// [`VecDeque`]: collections::VecDeque
    pub fn convert<C: Convert<N>, N: Named>(
        &self,
        name: &str,
        mut change: impl FnMut(C::Old) -> C::New,
    ) -> Result<N, Error> {
        let mut most = STEP;
        loop {
            let done = self.run(|tx| catalog::convert_step::<C, N, _>(tx, name, most, &mut change));
            let done = match done {
                // Values may be long, or the log small.
                Err(error) if most > 1 && is_size_limit(&error) => {
                    most /= 2;
                    continue;
                }
                done => done?,
            };
            let opened = match done.value {
                Converted::Unfinished => continue,
                Converted::Finished(new) => Opened::Found(new),
                Converted::Opened(opened) => opened,
                Converted::Alike => return Err(self.alike::<C, N>(name)),
            };
            let wanted = || format!("{} or {}", C::types(), N::types());
            let collection = NamedError::of(opened, &self.info().path, name, wanted)?;
            // Another thread may have converted it just now, so that is durable on return, too.
            if D::DURABLE {
                done.ticket.wait()?;
            }
            return Ok(collection);
        }
    }

    fn alike<C: Named, N: Named>(&self, name: &str) -> Error {
        let (path, name) = (self.info().path.clone(), name.into());
        let (from, to) = (C::types().to_string().into(), N::types().to_string().into());
        NamedError::Alike { path, name, from, to }.into()
    }
}
