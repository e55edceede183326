//! Maps by name, of encoded keys and values.
//!
//! `lw_map` is a value of three words, those of [`EncodedMap::to_words`]. So a program may copy it
//! and use it in all threads, and nothing has to be freed.
//!
//! Invariants:
//! - Keys and values are compared with the map's types before the transaction is reached, so
//!   [`status::INVALID`] leaves it as it was.
//! - A view's bytes are in the worker, and valid until its next view. Cursors are closed with their
//!   worker.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::slice;

use lastword::collections::catalog::{self, Types};
use lastword::collections::encoded::{EncodedMap, EncodedTypes, Encoding, MapKind};

use crate::cursor::{self, lw_cursor};
use crate::design::on;
use crate::pool::{self, lw_pool};
use crate::worker::{self, inside, lw_worker, within};
use crate::{Status, guard, message, status};

/// `LW_HASH_MAP` and `LW_ORDERED_MAP`.
pub const KINDS: [(&str, u32); 2] = [("LW_HASH_MAP", 0), ("LW_ORDERED_MAP", 1)];

/// `LW_ANY_LENGTH`, and `LW_NO_VALUE`.
pub const NONE: u64 = u64::MAX;

/// `lw_map`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct lw_map {
    /// Those of an [`EncodedMap`].
    pub words: [u64; 3],
}

/// `lw_type`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the header has the documentation")]
pub struct lw_type {
    pub name: *const c_char,
    pub bytes: u64,
}

/// `lw_named`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the header has the documentation")]
pub struct lw_named {
    pub name: *const c_char,
    pub name_bytes: u64,
    pub types: *const c_char,
}

/// A list of names, with the strings that it points to.
#[derive(Default)]
struct NameList {
    _strings: Vec<[Box<[u8]>; 2]>,
    named: Vec<lw_named>,
}

impl NameList {
    fn of(listed: Vec<(String, Types)>) -> NameList {
        // Each with a zero behind it. A name may have others.
        let ended = |text: String| (text + "\0").into_bytes().into_boxed_slice();
        let strings =
            listed.into_iter().map(|(name, types)| [ended(name), ended(types.to_string())]);
        let strings: Vec<_> = strings.collect();
        let named = |[name, types]: &[Box<[u8]>; 2]| lw_named {
            name: name.as_ptr().cast(),
            name_bytes: name.len() as u64 - 1,
            types: types.as_ptr().cast(),
        };
        NameList { named: strings.iter().map(named).collect(), _strings: strings }
    }
}

/// The state of a worker's maps. Only the worker's thread uses it.
#[derive(Default)]
pub(crate) struct Kept {
    /// The value of the last view.
    view: RefCell<Vec<u8>>,
    /// The names of the last list.
    names: RefCell<NameList>,
    cursors: RefCell<Vec<&'static lw_cursor>>,
    /// The number of transactions begun and of changes of maps. Cursors forget the pairs that they
    /// have read ahead when it differs.
    changes: Cell<u64>,
}

impl Kept {
    /// Records that pairs of maps may have changed.
    pub(crate) fn change(&self) {
        self.changes.set(self.changes.get().wrapping_add(1));
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    pub(crate) fn opens(&self, cursor: &'static lw_cursor) {
        self.cursors.borrow_mut().push(cursor);
    }

    pub(crate) fn closes(&self, cursor: &'static lw_cursor) {
        self.cursors.borrow_mut().retain(|other| !std::ptr::eq(*other, cursor));
    }

    /// Closes all cursors of a worker that is closed.
    pub(crate) fn close_cursors(&self) {
        self.cursors.take().into_iter().for_each(cursor::close);
    }
}

/// Returns the map of a program's value.
///
/// # Safety
/// `map` is NULL or valid.
pub(crate) unsafe fn map_of(map: *const lw_map) -> Result<EncodedMap, Status> {
    // SAFETY: the caller guarantees the pointer, and any words are valid.
    let map = unsafe { map.as_ref() }.ok_or(status::INVALID)?;
    EncodedMap::from_words(map.words).ok_or(status::INVALID)
}

/// Returns the bytes at a pointer, which may be NULL if there are none.
///
/// # Safety
/// `bytes` bytes at `from` are readable.
pub(crate) unsafe fn bytes_of<'a>(from: *const c_void, bytes: u64) -> Result<&'a [u8], Status> {
    match (from.is_null(), usize::try_from(bytes)) {
        (true, Ok(0)) => Ok(&[]),
        // No object in memory is longer.
        (false, Ok(bytes)) if isize::try_from(bytes).is_ok() => {
            // SAFETY: the caller guarantees the bytes.
            Ok(unsafe { slice::from_raw_parts(from.cast(), bytes) })
        }
        _ => Err(status::INVALID),
    }
}

/// Returns the map and a key of it.
///
/// # Safety
/// `map` is NULL or valid, and the key's bytes are readable.
unsafe fn with_key<'a>(
    map: *const lw_map,
    key: *const c_void,
    key_bytes: u64,
) -> Result<(EncodedMap, &'a [u8]), Status> {
    // SAFETY: the caller guarantees both.
    let (map, key) = unsafe { (map_of(map)?, bytes_of(key, key_bytes)?) };
    if map.key_rule().accepts(key) { Ok((map, key)) } else { Err(status::INVALID) }
}

