//! Parser of the kernel's dm-log-writes, and the contents that the recorded block device may have
//! after a power cut.
//!
//! Format of the log in sectors, with little-endian numbers:
//!
//! ```text
//!   sector 0   magic | version | entries | bytes of a sector (4)
//!   then       entry: sector | sectors | flags | bytes of the mark | the mark     one sector
//!              its data                                                           `sectors`
//! ```
//!
//! A write with FUA is logged when it completes. Any other write is logged directly before the
//! flush that makes it durable, and it completed before that flush began. So the device may contain
//! after a power cut:
//! - any prefix of the log, if it lost every write that it need not keep;
//! - a prefix up to the writes of a flush plus any of those writes, if its cache was partly written
//!   back.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = 0x006a_736677736872;
const SECTOR_BYTES: usize = 512;
const ENTRY_BYTES: usize = 32;

const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;

/// One entry of the log.
#[derive(Debug)]
pub(crate) struct Entry {
    sector: u64,
    sectors: u64,
    flags: u64,
    /// Offset of the entry's data in the log.
    data_at: u64,
    pub(crate) mark: Option<String>,
}

impl Entry {
    fn read(log: &File, at: u64) -> io::Result<Entry> {
        let mut bytes = [0; SECTOR_BYTES];
        log.read_exact_at(&mut bytes, at)?;
        let (words, _) = bytes.as_chunks::<8>();
        let [sector, sectors, flags, mark_bytes] =
            std::array::from_fn(|i| u64::from_le_bytes(words[i]));
        let mark = (flags & MARK != 0).then(|| {
            let text = &bytes[ENTRY_BYTES..][..mark_bytes as usize];
            String::from_utf8_lossy(text).trim_end_matches('\0').to_owned()
        });
        Ok(Entry { sector, sectors, flags, data_at: at + SECTOR_BYTES as u64, mark })
    }

    /// Returns the offset of the next entry.
    fn end(&self) -> u64 {
        let data = if self.flags & DISCARD != 0 { 0 } else { self.sectors * SECTOR_BYTES as u64 };
        self.data_at + data
    }

    /// Whether this is a write that only the next flush makes durable.
    fn is_in_cache(&self) -> bool {
        self.flags & (FLUSH | FUA | DISCARD | MARK) == 0
    }

    fn bytes(&self) -> Range<usize> {
        let start = self.sector as usize * SECTOR_BYTES;
        start..start + self.sectors as usize * SECTOR_BYTES
    }
}

/// A log with its entries.
#[derive(Debug)]
pub(crate) struct Trace {
    log: File,
    pub(crate) entries: Vec<Entry>,
}

impl Trace {
    pub(crate) fn read(path: &Path) -> io::Result<Trace> {
        let log = File::open(path)?;
        let mut head = [0; 32];
        log.read_exact_at(&mut head, 0)?;
        let word = |at| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        assert_eq!((word(0), word(8)), (MAGIC, 1), "{} is no log of writes", path.display());
        let sector_bytes = word(24) as u32;
        assert_eq!(sector_bytes as usize, SECTOR_BYTES);
        let mut at = SECTOR_BYTES as u64;
        let mut entries = Vec::new();
        for _ in 0..word(16) {
            let entry = Entry::read(&log, at)?;
            at = entry.end();
            entries.push(entry);
        }
        Ok(Trace { log, entries })
    }

    /// Returns the index of the first entry with this mark.
    pub(crate) fn find(&self, mark: &str) -> usize {
        let is_it = |entry: &Entry| entry.mark.as_deref() == Some(mark);
        self.entries.iter().position(is_it).expect("no entry has the mark")
    }

    /// Returns the numbers of writes with FUA, of flushes, and of writes that waited for a flush.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let count = |is_it: &dyn Fn(&Entry) -> bool| {
            self.entries.iter().filter(|entry| is_it(entry)).count()
        };
        let has = |flag| move |entry: &Entry| entry.flags & flag != 0;
        [count(&has(FUA)), count(&has(FLUSH)), count(&Entry::is_in_cache)]
    }

    /// Returns the writes from `cut` on that were together in the device's cache when their flush
    /// began. The range is empty unless `cut` is at the first of them.
    pub(crate) fn cached(&self, cut: usize) -> Range<usize> {
        let before = cut.checked_sub(1).map(|before| &self.entries[before]);
        if before.is_some_and(Entry::is_in_cache) {
            return cut..cut;
        }
        let count = self.entries[cut..].iter().take_while(|entry| entry.is_in_cache()).count();
        cut..cut + count
    }
}

/// A device's contents while entries are applied in their order.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    /// Number of applied entries.
    pub(crate) applied: usize,
}

impl Image {
    /// Returns a device of zeros.
    pub(crate) fn new(bytes: usize) -> Image {
        Image { bytes: vec![0; bytes], applied: 0 }
    }

    /// Applies entries until `end`.
    pub(crate) fn advance(&mut self, trace: &Trace, end: usize) -> io::Result<()> {
        for index in self.applied..end {
            self.apply(trace, index)?;
        }
        self.applied = self.applied.max(end);
        Ok(())
    }

    fn apply(&mut self, trace: &Trace, index: usize) -> io::Result<()> {
        let entry = &trace.entries[index];
        let bytes = &mut self.bytes[entry.bytes()];
        match entry.flags & DISCARD {
            0 => trace.log.read_exact_at(bytes, entry.data_at),
            _ => {
                bytes.fill(0);
                Ok(())
            }
        }
    }

    /// Applies further entries. Returns the contents that undo them.
    pub(crate) fn apply_some(&mut self, trace: &Trace, some: &[usize]) -> io::Result<Undo> {
        let mut undo = Undo(VecDeque::new());
        for &index in some {
            let range = trace.entries[index].bytes();
            undo.0.push_front((range.start, self.bytes[range].to_vec()));
            self.apply(trace, index)?;
        }
        Ok(undo)
    }

    pub(crate) fn undo(&mut self, undo: Undo) {
        for (start, bytes) in undo.0 {
            self.bytes[start..][..bytes.len()].copy_from_slice(&bytes);
        }
    }
}

/// Contents from before some entries were applied, newest first.
#[derive(Debug)]
pub(crate) struct Undo(VecDeque<(usize, Vec<u8>)>);
