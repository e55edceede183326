//! Cursors of maps.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use lastword::collections::encoded::{Cursor, MapKind};
use lastword::{Stop, Words};

use crate::handle::{Closed, Shell};
use crate::maps::{bytes_of, lw_map, map_of};
use crate::worker::{self, AnyState, inside, lw_worker};
use crate::{Status, guard, status, thread};

/// A cursor and its worker, which closes it. Only the worker's thread uses it.
pub struct Kept {
    cursor: RefCell<Cursor>,
    worker: &'static lw_worker,
    /// The worker's number of changes when the cursor has read pairs ahead.
    seen: Cell<u64>,
}

/// The target of `lw_cursor *`.
#[allow(non_camel_case_types, reason = "the name in C")]
pub type lw_cursor = Shell<Kept>;

static CLOSED: Closed<Kept> = Closed::empty();

/// `lw_pair`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the header has the documentation")]
pub struct lw_pair {
    pub key: *const c_void,
    pub key_bytes: u64,
    pub value: *const c_void,
    pub value_bytes: u64,
}

/// A movement of a cursor.
enum To<'a> {
    First,
    Last,
    Next,
    Previous,
    Key(&'a [u8]),
}

/// Returns the cursor of this thread.
///
/// # Safety
/// The handle is NULL or comes from [`lw_cursor_open`].
unsafe fn own(cursor: *mut lw_cursor) -> Result<&'static lw_cursor, Status> {
    // SAFETY: the caller guarantees the handle.
    let shell = unsafe { Shell::of(cursor) }?;
    // Relaxed suffices, as for workers.
    if shell.owner.load(Ordering::Relaxed) == thread::number() {
        return Ok(shell);
    }
    Err(if shell.is_open() { status::OTHER_THREAD } else { status::CLOSED })
}

/// Opens a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_cursor_open(
    worker: *mut lw_worker,
    map: *const lw_map,
    cursor: *mut *mut lw_cursor,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle and a map.
        let (state, map) = unsafe { (worker::state(worker)?, map_of(map)?) };
        if cursor.is_null() {
            return Err(status::INVALID);
        }
        // SAFETY: `state` has accepted the handle.
        let worker = unsafe { Shell::of(worker) }?;
        let seen = Cell::new(state.maps.changes());
        let kept = Kept { cursor: RefCell::new(Cursor::new(map)), worker, seen };
        // SAFETY: `cursor` is not NULL, and the header requires a valid pointer.
        unsafe { cursor.write(keep(state, kept)?) };
        Ok(())
    })
}

/// Returns a handle to a cursor of this thread's worker.
fn keep(state: &AnyState, kept: Kept) -> Result<*mut lw_cursor, Status> {
    let handle = CLOSED.open(kept, thread::number());
    // SAFETY: the handle comes from `open`.
    state.maps.opens(unsafe { Shell::of(handle) }?);
    Ok(handle)
}

/// Copies a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_cursor_copy(
    cursor: *mut lw_cursor,
    copy: *mut *mut lw_cursor,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let (from, state) = unsafe { checked(cursor, &To::Next) }?;
        if copy.is_null() {
            return Err(status::INVALID);
        }
        let kept =
            Kept { cursor: from.cursor.clone(), worker: from.worker, seen: from.seen.clone() };
        // SAFETY: `copy` is not NULL, and the header requires a valid pointer.
        unsafe { copy.write(keep(state, kept)?) };
        Ok(())
    })
}

/// Closes a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_cursor_close(cursor: *mut lw_cursor) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let shell = unsafe { own(cursor) }?;
        let kept = CLOSED.close(shell)?;
        // SAFETY: the worker is open, since it closes its cursors when it is closed.
        let state = unsafe { worker::state(ptr::from_ref(kept.worker).cast_mut()) }?;
        state.maps.closes(shell);
        Ok(())
    })
}

/// Closes a cursor whose worker is closed.
pub(crate) fn close(cursor: &'static lw_cursor) {
    drop(CLOSED.close(cursor));
}

