//! Keys: the types of Python as those of the collections.
//!
//! | Python | in the catalog | order |
//! |---|---|---|
//! | `str` | `str` | by code points |
//! | `bytes` | `[u8]` | by bytes |
//! | `int` | `i64` | by value |
//! | `"u8"` to `"u64"`, `"i8"` to `"i64"` | the same | by value |
//! | `bool` | `bool` | `False` first |
//! | a tuple of 2 to 16 of these | `(str, i64)` | component by component |
//!
//! The encodings are those of [`AsKey`]. Their order is that of Python, as UTF-8 keeps the order of
//! code points.

use lastword::collections::encoded::Encoding;
use lastword::{AsKey, Key, KeyBuf, Stop};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyInt, PyString, PyTuple, PyType};

use crate::number::Integer;

/// The type of a map's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyType {
    Text,
    Bytes,
    Bool,
    Int(Integer),
    Tuple(Vec<KeyType>),
}

const KINDS: &str = "keys are `str`, `bytes`, `int`, `bool`, the name of an integer type of Rust \
                     such as \"u32\", or a tuple of 2 to 16 of these";

impl KeyType {
    /// Returns the type that a program names.
    pub(crate) fn of(named: &Bound<'_, PyAny>) -> PyResult<KeyType> {
        let py = named.py();
        if let Ok(class) = named.cast::<PyType>() {
            return match () {
                () if class.is(py.get_type::<PyString>()) => Ok(KeyType::Text),
                () if class.is(py.get_type::<PyBytes>()) => Ok(KeyType::Bytes),
                () if class.is(py.get_type::<PyBool>()) => Ok(KeyType::Bool),
                () if class.is(py.get_type::<PyInt>()) => Ok(KeyType::Int(Integer::I64)),
                () => {
                    Err(PyTypeError::new_err(format!("keys cannot have the type {named}: {KINDS}")))
                }
            };
        }
        if let Ok(name) = named.cast::<PyString>() {
            let name = name.to_cow()?;
            return match &*name {
                "str" => Ok(KeyType::Text),
                "[u8]" => Ok(KeyType::Bytes),
                "bool" => Ok(KeyType::Bool),
                name => Integer::named(name).map(KeyType::Int).ok_or_else(|| {
                    PyValueError::new_err(format!("keys cannot have the type `{name}`: {KINDS}"))
                }),
            };
        }
        // `tuple[str, int]`, or a tuple of types.
        let parts = match named.cast::<PyTuple>() {
            Ok(parts) => parts.clone(),
            Err(_) => match named.getattr("__args__") {
                Ok(parts) if named.getattr("__origin__")?.is(py.get_type::<PyTuple>()) => {
                    parts.cast_into::<PyTuple>()?
                }
                _ => return Err(PyTypeError::new_err(format!("{named} is not a type: {KINDS}"))),
            },
        };
        if !(2..=16).contains(&parts.len()) {
            return Err(PyTypeError::new_err(format!("a tuple of {} types: {KINDS}", parts.len())));
        }
        Ok(KeyType::Tuple(parts.iter().map(|part| KeyType::of(&part)).collect::<PyResult<_>>()?))
    }

    /// Returns the name in the catalog.
    pub(crate) fn name(&self) -> String {
        match self {
            KeyType::Text => "str".to_owned(),
            KeyType::Bytes => "[u8]".to_owned(),
            KeyType::Bool => "bool".to_owned(),
            KeyType::Int(integer) => integer.name(),
            KeyType::Tuple(parts) => {
                let names: Vec<_> = parts.iter().map(KeyType::name).collect();
                format!("({})", names.join(", "))
            }
        }
    }

    /// Returns the length of every key, if all have one length.
    pub(crate) fn fixed(&self) -> Option<usize> {
        match self {
            KeyType::Text | KeyType::Bytes => None,
            KeyType::Bool => Some(1),
            KeyType::Int(integer) => Some(integer.bytes()),
            KeyType::Tuple(parts) => parts.iter().map(KeyType::fixed).sum(),
        }
    }

    /// Returns the type for the catalog.
    pub(crate) fn encoding(&self) -> Encoding {
        Encoding::new(&self.name(), self.fixed()).expect("the names and lengths are known")
    }

    /// Encodes a key.
    pub(crate) fn encode(&self, key: &Bound<'_, PyAny>) -> PyResult<KeyBuf> {
        let mut out = KeyBuf::new();
        self.push(key, &mut out, true)?;
        Ok(out)
    }

    /// Encodes the first components of a tuple, or the first bytes of a string.
    pub(crate) fn encode_prefix(&self, prefix: &Bound<'_, PyAny>) -> PyResult<KeyBuf> {
        let mut out = KeyBuf::new();
        match self {
            KeyType::Text | KeyType::Bytes => self.push(prefix, &mut out, true)?,
            KeyType::Tuple(parts) => {
                let given = prefix.cast::<PyTuple>().map_err(|_| self.mistake(prefix))?;
                if given.is_empty() || given.len() >= parts.len() {
                    let most = parts.len() - 1;
                    let message = format!("a prefix of {} has 1 to {most} components", self.name());
                    return Err(PyValueError::new_err(message));
                }
                for (part, given) in parts.iter().zip(given.iter()) {
                    part.push(&given, &mut out, false)?;
                }
            }
            KeyType::Bool | KeyType::Int(_) => {
                let message = format!("keys of type {} have no prefix", self.name());
                return Err(PyTypeError::new_err(message));
            }
        }
        Ok(out)
    }

