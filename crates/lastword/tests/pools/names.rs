//! Pool files that are removed, renamed or replaced while the pool is open.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lastword::{
    Decoupled, Design, Durability, Error, LostName, Medium, Objects, Options, Pool, Ptr, Snapshot,
    Volatile,
};

pub(super) const EMULATED: Medium =
    Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

pub(super) fn options(medium: Medium) -> Options {
    Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 12).medium(medium)
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A pool of one counter, in a directory of its own.
pub(super) struct Counter<D: Design> {
    pub(super) dir: tempfile::TempDir,
    pub(super) path: PathBuf,
    pub(super) pool: Pool<D>,
    pub(super) count: Ptr<u64>,
}

impl<D: Design> Counter<D> {
    pub(super) fn new(options: Options) -> Counter<D> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.pool");
        let pool = Pool::<D>::create_as(&path, options).unwrap();
        let made = pool.run(|tx| {
            let count = tx.alloc(0_u64)?;
            tx.set_root_ptr(count)?;
            Ok(count)
        });
        let count = made.unwrap().value;
        pool.flush().unwrap();
        Counter { dir, path, pool, count }
    }

    /// Increments the counter and waits for the ticket.
    pub(super) fn add(&self) -> Result<(), Error> {
        let count = self.count;
        self.pool.run(|tx| tx.update(count, |count| count + 1))?.ticket.wait()
    }

    /// Returns the value of the counter, which a read may always see.
    fn get(&self) -> u64 {
        let mut worker = self.pool.worker().unwrap();
        worker.read(|tx| tx.get(self.count)).unwrap().value
    }

    /// Returns the pool's files that exist. Mapped pools have no log file.
    fn files(&self) -> Vec<PathBuf> {
        let files = [self.path.clone(), with_suffix(&self.path, ".log")];
        files.into_iter().filter(|path| path.exists()).collect()
    }
}

pub(super) fn counted<D: Design>(path: &Path, options: Options) -> u64 {
    let pool = Pool::<D>::open_as(path, options).unwrap();
    let read = pool.worker().unwrap().read(|tx| {
        let count = tx.root_ptr::<u64>()?;
        tx.get(count)
    });
    let count = read.unwrap().value;
    pool.close().unwrap();
    count
}

/// Copies each removed file from the descriptor that the error names into the directory `to`.
/// Returns the number of files.
fn rescue(error: &Error, to: &Path) -> usize {
    let Error::NameLost { files, .. } = error else { panic!("{error}") };
    let mut copied = 0;
    for lost in files {
        let LostName::Unlinked { descriptor: Some(descriptor) } = lost.how else { continue };
        let content = format!("/proc/{}/fd/{descriptor}", std::process::id());
        assert!(error.to_string().contains(&content), "{error}");
        fs::copy(content, to.join(lost.path.file_name().unwrap())).unwrap();
        copied += 1;
    }
    copied
}

/// All files are removed. Every later call reports it, transactions that write are refused, and
/// copies of the files hold every transaction.
fn removed<D: Design>(options: &Options) {
    let counter = Counter::<D>::new(options.clone());
    let files = counter.files();
    (0..5).for_each(|_| counter.add().unwrap());
    for file in &files {
        fs::remove_file(file).unwrap();
    }
    let lost = counter.pool.flush().unwrap_err();
    let text = lost.to_string();
    assert!(text.contains("test.pool was removed") && text.contains("copy"), "{text}");
    assert!(matches!(counter.pool.checkpoint(), Err(Error::NameLost { .. })));
    for _ in 0..3 {
        assert!(matches!(counter.add(), Err(Error::NameLost { .. })));
    }
    assert_eq!(counter.get(), 5, "a refused transaction has no effect");
    assert!(counter.pool.flush().is_err() && counter.pool.is_deleted());
    let copies = tempfile::tempdir().unwrap();
    assert_eq!(rescue(&lost, copies.path()), files.len());
    assert_eq!(counted::<D>(&copies.path().join("test.pool"), options.clone()), 5);
    let Counter { pool, dir, path, .. } = counter;
    let closed = pool.close().unwrap_err();
    assert_eq!(rescue(&closed, dir.path()), files.len());
    assert!(lastword::inspect(&path).unwrap().clean, "{closed}");
    assert_eq!(counted::<D>(&path, options.clone()), 5);
}

