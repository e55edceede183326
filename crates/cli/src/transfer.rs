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
    let as_of = if done.salvaged { String::new() } else { format!(", up to transaction {last}") };
    let (pool, heap_bytes) = (pool.display(), table::bytes(heap_bytes));
    let (allocations, pointers) = (table::grouped(allocations), table::grouped(pointers));
    let mut text = format!(
        "{pool} has the content of {from}{as_of}: {allocations} objects in a heap of \
         {heap_bytes}\n{pointers} pointers were translated"
    );
    if done.salvaged {
        text += "\nthe export is the salvage of a damaged pool: objects may be missing, and the \
                 content may not be as of one transaction";
    }
    if !done.has_root {
        text += "\nthe pool has no root";
    }
    if unmatched > 0 {
        let unmatched = table::grouped(unmatched);
        text += &format!(
            "\nwords that look like pointers but lead to no object, and are unchanged: {unmatched}"
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
    let done =
        if is_standard { heap.export(io::stdout().lock())? } else { to_file(&heap, export)? };
    let text = exported(pool, export, &done, report.as_ref());
    if !is_standard {
        let written = format!("{} is written", export.display());
        output::print(&text).map_err(Failure::after(written))?;
    }
    let Some(report) = report else { return Ok(Verdict::Held) };
    let damage = report.findings.iter().filter(|one| one.severity() > Severity::Harmless);
    let mut damage: Vec<_> = damage.map(ToString::to_string).collect();
    if is_standard && !report.is_sound() {
        damage.push(text);
    }
    complain(&damage);
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
    let mut text = format!("{export} has {count} objects of {pool}{as_of}");
    if left_out > 0 {
        text += &format!("; {} damaged objects are left out", table::grouped(left_out));
    }
    if report.is_some_and(|report| !report.is_sound()) {
        text += "; the pool is damaged, and other objects may be missing";
        text += if done.has_root { "" } else { "; the root is lost" };
    }
    text
}

/// Creates a file that only its owner can read, as a pool is. It has its name when it is whole and
/// durable. A crash or a signal may leave a file with the suffix `.partial`, which the next export
/// to this name replaces.
fn to_file(heap: &HeapAtRest, path: &Path) -> Result<Exported, Failure> {
    if path.symlink_metadata().is_ok() {
        return Err(Failure::ExportExists { path: path.into() });
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(partial);
    let file = file.map_err(|error| failed("create", partial, error))?;
    let done = heap.export(&file).and_then(|done| {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let named = file.sync_all().and_then(|()| {
            fs::rename(partial, path)?;
            // The name, too.
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
        });
        named.map_err(|source| TransferError::Write { source })?;
        Ok(done)
    });
    done.map_err(|error: Error| {
        // A partial export is of no use. If it cannot be removed, its import is refused.
        let _ = fs::remove_file(partial);
        error.into()
    })
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> Failure {
    Failure::File { doing, path: path.into(), source }
}