    /// Returns the least key that begins with these bytes, or bytes before it that are a key.
    pub(crate) fn least(&self, prefix: &[u8]) -> Vec<u8> {
        self.filled(prefix.to_vec())
    }

    /// Returns the first key after those that begin with these bytes; `None` if there is none.
    pub(crate) fn after(&self, prefix: &[u8]) -> Option<Vec<u8>> {
        if *self == KeyType::Text {
            let mut text = std::str::from_utf8(prefix).ok()?.to_owned();
            while let Some(last) = text.pop() {
                // A string has no code points between these two.
                let next = if last == '\u{d7ff}' { 0xe000 } else { u32::from(last) + 1 };
                if let Some(next) = char::from_u32(next) {
                    text.push(next);
                    return Some(text.into_bytes());
                }
            }
            return None;
        }
        let mut bytes = prefix.to_vec();
        while let Some(last) = bytes.pop() {
            if last < u8::MAX {
                bytes.push(last + 1);
                return Some(self.filled(bytes));
            }
        }
        None
    }

    /// Appends zeros up to the length of a key.
    fn filled(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.resize(self.fixed().unwrap_or(0).max(bytes.len()), 0);
        bytes
    }

    fn push(&self, key: &Bound<'_, PyAny>, out: &mut KeyBuf, is_last: bool) -> PyResult<()> {
        match self {
            KeyType::Text => {
                let text = key.cast::<PyString>().map_err(|_| self.mistake(key))?;
                AsKey::<str>::encode(&*text.to_cow()?, out, is_last);
            }
            KeyType::Bytes => {
                if let Ok(bytes) = key.cast::<PyBytes>() {
                    AsKey::<[u8]>::encode(bytes.as_bytes(), out, is_last);
                } else if let Ok(bytes) = key.cast::<PyByteArray>() {
                    AsKey::<[u8]>::encode(&bytes.to_vec()[..], out, is_last);
                } else {
                    return Err(self.mistake(key));
                }
            }
            KeyType::Bool => {
                key.cast::<PyBool>().map_err(|_| self.mistake(key))?.is_true().encode(out, false);
            }
            KeyType::Int(integer) => {
                if key.cast::<PyInt>().is_err() && !key.hasattr("__index__")? {
                    return Err(self.mistake(key));
                }
                integer.push_key(key, out)?;
            }
            KeyType::Tuple(parts) => {
                let given = key.cast::<PyTuple>().map_err(|_| self.mistake(key))?;
                if given.len() != parts.len() {
                    let (own, name, given) = (parts.len(), self.name(), given.len());
                    let message =
                        format!("the map has keys of {own} components, {name}, not {given}");
                    return Err(PyTypeError::new_err(message));
                }
                let last = parts.len() - 1;
                for (at, (part, given)) in parts.iter().zip(given.iter()).enumerate() {
                    part.push(&given, out, is_last && at == last).map_err(|error| {
                        match error.is_instance_of::<PyTypeError>(key.py()) {
                            true => self.mistake_at(at, part, &given),
                            false => error,
                        }
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The error of a key of another type.
    fn mistake(&self, key: &Bound<'_, PyAny>) -> PyErr {
        let found = key.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("the map has keys of type {}, not {found}", self.name()))
    }

    /// The error of a component of another type.
    fn mistake_at(&self, at: usize, part: &KeyType, given: &Bound<'_, PyAny>) -> PyErr {
        let found =
            given.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "the map has keys of type {}: component {at} is of type {}, not {found}",
            self.name(),
            part.name()
        ))
    }

    /// Decodes a key.
    pub(crate) fn decode<'py>(
        &self,
        py: Python<'py>,
        mut bytes: &[u8],
    ) -> PyResult<Result<Bound<'py, PyAny>, Stop>> {
        let key = self.take(py, &mut bytes, true)?;
        Ok(if bytes.is_empty() { key } else { Err(Stop::BadValue) })
    }

    fn take<'py>(
        &self,
        py: Python<'py>,
        bytes: &mut &[u8],
        is_last: bool,
    ) -> PyResult<Result<Bound<'py, PyAny>, Stop>> {
        Ok(match self {
            KeyType::Text => {
                <str as Key>::decode(bytes, is_last).map(|key| PyString::new(py, &key).into_any())
            }
            KeyType::Bytes => {
                <[u8] as Key>::decode(bytes, is_last).map(|key| PyBytes::new(py, &key).into_any())
            }
            KeyType::Bool => {
                bool::decode(bytes, false).map(|key| PyBool::new(py, key).to_owned().into_any())
            }
            KeyType::Int(integer) => integer.take_key(py, bytes)?,
            KeyType::Tuple(parts) => {
                let last = parts.len() - 1;
                let mut keys = Vec::with_capacity(parts.len());
                for (at, part) in parts.iter().enumerate() {
                    match part.take(py, bytes, is_last && at == last)? {
                        Ok(key) => keys.push(key),
                        Err(stop) => return Ok(Err(stop)),
                    }
                }
                Ok(PyTuple::new(py, keys)?.into_any())
            }
        })
    }
}
