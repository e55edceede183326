//! Setup of a measurement: from options to a pool that is open, loaded and idle.

use std::path::{Path, PathBuf};

use lastword::{AnyPool, Erased, Options, Stop};
use workloads::{AnyClient, AnyWorkload, Kind};

use crate::driver::Position;
use crate::erased::{AnyDesign, Timed, own};
use crate::failure::Failure;
use crate::load::Load;
use crate::media::MediumName;
use crate::report::{opening, progress};
use crate::temporary::Temporary;

/// The log of a pool whose heap is not much larger, unless `--log-bytes` is given.
const LOG_BYTES: u64 = 64 << 20;

/// Where a pool is.
#[derive(Debug)]
pub(crate) enum Place {
    /// Named by the user; kept.
    Given(PathBuf),
    /// Removed on drop.
    Temporary(Temporary),
}

impl Place {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Place::Given(path) => path,
            Place::Temporary(temporary) => temporary.path(),
        }
    }

    /// Returns the place of `--pool`; without it, a temporary pool in the medium's best directory.
    pub(crate) fn of(load: &Load) -> Place {
        match &load.pool {
            Some(path) => Place::Given(path.clone()),
            None => Place::temporary(load),
        }
    }

    /// Returns the place of `--pool`, or a temporary one; both are removed on drop.
    pub(crate) fn fresh(load: &Load) -> Place {
        match &load.pool {
            Some(path) => Place::Temporary(Temporary::at(path.clone())),
            None => Place::temporary(load),
        }
    }

    pub(crate) fn temporary(load: &Load) -> Place {
        let in_memory = load.medium.is_some_and(MediumName::is_best_in_memory);
        Place::Temporary(Temporary::new(in_memory))
    }
}

/// A pool that is ready for a measurement. The pool is dropped before its files are removed.
pub(crate) struct Ready {
    pub(crate) design: &'static AnyDesign,
    /// Durable transactions survive reopening the pool.
    pub(crate) reopens: bool,
    pub(crate) pool: Box<dyn Timed>,
    pub(crate) workload: AnyWorkload,
    /// Number of this run on this pool.
    pub(crate) run: u64,
    /// Options that reopen the pool.
    pub(crate) options: Options,
    pub(crate) place: Place,
}

/// Creates or opens the pool, and loads the workload if it is missing. On return everything is
/// reproduced, and the background is idle.
pub(crate) fn ready(
    kind: Kind,
    design: &'static AnyDesign,
    load: &Load,
    place: Place,
) -> Result<Ready, Failure> {
    let readers = load.readers.filter(|_| !kind.supported.update_percent).map(|_| "--readers");
    if let Some(option) = readers.or(load.workload_options().unsupported(kind.supported)) {
        return Err(Failure::UnsupportedOption { workload: kind.name, option });
    }
    if let Some(readers) = load.readers.filter(|&readers| readers > load.threads) {
        return Err(Failure::TooManyReaders { readers, threads: load.threads });
    }
    let exists = design.is_durable && place.path().symlink_metadata().is_ok();
    let options = match exists {
        true => options_of(load, place.path())?,
        false => options_for(kind, load),
    };
    let needed = kind.heap_bytes(&load.workload_options());
    if !exists && load.bytes.is_some_and(|bytes| bytes < needed) {
        return Err(Failure::SmallHeap { workload: kind.name, needed });
    }
    let pool = match exists {
        true => design.open(place.path(), options.clone())?,
        false => design.create(place.path(), options.clone())?,
    };
    let (workload, run) = fill(kind, &*pool, load, place.path())?;
    if design.is_durable {
        pool.checkpoint()?;
    }
    let reopens = design.is_durable && load.keeps();
    Ok(Ready { design, reopens, pool, workload, run, options, place })
}

/// Loads the workload and assigns the number of this run.
fn fill(
    kind: Kind,
    pool: &dyn AnyPool,
    load: &Load,
    path: &Path,
) -> Result<(AnyWorkload, u64), Failure> {
    let foreign = || Failure::ForeignData { path: path.into() };
    let mut worker = pool.any_worker()?;
    let mut worker = worker.erased();
    let mut any = Erased::any(&mut worker);
    let workload =
        match (kind.open(&mut any).map_err(own)?, workloads::name_in(&mut any).map_err(own)?) {
            (Some(workload), _) => workload,
            (None, Some(found)) if found != kind.name => {
                return Err(Failure::OtherWorkload { path: path.into(), found });
            }
            (None, _) => {
                let _spinner = progress::spinner("loading");
                kind.load(&mut any, &load.workload_options()).map_err(|error| match own(error) {
                    lastword::Error::Stopped { stop: Stop::Aborted } => foreign(),
                    error => error.into(),
                })?
            }
        };
    let run = workloads::next_run(&mut any).map_err(own)?.ok_or_else(foreign)?;
    Ok((workload, run))
}

/// The clients of a run, at their beginning.
pub(crate) fn clients(workload: &AnyWorkload, load: &Load, run: u64) -> Vec<Position<AnyClient>> {
    let seed = workloads::client_seed(load.seed, run);
    (0..load.threads)
        .map(|index| {
            let mut client = workload.client(index, seed);
            workload.tune(&mut client, &load.client_options(index));
            Position::new(client)
        })
        .collect()
}

/// Returns the options common to all pools, with the variant's changes.
fn varied(load: &Load) -> Options {
    let options = match load.unbounded {
        true => Options::new().unbounded(),
        false => Options::new(),
    };
    let options = if load.ideal_reproduce { options.ideal_reproduce() } else { options };
    let options = if load.unlogged { options.unlogged() } else { options };
    let options = match load.ring_entries {
        Some(entries) => options.ring_entries(entries),
        None => options,
    };
    options
        .ownership_records(load.ownership_records.unwrap_or(0))
        .flush_diff(!load.whole_objects)
        .recycle_every(load.recycle_every)
}

/// Returns the options of a new pool.
fn options_for(kind: Kind, load: &Load) -> Options {
    let bytes = load.bytes.unwrap_or_else(|| kind.heap_bytes(&load.workload_options()));
    // The pool's own default log grows with the heap. A small heap gets the largest log that all
    // designs have by default, so that measurements of small heaps compare.
    let least = (bytes <= 4 * LOG_BYTES).then_some(LOG_BYTES);
    let options = varied(load).bytes(bytes);
    let options = match load.log_bytes.or(least) {
        Some(log_bytes) => options.log_bytes(log_bytes),
        None => options,
    };
    let options = options
        .medium(load.medium.unwrap_or(MediumName::DEFAULT).medium(load.costs()))
        .durability(load.durability.into())
        .reproduce_threads(load.reproduce_threads)
        .layout(load.layout.as_deref().unwrap_or_default(), 0);
    load.grouping.put(load.with_shadow(options))
}

/// Returns the options that open the existing pool: its own layout unless one was given, and its
/// own medium with the given costs.
pub(crate) fn options_of(load: &Load, path: &Path) -> Result<Options, Failure> {
    let info = lastword::inspect(path)?;
    let own = info.medium.map_or(MediumName::DEFAULT, MediumName::of);
    let (layout, version) = &info.layout;
    let options = varied(load)
        .medium(load.medium.unwrap_or(own).medium(load.costs()))
        .durability(load.durability.into())
        .reproduce_threads(load.reproduce_threads)
        .layout(load.layout.as_deref().unwrap_or(layout), *version)
        .on_opening(opening::printer());
    Ok(load.grouping.put(load.with_shadow(options)))
}
