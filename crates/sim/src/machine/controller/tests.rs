//! Tests of the controller's schedule and of its events.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::mutants::inject;

pub(super) const TIMING: Timing = Timing {
    banks: 8,
    ranks: 1,
    groups: 1,
    row_lines: 16,
    interleave_lines: 16,
    read_hit: 20,
    read_miss: 50,
    write_hit: 100,
    write_miss: 100,
    write_keeps_bank: true,
    burst: 4,
    ccd_l: 4,
    rrd_s: 4,
    rrd_l: 4,
    faw: 0,
    rc: 50,
    rtp: 0,
    wtr_s: 0,
    wtr_l: 0,
    rtw: 0,
    refi: 0,
    rfc: 0,
    forward: 6,
};
const QUEUE: Queue = Queue { slots: 10, age: 10_000 };

/// A controller and the events that it has reported.
struct Channel {
    controller: Controller,
    events: Vec<(Time, Event)>,
}

fn data(line: Line) -> Write {
    let payload = [line; 8];
    Write::new(line, payload, Class::Data)
}

impl Channel {
    fn new(queue: Queue) -> Channel {
        Channel { controller: Controller::new(TIMING, queue), events: Vec::new() }
    }

    /// Runs up to this time, or until the controller is idle.
    fn go(&mut self, until: Option<Time>) {
        let mut last = 0;
        while let Some(at) = self.controller.next().filter(|at| until.is_none_or(|end| *at <= end))
        {
            assert!(at >= last, "time goes back from {last} to {at}");
            last = at;
            let events = &mut self.events;
            self.controller.run(at, &mut |event| events.push((at, event)));
        }
    }

    /// Returns the time of the first event that matches.
    fn when(&self, is_it: impl Fn(&Event) -> bool) -> Option<Time> {
        self.events.iter().find(|(_, event)| is_it(event)).map(|(at, _)| *at)
    }

    fn read_at(&self, id: Id) -> Option<Time> {
        self.when(|event| matches!(event, Event::Read { id: read, .. } if *read == id))
    }

    fn durable_at(&self, id: Id) -> Option<Time> {
        self.when(|event| matches!(event, Event::Durable { id: write, .. } if *write == id))
    }

    fn accepted_at(&self, id: Id) -> Option<Time> {
        self.when(|event| matches!(event, Event::Accepted { id: write } if *write == id))
    }
}

#[test]
fn unloaded_latencies_are_those_of_the_device() {
    let mut channel = Channel::new(QUEUE);
    channel.controller.read(100, 1, 0);
    channel.go(None);
    assert_eq!(channel.read_at(1), Some(100 + 50 + 4), "the row was closed");
    channel.controller.read(1000, 2, 1);
    channel.go(None);
    assert_eq!(channel.read_at(2), Some(1000 + 20 + 4), "the row was open");
    channel.controller.write(2000, 3, data(2));
    channel.go(None);
    assert_eq!(channel.accepted_at(3), Some(2000));
    assert_eq!(channel.durable_at(3), Some(2000 + 4 + 100));
    let counts = channel.controller.counts(3000);
    assert_eq!((counts.reads, counts.forwarded, counts.writes), (2, 0, 1));
    assert_eq!((counts.row_hits, counts.activations), (2, 1));
    assert_eq!(counts.banks[0], BankCounts { reads: 2, writes: 1 });
    let queue = QueueCounts { slot_cycles: 104, most: 1, ..QueueCounts::default() };
    assert_eq!(counts.queue, queue);
}

#[test]
fn bus_bounds_reads_and_banks_bound_writes() {
    // Each row gets 16 reads, so the bus never idles.
    let mut channel = Channel::new(QUEUE);
    for id in 0..8 * 16 * 10 {
        channel.controller.read(0, id, id);
    }
    channel.go(None);
    let last = channel.events.last().expect("all are read").0;
    let (bursts, slack) = (8 * 16 * 10 * TIMING.burst, 50 + 4 + 10 * 50);
    assert!((bursts..bursts + slack).contains(&last), "{last} of {bursts}");
    // Writes of different rows occupy their bank for the write time.
    let mut channel = Channel::new(Queue { slots: 64, age: 10_000 });
    for id in 0..400 {
        channel.controller.write(0, id, data(16 * (id % 64)));
    }
    channel.go(None);
    let last = channel.events.last().expect("all are written").0;
    assert!((50 * 104..50 * 104 + 200).contains(&last), "{last}");
}