/// A copy replaces one of the files, first after the file was renamed, then by a rename over it.
fn replaced<D: Design>(options: &Options) {
    for number in 0..2 {
        let counter = Counter::<D>::new(options.clone());
        counter.add().unwrap();
        let Some(file) = counter.files().get(number).cloned() else { continue };
        let (copy, aside) = (with_suffix(&file, ".copy"), with_suffix(&file, ".aside"));
        fs::copy(&file, &copy).unwrap();
        fs::rename(&file, &aside).unwrap();
        // A renamed file still has a name, so no data is at risk and no error is due.
        counter.pool.flush().unwrap();
        counter.add().unwrap();
        assert!(!counter.pool.is_deleted());
        fs::rename(&copy, &file).unwrap();
        let lost = counter.pool.flush().unwrap_err();
        let Error::NameLost { files, closed: false } = &lost else { panic!("{lost}") };
        assert_eq!((files.len(), &files[0].path, files[0].how), (1, &file, LostName::Replaced));
        assert!(matches!(counter.add(), Err(Error::NameLost { .. })));
        assert!(counter.pool.is_deleted());
        // The original file is back under its name, so the errors end.
        fs::rename(&aside, &file).unwrap();
        assert!(!counter.pool.is_deleted());
        counter.add().unwrap();
        counter.pool.flush().unwrap();
        // The copy is renamed over the file, which then has no name.
        fs::copy(&file, &copy).unwrap();
        fs::rename(&copy, &file).unwrap();
        let lost = counter.pool.flush().unwrap_err();
        assert_eq!(rescue(&lost, counter.dir.path()), 1);
        let closed = counter.pool.close().unwrap_err();
        assert_eq!(rescue(&closed, counter.dir.path()), 1);
        assert_eq!(counted::<D>(&counter.path, options.clone()), 3);
    }
}

/// Tickets notice the removal themselves, without a flush: waiting, awaited and as callbacks.
fn tickets<D: Design>(options: &Options) {
    let counter = Counter::<D>::new(options.clone());
    let count = counter.count;
    let done = counter.pool.run(|tx| tx.update(count, |count| count + 1)).unwrap();
    counter.files().iter().for_each(|file| fs::remove_file(file).unwrap());
    let lost = (0..2_000).find_map(|_| counter.add().err());
    assert!(matches!(lost, Some(Error::NameLost { .. })), "{lost:?}");
    let (sender, receiver) = mpsc::channel();
    done.ticket.on_durable(move |outcome| drop(sender.send(outcome))).unwrap();
    let mut awaited = Box::pin(done.ticket.into_future());
    let outcome = loop {
        match awaited.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => break outcome,
            Poll::Pending => std::thread::yield_now(),
        }
    };
    drop(awaited);
    for outcome in [outcome, receiver.recv().unwrap()] {
        assert!(matches!(outcome, Err(Error::NameLost { .. })), "{outcome:?}");
    }
    assert!(counter.pool.close().is_err());
    let sync = Counter::<D>::new(options.clone().durability(Durability::Sync));
    sync.files().iter().for_each(|file| fs::remove_file(file).unwrap());
    let count = sync.count;
    let add = |_| sync.pool.run(|tx| tx.update(count, |count| count + 1)).err();
    assert!(matches!((0..2_000).find_map(add), Some(Error::NameLost { .. })));
}

/// The program keeps no ticket and never flushes. The pool finds the removal itself.
fn unwatched<D: Design>(options: &Options) {
    let counter = Counter::<D>::new(options.clone());
    counter.files().iter().for_each(|file| fs::remove_file(file).unwrap());
    let begun = Instant::now();
    let (count, mut worker) = (counter.count, counter.pool.worker().unwrap());
    let lost = loop {
        match worker.run(|tx| tx.update(count, |count| count + 1)) {
            Ok(_) => assert!(begun.elapsed() < Duration::from_secs(60), "it is never found"),
            Err(error) => break error,
        }
    };
    assert!(matches!(lost, Error::NameLost { .. }), "{lost}");
    let begun = worker.begin(false).map(drop);
    assert!(matches!(begun, Err(Error::NameLost { .. })), "{begun:?}");
    drop(worker.begin(true).unwrap());
}

