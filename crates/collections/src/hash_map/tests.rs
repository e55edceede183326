//! Keys whose hashes collide, in all bits or in the first ones, and bounds on single operations.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use words::mock::Mock;
use words::{Addr, Transact, Words};
use zerocopy::IntoBytes;

use super::bucket::{CAPACITY, Head};
use super::hash::{FIRST, fold, hash};
use super::*;

const SEED: u64 = 0x5eed;

/// Returns a key of this number whose hash depends on `class` alone.
fn colliding(number: u64, class: u64) -> [u8; 16] {
    let words = [number, fold(SEED ^ number, FIRST) ^ class];
    words.as_bytes().try_into().unwrap()
}

/// Returns classes whose hashes have the first `bits` bits in common.
fn near_classes(count: usize, bits: u32) -> Vec<u64> {
    let hash_of = |class| {
        let words = [0, fold(SEED, FIRST) ^ class];
        hash(SEED, &words, 16)
    };
    let first = hash_of(0) >> (64 - bits);
    (0..).filter(|&class| hash_of(class) >> (64 - bits) == first).take(count).collect()
}

/// A map of keys that collide, inline or in entries.
trait Map: Copy {
    fn new(mock: &mut Mock) -> Self;
    fn insert(self, mock: &mut Mock, key: [u8; 16], value: u64) -> Option<u64>;
    fn remove(self, mock: &mut Mock, key: [u8; 16]) -> Option<u64>;
    fn get(self, mock: &mut Mock, key: [u8; 16]) -> Option<u64>;
    fn all(self, mock: &mut Mock, most: u64) -> Vec<([u8; 16], u64)>;
    fn check(self, mock: &mut Mock) -> Checked;
    fn drop_step(self, mock: &mut Mock, most: u64) -> bool;
}

impl<K: Key<Owned: AsRef<[u8]>> + ?Sized> Map for HashMap<K, u64>
where
    [u8; 16]: AsKey<K>,
{
    fn new(mock: &mut Mock) -> Self {
        mock.transact(|tx| HashMap::with_seed(tx, SEED)).unwrap()
    }
    fn insert(self, mock: &mut Mock, key: [u8; 16], value: u64) -> Option<u64> {
        mock.transact(|tx| self.insert(tx, key, value)).unwrap()
    }
    fn remove(self, mock: &mut Mock, key: [u8; 16]) -> Option<u64> {
        mock.transact(|tx| self.remove(tx, key)).unwrap()
    }
    fn get(self, mock: &mut Mock, key: [u8; 16]) -> Option<u64> {
        mock.transact(|tx| self.get(tx, key)).unwrap()
    }
    fn all(self, mock: &mut Mock, most: u64) -> Vec<([u8; 16], u64)> {
        let (mut all, mut next) = (Vec::new(), Some(Cursor::START));
        while let Some(from) = next {
            let mut part = Vec::new();
            next = mock
                .transact(|tx| {
                    part.clear();
                    self.scan(tx, from, most, |key, value| {
                        part.push((key.as_ref().try_into().unwrap(), value));
                    })
                })
                .unwrap();
            all.append(&mut part);
        }
        all
    }
    fn check(self, mock: &mut Mock) -> Checked {
        mock.transact(|tx| self.check(tx)).unwrap()
    }
    fn drop_step(self, mock: &mut Mock, most: u64) -> bool {
        mock.transact(|tx| self.drop_step(tx, most)).unwrap()
    }
}

/// Runs insertions and removals of colliding keys beside a model.
fn compare<M: Map>(ops: &[(bool, u64, usize)], classes: &[u64]) {
    let mut mock = Mock::new(1 << 22);
    let map = M::new(&mut mock);
    let mut expected = BTreeMap::new();
    for (n, &(insert, number, class)) in ops.iter().enumerate() {
        let key = colliding(number, classes[class % classes.len()]);
        if insert {
            let old = map.insert(&mut mock, key, n as u64);
            assert_eq!(old, expected.insert(key, n as u64));
        } else {
            assert_eq!(map.remove(&mut mock, key), expected.remove(&key));
        }
        if n % 16 == 0 {
            let checked = map.check(&mut mock);
            assert_eq!((checked.entries, checked.damage), (expected.len() as u64, vec![]));
        }
    }
    for (&key, &value) in &expected {
        assert_eq!(map.get(&mut mock, key), Some(value));
    }
    for most in [1, 7, u64::MAX] {
        let all: BTreeMap<_, _> = map.all(&mut mock, most).into_iter().collect();
        assert_eq!(all, expected);
    }
    let mut steps = 0;
    while !map.drop_step(&mut mock, 3) {
        steps += 1;
    }
    assert!(steps >= expected.len().div_ceil(3) - usize::from(!expected.is_empty()));
    assert_eq!(mock.objects(), 0);
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn colliding_keys_match_std(
        ops in vec((prop::bool::weighted(0.6), 0..60_u64, 0..3_usize), 0..400),
    ) {
        let classes = near_classes(3, 19);
        compare::<HashMap<[u8; 16], u64>>(&ops, &classes);
        compare::<HashMap<[u8], u64>>(&ops, &classes);
    }

    #[test]
    fn keys_of_one_prefix_match_std(
        ops in vec((prop::bool::weighted(0.6), 0..3_u64, 0..40_usize), 0..400),
    ) {
        let classes = near_classes(40, 13);
        compare::<HashMap<[u8; 16], u64>>(&ops, &classes);
        compare::<HashMap<[u8], u64>>(&ops, &classes);
    }
}

