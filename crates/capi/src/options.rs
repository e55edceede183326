//! The struct `lw_options` of C programs and its conversion into [`Options`].
//!
//! The first field has the size of the struct that the program was compiled with. A program that is
//! older than the library leaves the later fields at their defaults. A program that is newer may
//! not set a field that this library does not have.

use std::ffi::{CStr, c_char, c_int};
use std::mem::{offset_of, size_of};
use std::ptr;
use std::time::Duration;

use lastword::{Durability, Medium, Options};

use crate::{Status, guard, message, status};

/// `LW_MEDIUM_DEFAULT` to `LW_EMULATED`.
pub const MEDIA: [(&str, u32); 5] = [
    ("LW_MEDIUM_DEFAULT", 0),
    ("LW_FILE", 1),
    ("LW_DAX", 2),
    ("LW_PERSISTENT_CACHE", 3),
    ("LW_EMULATED", 4),
];

/// `LW_ASYNC` and `LW_SYNC`.
pub const DURABILITIES: [(&str, u32); 2] = [("LW_ASYNC", 0), ("LW_SYNC", 1)];

/// The device of `LW_EMULATED`, with the default delay and bandwidth of `lastword run`.
const EMULATED: Medium =
    Medium::Emulated { latency_cycles: 1000, bandwidth_bytes_per_second: 16_000_000_000 };

/// A bound on the size of every version of the struct. A larger size is uninitialized memory.
const SIZE_MAX: usize = 4096;

/// `lw_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the header has the documentation")]
pub struct lw_options {
    pub size: u64,
    pub design: u32,
    pub medium: u32,
    pub durability: u32,
    pub threads: u32,
    pub bytes: u64,
    pub log_bytes: u64,
    pub layout: *const c_char,
    pub layout_version: u64,
    pub message: *mut c_char,
    pub message_bytes: u64,
    pub ring_entries: u64,
    pub patience_ms: u64,
    pub without_log: u64,
    pub ownership_records: u64,
    pub max_bytes: u64,
    pub grow_step: u64,
    pub max_log_bytes: u64,
}

/// The offset of each field, which the header must have, too.
pub const FIELDS: [(&str, usize); 18] = [
    ("size", offset_of!(lw_options, size)),
    ("design", offset_of!(lw_options, design)),
    ("medium", offset_of!(lw_options, medium)),
    ("durability", offset_of!(lw_options, durability)),
    ("threads", offset_of!(lw_options, threads)),
    ("bytes", offset_of!(lw_options, bytes)),
    ("log_bytes", offset_of!(lw_options, log_bytes)),
    ("layout", offset_of!(lw_options, layout)),
    ("layout_version", offset_of!(lw_options, layout_version)),
    ("message", offset_of!(lw_options, message)),
    ("message_bytes", offset_of!(lw_options, message_bytes)),
    ("ring_entries", offset_of!(lw_options, ring_entries)),
    ("patience_ms", offset_of!(lw_options, patience_ms)),
    ("without_log", offset_of!(lw_options, without_log)),
    ("ownership_records", offset_of!(lw_options, ownership_records)),
    ("max_bytes", offset_of!(lw_options, max_bytes)),
    ("grow_step", offset_of!(lw_options, grow_step)),
    ("max_log_bytes", offset_of!(lw_options, max_log_bytes)),
];

impl lw_options {
    const DEFAULT: lw_options = lw_options {
        size: size_of::<lw_options>() as u64,
        design: 0,
        medium: 0,
        durability: 0,
        threads: 1,
        bytes: 8 << 20,
        log_bytes: 0,
        layout: c"".as_ptr(),
        layout_version: 0,
        message: ptr::null_mut(),
        message_bytes: 0,
        ring_entries: 1 << 20,
        patience_ms: 10_000,
        without_log: 0,
        ownership_records: 0,
        max_bytes: 0,
        grow_step: 0,
        max_log_bytes: 0,
    };

