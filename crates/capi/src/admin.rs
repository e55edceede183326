//! The care of pools: growth, scrubs, copies, exports and imports, and reading beside a process.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::fs::File;
use std::mem::{ManuallyDrop, offset_of};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use lastword::{
    CopyOptions, Error, Exported, HeapAtRest, PoolReader, Scrub, Severity, Transferred,
};

use crate::design::{Any, on};
use crate::options::{lw_options, medium_of};
use crate::pool::{self, lw_pool};
use crate::{Status, guard, message, sized, status};

/// `LW_SALVAGE`.
pub const SALVAGE: u32 = 1;

/// `lw_copy_options`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header has the documentation")]
pub struct lw_copy_options {
    pub size: u64,
    pub bytes: u64,
    pub log_bytes: u64,
    pub medium: u64,
    pub without_log: u64,
}

/// `lw_scrub_result`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header has the documentation")]
pub struct lw_scrub_result {
    pub size: u64,
    pub pages: u64,
    pub compared: u64,
    pub lost_checksums: u64,
    pub damaged: u64,
    pub first_damaged: u64,
}

/// `lw_transfer_result`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header has the documentation")]
pub struct lw_transfer_result {
    pub size: u64,
    pub last: u64,
    pub objects: u64,
    pub has_root: u64,
    pub left_out: u64,
    pub findings: u64,
    pub salvaged: u64,
    pub heap_bytes: u64,
    pub pointers: u64,
    pub unmatched: u64,
}

/// The offset of each field, which the header must have, too.
pub const COPY_FIELDS: [(&str, usize); 5] = [
    ("size", offset_of!(lw_copy_options, size)),
    ("bytes", offset_of!(lw_copy_options, bytes)),
    ("log_bytes", offset_of!(lw_copy_options, log_bytes)),
    ("medium", offset_of!(lw_copy_options, medium)),
    ("without_log", offset_of!(lw_copy_options, without_log)),
];

/// The same of `lw_scrub_result`.
pub const SCRUB_FIELDS: [(&str, usize); 6] = [
    ("size", offset_of!(lw_scrub_result, size)),
    ("pages", offset_of!(lw_scrub_result, pages)),
    ("compared", offset_of!(lw_scrub_result, compared)),
    ("lost_checksums", offset_of!(lw_scrub_result, lost_checksums)),
    ("damaged", offset_of!(lw_scrub_result, damaged)),
    ("first_damaged", offset_of!(lw_scrub_result, first_damaged)),
];

/// The same of `lw_transfer_result`.
pub const TRANSFER_FIELDS: [(&str, usize); 10] = [
    ("size", offset_of!(lw_transfer_result, size)),
    ("last", offset_of!(lw_transfer_result, last)),
    ("objects", offset_of!(lw_transfer_result, objects)),
    ("has_root", offset_of!(lw_transfer_result, has_root)),
    ("left_out", offset_of!(lw_transfer_result, left_out)),
    ("findings", offset_of!(lw_transfer_result, findings)),
    ("salvaged", offset_of!(lw_transfer_result, salvaged)),
    ("heap_bytes", offset_of!(lw_transfer_result, heap_bytes)),
    ("pointers", offset_of!(lw_transfer_result, pointers)),
    ("unmatched", offset_of!(lw_transfer_result, unmatched)),
];

impl From<Scrub> for lw_scrub_result {
    fn from(scrub: Scrub) -> lw_scrub_result {
        lw_scrub_result {
            size: 0,
            pages: scrub.pages as u64,
            compared: scrub.compared as u64,
            lost_checksums: scrub.lost_checksums as u64,
            damaged: scrub.damaged.len() as u64,
            first_damaged: scrub.damaged.first().copied().unwrap_or(0),
        }
    }
}

impl From<Exported> for lw_transfer_result {
    fn from(done: Exported) -> lw_transfer_result {
        lw_transfer_result {
            last: done.last.0,
            objects: done.allocations,
            has_root: done.has_root.into(),
            left_out: done.left_out,
            ..lw_transfer_result::default()
        }
    }
}

impl From<Transferred> for lw_transfer_result {
    fn from(done: Transferred) -> lw_transfer_result {
        lw_transfer_result {
            last: done.last.0,
            objects: done.allocations,
            has_root: done.has_root.into(),
            salvaged: done.salvaged.into(),
            heap_bytes: done.heap_bytes,
            pointers: done.pointers,
            unmatched: done.unmatched,
            ..lw_transfer_result::default()
        }
    }
}

/// Returns a path of the program.
///
/// # Safety
/// `path` is NULL or a string.
unsafe fn path_of<'a>(path: *const c_char) -> Result<&'a Path, Status> {
    if path.is_null() {
        return Err(message::set(status::INVALID, "the path is NULL"));
    }
    // SAFETY: the caller guarantees a string.
    Ok(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes())))
}