#[test]
fn keys_of_one_hash_are_a_chain() {
    let mut mock = Mock::new(1 << 20);
    let map = <HashMap<[u8], u64> as Map>::new(&mut mock);
    for n in 0..60 {
        Map::insert(map, &mut mock, colliding(n, 0), n);
    }
    assert_eq!(mock.objects(), 1 + 60 + 60_usize.div_ceil(8), "header, entries and one chain");
    // Another hash splits the chain off, down to the first bit that differs.
    Map::insert(map, &mut mock, colliding(60, 1), 60);
    let checked = Map::check(map, &mut mock);
    assert_eq!((checked.entries, checked.damage), (61, vec![]));
    for n in 0..60 {
        assert_eq!(Map::remove(map, &mut mock, colliding(n, 0)), Some(n));
    }
    assert_eq!(mock.objects(), 3, "header, bucket, entry");
}

#[test]
fn damaged_chain_is_found() {
    let mut mock = Mock::forgiving(1 << 20);
    let map = <HashMap<[u8; 16], u64> as Map>::new(&mut mock);
    for n in 0..30 {
        Map::insert(map, &mut mock, colliding(n, 0), n);
    }
    let front = mock.transact(|tx| map.trie().open(tx)).unwrap().1;
    let next_at = Addr::new(front, 8 * (1 + 3 * CAPACITY as u64));
    let next = mock.transact(|tx| tx.read(next_at)).unwrap();
    let mut poke = |at: Addr, value: u64| {
        let check = |mock: &mut Mock| mock.transact(|tx| map.check(tx));
        let old = mock.transact(|tx| tx.read(at)).unwrap();
        mock.transact(|tx| tx.write(at, value)).unwrap();
        let checked = check(&mut mock).map(|checked| checked.damage).map_err(|error| error.stop);
        mock.transact(|tx| tx.write(at, old)).unwrap();
        assert_eq!(check(&mut mock).unwrap().damage, []);
        checked
    };
    let head = Head { chain: 2, ..Head::empty(CAPACITY, 0) };
    let found = poke(Addr::new(next, 8), 7).unwrap();
    assert!(matches!(found[0], Damage::Chain { .. }), "{found:?}");
    // A cycle, and buckets that are not full or at the wrong place in the chain.
    assert_eq!(poke(next_at, front), Err(Stop::BadValue));
    assert_eq!(poke(next_at, 0), Err(Stop::BadPointer));
    assert_eq!(poke(Addr::new(next, 0), head.to_word()), Err(Stop::BadValue));
    let full = Head { chain: 3, count: CAPACITY, ..head };
    assert_eq!(poke(Addr::new(next, 0), full.to_word()), Err(Stop::BadValue));
}

#[test]
fn empty_map_is_one_small_object() {
    let mut mock = Mock::new(1 << 16);
    let map = mock.transact(HashMap::<str, str>::create).unwrap();
    assert_eq!((mock.objects(), mock.bytes_live()), (1, 40));
    mock.transact(|tx| map.insert(tx, "key", "value")).unwrap();
    assert_eq!(mock.bytes_live(), 40 + 8 * (1 + 2 * 2) + 16, "a bucket of two and an entry");
    mock.transact(|tx| map.clear(tx)).unwrap();
    assert_eq!((mock.objects(), mock.bytes_live()), (1, 40));
}

#[test]
fn seeds_differ_between_maps() {
    let mut mock = Mock::new(1 << 16);
    let mut seed = || {
        let map = mock.transact(HashMap::<u64, u64>::create).unwrap();
        mock.transact(|tx| map.trie().open(tx)).unwrap().0
    };
    assert_ne!(seed(), seed());
}

