//! Values: the types of Python as those of the collections, and codecs.
//!
//! | Python | in the catalog |
//! |---|---|
//! | `bytes`, `str`, `bool` | `[u8]`, `str`, `bool` |
//! | `int`, `float` | `i64`, `f64` |
//! | `"u8"` to `"u64"`, `"i8"` to `"i64"`, `"f32"`, `"f64"` | the same |
//! | an object with `name`, `encode` and `decode` | its name |

use lastword::collections::encoded::Encoding;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyString, PyType};

use crate::failure::raise;
use crate::number::Integer;

/// The type of a map's values.
pub(crate) enum ValueType {
    Bytes,
    Text,
    Bool,
    Int(Integer),
    F32,
    F64,
    Codec { name: String, encode: Py<PyAny>, decode: Py<PyAny> },
}

impl ValueType {
    /// Returns the type that a program names.
    pub(crate) fn of(named: &Bound<'_, PyAny>) -> PyResult<ValueType> {
        let py = named.py();
        if let Ok(class) = named.cast::<PyType>() {
            return match () {
                () if class.is(py.get_type::<PyBytes>()) => Ok(ValueType::Bytes),
                () if class.is(py.get_type::<PyString>()) => Ok(ValueType::Text),
                () if class.is(py.get_type::<PyBool>()) => Ok(ValueType::Bool),
                () if class.is(py.get_type::<PyInt>()) => Ok(ValueType::Int(Integer::I64)),
                () if class.is(py.get_type::<PyFloat>()) => Ok(ValueType::F64),
                () => Err(PyTypeError::new_err(format!("{named} needs a codec, such as `pickle`"))),
            };
        }
        if let Ok(name) = named.cast::<PyString>() {
            let name = name.to_cow()?;
            return match &*name {
                "[u8]" => Ok(ValueType::Bytes),
                "str" => Ok(ValueType::Text),
                "bool" => Ok(ValueType::Bool),
                "f32" => Ok(ValueType::F32),
                "f64" => Ok(ValueType::F64),
                name => Integer::named(name).map(ValueType::Int).ok_or_else(|| {
                    PyValueError::new_err(format!(
                        "`{name}` is neither a type of values nor a codec"
                    ))
                }),
            };
        }
        let (encode, decode) =
            (named.getattr("encode")?.unbind(), named.getattr("decode")?.unbind());
        Ok(ValueType::Codec { name: named.getattr("name")?.extract()?, encode, decode })
    }

    /// Returns the name in the catalog.
    pub(crate) fn name(&self) -> String {
        match self {
            ValueType::Bytes => "[u8]".to_owned(),
            ValueType::Text => "str".to_owned(),
            ValueType::Bool => "bool".to_owned(),
            ValueType::Int(integer) => integer.name(),
            ValueType::F32 => "f32".to_owned(),
            ValueType::F64 => "f64".to_owned(),
            ValueType::Codec { name, .. } => name.clone(),
        }
    }

    /// Returns the type for the catalog.
    pub(crate) fn encoding(&self) -> PyResult<Encoding> {
        let length = match self {
            ValueType::Bytes | ValueType::Text | ValueType::Codec { .. } => None,
            ValueType::Bool => Some(1),
            ValueType::Int(integer) => Some(integer.bytes()),
            ValueType::F32 => Some(4),
            ValueType::F64 => Some(8),
        };
        let name = self.name();
        let is_codec = matches!(self, ValueType::Codec { .. });
        let is_taken = is_codec && matches!(&*name, "str" | "[u8]");
        Encoding::new(&name, length).filter(|_| !is_taken).ok_or_else(|| {
            PyValueError::new_err(format!(
                "a codec cannot have the name `{name}`: choose another one"
            ))
        })
    }

