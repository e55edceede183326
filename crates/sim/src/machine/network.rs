//! Between cores, banks of the last cache and memory controllers: a mesh of tiles, or one place.
//!
//! A message goes along its row, then along its column. Each link carries one flit a cycle, in the
//! order in which there is room: messages are booked when they are sent, some for later than
//! others, so a link is a timetable with gaps and not a time at which it is free.

use super::description::Network as Described;
use super::when::Time;

/// A tile.
pub type Tile = usize;

/// Bytes of a message besides its line.
const HEAD_BYTES: u32 = 16;

/// What a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A request or an acknowledgement.
    Control,
    /// A line.
    Data,
}

/// The network of a chip.
#[derive(Clone, Debug)]
pub struct Network {
    columns: usize,
    rows: usize,
    hop: Time,
    interface: Time,
    /// Flits of a message with a line; 0: links carry any number.
    data_flits: u32,
    /// Four links leave each tile: east, west, south, north.
    links: Vec<Timetable>,
    flits: u64,
}

impl Network {
    /// An idle one.
    pub fn new(described: &Described) -> Network {
        let Described { columns, rows, hop, link_bytes, interface, first: _ } = *described;
        let tiles = (columns * rows) as usize;
        let data_flits = match link_bytes {
            0 => 0,
            bytes => (64 + HEAD_BYTES).div_ceil(bytes),
        };
        let links = vec![Timetable::default(); 4 * tiles];
        Network {
            columns: columns as usize,
            rows: rows as usize,
            hop,
            interface,
            data_flits,
            links,
            flits: 0,
        }
    }

    /// Where the controller of a channel is: at a corner, the first at the first tile.
    pub fn corner(&self, channel: usize) -> Tile {
        if self.columns == 0 {
            return 0;
        }
        let (right, down) = (self.columns - 1, (self.rows - 1) * self.columns);
        [0, right, down, down + right][channel % 4]
    }

    /// Tiles from one to another.
    pub fn hops(&self, from: Tile, to: Tile) -> u64 {
        if self.columns == 0 {
            return 0;
        }
        let apart = |a: usize, b: usize| a.abs_diff(b) as u64;
        apart(from % self.columns, to % self.columns)
            + apart(from / self.columns, to / self.columns)
    }

    /// Flits that went over links.
    pub fn flits(&self) -> u64 {
        self.flits
    }

    /// Cycles of a message when there is no other.
    pub fn unloaded(&self, from: Tile, to: Tile, size: Size) -> Time {
        if self.columns == 0 {
            return self.interface;
        }
        let behind = u64::from(self.flits_of(size)) - 1;
        self.interface + self.hop * self.hops(from, to) + behind
    }

    fn flits_of(&self, size: Size) -> u32 {
        match size {
            Size::Data => self.data_flits.max(1),
            Size::Control => 1,
        }
    }

    /// Sends a message. Answers when the last of it is there.
    pub fn send(&mut self, from: Tile, to: Tile, size: Size, now: Time) -> Time {
        if self.columns == 0 {
            return now + self.interface;
        }
        let flits = self.flits_of(size);
        let mut time = now + self.interface;
        let mut tile = from;
        while tile != to {
            let (x, goal) = (tile % self.columns, to % self.columns);
            let (direction, next) = match () {
                () if x < goal => (0, tile + 1),
                () if x > goal => (1, tile - 1),
                () if tile < to => (2, tile + self.columns),
                () => (3, tile - self.columns),
            };
            if self.data_flits > 0 {
                time = self.links[4 * tile + direction].book(time, flits);
                self.flits += u64::from(flits);
            }
            time += self.hop;
            tile = next;
        }
        time + u64::from(flits) - 1
    }
}

/// Which cycles of a link, or a bank, are taken: those of a window that moves on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timetable {
    /// The window's first cycle.
    first: Time,
    /// A bit for each of its cycles.
    taken: u128,
}

impl Timetable {
    const CYCLES: u32 = 128;

    /// Takes the first `cycles` free ones in a row from `now` on. Answers the first of them.
    ///
    /// What lies before the window is taken for gone: who asks for it gets what is in the window.
    pub fn book(&mut self, now: Time, cycles: u32) -> Time {
        debug_assert!(cycles < Self::CYCLES / 2);
        if now >= self.first + u64::from(Self::CYCLES / 2) {
            // The window moves on so that `now` has room behind it and some before it.
            let first = now - u64::from(Self::CYCLES / 4);
            let shift = first - self.first;
            self.taken = if shift < 128 { self.taken >> shift } else { 0 };
            self.first = first;
        }
        let want = (1_u128 << cycles) - 1;
        let mut at = now.max(self.first) - self.first;
        loop {
            if at as u32 + cycles > Self::CYCLES {
                // Full to its end: it moves on by what has no room.
                let shift = at as u32 + cycles - Self::CYCLES;
                self.taken >>= shift;
                self.first += u64::from(shift);
                at -= u64::from(shift);
            }
            let hit = self.taken >> at & want;
            if hit == 0 {
                self.taken |= want << at;
                return self.first + at;
            }
            at += u64::from(128 - hit.leading_zeros());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh() -> Network {
        let (columns, rows) = (4, 4);
        let described = Described { columns, rows, hop: 3, link_bytes: 16, interface: 8, first: 0 };
        Network::new(&described)
    }

    #[test]
    fn an_idle_network_takes_its_hops_and_a_message_with_a_line_four_cycles_more() {
        let mut network = mesh();
        assert_eq!(network.send(0, 15, Size::Control, 100), 100 + 8 + 6 * 3);
        assert_eq!(network.send(15, 0, Size::Data, 100), 100 + 8 + 6 * 3 + 4);
        assert_eq!(network.send(5, 5, Size::Data, 100), 100 + 8 + 4);
        assert_eq!(network.unloaded(15, 0, Size::Data), 8 + 6 * 3 + 4);
        assert_eq!([0, 1, 2, 3].map(|channel| network.corner(channel)), [0, 3, 12, 15]);
    }

    #[test]
    fn a_link_carries_a_flit_a_cycle_and_what_was_booked_for_later_lets_others_through() {
        let mut network = mesh();
        let ends = [0, 0, 0].map(|now| network.send(0, 1, Size::Data, now));
        assert_eq!(ends, [15, 20, 25]);
        let mut network = mesh();
        assert_eq!(network.send(0, 1, Size::Data, 40), 40 + 15);
        assert_eq!(network.send(0, 1, Size::Data, 0), 15, "long before that");
        assert_eq!(network.send(0, 1, Size::Control, 41), 41 + 11 + 4, "behind the line");
        assert_eq!(network.flits(), 11);
    }

    #[test]
    fn a_timetable_has_as_many_bookings_as_cycles_however_far_they_go() {
        let mut table = Timetable::default();
        let mut ends: Vec<Time> = (0..1000).map(|i| table.book(i / 2, 1)).collect();
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), 1000, "no cycle is given twice");
        assert_eq!(*ends.last().unwrap(), 999);
    }
}
