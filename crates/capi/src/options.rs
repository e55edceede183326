//! How a pool is made and opened, as C says it.

use std::ffi::{CStr, c_char, c_int};
use std::mem::{offset_of, size_of};
use std::ptr;
use std::time::Duration;

use lastword::{Durability, Medium, Options};

use crate::{Status, guard, status};

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

/// What `LW_EMULATED` imitates: the delay and bandwidth that `lastword run` does by default.
const EMULATED: Medium =
    Medium::Emulated { latency_cycles: 1000, bandwidth_bytes_per_second: 16_000_000_000 };

/// More than any version of the struct has: a size above it was never set.
const SIZE_MAX: usize = 4096;

/// `lw_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the header has it")]
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
}

/// Fields, and where each begins: what the header must agree with.
pub const FIELDS: [(&str, usize); 15] = [
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
];

impl lw_options {
    const DEFAULT: lw_options = lw_options {
        size: size_of::<lw_options>() as u64,
        design: 0,
        medium: 0,
        durability: 0,
        threads: 1,
        bytes: 64 << 20,
        log_bytes: 64 << 20,
        layout: c"".as_ptr(),
        layout_version: 0,
        message: ptr::null_mut(),
        message_bytes: 0,
        ring_entries: 1 << 20,
        patience_ms: 10_000,
        without_log: 0,
        ownership_records: 0,
    };

    /// What a program has filled in, with defaults for what it does not know.
    ///
    /// # Safety
    /// `from` is NULL or leads to a struct that [`lw_options_default`] has filled in.
    pub(crate) unsafe fn of(from: *const lw_options) -> Result<lw_options, Status> {
        let mut options = lw_options::DEFAULT;
        if from.is_null() {
            return Ok(options);
        }
        // SAFETY: the first field says how much of the struct is there.
        let size = unsafe { (*from).size } as usize;
        let known = known(size)?;
        // SAFETY: so many bytes are there, and any bytes are values of these fields.
        unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut options).cast(), known) };
        // A program that was built with a later library: fields that it has set are not heeded.
        // SAFETY: as above.
        let more = (known..size).map(|at| unsafe { from.cast::<u8>().add(at).read() });
        if more.into_iter().any(|byte| byte != 0) { Err(status::INVALID) } else { Ok(options) }
    }

    /// The same for the library, or what is wrong.
    ///
    /// # Safety
    /// `layout` is NULL or a string.
    pub(crate) unsafe fn to_rust(self) -> Result<Options, &'static str> {
        let options = Options::new()
            .bytes(self.bytes)
            .log_bytes(self.log_bytes)
            .ring_entries(self.ring_entries)
            .patience(Duration::from_millis(self.patience_ms))
            .without_log(self.without_log != 0)
            .ownership_records(self.ownership_records)
            .background(self.threads > 0)
            .reproduce_threads(self.threads.max(1) as usize);
        let options = match self.durability {
            0 => options,
            1 => options.durability(Durability::Sync),
            _ => return Err("durability is LW_ASYNC or LW_SYNC"),
        };
        let options = match self.medium {
            0 => options,
            1 => options.medium(Medium::File),
            2 => options.medium(Medium::Dax),
            3 => options.medium(Medium::PersistentCache),
            4 => options.medium(EMULATED),
            _ => return Err("there is no medium of this number"),
        };
        if self.layout.is_null() {
            return Ok(options);
        }
        // SAFETY: the caller says that it is a string.
        let layout = unsafe { CStr::from_ptr(self.layout) }.to_str();
        let layout = layout.map_err(|_| "the layout's name is not UTF-8")?;
        Ok(options.layout(layout, self.layout_version))
    }

    /// Puts a text where the program wants it, as much of it as there is room for.
    ///
    /// # Safety
    /// `message` is NULL, or so many bytes are there.
    pub(crate) unsafe fn tell(&self, text: &str) {
        if self.message.is_null() || self.message_bytes == 0 {
            return;
        }
        let mut end = text.len().min(self.message_bytes as usize - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // SAFETY: there is room for that many, and the 0 behind them.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), self.message.cast(), end);
            self.message.add(end).write(0);
        }
    }
}

/// How much of a struct of this size is known here. A size that cuts a field is no program's.
fn known(size: usize) -> Result<usize, Status> {
    let all = size_of::<lw_options>();
    let is_end =
        FIELDS[1..].iter().any(|(_, end)| *end == size) || (all..=SIZE_MAX).contains(&size);
    if is_end { Ok(size.min(all)) } else { Err(status::INVALID) }
}

/// Fills in the defaults.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_options_default(options: *mut lw_options, size: u64) -> c_int {
    guard(|| {
        let bytes = size as usize;
        if options.is_null() {
            return Err(status::INVALID);
        }
        let known = known(bytes)?;
        let defaults = lw_options { size, ..lw_options::DEFAULT };
        // SAFETY: the caller's struct has so many bytes.
        unsafe {
            ptr::write_bytes(options.cast::<u8>(), 0, bytes);
            ptr::copy_nonoverlapping((&raw const defaults).cast::<u8>(), options.cast(), known);
        }
        Ok(())
    })
}
