//! Tests of the format of superblocks and log heads, and of the blocks that are refused.

use super::*;

pub(crate) fn superblock() -> Superblock {
    Superblock {
        version: FORMAT_VERSION,
        edition: 7,
        pool: 0x1234_5678_9abc_def0,
        generation: 3,
        clean: true,
        design: padded("decoupled").unwrap(),
        layout: padded("bank").unwrap(),
        layout_version: 2,
        heap_offset: 1 << 21,
        heap_bytes: 1 << 26,
        log_inside: false,
        log_offset: 8192,
        log_bytes: 1 << 24,
        reproduced: 99,
        log_sequence: 4096,
        medium: padded("persistent_cache").unwrap(),
        group: 1000,
        compress: true,
        migrating: 0,
        growing: 0,
        log_growing: 0,
        page_checksums: false,
    }
}

#[test]
fn superblock_roundtrips() {
    let block = superblock().encode();
    assert_eq!(Superblock::decode(&block), Ok(superblock()));
    assert_eq!(name(&superblock().layout), "bank");
    let migrating = Superblock { migrating: 3, ..superblock() };
    assert_eq!(Superblock::decode(&migrating.encode()), Ok(migrating));
    assert_eq!((migrating.content_version(), superblock().content_version()), (2, 2));
}

#[test]
fn copy_has_tag_of_pool_and_own_id() {
    for own in [0, 1, 0xfffe, 0xffff, 0x1234_5678_9abc_def0, u64::MAX - 1, u64::MAX] {
        for pool in [0, 1, 0xfffe, 0xffff, 0x0123_4567_89ab_cdef, u64::MAX] {
            let copy = Superblock { pool: own, ..superblock() }.with_tag_of(pool);
            assert_eq!(copy.tag(), Superblock { pool, ..superblock() }.tag());
            assert!(copy.pool.abs_diff(own) < 2 * 0xffff);
        }
    }
}

#[test]
fn control_characters_of_names_are_escaped() {
    let shown = name("\u{1b}[2Jb\u{e4}nk\r\n\u{9b}1m\u{202e}\0rest".as_bytes());
    assert_eq!(shown, "\\u{1b}[2Jb\u{e4}nk\\r\\n\\u{9b}1m\\u{202e}");
    assert_eq!(name(b"\xff\x07\0"), "\u{fffd}\\u{7}");
    assert_eq!(name("my \"pool\" \\ one".as_bytes()), "my \"pool\" \\ one");
    assert_eq!(exact_name(b"\x1b[2J\0rest"), "\u{1b}[2J");
}

/// The words of format 4. A different result is a different format. Format 3 differs in the
/// version.
#[test]
fn superblock_layout_is_format_4() {
    let mut golden = [0; WORDS];
    golden[..25].copy_from_slice(&[
        0x4452_4f57_5453_414c,
        0x0000_0000_0000_0004,
        0x0000_0000_0000_0007,
        0x1234_5678_9abc_def0,
        0x0000_0000_0000_0003,
        0x0000_0000_0000_0001,
        0x656c_7075_6f63_6564,
        0x0000_0000_0000_0064,
        0x0000_0000_6b6e_6162,
        0x0000_0000_0000_0000,
        0x0000_0000_0000_0000,
        0x0000_0000_0000_0000,
        0x0000_0000_0000_0002,
        0x0000_0000_0020_0000,
        0x0000_0000_0400_0000,
        0x0000_0000_0000_0000,
        0x0000_0000_0000_2000,
        0x0000_0000_0100_0000,
        0x0000_0000_0000_0001,
        0x0000_0000_0000_0063,
        0x0000_0000_0000_1000,
        0x6574_7369_7372_6570,
        0x6568_6361_635f_746e,
        0x0000_0000_0000_03e8,
        0x0000_0000_0000_0001,
    ]);
    golden[WORDS - 1] = 0x0000_0000_a0b7_ca74;
    assert_eq!(superblock().encode(), golden);
    assert_eq!(Superblock::decode(&golden), Ok(superblock()));
    (golden[1], golden[WORDS - 1]) = (3, 0x0000_0000_4fdb_6f95);
    let older = Superblock { version: FORMAT_VERSION_3, ..superblock() };
    assert_eq!(Superblock::decode(&golden), Ok(older));
}

#[test]
fn superblock_with_a_flipped_bit_is_refused() {
    for bit in 0..WORDS * 64 {
        let mut block = superblock().encode();
        block[bit / 64] ^= 1 << (bit % 64);
        assert_eq!(Superblock::decode(&block), Err(Invalid::Damaged), "bit {bit}");
    }
}

#[test]
fn unknown_version_or_feature_is_reported() {
    for version in [1, 2, 5, 2 << 32 | 4, 1 << 32 | 5] {
        let mut block = superblock().encode();
        block[1] = version;
        let block = sealed(block);
        assert_eq!(Superblock::decode(&block), Err(Invalid::Version(version)));
    }
}

