//! The banks of a channel: the open row of each, and the time from which it takes each command.
//!
//! ```text
//!   closed row:  activation --(read_miss - read_hit)--> column command --(read_hit)--> burst
//!   open row:                                           column command --(read_hit)--> burst
//! ```
//! An activation stands for a precharge and the activation after it. Each command moves the
//! earliest times of later ones, as JEDEC's constraints demand: for its bank (tRC, tRTP, tWR), for
//! its group of banks (tCCD_L, tRRD_L, tWTR_L), for its rank (tRRD_S, tFAW), and for the channel
//! (the burst, tWTR_S and the time from a read to a write).
//!
//! A refresh (tREFI, tRFC) closes the rows of a rank. It begins when every row of the rank may be
//! precharged. It is booked at the next decision, because no command can start in between.

use super::timing::{Line, Timing};
use crate::machine::when::{NEVER, Time};

/// The bank and row of a line, with the bank's group and rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) bank: u32,
    pub(super) group: u32,
    pub(super) rank: u32,
    pub(super) row: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    open: Option<u64>,
    /// The earliest column command.
    column: Time,
    /// The earliest activation.
    activation: Time,
    /// A note of the scheduler: see [`Banks::note`].
    note: u64,
}

/// A group of banks with common data lines.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    column: Time,
    /// The earliest read after a write.
    read: Time,
    activation: Time,
}

#[derive(Clone, Copy, Debug)]
struct Rank {
    activation: Time,
    /// When each of the last four activations leaves the window of four, oldest at `oldest`.
    window: [Time; 4],
    oldest: usize,
    /// The time of the next refresh.
    refresh: Time,
}

/// All banks of a channel.
#[derive(Clone, Debug)]
pub(super) struct Banks {
    timing: Timing,
    banks: Vec<Bank>,
    groups: Vec<Group>,
    ranks: Vec<Rank>,
    /// The earliest read, and the earliest write, on the channel.
    read: Time,
    write: Time,
    /// From a write's column command to its burst.
    write_latency: Time,
    refreshes: u64,
}

impl Banks {
    /// Returns idle banks without an open row.
    ///
    /// # Panics
    /// Without a bank, or when the interleaving exceeds a row.
    pub(super) fn new(timing: &Timing) -> Banks {
        let Timing { banks, row_lines, interleave_lines, ranks, groups, .. } = *timing;
        let is_part = (1..=row_lines).contains(&interleave_lines);
        assert!(banks > 0 && is_part, "at least one bank, and an interleaving within one row");
        let rank = |at: u64| Rank {
            activation: 0,
            window: [0; 4],
            oldest: 0,
            // The refreshes of ranks alternate.
            refresh: match timing.refi {
                0 => NEVER,
                refi => refi + at * refi / ranks,
            },
        };
        let latency = timing.write_miss - timing.write_hit;
        Banks {
            timing: *timing,
            banks: vec![Bank::default(); banks as usize],
            groups: vec![Group::default(); (ranks * groups) as usize],
            ranks: (0..ranks).map(rank).collect(),
            read: 0,
            write: 0,
            write_latency: match timing.write_keeps_bank {
                true => 0,
                false => latency.saturating_sub(timing.activation()),
            },
            refreshes: 0,
        }
    }

    /// Returns the place of a line. This takes several divisions, so each request computes it once
    /// and not at every decision.
    pub(super) fn place(&self, line: Line) -> Place {
        let Timing { row_lines, interleave_lines, ranks, groups, .. } = self.timing;
        let round = self.banks.len() as u64;
        let part = line / interleave_lines;
        let (bank, row) = (part % round, part / round / (row_lines / interleave_lines));
        // Neighbouring banks are in different groups.
        let rank = bank / (round / ranks);
        let group = rank * groups + bank % groups;
        Place { bank: bank as u32, group: group as u32, rank: rank as u32, row }
    }

    /// Returns whether the row of a place is open.
    #[inline]
    pub(super) fn is_open(&self, place: Place) -> bool {
        self.banks[place.bank as usize].open == Some(place.row)
    }

    /// Returns the earliest column command to an open row.
    #[inline]
    pub(super) fn column(&self, place: Place, writes: bool) -> Time {
        let group = &self.groups[place.group as usize];
        let common = self.banks[place.bank as usize].column.max(group.column);
        match writes {
            true => common.max(self.write),
            false => common.max(self.read).max(group.read),
        }
    }

    /// Returns the earliest start of a write that keeps its bank until the array has it.
    #[inline]
    pub(super) fn whole_write(&self, place: Place) -> Time {
        let bank = &self.banks[place.bank as usize];
        bank.column.max(bank.activation).max(self.write)
    }

    /// Returns whether a bank takes a column command, or a whole write, as soon as the channel and
    /// the other banks of the group permit it.
    #[inline]
    pub(super) fn is_ready(&self, now: Time, place: Place, is_whole: bool) -> bool {
        let bank = &self.banks[place.bank as usize];
        bank.column.max(if is_whole { bank.activation } else { 0 }) <= now
    }

    /// Returns the earliest activation of a place's row.
    #[inline]
    pub(super) fn activation(&self, place: Place) -> Time {
        let rank = &self.ranks[place.rank as usize];
        let bank = self.banks[place.bank as usize].activation;
        let group = self.groups[place.group as usize].activation;
        bank.max(group).max(rank.activation).max(rank.window[rank.oldest])
    }

