//! Latency and bandwidth of a channel of DDR4-3200 against those of DRAMsim3.
//!
//! docs/research/simulator.md has the figures, their settings, and the origin of the traces. A unit
//! of time is a clock of the memory, tCK = 0.625 ns.

use super::*;

/// CL 18, tRCD 22, tRP 22, tRAS 39, tWR 16; the rest are JEDEC's values for DDR4-3200 of 8 Gb by 8,
/// as in DRAMsim3's `DDR4_8Gb_x8_3200.ini`.
const DDR4: Timing = Timing {
    banks: 16,
    ranks: 1,
    groups: 4,
    row_lines: 128,
    interleave_lines: 128,
    read_hit: 18,
    read_miss: 22 + 22 + 18,
    write_hit: 16,
    write_miss: 22 + 22 + 16 + 16,
    write_keeps_bank: false,
    burst: 4,
    ccd_l: 8,
    rrd_s: 4,
    rrd_l: 8,
    faw: 34,
    rc: 39 + 22,
    rtp: 12,
    wtr_s: 4,
    wtr_l: 12,
    rtw: 18 + 4 + 1 - 16,
    refi: 12_480,
    rfc: 560,
    forward: 1,
};

const TCK_NS: f64 = 0.625;

/// Outstanding reads. DRAMsim3 has 32 waiting transactions, and 8 more of each bank: of all banks
/// if the lines are random, and of one or two if they are neighbours.
const OF_ALL_BANKS: usize = 32 + 16 * 8;
const OF_TWO_BANKS: usize = 32 + 2 * 8;

/// Slots of the queue of writes. Four fifths, at which it is drained, are 38; DRAMsim3 drains 32.
/// DRAMsim3 has no bound for the age of a write; this one is never reached.
const QUEUE: Queue = Queue { slots: 48, age: 100_000 };

/// A trace: the line of a request, whether it writes, and its time.
type Trace = Box<dyn Iterator<Item = (Line, bool, Time)>>;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Random lines of 4 GiB, one in `gap` clocks, some percent of them written.
fn random(gap: Time, written: u64) -> Trace {
    let mut random = Random(42);
    Box::new((0..).map(move |number| {
        let line = random.next() >> 38;
        (line, written > 0 && random.next() % 100 < written, number * gap)
    }))
}

/// Lines of one row.
fn one_bank() -> Trace {
    Box::new((0..).map(|number| (number % 128, false, 0)))
}

/// Lines of open rows, round the banks.
fn round(writes: bool) -> Trace {
    Box::new((0..).map(move |number| (number % 16 * 128 + number / 16 % 128, writes, 0)))
}

/// Neighbouring lines, row after row.
fn sequential(writes: bool) -> Trace {
    Box::new((0..).map(move |number| (number, writes, 0)))
}

/// Replays the first requests of a trace. Returns ns of a line, and the mean latency of a read.
fn replay(mut trace: Trace, most: usize, requests: u64) -> (f64, f64) {
    let mut controller = Controller::new(DDR4, QUEUE);
    let (mut arrived, mut latency, mut reads) = (vec![0; requests as usize], 0, 0_u64);
    let (mut sent, mut outstanding, mut now, mut waiting) = (0, 0, 0, trace.next());
    loop {
        let next = controller.next();
        let has_room = outstanding < most && controller.queued().1 == 0;
        match waiting.filter(|_| has_room && sent < requests) {
            Some((line, writes, time)) if next.is_none_or(|next| time.max(now) <= next) => {
                now = now.max(time);
                arrived[sent as usize] = now;
                match writes {
                    true => controller.write(now, sent, Write::new(line, [0; 8], Class::Data)),
                    false => {
                        outstanding += 1;
                        controller.read(now, sent, line);
                    }
                }
                sent += 1;
                waiting = trace.next();
            }
            _ => {
                let Some(next) = next else { break };
                now = next;
                controller.run(now, &mut |event| {
                    if let Event::Read { id, .. } = event {
                        outstanding -= 1;
                        reads += 1;
                        latency += now - arrived[id as usize];
                    }
                });
            }
        }
    }
    let ns = |clocks: u64, of: u64| TCK_NS * clocks as f64 / of.max(1) as f64;
    (ns(now, requests), ns(latency, reads))
}

#[test]
fn bandwidth_and_latency_are_near_dramsim3() {
    // Each trace with DRAMsim3's ns of a line and ns of a read's latency; 0 where the trace
    // saturates the channel, because the latency is then that of the queue.
    // DRAMsim3 mixes the writes that it drains with reads; the controller drains them first.
    let mixed = "random, 33 % writes, one in 10 ns";
    let (all, two) = (OF_ALL_BANKS, OF_TWO_BANKS);
    let traces = [
        ("random reads", random(0, 0), all, 5.60, 0.0),
        ("reads of one open row", one_bank(), two, 5.26, 0.0),
        ("reads of open rows, round the banks", round(false), all, 2.64, 0.0),
        ("sequential reads", sequential(false), two, 3.75, 0.0),
        ("random writes", random(0, 100), all, 5.62, 0.0),
        ("writes of open rows, round the banks", round(true), all, 2.64, 0.0),
        ("sequential writes", sequential(true), two, 3.76, 0.0),
        ("random, 33 % writes", random(0, 33), all, 5.74, 0.0),
        ("random reads, one in 40 ns", random(64, 0), all, 40.0, 51.8),
        ("random reads, one in 20 ns", random(32, 0), all, 20.0, 56.7),
        ("random reads, one in 10 ns", random(16, 0), all, 10.0, 67.4),
        ("random reads, one in 6.9 ns", random(11, 0), all, 6.88, 95.2),
        ("random, 33 % writes, one in 15 ns", random(24, 33), all, 15.0, 63.7),
        (mixed, random(16, 33), all, 10.0, 79.4),
    ];
    let mut far = Vec::new();
    for (name, trace, most, line_ns, latency_ns) in traces {
        let (line, latency) = replay(trace, most, 30_000);
        println!("{name:38} {line:5.2} ns a line ({line_ns}), {latency:6.1} ns ({latency_ns})");
        let most = if name == mixed { 0.15 } else { 0.1 };
        let is_near = |ours: f64, theirs: f64| (ours / theirs - 1.0).abs() <= most;
        if !is_near(line, line_ns) || latency_ns > 0.0 && !is_near(latency, latency_ns) {
            far.push(name);
        }
    }
    assert!(far.is_empty(), "far from DRAMsim3: {far:?}");
}