#[test]
fn write_draining_starts_at_four_fifths_and_stops_at_half() {
    let mut channel = Channel::new(QUEUE);
    // Seven writes are fewer than four fifths of ten: reads of the same banks go before them.
    for id in 0..7 {
        channel.controller.write(0, id, data(16 * id));
    }
    for id in 100..120 {
        channel.controller.read(0, id, 16 * (id % 4) + 1024);
    }
    channel.go(Some(9));
    channel.controller.write(10, 7, data(7 * 16));
    channel.controller.write(10, 8, data(8 * 16));
    channel.go(None);
    let read = |id| channel.read_at(id).expect("it is read");
    let last = (100..120).map(read).max().expect("20 reads");
    let started = |id| channel.durable_at(id).expect("it is written") - 104;
    let before = (0..9).filter(|id| started(*id) < last - 24).count();
    assert_eq!(before, 4, "five of nine are left, half of the slots, and follow all reads");
}

#[test]
fn writes_of_a_line_keep_order_and_forward_the_youngest() {
    let mut channel = Channel::new(QUEUE);
    for id in 0..3 {
        let payload = [id; 8];
        channel.controller.write(0, id, Write { payload, ..data(5) });
    }
    channel.controller.read(0, 9, 5);
    channel.go(None);
    let forwarded = Event::Read { id: 9, forwarded: Some([2; 8]) };
    assert_eq!(channel.when(|event| *event == forwarded), Some(6));
    let ends = [0, 1, 2].map(|id| channel.durable_at(id).expect("it is written"));
    assert_eq!(ends, [104, 208, 312]);
    channel.controller.read(1000, 10, 5);
    channel.go(None);
    assert!(channel.events.contains(&(1024, Event::Read { id: 10, forwarded: None })));
}

#[test]
fn write_waits_for_earlier_read_of_its_line() {
    let mut channel = Channel::new(QUEUE);
    // The bank is busy when the read arrives, and the queue fills before the bank is free.
    channel.controller.write(0, 0, data(16));
    channel.go(Some(0));
    channel.controller.read(1, 1, 17);
    channel.go(Some(1));
    for id in 2..11 {
        channel.controller.write(2, id, data(if id == 2 { 17 } else { 16 + 128 * id }));
    }
    channel.go(None);
    let (read, write) = (channel.read_at(1), channel.durable_at(2));
    assert!(read < write, "{read:?} must not see the write durable at {write:?}");
}

#[test]
fn data_waiting_for_log_leaves_reserved_slot() {
    let mut channel = Channel::new(QUEUE);
    for id in 0..20 {
        channel.controller.write(0, id, Write { after: vec![50], ..data(16 * id) });
    }
    channel.go(Some(5));
    assert_eq!(channel.controller.queued(), (9, 11), "one slot is reserved");
    channel.controller.write(10, 50, Write { class: Class::LogData, ..data(9999) });
    channel.go(None);
    let log = channel.durable_at(50).expect("it found room");
    let first = (0..20).filter_map(|id| channel.durable_at(id)).min();
    assert_eq!((log, first), (10 + 104, Some(10 + 104 + 104)));
    assert_eq!(channel.controller.queued(), (0, 0));
}

