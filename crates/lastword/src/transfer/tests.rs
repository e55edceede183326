//! Imports of generated exports, valid and crafted.

use std::collections::BTreeMap;

use lw_alloc::{Allocation, Migrated, Size};
use proptest::prelude::*;

use super::stream::{Header, Reader, Writer};
use super::*;
use crate::inspect::CheckOptions;

const TAG: u16 = 0x5a01;
const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

fn header(allocations: u64, words: u64, heap_bytes: u64) -> Header {
    Header {
        tag: TAG,
        last: 77,
        design: crate::superblock::padded("decoupled").unwrap(),
        layout: crate::superblock::padded("generated").unwrap(),
        layout_version: 3,
        migrating: 0,
        migrated: Migrated::default(),
        root: 0,
        heap_bytes,
        log_bytes: 1 << 20,
        checksummed_bytes: heap_bytes,
        allocations,
        words,
        salvaged: false,
        left_out: 0,
    }
}

/// Sizes at the limits of classes and runs more often than others.
fn size() -> impl Strategy<Value = Size> {
    let object = prop_oneof![1..=1024_u64, Just(1), Just(16), Just(1024)].prop_map(Size::Object);
    let string = prop_oneof![1025..=40_000_u64, Just(1025), Just(32 << 10), Just((32 << 10) + 1)]
        .prop_map(Size::String);
    let array = (1..=60_u64).prop_flat_map(|blocks| {
        (0..=blocks).prop_map(move |prepared| Size::Array { blocks, prepared })
    });
    prop_oneof![4 => object, 1 => string, 1 => array]
}

/// Places allocations one after the other.
fn placed(sizes: &[Size]) -> (Vec<Allocation>, u64) {
    let mut offset = 64 << 10;
    let mut all = Vec::new();
    for &size in sizes {
        all.push(Allocation { offset, size });
        offset = (offset + size.bytes_min() + 32).next_multiple_of(16);
    }
    (all, offset)
}

const fn pointer(tag: u16, offset: u64) -> u64 {
    (tag as u64) << words::ADDRESS_BITS | offset
}

/// Writes an export in which the first word of each content is the allocation's number, and the
/// others are pointers to allocations, chosen by `targets`, or small numbers.
fn export(all: &[Allocation], heap_bytes: u64, targets: &[usize]) -> Vec<u8> {
    let words = all.iter().map(|it| it.size.words()).sum();
    let mut stream = Vec::new();
    let mut writer =
        Writer::new(&mut stream, &header(all.len() as u64, words, heap_bytes)).unwrap();
    all.iter().for_each(|it| writer.allocation(it).unwrap());
    let mut targets = targets.iter().cycle();
    for (number, allocation) in (0..).zip(all) {
        for at in 0..allocation.size.words() {
            let target = all.get(*targets.next().unwrap()).filter(|_| at > 0);
            writer.word(target.map_or(number, |target| pointer(TAG, target.offset))).unwrap();
        }
    }
    writer.finish().unwrap();
    stream
}

/// An allocation of an export by the number in its first word: its offset, size and content.
type Found = BTreeMap<u64, (u64, Size, Vec<u64>)>;

/// Reads an export; returns the pointers' tag, too.
fn read(stream: &[u8]) -> (u16, Found) {
    let mut reader = Reader::new(stream).unwrap();
    let tag = reader.header.tag;
    let all: Vec<_> =
        (0..reader.header.allocations).map(|_| reader.allocation(0).unwrap()).collect();
    let mut found = Found::new();
    for Allocation { offset, size } in all {
        let content: Vec<u64> = (0..size.words()).map(|_| reader.word().unwrap()).collect();
        if let Some(number) = content.first() {
            assert!(found.insert(*number, (offset, size, content)).is_none());
        }
    }
    reader.finish().unwrap();
    (tag, found)
}

/// The export of format version 1 that every later version reads: hexadecimal, a word a line.
const GOLDEN: &str = include_str!("golden-1.txt");

/// Allocations of all kinds, and their contents.
fn golden() -> Vec<(Allocation, Vec<u64>)> {
    let at = |offset, size| Allocation { offset, size };
    vec![
        (at(0x10050, Size::Object(20)), vec![1, pointer(TAG, 0x10850), 3]),
        (at(0x10850, Size::String(1030)), (0..129).collect()),
        (at(0x11050, Size::Array { blocks: 3, prepared: 1 }), (100..132).collect()),
        (at(0x11850, Size::Array { blocks: 1 << 32, prepared: 0 }), vec![]),
    ]
}

fn golden_header() -> Header {
    Header {
        root: pointer(TAG, 0x10050),
        migrating: 4,
        migrated: Migrated { version: 3, progress: 9 },
        salvaged: true,
        left_out: 2,
        ..header(4, 164, 1 << 42)
    }
}

