//! A circular log that doubles while groups are appended and recycled. A recovery by each size that
//! the superblock may have finds every group in use.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use faults::mutants::{Mutant, inject};
use lw_log::{CircularLog, Found, Group, Identity, Scan};
use medium::{Buffer, Counts, Error, LogMedium, ReadLog, writes};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use words::TxId;

const IDENTITY: Identity = Identity { pool: 7, generation: 1, stream: 0 };
const BLOCK: u64 = 64;
const FIRST_BYTES: u64 = 16 * BLOCK;
const DOUBLINGS: u32 = 3;

/// A log in memory with room for every doubling.
struct Log {
    words: Mutex<Vec<u64>>,
    bytes: AtomicU64,
}

/// A log, read as if it had this size.
struct BySize<'a>(&'a Log, u64);

impl ReadLog for BySize<'_> {
    fn bytes(&self) -> u64 {
        self.1
    }

    fn block_bytes(&self) -> usize {
        BLOCK as usize
    }

    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), Error> {
        let (words, first) = (self.0.words.lock().unwrap(), at as usize / 8);
        out.copy_from_slice(&words[first..first + out.len()]);
        Ok(())
    }
}

impl ReadLog for Log {
    fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn block_bytes(&self) -> usize {
        BLOCK as usize
    }

    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), Error> {
        BySize(self, self.bytes()).read(at, out)
    }
}

impl LogMedium for Log {
    fn depth(&self) -> usize {
        0
    }

    fn append(&self, at: u64, group: Buffer, words: usize) -> Result<Option<Buffer>, Error> {
        let first = at as usize / 8;
        self.words.lock().unwrap()[first..first + words].copy_from_slice(&group.words()[..words]);
        Ok(Some(group))
    }

    fn acknowledge(&self, _wait: bool) -> Result<Option<Buffer>, Error> {
        Ok(None)
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }

    fn extend(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }
}

/// Runs many sequences of choices.
pub(crate) fn a_log_that_grows(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let mut doublings = 0;
    for seed in 0..200 {
        match grow(seed) {
            Ok(grown) => doublings += grown,
            Err(problem) => return Some(problem),
        }
    }
    assert!(doublings >= 500, "{doublings} doublings");
    None
}

/// Runs one sequence of choices; returns how often the log has doubled.
fn grow(seed: u64) -> Result<u32, String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let words = vec![0; (FIRST_BYTES << DOUBLINGS) as usize / 8];
    let log = Arc::new(Log { words: Mutex::new(words), bytes: AtomicU64::new(FIRST_BYTES) });
    let mut circular = CircularLog::new(Arc::clone(&log) as Arc<dyn LogMedium>, IDENTITY);
    // The ends of the groups in use, the first of them, and whether a growth has begun.
    let (mut ends, mut first, mut tail, mut begun) = (Vec::new(), 1, AtomicU64::new(0), false);
    let (mut next, mut doubled) = (1, 0);
    for _ in 0..300 {
        let bytes = log.bytes();
        match random.random_range(0..8) {
            0..4 => {
                let mut group = Group::new(Buffer::new(0));
                let words = random.random_range(1..30);
                let record = group.push(TxId(next), 1 + words);
                record.fill(next);
                record[0] = writes::run(10, words);
                if circular.has_room(group.words(), &tail) {
                    let acknowledged = *ends.last().unwrap_or(tail.get_mut());
                    let sent = circular.append(group, acknowledged).unwrap();
                    ends.push(sent.end);
                    next += 1;
                }
            }
            4..6 => {
                let recycled = random.random_range(0..=ends.len());
                if let Some(&end) = ends[..recycled].last() {
                    *tail.get_mut() = end;
                    first += recycled as u64;
                    ends.drain(..recycled);
                }
            }
            6 if !begun && doubled < DOUBLINGS => begun = circular.begin_growth(&tail),
            7 if begun => {
                log.extend(2 * bytes);
                circular.end_growth();
                (begun, doubled) = (false, doubled + 1);
            }
            _ => {}
        }
        let by_sizes = if begun { vec![bytes, 2 * bytes] } else { vec![log.bytes()] };
        for bytes in by_sizes {
            recover(&BySize(&log, bytes), *tail.get_mut(), first, next)
                .map_err(|found| format!("seed {seed}, a log of {bytes} bytes: {found}"))?;
        }
    }
    Ok(doubled)
}

/// Scans from the tail: the groups from `first` to before `next` are there.
fn recover(log: &BySize<'_>, tail: u64, first: u64, next: u64) -> Result<(), String> {
    let mut scan = Scan::new(log, IDENTITY, tail, TxId(first - 1), 1000);
    for expected in first..next {
        match scan.next_group().unwrap() {
            Found::Group { first: found, .. } if found.0 == expected => {}
            found => return Err(format!("lost: {found:?} in place of group {expected}")),
        }
    }
    match scan.next_group().unwrap() {
        Found::End => Ok(()),
        found => Err(format!("{found:?} after the last group")),
    }
}
