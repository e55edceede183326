//! Maps: the base of the classes `Map` and `OrderedMap`.

use std::sync::Arc;

use lastword::collections::catalog::{self, Opened};
use lastword::collections::encoded::{Cursor, EncodedMap, EncodedTypes, MapKind};
use lastword::{ErasedTx, KeyBuf, Stop};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;

use crate::current;
use crate::failure::{Failure, raise};
use crate::key::KeyType;
use crate::pool::Pool;
use crate::scan::{Bounds, Part, Scan};
use crate::source::{Scope, Source};
use crate::transaction::Transaction;
use crate::value::ValueType;
use crate::view::View;

/// Pairs that a step of `clear` frees outside of a transaction.
const CLEARED: u64 = 1000;

/// An encoded key and an encoded value.
type Pair = (Vec<u8>, Vec<u8>);

/// A pair of Python.
type PyPair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// A map, its types, and the source of its pairs.
pub(crate) struct Inner {
    pub(crate) source: Source,
    pub(crate) map: EncodedMap,
    name: String,
    key: Arc<KeyType>,
    pub(crate) value: Arc<ValueType>,
}

impl Inner {
    pub(crate) fn decode_key<'py>(
        &self,
        py: Python<'py>,
        bytes: &[u8],
    ) -> PyResult<Bound<'py, PyAny>> {
        self.key.decode(py, bytes)?.map_err(|_| {
            let message =
                format!("map `{}`: a stored key does not match the map's key type", self.name);
            raise("Damaged", message)
        })
    }

    fn pair<'py>(&self, py: Python<'py>, (key, value): &Pair) -> PyResult<PyPair<'py>> {
        Ok((self.decode_key(py, key)?, self.value.decode(py, value)?))
    }
}

/// A map of a pool, of a transaction or of a view.
#[pyclass(frozen, subclass, module = "lastword")]
pub(crate) struct MapBase(Arc<Inner>);

/// Removes the first or the last pair if it is this one. Returns whether it was.
fn delete_end(
    map: EncodedMap,
    is_last: bool,
    pair: &Pair,
    tx: &mut ErasedTx<'_>,
) -> Result<bool, Stop> {
    let is_end = end_of(map, is_last, tx)?.as_ref() == Some(pair);
    if is_end {
        map.delete(tx, &pair.0)?;
    }
    Ok(is_end)
}

/// Removes a pair if it has this value. Returns whether it had.
fn delete_equal(
    map: EncodedMap,
    key: &[u8],
    value: &[u8],
    tx: &mut ErasedTx<'_>,
) -> Result<bool, Stop> {
    let is_equal = map.get_with(tx, key, |stored| stored == value)? == Some(true);
    if is_equal {
        map.delete(tx, key)?;
    }
    Ok(is_equal)
}

/// Returns the first or the last pair.
fn end_of(map: EncodedMap, is_last: bool, tx: &mut ErasedTx<'_>) -> Result<Option<Pair>, Stop> {
    let mut cursor = Cursor::new(map);
    if is_last {
        cursor.to_end();
        cursor.prev(tx)?;
    } else {
        cursor.next(tx)?;
    }
    Ok(cursor.pair().map(|(key, value)| (key.to_vec(), value.to_vec())))
}

impl MapBase {
    /// Opens or creates the map of a name.
    fn open(
        source: &Bound<'_, PyAny>,
        name: &str,
        kind: MapKind,
        (key, value): (KeyType, ValueType),
    ) -> PyResult<Inner> {
        let py = source.py();
        let types = EncodedTypes::new(kind, key.encoding(), value.encoding()?)
            .ok_or_else(|| PyTypeError::new_err("a value of a fixed length is too long"))?;
        let (source, opened) = if let Ok(pool) = source.cast::<Pool>() {
            let shared = pool.get().shared();
            current::settle(py);
            if current::peek(|_, _| ()).is_some() {
                let message = format!(
                    "cannot open map `{name}` inside of a transaction: open maps before the block"
                );
                return Err(raise("Nested", message));
            }
            let opened = py.detach(|| {
                let engine = shared.engine("map")?;
                let (opened, id) =
                    shared.run(false, |tx| catalog::open_encoded(tx, name, &types))?;
                if matches!(opened, Opened::Created(_)) {
                    engine.wait_for(id)?;
                }
                Ok::<_, Failure>(Some(opened))
            })?;
            (Source::Pool(shared), opened)
        } else if let Ok(view) = source.cast::<View>() {
            let state = view.get().state();
            let read = |tx: &mut ErasedTx<'_>| catalog::find_encoded(tx, name, &types);
            let opened = py.detach(|| state.read(read))?;
            (Source::ReadOnly(state), opened)
        } else {
            return Err(PyTypeError::new_err("a map is opened in a pool or in a view"));
        };
        let wanted = format!("{}<{}, {}>", kind.name(), key.name(), value.name());
        let refusal = |class, why: String| raise(class, format!("cannot open map `{name}`: {why}"));
        let map = match opened {
            Some(Opened::Found(map) | Opened::Created(map)) => map,
            None => return Err(PyKeyError::new_err(name.to_owned())),
            Some(Opened::OwnRoot) => {
                let why = "the pool's root is an object of another program";
                return Err(refusal("Mismatch", why.to_owned()));
            }
            Some(Opened::Converting { from, to }) => {
                let why = format!("its conversion from {from} to {to} is unfinished");
                return Err(refusal("Mismatch", why));
            }
            Some(Opened::Other(stored)) => {
                let why = format!(
                    "its type is {stored}, not {wanted}; open it with its types, or use another \
                     name"
                );
                return Err(refusal("WrongType", why));
            }
        };
        let (name, key, value) = (name.to_owned(), Arc::new(key), Arc::new(value));
        Ok(Inner { source, map, name, key, value })
    }