    /// Returns the earliest activation in any bank.
    pub(super) fn next_activation(&self) -> Time {
        let of = |rank: &Rank| rank.activation.max(rank.window[rank.oldest]);
        self.ranks.iter().map(of).min().unwrap_or(0)
    }

    /// Opens the row of a place.
    pub(super) fn activate(&mut self, now: Time, place: Place) {
        let Timing { rrd_s, rrd_l, faw, rc, .. } = self.timing;
        let bank = &mut self.banks[place.bank as usize];
        bank.open = Some(place.row);
        bank.column = now + self.timing.activation();
        bank.activation = now + rc.max(self.timing.activation());
        self.groups[place.group as usize].activation = now + rrd_l;
        let rank = &mut self.ranks[place.rank as usize];
        rank.activation = now + rrd_s.max(1);
        rank.window[rank.oldest] = now + faw;
        rank.oldest = (rank.oldest + 1) % rank.window.len();
    }

    /// Reads from the open row of a place. Returns when the channel has transferred the line.
    pub(super) fn read(&mut self, now: Time, place: Place) -> Time {
        let Timing { read_hit, burst, rtp, rtw, write_keeps_bank, .. } = self.timing;
        assert!(self.is_open(place) && now >= self.column(place, false), "a read of a closed row");
        self.take_column(now, place);
        let bank = &mut self.banks[place.bank as usize];
        bank.activation = bank.activation.max(now + rtp);
        self.read = now + burst;
        // The burst of a write that keeps its bank begins at its start here. On the channel it
        // comes after a command, by as much as a read's.
        let command = if write_keeps_bank { read_hit } else { 0 };
        self.write = now + command + rtw.max(burst);
        now + read_hit + burst
    }

    /// Writes to the open row of a place, or to any row if writes keep their bank. Returns when the
    /// array has the line.
    pub(super) fn write(&mut self, now: Time, place: Place) -> Time {
        let Timing { burst, write_hit, write_miss, wtr_s, wtr_l, .. } = self.timing;
        let is_open = self.is_open(place);
        let transferred = now + self.write_latency + burst;
        self.write = now + burst;
        self.read = transferred + wtr_s;
        self.groups[place.group as usize].read = transferred + wtr_l;
        if !self.timing.write_keeps_bank {
            assert!(is_open, "a write to a closed row");
            self.take_column(now, place);
            let bank = &mut self.banks[place.bank as usize];
            bank.activation = bank.activation.max(transferred + write_hit);
            return transferred + write_hit;
        }
        let over = transferred + if is_open { write_hit } else { write_miss };
        let bank = &mut self.banks[place.bank as usize];
        (bank.open, bank.column, bank.activation) = (Some(place.row), over, over);
        over
    }

    fn take_column(&mut self, now: Time, place: Place) {
        let next = now + self.timing.ccd_l;
        let bank = &mut self.banks[place.bank as usize];
        bank.column = bank.column.max(next);
        let group = &mut self.groups[place.group as usize];
        group.column = group.column.max(next);
    }

    /// Books the refreshes that are due.
    #[inline]
    pub(super) fn refresh(&mut self, now: Time) {
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].refresh <= now {
                self.refresh_rank(now, rank);
            }
        }
    }

    fn refresh_rank(&mut self, now: Time, rank: usize) {
        let Timing { refi, rfc, ranks, .. } = self.timing;
        let due = self.ranks[rank].refresh;
        // All but the last were over before the next was due.
        let last = now - (now - due) % refi;
        self.refreshes += (last - due) / refi + 1;
        self.ranks[rank].refresh = last + refi;
        let banks = self.banks.len() / ranks as usize;
        let banks = &mut self.banks[rank * banks..][..banks];
        let closed = banks.iter().map(|bank| bank.activation).max().unwrap_or(0);
        let over = closed.max(last) + rfc;
        for bank in banks {
            (bank.open, bank.column, bank.activation) = (None, over, over);
        }
    }

    /// The number of refreshes that were due, over all ranks.
    pub(super) fn refreshes(&self) -> u64 {
        self.refreshes
    }

    /// Attaches a note to a bank, for a scheduler's decision.
    #[inline]
    pub(super) fn note(&mut self, place: Place, note: u64) {
        self.banks[place.bank as usize].note = note;
    }

    /// Returns a bank's note.
    #[inline]
    pub(super) fn noted(&self, place: Place) -> u64 {
        self.banks[place.bank as usize].note
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TIMING;
    use super::*;

    #[test]
    fn interleaved_lines_share_rows_across_banks() {
        let lines = Banks::new(&Timing { interleave_lines: 1, ..TIMING });
        let rows = Banks::new(&TIMING);
        let at = |bank: u64, row| Place { bank: bank as u32, group: 0, rank: 0, row };
        for line in 0..256 {
            let row = line / 128;
            assert_eq!(lines.place(line), at(line % 8, row), "{line}");
            assert_eq!(rows.place(line), at(line / 16 % 8, row), "{line}");
        }
    }

    #[test]
    fn neighbouring_banks_lie_in_different_groups() {
        let banks = Banks::new(&Timing { interleave_lines: 1, ranks: 2, groups: 2, ..TIMING });
        let of = |line| (banks.place(line).rank, banks.place(line).group);
        let all: Vec<_> = (0..8).map(of).collect();
        let first = [(0, 0), (0, 1), (0, 0), (0, 1)];
        assert_eq!(all, [first, first.map(|(_, group)| (1, group + 2))].concat());
    }
}
