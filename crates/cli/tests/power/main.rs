//! Cuts the power of a recorded block device at many moments and verifies that acknowledged
//! transactions survive.
//!
//! ```text
//!   bank on `file` -> ext4 -> dm-log-writes -> a device
//!   acknowledged transfers ---- marks ---'---> a log of every write and flush, in order
//!
//!   a cut: the log up to some entry -> another device -> mount (journal), check, open, verify
//! ```
//!
//! A mark follows every write that was durable when the mark was made. So every transfer that the
//! mark reports as acknowledged must be present after any later cut.
//!
//! | variable | meaning |
//! |---|---|
//! | `LASTWORD_POWER_DEVICES` | three devices, separated by colons, whose contents are lost |
//! | `LASTWORD_SEED` | seed of the cuts, which repeat if the kernel's order of writes does |
//!
//! Without devices the test prints that it is skipped. The guest of `tests/dax` has them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "this test kills the writer itself")]
#[path = "../../src/kill_round.rs"]
mod kill_round;
mod trace;

use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use kill_round::{Message, Outcome, Seen, look};
use lastword::{Erased, Medium, Options, Pool};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;
use trace::{Image, Trace};
use workloads::Kind;

/// Size of the file system.
const DEVICE_BYTES: usize = 56 << 20;

/// Size of the log, so small that it wraps often.
const LOG_BYTES: u64 = 256 << 10;

/// Returns the writer's workload.
fn bank() -> Kind {
    Kind::by_name("bank").unwrap()
}

/// Number of marks that are made while the writer runs.
const MARKS: usize = 40;

/// Number of cuts of one writer's trace.
const CUTS: usize = 24;

/// Name of the recorded device in the device mapper.
const NAME: &str = "lastword-power";

/// Mark that follows the pool's creation.
const READY: &str = "ready";

fn seed() -> u64 {
    let given = std::env::var("LASTWORD_SEED").ok().map(|seed| seed.parse().unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let seed = given.unwrap_or(now.into());
    println!("LASTWORD_SEED={seed}");
    seed
}

/// Runs a system program and expects its success.
fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {stderr}");
}

/// A mounted file system. Dropping it unmounts.
struct Mounted {
    dir: TempDir,
}

impl Mounted {
    fn new(device: &str) -> Mounted {
        let dir = tempfile::tempdir().unwrap();
        run("mount", &["-t", "ext4", device, dir.path().to_str().unwrap()]);
        Mounted { dir }
    }

    fn pool(&self) -> PathBuf {
        self.dir.path().join("bank.pool")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &[self.dir.path().to_str().unwrap()]);
    }
}

struct Devices {
    data: String,
    log: String,
    cut: String,
}

impl Devices {
    fn given() -> Option<Devices> {
        let Ok(given) = std::env::var("LASTWORD_POWER_DEVICES") else {
            // `writeln!` bypasses the test harness's capture, so that `.ci/run` can list these.
            let reason = "LASTWORD_POWER_DEVICES is not set; tests/dax/run sets it";
            let _ = writeln!(std::io::stderr(), "skipped: power cuts: {reason}");
            return None;
        };
        let mut names = given.split(':').map(str::to_owned);
        let mut next = || names.next().expect("three devices");
        Some(Devices { data: next(), log: next(), cut: next() })
    }

    /// Runs a writer on the recorded device and returns the trace of its writes.
    fn record(&self, durability: &str) -> Trace {
        let table = format!("0 {} log-writes {} {}", DEVICE_BYTES / 512, self.data, self.log);
        run("dmsetup", &["create", NAME, "--noudevsync", "--table", &table]);
        let device = format!("/dev/mapper/{NAME}");
        run("mkfs.ext4", &["-q", "-b", "4096", "-J", "size=4", &device]);
        let mounted = Mounted::new(&device);
        let options = options().medium(Medium::File);
        let bank = workloads::Options { scale: 0.01, ..workloads::Options::default() };
        let pool =
            Pool::create(mounted.pool(), options.bytes(self::bank().heap_bytes(&bank))).unwrap();
        assert!(pool.info().survives_power_loss);
        println!("{durability}: log by {}", pool.info().log_path.unwrap());
        self::bank().load(&mut Erased::any(&mut pool.worker().unwrap()), &bank).unwrap();
        pool.close().unwrap();
        mark(READY);
        write_and_mark(&mounted.pool(), durability);
        drop(mounted);
        run("dmsetup", &["remove", "--noudevsync", NAME]);
        Trace::read(Path::new(&self.log)).unwrap()
    }

    /// Recovers the pool after a power cut that left this image. Verifies it against each of two
    /// states of the writer and returns both outcomes.
    fn look(&self, image: &Image, seen: [&Seen; 2]) -> [Outcome; 2] {
        let mut device = std::fs::OpenOptions::new().write(true).open(&self.cut).unwrap();
        device.write_all(&image.bytes).unwrap();
        drop(device);
        let mounted = Mounted::new(&self.cut);
        let checked = lastword::check(mounted.pool()).unwrap().sound().unwrap();
        let pool = Pool::open(mounted.pool(), options()).unwrap();
        assert_eq!(pool.committed_id(), checked.durable_id, "recovery and check disagree");
        let outcomes =
            seen.map(|seen| look(bank(), &pool, &Default::default(), seen).unwrap().unwrap());
        pool.close().unwrap();
        outcomes
    }
}

