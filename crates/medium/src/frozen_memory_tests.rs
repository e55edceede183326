//! Tests of frozen images of memory. Apart from it, because the models compile that file.

use crate::error::Error;
use crate::frozen::{FrozenImage, PAGE_WORDS};
use crate::frozen_memory::{FrozenMemory, read_pages};
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::{PoolFile, Prewrite};

const PAGES: usize = 200;

/// Memory with its frozen images.
struct Frozen {
    words: Vec<AtomicU64>,
    memory: FrozenMemory,
    dir: tempfile::TempDir,
}

impl Frozen {
    fn new() -> Frozen {
        let words: Vec<_> = (0..PAGES * PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let memory = FrozenMemory::new(words.len());
        Frozen { words, memory, dir: tempfile::tempdir().unwrap() }
    }

    fn freeze(&self, name: &str) -> Arc<FrozenImage> {
        let bytes = 8 * self.words.len() as u64;
        let file = PoolFile::create(self.dir.path().join(name), bytes, Prewrite::No).unwrap();
        let image = Arc::new(FrozenImage::new(Arc::new(file), 0, bytes).unwrap());
        self.memory.freeze(&image);
        image
    }

    fn store(&self, word: usize, value: u64) {
        if self.memory.is_watched(word) {
            self.memory.first_store(word, &|page, out| self.now(page, out));
        }
        self.words[word].store(value, Ordering::Relaxed);
    }

    fn now(&self, first: usize, out: &mut [u64]) -> Result<(), Error> {
        read_pages(&self.words, first, out);
        Ok(())
    }

    fn copied(&self, image: &FrozenImage) -> Vec<u64> {
        self.memory.copy(image, 0..PAGES, &|page, out| self.now(page, out));
        image.check().unwrap();
        assert_eq!(image.pages_left(), 0);
        let mut words = vec![0; self.words.len()];
        image.read(0, &mut words).unwrap();
        words
    }
}

#[test]
fn images_of_two_moments_have_their_words() {
    let frozen = Frozen::new();
    let last = PAGES * PAGE_WORDS - 1;
    frozen.store(7, 1);
    let first = frozen.freeze("first");
    assert!(frozen.memory.is_watched(7) && frozen.memory.is_watched(last));
    frozen.store(7, 2);
    assert!(!frozen.memory.is_watched(7) && frozen.memory.is_watched(last));
    assert!(first.is_copied(0) && !first.is_copied(1));
    let second = frozen.freeze("second");
    frozen.store(7, 3);
    frozen.store(last, 4);
    for (image, value) in [(&first, 1), (&second, 2)] {
        let words = frozen.copied(image);
        assert_eq!((words[7], words[last]), (value, 0));
        assert_eq!(words.iter().filter(|word| **word != 0).count(), 1);
    }
    frozen.memory.thaw(&first);
    frozen.memory.thaw(&second);
    frozen.store(PAGE_WORDS, 5);
    assert!(!frozen.memory.is_watched(PAGE_WORDS));
}

#[test]
fn laid_over_words_replace_those_of_memory() {
    let frozen = Frozen::new();
    (0..3 * PAGE_WORDS).for_each(|word| frozen.store(word, 1));
    let image = frozen.freeze("image");
    image.lay_over([(5, 50), (PAGE_WORDS, 60), (last_of(2), 70)].into());
    frozen.store(6, 2);
    let words = frozen.copied(&image);
    let found = [words[4], words[5], words[6], words[PAGE_WORDS], words[last_of(2)]];
    assert_eq!(found, [1, 50, 1, 60, 70]);
    assert_eq!(words.iter().filter(|word| **word > 1).count(), 3);
}

fn last_of(page: usize) -> usize {
    (page + 1) * PAGE_WORDS - 1
}

#[test]
fn stores_of_several_threads_miss_no_copy() {
    let frozen = Frozen::new();
    for round in 1..20 {
        let image = frozen.freeze(&format!("image{round}"));
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let frozen = &frozen;
                scope.spawn(move || {
                    for page in 0..PAGES {
                        frozen.store(page * PAGE_WORDS + thread, round);
                    }
                });
            }
            let words = frozen.copied(&image);
            let is_old = |page: &[u64]| page[..3] == [round - 1; 3];
            assert!(words.chunks(PAGE_WORDS).all(is_old), "round {round}");
        });
        frozen.memory.thaw(&image);
    }
}
