//! Streams by URL.

use replica::stream;

#[test]
fn created_directory_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("dir:{}/new", directory.path().display());
    assert_eq!(stream::create(&url).unwrap().append(0, b"first"), Ok(1));
    assert_eq!(stream::open(&url).unwrap().get(1), Ok(Some(b"first".to_vec())));
    let error = stream::create(&url).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("name an empty directory"), "{error}");
}

#[test]
fn unknown_url_error_shows_the_forms() {
    for url in ["", "dir:", "/var/stream", "https://example.org/S", "dri:/tmp/x"] {
        let error = stream::open(url).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("dir:PATH and nats://"), "{url}: {error}");
        assert_eq!(stream::create(url).map(|_| ()).unwrap_err().to_string(), error);
    }
}

#[test]
fn wrong_nats_url_error_shows_the_form() {
    let error = stream::open("nats://u:secret@localhost").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("/STREAM") && !error.contains("secret"), "{error}");
}

#[test]
fn unreachable_server_is_named() {
    // Port 1 of this machine has no server.
    let error = stream::open("nats://u:secret@127.0.0.1:1/S").map(|_| ()).unwrap_err();
    assert!(error.is_transient(), "{error}");
    let error = error.to_string();
    assert!(error.contains("127.0.0.1:1") && !error.contains("secret"), "{error}");
}
