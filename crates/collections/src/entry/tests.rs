//! Entries against a pair of vectors, in sound and in damaged heaps.

use proptest::collection::vec;
use proptest::prelude::*;
use words::Transact;
use words::mock::Mock;

use super::*;
use crate::key::Key;
use crate::value::Value;

/// Lengths at which the form of a key or value, or the number of its words, changes.
const LENGTHS: [usize; 23] = [
    0, 1, 7, 8, 9, 20, 63, 64, 65, 100, 487, 488, 503, 504, 505, 511, 512, 513, 1016, 1017, 1024,
    1025, 5000,
];

fn content(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 256 + salt) as u8 | 1).collect()
}

fn create(mock: &mut Mock, key: &[u8], value: &[u8]) -> u64 {
    mock.transact(|tx| Entry::create(tx, key, value)).unwrap()
}

/// Replaces the value and returns the entry's pointer.
fn replace(mock: &mut Mock, object: u64, value: &[u8]) -> u64 {
    let moved = mock.transact(|tx| Entry::open(tx, object)?.replace(tx, value)).unwrap();
    moved.unwrap_or(object)
}

/// Reads the entry in every way and compares it with the pair.
fn check(mock: &mut Mock, object: u64, key: &[u8], value: &[u8]) {
    let owned = |bytes: Cow<'_, [u8]>| Ok(bytes.into_owned());
    let pair =
        |key: Cow<'_, [u8]>, value: Cow<'_, [u8]>| Ok((key.into_owned(), value.into_owned()));
    mock.transact(|tx| {
        let entry = Entry::open(tx, object)?;
        assert_eq!(entry.key(tx, owned)?, key);
        assert_eq!(entry.value(tx, owned)?, value);
        assert_eq!(entry.pair(tx, pair)?, (key.to_vec(), value.to_vec()));
        assert!(entry.is_key(tx, key)?);
        assert_eq!(entry.find(tx, key, owned)?.as_deref(), Some(value));
        for other in near(key) {
            assert!(!entry.is_key(tx, &other)?);
            assert_eq!(entry.find(tx, &other, owned)?, None);
            assert_eq!(entry.compare(tx, &other)?, key.cmp(&other));
        }
        assert_eq!(entry.compare(tx, key)?, Ordering::Equal);
        Ok(())
    })
    .unwrap();
    let size = object_bytes(mock, object);
    let last = Addr::new(object, (size - 1) / 8 * 8);
    let word = mock.transact(|tx| tx.read(last)).unwrap();
    assert_eq!(
        word.checked_shr(8 * ((size - 1) % 8 + 1) as u32).unwrap_or(0),
        0,
        "zeros at the end"
    );
}

/// Returns the size of a live object.
fn object_bytes(mock: &Mock, object: u64) -> u64 {
    let sizes: std::collections::HashMap<u64, u64> = mock.live().into_iter().collect();
    sizes[&object]
}

/// Returns keys that differ from `key` in length or in one byte.
fn near(key: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![[key, &[0]].concat(), [key, &[9; 600]].concat()];
    if let Some((_, start)) = key.split_last() {
        all.push(start.to_vec());
        for at in [0, key.len() / 2, key.len() - 1] {
            let (mut less, mut more) = (key.to_vec(), key.to_vec());
            less[at] -= 1;
            more[at] = more[at].wrapping_add(1);
            all.extend([less, more]);
        }
    }
    all
}

#[test]
fn pairs_of_every_length_round_trip() {
    for key in LENGTHS.map(|len| content(len, 3)) {
        for value in LENGTHS.map(|len| content(len, 5)) {
            let mut mock = Mock::new(1 << 16);
            let object = create(&mut mock, &key, &value);
            check(&mut mock, object, &key, &value);
            mock.transact(|tx| Entry::open(tx, object)?.free(tx)).unwrap();
            assert_eq!(mock.objects(), 0, "key {}, value {}", key.len(), value.len());
        }
    }
}

