//! Streams of a cluster of three NATS servers on this machine, which are killed and stopped.
//!
//! Without a server's program each test prints that it was skipped.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;
#[path = "../streams/contract.rs"]
mod contract;
mod failures;
mod missing;
mod proxy;
mod settings;

use async_nats::ConnectOptions;
use async_nats::jetstream::Context;
use async_nats::jetstream::stream::DiscardPolicy;
use cluster::{Cluster, wait_for};
use contract::Subject;
use replica::{JetStream, LogStream};

/// Runs calls of an operator's client, which get the name of the URL's stream.
fn operate<F: Future>(url: &str, calls: impl FnOnce(Context, String) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let rest = url.strip_prefix("nats://lastword:secret@").unwrap();
        let (servers, rest) = rest.split_once('/').unwrap();
        let server = servers.split(',').next().unwrap();
        let name = rest.split('?').next().unwrap().to_owned();
        let options = ConnectOptions::with_user_and_password("lastword".into(), "secret".into());
        let client = options.connect(server).await.unwrap();
        calls(async_nats::jetstream::new(client), name).await
    })
}

/// Sets a limit as an operator does, so that the stream trims itself.
fn trim(url: &str, stream: &JetStream, first: u64) {
    let (_, last) = wait_for("state", || stream.bounds().ok());
    operate(url, async |context, name| {
        let mut config = context.get_stream(name).await.unwrap().cached_info().config.clone();
        config.max_messages = i64::try_from((last + 1).saturating_sub(first)).unwrap().max(1);
        config.discard = DiscardPolicy::Old;
        context.update_stream(config).await.unwrap();
    });
    let first = first.min(last);
    wait_for("trimmed stream", || stream.bounds().ok().filter(|bounds| bounds.0 >= first));
}

fn subject(cluster: &Cluster) -> Subject {
    let (url, stream) = cluster.create();
    let other = url.clone();
    Subject {
        open: Box::new(move || Box::new(JetStream::open(&url).unwrap())),
        trim: Box::new(move |first| trim(&other, &stream, first)),
        _storage: Box::new(()),
    }
}

#[test]
fn jetstream_keeps_the_contract() {
    let Some(cluster) = Cluster::start("jetstream_keeps_the_contract", 3) else { return };
    contract!(all: crate::subject(&cluster));
}