#[test]
fn log_head_with_checksum_bit_is_refused() {
    let with = Superblock { page_checksums: true, ..superblock() };
    let block = with.encode();
    assert_eq!((block[1], Superblock::decode(&block)), (1 << 32 | 4, Ok(with)));
    let (area, bytes) = (with.checksum_area().unwrap(), with.heap_offset - COPIES_BYTES);
    assert_eq!((area.offset, area.bytes), (COPIES_BYTES, bytes));
    assert_eq!(superblock().checksum_area(), None);
    let mut head = LogHead { edition: 1, pool: 2, generation: 3, entered: true }.encode();
    head[1] = block[1];
    assert_eq!(LogHead::decode(&sealed(head)), Err(Invalid::Version(block[1])));
}

#[test]
fn nonzero_reserved_word_is_refused() {
    let mut block = superblock().encode();
    block[40] = 1;
    assert_eq!(Superblock::decode(&sealed(block)), Err(Invalid::Damaged));
}

/// Otherwise a layout name would be shown as another one, or as none, and never match the requested
/// one.
#[test]
fn name_without_zero_padding_is_refused() {
    for (word, value) in [(8, 0x61_0000), (7, 1 << 32), (9, 1 << 40), (22, 1 << 63), (10, 0xff)] {
        let mut block = superblock().encode();
        block[word] = value;
        assert_eq!(Superblock::decode(&sealed(block)), Err(Invalid::Damaged), "word {word}");
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    for word in [2, 4, 19, 20, 23] {
        let mut block = superblock().encode();
        block[word] = u64::MAX - 1;
        assert_eq!(Superblock::decode(&sealed(block)), Err(Invalid::Damaged), "word {word}");
    }
}

#[test]
fn newer_valid_copy_is_current() {
    let of = |edition| Ok(Superblock { edition, generation: edition, ..superblock() });
    let current = |decoded| PairedBlock { blocks: [[0; WORDS]; 2], decoded }.current();
    let damaged = Err(Invalid::Damaged);
    assert_eq!(current([of(3), of(4)]), of(4));
    assert_eq!(current([of(4), of(3)]), of(4));
    assert_eq!(current([of(4), of(4)]), of(4));
    assert_eq!(current([damaged, of(3)]), of(3));
    assert_eq!(current([of(3), damaged]), of(3));
    assert_eq!(current([damaged, damaged]), damaged);
    let version = Err(Invalid::Version(9));
    for other in [damaged, of(3)] {
        assert_eq!(current([other, version]), version);
        assert_eq!(current([version, other]), version);
    }
}

#[test]
fn copies_that_no_update_leaves_contradict() {
    let current = |decoded| PairedBlock { blocks: [[0; WORDS]; 2], decoded }.current();
    let one = superblock();
    let same_edition = Superblock { reproduced: 100, ..one };
    let other_pool = Superblock { edition: 8, pool: 1, ..one };
    let other_size = Superblock { edition: 8, heap_bytes: 1 << 27, ..one };
    let announced = Superblock { growing: one.heap_bytes + (1 << 20), ..one };
    let too_large = Superblock { edition: 8, heap_bytes: one.heap_bytes + (2 << 20), ..one };
    assert_eq!(current([Ok(announced), Ok(too_large)]), Err(Invalid::Contradiction));
    let grown = Superblock { edition: 8, heap_bytes: announced.growing, ..one };
    assert_eq!(current([Ok(announced), Ok(grown)]), Ok(grown));
    assert_eq!(current([Ok(one), Ok(grown)]), Err(Invalid::Contradiction));
    let announced = Superblock { log_growing: 2 * one.log_bytes, ..one };
    let grown = Superblock { edition: 8, log_bytes: announced.log_growing, ..one };
    assert_eq!(current([Ok(announced), Ok(grown)]), Ok(grown));
    assert_eq!(current([Ok(one), Ok(grown)]), Err(Invalid::Contradiction));
    for other in [same_edition, other_pool, other_size] {
        assert_eq!(current([Ok(one), Ok(other)]), Err(Invalid::Contradiction), "{other:?}");
        assert_eq!(current([Ok(other), Ok(one)]), Err(Invalid::Contradiction), "{other:?}");
    }
}

#[test]
fn current_copy_offset_is_the_newer() {
    let of = |edition| Ok(Superblock { edition, generation: edition, ..superblock() });
    let damaged = Err(Invalid::Damaged);
    for (a, b, place) in [
        (of(4), of(4), 0),
        (of(4), of(3), 0),
        (of(3), of(4), COPY_BYTES),
        (of(4), damaged, 0),
        (damaged, of(4), COPY_BYTES),
    ] {
        let copies = PairedBlock { blocks: [[0; WORDS]; 2], decoded: [a, b] };
        assert_eq!(copies.counts(), place, "{a:?} {b:?}");
    }
}

#[test]
fn log_head_is_not_a_superblock() {
    let head = LogHead { edition: 1, pool: 2, generation: 3, entered: true };
    for head in [head, LogHead { entered: false, ..head }] {
        assert_eq!(LogHead::decode(&head.encode()), Ok(head));
    }
    assert_eq!(Superblock::decode(&head.encode()), Err(Invalid::Damaged));
    assert_eq!(LogHead::decode(&superblock().encode()), Err(Invalid::Damaged));
}

#[test]
fn pointer_tag_is_never_zero() {
    for pool in [0, 0xfffe, 0xffff, u64::MAX] {
        assert_ne!(Superblock { pool, ..superblock() }.tag(), 0);
    }
}
