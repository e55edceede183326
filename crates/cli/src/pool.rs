//! `lastword pool`: create and describe pools. [`crate::check`], [`crate::dump`], [`crate::scrub`]
//! and [`crate::transfer`] are files of their own.
//!
//! `info` reads superblocks, the heads of the heap's runs, and a log that waits for replay. To time
//! a flush it writes an unnamed file beside a closed pool.

use std::path::Path;

use lastword::{
    CopyOptions, Decoupled, Error, Info, LogPath, Medium, MediumError, MemoryUse, Options, Pool,
};
use medium::PoolFile;
use serde::Serialize;

use crate::args::{
    Expected, Format, PoolBackup, PoolCommand, PoolConvert, PoolCopy, PoolCreate, PoolGrow,
    PoolInfo,
};
use crate::failure::{Failure, Verdict};
use crate::media::{Costs, MediumName};
use crate::report::{Collection, HeapUse, json, print, table};
use crate::shadow::{ShadowName, check_bound};

/// Runs the command and prints its report.
///
/// # Errors
/// The pool cannot be created or examined; for `check`, damage is a verdict.
pub(crate) fn run(command: &PoolCommand) -> Result<Verdict, Failure> {
    match command {
        PoolCommand::Create(create) => self::create(create),
        PoolCommand::Info(arguments) => info(arguments),
        PoolCommand::Check(arguments) => crate::check::run(arguments),
        PoolCommand::Dump(arguments) => crate::dump::run(arguments),
        PoolCommand::Convert(arguments) => convert(arguments),
        PoolCommand::Copy(arguments) => copy(arguments),
        PoolCommand::Backup(PoolBackup { pool, copy }) => copy_as(pool, copy, &CopyOptions::new()),
        PoolCommand::Compact(arguments) => crate::transfer::compact(arguments),
        PoolCommand::Export(arguments) => crate::transfer::export(arguments),
        PoolCommand::Import(arguments) => crate::transfer::import(arguments),
        PoolCommand::Grow(arguments) => grow(arguments),
        PoolCommand::Scrub(arguments) => crate::scrub::run(arguments),
    }
}

fn create(arguments: &PoolCreate) -> Result<Verdict, Failure> {
    // The process that opens the pool chooses the costs of its medium.
    let options =
        Options::new().bytes(arguments.bytes).layout(&arguments.layout, arguments.layout_version);
    let options = match arguments.log_bytes {
        Some(bytes) => options.log_bytes(bytes),
        None => options,
    };
    let options = match arguments.medium {
        Some(medium) => options.medium(medium.medium(Costs::default())),
        None => options,
    };
    let options = options.page_checksums(!arguments.without_page_checksums);
    Pool::<Decoupled>::create_as(&arguments.path, options)?.close()?;
    let (path, output) = (arguments.path.clone(), arguments.output);
    let expected = Expected::default();
    let done = format!("{} is created", path.display());
    info(&PoolInfo { path, shadow: ShadowName::Full, shadow_bytes: None, expected, output })
        .map_err(Failure::after(done))
}

fn convert(arguments: &PoolConvert) -> Result<Verdict, Failure> {
    let PoolConvert { old, new } = arguments;
    lastword::convert(old, new)?;
    let (old, new) = (old.display(), new.display());
    crate::output::print(&format!("{new} has the content of {old}, which is unchanged\n"))
        .map_err(Failure::after(format!("{new} is created")))?;
    Ok(Verdict::Held)
}