#[test]
fn value_of_every_length_replaces_every_other() {
    for key in [0, 1, 8, 20, 512, 513].map(|len| content(len, 3)) {
        for from in LENGTHS.map(|len| content(len, 5)) {
            for to in LENGTHS.map(|len| content(len, 6)) {
                let mut mock = Mock::new(1 << 16);
                let old = create(&mut mock, &key, &from);
                let new = replace(&mut mock, old, &to);
                check(&mut mock, new, &key, &to);
                let fresh = create(&mut mock, &key, &to);
                mock.transact(|tx| Entry::open(tx, new)?.free(tx)).unwrap();
                check(&mut mock, fresh, &key, &to);
                mock.transact(|tx| Entry::open(tx, fresh)?.free(tx)).unwrap();
                assert_eq!(mock.objects(), 0, "{} to {}", from.len(), to.len());
            }
        }
    }
}

#[test]
fn entry_takes_its_bytes_and_a_word() {
    let mut mock = Mock::new(1 << 16);
    create(&mut mock, &content(20, 0), &content(100, 0));
    assert_eq!(mock.bytes_live(), 8 + 20 + 100);
}

#[test]
fn value_of_equal_length_is_written_in_place() {
    let mut mock = Mock::new(1 << 16);
    let key = content(20, 0);
    let object = create(&mut mock, &key, &content(100, 0));
    assert_eq!(replace(&mut mock, object, &content(100, 1)), object);
    assert_eq!(mock.words_written(), 13, "the words with a byte of the value");
    assert_eq!(replace(&mut mock, object, &content(98, 2)), object, "the same size class");
    check(&mut mock, object, &key, &content(98, 2));

    let object = create(&mut mock, &key, &content(3000, 0));
    assert_eq!(replace(&mut mock, object, &content(3000, 1)), object);
    assert_eq!(mock.words_written(), 375);
    assert_eq!(replace(&mut mock, object, &content(2000, 1)), object, "the handle is replaced");
    check(&mut mock, object, &key, &content(2000, 1));
}

#[test]
fn freed_entry_is_written() {
    let mut mock = Mock::new(1 << 16);
    let object = create(&mut mock, b"key", b"value");
    mock.transact(|tx| Entry::open(tx, object)?.free(tx)).unwrap();
    assert_eq!(mock.words_written(), 1, "so that a concurrent change conflicts");
}

#[test]
fn short_pairs_of_one_length_need_no_entry() {
    fn of<K: Key + ?Sized, V: Value + ?Sized>() -> Option<(usize, usize)> {
        inline_pair(K::FIXED, V::FIXED)
    }
    assert_eq!(of::<u64, [u8; 56]>(), Some((8, 56)));
    assert_eq!(of::<(u32, u64), ()>(), Some((12, 0)));
    assert_eq!(of::<u64, [u8; 57]>(), None);
    assert_eq!(of::<str, u64>(), None);
    assert_eq!(of::<u64, [u8]>(), None);
}

#[test]
fn pointers_are_words_of_their_own() {
    let mut mock = Mock::new(1 << 16);
    let object = create(&mut mock, &content(13, 0), &content(5000, 0));
    let string = mock.live().iter().map(|live| live.0).find(|&first| first != object).unwrap();
    let mut words = vec![0; object_bytes(&mock, object) as usize / 8];
    mock.transact(|tx| tx.read_words(Addr::new(object, 0), &mut words)).unwrap();
    assert!(words.contains(&string));
}

#[test]
fn freed_or_foreign_object_is_refused() {
    let mut mock = Mock::forgiving(1 << 16);
    let object = create(&mut mock, b"key", b"value");
    mock.transact(|tx| Entry::open(tx, object)?.free(tx)).unwrap();
    let open = |mock: &mut Mock, object| {
        mock.transact(|tx| Entry::open(tx, object).map(|_| ())).unwrap_err().stop
    };
    assert_eq!(open(&mut mock, object), Stop::BadPointer);
    assert_eq!(open(&mut mock, 0), Stop::BadPointer);
    let other = mock.transact(|tx| tx.alloc([7_u64; 4])).unwrap();
    assert_eq!(open(&mut mock, other.to_bits()), Stop::BadValue);
}

