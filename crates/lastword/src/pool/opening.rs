//! Opens pools. Before that, migrations give the content the layout version that the program
//! expects.
//!
//! ```text
//!                                       superblock: version   heap:     opened by
//!                                                             reached
//!   before                              1                     0 or 1    programs of version 1
//!   1  the migration is noted           2, migrating from 1   0 or 1    only this migration
//!   2  steps; each stores its progress  2, migrating from 1   0 or 1    only this migration
//!   3  the last step                    2, migrating from 1   2         only this migration
//!   4  the note is removed              2                     2         programs of version 2
//! ```
//!
//! The rows become durable in this order. The heap's version is 0 before the first migration. A
//! step and its progress are one transaction, and so are the last step and the version that it has
//! reached. So after a crash the migration continues with the first step that is not durable, and
//! no step takes effect twice. Without row 1, an older program would open data of both versions.

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
        let path = path.as_ref();
        options.check_role(D::NAME)?;
        loop {
            let seen = migrate::<D>(path, &options)?;
            match Pool::open_migrated(path, &options) {
                // Another process has migrated it meanwhile, or begun to.
                Err(Error::Layout { .. })
                    if seen.is_some() && seen != versions(path, &options)? => {}
                opened => return opened,
            }
        }
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
            // Another process may have created it meanwhile. Otherwise a file is in its way.
            Err(in_the_way @ Error::Medium(medium::Error::AlreadyExists { .. })) => {
                let opened = Pool::open_as(path, options);
                if opened.as_ref().is_err_and(missing) { Err(in_the_way) } else { opened }
            }
            created => created,
        }
    }
}

/// Runs the migrations that a pool needs, if the program has all of them. Returns the versions that
/// the pool then has, if it needs or needed some. Other errors are left to the opening that
/// follows.
///
/// Another process may open the pool between two calls here. So each change of the superblock
/// compares it, under the lock of the files, with the versions that this thread has read. If they
/// differ, the thread reads again. A step finds in its own transaction whether another process has
/// run the last one.
fn migrate<D: Design>(path: &Path, options: &Options) -> Result<Option<Versions>, Error> {
    let has = |from| options.migrations.of(from).is_some();
    if !D::DURABLE || options.migrations.is_empty() {
        return Ok(None);
    }
    loop {
        let Some(seen) = versions(path, options)? else { return Ok(None) };
        let (from, to) = (seen.content(), seen.content().saturating_add(1));
        if from >= options.layout_version || !(from..options.layout_version).all(has) {
            return Ok(Some(seen));
        }
        let noted = Versions { layout: to, migrating: to };
        if seen.migrating == 0 {
            // An opening that fails, for lack of memory for example, must leave the versions.
            match open_as_noted::<D>(path, options, seen) {
                Err(Error::Layout { .. }) => {} // another process has changed it
                opened => {
                    opened?.close()?;
                    note(path, options, seen, noted)?;
                }
            }
            continue;
        }
        if seen != noted {
            return Ok(Some(seen)); // no migration leaves these versions
        }
        let pool = match open_as_noted::<D>(path, options, noted) {
            Err(Error::Layout { .. }) => continue, // another process has changed it
            opened => opened?,
        };
        let done = pool.run_steps(from, options);
        // The steps so far stay, and are durable.
        let closed = pool.close();
        done?;
        closed?;
        note(path, options, noted, Versions { layout: to, migrating: 0 })?;
    }
}

/// The layout version in a superblock, and its note of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Versions {
    layout: u64,
    migrating: u64,
}

impl Versions {
    fn of(superblock: &Superblock) -> Versions {
        Versions { layout: superblock.layout_version, migrating: superblock.migrating }
    }

    /// Returns the version of the content.
    fn content(self) -> u64 {
        self.migrating.checked_sub(1).unwrap_or(self.layout)
    }
}

/// Returns the versions of a pool, if its layout has the expected name.
///
/// # Errors
/// The pool is in use.
fn versions(path: &Path, options: &Options) -> Result<Option<Versions>, Error> {
    let survey = match survey(path, &CheckOptions::new(), options) {
        Err(error @ Error::Medium(medium::Error::InUse { .. })) => return Err(error),
        Err(_) => return Ok(None),
        Ok(survey) => survey,
    };
    let layout = options.layout_padded()?;
    let same = survey.superblock.filter(|superblock| superblock.layout == layout);
    Ok(same.map(|superblock| Versions::of(&superblock)))
}

fn survey(path: &Path, expected: &CheckOptions, options: &Options) -> Result<Survey, Error> {
    Survey::of(path, expected, |path| open_settled(&options.system, path))
}

/// Opens a pool that has these versions.
fn open_as_noted<D: Design>(
    path: &Path,
    options: &Options,
    versions: Versions,
) -> Result<Pool<D>, Error> {
    let migrates = versions.migrating != 0;
    let now = Options { migrates, layout_version: versions.layout, ..options.clone() };
    Pool::open_migrated(path, &now)
}

/// Changes the versions in the superblock of a closed pool, if they are still these. Two persist
/// barriers.
fn note(path: &Path, options: &Options, seen: Versions, next: Versions) -> Result<(), Error> {
    let expected = CheckOptions { layout: None, migrates: true, ..CheckOptions::from(options) };
    let mut found = survey(path, &expected, options)?.found()?;
    if Versions::of(found.superblocks.current()) == seen {
        found.superblocks.update(|now| {
            (now.layout_version, now.migrating) = (next.layout, next.migrating);
        })?;
    }
    Ok(())
}

impl<D: Design> Pool<D> {
    /// Runs the steps of a migration from this version that are left.
    fn run_steps(&self, from: u64, options: &Options) -> Result<(), Error> {
        let step = options.migrations.of(from).expect("the caller has looked for it");
        let mut worker = self.worker()?;
        let mut goes_on = true;
        while goes_on {
            let stepped = worker.run(|tx| {
                let Migrated { version, progress } = tx.migrated()?;
                if version > from && !injected(Mutant::LastStepRepeated) {
                    return Ok(false); // done before a crash, or by another process
                }
                let next = step(&mut ErasedTx::new(tx), progress)?;
                tx.set_migrated(match next {
                    Some(progress) => Migrated { version, progress },
                    None => Migrated { version: from + 1, progress: 0 },
                })?;
                Ok(next.is_some())
            });
            goes_on = match stepped {
                Ok(done) => done.value,
                Err(source) => return Err(Error::Migration { from, source: Box::new(source) }),
            };
        }
        Ok(())
    }
}
