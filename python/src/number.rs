//! Integers of a fixed size, as keys and as values.

use lastword::{AsKey, Key, KeyBuf, Stop};
use pyo3::prelude::*;

/// The type of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integer {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

/// Evaluates an expression with the type of an integer.
macro_rules! of_type {
    ($integer:expr, $type:ident => $work:expr) => {
        match $integer {
            Integer::I8 => of_type!(@ i8, $type => $work),
            Integer::I16 => of_type!(@ i16, $type => $work),
            Integer::I32 => of_type!(@ i32, $type => $work),
            Integer::I64 => of_type!(@ i64, $type => $work),
            Integer::U8 => of_type!(@ u8, $type => $work),
            Integer::U16 => of_type!(@ u16, $type => $work),
            Integer::U32 => of_type!(@ u32, $type => $work),
            Integer::U64 => of_type!(@ u64, $type => $work),
        }
    };
    (@ $of:ty, $type:ident => $work:expr) => {{
        type $type = $of;
        $work
    }};
}

impl Integer {
    const ALL: [Integer; 8] = [
        Integer::I8,
        Integer::I16,
        Integer::I32,
        Integer::I64,
        Integer::U8,
        Integer::U16,
        Integer::U32,
        Integer::U64,
    ];

    /// Returns the type with this name in Rust.
    pub(crate) fn named(name: &str) -> Option<Integer> {
        Integer::ALL.into_iter().find(|integer| integer.name() == name)
    }

    /// Returns the name in Rust.
    pub(crate) fn name(self) -> String {
        of_type!(self, T => T::name())
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(self) -> usize {
        of_type!(self, T => size_of::<T>())
    }

    /// Appends a key.
    pub(crate) fn push_key(self, number: &Bound<'_, PyAny>, out: &mut KeyBuf) -> PyResult<()> {
        of_type!(self, T => number.extract::<T>()?.encode(out, false));
        Ok(())
    }

    /// Takes a key from the front of `bytes`.
    pub(crate) fn take_key<'py>(
        self,
        py: Python<'py>,
        bytes: &mut &[u8],
    ) -> PyResult<Result<Bound<'py, PyAny>, Stop>> {
        of_type!(self, T => match T::decode(bytes, false) {
            Ok(number) => Ok(Ok(number.into_pyobject(py)?.into_any())),
            Err(stop) => Ok(Err(stop)),
        })
    }

    /// Returns the bytes of a value.
    pub(crate) fn to_value(self, number: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        Ok(of_type!(self, T => number.extract::<T>()?.to_le_bytes().to_vec()))
    }

    /// Returns the value of bytes; `None` if they have another length.
    pub(crate) fn of_value<'py>(
        self,
        py: Python<'py>,
        bytes: &[u8],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        of_type!(self, T => {
            let Ok(bytes) = bytes.try_into() else { return Ok(None) };
            Ok(Some(T::from_le_bytes(bytes).into_pyobject(py)?.into_any()))
        })
    }
}