/// A backup under the old name saves a pool whose files were removed.
fn saved<D: Design>(options: &Options) {
    let counter = Counter::<D>::new(options.clone());
    (0..5).for_each(|_| counter.add().unwrap());
    let count = counter.count;
    let done = counter.pool.run(|tx| tx.update(count, |count| count + 1)).unwrap();
    counter.files().iter().for_each(|file| fs::remove_file(file).unwrap());
    assert!(counter.pool.flush().is_err());
    // Committed and not awaited before the removal: it is in the files, in views and backups.
    assert!(done.ticket.is_durable());
    let view = counter.pool.view().unwrap();
    assert_eq!(view.read(|tx| tx.get(count)).unwrap(), 6);
    drop(view);
    let id = counter.pool.backup(&counter.path).unwrap();
    assert_eq!(id, done.ticket.id());
    let Counter { pool, path, dir, .. } = counter;
    assert!(matches!(pool.close(), Err(Error::NameLost { closed: true, .. })));
    assert_eq!(counted::<D>(&path, options.clone()), 6);
    drop(dir);
}

fn each(test: impl Fn(&Options)) {
    for medium in [Medium::File, Medium::PersistentCache, EMULATED] {
        test(&options(medium));
    }
}

fn each_removed<D: Design>() {
    each(removed::<D>);
}

fn each_replaced<D: Design>() {
    each(replaced::<D>);
}

fn each_tickets<D: Design>() {
    each(tickets::<D>);
}

#[test]
fn removed_files_are_reported_and_can_be_copied() {
    every_durable!(each_removed());
}

#[test]
fn replaced_files_are_reported_and_renamed_ones_are_not() {
    every_durable!(each_replaced());
}

#[test]
fn tickets_report_removed_files_without_a_flush() {
    every_durable!(each_tickets());
    tickets::<Snapshot>(&options(Medium::File).group(4));
    tickets::<Decoupled>(&options(Medium::File).group(4));
}

fn each_unwatched<D: Design>() {
    each(unwatched::<D>);
}

#[test]
fn removed_pool_refuses_writes_without_tickets() {
    every_durable!(each_unwatched());
    unwatched::<Snapshot>(&options(Medium::File).group(4));
}

fn each_saved<D: Design>() {
    each(saved::<D>);
}

#[test]
fn backup_saves_pool_whose_files_were_removed() {
    every_durable!(each_saved());
    each(|options| saved::<Decoupled>(&options.clone().background(false)));
}

#[test]
fn pool_is_deleted_on_disk_and_in_memory() {
    let disk = std::env::current_dir().unwrap().join(env!("CARGO_TARGET_TMPDIR"));
    for parent in [&*disk, Path::new("/dev/shm")] {
        let Ok(dir) = tempfile::tempdir_in(parent) else { continue };
        let (path, aside) = (dir.path().join("pool"), dir.path().join("aside"));
        let pool = Pool::create(&path, options(Medium::File)).unwrap();
        assert!(!pool.is_deleted());
        fs::rename(&path, &aside).unwrap();
        assert!(!pool.is_deleted(), "a renamed file has a name");
        fs::write(&path, "another file").unwrap();
        assert!(pool.is_deleted(), "another file has its name");
        fs::rename(&aside, &path).unwrap();
        assert!(!pool.is_deleted());
        let log = with_suffix(&path, ".log");
        fs::hard_link(&log, &aside).unwrap();
        fs::remove_file(&log).unwrap();
        assert!(!pool.is_deleted(), "a second name leads to the file");
        fs::remove_file(&aside).unwrap();
        assert!(pool.is_deleted());
        let lost = pool.close().unwrap_err();
        assert!(matches!(lost, Error::NameLost { closed: true, .. }), "{lost}");
    }
    assert!(!Pool::<Volatile>::create_as("", options(Medium::File)).unwrap().is_deleted());
}
