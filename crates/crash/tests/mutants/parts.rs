//! Tests of mutants that no case exposes: one part, on a recorded machine or in memory. Each takes
//! the name of the injected bug, and returns the violation.

use std::sync::{Mutex, PoisonError};

use faults::mutants::{Mutant, inject};
use faults::recording::{Choose, Model, Question, Recorder};
use lw_log::{CircularLog, Found, Group, Identity, Lz4, Packed, Scan};
use medium::sync::Arc;
use medium::{
    Buffer, Combining, Counts, Domain, Error, FileHeap, HeapMedium, LogMedium, MappedHeap,
    PoolFile, Prewrite, ReadLog, writes,
};
use words::TxId;

/// Choices by which no uncertain content survives.
struct AllOld;

impl Choose for AllOld {
    fn choose(&mut self, _question: Question) -> usize {
        0
    }
}

pub(crate) fn machine() -> Recorder {
    Recorder::new(Model { crashes: 0, ..Model::default() }, Box::new(AllOld))
}

/// Reports the loss of words that must have survived, one in each line from `at` on.
fn missing(recorder: &Recorder, at: u64, lines: u64) -> Option<String> {
    let mut words = vec![0; 8 * lines as usize];
    let file = PoolFile::open_on(&recorder.system(), "/part");
    if let Err(error) = file.and_then(|file| file.read_at(at, &mut words)) {
        return Some(format!("refused: {error}"));
    }
    let lost = words.iter().step_by(8).position(|word| *word != 42)?;
    Some(format!("lost: the word of line {lost}"))
}

/// Lines of a heap image: more than combining holds back.
const LINES: u64 = 8192;

/// One thread stores words to the heap image, another calls the barrier.
pub(crate) fn heap_image_of_two_threads(bug: Option<Mutant>) -> Option<String> {
    heap_image_with(Combining::Never, bug)
}

/// The same, while lines are combined.
pub(crate) fn combined_heap_image_of_two_threads(bug: Option<Mutant>) -> Option<String> {
    heap_image_with(Combining::Always, bug)
}

fn heap_image_with(combining: Combining, bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let (recorder, bytes) = (machine(), 64 * LINES);
    let file = PoolFile::create_on(&recorder.system(), "/part", bytes, Prewrite::No).unwrap();
    file.publish().unwrap();
    let file = Arc::new(file);
    let domain = Domain::dax(&file).unwrap();
    let heap_image = MappedHeap::new(file, 0, bytes, &domain).unwrap();
    let mut heap_image = heap_image.with_combining(combining);
    let writes: Vec<u64> = (0..LINES).flat_map(|line| [writes::run(8 * line, 1), 42]).collect();
    heap_image.write_back(&writes).unwrap();
    std::thread::scope(|scope| scope.spawn(|| heap_image.barrier().unwrap()).join().unwrap());
    recorder.crash();
    missing(&recorder, 0, LINES)
}

/// Two threads have a partition of the heap image each, and every word of every page is written.
pub(crate) fn a_page_between_parts(bug: Option<Mutant>) -> Option<String> {
    const PAGES: u64 = 64;
    let _injected = inject(bug);
    let file = PoolFile::create_on(&machine().system(), "/part", PAGES * 4096, Prewrite::No);
    let heap_image = FileHeap::new(Arc::new(file.unwrap()), 0, PAGES * 4096).unwrap();
    let mut heap_image = heap_image.in_parts(2);
    let words = (0..PAGES * 512).flat_map(|word| [writes::run(word, 1), 42]);
    heap_image.write_back(&words.collect::<Vec<_>>()).unwrap();
    heap_image.barrier().unwrap();
    // Each part writes whole pages; of a page that both write, one may have read the other's early.
    let written = heap_image.counts().bytes / 4096;
    (written != PAGES).then(|| format!("torn: {PAGES} pages, and {written} were written"))
}

/// Two threads have a partition of the heap image each, and a run crosses every border of pages.
pub(crate) fn a_run_across_parts(bug: Option<Mutant>) -> Option<String> {
    const PAGES: u64 = 64;
    let _injected = inject(bug);
    let recorder = machine();
    let file = PoolFile::create_on(&recorder.system(), "/part", PAGES * 4096, Prewrite::No);
    let file = Arc::new(file.unwrap());
    let heap_image = FileHeap::new(Arc::clone(&file), 0, PAGES * 4096).unwrap();
    let mut heap_image = heap_image.in_parts(2);
    let runs =
        (1..PAGES).flat_map(|page| [&[writes::run(512 * page - 8, 16)][..], &[42; 16]].concat());
    heap_image.write_back(&runs.collect::<Vec<_>>()).unwrap();
    heap_image.barrier().unwrap();
    let mut words = vec![0; 512 * PAGES as usize];
    file.read_at(0, &mut words).unwrap();
    let expected = 16 * (PAGES as usize - 1);
    let written = words.iter().filter(|&&word| word == 42).count();
    (written != expected).then(|| format!("lost: {written} of {expected} words"))
}

/// A file gets contents and its name, and the power fails.
pub(crate) fn a_published_file(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let recorder = machine();
    let file = PoolFile::create_on(&recorder.system(), "/part", 8192, Prewrite::No).unwrap();
    file.write_at(4096, &[42]).unwrap();
    file.publish().unwrap();
    recorder.crash();
    missing(&recorder, 4096, 1)
}

const LOG_WORDS: usize = 1024;
const IDENTITY: Identity = Identity { pool: 9, generation: 3, stream: 0 };

