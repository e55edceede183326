//! `lastword pool compact`, `export` and `import`: the objects of a pool in a new pool or a stream.

use std::fs::{self, File};
use std::io::{self, BufReader, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use lastword::{
    CopyOptions, Error, Exported, HeapAtRest, Report, Severity, TransferError, Transferred,
};

use crate::args::{PoolCompact, PoolExport, PoolImport, TransferForm};
use crate::failure::{Failure, Verdict};
use crate::media::Costs;
use crate::output;
use crate::report::{complain, table};

/// The name of standard input or output.
const STANDARD: &str = "-";

/// Compacts a pool.
///
/// # Errors
/// As [`lastword::compact`].
pub(crate) fn compact(arguments: &PoolCompact) -> Result<Verdict, Failure> {
    let PoolCompact { pool, new, form, without_log } = arguments;
    let form = options(form).without_log(*without_log);
    transferred(new, &pool.display().to_string(), lastword::compact(pool, new, &form)?)
}

/// Makes a pool from an export.
///
/// # Errors
/// As [`lastword::import`].
pub(crate) fn import(arguments: &PoolImport) -> Result<Verdict, Failure> {
    let PoolImport { export, pool, form } = arguments;
    let form = options(form);
    let is_standard = export.as_os_str() == STANDARD;
    let done = if is_standard {
        lastword::import(io::stdin().lock(), pool, &form)
    } else {
        let file = File::open(export).map_err(|error| failed("open", export, error))?;
        lastword::import(BufReader::new(file), pool, &form)
    };
    let from = if is_standard { "standard input".into() } else { export.display().to_string() };
    transferred(pool, &from, done?)
}

fn options(form: &TransferForm) -> CopyOptions {
    let TransferForm { bytes, log_bytes, medium, page_checksums } = form;
    let form = CopyOptions::new();
    let form = if *page_checksums { form.page_checksums(true) } else { form };
    let form = bytes.iter().fold(form, |form, bytes| form.bytes(*bytes));
    let form = log_bytes.iter().fold(form, |form, bytes| form.log_bytes(*bytes));
    medium.iter().fold(form, |form, medium| form.medium(medium.medium(Costs::default())))
}

/// Reports a new pool.
fn transferred(pool: &Path, from: &str, done: Transferred) -> Result<Verdict, Failure> {
    let Transferred { last, heap_bytes, allocations, pointers, unmatched, .. } = done;
    let (pool, heap_bytes) = (pool.display(), table::bytes(heap_bytes));
    let (allocations, pointers) = (table::grouped(allocations), table::grouped(pointers));
    let mut text = format!(
        "{pool} has the content of {from}, up to transaction {last}: {allocations} objects in a \
         heap of {heap_bytes}\n{pointers} pointers were translated"
    );
    if unmatched > 0 {
        let unmatched = table::grouped(unmatched);
        text += &format!(
            "; {unmatched} words look like pointers but lead to no object, and are unchanged"
        );
    }
    output::print(&text).map_err(Failure::after(format!("{pool} is created")))?;
    Ok(Verdict::Held)
}

/// Exports a pool.
///
/// # Errors
/// The pool cannot be read, or the export cannot be written.
pub(crate) fn export(arguments: &PoolExport) -> Result<Verdict, Failure> {
    let PoolExport { pool, export, salvage } = arguments;
    let is_standard = export.as_os_str() == STANDARD;
    if is_standard {
        output::check()?;
        if io::stdout().is_terminal() {
            return Err(Failure::BinaryOnTerminal);
        }
    }
    let (heap, report) = match salvage {
        true => HeapAtRest::salvage(pool).map(|(heap, report)| (heap, Some(report)))?,
        false => (HeapAtRest::load(pool)?, None),
    };
    if is_standard {
        heap.export(io::stdout().lock())?;
    } else {
        let done = to_file(&heap, export)?;
        output::print(&exported(pool, export, &done, report.as_ref()))
            .map_err(Failure::after(format!("{} is written", export.display())))?;
    }
    let Some(report) = report else { return Ok(Verdict::Held) };
    let damage = report.findings.iter().filter(|one| one.severity() > Severity::Harmless);
    complain(&damage.map(ToString::to_string).collect::<Vec<_>>());
    Ok(Verdict::of(report.is_sound()))
}

/// Describes an export.
fn exported(pool: &Path, export: &Path, done: &Exported, report: Option<&Report>) -> String {
    let Exported { last, allocations, left_out, .. } = *done;
    let (pool, export, count) = (pool.display(), export.display(), table::grouped(allocations));
    // Without its log, the content may be older or newer than any transaction.
    let as_of = match report.is_none_or(Report::opens) {
        true => format!(", up to transaction {last}"),
        false => String::new(),
    };
    let left_out = match left_out {
        0 => String::new(),
        left_out => format!("; {} damaged objects are left out", table::grouped(left_out)),
    };
    format!("{export} has {count} objects of {pool}{as_of}{left_out}")
}

/// Creates a file that only its owner can read, as a pool is, and syncs it. After an error the
/// partial file is removed. A crash may leave it, and its import is refused.
fn to_file(heap: &HeapAtRest, path: &Path) -> Result<Exported, Failure> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|error| failed("create", path, error))?;
    let done = heap.export(&file).and_then(|done| {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let synced = file.sync_all().and_then(|()| {
            // The name, too.
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
        });
        synced.map_err(|source| TransferError::Write { source })?;
        Ok(done)
    });
    done.map_err(|error: Error| {
        // A partial export is of no use. If it cannot be removed, its import is refused.
        let _ = fs::remove_file(path);
        error.into()
    })
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> Failure {
    Failure::File { doing, path: path.into(), source }
}