/// Returns the file of a descriptor, which stays open.
fn file_of(descriptor: c_int) -> Result<ManuallyDrop<File>, Status> {
    // SAFETY: the call has no requirements.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
        return Err(message::set(status::INVALID, "no open file has this descriptor"));
    }
    // SAFETY: the descriptor is open, and the program must not close it during the call. Nothing
    // closes it here, since the file is not dropped.
    Ok(ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) }))
}

/// Returns the options of a copy.
///
/// # Safety
/// `from` is NULL or valid, and has the bytes of its size.
unsafe fn copy_options(from: *const lw_copy_options) -> Result<CopyOptions, Status> {
    let mut given = lw_copy_options::default();
    // SAFETY: the caller guarantees the struct, and any words are values of the fields.
    unsafe { sized::read(from, &mut given) }?;
    let form = CopyOptions::new().without_log(given.without_log != 0);
    let form = if given.bytes == 0 { form } else { form.bytes(given.bytes) };
    let form = if given.log_bytes == 0 { form } else { form.log_bytes(given.log_bytes) };
    let medium = u32::try_from(given.medium).unwrap_or(u32::MAX);
    let medium = medium_of(medium).map_err(|problem| message::set(status::INVALID, problem))?;
    Ok(medium.map_or(form.clone(), |medium| form.medium(medium)))
}

/// Converts the error of a library call.
fn failed(error: Error) -> Status {
    message::of(&error)
}

/// Writes an output, unless the program does not want it.
///
/// # Safety
/// `out` is NULL or valid.
unsafe fn output(out: *mut u64, value: u64) {
    if !out.is_null() {
        // SAFETY: the caller guarantees a valid pointer.
        unsafe { out.write(value) };
    }
}

/// Writes the result of a scrub, also if it found damage.
///
/// # Safety
/// As [`sized::write`].
unsafe fn report(scrub: Scrub, result: *mut lw_scrub_result) -> Result<(), Status> {
    let path = scrub.path.clone();
    let found = lw_scrub_result::from(scrub);
    // SAFETY: the caller guarantees the struct.
    unsafe { sized::write(result, &found) }?;
    if found.damaged == 0 {
        return Ok(());
    }
    let (path, lw_scrub_result { damaged, first_damaged, .. }) = (path.display(), found);
    let text = format!(
        "{path} has {damaged} damaged pages, the first at byte {first_damaged}: close the pool and \
         restore it from a backup, or salvage the rest with lw_export"
    );
    Err(message::set(status::DAMAGED, &text))
}

/// Opens a pool only for reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_open_read_only(
    path: *const c_char,
    options: *const lw_options,
    flags: u32,
    pool: *mut *mut lw_pool,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires the options.
        let given = unsafe { lw_options::of(options) }?;
        // SAFETY: the header requires the message buffer.
        let report = |status, text: &str| unsafe { given.report(status, text) };
        report(status::OK, "");
        if path.is_null() || pool.is_null() || flags & !SALVAGE != 0 {
            let problem = "the path or the output pointer is NULL, or a flag is unknown";
            return Err(report(status::INVALID, problem));
        }
        // SAFETY: the header requires a string.
        let path = unsafe { path_of(path) }?;
        // SAFETY: the header requires the layout's name.
        let options =
            unsafe { given.to_rust() }.map_err(|problem| report(status::INVALID, problem))?;
        let reader = PoolReader::open(path, options.salvage(flags & SALVAGE != 0));
        let reader = reader.map_err(|error| report(status::of(&error), &error.to_string()))?;
        // SAFETY: `pool` is not NULL, and the header requires a valid pointer.
        unsafe { pool.write(pool::opened(Any::Reader(reader))) };
        Ok(())
    })
}

/// Grows the heap of an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_grow(
    pool: *mut lw_pool,
    bytes: u64,
    heap_bytes: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { pool::of(pool) }?;
        let grown = on!(&open.pool, pool => pool.grow(bytes); _reader => Err(Error::ReadOnly));
        // SAFETY: the header requires NULL or a valid pointer.
        unsafe { output(heap_bytes, grown.map_err(failed)?) };
        Ok(())
    })
}

/// Grows the heap of a closed pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_grow(path: *const c_char, bytes: u64, heap_bytes: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the header requires a string.
        let path = unsafe { path_of(path) }?;
        let grown = lastword::grow(path, bytes).map_err(failed)?;
        // SAFETY: the header requires NULL or a valid pointer.
        unsafe { output(heap_bytes, grown) };
        Ok(())
    })
}