#[test]
fn slots_go_to_the_oldest_write() {
    let mut channel = Channel::new(QUEUE);
    // Log writes fill the queue, then a data write arrives, then more log writes.
    let log = |line| Write { class: Class::LogData, ..data(line) };
    for id in 0..10 {
        channel.controller.write(0, id, log(16 * id));
    }
    channel.controller.write(0, 10, data(16 * 10));
    for id in 11..20 {
        channel.controller.write(0, id, log(16 * id));
    }
    channel.go(None);
    let accepted = |id| channel.accepted_at(id).expect("all are accepted");
    assert_eq!(accepted(9), 0);
    assert!(accepted(10) <= accepted(11) && accepted(10) > 0, "a younger log does not pass it");
    let order: Vec<Time> = (0..20).map(accepted).collect();
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn independent_log_passes_data_into_reserved_slot() {
    let mut channel = Channel::new(QUEUE);
    // More data writes than slots wait for a log write that arrives after them.
    for id in 0..12 {
        channel.controller.write(0, id, Write { after: vec![90], ..data(16 * id) });
    }
    // A write that frees log space passes them too. A log write that depends on another does not.
    let of = |class, line| Write { class, ..data(line) };
    channel.controller.write(0, 80, Write { after: vec![90], ..of(Class::LogMeta, 2000) });
    channel.controller.write(0, 81, of(Class::Checkpoint, 3000));
    channel.go(Some(5));
    assert_eq!((channel.accepted_at(8), channel.accepted_at(9)), (Some(0), None));
    assert_eq!((channel.accepted_at(80), channel.accepted_at(81)), (None, Some(0)));
    channel.controller.write(10, 90, of(Class::LogData, 4000));
    channel.go(None);
    assert!(channel.accepted_at(90) <= channel.durable_at(81), "the log write has the next slot");
    assert_eq!(channel.controller.queued(), (0, 0));
}

#[test]
fn held_write_without_owner_has_no_slot() {
    let mut channel = Channel::new(QUEUE);
    channel.controller.write(0, 1, Write { held: true, ..data(0) });
    channel.controller.write(0, 2, Write { held: true, owner: 7, ..data(16) });
    channel.go(None);
    assert_eq!((channel.accepted_at(1), channel.accepted_at(2)), (None, Some(0)));
    channel.controller.release(100, 1);
    channel.go(None);
    assert_eq!((channel.accepted_at(1), channel.durable_at(1)), (Some(100), Some(204)));
    // With the mutant, a battery would persist this write although its log may not be durable.
    let _injected = inject(Mutant::HeldHasSlot);
    let mut channel = Channel::new(QUEUE);
    channel.controller.write(0, 1, Write { held: true, ..data(0) });
    channel.go(None);
    assert_eq!(channel.accepted_at(1), Some(0));
}

#[test]
fn held_write_waits_and_old_write_precedes_reads() {
    let mut channel = Channel::new(Queue { slots: 10, age: 300 });
    channel.controller.write(0, 1, Write { held: true, ..data(0) });
    channel.controller.write(0, 2, data(16));
    channel.go(Some(500));
    assert_eq!(channel.durable_at(1), None);
    channel.controller.release(1000, 1);
    channel.go(None);
    assert_eq!(channel.durable_at(1), Some(1104));
    // An endless stream of reads to all banks.
    channel.controller.write(2000, 3, data(64));
    for step in 0..500 {
        channel.controller.read(2000 + 4 * step, 100 + step, 16 * (step % 4));
        channel.go(Some(2000 + 4 * step));
    }
    channel.go(None);
    let end = channel.durable_at(3).expect("it is written");
    assert!((2300..2300 + 200).contains(&end), "{end}");
}

proptest! {
    /// Any requests all complete, equal requests complete at equal times, and the array ends with
    /// the last value of each line.
    #[test]
    fn random_requests_complete_deterministically(
        requests in prop::collection::vec((0_u64..40, 0_u64..40, 0..4_u8), 1..200),
    ) {
        let run = || {
            let mut channel = Channel::new(QUEUE);
            let (mut now, mut last, mut released) = (0, HashMap::new(), Vec::new());
            for (id, &(pause, line, kind)) in (0..).zip(&requests) {
                now += pause;
                channel.go(Some(now));
                match kind {
                    0 => channel.controller.read(now, id, line),
                    kind => {
                        let held = kind == 2;
                        let class = if kind == 3 { Class::Journal } else { Class::Data };
                        let payload = [id; 8];
                        let write = Write { payload, class, held, ..data(line) };
                        channel.controller.write(now, id, write);
                        last.insert(line, payload);
                        released.extend(held.then_some(id));
                    }
                }
            }
            for id in released {
                now += 7;
                channel.go(Some(now));
                channel.controller.release(now, id);
            }
            channel.go(None);
            (channel, last)
        };
        let (channel, last) = run();
        let mut array = HashMap::new();
        let mut ended = 0;
        for (_, event) in &channel.events {
            match event {
                Event::Accepted { .. } | Event::Merged { .. } => continue,
                Event::Durable { line, payload, .. } => drop(array.insert(*line, *payload)),
                Event::Read { .. } => {}
            }
            ended += 1;
        }
        prop_assert_eq!(ended, requests.len());
        prop_assert_eq!(array, last);
        prop_assert_eq!(run().0.events, channel.events);
    }
}

/// The DRAM of the tests: writes change the open row.
const DRAM: Timing = Timing {
    write_keeps_bank: false,
    write_hit: 15,
    write_miss: 65,
    rtp: 8,
    rtw: 10,
    wtr_s: 3,
    wtr_l: 8,
    ccd_l: 6,
    ..TIMING
};

/// The line of a row in bank 0.
fn in_row(row: Line) -> Line {
    row * 16 * 8
}

#[test]
fn row_that_is_opened_is_not_accessed_before() {
    let mut channel = Channel { controller: Controller::new(DRAM, QUEUE), events: Vec::new() };
    channel.controller.read(0, 1, in_row(0));
    channel.go(None);
    // The queue drains, so the write's activation of row 1 is chosen before the read of row 0.
    for id in 10..19 {
        channel.controller.write(1000, id, data(in_row(1) + (id - 10)));
    }
    channel.controller.read(1000, 2, in_row(0) + 1);
    channel.go(None);
    let (read, first) = (channel.read_at(2).unwrap(), channel.durable_at(10).unwrap());
    // Either the read was first, or the row was opened for it again.
    let write = 1000 + 30 + 15 + 4 + 15; // activation, command, burst, array
    assert!(first >= write, "{first}");
    assert!(read == 1000 + 20 + 4 || read >= first + 30 + 20 + 4, "{read} {first}");
}

#[test]
fn old_read_is_not_starved_by_writes_of_its_bank() {
    for timing in [TIMING, DRAM] {
        let queue = Queue { slots: 10, age: 500 };
        let mut channel =
            Channel { controller: Controller::new(timing, queue), events: Vec::new() };
        // Row hits of one bank, faster than the array takes them.
        for (id, at) in (100..).zip((0..40_000).step_by(20)) {
            channel.go(Some(at));
            channel.controller.write(at, id, data(in_row(0) + id % 16));
            if at == 2000 {
                channel.controller.read(at, 1, in_row(1));
            }
        }
        let read = channel.read_at(1).expect("an old read goes before writes");
        assert!(read < 2000 + 500 + 2 * 200 + 100, "{read}");
    }
}

#[test]
fn old_write_is_not_starved_by_reads() {
    // Reads of its bank close its row, and reads of another one keep the channel from turning.
    for (timing, bank) in [(TIMING, 0), (TIMING, 3), (DRAM, 0), (DRAM, 3)] {
        let queue = Queue { slots: 10, age: 500 };
        let mut channel =
            Channel { controller: Controller::new(timing, queue), events: Vec::new() };
        for (id, at) in (100..).zip((0..20_000).step_by(7)) {
            channel.go(Some(at));
            channel.controller.read(at, id, 16 * bank + id % 16);
            if at == 2002 {
                channel.controller.write(at, 1, data(in_row(1)));
            }
        }
        let write = channel.durable_at(1).expect("an old write goes before reads");
        assert!(write < 2002 + 500 + 2 * 200, "{write}");
    }
}
