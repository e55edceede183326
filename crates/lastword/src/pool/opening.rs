//! Opens pools. Before that, migrations give the content the layout version that the program
//! expects.
//!
//! ```text
//!                                       superblock            heap      opened by
//!   before                              1                     0 or 1    programs of version 1
//!   1  the migration is noted           2, migrating from 1   0 or 1    only this migration
//!   2  steps; each stores its progress  2, migrating from 1   0 or 1    only this migration
//!   3  the last step                    2, migrating from 1   2         only this migration
//!   4  the note is removed              2                     2         programs of version 2
//! ```
//!
//! Each of these is durable before the next begins. A step and its progress are one transaction,
//! and so are the last step and the version that it has reached. So after a crash the migration
//! goes on with the first step that is not durable, and no step takes effect twice. Without 1, an
//! older program would open a content of both versions.

use std::path::Path;

use lw_alloc::Migrated;
use medium::mutants::{Mutant, injected};
use words::ErasedTx;

use super::Pool;
use crate::design::Design;
use crate::inspect::CheckOptions;
use crate::storage::{Survey, open_settled};
use crate::superblock::Superblock;
use crate::{Error, Options};

impl<D: Design> Pool<D> {
    /// Opens a pool as design `D`; see [`Pool::open`].
    ///
    /// # Errors
    /// As [`Pool::open`]; [`Error::NotDurable`] for designs that are not durable.
    pub fn open_as(path: impl AsRef<Path>, options: Options) -> Result<Pool<D>, Error> {
        migrate::<D>(path.as_ref(), &options)?;
        Pool::open_migrated(path.as_ref(), &options)
    }

    fn open_migrated(path: &Path, options: &Options) -> Result<Pool<D>, Error> {
        Ok(Pool::new(D::open(path, options)?, options))
    }

    /// Opens or creates a pool as design `D`; see [`Pool::open_or_create`].
    ///
    /// # Errors
    /// As [`Pool::open_or_create`].
    pub fn open_or_create_as(path: impl AsRef<Path>, options: Options) -> Result<Pool<D>, Error> {
        let (path, missing) = (path.as_ref(), |error: &Error| {
            matches!(
                error,
                Error::Medium(medium::Error::NotFound { .. }) | Error::NotDurable { .. }
            )
        });
        let opened = Pool::open_as(path, options.clone());
        if !opened.as_ref().is_err_and(missing) {
            return opened;
        }
        match Pool::create_as(path, options.clone()) {
            // Another process or thread has created it meanwhile.
            Err(Error::Medium(medium::Error::AlreadyExists { .. })) => Pool::open_as(path, options),
            created => created,
        }
    }
}

/// Runs the migrations that a pool needs, as far as the program has them. The opening that follows
/// reports the other errors.
fn migrate<D: Design>(path: &Path, options: &Options) -> Result<(), Error> {
    while D::DURABLE && !options.migrations.is_empty() {
        let Some((layout_version, from)) = versions(path, options) else { break };
        if from >= options.layout_version {
            break;
        }
        let Some(step) = options.migrations.of(from) else { break };
        let to = from + 1;
        if layout_version == from {
            note(path, options, |now| (now.layout_version, now.migrating) = (to, to))?;
        }
        let now = Options { migrates: true, layout_version: to, ..options.clone() };
        let pool = Pool::<D>::open_migrated(path, &now)?;
        let mut worker = pool.worker()?;
        let mut goes_on = true;
        while goes_on {
            let stepped = worker.run(|tx| {
                let Migrated { version, progress } = tx.migrated()?;
                if version == to && !injected(Mutant::LastStepRepeated) {
                    return Ok(false); // before a crash
                }
                let next = step(&mut ErasedTx::new(tx), progress)?;
                tx.set_migrated(match next {
                    Some(progress) => Migrated { version, progress },
                    None => Migrated { version: to, progress: 0 },
                })?;
                Ok(next.is_some())
            });
            goes_on = stepped?.value;
        }
        drop(worker);
        pool.close()?;
        note(path, &now, |now| now.migrating = 0)?;
    }
    Ok(())
}

/// Returns the versions of a pool's layout and of its content, if the layout has this name.
fn versions(path: &Path, options: &Options) -> Option<(u64, u64)> {
    let survey = survey(path, &CheckOptions::new(), options).ok()?;
    let superblock = survey.superblock?;
    let (name, version) = survey.layout_found()?;
    (name == options.layout).then_some((version, superblock.content_version()))
}

fn survey(path: &Path, expected: &CheckOptions, options: &Options) -> Result<Survey, Error> {
    Survey::of(path, expected, |path| open_settled(&options.system, path))
}

/// Changes the superblock of a closed pool. Two persist barriers.
fn note(path: &Path, options: &Options, change: impl FnOnce(&mut Superblock)) -> Result<(), Error> {
    let expected = CheckOptions { layout: None, ..CheckOptions::from(options) };
    let mut found = survey(path, &expected, options)?.found()?;
    Ok(found.superblocks.update(change)?)
}
