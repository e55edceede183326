//! The on-chip network between cores, banks of the last-level cache and memory controllers: a mesh
//! of tiles, or a single place.
//!
//! A message travels along its row, then along its column. Each link carries one flit per cycle.
//! Messages reserve links at the time of sending, some of them for later cycles than others. A link
//! is therefore a timetable with gaps, and not just the time at which it becomes free.

use super::description::Network as Described;
use super::when::Time;

/// The number of a tile.
pub type Tile = usize;

/// Bytes of a message besides its line.
const HEAD_BYTES: u32 = 16;

/// The payload of a message.
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
    /// Flits of a message with a line; 0 when links have no limit.
    data_flits: u32,
    /// The four links that leave each tile: east, west, south, north.
    links: Vec<Timetable>,
    flits: u64,
}

impl Network {
    /// Returns an idle network.
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

    /// Returns the tile of a channel's controller: a corner, starting with the first tile.
    pub fn corner(&self, channel: usize) -> Tile {
        if self.columns == 0 {
            return 0;
        }
        let (right, down) = (self.columns - 1, (self.rows - 1) * self.columns);
        [0, right, down, down + right][channel % 4]
    }

    /// Returns the number of hops between two tiles.
    pub fn hops(&self, from: Tile, to: Tile) -> u64 {
        if self.columns == 0 {
            return 0;
        }
        let apart = |a: usize, b: usize| a.abs_diff(b) as u64;
        apart(from % self.columns, to % self.columns)
            + apart(from / self.columns, to / self.columns)
    }

    /// Returns the number of flits carried by links.
    pub fn flits(&self) -> u64 {
        self.flits
    }

    /// Returns the latency of a message on an idle network.
    pub fn unloaded(&self, from: Tile, to: Tile, size: Size) -> Time {
        if self.columns == 0 {
            return self.interface;
        }
        let more = u64::from(self.flits_of(size)) - 1;
        self.interface + self.hop * self.hops(from, to) + more
    }

    fn flits_of(&self, size: Size) -> u32 {
        match size {
            Size::Data => self.data_flits.max(1),
            Size::Control => 1,
        }
    }

    /// Sends a message. Returns when its last flit arrives.
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

/// The reserved cycles of a link or a bank, in a sliding window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timetable {
    /// The first cycle of the window.
    first: Time,
    /// A bit per cycle of the window.
    taken: u128,
}

impl Timetable {
    const CYCLES: u32 = 128;

    /// Reserves the first `cycles` free consecutive cycles from `now` on, and returns the first of
    /// them.
    ///
    /// Cycles before the window count as past: such a request gets the first free cycles of the
    /// window.
    pub fn book(&mut self, now: Time, cycles: u32) -> Time {
        debug_assert!(cycles < Self::CYCLES / 2);
        if now >= self.first + u64::from(Self::CYCLES / 2) {
            // Slide the window so that it has cycles before and after `now`.
            let first = now - u64::from(Self::CYCLES / 4);
            let shift = first - self.first;
            self.taken = if shift < 128 { self.taken >> shift } else { 0 };
            self.first = first;
        }
        let want = (1_u128 << cycles) - 1;
        let mut at = now.max(self.first) - self.first;
        loop {
            if at as u32 + cycles > Self::CYCLES {
                // The window is full to its end: slide it by the missing cycles.
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
    fn idle_network_latency_is_hops_plus_flits() {
        let mut network = mesh();
        assert_eq!(network.send(0, 15, Size::Control, 100), 100 + 8 + 6 * 3);
        assert_eq!(network.send(15, 0, Size::Data, 100), 100 + 8 + 6 * 3 + 4);
        assert_eq!(network.send(5, 5, Size::Data, 100), 100 + 8 + 4);
        assert_eq!(network.unloaded(15, 0, Size::Data), 8 + 6 * 3 + 4);
        assert_eq!([0, 1, 2, 3].map(|channel| network.corner(channel)), [0, 3, 12, 15]);
    }

    #[test]
    fn link_fills_gaps_before_later_reservations() {
        let mut network = mesh();
        let ends = [0, 0, 0].map(|now| network.send(0, 1, Size::Data, now));
        assert_eq!(ends, [15, 20, 25]);
        let mut network = mesh();
        assert_eq!(network.send(0, 1, Size::Data, 40), 40 + 15);
        assert_eq!(network.send(0, 1, Size::Data, 0), 15, "before the later reservation");
        assert_eq!(network.send(0, 1, Size::Control, 41), 41 + 11 + 4, "after the line");
        assert_eq!(network.flits(), 11);
    }

    #[test]
    fn timetable_reserves_each_cycle_once() {
        let mut table = Timetable::default();
        let mut ends: Vec<Time> = (0..1000).map(|i| table.book(i / 2, 1)).collect();
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), 1000, "no cycle is reserved twice");
        assert_eq!(*ends.last().unwrap(), 999);
    }
}