fn copy(arguments: &PoolCopy) -> Result<Verdict, Failure> {
    let PoolCopy { pool, copy, bytes, log_bytes, medium, page_checksums, .. } = arguments;
    let form = CopyOptions::new().without_log(arguments.without_log);
    let form = if *page_checksums { form.page_checksums(true) } else { form };
    let form = bytes.iter().fold(form, |form, bytes| form.bytes(*bytes));
    let form = log_bytes.iter().fold(form, |form, bytes| form.log_bytes(*bytes));
    let form = medium.iter().fold(form, |form, it| form.medium(it.medium(Costs::default())));
    if !arguments.leave_damaged {
        return copy_as(pool, copy, &form);
    }
    let copied = lastword::copy_undamaged(pool, copy, &form)?;
    has_content(pool, copy, copied.last)?;
    if copied.left_out > 0 {
        let pool = pool.display();
        let found = match copied.left_out {
            1 => format!("1 damaged page of {pool} has no content and is left out\n"),
            pages => format!("{pages} damaged pages of {pool} have no content and are left out\n"),
        };
        crate::output::print(&found)
            .map_err(Failure::after(format!("{} is created", copy.display())))?;
    }
    Ok(Verdict::Held)
}

fn copy_as(pool: &Path, copy: &Path, form: &CopyOptions) -> Result<Verdict, Failure> {
    let id = lastword::copy(pool, copy, form)?;
    has_content(pool, copy, id)?;
    Ok(Verdict::Held)
}

fn has_content(pool: &Path, copy: &Path, id: lastword::TxId) -> Result<(), Failure> {
    let (pool, copy) = (pool.display(), copy.display());
    crate::output::print(&format!("{copy} has the content of {pool}, up to transaction {id}\n"))
        .map_err(Failure::after(format!("{copy} is created")))
}

fn grow(PoolGrow { path, bytes }: &PoolGrow) -> Result<Verdict, Failure> {
    let heap_bytes = lastword::grow(path, *bytes)?;
    let path = path.display();
    crate::output::print(&format!("the heap of {path} has {heap_bytes} bytes\n"))
        .map_err(Failure::after(format!("the heap of {path} has {heap_bytes} bytes")))?;
    Ok(Verdict::Held)
}

fn info(arguments: &PoolInfo) -> Result<Verdict, Failure> {
    let PoolInfo { path, shadow, shadow_bytes, expected, output } = arguments;
    check_bound(*shadow, *shadow_bytes)?;
    let info = lastword::inspect_with(path, &expected.options())?
        .with_shadow((*shadow).into(), *shadow_bytes);
    let heap = match lastword::heap_usage_with(path, &expected.options()) {
        // The rest of the description is as good without it.
        Err(Error::InUse(_)) => None,
        usage => Some(HeapUse::of(&usage?)),
    };
    let mut description = Description { heap, ..Description::of(&info, path) };
    match lastword::list_collections_with(path, &expected.options()) {
        Ok(found) => description.collections = found.map(Collection::all),
        // A process has opened the pool. A check lists the collections of a pool in use.
        Err(Error::InUse(_) | Error::Medium(MediumError::InUse { .. })) => {}
        Err(error) => description.catalog_damage = Some(error.to_string()),
    }
    print(&match output.format {
        Format::Json => json::object(&description),
        Format::Table => table::pairs(&description.rows()),
    })?;
    Ok(Verdict::Held)
}

/// The report of `pool info`.
#[derive(Debug, Serialize)]
pub(crate) struct Description {
    pub(crate) path: String,
    medium: Option<&'static str>,
    /// In hexadecimal digits.
    pool_id: String,
    generation: u64,
    design: String,
    layout: String,
    layout_version: u64,
    heap_bytes: u64,
    log_bytes: u64,
    /// Size of the pool's files.
    file_bytes: u64,
    /// Bytes of the heap whose pages have a checksum.
    checksummed_bytes: u64,
    reproduced_id: u64,
    /// Clean shutdown; otherwise opening the pool recovers.
    clean: bool,
    /// A process has the pool open.
    pub(crate) in_use: bool,
    /// That process, if the system reports it.
    pub(crate) owner: Option<u32>,
    file_system: Option<&'static str>,
    survives_power_loss: bool,
    /// Time of a small durable write there; `None` if it could not be measured.
    flush_ns: Option<u64>,
    /// Write path of log groups; `None` for a mapped log.
    log_path: Option<String>,
    /// Reason for the page cache; `None` for a log that bypasses it or is mapped.
    page_cache: Option<String>,
    /// Bound of a combined group; 0: groups are not combined.
    group: u64,
    compress: bool,
    /// Of the transactional memory of the open pool; `None` for a design without one.
    ownership_records: Option<u64>,
    memory_bytes: MemoryBytes,
    pub(crate) heap: Option<HeapUse>,
    /// Collections with names. Absent without a catalog, with a damaged one, and in a description
    /// of a pool in use.
    pub(crate) collections: Option<Vec<Collection>>,
    /// The reason why the catalog cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    catalog_damage: Option<String>,
}