fn options() -> Options {
    Options::new().log_bytes(LOG_BYTES)
}

fn mark(text: &str) {
    run("dmsetup", &["message", NAME, "0", "mark", text]);
}

/// Runs the writer, marks its acknowledgements in the trace, and kills it.
fn write_and_mark(pool: &Path, durability: &str) {
    let mut writer = Command::new(env!("CARGO_BIN_EXE_lastword"))
        .arg("kill-writer")
        .arg(pool)
        .args(["--threads", "2", "--durability", durability])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = BufReader::new(writer.stdout.take().unwrap());
    let (sender, messages) = channel();
    let reader = thread::spawn(move || {
        while let Some(message) = kill_round::read_one(&mut pipe).unwrap() {
            // The receiver may be gone: the messages after the last mark are not used.
            let _ = sender.send(message);
        }
    });
    let mut seen = Seen::default();
    for _ in 0..MARKS {
        seen.take(messages.recv().expect("the writer ended"));
        // The messages that arrived during the previous mark make this one nearly current.
        messages.try_iter().for_each(|message| seen.take(message));
        mark(&to_mark(&seen));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    reader.join().unwrap();
}

fn to_mark(seen: &Seen) -> String {
    let numbers =
        |m: &Message| format!("{}:{}:{}:{}", m.worker, m.run, m.committed, m.acknowledged);
    format!("seen={}", seen.workers.iter().map(numbers).collect::<Vec<_>>().join(","))
}

fn from_mark(mark: &str) -> Option<Seen> {
    let message = |text: &str| {
        let mut numbers = text.split(':').map(|number| number.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        Message { worker: next(), run: next(), committed: next(), acknowledged: next() }
    };
    let workers = mark.strip_prefix("seen=")?.split(',').map(message).collect();
    Some(Seen { workers })
}

/// Returns the writer's state at the last mark before a cut.
fn seen_before(trace: &Trace, cut: usize) -> Seen {
    let marks = trace.entries[..cut].iter().rev();
    marks.filter_map(|entry| from_mark(entry.mark.as_deref()?)).next().unwrap_or_default()
}

/// Returns ascending positions of cuts. Half of them precede writes that were in the device's
/// cache.
fn cuts(trace: &Trace, rng: &mut StdRng) -> Vec<usize> {
    let ready = trace.find(READY) + 1;
    let all = ready..trace.entries.len();
    let cached: Vec<usize> = all.clone().filter(|&cut| !trace.cached(cut).is_empty()).collect();
    assert!(!cached.is_empty(), "no write waited for a flush");
    let mut cuts: Vec<usize> = (0..CUTS)
        .map(|n| match n % 2 {
            0 => rng.random_range(all.clone()),
            _ => cached[rng.random_range(0..cached.len())],
        })
        .collect();
    cuts.sort_unstable();
    cuts
}

/// Numbers of cuts by their outcome.
#[derive(Debug, Default)]
struct Tally {
    /// Cuts that kept a transfer without acknowledgement.
    survived: usize,
    /// Cuts that lost a transfer which was committed at the last mark before them. They are few,
    /// because a mark takes longer than a transfer waits to be durable.
    lost: usize,
    /// Cuts in which transfers are missing that were acknowledged later. They show that the
    /// verification can fail.
    noticed: usize,
}

#[test]
fn acknowledged_transactions_survive_power_cut() {
    let Some(devices) = Devices::given() else { return };
    let mut rng = StdRng::seed_from_u64(seed());
    let mut tally = Tally::default();
    for durability in ["async", "sync"] {
        let trace = devices.record(durability);
        let [fua, flushes, cached] = trace.counts();
        println!("{durability}: {fua} writes with FUA, {flushes} flushes of {cached} writes");
        let last = seen_before(&trace, trace.entries.len());
        let mut image = Image::new(DEVICE_BYTES);
        for cut in cuts(&trace, &mut rng) {
            image.advance(&trace, cut).unwrap();
            let some: Vec<usize> = trace.cached(cut).filter(|_| rng.random()).collect();
            let undo = image.apply_some(&trace, &some).unwrap();
            let seen = seen_before(&trace, cut);
            let [outcome, late] = devices.look(&image, [&seen, &last]);
            image.undo(undo);
            println!("{durability}, cut at {cut}, {} of the cache: {outcome:?}", some.len());
            io::stdout().flush().unwrap();
            assert_eq!(outcome.lost_acknowledged, 0, "{outcome:?}");
            assert_eq!(outcome.violations, [], "{outcome:?}");
            tally.survived += usize::from(outcome.survived > 0);
            tally.lost += usize::from(outcome.lost > 0);
            tally.noticed += usize::from(late.lost_acknowledged > 0);
        }
    }
    println!("{} cuts: {tally:?}", 2 * CUTS);
    // Coverage: a run without one of these outcomes has not tested power cuts.
    assert!(tally.survived > 0, "no transfer survived without being acknowledged: {tally:?}");
    assert!(tally.noticed > 0, "the verification missed lost transfers: {tally:?}");
}
