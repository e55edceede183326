//! `lastword pool` on a pool that another process has open, which runs, is stopped or is killed.
//!
//! The other process transfers money and acknowledges durable transfers over a pipe; see
//! `kill_round`. Each copy must have all transfers that were acknowledged before its command began.

use std::io::BufReader;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Room, text};
use crate::kill_round::{Seen, look, read_one};
use lastword::{Erased, Options, Pool, PoolReader};
use rustix::process::{Pid, Signal, kill_process};
use workloads::Kind;

const LOG_BYTES: u64 = 1 << 20;

/// A process that transfers money in `bank.pool`. Dropping it kills it.
struct Writer {
    child: Child,
    seen: Arc<Mutex<Seen>>,
}

impl Writer {
    /// Starts it, and waits for its first acknowledgements.
    fn start(room: &Room) -> Writer {
        let mut program = room.program();
        program.args(["kill-writer", "bank.pool", "--threads", "2"]);
        let mut child = program.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut pipe, seen) = (BufReader::new(child.stdout.take().unwrap()), Arc::default());
        let reader: Arc<Mutex<Seen>> = Arc::clone(&seen);
        std::thread::spawn(move || {
            while let Some(message) = read_one(&mut pipe).unwrap() {
                reader.lock().unwrap().take(message);
            }
        });
        let writer = Writer { child, seen };
        while writer.acknowledged() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        writer
    }

    fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    fn acknowledged(&self) -> u64 {
        self.seen().workers.iter().map(|message| message.acknowledged).sum()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn bank() -> Kind {
    Kind::by_name("bank").unwrap()
}

fn new_bank() -> Room {
    let room = Room::new();
    let small = workloads::Options { scale: 0.01, ..workloads::Options::default() };
    let options = Options::new().log_bytes(LOG_BYTES).bytes(bank().heap_bytes(&small));
    let pool = Pool::create(room.path("bank.pool"), options).unwrap();
    bank().load(&mut Erased::any(&mut pool.worker().unwrap()), &small).unwrap();
    pool.close().unwrap();
    room
}

/// Opens a copy, and expects everything that was acknowledged before the copy began.
fn verify(room: &Room, seen: &Seen) {
    let path = room.path("copy.pool");
    assert!(lastword::check(&path).unwrap().is_sound());
    let pool = Pool::open(&path, Options::new()).unwrap();
    let outcome = look(bank(), &pool, &workloads::Options::default(), seen).unwrap().unwrap();
    assert_eq!(outcome.lost_acknowledged, 0, "{outcome:?}");
    assert_eq!(outcome.violations, [], "{outcome:?}");
    drop(pool);
    for name in ["copy.pool", "copy.pool.log"] {
        std::fs::remove_file(room.path(name)).unwrap();
    }
}

/// Copies the pool, and returns the last transaction in the copy.
fn back_up(room: &Room, command: &str) -> u64 {
    let copied = room.expect(0, &["pool", command, "bank.pool", "copy.pool"]);
    copied.trim_end().rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn pool_in_use_is_copied_checked_and_dumped() {
    let room = new_bank();
    let writer = Writer::start(&room);
    let (begun, mut last) = (writer.acknowledged(), 0);
    for round in 0..8 {
        let seen = writer.seen();
        let id = back_up(&room, ["backup", "copy"][round % 2]);
        assert!(id >= last);
        verify(&room, &seen);
        let check = room.json(0, &["pool", "check", "bank.pool"]);
        last = check["durable_id"].as_u64().unwrap();
        assert!(last >= id && check["sound"] == true && check["in_use"] == true, "{check}");
        if round % 4 != 0 {
            continue;
        }
        let info = room.json(0, &["pool", "info", "bank.pool"]);
        assert_eq!(info["owner"], writer.child.id(), "{info}");
        assert_eq!(info["heap"]["unknown_bytes"], 0);
        let lines = room.expect(0, &["pool", "dump", "bank.pool", "--format", "jsonl"]);
        let live = lines.lines().filter(|line| line.contains("\"object\"")).count() as u64;
        assert_eq!(live, check["objects"].as_u64().unwrap());
    }
    assert!(writer.acknowledged() > begun, "the owner went on");
    let table = room.expect(0, &["pool", "check", "bank.pool"]);
    let owner = format!("; it is in use by process {}", writer.child.id());
    assert!(table.contains("bank.pool is sound, as of transaction ") && table.contains(&owner));
    room.refuse("in use", &["pool", "check", "bank.pool", "--repair"]);
    let reader = PoolReader::open(room.path("bank.pool"), Options::new()).unwrap();
    assert!(reader.id().0 > last && reader.check().is_ok());
}

#[test]
fn stopped_owner_does_not_hinder_readers() {
    let room = new_bank();
    let writer = Writer::start(&room);
    for _ in 0..10 {
        writer.signal(Signal::STOP);
        let seen = writer.seen();
        back_up(&room, "backup");
        room.expect(0, &["pool", "check", "bank.pool"]);
        let before = writer.acknowledged();
        writer.signal(Signal::CONT);
        verify(&room, &seen);
        while writer.acknowledged() <= before {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// `cp` of both files is as of one moment while the process is stopped.
#[test]
fn cp_of_stopped_pool_opens() {
    let room = new_bank();
    let writer = Writer::start(&room);
    for _ in 0..10 {
        writer.signal(Signal::STOP);
        let seen = writer.seen();
        for (from, to) in [("bank.pool", "copy.pool"), ("bank.pool.log", "copy.pool.log")] {
            let mut copy = std::process::Command::new("cp");
            copy.arg("--reflink=auto").arg(room.path(from)).arg(room.path(to));
            assert!(copy.status().unwrap().success());
        }
        let before = writer.acknowledged();
        writer.signal(Signal::CONT);
        verify(&room, &seen);
        while writer.acknowledged() <= before {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn owner_killed_during_backup_loses_nothing() {
    let room = new_bank();
    for round in 0..10 {
        let writer = Writer::start(&room);
        let seen = writer.seen();
        let mut backup = room.program();
        backup.args(["pool", "backup", "bank.pool", "copy.pool"]);
        let backup = backup.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(round));
        drop(writer);
        let output = backup.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        verify(&room, &seen);
    }
}