    /// Returns the options of a program, with defaults for fields that it does not have.
    ///
    /// # Safety
    /// `from` is NULL or points to a struct that [`lw_options_default`] initialized.
    pub(crate) unsafe fn of(from: *const lw_options) -> Result<lw_options, Status> {
        let mut options = lw_options::DEFAULT;
        if from.is_null() {
            return Ok(options);
        }
        // SAFETY: every version of the struct begins with its size.
        let size = unsafe { (*from).size } as usize;
        let known = known(size)?;
        // SAFETY: `from` has `size` bytes, and any bytes are values of these fields.
        unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut options).cast(), known) };
        // A program of a later version may have fields that this library cannot apply. They are an
        // error unless they have their default, 0.
        // SAFETY: `from` has `size` bytes.
        let more = (known..size).map(|at| unsafe { from.cast::<u8>().add(at).read() });
        if more.into_iter().any(|byte| byte != 0) { Err(status::INVALID) } else { Ok(options) }
    }

    /// Converts the options, or returns the problem with them.
    ///
    /// # Safety
    /// `layout` is NULL or a string.
    pub(crate) unsafe fn to_rust(self) -> Result<Options, &'static str> {
        let options = Options::new()
            .bytes(self.bytes)
            .ring_entries(self.ring_entries)
            .patience(Duration::from_millis(self.patience_ms))
            .without_log(self.without_log != 0)
            .ownership_records(self.ownership_records)
            .max_bytes(self.max_bytes)
            .grow_step(self.grow_step)
            .background(self.threads > 0)
            .reproduce_threads(self.threads.max(1) as usize);
        let options = match self.log_bytes {
            0 => options,
            bytes => options.log_bytes(bytes),
        };
        let options = match self.max_log_bytes {
            0 => options,
            bytes => options.max_log_bytes(bytes),
        };
        let options = match self.durability {
            0 => options,
            1 => options.durability(Durability::Sync),
            _ => return Err("options.durability must be LW_ASYNC or LW_SYNC"),
        };
        let options = match medium_of(self.medium)? {
            None => options,
            Some(medium) => options.medium(medium),
        };
        if self.layout.is_null() {
            return Ok(options);
        }
        // SAFETY: the caller guarantees a string.
        let layout = unsafe { CStr::from_ptr(self.layout) }.to_str();
        let layout = layout.map_err(|_| "options.layout is not UTF-8")?;
        Ok(options.layout(layout, self.layout_version))
    }

    /// Copies a text into the program's message buffer, cut to its size. The text of an error is
    /// also the thread's message. Returns the status.
    ///
    /// # Safety
    /// `message` is NULL or has `message_bytes` bytes.
    pub(crate) unsafe fn report(&self, status: Status, text: &str) -> Status {
        if status != status::OK {
            message::set(status, text);
        }
        if self.message.is_null() || self.message_bytes == 0 {
            return status;
        }
        // Cut between characters, so that the message stays valid UTF-8.
        let mut end = text.len().min(self.message_bytes as usize - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // SAFETY: the buffer has room for these bytes and the final 0.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), self.message.cast(), end);
            self.message.add(end).write(0);
        }
        status
    }
}

/// Returns the medium of a number; `None` for the default.
pub(crate) fn medium_of(number: u32) -> Result<Option<Medium>, &'static str> {
    Ok(Some(match number {
        0 => return Ok(None),
        1 => Medium::File,
        2 => Medium::Dax,
        3 => Medium::PersistentCache,
        4 => EMULATED,
        _ => return Err("options.medium is not one of the media of lastword.h"),
    }))
}

/// Returns the number of bytes of a struct of this size that this version knows. No version of the
/// struct ends inside a field.
fn known(size: usize) -> Result<usize, Status> {
    let all = size_of::<lw_options>();
    // An older struct ends where a later field begins. A newer one is longer than this one.
    let is_end =
        FIELDS[1..].iter().any(|(_, end)| *end == size) || (all..=SIZE_MAX).contains(&size);
    if is_end { Ok(size.min(all)) } else { Err(status::INVALID) }
}

/// Sets the defaults.
///
/// # Safety
/// As in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_options_default(options: *mut lw_options, size: u64) -> c_int {
    guard(|| {
        let bytes = size as usize;
        if options.is_null() {
            return Err(status::INVALID);
        }
        let known = known(bytes)?;
        // Clear the fields of later versions, too. Zero is their default.
        let defaults = lw_options { size, ..lw_options::DEFAULT };
        // SAFETY: the caller's struct has `size` bytes.
        unsafe {
            ptr::write_bytes(options.cast::<u8>(), 0, bytes);
            ptr::copy_nonoverlapping((&raw const defaults).cast::<u8>(), options.cast(), known);
        }
        Ok(())
    })
}
