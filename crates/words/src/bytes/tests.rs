//! Byte strings against a `Vec<u8>`, in heaps of both layouts.

use proptest::prelude::*;

use super::*;
use crate::mock::Mock;
use crate::{Ptr, Transact};

/// Lengths at which the form of a string or the number of its words or pieces changes.
const LENGTHS: [u64; 24] = [
    0,
    1,
    2,
    7,
    8,
    9,
    255,
    256,
    257,
    1007,
    1008,
    1009,
    1023,
    1024,
    1025,
    2015,
    2016,
    2017,
    2047,
    2048,
    2049,
    5000,
    33 << 10,
    100 << 10,
];

const LAYOUTS: [fn(usize) -> Mock; 2] = [Mock::new, Mock::line_isolated];

fn content(len: u64, salt: u64) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 256 + salt) as u8).collect()
}

fn bytes_of(mock: &mut Mock, handle: Ptr<Bytes>) -> Vec<u8> {
    mock.transact(|tx| tx.get(handle)?.read(tx)).unwrap()
}

#[test]
fn strings_of_every_length_round_trip() {
    for mut mock in LAYOUTS.map(|layout| layout(1 << 20)) {
        for len in LENGTHS {
            let bytes = content(len, len);
            let string = mock.transact(|tx| Bytes::new(tx, &bytes)).unwrap();
            assert_eq!(mock.bytes_live(), len);
            assert_eq!(mock.transact(|tx| string.read(tx)).unwrap(), bytes, "length {len}");
            mock.transact(|tx| string.free(tx)).unwrap();
            assert_eq!(mock.objects(), 0, "length {len}");
        }
    }
}

#[test]
fn length_changes_between_all_lengths_keep_bytes() {
    for from in LENGTHS {
        for to in LENGTHS {
            let mut mock = Mock::new(1 << 19);
            let mut model = content(from, 3);
            let old = mock.transact(|tx| Bytes::new(tx, &model)).unwrap();
            // Behind the string, so that it has no room to grow where it is.
            let other = mock.transact(|tx| Bytes::new(tx, &[5; 3000])).unwrap();
            let new = mock.transact(|tx| old.resized(tx, to, 0x5a)).unwrap();
            model.resize(to as usize, 0x5a);
            assert_eq!(mock.transact(|tx| new.read(tx)).unwrap(), model, "{from} to {to}");
            assert_eq!(mock.transact(|tx| other.read(tx)).unwrap(), [5; 3000], "{from} to {to}");
            assert_eq!(mock.bytes_live(), to + 3000, "{from} to {to}");
            mock.transact(|tx| new.free(tx)).unwrap();
        }
    }
}

#[test]
fn range_outside_string_is_refused() {
    let mut mock = Mock::new(1 << 16);
    for len in [0, 5, 8, 1024, 3000] {
        let string = mock.transact(|tx| Bytes::new(tx, &content(len, 0))).unwrap();
        for (offset, bytes) in [(len, 1), (len + 1, 0), (0, len as usize + 1), (u64::MAX, 2)] {
            let mut out = vec![0; bytes];
            let read = mock.transact(|tx| string.read_at(tx, offset, &mut out)).unwrap_err();
            let write = mock.transact(|tx| string.write_at(tx, offset, &out)).unwrap_err();
            assert_eq!([read.stop, write.stop], [Stop::BadRange; 2], "{bytes} at {offset}");
        }
        let ranges = [0..len + 1, len + 1..len + 1, Range { start: 1, end: 0 }];
        for range in ranges {
            let read = mock.transact(|tx| string.read_range(tx, range.clone())).unwrap_err();
            assert_eq!(read.stop, Stop::BadRange, "{range:?} of {len}");
        }
        assert_eq!(mock.transact(|tx| string.read(tx)).unwrap(), content(len, 0));
    }
}

#[test]
fn string_with_wild_length_is_refused() {
    let mut mock = Mock::forgiving(1 << 16);
    let wild = Bytes { first: 64, form: u64::MAX };
    let refused = |done: Result<(), crate::mock::Refused>| {
        assert!(matches!(done.unwrap_err().stop, Stop::BadPointer | Stop::Full));
    };
    refused(mock.transact(|tx| wild.read(tx).map(drop)));
    refused(mock.transact(|tx| wild.read_at(tx, 1 << 62, &mut [0; 8])));
    refused(mock.transact(|tx| wild.write_at(tx, 1 << 50, &[1])));
    refused(mock.transact(|tx| wild.appended(tx, &[1; 9]).map(drop)));
    refused(mock.transact(|tx| wild.truncated(tx, 3).map(drop)));
    refused(mock.transact(|tx| wild.free(tx)));
}

#[test]
fn stale_handle_is_refused() {
    let mut mock = Mock::forgiving(1 << 16);
    let old = mock.transact(|tx| Bytes::new(tx, b"short")).unwrap();
    let new = mock.transact(|tx| old.appended(tx, &[7; 2000])).unwrap();
    assert_eq!(mock.transact(|tx| old.appended(tx, b"x")).unwrap_err().stop, Stop::BadPointer);
    assert_eq!(mock.transact(|tx| old.free(tx)).unwrap_err().stop, Stop::BadPointer);
    assert_eq!(mock.transact(|tx| new.read_range(tx, 0..6)).unwrap(), b"short\x07");
}

