//! The scan of a corrupt log.

use std::cell::Cell;
use std::sync::Mutex;

use lw_log::{CircularLog, Combiner, Found, Group, Identity, Lz4, Packed, Scan};
use medium::sync::Arc;
use medium::writes::{Piece, Pieces, run};
use medium::{Buffer, Counts, LogMedium, ReadLog};
use words::TxId;

use super::{Input, seal};

const IDENTITY: Identity = Identity { pool: 0x0123_4567_89ab_cdef, generation: 3, stream: 0 };
const HEAP_WORDS: u64 = 1 << 14;
const LOG_WORDS: usize = 4096;

/// A log in memory that counts its reads.
struct Bare {
    words: Vec<u64>,
    block_bytes: usize,
    read: Cell<u64>,
}

impl ReadLog for Bare {
    fn bytes(&self) -> u64 {
        8 * self.words.len() as u64
    }

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), medium::Error> {
        let (bytes, log_bytes) = (8 * out.len() as u64, self.bytes());
        let unit = 8;
        let inside = at.is_multiple_of(unit) && at <= log_bytes && bytes <= log_bytes - at;
        if !inside {
            return Err(medium::Error::OutOfLog { at, bytes, log_bytes, unit });
        }
        let first = (at / 8) as usize;
        out.copy_from_slice(&self.words[first..first + out.len()]);
        self.read.set(self.read.get() + bytes);
        Ok(())
    }
}

/// A log in memory whose writes are durable at once.
struct Written {
    words: Mutex<Vec<u64>>,
    block_bytes: usize,
}

impl ReadLog for Written {
    fn bytes(&self) -> u64 {
        8 * LOG_WORDS as u64
    }

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn read(&self, _at: u64, _out: &mut [u64]) -> Result<(), medium::Error> {
        unreachable!("the log is only written")
    }
}

impl LogMedium for Written {
    fn depth(&self) -> usize {
        0
    }

    fn append(
        &self,
        at: u64,
        group: Buffer,
        words: usize,
    ) -> Result<Option<Buffer>, medium::Error> {
        let mut log = self.words.lock().expect("no writer panics");
        let first = (at / 8) as usize;
        log[first..first + words].copy_from_slice(&group.words()[..words]);
        Ok(Some(group))
    }