/// Grows the log of an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_grow_log(
    pool: *mut lw_pool,
    bytes: u64,
    log_bytes: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { pool::of(pool) }?;
        let grown = on!(&open.pool, pool => pool.grow_log(bytes); _reader => Err(Error::ReadOnly));
        // SAFETY: the header requires NULL or a valid pointer.
        unsafe { output(log_bytes, grown.map_err(failed)?) };
        Ok(())
    })
}

/// Verifies the pages of an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_scrub(pool: *mut lw_pool, result: *mut lw_scrub_result) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { pool::of(pool) }?;
        let scrub = on!(&open.pool, pool => pool.scrub(); _reader => Err(Error::ReadOnly));
        // SAFETY: the header requires NULL or a struct of its size.
        unsafe { report(scrub.map_err(failed)?, result) }
    })
}

/// Verifies the pages of a closed pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_scrub(path: *const c_char, result: *mut lw_scrub_result) -> c_int {
    guard(|| {
        // SAFETY: the header requires a string.
        let scrub = lastword::scrub(unsafe { path_of(path) }?).map_err(failed)?;
        // SAFETY: the header requires NULL or a struct of its size.
        unsafe { report(scrub, result) }
    })
}

/// Copies a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_copy(
    from: *const c_char,
    to: *const c_char,
    options: *const lw_copy_options,
    id: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires strings and options.
        let (from, to, form) = unsafe { (path_of(from)?, path_of(to)?, copy_options(options)?) };
        let copied = lastword::copy(from, to, &form).map_err(failed)?;
        // SAFETY: the header requires NULL or a valid pointer.
        unsafe { output(id, copied.0) };
        Ok(())
    })
}

/// Copies the objects of a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_compact(
    from: *const c_char,
    to: *const c_char,
    options: *const lw_copy_options,
    result: *mut lw_transfer_result,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires strings and options.
        let (from, to, form) = unsafe { (path_of(from)?, path_of(to)?, copy_options(options)?) };
        // SAFETY: the header requires NULL or a struct of its size.
        unsafe { sized::check(result) }?;
        let done = lastword::compact(from, to, &form).map_err(failed)?;
        // SAFETY: as above.
        unsafe { sized::write(result, &done.into()) }
    })
}

/// Exports an open pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_pool_export(
    pool: *mut lw_pool,
    descriptor: c_int,
    result: *mut lw_transfer_result,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires a handle.
        let open = unsafe { pool::of(pool) }?;
        // SAFETY: the header requires NULL or a struct of its size.
        unsafe { sized::check(result) }?;
        let file = file_of(descriptor)?;
        let done = on!(&open.pool, pool => pool.view().and_then(|view| view.export(&*file));
        _reader => {
            let problem = "a pool that is only read has no view: call lw_export";
            return Err(message::set(status::READ_ONLY, problem));
        });
        // SAFETY: as above.
        unsafe { sized::write(result, &done.map_err(failed)?.into()) }
    })
}

/// Exports a pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_export(
    path: *const c_char,
    flags: u32,
    descriptor: c_int,
    result: *mut lw_transfer_result,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires a string.
        let path = unsafe { path_of(path) }?;
        // SAFETY: the header requires NULL or a struct of its size.
        unsafe { sized::check(result) }?;
        if flags & !SALVAGE != 0 {
            return Err(status::INVALID);
        }
        let file = file_of(descriptor)?;
        let salvages = flags & SALVAGE != 0;
        let (heap, findings) = match salvages {
            false => (HeapAtRest::load(path).map_err(failed)?, 0),
            true => {
                let (heap, report) = HeapAtRest::salvage(path).map_err(failed)?;
                let is_damage = |one: &&_| lastword::Finding::severity(one) > Severity::Harmless;
                (heap, report.findings.iter().filter(is_damage).count() as u64)
            }
        };
        let done = heap.export(&*file).map_err(failed)?;
        let done = lw_transfer_result { findings, salvaged: salvages.into(), ..done.into() };
        // SAFETY: as above.
        unsafe { sized::write(result, &done) }
    })
}

/// Makes a pool of an export.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lw_import(
    descriptor: c_int,
    to: *const c_char,
    options: *const lw_copy_options,
    result: *mut lw_transfer_result,
) -> c_int {
    guard(|| {
        // SAFETY: the header requires a string and options.
        let (to, form) = unsafe { (path_of(to)?, copy_options(options)?) };
        // SAFETY: the header requires NULL or a struct of its size.
        unsafe { sized::check(result) }?;
        let file = file_of(descriptor)?;
        let done = lastword::import(&*file, to, &form).map_err(failed)?;
        // SAFETY: as above.
        unsafe { sized::write(result, &done.into()) }
    })
}