/// Returns the encoding that a program names, bytes of any length for NULL.
///
/// # Safety
/// `from` is NULL, or its name is NULL or a string.
unsafe fn encoding(from: *const lw_type) -> Result<Encoding, Status> {
    // SAFETY: the caller guarantees the pointer.
    let Some(from) = (unsafe { from.as_ref() }) else {
        return Ok(Encoding::bytes());
    };
    if from.name.is_null() {
        return Err(message::set(status::INVALID, "the name of a type is NULL"));
    }
    // SAFETY: the caller guarantees a string.
    let name = unsafe { CStr::from_ptr(from.name) };
    let bytes = (from.bytes != NONE).then_some(from.bytes as usize);
    name.to_str().ok().and_then(|name| Encoding::new(name, bytes)).ok_or_else(|| {
        let length = bytes.map_or("any length".to_owned(), |bytes| format!("{bytes} bytes"));
        let text = format!("`{}` of {length} is no type of a map", name.to_string_lossy());
        message::set(status::INVALID, &text)
    })
}

/// Opens or creates a map.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_map_open(
    pool: *mut lw_pool,
    name: *const c_char,
    kind: u32,
    key: *const lw_type,
    value: *const lw_type,
    map: *mut lw_map,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { pool::of(pool) }?;
        if name.is_null() || map.is_null() {
            return Err(status::INVALID);
        }
        // SAFETY: the header requires a string.
        let name = unsafe { CStr::from_ptr(name) }.to_str();
        let name = name.map_err(|_| message::set(status::INVALID, "the name is not UTF-8"))?;
        let kind = match kind {
            0 => MapKind::Hash,
            1 => MapKind::Ordered,
            _ => return Err(status::INVALID),
        };
        // SAFETY: the header requires both types.
        let (key, value) = unsafe { (encoding(key)?, encoding(value)?) };
        let types = EncodedTypes::new(kind, key, value).ok_or_else(|| {
            let problem = "a value of a fixed length has at most 1024 bytes";
            message::set(status::INVALID, problem)
        })?;
        let opened = on!(&open.pool, pool => pool.encoded_map(name, &types).map(Some);
            reader => reader.encoded_map(name, &types));
        let opened = opened.map_err(|error| message::of(&error))?.ok_or_else(|| {
            let text = format!("the pool has no map `{name}`, and a reader creates none");
            message::set(status::READ_ONLY, &text)
        })?;
        // SAFETY: `map` is not NULL, and the header requires a valid pointer.
        unsafe { map.write(lw_map { words: opened.to_words() }) };
        Ok(())
    })
}

/// Checks the arguments of a call before its transaction. Returns the status from the function.
macro_rules! checked {
    ($checked:expr) => {
        match $checked {
            Ok(checked) => checked,
            Err(status) => return status,
        }
    };
}