    fn acknowledge(&self, _wait: bool) -> Result<Option<Buffer>, medium::Error> {
        Ok(None)
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// Makes a log of some groups; returns it, the sequence of the oldest group not overwritten, and
/// the transaction before it.
fn valid(input: &mut Input<'_>, block_bytes: usize) -> (Vec<u64>, u64, u64) {
    let words = Mutex::new(vec![0; LOG_WORDS]);
    let medium = Arc::new(Written { words, block_bytes });
    let mut circular = CircularLog::new(medium.clone(), IDENTITY);
    let mut starts = Vec::new();
    let mut last = input.below(1000);
    for _ in 0..1 + input.below(40) {
        let mut group = Group::new(Buffer::new(64));
        let before = last;
        for _ in 0..1 + input.below(3) {
            last += 1;
            let words = input.below(60);
            let runs = group.push(TxId(last), if words == 0 { 0 } else { 1 + words as usize });
            if let Some(head) = runs.first_mut() {
                *head = run(input.below(HEAP_WORDS - words), words as usize);
            }
        }
        let under_way = input.below(3) * block_bytes as u64;
        let acknowledged = circular.head().saturating_sub(under_way);
        let mut packed = packed(group, input.below(4), block_bytes / 8);
        let place = circular.place(&mut packed, acknowledged);
        let words = packed.words();
        let stored = medium.append(place.at, packed.into_image().0, words);
        stored.expect("memory has room");
        starts.push((place.end, before));
    }
    let log = medium.words.lock().expect("no writer panics").clone();
    // Each group begins where the last ended, except at a wrap, which the scan finds by itself.
    let (head, bytes) = (circular.head(), 8 * LOG_WORDS as u64);
    let kept = starts.windows(2).find(|pair| pair[0].0 + bytes >= head + bytes / 4);
    let (sequence, last) = match kept {
        Some(pair) if head > bytes => (pair[0].0, pair[1].1),
        _ => (0, starts[0].1),
    };
    (log, sequence, last)
}

/// Packs a group plain, combined, compressed, or both.
fn packed(group: Group, kind: u64, block_words: usize) -> Packed {
    let mut group = group;
    if kind & 1 != 0 {
        let (first, last) = (group.first(), group.last());
        let mut combiner = Combiner::default();
        group.transactions().for_each(|(_, runs)| combiner.add(runs));
        group = combiner.finish(first, last, Buffer::new(0));
    }
    match kind & 2 {
        0 => Packed::plain(group, block_words),
        _ => Packed::compressed(group, block_words, &mut Lz4::default(), Buffer::new(0)).0,
    }
}

/// Runs the target. The first byte selects the initial log; the others change it.
pub fn log(input: &[u8]) {
    let mut input = Input::new(input);
    let block_bytes = if input.bit() { 64 } else { 4096 };
    let (mut words, sequence, last, seals) = if input.byte().is_multiple_of(4) {
        let (sequence, last) = (input.value(0), input.value(0));
        let mut words: Vec<u64> =
            input.rest().chunks(8).map(|bytes| Input::new(bytes).word()).collect();
        words.resize(words.len().next_multiple_of(block_bytes / 8).max(block_bytes / 8), 0);
        (words, sequence, last, true)
    } else {
        let (mut words, sequence, last) = valid(&mut input, block_bytes);
        let seals = input.bit();
        while !input.is_empty() {
            let unit = block_bytes / 8;
            let at = input.below((words.len() / unit) as u64) as usize * unit;
            match input.bit() {
                true => input.change(&mut words[at..at + unit.min(16)]),
                false => input.change(&mut words),
            }
        }
        (words, sequence, last, seals)
    };
    if seals {
        seal::groups(&mut words, block_bytes / 8);
    }
    let sequence = sequence % (1 << 62) / block_bytes as u64 * block_bytes as u64;
    scan(&Bare { words, block_bytes, read: Cell::new(0) }, sequence, last % (1 << 62));
}

/// Scans the log to its end; a replay may rely on every group found.
fn scan(log: &Bare, sequence: u64, mut last: u64) {
    let mut scan = Scan::new(log, IDENTITY, sequence, TxId(last), HEAP_WORDS);
    let mut groups = 0;
    let refused = loop {
        match scan.next_group() {
            Ok(Found::Group { first, last: end }) => {
                assert!(first.0 == last + 1 && end >= first, "IDs are dense");
                for piece in Pieces::new(scan.payload()) {
                    if let Piece::Run(index, words) = piece {
                        assert!(index + words.len() as u64 <= HEAP_WORDS, "runs stay in the heap");
                    }
                }
                last = end.0;
                groups += 1;
            }
            Ok(Found::Damaged { at }) => {
                assert!(at < log.bytes());
                break true;
            }
            Ok(Found::End | Found::Torn { .. }) => break false,
            Err(medium::Error::OutOfLog { .. }) => return, // a block of 4096 at an odd place
            Err(error) => panic!("{error}"),
        }
    };
    let most = log.bytes() / log.block_bytes() as u64;
    assert!(groups <= most, "{groups} groups in {most} blocks");
    // Each block is read once to follow the groups and once for each place without a group;
    // the search after the end is bounded.
    assert!(log.read.get() <= 16 * log.bytes() + 65536, "{} bytes read", log.read.get());
    let unreached = scan.unreached().expect("memory can be read");
    assert!(unreached.is_sorted_by_key(|group| group.first));
    let proof = unreached.iter().any(|group| group.proves_damage);
    assert!(refused || !proof, "proven damage was skipped");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_log_is_scanned_to_its_end() {
        for input in [&[5, 0, 0, 0, 7, 0, 0, 0][..], &[0; 8], &[9; 600]] {
            for block_bytes in [64, 4096] {
                let (words, sequence, last) = valid(&mut Input::new(input), block_bytes);
                let log = Bare { words, block_bytes, read: Cell::new(0) };
                let mut scan = Scan::new(&log, IDENTITY, sequence, TxId(last), HEAP_WORDS);
                let first = scan.next_group().unwrap();
                assert!(matches!(first, Found::Group { .. }), "{first:?}");
                while let Found::Group { .. } = scan.next_group().unwrap() {}
                assert!(scan.unreached().unwrap().is_empty());
            }
        }
    }

    /// Each header claims the whole rest of the log. Reading that for each header would read the
    /// log half as often as it has blocks.
    #[test]
    fn log_full_of_headers_is_refused_in_bounded_time() {
        let (header, bytes) = (u64::from_le_bytes(*b"LWGROUP3"), 1_u64 << 20);
        let mut words = vec![0; (bytes / 8) as usize];
        for at in (64..bytes).step_by(64) {
            let (first, payload) = ((at / 8) as usize, (bytes - at - 64) / 8);
            let head = [header, 3, payload, bytes + at, 5, 5, IDENTITY.pool, 0];
            words[first..first + 8].copy_from_slice(&head);
        }
        let log = Bare { words, block_bytes: 64, read: Cell::new(0) };
        let mut scan = Scan::new(&log, IDENTITY, 0, TxId(0), HEAP_WORDS);
        let found = scan.next_group().unwrap();
        assert!(matches!(found, Found::Damaged { .. }), "{found:?}");
        assert!(log.read.get() < 16 * bytes, "{} bytes of {bytes}", log.read.get());
    }
}
