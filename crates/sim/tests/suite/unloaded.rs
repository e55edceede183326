//! Latencies of an idle machine equal the formulas of its description.
//!
//! The formulas are written here a second time, from the description's numbers alone, for every
//! built-in machine. `cargo test -p lastword-sim-tests --test suite unloaded -- --nocapture` prints
//! both sides.

use crate::bare::{
    LINES, alone, builtin, fresh_cycle, machine_of, pointer, run, timed, wait_for, word,
};
use sim::design::{Design, Volatile};
use sim::machine::description::{Description, Memory, Point};
use sim::machine::kernel::Program;
use sim::machine::named::NAMES;
use sim::machine::network::Size;
use sim::machine::when::When;
use sim::machine::{Hart, Machine, Message};

/// The latencies of a machine, computed from its description.
struct Formula(Description);

impl Formula {
    /// Returns the formulas of a machine without address translation, which is tested separately,
    /// without refreshes and without a hash of channels.
    fn of(name: &str) -> Formula {
        let mut settings = vec!["tlb.entries=0", "nvm.refi_ns=0", "nvm.channel_hash=false"];
        if builtin(name, &[]).dram.is_some() {
            settings.push("dram.refi_ns=0");
        }
        Formula(builtin(name, &settings))
    }

    fn ns(&self, ns: f64) -> u64 {
        (ns * self.0.clock_ghz).round() as u64
    }

    fn is_mesh(&self) -> bool {
        self.0.network.columns > 0
    }

    /// Returns column and row of a core.
    fn core(&self, core: usize) -> (u32, u32) {
        let columns = self.0.network.columns.max(1);
        (core as u32 % columns, core as u32 / columns)
    }

    fn home_tile(&self, line: u32) -> (u32, u32) {
        self.core((line % self.0.llc.banks) as usize)
    }

    fn is_nvm(&self, line: u32) -> bool {
        line < LINES || self.0.dram.is_none()
    }

    fn memory(&self, line: u32) -> &Memory {
        if self.is_nvm(line) { &self.0.nvm } else { self.0.dram.as_ref().expect("it has one") }
    }

    fn channel(&self, line: u32) -> u32 {
        line % self.memory(line).channels
    }

    fn corner(&self, channel: u32) -> (u32, u32) {
        let (right, down) = (self.0.network.columns.max(1) - 1, self.0.network.rows.max(1) - 1);
        [(0, 0), (right, 0), (0, down), (right, down)][channel as usize % 4]
    }

    fn remote(&self, line: u32) -> u64 {
        if self.channel(line) >= 2 { self.ns(self.0.mc.remote_ns) } else { 0 }
    }

    /// Returns the latency of a message of one flit.
    fn control(&self, from: (u32, u32), to: (u32, u32)) -> u64 {
        let hops = from.0.abs_diff(to.0) + from.1.abs_diff(to.1);
        let hops = if self.is_mesh() { u64::from(hops) } else { 0 };
        self.0.network.interface + self.0.network.hop * hops
    }

    /// Returns the latency of a message with a line and a head of 16 bytes.
    fn data(&self, from: (u32, u32), to: (u32, u32)) -> u64 {
        let flits = match (self.is_mesh(), self.0.network.link_bytes) {
            (true, bytes @ 1..) => u64::from((64 + 16_u32).div_ceil(bytes)),
            _ => 1,
        };
        self.control(from, to) + flits - 1
    }

    fn l1_hit(&self) -> u64 {
        self.0.l1.latency
    }

    fn l2_hit(&self) -> u64 {
        self.0.l2.as_ref().expect("it has one").latency
    }

    /// Returns the time from the core's request to the end of the directory lookup at the home
    /// tile.
    fn known(&self, core: usize, line: u32) -> u64 {
        let private = if self.0.l2.is_some() { self.l2_hit() } else { self.l1_hit() };
        private + self.control(self.core(core), self.home_tile(line)) + self.0.llc.directory
    }

    fn llc_hit(&self, core: usize, line: u32) -> u64 {
        self.known(core, line)
            + self.0.llc.latency
            + self.data(self.home_tile(line), self.core(core))
    }

    /// Returns the distance in lines to the next line of the same row and home tile.
    fn neighbour(&self, line: u32) -> u32 {
        let memory = self.memory(line);
        let round = if memory.interleave_bytes < memory.row_bytes { memory.banks } else { 1 };
        memory.channels * self.0.llc.banks * round
    }

