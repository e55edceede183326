//! How the order of transactions is cut into groups, and what a group is made into before it gets
//! its place in the log: combined, compressed.
//!
//! ```text
//!   combining   closed at N transactions, when somebody waits, after a time, when it is large
//!   not         closed when it is sent: whatever has come together, up to some bytes
//! ```
//!
//! (DudeTM, section 3.3.)

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lw_log::{Combiner, Group, Lz4, Packed};
use medium::Buffer;
use medium::mutants::{Mutant, planted};
use medium::writes::{Piece, Pieces, run};
use words::TxId;

/// Bytes of a group that is not closed for another reason: 256 KiB, where the device's time a byte
/// is nearly that of 1 MiB (PERFORMANCE, disk) and the group is still in the L2 cache when it is
/// reproduced.
const GROUP_BYTES: usize = 256 << 10;

/// The same where one thread persists and reproduces and does not pause, and what it brings home at
/// a time: what is committed meanwhile waits for so little. A larger group, of what had come
/// together once, would take long to bring home, and so make the next as large.
pub(crate) const UNPAUSED_BYTES: usize = 4 << 10;

/// What a pool does with its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grouping {
    /// Transactions of a group that is combined; 0: none is, groups are as they come.
    pub(crate) transactions: u64,
    /// How long a group that is combined waits for more of them; the longest time is no bound.
    pub(crate) time: Duration,
    /// Whether groups are compressed.
    pub(crate) compress: bool,
    /// Threads that make groups ready at a time.
    pub(crate) threads: usize,
    /// The thread behind does not pause, and reproduces as well.
    pub(crate) unpaused: bool,
}

impl Grouping {
    /// Groups as they come.
    #[cfg(test)]
    pub(crate) const NONE: Grouping = Grouping {
        transactions: 0,
        time: Duration::ZERO,
        compress: false,
        threads: 1,
        unpaused: false,
    };

    pub(crate) fn combines(&self) -> bool {
        self.transactions > 0
    }

    /// Words that a group is closed at which is not combined, and of neighbours that wait for home
    /// in one piece.
    pub(crate) fn words(&self) -> usize {
        (if self.unpaused { UNPAUSED_BYTES } else { GROUP_BYTES }) / 8
    }
}

/// Since when a group waits for more transactions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opened(Option<Instant>);

impl Opened {
    /// A group begins. Does not look at the clock when no time ends it.
    pub(crate) fn begin(&mut self, grouping: &Grouping) {
        self.0 = (grouping.time < Duration::MAX).then(Instant::now);
    }

    /// Whether its time is over.
    pub(crate) fn is_over(self, grouping: &Grouping) -> bool {
        self.rest(grouping) == Some(Duration::ZERO)
    }

    /// What is left of its time; `None`: it has no end.
    pub(crate) fn rest(self, grouping: &Grouping) -> Option<Duration> {
        self.0.map(|opened| grouping.time.saturating_sub(opened.elapsed()))
    }
}

/// Words of records that are gathered for one combined group at most: 16 MiB, as much as a ring
/// holds. Combined they take five times as much at most, when each word is in another line.
pub(crate) const GATHERED_WORDS: usize = (16 << 20) / 8;

/// What one thread needs to make groups ready; used again for each.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    combiner: Combiner,
    /// Words of the groups that it has combined; whoever counts them takes them.
    pub(crate) combined_words: u64,
    lz4: Option<Box<Lz4>>,
    /// Memory that a group was compressed into for nothing: it did not shrink.
    unused: Option<Buffer>,
    /// Memory of what was gathered, to be used again.
    spare: Option<Buffer>,
}

/// What packing needs to know of the medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    pub(crate) block_words: usize,
    /// Words of a group's payload at most: half the log, but for its header.
    pub(crate) payload_words_max: usize,
}

impl Packer {
    /// Memory to gather transactions in that are combined.
    pub(crate) fn memory(&mut self) -> Buffer {
        self.spare.take().unwrap_or_else(|| Buffer::new(0))
    }

    /// Makes what was gathered ready: one group, or several where a combined one would not fit in
    /// half the log. Groups stay in ID order. `memory` gives memory for a group.
    pub(crate) fn pack(
        &mut self,
        gathered: Group,
        grouping: &Grouping,
        fit: Fit,
        memory: impl Fn() -> Buffer,
        out: &mut VecDeque<Packed>,
    ) {
        if !grouping.combines() {
            out.push_back(self.seal(gathered, grouping, fit, &memory));
            return;
        }
        let mut first = gathered.first();
        let mut last = TxId(first.0 - 1);
        for (id, runs) in gathered.transactions() {
            // What this one adds at most. Alone it fits always: see `Persist::words_max`.
            let fits = self.combiner.words_max() + most_words(runs) <= fit.payload_words_max;
            if id > first && !fits {
                self.close(first, last, grouping, fit, &memory, out);
                first = id;
            }
            self.combiner.add(runs);
            last = id;
        }
        self.close(first, last, grouping, fit, &memory, out);
        self.spare = Some(gathered.into_memory());
    }

    /// Ends a combined group.
    fn close(
        &mut self,
        first: TxId,
        last: TxId,
        grouping: &Grouping,
        fit: Fit,
        memory: &impl Fn() -> Buffer,
        out: &mut VecDeque<Packed>,
    ) {
        self.combined_words += self.combiner.words_max() as u64 / 2;
        let group = self.combiner.finish(first, last, memory());
        if planted(Mutant::GroupInPieces) && first < last {
            for (part, first, last) in [(0, first, TxId(last.0 - 1)), (1, last, last)] {
                half(&group, part).for_each(|word| self.combiner.add(&word));
                let piece = self.combiner.finish(first, last, memory());
                out.push_back(self.seal(piece, grouping, fit, memory));
            }
            return;
        }
        out.push_back(self.seal(group, grouping, fit, memory));
    }

    fn seal(
        &mut self,
        group: Group,
        grouping: &Grouping,
        fit: Fit,
        memory: &impl Fn() -> Buffer,
    ) -> Packed {
        if !grouping.compress {
            return Packed::plain(group, fit.block_words);
        }
        let lz4 = self.lz4.get_or_insert_default();
        let memory = self.unused.take().unwrap_or_else(memory);
        let (packed, unused) = Packed::compressed(group, fit.block_words, lz4, memory);
        self.unused = unused;
        packed
    }
}

/// Words of these runs at most when each word is a run of its own.
fn most_words(runs: &[u64]) -> usize {
    let pieces = Pieces::new(runs);
    pieces.map(|piece| if let Piece::Run(_, words) = piece { 2 * words.len() } else { 0 }).sum()
}

/// For a mutant: every other word of a combined group, as runs.
fn half(group: &Group, part: u64) -> impl Iterator<Item = [u64; 2]> + '_ {
    let words = Pieces::new(group.payload()).flat_map(|piece| match piece {
        Piece::Run(index, words) => (index..).zip(words.iter().copied()).collect::<Vec<_>>(),
        Piece::Mark(_) => Vec::new(),
    });
    words.filter(move |word| word.0 % 2 == part).map(|(index, word)| [run(index, 1), word])
}
