//! The files of a pool as words: made once, changed, written, and restored.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lastword::{
    Array, Decoupled, Design, Medium, Objects, Options, Pool, Ptr, Redo, Snapshot, Undo,
};
use tempfile::TempDir;

use super::seal;

/// The pool's ID, fixed so that equal inputs give equal files.
const POOL: u64 = 0x0123_4567_89ab_cdef;
/// Start of the heap in every pool on files, and of the log in a mapped one.
const AREA: u64 = 2 << 20;
const LOG_BYTES: u64 = 128 << 10;
/// Start of the log in its own file.
const LOG_OFFSET: u64 = 8192;

/// A pool to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The design that has written it: `decoupled`, `undo`, `redo` or `snapshot`.
    pub design: &'static str,
    /// Whether the log is in the pool's own file.
    pub mapped: bool,
    /// Whether it was shut down cleanly; else its log is to be replayed.
    pub clean: bool,
}

impl Kind {
    /// The kinds whose log has groups.
    pub const GROUPS: [Kind; 4] = Kind::of("decoupled");

    const fn of(design: &'static str) -> [Kind; 4] {
        [
            Kind { design, mapped: false, clean: false },
            Kind { design, mapped: false, clean: true },
            Kind { design, mapped: true, clean: false },
            Kind { design, mapped: true, clean: true },
        ]
    }

    /// Returns all kinds, four of each design.
    pub fn all() -> impl Iterator<Item = Kind> {
        ["decoupled", "undo", "redo", "snapshot"].into_iter().flat_map(Kind::of)
    }

    /// Whether the log has a slot for each worker.
    pub fn has_slots(self) -> bool {
        self.design != "decoupled"
    }
}

/// Returns the options of such a pool, without background work, whose timing could differ.
pub fn options() -> Options {
    let options = Options::new().bytes(256 << 10).log_bytes(LOG_BYTES).ring_entries(1 << 10);
    // A checksum of a page would hide the words that it covers.
    options.background(false).page_checksums(false)
}

/// A pool's files in a directory of their own, original and changed.
#[derive(Debug)]
pub struct Files {
    dir: TempDir,
    kind: Kind,
    /// The parts that are not zeros, of both files.
    sound: Vec<Part>,
    /// The same, changed.
    pub parts: Vec<Part>,
    /// Bytes of the pool's file and of the log's own.
    lengths: [u64; 2],
}

/// A part of a file that is not zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// 0: the pool's file; 1: the log's own.
    pub file: usize,
    /// Its first byte.
    pub at: u64,
    /// Its content.
    pub words: Vec<u64>,
    /// Its kind.
    pub area: Area,
}