/// Reads a value into a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_map_get(
    worker: *mut lw_worker,
    map: *const lw_map,
    key: *const c_void,
    key_bytes: u64,
    value: *mut c_void,
    room: u64,
    value_bytes: *mut u64,
) -> c_int {
    // SAFETY: the header requires the map and the key.
    let (map, key) = checked!(unsafe { with_key(map, key, key_bytes) });
    if value_bytes.is_null() || (value.is_null() && room > 0) {
        return status::INVALID;
    }
    let copy = |found: &[u8]| {
        let copied = found.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if copied > 0 {
            // SAFETY: the header requires `room` writable bytes.
            unsafe { value.cast::<u8>().copy_from_nonoverlapping(found.as_ptr(), copied) };
        }
        found.len() as u64
    };
    within!(worker, tx => map.get_with(tx, key, copy).map(|found| {
        // SAFETY: `value_bytes` is not NULL, and the header requires a valid pointer.
        unsafe { value_bytes.write(found.unwrap_or(NONE)) }
    }))
}

/// Returns a value that is valid until the worker's next view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_map_view(
    worker: *mut lw_worker,
    map: *const lw_map,
    key: *const c_void,
    key_bytes: u64,
    value: *mut *const c_void,
    value_bytes: *mut u64,
) -> c_int {
    // SAFETY: the header requires the map and the key.
    let (map, key) = checked!(unsafe { with_key(map, key, key_bytes) });
    if value.is_null() || value_bytes.is_null() {
        return status::INVALID;
    }
    // SAFETY: the header requires a handle.
    let state = checked!(unsafe { worker::state(worker) });
    // The key may be the last view, which `keep` overwrites.
    let own = state.maps.view.borrow().as_ptr_range().contains(&key.as_ptr()).then(|| key.to_vec());
    let key = own.as_deref().unwrap_or(key);
    let keep = |found: &[u8]| {
        let mut view = state.maps.view.borrow_mut();
        view.clear();
        view.extend_from_slice(found);
        (view.as_ptr(), view.len() as u64)
    };
    inside!(state, tx => map.get_with(tx, key, keep).map(|found| {
        let (at, bytes) = found.unwrap_or((std::ptr::null(), NONE));
        // SAFETY: neither is NULL, and the header requires valid pointers.
        unsafe {
            value.write(at.cast());
            value_bytes.write(bytes);
        }
    }))
}

/// Writes an outcome, unless the program does not want it.
///
/// # Safety
/// `out` is NULL or valid.
unsafe fn output(out: *mut c_int, outcome: bool) {
    if !out.is_null() {
        // SAFETY: the caller guarantees a valid pointer.
        unsafe { out.write(outcome.into()) };
    }
}

/// Returns the map, a key and a value of it.
///
/// # Safety
/// `map` is NULL or valid, and the bytes of the key and the value are readable.
unsafe fn with_pair<'a>(
    map: *const lw_map,
    (key, key_bytes): (*const c_void, u64),
    (value, value_bytes): (*const c_void, u64),
) -> Result<(EncodedMap, &'a [u8], &'a [u8]), Status> {
    // SAFETY: the caller guarantees all three.
    let ((map, key), value) =
        unsafe { (with_key(map, key, key_bytes)?, bytes_of(value, value_bytes)?) };
    if map.value_rule().accepts(value) { Ok((map, key, value)) } else { Err(status::INVALID) }
}

/// Inserts a key or replaces its value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_map_put(
    worker: *mut lw_worker,
    map: *const lw_map,
    key: *const c_void,
    key_bytes: u64,
    value: *const c_void,
    value_bytes: u64,
    is_new: *mut c_int,
) -> c_int {
    // SAFETY: the header requires the map and the pair.
    let pair = unsafe { with_pair(map, (key, key_bytes), (value, value_bytes)) };
    let (map, key, value) = checked!(pair);
    // SAFETY: the header requires a handle.
    let state = checked!(unsafe { worker::state(worker) });
    state.maps.change();
    inside!(state, tx => map.put(tx, key, value).map(|outcome| {
        // SAFETY: the header requires NULL or a valid pointer.
        unsafe { output(is_new, outcome) }
    }))
}

/// Inserts a key unless it is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_map_insert(
    worker: *mut lw_worker,
    map: *const lw_map,
    key: *const c_void,
    key_bytes: u64,
    value: *const c_void,
    value_bytes: u64,
    is_new: *mut c_int,
) -> c_int {
    // SAFETY: the header requires the map and the pair.
    let pair = unsafe { with_pair(map, (key, key_bytes), (value, value_bytes)) };
    let (map, key, value) = checked!(pair);
    // SAFETY: the header requires a handle.
    let state = checked!(unsafe { worker::state(worker) });
    state.maps.change();
    inside!(state, tx => map.insert_new(tx, key, value).map(|outcome| {
        // SAFETY: the header requires NULL or a valid pointer.
        unsafe { output(is_new, outcome) }
    }))
}