/// Memory of the open pool.
#[derive(Debug, Serialize)]
struct MemoryBytes {
    /// The shadow: as large as the heap, or its bound.
    heap: u64,
    /// Page table of a bounded shadow.
    page_table: u64,
    /// Ownership records of the transactional memory.
    ownership_records: u64,
    /// Each worker's ring, once filled.
    ring_per_worker: u64,
    /// Maximum of records that are logged and not reproduced.
    queue_max: u64,
    /// Maximum of gathered pages in flight to the heap image.
    gathered_max: u64,
    /// The pool's files, if they are in memory.
    files: u64,
    /// Sum, with one worker.
    total_max_with_one_worker: u64,
}

impl MemoryBytes {
    fn of(memory: MemoryUse) -> MemoryBytes {
        MemoryBytes {
            heap: memory.heap_bytes,
            page_table: memory.table_bytes,
            ownership_records: memory.records_bytes,
            ring_per_worker: memory.ring_bytes,
            queue_max: memory.queue_bytes_max,
            gathered_max: memory.gathered_bytes_max,
            files: memory.file_bytes,
            total_max_with_one_worker: memory.total_bytes_max(1),
        }
    }

    /// Formats the sum as a formula.
    fn show(&self) -> String {
        let parts = [
            ("", self.heap, " shadow"),
            ("", self.page_table, " page table"),
            ("", self.ownership_records, " ownership records"),
            ("", self.ring_per_worker, " a worker"),
            ("up to ", self.queue_max, " queue"),
            ("up to ", self.gathered_max, " pages"),
            ("", self.files, " files in memory"),
        ];
        let shown = parts.iter().filter(|part| part.1 > 0);
        let terms: Vec<String> = shown
            .map(|(before, bytes, what)| format!("{before}{}{what}", table::bytes(*bytes)))
            .collect();
        let total = table::bytes(self.total_max_with_one_worker);
        format!("{}; with one worker up to {total}", terms.join(" + "))
    }
}

impl Description {
    fn of(info: &Info, path: &Path) -> Description {
        // Mapped memory is not flushed to a disk.
        let is_timed = info.medium == Some(Medium::File) && !info.in_use;
        let place = is_timed.then(|| PoolFile::open_shared(path).ok());
        let place = place.flatten();
        let flush_ns = place.as_ref().and_then(|file| file.measure_flush().ok());
        // The first write after opening finds this out; `info` has only read.
        let refused = || place.and_then(|file| file.takes_direct_writes()) == Some(false);
        let log_path = info.log_path.map(|path| match path.direct && refused() {
            true => LogPath { io_uring: false, direct: false },
            false => path,
        });
        let log_path = log_path.map(|path| path.to_string());
        Description { flush_ns, log_path, ..Description::without_flush(info) }
    }