    fn memory_read(&self, core: usize, line: u32, row_is_open: bool) -> u64 {
        let (memory, corner) = (self.memory(line), self.corner(self.channel(line)));
        let row = if row_is_open { memory.read_hit_ns } else { memory.read_miss_ns };
        self.known(core, line)
            + self.0.llc.latency
            + self.control(self.home_tile(line), corner)
            + self.0.mc.overhead
            + self.ns(row)
            + self.ns(memory.burst_ns)
            + self.remote(line)
            + self.data(corner, self.core(core))
    }

    /// Returns the time of a lookup that reads no data from the last-level cache. A directory
    /// without a latency of its own takes as long as that cache.
    fn found_elsewhere(&self, core: usize, line: u32) -> u64 {
        let within = if self.0.llc.directory == 0 { self.0.llc.latency } else { 0 };
        self.known(core, line) + within
    }

    fn transfer(&self, core: usize, owner: usize, line: u32) -> u64 {
        self.found_elsewhere(core, line)
            + self.control(self.home_tile(line), self.core(owner))
            + self.l1_hit()
            + self.data(self.core(owner), self.core(core))
    }

    /// Returns the latency of an upgrade: a sharer requests the right to write, and another sharer
    /// exists.
    fn upgrade(&self, core: usize, other: usize, line: u32) -> u64 {
        let (home, core_at, other) = (self.home_tile(line), self.core(core), self.core(other));
        let invalidated = self.control(home, other) + 1 + self.control(other, core_at);
        self.found_elsewhere(core, line) + self.control(home, core_at).max(invalidated)
    }

    /// Returns the latency of a write-back of a line modified in the core itself, from the cycle in
    /// which it leaves the store buffer until its acknowledgement at the core.
    fn write_back(&self, core: usize, line: u32) -> u64 {
        let (home, core) = (self.home_tile(line), self.core(core));
        let corner = self.corner(self.channel(line));
        let media = self.ns(self.memory(line).burst_ns) + self.ns(self.memory(line).write_ns);
        self.l1_hit()
            + self.data(core, home)
            + self.0.llc.directory
            + self.0.llc.latency
            + self.data(home, corner)
            + self.0.mc.overhead
            + if self.0.persist.point == Point::Media { media } else { 0 }
            + self.remote(line)
            + self.control(corner, core)
    }

    /// Returns the number of sets of the private caches.
    fn sets(&self) -> u32 {
        let l1 = &self.0.l1;
        let sets = |bytes: u64, ways: u32| (bytes / 64) as u32 / ways;
        let of_l1 = sets(l1.bytes, l1.ways);
        self.0.l2.as_ref().map_or(of_l1, |l2| sets(l2.bytes, l2.ways).max(of_l1))
    }

    /// Returns the lines whose loads evict a line from the first cache; the next method, from all
    /// private caches.
    fn out_of_l1(&self, line: u32) -> Vec<u32> {
        let sets = (self.0.l1.bytes / 64) as u32 / self.0.l1.ways;
        (1..=self.0.l1.ways).map(|i| line + i * sets).collect()
    }

    fn out_of_private(&self, line: u32) -> Vec<u32> {
        let ways = self.0.l2.as_ref().map_or(self.0.l1.ways, |l2| l2.ways);
        (1..=2 * ways).map(|i| line + i * self.sets()).collect()
    }
}

fn load_all(hart: &mut Hart<'_, Volatile>, lines: &[u32]) {
    for line in lines {
        hart.load(word(*line), 0);
        hart.fence();
    }
}

fn load(line: u32) -> impl FnOnce(&mut Hart<'_, Volatile>) {
    move |hart| {
        hart.load(word(line), 0);
    }
}

#[test]
fn hit_latency_matches_formula() {
    for name in NAMES {
        let formula = Formula::of(name);
        let mut far = (u64::MAX, 0);
        for core in 0..formula.0.cores {
            for line in 1000..1000 + formula.0.llc.banks {
                let (l1_out, out) = (formula.out_of_l1(line), formula.out_of_private(line));
                let ((first, second, last), _) = alone(&formula.0, core, move |hart| {
                    load_all(hart, &[line]);
                    let first = timed(hart, load(line));
                    load_all(hart, &l1_out);
                    let second = timed(hart, load(line));
                    load_all(hart, &out);
                    (first, second, timed(hart, load(line)))
                });
                assert_eq!(first, formula.l1_hit(), "{name}, core {core}: first cache");
                let hit = formula.llc_hit(core, line);
                let below_l1 = if formula.0.l2.is_some() { formula.l2_hit() } else { hit };
                assert_eq!(second, below_l1, "{name}, core {core}: below the first cache");
                assert_eq!(last, hit, "{name}, core {core}, line {line}: last-level cache");
                far = (far.0.min(hit), far.1.max(hit));
            }
        }
        let l2 = formula.0.l2.as_ref().map_or("-".into(), |l2| l2.latency.to_string());
        let (near, far) = far;
        println!("{name:9} hits: L1 {}, L2 {l2}, last {near} to {far}", formula.l1_hit());
    }
}

