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
        assert!(error.contains("dir:PATH"), "{url}: {error}");
        assert_eq!(stream::create(url).map(|_| ()).unwrap_err().to_string(), error);
    }
}
