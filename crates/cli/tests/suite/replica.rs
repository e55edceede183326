//! `lastword replica` and `lastword feed`, with a stream in a directory.

use lastword::{Objects, Options, Pool, Ptr};
use replica::{DirectoryStream, Link, Primary};
use serde_json::Value;

use crate::common::Room;

const STREAM: [&str; 2] = ["--stream", "dir:stream"];

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(1 << 20).layout("counter", 2)
}

/// A primary with some transactions, two backups of it, and its cell.
fn replicated(room: &Room) -> (Primary, Ptr<u64>) {
    let path = room.path("a.pool");
    let pool = Pool::create(&path, options()).unwrap();
    let cell = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
    pool.backup(room.path("b.pool")).unwrap();
    pool.backup(room.path("c.pool")).unwrap();
    pool.close().unwrap();
    let stream = DirectoryStream::create(room.path("stream")).unwrap();
    let primary = Primary::begin(&path, options(), &Link::new(stream)).unwrap();
    for value in 1..=5 {
        primary.pool().run(|tx| tx.set(cell, value)).unwrap().ticket.wait_replicated().unwrap();
    }
    (primary, cell)
}

fn run(room: &Room, command: &[&str]) -> String {
    let command: Vec<&str> = command.iter().copied().chain(STREAM).collect();
    room.expect(0, &command)
}

#[test]
fn follower_is_promoted() {
    let room = Room::new();
    let (primary, cell) = replicated(&room);
    let last = primary.status().replicated;
    assert!(run(&room, &["replica", "follow", "b.pool", "--once"]).contains(&format!("to {last}")));
    let pool = Pool::open(room.path("b.pool"), options()).unwrap();
    assert_eq!(pool.run(|tx| tx.get(cell)).unwrap().value, 5);
    pool.close().unwrap();
    let text = run(&room, &["replica", "promote", "c.pool"]);
    assert!(text.contains("primary of term 2"), "{text}");
    let error = primary.confirm().unwrap_err();
    assert!(matches!(error, replica::Error::Fenced { term: 2 }), "{error}");
    drop(primary);
    let status = room.json(0, &["replica", "status", STREAM[0], STREAM[1]]);
    assert_eq!((&status["term"], &status["replicated"]), (&2.into(), &last.0.into()));
    assert!(status["warnings"].is_array());
    let text = run(&room, &["replica", "status"]);
    assert!(text.contains("last transaction") && text.contains("dir:stream"), "{text}");
    // The old primary follows, and the new one does not.
    run(&room, &["replica", "follow", "a.pool", "--once"]);
    let refused = ["replica", "follow", "c.pool", "--patience", "0.1", STREAM[0], STREAM[1]];
    room.refuse("promote a follower first", &refused);
}

#[test]
fn feed_prints_writes_of_each_transaction() {
    let room = Room::new();
    let (primary, _) = replicated(&room);
    let last = primary.status().replicated.0;
    let lines = |text: String| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = lines(run(&room, &["feed"]));
    let ids: Vec<u64> = all.iter().map(|line| line["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (last - 4..=last).collect::<Vec<_>>());
    let values = all.iter().map(|line| line["writes"][0]["words"][0].as_str().unwrap());
    assert_eq!(values.collect::<Vec<_>>(), ["0x1", "0x2", "0x3", "0x4", "0x5"]);
    let after = (last - 2).to_string();
    assert_eq!(lines(run(&room, &["feed", "--after", &after])), all[3..]);
}

#[test]
fn unusable_streams_are_refused() {
    let room = Room::new();
    room.refuse("dir:PATH", &["replica", "status", "--stream", "ftp://host/stream"]);
    room.refuse("none", &["replica", "status", "--stream", "dir:none"]);
    assert!(room.expect(0, &["replica", "create", STREAM[1]]).contains("is created"));
    room.refuse("files already", &["replica", "create", STREAM[1]]);
    room.refuse("no message", &["feed", STREAM[0], STREAM[1]]);
    let text = run(&room, &["replica", "status"]);
    assert!(text.contains("none yet"), "{text}");
}
