//! Recorded machine: boots, names, crash points and choices.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::Choose;
use super::lines::Lines;
use super::sectors::Inode;

/// Subject of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ask {
    /// Power failure at a crash point. 1: the power fails. 2, if enabled: the process is killed.
    Crash,
    /// Contents of a sector, a line or a length that was read: one of its possible contents, the
    /// oldest first.
    Content,
    /// Value of a word that was stored past the cache: 0: the old value; else a stored value, in
    /// order.
    Word,
    /// Whether the creation, renaming or removal of a name is durable. 1: it is.
    Name,
    /// Whether a call fails. 1: it does; 2, for a write: it ends early.
    Fault,
    /// Next of the writes in flight to complete; for a caller that does not wait, the last is none.
    Completion,
    /// Choices of the tester itself: the next step, the operations of a transaction.
    Tester,
}

/// Choice with at least two options.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Subject of the choice.
    pub ask: Ask,
    /// Number of options.
    pub options: usize,
    /// Whether it concerns the last write before the power failure.
    pub newest: bool,
}

/// Choices to explore, beyond crashes before barriers and contents after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Crashes that may still come.
    pub crashes: usize,
    /// Kills of the process that may still come.
    pub kills: usize,
    /// Crash points at every store and every write, not only before barriers; to see that they
    /// find nothing more.
    pub every_store: bool,
    /// Each word that was stored past the cache is lost or kept by itself; else a line's are lost
    /// and kept together, or in halves.
    pub every_word: bool,
    /// Calls that may still fail.
    pub faults: usize,
    /// Whether a failed call keeps failing.
    pub sticky: bool,
    /// Sectors that were being written durably may hold garbage (A7).
    pub garbage: bool,
    /// Whether files are written by several writes in flight, as io_uring does it.
    pub queue: bool,
    /// Whether the file system takes direct writes (it takes direct reads).
    pub direct: bool,
    /// Whether a write can be asked to be durable when it returns (`RWF_DSYNC`).
    pub dsync: bool,
    /// Whether files can be renamed without overwriting, and linked; exFAT and much of FUSE cannot.
    pub naming: bool,
}

impl Model {
    /// Injects no further crashes or faults.
    pub fn calm(&mut self) {
        (self.crashes, self.kills, self.faults) = (0, 0, 0);
    }
}

impl Default for Model {
    fn default() -> Model {
        Model {
            crashes: 1,
            kills: 0,
            every_store: false,
            every_word: true,
            faults: 0,
            sticky: false,
            garbage: false,
            queue: true,
            direct: true,
            dsync: true,
            naming: true,
        }
    }
}

/// The files of a machine, cheap to copy.
#[derive(Clone, Default)]
pub struct Image {
    names: BTreeMap<PathBuf, usize>,
    inodes: Vec<Inode>,
    digest: u64,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Reason that a call fails.
#[derive(Debug)]
pub(super) enum Halt {
    /// The power went.
    Crash,
    /// The call fails.
    Errno(Errno),
}

impl From<Errno> for Halt {
    fn from(errno: Errno) -> Halt {
        Halt::Errno(errno)
    }
}

/// A change of names that is not durable yet (A9).
#[derive(Clone, Debug)]
enum Naming {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf, usize),
}

pub(super) struct Machine {
    chooser: Box<dyn Choose>,
    pub(super) model: Model,
    boot: u64,
    /// Something may be lost that could not be at the last crash point.
    changed: bool,
    /// A sticky fault has begun.
    broken: bool,
    /// Calls that have failed.
    pub(super) failed: u64,
    /// How often the power went.
    pub(super) cuts: u64,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    namings: Vec<Naming>,
    inodes: Vec<Inode>,
    pub(super) lines: Lines,
    digest: u64,
    handles: u64,
    randoms: u64,
    /// Counts writes: their times.
    writes: u64,
    /// The time of the last write before the last crash.
    last_written: u64,
}

impl Machine {
    pub(super) fn new(image: &Image, model: Model, chooser: Box<dyn Choose>) -> Machine {
        Machine {
            chooser,
            model,
            boot: 0,
            changed: false,
            broken: false,
            failed: 0,
            cuts: 0,
            names: image.names.clone(),
            durable_names: image.names.clone(),
            namings: Vec::new(),
            inodes: image.inodes.clone(),
            lines: Lines::default(),
            digest: image.digest,
            handles: 0,
            randoms: 0,
            writes: 0,
            last_written: 0,
        }
    }