/// Checks the arguments of a movement before its transaction.
///
/// # Safety
/// The handle is NULL or comes from [`lw_cursor_open`].
unsafe fn checked(
    cursor: *mut lw_cursor,
    to: &To<'_>,
) -> Result<(&'static Kept, &'static AnyState), Status> {
    // SAFETY: the caller guarantees the handle.
    let kept = unsafe { own(cursor) }?.inside()?;
    let map = kept.cursor.borrow().map();
    let is_possible = match to {
        To::First | To::Next => true,
        To::Last | To::Previous => map.kind() == MapKind::Ordered,
        To::Key(key) => map.key_rule().accepts(key),
    };
    if !is_possible {
        return Err(status::INVALID);
    }
    // SAFETY: the worker is open, since it closes its cursors when it is closed.
    let state = unsafe { worker::state(ptr::from_ref(kept.worker).cast_mut()) }?;
    Ok((kept, state))
}

/// Moves a cursor, and returns the pair there.
///
/// # Safety
/// The arguments are as the header requires.
unsafe fn go(cursor: *mut lw_cursor, to: To<'_>, pair: *mut lw_pair) -> c_int {
    if pair.is_null() {
        return status::INVALID;
    }
    // SAFETY: the caller guarantees the handle.
    let (kept, state) = match unsafe { checked(cursor, &to) } {
        Ok(checked) => checked,
        Err(status) => return status,
    };
    let mut cursor = kept.cursor.borrow_mut();
    if kept.seen.replace(state.maps.changes()) != state.maps.changes() {
        cursor.forget();
    }
    let moved = inside!(state, tx => step(&mut cursor, tx, &to).map(drop));
    if moved == status::OK {
        // SAFETY: `pair` is not NULL, and the header requires a valid pointer.
        unsafe { pair.write(pair_of(&cursor)) };
    }
    moved
}

/// Returns the pair at a cursor, or NULL for both.
fn pair_of(cursor: &Cursor) -> lw_pair {
    let part = |part: Option<&[u8]>| match part {
        Some(bytes) => (bytes.as_ptr().cast(), bytes.len() as u64),
        None => (ptr::null(), 0),
    };
    let (key, value) = cursor.pair().unzip();
    let ((key, key_bytes), (value, value_bytes)) = (part(key), part(value));
    lw_pair { key, key_bytes, value, value_bytes }
}

fn step<W: Words>(cursor: &mut Cursor, tx: &mut W, to: &To<'_>) -> Result<bool, Stop> {
    match to {
        To::First => {
            cursor.to_start();
            cursor.next(tx)
        }
        To::Last => {
            cursor.to_end();
            cursor.prev(tx)
        }
        To::Next => cursor.next(tx),
        To::Previous => cursor.prev(tx),
        To::Key(key) => cursor.seek(tx, key),
    }
}

/// Moves to the first pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_cursor_first(cursor: *mut lw_cursor, pair: *mut lw_pair) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { go(cursor, To::First, pair) }
}

/// Moves to the last pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_cursor_last(cursor: *mut lw_cursor, pair: *mut lw_pair) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { go(cursor, To::Last, pair) }
}

/// Moves to the next pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_cursor_next(cursor: *mut lw_cursor, pair: *mut lw_pair) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { go(cursor, To::Next, pair) }
}

/// Moves to the previous pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_cursor_prev(cursor: *mut lw_cursor, pair: *mut lw_pair) -> c_int {
    // SAFETY: the header has the same requirements.
    unsafe { go(cursor, To::Previous, pair) }
}

/// Moves to a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_cursor_seek(
    cursor: *mut lw_cursor,
    key: *const c_void,
    key_bytes: u64,
    pair: *mut lw_pair,
) -> c_int {
    // SAFETY: the header requires the key.
    match unsafe { bytes_of(key, key_bytes) } {
        Ok(key) => {
            // A copy, since the key may be in the cursor, which the movement changes.
            let key = key.to_vec();
            // SAFETY: the header has the same requirements.
            unsafe { go(cursor, To::Key(&key), pair) }
        }
        Err(status) => status,
    }
}
