//! Settings and errors that an operator sees.

use replica::{JetStream, LogStream, StreamError};

use crate::cluster::Cluster;

#[test]
fn single_server_is_warned_about() {
    let Some(cluster) = Cluster::start("single_server_is_warned_about", 1) else { return };
    let (url, stream) = cluster.create();
    assert_eq!(stream.append(0, b"first"), Ok(1));
    let warnings = stream.warnings().unwrap();
    assert!(warnings[0].contains("replicas: 1, not 3"), "{warnings:?}");
    // The servers of tests flush always, which their monitoring ports show.
    assert!(!warnings.iter().any(|warning| warning.contains("cannot be read")), "{warnings:?}");
    assert!(!warnings.iter().any(|warning| warning.contains("flushes messages")), "{warnings:?}");

    let (plain, _) = url.split_once("&monitor").unwrap();
    let warnings = JetStream::open(plain).unwrap().warnings().unwrap();
    assert!(warnings.iter().any(|text| text.contains("sync_interval of the NATS servers")));

    let refusal = |url: &str, open: fn(&str) -> Result<JetStream, StreamError>| {
        let error = open(url).map(|_| ()).unwrap_err();
        assert!(!error.is_transient(), "{error}");
        error.to_string()
    };
    assert!(refusal(&url, JetStream::create).contains("exists"));
    let other = cluster.url("OTHER");
    assert!(refusal(&other, JetStream::open).contains("does not exist"));
    let three = other.replace("replicas=1", "replicas=3");
    let error = refusal(&three, JetStream::create);
    assert!(error.contains("cannot create stream OTHER"), "{error}");
    let error = refusal(&url.replace("secret", "wrong"), JetStream::open);
    assert!(error.contains("check the user and the password"), "{error}");
}
