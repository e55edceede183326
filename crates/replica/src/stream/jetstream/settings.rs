//! Settings of a stream and of its servers that replication relies on.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};

use super::address::Address;

/// The first version of the server whose `sync_interval: always` covers the Raft log, too: its
/// source, `createRaftGroup`.
const SYNCED_RAFT: [u32; 3] = [2, 10, 23];

/// Time that a monitoring port has for a reply.
const MONITOR: Duration = Duration::from_secs(2);

/// Returns the settings of a stream that is created. Nothing trims it: an operator sets limits, and
/// then decides how long a follower may be away.
pub(super) fn config(address: &Address) -> Config {
    Config {
        name: address.stream.clone(),
        subjects: vec![subject(&address.stream)],
        description: Some("Log of a Lastword pool".to_owned()),
        storage: StorageType::File,
        num_replicas: address.replicas,
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        max_messages: -1,
        max_bytes: -1,
        // Positions stay dense, and no client removes messages.
        deny_delete: true,
        deny_purge: true,
        // Only the leader replies to `get`. A follower may lack the last messages.
        allow_direct: false,
        ..Config::default()
    }
}

fn subject(stream: &str) -> String {
    format!("lastword.{stream}")
}

/// Returns the reason why replication cannot use a stream, or `None` if it can.
pub(super) fn refusal(config: &Config) -> Option<&'static str> {
    let [subject] = &config.subjects[..] else {
        return Some("it needs exactly one subject");
    };
    if subject.contains(['*', '>']) {
        return Some("its subject has wildcards");
    }
    if config.no_ack {
        return Some("it does not confirm messages: set no_ack to false");
    }
    if config.retention != RetentionPolicy::Limits {
        return Some("it removes messages that were read: set its retention to limits");
    }
    if config.sealed {
        return Some("it is sealed");
    }
    None
}

/// Returns a sentence for each setting of a stream that weakens replication.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let name = &config.name;
    let mut warnings = Vec::new();
    let mut warn = |is_risk: bool, text: String| {
        if is_risk {
            warnings.push(text);
        }
    };
    let replicas = config.num_replicas;
    let risk = "a lost server can lose transactions that were reported as replicated";
    warn(replicas < 3, format!("stream {name} has replicas: {replicas}, not 3: {risk}"));
    let risk = "it is lost when its servers stop";
    warn(
        config.storage != StorageType::File,
        format!("stream {name} has storage: memory, not file: {risk}"),
    );
    let risk = "any client can remove messages that no follower has read";
    warn(!config.deny_delete, format!("stream {name} does not have deny_delete: {risk}"));
    warn(!config.deny_purge, format!("stream {name} does not have deny_purge: {risk}"));
    warn(config.allow_rollup, format!("stream {name} has allow_rollup_hdrs: {risk}"));
    let risk = "`get` may return the state of a server that lags";
    warn(config.allow_direct, format!("stream {name} has allow_direct: {risk}"));
    let risk = "it removes old messages, and a follower that lags needs a new backup";
    let age = config.max_age.as_secs();
    warn(
        age > 0,
        format!("stream {name} has max_age: {age} s: {risk}, and an idle stream becomes empty"),
    );
    let is_old = config.discard == DiscardPolicy::Old;
    let has_limit = config.max_messages > 0 || config.max_bytes > 0;
    let limits = format!("max_msgs: {}, max_bytes: {}", config.max_messages, config.max_bytes);
    warn(is_old && has_limit, format!("stream {name} has {limits}: {risk}"));
    warnings
}