#[test]
fn export_of_version_1_is_written_and_read() {
    let mut stream = Vec::new();
    let mut writer = Writer::new(&mut stream, &golden_header()).unwrap();
    golden().iter().for_each(|(it, _)| writer.allocation(it).unwrap());
    golden().iter().flat_map(|(_, words)| words).for_each(|word| writer.word(*word).unwrap());
    writer.finish().unwrap();
    let (words, rest) = stream.as_chunks::<8>();
    assert!(rest.is_empty());
    let shown: String =
        words.iter().map(|word| format!("{:016x}\n", u64::from_le_bytes(*word))).collect();
    assert!(shown == GOLDEN, "the format has changed:\n{shown}");

    let words = GOLDEN.lines().map(|line| u64::from_str_radix(line, 16).unwrap());
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(reader.header, golden_header());
    golden().iter().for_each(|(it, _)| assert_eq!(reader.allocation(0).unwrap(), *it));
    for word in golden().iter().flat_map(|(_, words)| words) {
        assert_eq!(reader.word().unwrap(), *word);
    }
    reader.finish().unwrap();
}

/// Many allocations of one size, each of which takes more memory than its content.
#[test]
fn import_makes_room_for_any_number_of_equal_allocations() {
    let array = |prepared| Size::Array { blocks: 1, prepared };
    let sizes =
        [Size::Object(1), Size::Object(1009), Size::String(1025), Size::String((32 << 10) + 1)];
    for size in sizes.into_iter().chain([array(0), array(1)]) {
        for count in [1, 250, 3000] {
            let (all, heap_bytes) = placed(&vec![size; count]);
            let stream = export(&all, heap_bytes, &[0]);
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("pool");
            let form = CopyOptions::new().medium(EMULATED);
            let moved = import(&stream[..], &path, &form).unwrap();
            assert_eq!(moved.allocations, count as u64, "{size:?}");
            assert!(crate::check(&path).unwrap().is_sound());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every allocation arrives with its size and its content, and each pointer leads to the
    /// allocation that it led to.
    #[test]
    fn import_keeps_sizes_contents_and_pointers(
        sizes in prop::collection::vec(size(), 0..80),
        targets in prop::collection::vec(0_usize..120, 1..50),
    ) {
        let (all, heap_bytes) = placed(&sizes);
        let stream = export(&all, heap_bytes, &targets);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let moved = import(&stream[..], &path, &CopyOptions::new().medium(EMULATED)).unwrap();
        prop_assert_eq!(moved.allocations, all.len() as u64);
        prop_assert!(crate::check(&path).unwrap().is_sound());
        let mut again = Vec::new();
        HeapAtRest::load(&path).unwrap().export(&mut again).unwrap();
        let ((_, old), (tag, new)) = (read(&stream), read(&again));
        prop_assert_ne!(tag, TAG);
        prop_assert_eq!(old.len(), new.len());
        // A pointer to an array without a prepared block leads to no number.
        let targets: BTreeMap<u64, u64> = old
            .iter()
            .map(|(number, (offset, ..))| (pointer(TAG, *offset), pointer(tag, new[number].0)))
            .collect();
        for (number, (_, size, content)) in &old {
            let (_, found, moved) = &new[number];
            prop_assert_eq!(size, found);
            if matches!(size, Size::String(_)) {
                prop_assert_eq!(content, moved);
                continue;
            }
            for (before, after) in content.iter().zip(moved) {
                match targets.get(before) {
                    Some(expected) => prop_assert_eq!(after, expected),
                    None if before >> 48 == u64::from(TAG) => {
                        prop_assert_eq!(after >> 48, u64::from(tag));
                    }
                    None => prop_assert_eq!(after, before),
                }
            }
        }
    }

    /// A stream with valid checksums and any numbers is imported or refused, without a panic.
    #[test]
    fn crafted_exports_are_refused_or_sound(
        numbers in prop::array::uniform3(any::<u64>()),
        shifts in prop::array::uniform3(0_u32..64),
        field in 0_usize..9,
    ) {
        let [first, second, third] = [0, 1, 2].map(|at| numbers[at] >> shifts[at]);
        let mut header = header(1, 1, 1 << 20);
        match field {
            0 => header.heap_bytes = first,
            1 => header.allocations = first >> 16,
            2 => header.words = first >> 16,
            3 => header.log_bytes = first >> 40,
            4 => header.checksummed_bytes = first >> 30,
            5 => (header.migrating, header.migrated.version) = (first, second),
            6 => (header.root, header.last) = (first, second >> 8),
            7 => header.layout_version = first,
            _ => {}
        }
        let mut stream = Vec::new();
        let mut writer = Writer::new(&mut stream, &header).unwrap();
        let described = if field == 8 { [first, second, third] } else { [64 << 10 | 1, 8, 0] };
        described.into_iter().for_each(|word| writer.word(word).unwrap());
        writer.word(5).unwrap();
        writer.finish().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        match import(&stream[..], &path, &CopyOptions::new().medium(EMULATED)) {
            Ok(_) => {
                let expected = CheckOptions { migrates: true, ..CheckOptions::new() };
                prop_assert!(crate::check_with(&path, &expected).unwrap().opens());
            }
            Err(_) => prop_assert!(!path.exists()),
        }
    }
}