    pub(super) fn image(&self) -> Image {
        assert!(self.namings.is_empty(), "a name is in flight");
        assert!(self.inodes.iter().all(Inode::is_settled), "a write to a file is in flight");
        assert!(self.lines.is_settled(), "a store to a line is in flight");
        let mut inodes = self.inodes.clone();
        inodes.iter_mut().for_each(Inode::exit);
        Image { names: self.names.clone(), inodes, digest: self.digest }
    }

    pub(super) fn rest(&mut self) {
        (0..self.inodes.len()).for_each(|number| self.settle_lines(number));
    }

    pub(super) fn boot(&self) -> u64 {
        self.boot
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// Notes that durable content has changed.
    pub(super) fn digested<T: Hash + PartialEq>(&mut self, place: impl Hash, from: T, to: T) {
        if from != to {
            self.digest ^= hash((&place, from)) ^ hash((&place, to));
        }
    }

    /// Returns a number that is the same on another machine with the same execution.
    pub(super) fn random(&mut self) -> u64 {
        self.randoms += 1;
        hash((self.randoms, "random"))
    }

    /// A number for a handle.
    pub(super) fn handle(&mut self) -> u64 {
        self.handles += 1;
        self.handles
    }

    /// Asks the chooser if more than one option exists.
    pub(super) fn choose(&mut self, ask: Ask, options: usize) -> usize {
        self.choose_about(ask, options, 0)
    }

    /// Asks about something that was written at this time.
    pub(super) fn choose_about(&mut self, ask: Ask, options: usize, written: u64) -> usize {
        if options < 2 {
            return 0;
        }
        let newest = written > 0 && written == self.last_written;
        let chosen = self.chooser.choose(Question { ask, options, newest });
        assert!(chosen < options, "{ask:?} has {options} options, not {chosen}");
        chosen
    }

    /// Reports an event, if the chooser listens.
    pub(super) fn trace(&mut self, message: impl FnOnce(&mut dyn FnMut(fmt::Arguments<'_>))) {
        if self.chooser.listens() {
            message(&mut |text| self.chooser.hear(text));
        }
    }

    /// The time of a write.
    pub(super) fn tick(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    /// Something may be lost from here on.
    pub(super) fn changed(&mut self) {
        self.changed = true;
    }

    /// Crash point after a store or a write, for models that explore every one of them.
    pub(super) fn after_store(&mut self) -> Result<(), Halt> {
        if self.model.every_store { self.before_barrier() } else { Ok(()) }
    }

    /// Crash point before a barrier. Between two of these the set of possible states only grows, so
    /// none in between is needed.
    pub(super) fn before_barrier(&mut self) -> Result<(), Halt> {
        if self.changed && self.crash_point() { Err(Halt::Crash) } else { Ok(()) }
    }

    /// Whether the power goes, or the process is killed, now.
    pub(super) fn crash_point(&mut self) -> bool {
        self.changed = false;
        let Model { crashes, kills, .. } = self.model;
        let options = 1 + usize::from(crashes > 0) + usize::from(kills > 0);
        match self.choose(Ask::Crash, options) {
            0 => return false,
            1 if crashes > 0 => self.crash(),
            _ => {
                self.model.kills -= 1;
                self.exit();
            }
        }
        true
    }

    /// Which way a call fails: 0 it does not, 1 it fails, 2 (of `options` 3) it ends early.
    pub(super) fn fault(&mut self, options: usize) -> usize {
        if !self.broken && self.model.faults == 0 {
            return 0;
        }
        let fault = if self.broken { 1 } else { self.choose(Ask::Fault, options) };
        if fault > 0 {
            self.model.faults = self.model.faults.saturating_sub(1);
            self.broken = self.model.sticky && fault == 1;
        }
        self.failed += u64::from(fault == 1);
        fault
    }

    /// [`fault`](Machine::fault), where ending early makes no sense.
    pub(super) fn may_fail(&mut self) -> Result<(), Errno> {
        if self.fault(2) == 0 { Ok(()) } else { Err(Errno::IO) }
    }

    /// Cuts the power: durable contents stay; the rest is chosen when it is read.
    pub(super) fn crash(&mut self) {
        self.trace(|say| say(format_args!("the power goes")));
        self.boot += 1;
        self.cuts += 1;
        self.last_written = self.writes;
        self.model.crashes = self.model.crashes.saturating_sub(1);
        (self.changed, self.broken) = (false, false);
        // A9: each naming by itself. Few, so at once.
        for naming in std::mem::take(&mut self.namings) {
            let kept = self.choose(Ask::Name, 2) == 1;
            self.trace(|say| {
                say(format_args!("{} {naming:?}", if kept { "kept" } else { "lost" }))
            });
            if kept {
                apply(&mut self.durable_names, &naming);
            }
        }
        self.names = self.durable_names.clone();
        for number in 0..self.inodes.len() {
            self.with_inode(number, |machine, inode| inode.crash(machine));
        }
        for (number, inode) in self.inodes.iter().enumerate() {
            self.lines.cut(number, inode.bytes());
        }
        self.lines.crash();
    }

    /// The process ends.
    pub(super) fn exit(&mut self) {
        self.trace(|say| say(format_args!("the process ends")));
        self.boot += 1;
        self.broken = false;
        self.inodes.iter_mut().for_each(Inode::exit);
        self.lines.exit();
    }

    /// An inode and the machine, both to be changed.
    pub(super) fn with_inode<R>(
        &mut self,
        number: usize,
        change: impl FnOnce(&mut Machine, &mut Inode) -> R,
    ) -> R {
        let mut inode = std::mem::take(&mut self.inodes[number]);
        let answer = change(self, &mut inode);
        self.inodes[number] = inode;
        answer
    }

    pub(super) fn inode(&self, number: usize) -> &Inode {
        &self.inodes[number]
    }

    pub(super) fn find(&self, path: &Path) -> Option<usize> {
        self.names.get(path).copied()
    }

    pub(super) fn create(&mut self, path: &Path) -> usize {
        self.inodes.push(Inode::numbered(self.inodes.len()));
        let number = self.inodes.len() - 1;
        self.name(Naming::Create(path.into(), number));
        number
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        if !self.model.naming {
            return Err(Errno::INVAL);
        }
        if self.find(from).is_some() && self.names.contains_key(to) {
            return Err(Errno::EXIST);
        }
        self.replace(from, to)
    }

    /// Renames, over an existing name.
    pub(super) fn replace(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let number = self.find(from).ok_or(Errno::NOENT)?;
        self.name(Naming::Rename(from.into(), to.into(), number));
        Ok(())
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        if !self.model.naming {
            return Err(Errno::PERM);
        }
        let number = self.find(from).ok_or(Errno::NOENT)?;
        if self.names.contains_key(to) {
            return Err(Errno::EXIST);
        }
        self.name(Naming::Create(to.into(), number));
        Ok(())
    }

    pub(super) fn unlink(&mut self, path: &Path) -> Result<(), Errno> {
        let number = self.find(path).ok_or(Errno::NOENT)?;
        self.name(Naming::Remove(path.into(), number));
        Ok(())
    }

    fn name(&mut self, naming: Naming) {
        self.trace(|say| say(format_args!("{naming:?}")));
        apply(&mut self.names, &naming);
        self.namings.push(naming);
        self.changed();
    }

    /// The names in a directory are durable.
    pub(super) fn sync_names(&mut self, directory: &Path) {
        let inside = |path: &Path| match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => directory == Path::new("."),
            parent => parent.is_none_or(|parent| parent == directory),
        };
        let (durable, rest) = std::mem::take(&mut self.namings).into_iter().partition(|naming| {
            let (Naming::Create(path, _) | Naming::Rename(_, path, _) | Naming::Remove(path, _)) =
                naming;
            inside(path)
        });
        let durable: Vec<Naming> = durable;
        durable.iter().for_each(|naming| apply(&mut self.durable_names, naming));
        self.namings = rest;
    }
}

fn apply(names: &mut BTreeMap<PathBuf, usize>, naming: &Naming) {
    match naming {
        Naming::Create(path, number) => {
            names.insert(path.clone(), *number);
        }
        Naming::Rename(from, to, number) => {
            if names.get(from) == Some(number) {
                names.remove(from);
            }
            names.insert(to.clone(), *number);
        }
        Naming::Remove(path, number) => {
            if names.get(path) == Some(number) {
                names.remove(path);
            }
        }
    }
}

/// The same in every process: traces are replayed elsewhere.
pub(super) fn hash(what: impl Hash) -> u64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0 ^ self.0 >> 29
        }
        fn write(&mut self, bytes: &[u8]) {
            let mut words = bytes.chunks_exact(8);
            for word in words.by_ref() {
                self.write_u64(u64::from_le_bytes(word.try_into().expect("eight bytes")));
            }
            words.remainder().iter().for_each(|byte| self.write_u64(u64::from(*byte)));
        }
        fn write_u64(&mut self, word: u64) {
            self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    what.hash(&mut hasher);
    hasher.finish()
}

/// Contents without their doubles, in order.
pub(super) fn distinct<T: Ord + Clone>(contents: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    contents.into_iter().filter(|content| seen.insert(content.clone())).collect()
}