/// Returns a sentence for each setting of the servers that weakens replication, or hides it.
pub(super) fn server_warnings(version: &str, monitors: &[String]) -> Vec<String> {
    let risk = "a power failure of most servers can lose transactions that were reported as \
                replicated";
    let mut warnings = Vec::new();
    if is_older(version, SYNCED_RAFT) {
        warnings.push(format!(
            "the NATS server has version {version}: before 2.10.23 it does not flush its Raft log \
             at once even with sync_interval: always, so {risk}; upgrade it"
        ));
    }
    if monitors.is_empty() {
        warnings.push(format!(
            "sync_interval of the NATS servers cannot be read: unless it is `always`, {risk}; set \
             it, and name the monitoring ports in the URL (monitor=HOST:PORT,...) to check it"
        ));
    }
    for monitor in monitors {
        match is_sync_always(monitor) {
            Ok(true) => (),
            Ok(false) => warnings.push(format!(
                "the NATS server of {monitor} does not have sync_interval: always, and flushes \
                 messages every 2 minutes by default: {risk}; set it under jetstream"
            )),
            Err(why) => warnings.push(format!(
                "cannot read sync_interval of the NATS server of {monitor}: {why}; unless it is \
                 `always`, {risk}"
            )),
        }
    }
    warnings
}

/// Returns whether a version is older. A version that cannot be read is.
fn is_older(version: &str, than: [u32; 3]) -> bool {
    let numbers = version.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    numbers.take(3).lt(than)
}

/// Reads a server's setting from its monitoring port. Clients cannot see it otherwise.
fn is_sync_always(monitor: &str) -> Result<bool, String> {
    let read = || -> std::io::Result<String> {
        let address = monitor.to_socket_addrs()?.next();
        let address = address.ok_or(std::io::ErrorKind::NotFound)?;
        let mut stream = TcpStream::connect_timeout(&address, MONITOR)?;
        stream.set_read_timeout(Some(MONITOR))?;
        stream.write_all(format!("GET /varz HTTP/1.0\r\nHost: {monitor}\r\n\r\n").as_bytes())?;
        let mut reply = String::new();
        stream.take(1 << 20).read_to_string(&mut reply)?;
        Ok(reply)
    };
    let reply = read().map_err(|error| error.to_string())?;
    if !reply.contains("\"server_id\"") {
        return Err("it is no monitoring port of a NATS server".to_owned());
    }
    let compact: String = reply.split_whitespace().collect();
    Ok(compact.contains("\"sync_always\":true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Config {
        config(&Address::parse("nats://a/S").unwrap())
    }

    #[test]
    fn created_stream_has_no_warning() {
        assert_eq!(warnings(&good()), Vec::<String>::new());
        assert_eq!(refusal(&good()), None);
    }

    #[test]
    fn each_weak_setting_is_named() {
        let weak = [
            ("replicas: 1", Config { num_replicas: 1, ..good() }),
            ("storage: memory", Config { storage: StorageType::Memory, ..good() }),
            ("deny_delete", Config { deny_delete: false, ..good() }),
            ("deny_purge", Config { deny_purge: false, ..good() }),
            ("allow_rollup_hdrs", Config { allow_rollup: true, ..good() }),
            ("allow_direct", Config { allow_direct: true, ..good() }),
            ("max_age: 60 s", Config { max_age: Duration::from_secs(60), ..good() }),
            ("max_msgs: 9", Config { max_messages: 9, discard: DiscardPolicy::Old, ..good() }),
            ("max_bytes: 9", Config { max_bytes: 9, discard: DiscardPolicy::Old, ..good() }),
        ];
        for (name, config) in weak {
            let warnings = warnings(&config);
            assert!(warnings.len() == 1 && warnings[0].contains(name), "{name}: {warnings:?}");
        }
    }

    #[test]
    fn unusable_streams_are_refused() {
        let two = vec!["a".to_owned(), "b".to_owned()];
        assert!(refusal(&Config { subjects: two, ..good() }).is_some());
        assert!(refusal(&Config { subjects: vec!["a.>".to_owned()], ..good() }).is_some());
        assert!(refusal(&Config { no_ack: true, ..good() }).is_some());
        assert!(refusal(&Config { retention: RetentionPolicy::WorkQueue, ..good() }).is_some());
        assert!(refusal(&Config { sealed: true, ..good() }).is_some());
    }

    #[test]
    fn old_servers_are_named() {
        for version in ["2.10.22", "2.9.30", "1.0.0", "unknown"] {
            assert!(server_warnings(version, &[])[0].contains(version));
        }
        for version in ["2.10.23", "2.12.0-RC.1", "2.15.3", "3.0.0"] {
            assert!(server_warnings(version, &[])[0].contains("cannot be read"));
        }
    }
}