    /// Returns the same map with another source.
    fn in_source(&self, source: Source) -> Inner {
        let Inner { map, name, key, value, .. } = &*self.0;
        let (key, value) = (Arc::clone(key), Arc::clone(value));
        Inner { source, map: *map, name: name.clone(), key, value }
    }

    fn lookup(&self, py: Python<'_>, key: &KeyBuf) -> PyResult<Option<Vec<u8>>> {
        let map = self.0.map;
        self.0.source.read(py, |tx| map.get_with(tx, key.as_bytes(), <[u8]>::to_vec))
    }

    fn ordered(&self) -> PyResult<()> {
        match self.0.map.kind() {
            MapKind::Ordered => Ok(()),
            MapKind::Hash => Err(PyTypeError::new_err("a map without order: use `ordered_map`")),
        }
    }

    fn end<'py>(&self, py: Python<'py>, is_last: bool) -> PyResult<Option<PyPair<'py>>> {
        self.ordered()?;
        let map = self.0.map;
        let found = self.0.source.read(py, |tx| end_of(map, is_last, tx))?;
        found.map(|pair| self.0.pair(py, &pair)).transpose()
    }
}

#[pymethods]
impl MapBase {
    /// Opens a map by name in a pool or view, or places a map in a transaction or view.
    #[new]
    #[pyo3(signature = (source, map, key = None, value = None, ordered = false))]
    fn new(
        source: &Bound<'_, PyAny>,
        map: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        ordered: bool,
    ) -> PyResult<MapBase> {
        if let (Some(key), Some(value)) = (key, value) {
            let kind = if ordered { MapKind::Ordered } else { MapKind::Hash };
            let types = (KeyType::of(key)?, ValueType::of(value)?);
            let name = map.extract::<String>()?;
            return Ok(MapBase(Arc::new(MapBase::open(source, &name, kind, types)?)));
        }
        let map = map.cast::<MapBase>()?.get();
        let place = if let Ok(transaction) = source.cast::<Transaction>() {
            Source::Within(transaction.get().state())
        } else {
            Source::ReadOnly(source.cast::<View>()?.get().state())
        };
        if !map.0.source.shares_pool(&place) {
            let message = format!("map `{}` belongs to another pool", map.0.name);
            return Err(raise("Mismatch", message));
        }
        Ok(MapBase(Arc::new(map.in_source(place))))
    }

    /// The map's name in the catalog.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The map's types, as in the catalog.
    #[getter]
    fn types(&self) -> String {
        let Inner { map, key, value, .. } = &*self.0;
        format!("{}<{}, {}>", map.kind().name(), key.name(), value.name())
    }

    fn __repr__(&self) -> String {
        format!("<lastword map {:?}: {}>", self.0.name, self.types())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let map = self.0.map;
        Ok(self.0.source.read(py, |tx| map.len(tx))? as usize)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let map = self.0.map;
        // Without the length, on which every insertion conflicts.
        Ok(self.0.source.read(py, |tx| end_of(map, false, tx))?.is_some())
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (map, key) = (self.0.map, self.0.key.encode(key)?);
        self.0.source.read(py, |tx| map.contains_key(tx, key.as_bytes()))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        match self.lookup(py, &self.0.key.encode(key)?)? {
            Some(value) => self.0.value.decode(py, &value),
            None => Err(PyKeyError::new_err((key.clone().unbind(),))),
        }
    }