#[test]
fn evicted_line_in_flight_is_not_there_yet() {
    for name in ["redu", "ssp"] {
        // Enough banks and a fast bus, so that no access waits for them.
        let settings = ["tlb.entries=0", "nvm.banks=512", "nvm.burst_ns=0.5"];
        let formula = Formula(builtin(name, &settings));
        let line = 2048;
        let out = formula.out_of_l1(line);
        let pointee = 9000;
        let (took, _) = alone(&formula.0, 0, move |hart| {
            hart.machine().memory.set_word(word(line) + 1, pointer(word(pointee)));
            timed(hart, |hart| {
                // Overflow a set of the first cache with misses, and load the first line again: a
                // load that follows its pointer must wait for its data from memory.
                hart.load(word(line), 0);
                for other in out {
                    hart.load(word(other), 0);
                }
                let object = hart.load(word(line) + 1, 0);
                hart.load(word(pointee), object);
            })
        });
        let one = formula.memory_read(0, line, false);
        let both = one + formula.memory_read(0, pointee, true);
        assert!(took >= both, "{name}: {took}, not twice {one}");
    }
}

#[test]
fn memory_read_latency_matches_formula() {
    for name in NAMES {
        let formula = Formula::of(name);
        for first in [2048, LINES + 4096 + 2048] {
            if first > LINES && formula.0.dram.is_none() {
                continue;
            }
            let mut range = (u64::MAX, 0);
            for core in 0..formula.0.cores {
                for line in first..first + formula.0.llc.banks.max(4) {
                    let neighbour = line + formula.neighbour(line);
                    let ((closed, open), _) = alone(&formula.0, core, move |hart| {
                        (timed(hart, load(line)), timed(hart, load(neighbour)))
                    });
                    assert_eq!(closed, formula.memory_read(core, line, false), "{name}, {line}");
                    assert_eq!(open, formula.memory_read(core, neighbour, true), "{name}, {line}");
                    range = (range.0.min(open), range.1.max(closed));
                }
            }
            let kind = if formula.is_nvm(first) { "NVM" } else { "DRAM" };
            println!("{name:9} {kind} reads: {} to {} cycles", range.0, range.1);
        }
    }
}

#[test]
fn tlb_miss_costs_a_walk_and_one_access() {
    for name in NAMES {
        let description = builtin(name, &["nvm.refi_ns=0", "nvm.channel_hash=false"]);
        let formula = Formula::of(name);
        let (pages, line) = (description.tlb.entries, 64);
        let ((miss, hit, again), machine) = alone(&description, 0, move |hart| {
            let miss = timed(hart, load(line));
            let hit = timed(hart, load(line));
            // Pages that evict the first one from the TLB, in other sets of the caches.
            let others = (1..=pages).map(|page| line + page * 64 + 1);
            load_all(hart, &others.collect::<Vec<_>>());
            (miss, hit, timed(hart, load(line)))
        });
        let access = description.l2.as_ref().map_or(description.llc.latency, |l2| l2.latency);
        let walk = description.tlb.walk + access;
        assert_eq!(miss, walk + formula.memory_read(0, line, false), "{name}");
        assert_eq!(hit, formula.l1_hit(), "{name}");
        assert_eq!(
            again,
            walk + formula.l1_hit(),
            "{name}: the line is cached, its page is not in the TLB"
        );
        assert!(machine.now() > 0);
        println!("{name:9} walk: {walk} cycles");
    }
}