#[test]
fn head_with_wrong_lengths_is_refused() {
    let sound = Head::of(20, 100);
    assert_eq!(Head::from_word(sound.to_word()), Ok(sound));
    let long = Head::of(600, 5000);
    assert_eq!(Head::from_word(long.to_word()), Ok(long));
    for wrong in [
        0,
        u64::MAX,
        sound.to_word() & 0xffff_ffff,
        MARK << 32 | 513,
        MARK << 32 | 1017 << 16,
        MARK << 32 | 1 << 15 | 17,
        MARK << 32 | (1 << 15 | 8) << 16,
    ] {
        assert_eq!(Head::from_word(wrong), Err(Stop::BadValue), "{wrong:#x}");
    }
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![prop::sample::select(&LENGTHS[..]), 0..130_usize, 0..1200_usize, 0..6000_usize]
}

/// Does everything that a map does with an entry.
fn use_entry(tx: &mut Mock, object: u64, key: &[u8], len: usize) -> Result<(), Stop> {
    let owned = |bytes: Cow<'_, [u8]>| Ok(bytes.len());
    let entry = Entry::open(tx, object)?;
    entry.key(tx, owned)?;
    entry.pair(tx, |key, value| Ok(key.len() + value.len()))?;
    entry.compare(tx, key)?;
    entry.find(tx, key, owned)?;
    let moved = entry.replace(tx, &content(len, 9))?;
    Entry::open(tx, moved.unwrap_or(object))?.free(tx)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn entry_equals_pair_after_any_replacements(
        key in length(), lengths in vec(length(), 1..8), conflict in 0..3000_u64,
    ) {
        let mut mock = Mock::new(1 << 18);
        mock.conflict_after(conflict);
        let key = content(key, 1);
        let mut object = create(&mut mock, &key, &content(lengths[0], 0));
        let live = mock.objects();
        for (salt, &len) in lengths.iter().enumerate() {
            let value = content(len, salt);
            object = replace(&mut mock, object, &value);
            check(&mut mock, object, &key, &value);
        }
        object = replace(&mut mock, object, &content(lengths[0], 0));
        prop_assert_eq!(mock.objects(), live, "nothing leaks");
        mock.transact(|tx| Entry::open(tx, object)?.free(tx)).unwrap();
        prop_assert_eq!(mock.objects(), 0);
    }

    #[test]
    fn damaged_entry_ends_in_a_stop_or_a_value(
        key in length(), value in length(), new in length(),
        place in any::<(prop::sample::Index, prop::sample::Index, bool)>(),
        flip in prop_oneof![any::<u64>(), (0..64_u32).prop_map(|bit| 1 << bit)],
    ) {
        let mut mock = Mock::forgiving(1 << 16);
        let key = content(key, 1);
        let object = create(&mut mock, &key, &content(value, 2));
        create(&mut mock, &content(700, 3), &content(900, 4));
        let live = mock.live();
        // Most often one of the entry's first words, where the lengths and handles are.
        let (first, bytes) = match place.2 {
            true => (object, object_bytes(&mock, object).min(24)),
            false => live[place.0.index(live.len())],
        };
        let at = Addr::new(first, 8 * place.1.index((bytes as usize).div_ceil(8)) as u64);
        mock.transact(|tx| {
            let word = tx.read(at)?;
            tx.write(at, word ^ flip)
        })
        .unwrap();
        if let Err(refused) = mock.transact(|tx| use_entry(tx, object, &key, new)) {
            prop_assert!(matches!(
                refused.stop,
                Stop::BadPointer | Stop::BadValue | Stop::BadSize | Stop::BadRange | Stop::Full
            ), "{:?}", refused.stop);
        }
    }
}

/// Compaction translates whole words that are pointers.
#[test]
fn pointers_in_values_are_whole_words() {
    let mut mock = Mock::new(1 << 16);
    for key in 0..=24 {
        let (key, value) = (vec![b'k'; key], [0x0123_4567_89ab_cdef_u64, 7]);
        let object = mock.transact(|tx| Entry::create(tx, &key, value.as_bytes())).unwrap();
        let words = 1 + key.len().div_ceil(8) + 2;
        let mut found = vec![0; words];
        mock.transact(|tx| tx.read_words(Addr::new(object, 0), &mut found)).unwrap();
        assert_eq!(found[words - 2..], value, "a key of {} bytes", key.len());
        let read = mock.transact(|tx| {
            Entry::open(tx, object)?.pair(tx, |found, value| Ok((found.len(), value.into_owned())))
        });
        assert_eq!(read.unwrap(), (key.len(), value.as_bytes().to_vec()));
    }
}
