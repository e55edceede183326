//! A cluster of NATS servers on this machine.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use replica::{JetStream, LogStream, StreamError};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Time that a cluster may take until it has a leader.
const READY: Duration = Duration::from_secs(40);

const PROGRAM: &str = "LASTWORD_NATS_SERVER";

/// Servers that stop when this value is dropped.
pub(crate) struct Cluster {
    nodes: Vec<Node>,
    directory: TempDir,
    streams: AtomicU32,
}

struct Node {
    port: u16,
    monitor: u16,
    config: PathBuf,
    child: Option<Child>,
}

/// Returns the server's program. Without one, prints that a test was skipped.
fn program(test: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(PROGRAM) {
        return Some(path.into()); // A wrong path fails the test.
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian has it among the programs for root.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut found = folders.map(|folder| folder.join("nats-server")).filter(|path| path.exists());
    let found = found.find(|path| is_recent(path));
    if found.is_none() {
        let reason = format!("no nats-server since 2.10.23 is installed, and {PROGRAM} is not set");
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
    }
    found
}

/// Returns whether a server has version 2.10.23 or later. Clusters of older ones lose streams when
/// all servers are killed.
fn is_recent(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let version = text.trim().rsplit('v').next().unwrap();
    let numbers = version.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    numbers.take(3).ge([2, 10, 23])
}

impl Cluster {
    /// Starts servers. Returns `None` if there is no program for them.
    pub(crate) fn start(test: &str, count: usize) -> Option<Cluster> {
        let program = program(test)?;
        let directory = tempfile::tempdir().unwrap();
        // All are held until the last one is known, so that they differ.
        let listeners: Vec<_> =
            (0..3 * count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<_> = listeners.iter().map(|one| one.local_addr().unwrap().port()).collect();
        drop(listeners);
        let routes: Vec<_> =
            ports[2 * count..].iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let node = |i: usize| {
            let (port, monitor, route) = (ports[i], ports[count + i], ports[2 * count + i]);
            let config = directory.path().join(format!("n{i}.conf"));
            let store = directory.path().join(format!("n{i}"));
            fs::write(&config, settings(i, port, monitor, route, &store, &routes)).unwrap();
            Node { port, monitor, config, child: None }
        };
        let nodes = (0..count).map(node).collect();
        let mut cluster = Cluster { nodes, directory, streams: AtomicU32::new(0) };
        for node in 0..count {
            cluster.launch(&program, node);
        }
        Some(cluster)
    }

    fn launch(&mut self, program: &Path, node: usize) {
        let log = self.directory.path().join(format!("n{node}.log"));
        let log = fs::File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new(program)
            .arg("--config")
            .arg(&self.nodes[node].config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", program.display()));
        self.nodes[node].child = Some(child);
    }

    /// Starts a server again that was killed.
    pub(crate) fn restart(&mut self, node: usize) {
        assert!(self.nodes[node].child.is_none(), "it runs");
        self.launch(&program("").unwrap(), node);
    }

    pub(crate) fn kill(&mut self, node: usize) {
        let mut child = self.nodes[node].child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn pause(&self, node: usize) {
        self.signal(node, Signal::STOP);
    }

    pub(crate) fn resume(&self, node: usize) {
        self.signal(node, Signal::CONT);
    }

    fn signal(&self, node: usize, signal: Signal) {
        let child = self.nodes[node].child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    pub(crate) fn port(&self, node: usize) -> u16 {
        self.nodes[node].port
    }

    /// Returns the node that leads a stream.
    pub(crate) fn leader(&self, stream: &JetStream) -> usize {
        let leader = wait_for("a leader", || stream.leader().ok().flatten());
        leader.strip_prefix('n').unwrap().parse().unwrap()
    }

    /// Creates a stream of a name that is not in use. Returns its URL and a handle.
    pub(crate) fn create(&self) -> (String, JetStream) {
        let stream = format!("S{}", self.streams.fetch_add(1, Ordering::Relaxed));
        let url = self.url(&stream);
        let created = wait_for("a cluster", || match JetStream::open(&url) {
            Ok(stream) => Some(stream), // Created by a call whose reply was late.
            Err(StreamError::Unreachable(_)) => None,
            Err(_) => JetStream::create(&url).ok(),
        });
        (url, created)
    }

    /// Returns the URL of a stream.
    pub(crate) fn url(&self, stream: &str) -> String {
        let list = |port: fn(&Node) -> u16| {
            let ports = self.nodes.iter().map(|node| format!("127.0.0.1:{}", port(node)));
            ports.collect::<Vec<_>>().join(",")
        };
        let (servers, monitors) = (list(|node| node.port), list(|node| node.monitor));
        let replicas = self.nodes.len();
        format!("nats://lastword:secret@{servers}/{stream}?replicas={replicas}&monitor={monitors}")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().filter_map(|node| node.child.as_mut()) {
            let _ = child.kill(); // It may have failed already.
            let _ = child.wait();
        }
        if thread::panicking() {
            for node in 0..self.nodes.len() {
                let log = fs::read_to_string(self.directory.path().join(format!("n{node}.log")));
                let log = log.unwrap_or_default();
                let lines: Vec<_> = log.lines().rev().take(15).collect();
                eprintln!("last lines of server n{node}, newest first:\n{}", lines.join("\n"));
            }
        }
    }
}

fn settings(
    i: usize,
    port: u16,
    monitor: u16,
    route: u16,
    store: &Path,
    routes: &[String],
) -> String {
    let cluster = match routes {
        [_] => String::new(),
        _ => format!(
            "cluster {{ name: test, listen: \"127.0.0.1:{route}\", routes: [{}] }}\n",
            routes.join(", ")
        ),
    };
    format!(
        "server_name: n{i}\n\
         listen: \"127.0.0.1:{port}\"\n\
         http: \"127.0.0.1:{monitor}\"\n\
         authorization {{ user: lastword, password: secret }}\n\
         jetstream {{ store_dir: \"{}\", sync_interval: always, max_file_store: 1GB }}\n\
         {cluster}",
        store.display()
    )
}

/// Repeats a call until it returns something.
pub(crate) fn wait_for<T>(what: &str, mut call: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = call() {
            return value;
        }
        assert!(begun.elapsed() < READY, "no {what} within {READY:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a stream has a leader that replies.
pub(crate) fn wait_until_ready(stream: &JetStream) {
    wait_for("reply", || stream.bounds().ok());
}