/// Runs two cores one after the other: `first` ends long before `second` is timed.
fn one_after_the_other(
    formula: &Formula,
    cores: (usize, usize),
    first: impl FnOnce(&mut Hart<'_, Volatile>) + 'static,
    second: impl FnOnce(&mut Hart<'_, Volatile>) -> u64 + 'static,
) -> u64 {
    let took = std::rc::Rc::new(std::cell::Cell::new(0));
    let out = std::rc::Rc::clone(&took);
    let (mut first, mut second) = (Some(first), Some(second));
    let programs = (0..formula.0.cores).map(|core| -> Program<Volatile> {
        let out = std::rc::Rc::clone(&out);
        match core {
            core if core == cores.0 => Box::new(first.take().expect("one core runs it")),
            core if core == cores.1 => {
                let second = second.take().expect("one core runs it");
                Box::new(move |hart| {
                    wait_for(hart, 100_000);
                    out.set(second(hart));
                })
            }
            _ => Box::new(|_| {}),
        }
    });
    let programs = programs.collect();
    run(machine_of(&formula.0, Volatile), programs).expect("no deadlock");
    took.get()
}

#[test]
fn transfer_and_upgrade_latency_match_formula() {
    for name in NAMES {
        let formula = Formula::of(name);
        let cores = formula.0.cores;
        let (mut transfers, mut upgrades) = ((u64::MAX, 0), (u64::MAX, 0));
        for (owner, core) in [(0, cores - 1), (cores - 1, 0), (cores / 2, cores / 2 - 1)] {
            for line in 1000..1000 + formula.0.llc.banks {
                let took = one_after_the_other(
                    &formula,
                    (owner, core),
                    move |hart| hart.store(word(line), 0, 7),
                    move |hart| timed(hart, load(line)),
                );
                assert_eq!(took, formula.transfer(core, owner, line), "{name}, line {line}");
                transfers = (transfers.0.min(took), transfers.1.max(took));
                let took = one_after_the_other(
                    &formula,
                    (owner, core),
                    move |hart| load_all(hart, &[line]),
                    move |hart| {
                        load_all(hart, &[line]);
                        timed(hart, |hart| hart.store(word(line), 0, 7))
                    },
                );
                assert_eq!(took, formula.upgrade(core, owner, line), "{name}, line {line}");
                upgrades = (upgrades.0.min(took), upgrades.1.max(took));
            }
        }
        println!("{name:9} transfers: {transfers:?}, upgrades: {upgrades:?}");
    }
}

#[test]
fn cached_stores_drain_one_per_cycle() {
    for name in NAMES {
        let formula = Formula::of(name);
        let line = 1000;
        let ((missing, one, eight), _) = alone(&formula.0, 0, move |hart| {
            let missing = timed(hart, |hart| hart.store(word(line), 0, 7));
            let one = timed(hart, |hart| hart.store(word(line), 0, 8));
            let all = |hart: &mut Hart<'_, Volatile>| {
                (0..8).for_each(|i| hart.store(word(line) + i, 0, i));
            };
            (missing, one, timed(hart, all))
        });
        assert_eq!(missing, formula.memory_read(0, line, false), "{name}: when the line is there");
        assert_eq!((one, eight), (1, 8), "{name}");
    }
}

#[test]
fn write_back_latency_matches_formula() {
    for name in NAMES {
        let formula = Formula::of(name);
        for core in 0..formula.0.cores {
            for line in 2048..2048 + formula.0.llc.banks.max(4) {
                let (took, machine) = alone(&formula.0, core, move |hart| {
                    hart.store(word(line), 0, 7);
                    timed(hart, |hart| hart.write_back(line))
                });
                // The write-back executes in its cycle, and leaves the store buffer in the next
                // one.
                assert_eq!(took, 1 + formula.write_back(core, line), "{name}, {line}");
                assert_eq!(machine.memory.media_line(line).map(|words| words[0]), Some(7));
            }
        }
    }
}

#[test]
fn write_back_waits_for_write_in_flight() {
    let slow = ["tlb.entries=0", "nvm.write_ns=2000", "nvm.write_hit_ns=2000"];
    let description = builtin("tiny-redu", &slow);
    let line = 1000;
    let (durable, _) = alone(&description, 0, move |hart| {
        hart.store(word(line), 0, 7);
        hart.fence();
        // Evict the line from all caches, so that its write waits in the queue.
        load_all(hart, &(1..40).map(|i| line + 8 * i).collect::<Vec<_>>());
        hart.write_back(line);
        hart.fence();
        hart.machine().memory.media_line(line).map(|words| words[0])
    });
    assert_eq!(durable, Some(7), "it is durable when the fence returns");
}

/// A design whose controllers reply to every message at once.
struct Echo(When);

impl Design for Echo {
    const NAME: &'static str = "echo";
    const ABOUT: &'static str = "replies to messages";
    const MACHINE: &'static str = "lad";

    fn new(_: &Description, _: u32) -> Echo {
        Echo(When::at(0))
    }

    fn message(machine: &mut Machine<Echo>, channel: usize, core: usize, _: Message) {
        let there = machine.answer(channel, core, Size::Control);
        let token = machine.design.0;
        machine.notify(token, there);
    }
}

/// Returns the latency of a message from a core to a controller and back.
fn round_trip(description: &Description, core: usize, channel: usize) -> u64 {
    let took = std::rc::Rc::new(std::cell::Cell::new(0));
    let out = std::rc::Rc::clone(&took);
    let mut programs: Vec<Program<Echo>> = Vec::new();
    (0..core).for_each(|_| programs.push(Box::new(|_| {})));
    programs.push(Box::new(move |hart| {
        let began = fresh_cycle(hart);
        hart.until(began);
        let token = hart.machine().open_token();
        hart.machine().design.0 = token;
        hart.machine().send_message(core, channel, [0; 2]);
        out.set(hart.time_of(token) - began);
    }));
    run(machine_of(description, Echo::new(description, 0)), programs).expect("no deadlock");
    took.get()
}

#[test]
fn message_round_trip_matches_formula() {
    for name in NAMES {
        let formula = Formula::of(name);
        let channels = formula.0.nvm.channels as usize;
        for (core, channel) in
            (0..formula.0.cores).flat_map(|core| (0..channels).map(move |at| (core, at)))
        {
            let (at, corner) = (formula.core(core), formula.corner(channel as u32));
            let ways = formula.control(at, corner) + formula.control(corner, at);
            let took = round_trip(&formula.0, core, channel);
            assert_eq!(took, ways + formula.0.mc.overhead, "{name}, core {core} to {channel}");
        }
    }
}

#[test]
fn lad_machine_commits_in_30_and_prepares_in_80_cycles() {
    let formula = Formula::of("lad");
    let cores = formula.0.cores;
    let (mut trips, mut flushes) = (Vec::new(), Vec::new());
    for core in 0..cores {
        let all = (0..4).map(|channel| round_trip(&formula.0, core, channel));
        let nearest = all.min().expect("four channels");
        let hops = (0..4).map(|channel| {
            let (at, corner) = (formula.core(core), formula.corner(channel));
            u64::from(at.0.abs_diff(corner.0) + at.1.abs_diff(corner.1))
        });
        let network = &formula.0.network;
        let one_way = network.interface + network.hop * hops.min().expect("four channels");
        assert_eq!(nearest, 2 * one_way + formula.0.mc.overhead);
        trips.push(nearest);
        for line in 2048..2048 + formula.0.llc.banks {
            flushes.push(alone(&formula.0, core, flush(line)).0);
        }
    }
    let mean = |all: &[u64]| all.iter().sum::<u64>() as f64 / all.len() as f64;
    let (commit, prepare) = (mean(&trips), mean(&flushes));
    let range = |all: &[u64]| (*all.iter().min().unwrap_or(&0), *all.iter().max().unwrap_or(&0));
    println!("lad: a control message to the nearest controller and back, by core: {trips:?}");
    println!("lad: its mean {commit:.1} cycles; a write-back of one line {prepare:.1} on average,");
    println!("     {:?} by core and home tile", range(&flushes));
    assert!((29.0..=31.0).contains(&commit), "{commit}");
    assert!((79.0..=81.0).contains(&prepare), "{prepare}");
}

#[test]
fn first_core_can_be_on_any_tile() {
    for core in 0..15 {
        let mut moved = builtin("lad", &[]);
        moved.cores = 1;
        moved.network.first = core;
        moved.validate().unwrap();
        for line in [2048, 2055] {
            let there = alone(&builtin("lad", &[]), core as usize, flush(line)).0;
            assert_eq!(alone(&moved, 0, flush(line)).0, there, "tile {core}, line {line}");
        }
    }
    let mut beside = builtin("lad", &[]);
    beside.set("network.first=2").unwrap();
    let refused = beside.validate().unwrap_err().to_string();
    assert_eq!(refused, "network.first = 2: it must be at most 1: a core has no tile");
}

/// Returns the latency of a write-back of a line that was just written, with its fence.
fn flush(line: u32) -> impl FnOnce(&mut Hart<'_, Volatile>) -> u64 + 'static {
    move |hart| {
        hart.store(word(line), 0, 7);
        timed(hart, |hart| hart.write_back(line))
    }
}