/// The kind of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The two copies of a superblock, or of a log's head.
    Copies,
    /// Groups.
    Log,
    /// The heap image.
    Heap,
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    bytes.chunks_exact(8).map(word).collect()
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Files {
    /// Makes a pool with some transactions in it, in the temporary directory, or in memory if the
    /// system has such a place.
    ///
    /// # Panics
    /// When it cannot.
    pub fn make(kind: Kind) -> Files {
        let works = "a small pool can be made";
        let in_memory = tempfile::tempdir_in("/dev/shm");
        let dir = in_memory.or_else(|_| tempfile::tempdir()).expect(works);
        let path = dir.path().join("test.pool");
        let medium = match kind.mapped {
            true => Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 },
            false => Medium::File,
        };
        let Filled { create, fill } = Filled::by(kind.design);
        create(&path, options().medium(medium));
        let mut files = Files { dir, kind, sound: vec![], parts: vec![], lengths: [0; 2] };
        files.read();
        for part in files.parts.iter_mut().filter(|part| part.area == Area::Copies) {
            for copy in [0, 512] {
                part.words[copy + 3] = POOL;
                seal::block(&mut part.words[copy..]);
            }
        }
        files.write(&[], false);
        fill(&path, kind.clean);
        files.read();
        files.sound.clone_from(&files.parts);
        files
    }

    /// The pool's file.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("test.pool")
    }

    /// Returns the path of the log's own file, which may not exist.
    pub fn log_path(&self) -> PathBuf {
        self.dir.path().join("test.pool.log")
    }

    /// Returns the kind of the original pool.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the part with the log's groups.
    pub fn log(&mut self) -> &mut Part {
        self.parts.iter_mut().find(|part| part.area == Area::Log).expect("each pool has a log")
    }

    /// Returns the heap image.
    pub fn heap(&mut self) -> &mut Part {
        self.parts.iter_mut().find(|part| part.area == Area::Heap).expect("each pool has a heap")
    }

    /// Returns the copies in the pool's file (0) or the log's own (1).
    pub fn copies(&mut self, file: usize) -> &mut Part {
        let mut parts = self.parts.iter_mut();
        let copies = parts.find(|part| part.file == file && part.area == Area::Copies);
        copies.expect("an existing file has copies")
    }

    /// Undoes every change.
    pub fn reset(&mut self) {
        self.parts.clone_from(&self.sound);
    }

    /// Returns the words of a block of the log, to which groups are padded.
    pub fn unit_words(&self) -> usize {
        if self.kind.mapped { 8 } else { 512 }
    }

    /// Fixes the checksums.
    pub fn seal(&mut self) {
        let unit = self.unit_words();
        for part in &mut self.parts {
            match part.area {
                Area::Copies => {
                    seal::block(&mut part.words);
                    seal::block(&mut part.words[512..]);
                }
                Area::Log => seal::groups(&mut part.words, unit),
                Area::Heap => {}
            }
        }
    }

    /// Writes the changed files. `lengths` sets other lengths of files, and `no_log` removes the
    /// log's own.
    ///
    /// # Panics
    /// When it cannot.
    pub fn write(&self, lengths: &[(usize, u64)], no_log: bool) {
        for file in 0..self.lengths.len() {
            let path = [self.path(), self.log_path()][file].clone();
            let mut length = self.lengths[file];
            if length == 0 || (file == 1 && no_log) {
                let _ = std::fs::remove_file(path);
                continue;
            }
            let to = open(&path).expect("the directory exists");
            for part in self.parts.iter().filter(|part| part.file == file) {
                to.write_all_at(&bytes(&part.words), part.at).expect("the disk has room");
            }
            for &(_, other) in lengths.iter().filter(|(of, _)| *of == file) {
                length = other;
            }
            to.set_len(length).expect("the disk has room");
        }
    }

    /// Reads the files from disk.
    ///
    /// # Panics
    /// When it cannot.
    pub fn read(&mut self) {
        let (log_file, log_at) = if self.kind.mapped { (0, AREA) } else { (1, LOG_OFFSET) };
        let heap_at = if self.kind.mapped { 2 * AREA } else { AREA };
        let heads = if self.kind.mapped { None } else { Some((1, 0, LOG_OFFSET, Area::Copies)) };
        let areas = [
            Some((0, 0, LOG_OFFSET, Area::Copies)),
            heads,
            Some((log_file, log_at, LOG_BYTES, Area::Log)),
            Some((0, heap_at, 256 << 10, Area::Heap)),
        ];
        self.parts.clear();
        for (file, at, length, area) in areas.into_iter().flatten() {
            let path = [self.path(), self.log_path()][file].clone();
            let from = open(&path).expect("the file exists");
            self.lengths[file] = from.metadata().expect("the file exists").len();
            let mut found = vec![0; length as usize];
            from.read_exact_at(&mut found, at).expect("the file contains its areas");
            self.parts.push(Part { file, at, words: words(&found), area });
        }
    }

    /// Returns the original length of the pool's file (0) or the log's own (1).
    pub fn length(&self, file: usize) -> u64 {
        self.lengths[file]
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

/// The steps that make a pool, under one design.
struct Filled {
    create: fn(&Path, Options),
    fill: fn(&Path, bool),
}

impl Filled {
    fn by(design: &str) -> Filled {
        match design {
            "undo" => Filled { create: create::<Undo>, fill: fill::<Undo> },
            "redo" => Filled { create: create::<Redo>, fill: fill::<Redo> },
            "snapshot" => Filled { create: create::<Snapshot>, fill: fill::<Snapshot> },
            _ => Filled { create: create::<Decoupled>, fill: fill::<Decoupled> },
        }
    }
}

fn create<D: Design>(path: &Path, options: Options) {
    let works = "a small pool can be made";
    Pool::<D>::create_as(path, options).expect(works).close().expect(works);
}

/// Runs some transactions: a root, objects allocated and freed, an array; each in its own group.
fn fill<D: Design>(path: &Path, clean: bool) {
    let works = "a small pool has room for a few objects";
    let pool = Pool::<D>::open_as(path, options()).expect(works);
    let cells = pool.run(|tx| Array::<u64>::create(tx, 40)).expect(works).value;
    let root = pool.run(|tx| {
        let root = tx.alloc([0_u64; 4])?;
        tx.set_root_ptr(root)?;
        Ok(root)
    });
    let root: Ptr<[u64; 4]> = root.expect(works).value;
    // Reproduce these; the log also still holds them.
    pool.checkpoint().expect(works);
    for n in 0..12_u64 {
        let done = pool.run(|tx| {
            let before = tx.get(root)?;
            let object = tx.alloc([n; 5])?;
            if n % 3 == 2 {
                tx.free(Ptr::<[u64; 5]>::from_bits(before[1]))?;
            }
            tx.set(cells.at(n)?, n)?;
            tx.set(root, [before[0], object.to_bits(), before[1], n])
        });
        done.expect(works).ticket.wait().expect(works);
    }
    if clean { pool.close().expect(works) } else { pool.abandon() }
}
