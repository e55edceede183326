//! Collections that are opened by name.

use collections::catalog::{self, Named, Opened};
use collections::{BTreeMap, HashMap, Key, Value};

use super::Pool;
use crate::design::Design;
use crate::error::{Error, NamedError};

impl<D: Design> Pool<D> {
    /// Opens the collection of this name, or creates it. A new collection is durable on return.
    ///
    /// The collections of a pool are found through its root, so a program that uses names does not
    /// set a root of its own. The name, the types of keys and values, and their sizes are stored
    /// with the collection and compared when it is opened. Keep the handle: it is a `Copy` value of
    /// one word, and stays valid as long as the pool.
    ///
    /// ```
    /// use lastword::{Options, Pool};
    /// use lastword::collections::{BTreeSet, Counter};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("named.pool");
    /// let pool = Pool::create(&path, Options::new())?;
    /// let visits: Counter = pool.named("visits")?;
    /// let tags: BTreeSet<(String, u32)> = pool.named("tags")?;
    /// pool.run(|tx| {
    ///     visits.add(tx, 1)?;
    ///     tags.insert(tx, ("ann", 7))
    /// })?;
    /// assert_eq!(pool.named("visits").ok(), Some(visits));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NamedError`]: the name belongs to a collection of other types, or the pool's root is an
    /// object of the program. As [`run`](Pool::run).
    pub fn named<C: Named>(&self, name: &str) -> Result<C, Error> {
        let done = self.run(|tx| catalog::open::<C, _>(tx, name))?;
        let path = || self.info().path.clone();
        match done.value {
            Opened::Found(collection) => Ok(collection),
            Opened::Created(collection) if !D::DURABLE => Ok(collection),
            Opened::Created(collection) => done.ticket.wait().map(|()| collection),
            Opened::OwnRoot => Err(NamedError::OwnRoot { path: path() }.into()),
            Opened::Other(stored) => {
                let (stored, wanted) = (stored.to_string().into(), C::types().to_string().into());
                let (path, name) = (path(), name.into());
                Err(NamedError::OtherTypes { path, name, stored, wanted }.into())
            }
        }
    }

    /// Opens the hash map of this name, or creates it: as [`named`](Pool::named).
    ///
    /// ```
    /// use lastword::{Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("named.pool");
    /// let pool = Pool::create(&path, Options::new())?;
    /// let ages = pool.hash_map::<str, u32>("ages")?;
    /// pool.run(|tx| ages.insert(tx, "ann", 40))?;
    /// let other = pool.hash_map::<str, str>("ages").unwrap_err();
    /// assert!(other.to_string().contains("is a HashMap<str, u32>"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`named`](Pool::named).
    pub fn hash_map<K, V>(&self, name: &str) -> Result<HashMap<K, V>, Error>
    where
        K: Key + ?Sized + 'static,
        V: Value + ?Sized + 'static,
    {
        self.named(name)
    }

    /// Opens the ordered map of this name, or creates it: as [`named`](Pool::named).
    ///
    /// # Errors
    /// As [`named`](Pool::named).
    pub fn btree_map<K, V>(&self, name: &str) -> Result<BTreeMap<K, V>, Error>
    where
        K: Key + ?Sized + 'static,
        V: Value + ?Sized + 'static,
    {
        self.named(name)
    }
}