    pub(crate) fn without_flush(info: &Info) -> Description {
        Description {
            path: info.path.display().to_string(),
            medium: info.medium.map(|medium| MediumName::of(medium).name()),
            pool_id: format!("{:016x}", info.pool_id),
            generation: info.generation,
            design: info.design.clone(),
            layout: info.layout.0.clone(),
            layout_version: info.layout.1,
            heap_bytes: info.heap_bytes,
            log_bytes: info.log_bytes,
            file_bytes: info.file_bytes,
            checksummed_bytes: info.checksummed_bytes,
            reproduced_id: info.reproduced_id.0,
            clean: info.clean,
            in_use: info.in_use,
            owner: info.owner,
            file_system: info.file_system,
            survives_power_loss: info.survives_power_loss,
            flush_ns: None,
            log_path: info.log_path.map(|path| path.to_string()),
            page_cache: info.page_cache.clone(),
            group: info.group,
            compress: info.compress,
            ownership_records: info.ownership_records,
            memory_bytes: MemoryBytes::of(info.memory()),
            heap: None,
            collections: None,
            catalog_damage: None,
        }
    }

    /// Describes how log groups are formed.
    fn groups(&self) -> String {
        let compressed = if self.compress { ", LZ4" } else { "" };
        match self.group {
            0 => format!("not combined{compressed}"),
            most => format!("combined, up to {} transactions{compressed}", table::grouped(most)),
        }
    }

    fn checksums(&self) -> String {
        match self.checksummed_bytes {
            0 => "no".into(),
            bytes if bytes == self.heap_bytes => "yes".into(),
            bytes => format!("the first {} of the heap", table::bytes(bytes)),
        }
    }

    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let survives = match self.survives_power_loss {
            true if self.medium != Some(MediumName::File.name()) => {
                "kill -9 and power loss, as far as the memory does"
            }
            true => "kill -9 and power loss, if the disk honors flushes",
            false => "kill -9, not power loss",
        };
        let place = self.file_system.unwrap_or("a file system of unknown name");
        let mut rows = vec![
            ("path", self.path.clone()),
            ("medium", format!("{} on {place}", self.medium.unwrap_or("none"))),
            ("survives", survives.into()),
            ("pool ID", self.pool_id.clone()),
            ("generation", table::grouped(self.generation)),
            ("design", self.design.clone()),
            ("layout", layout_text(&self.layout, self.layout_version)),
            ("heap", table::bytes(self.heap_bytes)),
            ("log", table::bytes(self.log_bytes)),
            ("files", table::bytes(self.file_bytes)),
            ("page checksums", self.checksums()),
            ("groups of the log", self.groups()),
            ("reproduced ID", table::grouped(self.reproduced_id)),
            ("clean shutdown", yes_no(self.clean)),
            ("memory when open", self.memory_bytes.show()),
        ];
        if self.in_use {
            rows.insert(1, ("in use", owner_text(self.owner)));
        }
        if let Some(records) = self.ownership_records {
            rows.push(("ownership records", table::grouped(records)));
        }
        if let Some(path) = &self.log_path {
            let why = self.page_cache.as_ref().map(|why| format!(" ({why})"));
            rows.insert(2, ("log is written by", format!("{path}{}", why.unwrap_or_default())));
        }
        if let Some(flush_ns) = self.flush_ns {
            rows.insert(2, ("flush", table::time(flush_ns)));
        }
        rows.extend(self.heap.iter().flat_map(HeapUse::rows));
        for collection in self.collections.iter().flatten() {
            let (name, shown) = (collection.quoted_name(), collection.description());
            rows.push(("collection", format!("{name}: {shown}")));
        }
        if let Some(damage) = &self.catalog_damage {
            rows.push(("collections", format!("the catalog is damaged: {damage}")));
        }
        rows
    }
}

pub(crate) fn layout_text(name: &str, version: u64) -> String {
    match name {
        "" => "none".into(),
        name => format!("{}, version {version}", lastword::printable(name)),
    }
}

/// Names the process that has a pool open.
pub(crate) fn owner_text(owner: Option<u32>) -> String {
    owner.map_or("by a process".into(), |process| format!("by process {process}"))
}

pub(crate) fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.into()
}
