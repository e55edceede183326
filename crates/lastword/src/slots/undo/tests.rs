//! Tests of heads of `undo` with impossible IDs.

use super::*;
use crate::Medium;
use crate::slots::workers::Meter;

#[test]
fn head_with_oversized_id_is_reported_as_damage() {
    let options = Options::new().bytes(1 << 20).log_bytes(256 << 10);
    let options = options.medium(Medium::PersistentCache);
    let opened = |id| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let (Undo { store, .. }, _) = Undo::create(&path, &options).unwrap();
        let head = Head { sequence: 1, id, last: 0 };
        store.write_head(2, &store.key(2), head, &Meter::default()).unwrap();
        drop(store);
        Undo::open(&path, &options).map(|(undo, _)| undo.committed_id().0)
    };
    assert_eq!(opened(1 << 61).unwrap(), 1 << 61);
    for id in [(1 << 61) + 1, u64::MAX] {
        assert!(matches!(opened(id), Err(Error::DamagedLog { .. })), "{id}");
    }
}