    /// Encodes a value.
    pub(crate) fn encode(&self, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        let py = value.py();
        match self {
            ValueType::Bytes => bytes_of(value)?.ok_or_else(|| self.mistake(value)),
            ValueType::Text => {
                let text = value.cast::<PyString>().map_err(|_| self.mistake(value))?;
                Ok(text.to_cow()?.into_owned().into_bytes())
            }
            ValueType::Bool => {
                let value = value.cast::<PyBool>().map_err(|_| self.mistake(value))?;
                Ok(vec![u8::from(value.is_true())])
            }
            ValueType::Int(integer) => {
                if value.cast::<PyInt>().is_err() && !value.hasattr("__index__")? {
                    return Err(self.mistake(value));
                }
                integer.to_value(value)
            }
            ValueType::F32 => {
                let wide = self.float(value)?;
                let narrow = wide as f32;
                if narrow.is_infinite() && wide.is_finite() {
                    return Err(PyOverflowError::new_err(format!("{wide:e} is too large for f32")));
                }
                Ok(narrow.to_le_bytes().to_vec())
            }
            ValueType::F64 => Ok(self.float(value)?.to_le_bytes().to_vec()),
            ValueType::Codec { name, encode, .. } => {
                let encoded = encode.bind(py).call1((value,))?;
                bytes_of(&encoded)?.ok_or_else(|| {
                    let message =
                        format!("codec `{name}` has returned an object that is not bytes");
                    PyTypeError::new_err(message)
                })
            }
        }
    }

    fn float(&self, value: &Bound<'_, PyAny>) -> PyResult<f64> {
        if value.cast::<PyString>().is_ok() {
            return Err(self.mistake(value));
        }
        value.extract::<f64>().map_err(|error: PyErr| {
            match error.is_instance_of::<PyTypeError>(value.py()) {
                true => self.mistake(value),
                false => error, // such as an integer without a float
            }
        })
    }

    /// The error of a value of another type.
    fn mistake(&self, value: &Bound<'_, PyAny>) -> PyErr {
        let found =
            value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("the map has values of type {}, not {found}", self.name()))
    }

    /// Decodes a value.
    pub(crate) fn decode<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let damaged = || {
            let message =
                format!("a stored value does not match the map's value type {}", self.name());
            raise("Damaged", message)
        };
        match self {
            ValueType::Bytes => Ok(PyBytes::new(py, bytes).into_any()),
            ValueType::Text => {
                let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
                Ok(PyString::new(py, text).into_any())
            }
            ValueType::Bool => match bytes {
                [0] => Ok(PyBool::new(py, false).to_owned().into_any()),
                [1] => Ok(PyBool::new(py, true).to_owned().into_any()),
                _ => Err(damaged()),
            },
            ValueType::Int(integer) => integer.of_value(py, bytes)?.ok_or_else(damaged),
            ValueType::F32 => {
                let bytes = bytes.try_into().map_err(|_| damaged())?;
                Ok(PyFloat::new(py, f64::from(f32::from_le_bytes(bytes))).into_any())
            }
            ValueType::F64 => {
                let bytes = bytes.try_into().map_err(|_| damaged())?;
                Ok(PyFloat::new(py, f64::from_le_bytes(bytes)).into_any())
            }
            ValueType::Codec { decode, .. } => {
                Ok(decode.bind(py).call1((PyBytes::new(py, bytes),))?)
            }
        }
    }
}

/// Returns the bytes of an object: `bytes`, `bytearray`, or another contiguous buffer. `None` if it
/// has none.
fn bytes_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Some(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(Some(bytes.to_vec()));
    }
    // The stable ABI has buffers from Python 3.11 on, so `memoryview` copies the others.
    let py = object.py();
    let view = match py.import("builtins")?.getattr("memoryview")?.call1((object,)) {
        Ok(view) => view,
        Err(error) if error.is_instance_of::<PyTypeError>(py) => return Ok(None),
        Err(error) => return Err(error),
    };
    let bytes = view.call_method0("tobytes")?;
    Ok(Some(bytes.cast::<PyBytes>()?.as_bytes().to_vec()))
}