/// Returns a mean over the map's pairs: (allocated bytes, with headers).
fn bytes_per_pair(mock: &Mock, pairs: u64) -> f64 {
    let headers = 16 * mock.objects() as u64;
    (mock.bytes_live() + headers) as f64 / pairs as f64
}

#[test]
fn operation_writes_a_bounded_number_of_words() {
    let mut mock = Mock::new(1 << 26);
    let map = mock.transact(|tx| HashMap::<u64, u64>::with_seed(tx, SEED)).unwrap();
    let (mut most, mut sum) = (0, 0);
    const PAIRS: u64 = 60_000;
    for key in 0..PAIRS {
        mock.transact(|tx| map.put(tx, key, key)).unwrap();
        (most, sum) = (most.max(mock.words_written()), sum + mock.words_written());
    }
    // The mock counts a word of a new object twice: it fills it.
    assert!(most < 800, "an insertion wrote {most} words");
    assert!(sum < 20 * PAIRS as usize, "an insertion wrote {} words on average", sum / 60_000);
    let bytes = bytes_per_pair(&mock, PAIRS);
    assert!((20.0..36.0).contains(&bytes), "{bytes} bytes for a pair of 16");
    (most, sum) = (0, 0);
    for key in 0..PAIRS {
        mock.transact(|tx| map.delete(tx, key * 7919 % PAIRS)).unwrap();
        (most, sum) = (most.max(mock.words_written()), sum + mock.words_written());
    }
    assert!(most < 300, "a removal wrote {most} words");
    assert!(sum < 12 * PAIRS as usize, "a removal wrote {} words on average", sum / 60_000);
    assert_eq!(mock.objects(), 2, "header and bucket");
}

#[test]
fn pair_takes_few_bytes_beside_its_own() {
    // Growing by a third from 3 thousand pairs to 60, to see all fill levels.
    let sizes =
        || std::iter::successors(Some(3000), |n| Some(n + n / 3)).take_while(|&n| n < 60_000);
    let (mut integers, mut strings) = (Vec::new(), Vec::new());
    for pairs in sizes() {
        let mut mock = Mock::new(1 << 24);
        let set = mock.transact(|tx| HashMap::<u64, ()>::with_seed(tx, SEED)).unwrap();
        mock.transact(|tx| set.extend(tx, (0..pairs).map(|n| (n, ())))).unwrap();
        integers.push(bytes_per_pair(&mock, pairs));
        let mut mock = Mock::new(1 << 25);
        let map = mock.transact(|tx| HashMap::<[u8], [u8; 100]>::with_seed(tx, SEED)).unwrap();
        let pair = |n: u64| (n.to_be_bytes().to_vec(), [0; 100]);
        mock.transact(|tx| map.extend(tx, (0..pairs).map(pair))).unwrap();
        strings.push(bytes_per_pair(&mock, pairs) - 108.0);
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let (integers, strings) = (mean(&integers), mean(&strings));
    assert!((18.0..22.0).contains(&integers), "{integers} bytes for an integer of 8");
    assert!((50.0..60.0).contains(&strings), "{strings} bytes beside those of the pair");
}

#[test]
fn memory_comes_back_as_the_map_shrinks() {
    let mut mock = Mock::new(1 << 26);
    let map = mock.transact(|tx| HashMap::<u64, u64>::with_seed(tx, SEED)).unwrap();
    for key in 0..50_000 {
        mock.transact(|tx| map.put(tx, key, key)).unwrap();
    }
    let large = mock.bytes_live();
    for key in 0..49_000 {
        mock.transact(|tx| map.delete(tx, key)).unwrap();
    }
    // The stripes of the length stay until the map is one bucket.
    let small = mock.bytes_live() - 64 * 496 - 512;
    assert!(small < large / 12, "{small} of {large} bytes for 2 % of the pairs");
    for key in 49_000..49_990 {
        mock.transact(|tx| map.delete(tx, key)).unwrap();
    }
    let live = mock.live();
    let is_ours = |tx: &mut Mock, object| Ok(trie::is_directory(tx.read(Addr::new(object, 0))?));
    let mut directories =
        live.iter().filter(|&&(object, _)| mock.transact(|tx| is_ours(tx, object)).unwrap());
    let bytes: u64 = directories.by_ref().map(|&(_, bytes)| bytes).sum();
    // They keep their size, as a removal allocates nothing.
    assert!(bytes <= 3 * 8 * 66, "{bytes} bytes of directories for 10 pairs");
}
