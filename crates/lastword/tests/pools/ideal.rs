//! `Options::ideal_reproduce`: the reproduce step truncates the log and writes no heap image.
//!
//! Such a pool measures the ideal cost of reproduction. Its heap image is never up to date, so it
//! is refused on media that keep data, and it can never be opened again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use lastword::{
    DecoupledSoftware, Design, Error, IdealError, Medium, Objects, Options, Pool, Redo, Shadow,
};

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
/// File offset of the heap image in a pool with a log of this size.
const HEAP_OFFSET: usize = 4 << 20;

fn options() -> Options {
    let sizes = Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 12);
    sizes.medium(EMULATED).ideal_reproduce()
}

fn heap(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap().split_off(HEAP_OFFSET)
}

#[test]
fn ideal_reproduce_is_refused_on_durable_media() {
    fn refused<D: Design>(path: &Path, options: Options) {
        let created = Pool::<D>::create_as(path, options.clone()).map(drop);
        assert!(
            matches!(created, Err(Error::Ideal(IdealError::Unsupported { .. }))),
            "{created:?}"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    for medium in [Medium::File, Medium::Dax, Medium::PersistentCache] {
        refused::<lastword::Decoupled>(&path, options().medium(medium));
    }
    let nothing_said = Options::new().bytes(1 << 20).log_bytes(256 << 10).ideal_reproduce();
    refused::<lastword::Decoupled>(&path, nothing_said);
    let bounded = options().shadow(Shadow::Software).shadow_bytes(1 << 18);
    refused::<DecoupledSoftware>(&path, bounded);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "a refused creation left a file");

    for medium in [Medium::File, Medium::PersistentCache] {
        let kept = Options::new().bytes(1 << 20).log_bytes(256 << 10).medium(medium);
        let path = dir.path().join(medium.name());
        Pool::create(&path, kept.clone()).unwrap().close().unwrap();
        let ideal = Options::new().ideal_reproduce();
        for ideal in [ideal.clone(), ideal.medium(medium)] {
            let opened = Pool::open(&path, ideal).map(drop);
            assert!(
                matches!(opened, Err(Error::Ideal(IdealError::Unsupported { .. }))),
                "{opened:?}"
            );
        }
        Pool::open(&path, kept).unwrap().close().unwrap();
    }
}

#[test]
fn ideal_reproduce_truncates_log_without_heap_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(&path, options()).unwrap();
    let before = heap(&path);
    let block = pool.run(|tx| tx.alloc([0_u64; 100])).unwrap().value;
    for number in 1..=2000 {
        let _ = pool.run(|tx| tx.set(block, [number; 100])).unwrap();
    }
    pool.checkpoint().unwrap();
    assert_eq!(pool.run(|tx| tx.get(block)).unwrap().value, [2000; 100]);
    assert_eq!(pool.reproduced_id(), pool.committed_id());
    assert!(pool.metrics().log_wraps > 4.0, "{:?}", pool.metrics());
    assert_eq!(pool.check_heap().unwrap().objects, 1);
    assert!(heap(&path) == before, "the heap image changed");
    pool.close().unwrap();
    assert!(heap(&path) == before);
}

#[test]
fn ideal_pool_cannot_be_reopened() {
    let dir = tempfile::tempdir().unwrap();
    for leave in [|pool: Pool| pool.close().unwrap(), Pool::abandon, |pool| drop(pool)] {
        let path = dir.path().join("pool");
        let pool = Pool::create(&path, options()).unwrap();
        let _ = pool.run(|tx| tx.alloc(7_u64)).unwrap();
        leave(pool);
        let plain = Options::new().medium(EMULATED);
        let opened = [
            Pool::open(&path, plain.clone()).map(drop),
            Pool::open(&path, plain.clone().ideal_reproduce()).map(drop),
            Pool::<Redo>::open_as(&path, plain).map(drop),
        ];
        for opened in opened {
            assert!(
                matches!(opened, Err(Error::Ideal(IdealError::NoContent { .. }))),
                "{opened:?}"
            );
        }
        assert!(lastword::check(&path).unwrap().sound().is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