/// Removes a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_map_delete(
    worker: *mut lw_worker,
    map: *const lw_map,
    key: *const c_void,
    key_bytes: u64,
    was_there: *mut c_int,
) -> c_int {
    // SAFETY: the header requires the map and the key.
    let (map, key) = checked!(unsafe { with_key(map, key, key_bytes) });
    // SAFETY: the header requires a handle.
    let state = checked!(unsafe { worker::state(worker) });
    state.maps.change();
    inside!(state, tx => map.delete(tx, key).map(|outcome| {
        // SAFETY: the header requires NULL or a valid pointer.
        unsafe { output(was_there, outcome) }
    }))
}

/// Returns whether a key is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_map_contains(
    worker: *mut lw_worker,
    map: *const lw_map,
    key: *const c_void,
    key_bytes: u64,
    is_there: *mut c_int,
) -> c_int {
    // SAFETY: the header requires the map and the key.
    let (map, key) = checked!(unsafe { with_key(map, key, key_bytes) });
    if is_there.is_null() {
        return status::INVALID;
    }
    within!(worker, tx => map.contains_key(tx, key).map(|outcome| {
        // SAFETY: the pointer is not NULL, and the header requires a valid one.
        unsafe { output(is_there, outcome) }
    }))
}

/// Returns the number of pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_map_length(
    worker: *mut lw_worker,
    map: *const lw_map,
    length: *mut u64,
) -> c_int {
    // SAFETY: the header requires the map.
    let map = checked!(unsafe { map_of(map) });
    if length.is_null() {
        return status::INVALID;
    }
    // SAFETY: `length` is not NULL, and the header requires a valid pointer.
    within!(worker, tx => map.len(tx).map(|found| unsafe { length.write(found) }))
}

/// Removes pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_map_clear(
    worker: *mut lw_worker,
    map: *const lw_map,
    most: u64,
    is_done: *mut c_int,
) -> c_int {
    // SAFETY: the header requires the map.
    let map = checked!(unsafe { map_of(map) });
    if is_done.is_null() {
        return status::INVALID;
    }
    // SAFETY: the header requires a handle.
    let state = checked!(unsafe { worker::state(worker) });
    state.maps.change();
    inside!(state, tx => map.clear_step(tx, most).map(|outcome| {
        // SAFETY: the pointer is not NULL, and the header requires a valid one.
        unsafe { output(is_done, outcome) }
    }))
}

/// Lists the collections of the catalog.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_map_list(
    worker: *mut lw_worker,
    names: *mut *const lw_named,
    count: *mut u64,
) -> c_int {
    if names.is_null() || count.is_null() {
        return status::INVALID;
    }
    // SAFETY: the header requires a handle.
    let state = checked!(unsafe { worker::state(worker) });
    inside!(state, tx => catalog::list(tx).map(|listed| {
        let mut kept = state.maps.names.borrow_mut();
        *kept = NameList::of(listed);
        // SAFETY: neither is NULL, and the header requires valid pointers.
        unsafe {
            names.write(kept.named.as_ptr());
            count.write(kept.named.len() as u64);
        }
    }))
}

/// Frees a map and removes its name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_map_drop(
    worker: *mut lw_worker,
    name: *const c_char,
    map: *const lw_map,
    most: u64,
    is_done: *mut c_int,
) -> c_int {
    if name.is_null() || is_done.is_null() {
        return status::INVALID;
    }
    // SAFETY: the header requires the map.
    let map = checked!(unsafe { map_of(map) });
    // SAFETY: the header requires a string.
    let Ok(name) = unsafe { CStr::from_ptr(name) }.to_str() else { return status::INVALID };
    // SAFETY: the header requires a handle.
    let state = checked!(unsafe { worker::state(worker) });
    state.maps.change();
    let mut is_its_name = true;
    let status = inside!(state, tx => catalog::drop_encoded(tx, name, map, most).map(|dropped| {
        is_its_name = dropped.is_some();
        // SAFETY: the pointer is not NULL, and the header requires a valid one.
        unsafe { output(is_done, dropped == Some(true)) }
    }));
    if status == status::OK && !is_its_name { status::INVALID } else { status }
}
