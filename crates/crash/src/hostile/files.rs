//! The files of a pool, as words: made once, changed, written, and put back.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lastword::{Array, Medium, Objects, Options, Pool, Ptr};
use tempfile::TempDir;

use super::seal;

/// The pool's ID, so that the same input is the same files.
const POOL: u64 = 0x0123_4567_89ab_cdef;
/// Where the heap begins in every pool that is on files, and the log in one that is mapped.
const AREA: u64 = 2 << 20;
const LOG_BYTES: u64 = 128 << 10;
/// Where the log begins in its own file.
const LOG_OFFSET: u64 = 8192;

/// A pool to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Whether the log is in the pool's own file.
    pub mapped: bool,
    /// Whether it was closed in good order; else its log waits to be replayed.
    pub clean: bool,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [
        Kind { mapped: false, clean: false },
        Kind { mapped: false, clean: true },
        Kind { mapped: true, clean: false },
        Kind { mapped: true, clean: true },
    ];
}

/// Options of such a pool: nothing happens in the background, so that nothing depends on time.
pub fn options() -> Options {
    let options = Options::new().bytes(256 << 10).log_bytes(LOG_BYTES).ring_entries(1 << 10);
    options.background(false)
}

/// A pool's files in a directory of their own: what they were, and what they are to be.
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
    /// What is there.
    pub words: Vec<u64>,
    /// What it is.
    pub area: Area,
}

/// What a part of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The two copies of a superblock, or of a log's head.
    Copies,
    /// Groups.
    Log,
    /// Home.
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
    /// Makes a pool with some transactions in it, below the system's directory for such things, or
    /// in memory where there is a place for that.
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
        Pool::create(&path, options().medium(medium)).expect(works).close().expect(works);
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

    /// The log's own file, whether there is one or not.
    pub fn log_path(&self) -> PathBuf {
        self.dir.path().join("test.pool.log")
    }

    /// What it began as.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The part of the file with the log that has the groups.
    pub fn log(&mut self) -> &mut Part {
        self.parts.iter_mut().find(|part| part.area == Area::Log).expect("each pool has one")
    }

    /// The heap at home.
    pub fn heap(&mut self) -> &mut Part {
        self.parts.iter_mut().find(|part| part.area == Area::Heap).expect("each pool has one")
    }

    /// The copies in the pool's file (0) or the log's own (1).
    pub fn copies(&mut self, file: usize) -> &mut Part {
        let mut parts = self.parts.iter_mut();
        let copies = parts.find(|part| part.file == file && part.area == Area::Copies);
        copies.expect("a file that is there has them")
    }

    /// Forgets every change.
    pub fn reset(&mut self) {
        self.parts.clone_from(&self.sound);
    }

    /// Words of a block of the log, which groups are padded to.
    pub fn unit_words(&self) -> usize {
        if self.kind.mapped { 8 } else { 512 }
    }

    /// Puts the checksums right again.
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

    /// Writes the files as they are to be; `lengths` are other lengths of files, and `no_log`
    /// leaves the log's own away.
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
            let to = open(&path).expect("the directory is there");
            for part in self.parts.iter().filter(|part| part.file == file) {
                to.write_all_at(&bytes(&part.words), part.at).expect("there is room");
            }
            for &(_, other) in lengths.iter().filter(|(of, _)| *of == file) {
                length = other;
            }
            to.set_len(length).expect("there is room");
        }
    }

    /// Reads the files as they are.
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
            let from = open(&path).expect("it is there");
            self.lengths[file] = from.metadata().expect("it is there").len();
            let mut found = vec![0; length as usize];
            from.read_exact_at(&mut found, at).expect("it is as long as its areas");
            self.parts.push(Part { file, at, words: words(&found), area });
        }
    }

    /// Length of the pool's file (0) or the log's own (1), as it was.
    pub fn length(&self, file: usize) -> u64 {
        self.lengths[file]
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

/// Some transactions: a root, objects that come and go, an array; each a group of its own.
fn fill(path: &Path, clean: bool) {
    let works = "a small pool has room for a few objects";
    let pool = Pool::open(path, options()).expect(works);
    let cells = pool.run(|tx| Array::<u64>::create(tx, 40)).expect(works).value;
    let root = pool.run(|tx| {
        let root = tx.alloc([0_u64; 4])?;
        tx.set_root_ptr(root)?;
        Ok(root)
    });
    let root: Ptr<[u64; 4]> = root.expect(works).value;
    // At home already, whatever is in the log.
    pool.bring_home().expect(works);
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
