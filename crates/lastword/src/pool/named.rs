//! Collections that are opened by name.

use collections::catalog::{self, Named, Opened, Types};
use collections::encoded::{EncodedMap, EncodedTypes};
use collections::indexed_map::Indexes;
use collections::{BTreeMap, HashMap, IndexedMap, Key, Value};

use super::Pool;
use crate::design::Design;
use crate::error::{Error, NamedError};
use crate::worker::Committed;
use crate::{Stop, Tx};

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
    /// [`NamedError`]: the name belongs to a collection of other types, or its
    /// [conversion](Pool::convert) is unfinished, or the pool's root is an object of the program.
    /// As [`run`](Pool::run).
    pub fn named<C: Named>(&self, name: &str) -> Result<C, Error> {
        let done = self.run(|tx| catalog::open::<C, _>(tx, name))?;
        self.durable(done, name, || C::types().to_string())
    }

    /// Opens the map of this name, or creates it: as [`named`](Pool::named), for types that are
    /// known at run time. For bindings of other languages; see [`collections::encoded`].
    ///
    /// # Errors
    /// As [`named`](Pool::named).
    pub fn encoded_map(&self, name: &str, types: &EncodedTypes) -> Result<EncodedMap, Error> {
        let done = self.run(|tx| catalog::open_encoded(tx, name, types))?;
        self.durable(done, name, || Types::from(types).to_string())
    }

    /// Returns the collection that a transaction has opened. A new one is durable.
    fn durable<C>(
        &self,
        done: Committed<'_, Opened<C>, D>,
        name: &str,
        wanted: impl FnOnce() -> String,
    ) -> Result<C, Error> {
        let is_new = matches!(done.value, Opened::Created(_));
        let collection = NamedError::of(done.value, &self.info().path, name, wanted)?;
        if is_new && D::DURABLE {
            done.ticket.wait()?;
        }
        Ok(collection)
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
    /// assert!(other.to_string().contains("is HashMap<str, u32>"));
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

    /// Opens the map with indexes of this name, or creates it: as [`named`](Pool::named). The names
    /// of the indexes and the types of their keys are compared, too.
    ///
    /// ```
    /// use lastword::prelude::*;
    ///
    /// struct ByAge;
    /// impl Index<str, u32> for ByAge {
    ///     type Key = u32;
    ///     fn key(_: &String, age: &u32) -> Option<u32> {
    ///         Some(*age)
    ///     }
    /// }
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("named.pool");
    /// let pool = Pool::create(&path, Options::new())?;
    /// let ages = pool.indexed_map::<str, u32, (ByAge,)>("ages")?;
    /// pool.run(|tx| ages.insert(tx, "ann", 40))?;
    /// let oldest = pool.run(|tx| ages.by(ByAge).last(tx))?.value;
    /// assert_eq!(oldest, Some(("ann".to_owned(), 40)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`named`](Pool::named).
    pub fn indexed_map<K, V, I>(&self, name: &str) -> Result<IndexedMap<K, V, I>, Error>
    where
        K: Key + ?Sized + 'static,
        V: Value + ?Sized + 'static,
        I: Indexes<K, V> + 'static,
    {
        self.named(name)
    }

    /// Opens the collection of this name, or creates it, as [`named`](Pool::named). If the name
    /// belongs to a collection of type `Old`, `replace` builds the new collection from it in the
    /// same transaction. The new collection takes over the memory of the old one. `replace` runs
    /// again if the transaction repeats. To change the type of all values, which takes many
    /// transactions, call [`convert`](Pool::convert).
    ///
    /// ```
    /// # use lastword::{Tx, prelude::*};
    /// # struct ByAge;
    /// # impl Index<str, u32> for ByAge {
    /// #     type Key = u32;
    /// #     fn key(_: &String, age: &u32) -> Option<u32> {
    /// #         Some(*age)
    /// #     }
    /// # }
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("named.pool");
    /// # let pool = Pool::create(&path, Options::new())?;
    /// # pool.btree_map::<str, u32>("ages")?;
    /// type Ages = IndexedMap<str, u32, (ByAge,)>;
    ///
    /// // An earlier version of the program had no index.
    /// let index = |tx: &mut Tx<'_, _>, old: BTreeMap<str, u32>| Ages::from_map(tx, old);
    /// let ages = pool.named_or_replace("ages", index)?;
    /// while !pool.run(|tx| ages.rebuild_step(tx, 100))?.value {}
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`named`](Pool::named).
    pub fn named_or_replace<Old: Named, New: Named>(
        &self,
        name: &str,
        mut replace: impl FnMut(&mut Tx<'_, D>, Old) -> Result<New, Stop>,
    ) -> Result<New, Error> {
        let done = self.run(|tx| catalog::open_or_replace(tx, name, &mut replace))?;
        // Also a found one: this transaction may have replaced it.
        if D::DURABLE {
            done.ticket.wait()?;
        }
        self.durable(done, name, || format!("{} or {}", Old::types(), New::types()))
    }
}