    #[pyo3(signature = (key, default = None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        match self.lookup(py, &self.0.key.encode(key)?)? {
            Some(value) => self.0.value.decode(py, &value).map(Some),
            None => Ok(default),
        }
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (map, py) = (self.0.map, key.py());
        let (key, value) = (self.0.key.encode(key)?, self.0.value.encode(value)?);
        self.0.source.write(py, |tx| map.put(tx, key.as_bytes(), &value))?;
        Ok(())
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let (map, py, encoded) = (self.0.map, key.py(), self.0.key.encode(key)?);
        match self.0.source.write(py, |tx| map.delete(tx, encoded.as_bytes()))? {
            true => Ok(()),
            false => Err(PyKeyError::new_err((key.clone().unbind(),))),
        }
    }

    /// Removes a key and returns its value.
    #[pyo3(signature = (key, /, *default))]
    fn pop<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, pyo3::types::PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop expects a key and at most one default"));
        }
        let (map, py, encoded) = (self.0.map, key.py(), self.0.key.encode(key)?);
        // As in `popitem`.
        loop {
            let Some(value) = self.lookup(py, &encoded)? else {
                return match default.len() {
                    1 => default.get_item(0),
                    _ => Err(PyKeyError::new_err((key.clone().unbind(),))),
                };
            };
            let decoded = self.0.value.decode(py, &value)?;
            if self.0.source.write(py, |tx| delete_equal(map, encoded.as_bytes(), &value, tx))? {
                return Ok(decoded);
            }
        }
    }

    /// Removes a pair and returns it: the last one of an ordered map.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<PyPair<'py>> {
        let map = self.0.map;
        let is_last = map.kind() == MapKind::Ordered;
        // The removal comes after the decoding, so that a pair that cannot be decoded stays.
        // Another thread may change the map in between.
        loop {
            let Some(pair) = self.0.source.read(py, |tx| end_of(map, is_last, tx))? else {
                return Err(PyKeyError::new_err("popitem(): the map is empty"));
            };
            let decoded = self.0.pair(py, &pair)?;
            if self.0.source.write(py, |tx| delete_end(map, is_last, &pair, tx))? {
                return Ok(decoded);
            }
        }
    }

    /// Returns the value of a key, after inserting the default if the key is missing.
    #[pyo3(signature = (key, default = None, /))]
    fn setdefault<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (map, py) = (self.0.map, key.py());
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        let key = self.0.key.encode(key)?;
        let value = match self.0.value.encode(&default) {
            Ok(value) => value,
            // A default of another type does no harm beside a value.
            Err(error) => {
                let found = self.lookup(py, &key)?.ok_or(error)?;
                return self.0.value.decode(py, &found);
            }
        };
        let found = self.0.source.write(py, |tx| {
            let found = map.get_with(tx, key.as_bytes(), <[u8]>::to_vec)?;
            if found.is_none() {
                map.put(tx, key.as_bytes(), &value)?;
            }
            Ok(found)
        })?;
        self.0.value.decode(py, found.as_ref().unwrap_or(&value))
    }

    /// Inserts or replaces pairs, all in one transaction.
    fn put_all(&self, py: Python<'_>, pairs: Vec<PyPair<'_>>) -> PyResult<()> {
        let encode =
            |(key, value): &PyPair<'_>| Ok((self.0.key.encode(key)?, self.0.value.encode(value)?));
        let pairs = pairs.iter().map(encode).collect::<PyResult<Vec<_>>>()?;
        let map = self.0.map;
        self.0.source.write(py, |tx| {
            pairs.iter().try_for_each(|(key, value)| map.put(tx, key.as_bytes(), value).map(drop))
        })
    }

    /// Removes all pairs: in one transaction inside of a `with` block, else in several.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let map = self.0.map;
        if self.0.source.scope(py)? == Scope::Inside {
            return self.0.source.write(py, |tx| {
                while !map.clear_step(tx, u64::MAX)? {}
                Ok(())
            });
        }
        // The first step empties the map, and the others free memory.
        while !self.0.source.write(py, |tx| map.clear_step(tx, CLEARED))? {}
        Ok(())
    }

    fn __iter__(&self) -> Scan {
        Scan::new(Arc::clone(&self.0), Part::Keys, Bounds::default())
    }

    fn __reversed__(&self) -> PyResult<Scan> {
        self.ordered()?;
        let bounds = Bounds { is_reverse: true, ..Bounds::default() };
        Ok(Scan::new(Arc::clone(&self.0), Part::Keys, bounds))
    }

    /// The first pair of an ordered map; `None` if it is empty.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<PyPair<'py>>> {
        self.end(py, false)
    }

    /// The last pair of an ordered map; `None` if it is empty.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<PyPair<'py>>> {
        self.end(py, true)
    }

    /// Returns an iterator over keys (0), values (1) or pairs (2).
    #[pyo3(signature = (part, start = None, stop = None, includes_stop = false, prefix = None,
        reverse = false))]
    fn scan(
        &self,
        part: u8,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        includes_stop: bool,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Scan> {
        let part = match part {
            0 => Part::Keys,
            1 => Part::Values,
            _ => Part::Items,
        };
        let is_whole = start.is_none() && stop.is_none() && prefix.is_none() && !reverse;
        if !is_whole {
            self.ordered()?;
        }
        let key = &self.0.key;
        let bytes = |bound: Option<&Bound<'_, PyAny>>| -> PyResult<Option<Vec<u8>>> {
            bound.map(|bound| Ok(key.encode(bound)?.as_bytes().to_vec())).transpose()
        };
        let (start, stop) = (bytes(start)?, bytes(stop)?);
        let mut bounds =
            Bounds { start, stop, includes_stop, prefix: Vec::new(), is_reverse: reverse };
        if let Some(prefix) = prefix {
            bounds.prefix = key.encode_prefix(prefix)?.as_bytes().to_vec();
            bounds.start = Some(key.least(&bounds.prefix));
            bounds.stop = key.after(&bounds.prefix);
        }
        Ok(Scan::new(Arc::clone(&self.0), part, bounds))
    }
}