/// A log in memory.
struct Log(Mutex<Vec<u64>>);

impl Log {
    /// Writes groups of so many words each, then applies `damage`. `acknowledged` gives for each
    /// group how many of those before it were acknowledged when it was sealed.
    fn damaged(
        groups: &[usize],
        acknowledged: fn(usize) -> usize,
        damage: impl FnOnce(&mut [u64]),
    ) -> Arc<Log> {
        let log = Arc::new(Log(Mutex::new(vec![0; LOG_WORDS])));
        let mut circular = CircularLog::new(Arc::clone(&log) as Arc<dyn LogMedium>, IDENTITY);
        let mut ends = vec![0];
        for (number, &words) in groups.iter().enumerate() {
            let mut group = Group::new(Buffer::new(64));
            let record = group.push(TxId(number as u64 + 1), 1 + words);
            record.fill(42);
            record[0] = writes::run(10, words);
            let sent = circular.append(group, ends[acknowledged(number)]).unwrap();
            ends.push(sent.end);
        }
        damage(&mut log.0.lock().unwrap_or_else(PoisonError::into_inner));
        log
    }

    fn scanned(&self) -> Result<Found, Error> {
        self.scanned_from(0, 0)
    }

    /// Scans for the group after the transaction `last`, from this sequence.
    fn scanned_from(&self, sequence: u64, last: u64) -> Result<Found, Error> {
        Scan::new(self, IDENTITY, sequence, TxId(last), 1000).next_group()
    }
}

impl ReadLog for Log {
    fn bytes(&self) -> u64 {
        8 * LOG_WORDS as u64
    }

    fn block_bytes(&self) -> usize {
        64
    }

    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), Error> {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = 8 * out.len() as u64;
        let found = words.get(at as usize / 8..at as usize / 8 + out.len());
        let outside = Error::OutOfLog { at, bytes, log_bytes: self.bytes(), unit: 8 };
        out.copy_from_slice(found.ok_or(outside)?);
        Ok(())
    }
}

impl LogMedium for Log {
    fn depth(&self) -> usize {
        0
    }

    fn append(&self, at: u64, group: Buffer, words: usize) -> Result<Option<Buffer>, Error> {
        let first = at as usize / 8;
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log[first..first + words].copy_from_slice(&group.words()[..words]);
        Ok(Some(group))
    }

    fn acknowledge(&self, _wait: bool) -> Result<Option<Buffer>, Error> {
        Ok(None)
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// A header says that its group is longer than the log.
pub(crate) fn a_header_that_lies(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let log = Log::damaged(&[1], |before| before, |words| words[2] = 10 * LOG_WORDS as u64);
    match log.scanned() {
        Ok(Found::Torn { at: 0 }) => None,
        other => Some(format!("failed: {other:?}")),
    }
}

/// A compressed group decodes to more than a log of this size can hold.
pub(crate) fn a_payload_that_explodes(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let log = Log::damaged(&[], |before| before, |_| ());
    let mut circular = CircularLog::new(Arc::clone(&log) as Arc<dyn LogMedium>, IDENTITY);
    let mut group = Group::new(Buffer::new(0));
    let record = group.push(TxId(1), 1 + 5 * LOG_WORDS);
    record.fill(42);
    record[0] = writes::run(10, 5 * LOG_WORDS);
    let (mut packed, _) = Packed::compressed(group, 8, &mut Lz4::default(), Buffer::new(0));
    let place = circular.place(&mut packed, 0);
    let words = packed.words();
    log.append(place.at, packed.into_image().0, words).unwrap();
    match log.scanned() {
        Ok(Found::Torn { at: 0 }) => None,
        other => Some(format!("failed: decoded beyond its bound, {other:?}")),
    }
}

/// A whole group writes behind the end of the heap.
pub(crate) fn a_group_outside_the_heap(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let log = Log::damaged(&[5], |before| before, |_| ());
    let found = |heap_words| Scan::new(&*log, IDENTITY, 0, TxId(0), heap_words).next_group();
    match [found(14), found(15)] {
        [Ok(Found::Damaged { at: 0 }), Ok(Found::Group { .. })] => None,
        other => Some(format!("failed: {other:?}")),
    }
}

/// The first group is lost, and the second records its acknowledgement.
pub(crate) fn a_group_that_is_gone(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let log = Log::damaged(&[1, 1], |before| before, |words| words[..16].fill(0));
    match log.scanned() {
        Ok(Found::Damaged { .. }) => None,
        other => Some(format!("lost: {other:?}")),
    }
}

/// Two groups are in flight, and a crash keeps only the second.
pub(crate) fn a_group_that_never_was(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let log = Log::damaged(&[1, 1], |_| 0, |words| words[..16].fill(0));
    match log.scanned() {
        Ok(Found::End) => None,
        Ok(Found::Damaged { at }) => Some(format!("refused: damage at {at}")),
        other => Some(format!("torn: {other:?}")),
    }
}

/// Two groups are in flight, the last of a wrap and the first of the next, and a crash keeps only
/// the second.
pub(crate) fn a_wrap_that_ends_too_early(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let gone = |words: &mut [u64]| words[2 * 312..3 * 312].fill(0);
    let log = Log::damaged(&[302; 4], |before| before.min(2), gone);
    match log.scanned_from(8 * 2 * 312, 2) {
        Ok(Found::End) => None,
        other => Some(format!("torn: {other:?}")),
    }
}