#[test]
fn write_in_place_writes_only_words_of_its_range() {
    let mut mock = Mock::new(1 << 16);
    let string = mock.transact(|tx| Bytes::new(tx, &content(3000, 0))).unwrap();
    let live = mock.live();
    mock.transact(|tx| string.write_at(tx, 1005, &[0xee; 6])).unwrap();
    assert_eq!(mock.live(), live, "nothing was allocated");
    // The range ends 3 bytes into the second piece: one word of each piece is written.
    assert_eq!(mock.words_written(), 2);
}

#[derive(Clone, Debug)]
enum Op {
    Write(u64, u64),
    Append(u64),
    Truncate(u64),
    Resize(u64, u8),
    Replace(u64),
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => prop::sample::select(&LENGTHS[..]),
        4 => 0..40_u64,
        3 => 900..2200_u64,
        1 => 30_000..40_000_u64,
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (any::<u64>(), length()).prop_map(|(at, len)| Op::Write(at, len)),
        3 => length().prop_map(Op::Append),
        2 => length().prop_map(Op::Truncate),
        2 => (length(), any::<u8>()).prop_map(|(len, fill)| Op::Resize(len, fill)),
        2 => length().prop_map(Op::Replace),
    ]
}

/// Applies an operation to the string and to the model.
fn apply(mock: &mut Mock, handle: Ptr<Bytes>, model: &mut Vec<u8>, op: &Op, salt: u64) {
    match *op {
        Op::Write(at, len) => {
            let at = at % (model.len() as u64 + 1);
            let bytes = content(len.min(model.len() as u64 - at), salt);
            mock.transact(|tx| tx.get(handle)?.write_at(tx, at, &bytes)).unwrap();
            model[at as usize..][..bytes.len()].copy_from_slice(&bytes);
            let mut back = vec![0; bytes.len()];
            mock.transact(|tx| tx.get(handle)?.read_at(tx, at, &mut back)).unwrap();
            assert_eq!(back, bytes);
        }
        Op::Append(len) => {
            let bytes = content(len, salt);
            mock.transact(|tx| Bytes::append(tx, handle, &bytes)).unwrap();
            model.extend(bytes);
        }
        Op::Truncate(len) => {
            mock.transact(|tx| Bytes::truncate(tx, handle, len)).unwrap();
            model.truncate(len as usize);
        }
        Op::Resize(len, fill) => {
            mock.transact(|tx| Bytes::resize(tx, handle, len, fill)).unwrap();
            model.resize(len as usize, fill);
        }
        Op::Replace(len) => {
            *model = content(len, salt);
            mock.transact(|tx| {
                let other = tx.get(handle)?.replaced(tx, model)?;
                tx.set(handle, other)
            })
            .unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn string_equals_vector_after_any_operations(
        ops in prop::collection::vec(op(), 1..16), lines in any::<bool>(), conflict in 0..400_u64,
    ) {
        let mut mock = LAYOUTS[usize::from(lines)](16 << 20);
        let handle = mock.transact(|tx| tx.alloc(Bytes::EMPTY)).unwrap();
        let mut model = Vec::new();
        mock.conflict_after(conflict);
        for (salt, op) in ops.iter().enumerate() {
            apply(&mut mock, handle, &mut model, op, salt as u64);
            prop_assert!(bytes_of(&mut mock, handle) == model, "after {:?}", op);
            prop_assert_eq!(mock.bytes_live(), 16 + model.len() as u64);
        }
        mock.transact(|tx| Bytes::resize(tx, handle, 0, 0)).unwrap();
        prop_assert_eq!(mock.objects(), 1);
    }
}

#[test]
fn string_in_blocks_is_read_freed_and_replaced() {
    let mut mock = Mock::new(1 << 20);
    let bytes: Vec<u8> = (0..3000_u32).map(|i| (i * 7) as u8).collect();
    // As earlier versions stored it: 256 bytes in each block of an array.
    let old = |mock: &mut Mock| {
        mock.transact(|tx| {
            let first = tx.reserve_blocks(12)?;
            tx.prepare_blocks(first, 12)?;
            for (index, part) in bytes.chunks(256).enumerate() {
                let block = first + index as u64 * block_stride(first);
                part::write_bytes(tx, Addr::new(block, 0), part, After::Unused)?;
            }
            Ok(Bytes { first, form: 3000 })
        })
        .unwrap()
    };
    let string = old(&mut mock);
    assert_eq!(string.len(), 3000);
    assert_eq!(mock.transact(|tx| string.read(tx)).unwrap(), bytes);
    mock.transact(|tx| string.write_at(tx, 255, &[1, 2, 3])).unwrap();
    let changed = mock.transact(|tx| string.read_range(tx, 254..259)).unwrap();
    assert_eq!(changed, [bytes[254], 1, 2, 3, bytes[258]]);
    mock.transact(|tx| string.free(tx)).unwrap();
    assert_eq!(mock.objects(), 0);

    let string = old(&mut mock);
    let longer = mock.transact(|tx| string.appended(tx, b"end")).unwrap();
    assert!(!longer.is_in_blocks());
    let content = mock.transact(|tx| longer.read(tx)).unwrap();
    assert_eq!((&content[..3000], &content[3000..]), (&bytes[..], &b"end"[..]));
    mock.transact(|tx| longer.free(tx)).unwrap();
    assert_eq!(mock.objects(), 0);
}
