//! Each kind of damage, planted: a check finds it and names it, opening the pool does what is
//! documented, and a repair mends it or leaves it with a reason.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crash::hostile::{Files, Kind, examine, seal};
use lastword::{Problem, Report, Severity, Shadow, TxId};

/// Words of the second copy, from the first's.
const COPY: usize = 512;
const CHUNK_WORDS: usize = 8192;

/// What is done to the files besides their words: other lengths, and whether the log goes.
type Outside = (Vec<(usize, u64)>, bool);

const NOTHING: Outside = (Vec::new(), false);

/// Where a kind of damage can be.
#[derive(Clone, Copy, PartialEq)]
enum On {
    Any,
    /// The log has its own file.
    OwnLog,
    /// The log waits to be replayed.
    Unclean,
    /// Everything is at home.
    Clean,
}

struct Plant {
    on: On,
    plant: fn(&mut Files) -> Outside,
    /// Names of all that is found.
    found: &'static [&'static str],
    worst: Severity,
    mended: bool,
}

const fn row(
    on: On,
    worst: Severity,
    found: &'static [&'static str],
    plant: fn(&mut Files) -> Outside,
) -> Plant {
    Plant { on, plant, found, worst, mended: false }
}

const fn mended(
    on: On,
    worst: Severity,
    found: &'static [&'static str],
    plant: fn(&mut Files) -> Outside,
) -> Plant {
    Plant { on, plant, found, worst, mended: true }
}

/// Changes a word of a copy and puts its checksum right again.
fn forge(files: &mut Files, file: usize, copy: usize, word: usize, change: fn(u64) -> u64) {
    let words = &mut files.copies(file).words[copy * COPY..];
    words[word] = change(words[word]);
    seal::block(words);
}

fn forge_both(files: &mut Files, file: usize, word: usize, change: fn(u64) -> u64) -> Outside {
    forge(files, file, 0, word, change);
    forge(files, file, 1, word, change);
    NOTHING
}

fn spoil(files: &mut Files, file: usize, copies: &[usize]) -> Outside {
    for copy in copies {
        files.copies(file).words[copy * COPY + 20] ^= 4;
    }
    NOTHING
}

/// The first words of the groups in the log, in the order of their places.
fn groups(files: &mut Files) -> Vec<usize> {
    let unit = files.unit_words();
    let words = &files.log().words;
    let is_group = |at: &usize| words[*at] == u64::from_le_bytes(*b"LWGROUP3");
    (0..words.len()).step_by(unit).filter(is_group).collect()
}

/// Damages the payload of a group, counted from the last.
fn spoil_group(files: &mut Files, from_last: usize) -> Outside {
    let groups = groups(files);
    let at = groups[groups.len() - 1 - from_last];
    files.log().words[at + 9] ^= 1 << 40;
    NOTHING
}

fn set_heap(files: &mut Files, word: usize, value: u64) -> Outside {
    let old = &mut files.heap().words[word];
    assert_ne!(*old, value);
    *old = value;
    NOTHING
}

/// The head of a free list that is not empty.
fn free_list(files: &mut Files) -> usize {
    let words = &files.heap().words;
    let mut lists =
        (0..128).flat_map(|arena| (0..15).map(move |class| 34 + 32 * arena + 2 * class));
    lists.find(|&list| words[list] != 0).unwrap()
}

use On::{Any, Clean, OwnLog, Unclean};
use Severity::{Damage, Harmless, Refused, Spare};

const UNCHECKED: &str = "heap_unchecked";

const SUPERBLOCKS: &[Plant] = &[
    mended(Any, Spare, &["superblock_copy"], |files| spoil(files, 0, &[0])),
    mended(Any, Spare, &["superblock_copy"], |files| spoil(files, 0, &[1])),
    row(Any, Refused, &["no_superblock"], |files| spoil(files, 0, &[0, 1])),
    // An update that a crash has interrupted, whichever copy came first; and one that has missed
    // several.
    mended(Any, Harmless, &["superblock_behind"], |files| {
        forge(files, 0, 0, 2, |edition| edition + 1);
        NOTHING
    }),
    mended(Any, Harmless, &["superblock_behind"], |files| {
        forge(files, 0, 1, 2, |edition| edition + 1);
        NOTHING
    }),
    mended(Any, Spare, &["superblock_behind"], |files| {
        forge(files, 0, 1, 2, |edition| edition + 2);
        NOTHING
    }),
    row(Any, Refused, &["superblocks_contradict"], |files| {
        forge(files, 0, 0, 19, |reproduced| reproduced + 1);
        NOTHING
    }),
    row(Any, Refused, &["superblocks_contradict"], |files| {
        forge(files, 0, 1, 3, |_| 77);
        forge(files, 0, 1, 2, |edition| edition + 1);
        NOTHING
    }),
    row(Any, Refused, &["format_version"], |files| {
        forge(files, 0, 1, 1, |_| 4);
        NOTHING
    }),
    // A feature bit.
    row(Any, Refused, &["format_version", "format_version"], |files| {
        forge_both(files, 0, 1, |version| version | 1 << 40)
    }),
    row(Any, Refused, &["areas"], |files| forge_both(files, 0, 13, |offset| offset + 4096)),
    row(Any, Refused, &["areas"], |files| forge_both(files, 0, 14, |_| u64::MAX - 0xffff)),
    row(Any, Refused, &["areas"], |files| forge_both(files, 0, 20, |sequence| sequence + 8)),
    // A number that the next update would make one that nobody reads.
    row(Any, Refused, &["areas"], |files| forge_both(files, 0, 2, |_| 1 << 62)),
    row(Any, Refused, &["areas"], |files| forge_both(files, 0, 19, |_| (1 << 61) + 1)),
    row(Any, Refused, &["unknown_design", UNCHECKED], |files| {
        forge_both(files, 0, 6, |_| u64::from_le_bytes(*b"newdesig"))
    }),
    row(Any, Refused, &["unknown_medium", UNCHECKED], |files| {
        forge(files, 0, 0, 22, |_| 0);
        forge(files, 0, 1, 22, |_| 0);
        forge_both(files, 0, 21, |_| u64::from_le_bytes(*b"clay\0\0\0\0"))
    }),
    row(Any, Refused, &["length", UNCHECKED], |files| (vec![(0, files.length(0) - 4096)], false)),
    row(Any, Refused, &["length", UNCHECKED], |files| (vec![(0, files.length(0) + 1)], false)),
    row(Any, Refused, &["no_superblock"], |_| (vec![(0, 100)], false)),
    row(Any, Refused, &["no_superblock"], |_| (vec![(0, 0)], false)),
];

/// Where the pool was closed in good order its heap is whole and checked, whatever the log is.
const LOGS: &[Plant] = &[
    row(OwnLog, Refused, &["log_missing"], |_| (vec![], true)),
    row(OwnLog, Refused, &["log_length"], |files| (vec![(1, files.length(1) - 4096)], false)),
    row(OwnLog, Refused, &["log_length"], |files| (vec![(1, files.length(1) + 1)], false)),
    row(OwnLog, Refused, &["log_length"], |_| (vec![(1, 100)], false)),
    row(OwnLog, Refused, &["log_of_other_pool"], |files| forge_both(files, 1, 3, |_| 78)),
    row(OwnLog, Refused, &["log_of_other_time"], |files| forge_both(files, 1, 4, |of| of - 1)),
    row(OwnLog, Refused, &["log_of_other_time"], |files| forge_both(files, 1, 4, |of| of + 2)),
    row(OwnLog, Refused, &["no_log_head"], |files| spoil(files, 1, &[0, 1])),
    row(OwnLog, Refused, &["no_log_head"], |files| forge_both(files, 1, 2, |_| 1 << 62)),
    row(OwnLog, Refused, &["log_format_version"], |files| {
        forge(files, 1, 0, 1, |_| 9);
        NOTHING
    }),
    row(OwnLog, Refused, &["log_heads_contradict"], |files| {
        forge(files, 1, 0, 4, |generation| generation + 1);
        NOTHING
    }),
    mended(OwnLog, Spare, &["log_head_copy"], |files| spoil(files, 1, &[0])),
    mended(OwnLog, Spare, &["log_head_copy"], |files| spoil(files, 1, &[1])),
    // An open that got as far as the log's first head.
    mended(OwnLog, Harmless, &["log_head_behind"], |files| {
        forge(files, 1, 0, 2, |edition| edition + 1);
        forge(files, 1, 0, 4, |generation| generation + 1);
        NOTHING
    }),
    mended(OwnLog, Spare, &["superblock_copy", "log_head_copy"], |files| {
        spoil(files, 0, &[1]);
        spoil(files, 1, &[0])
    }),
];

const CONTENTS: &[Plant] = &[
    row(Unclean, Refused, &["log_groups", UNCHECKED], |files| spoil_group(files, 3)),
    row(Unclean, Refused, &["log_groups", UNCHECKED], |files| spoil_group(files, 1)),
    // The last one looks like a write cut short: documented, and no damage.
    row(Unclean, Harmless, &["torn_end"], |files| spoil_group(files, 0)),
    row(Unclean, Refused, &["log_group", UNCHECKED], |files| {
        // A whole group that names an ID twice.
        let groups = groups(files);
        let at = groups[groups.len() - 2];
        let words = &mut files.log().words[at..];
        (words[4], words[5]) = (words[4] - 1, words[5] - 1);
        seal::group(words);
        NOTHING
    }),
    row(Clean, Damage, &["heap"], |files| set_heap(files, 33, 5)), // an arena's header
    row(Clean, Damage, &["heap"], |files| set_heap(files, 13, 5)), // a reserved word
    row(Clean, Damage, &["heap", UNCHECKED], |files| set_heap(files, 18, 0)), // the frontier
    row(Clean, Damage, &["heap", UNCHECKED], |files| set_heap(files, CHUNK_WORDS + 2, 9)),
    row(Clean, Damage, &["heap"], |files| set_heap(files, CHUNK_WORDS + 9, 5)), // a block's header
    row(Clean, Damage, &["heap", UNCHECKED], |files| {
        let list = free_list(files);
        set_heap(files, list, 8)
    }),
    // Two places, and a root into the void.
    row(Clean, Damage, &["heap", "heap", "root"], |files| {
        set_heap(files, 33, 5);
        set_heap(files, CHUNK_WORDS + 9, 5);
        set_heap(files, 12, 4096)
    }),
    row(Clean, Damage, &["root"], |files| set_heap(files, 12, u64::MAX)),
    // Two of two kinds: the copy is left, for what else is wrong may be understood by it.
    row(Clean, Damage, &["superblock_copy", "heap"], |files| {
        set_heap(files, 33, 5);
        spoil(files, 0, &[0])
    }),
];

fn names(report: &Report) -> Vec<&'static str> {
    report.findings.iter().map(|finding| finding.problem.name()).collect()
}

fn plant_all(plants: &[Plant]) {
    for kind in Kind::ALL {
        let mut files = Files::make(kind);
        for (number, plant) in plants.iter().enumerate() {
            let fits = match plant.on {
                Any => true,
                OwnLog => !kind.mapped,
                Unclean => !kind.clean,
                Clean => kind.clean,
            };
            if fits {
                found_and_dealt_with(&mut files, plant, &format!("{number} on {kind:?}"));
            }
        }
    }
}

fn found_and_dealt_with(files: &mut Files, plant: &Plant, what: &str) {
    files.reset();
    let (lengths, no_log) = (plant.plant)(files);
    files.write(&lengths, no_log);
    let bytes =
        |files: &Files| [files.path(), files.log_path()].map(|path| std::fs::read(path).ok());
    let before = bytes(files);
    let report = lastword::check(files.path()).unwrap();
    // A heap that waits for a log that cannot be replayed is not judged; that is said too.
    let mut expected = plant.found.to_vec();
    if plant.on == OwnLog && plant.worst == Refused && !files.kind().clean {
        expected.push(UNCHECKED);
    }
    assert_eq!(names(&report), expected, "{what}: {:?}", report.findings);
    assert_eq!(report.severity(), plant.worst, "{what}");
    assert_eq!(report.opens(), plant.worst != Refused, "{what}");
    assert!(bytes(files) == before, "{what}: a check writes nothing");

    let repair = lastword::repair(files.path()).unwrap();
    assert_eq!(repair.left.is_empty(), plant.mended, "{what}: {:?}", repair.left);
    assert!(repair.left.iter().all(|(_, why)| !why.is_empty()));
    if plant.mended {
        assert!(repair.after.findings.is_empty(), "{what}: {:?}", repair.after.findings);
        assert_eq!(repair.after.checked, report.checked, "{what}: it changes nothing that counts");
        let again = lastword::repair(files.path()).unwrap();
        assert!(again.mended.is_empty() && again.left.is_empty(), "{what}");
    } else {
        assert!(repair.mended.is_empty() && bytes(files) == before, "{what}: it is left");
    }
    // Opening says the same, and goes on where it can; from the start, and mended.
    let _ = examine(files, Shadow::Full, false);
    files.write(&lengths, no_log);
    let _ = examine(files, Shadow::CopyOnWrite, false);
}

#[test]
fn every_damage_to_superblocks_and_lengths_is_found_and_dealt_with() {
    plant_all(SUPERBLOCKS);
}

#[test]
fn every_damage_to_a_logs_file_and_head_is_found_and_dealt_with() {
    plant_all(LOGS);
}

#[test]
fn every_damage_to_groups_allocator_and_root_is_found_and_dealt_with() {
    plant_all(CONTENTS);
}

#[test]
fn a_damaged_group_names_the_transactions_that_are_lost() {
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.clean) {
        let mut files = Files::make(kind);
        files.write(&[], false);
        let last = lastword::check(files.path()).unwrap().sound().unwrap().durable_id.0;
        spoil_group(&mut files, 3);
        files.write(&[], false);
        let report = lastword::check(files.path()).unwrap();
        let lost = vec![(TxId(last - 3), TxId(last - 3))];
        let unreached = vec![(TxId(last - 2), TxId(last))];
        assert_eq!(report.findings[0].problem, Problem::LogGroups { lost, unreached });
        let affected = report.findings[0].problem.affected();
        assert!(affected.contains(&format!("transactions {} are lost", last - 3)), "{affected}");
        // And one more: two gaps.
        spoil_group(&mut files, 1);
        files.write(&[], false);
        let report = lastword::check(files.path()).unwrap();
        let Problem::LogGroups { lost, .. } = &report.findings[0].problem else { panic!() };
        let gaps = [last - 3, last - 1].map(|id| (TxId(id), TxId(id)));
        assert_eq!(lost[..], gaps, "{kind:?}");
    }
}

/// What carries a checksum: any bit of it that changes is found.
#[test]
fn any_changed_bit_of_a_superblock_a_log_head_or_an_acknowledged_group_is_found() {
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.clean) {
        let mut files = Files::make(kind);
        let heads = if kind.mapped { 1 } else { 2 };
        for (file, copy, word) in (0..heads)
            .flat_map(|file| [0, 1].map(|copy| (file, copy)))
            .flat_map(|(file, copy)| (0..64).map(move |word| (file, copy, word)))
        {
            files.reset();
            files.copies(file).words[copy * COPY + word] ^= 1 << ((7 * word + 13 * copy) % 64);
            files.write(&[], false);
            let report = lastword::check(files.path()).unwrap();
            let name = ["superblock_copy", "log_head_copy"][file];
            assert_eq!(names(&report), [name], "word {word} of copy {copy}");
        }
        files.reset();
        let groups = groups(&mut files);
        let at = groups[groups.len() - 4];
        let used = 8 + files.log().words[at + 2] as usize;
        for word in 0..used {
            files.reset();
            files.log().words[at + word] ^= 1 << (11 * word % 64);
            files.write(&[], false);
            let report = lastword::check(files.path()).unwrap();
            assert_eq!(names(&report), ["log_groups", UNCHECKED], "word {word} of {used}");
        }
    }
}

/// A repair writes a copy; a crash leaves any of its words old or new.
#[test]
fn a_repair_that_a_crash_cuts_short_has_changed_nothing_and_is_done_again() {
    let mut files = Files::make(Kind { mapped: false, clean: false });
    for file in [0, 1] {
        for stale in [false, true] {
            files.reset();
            if stale {
                forge(&mut files, file, 0, 2, |edition| edition + 1);
            } else {
                spoil(&mut files, file, &[1]);
            }
            let good = files.copies(file).words[..64].to_vec();
            let bad = files.copies(file).words[COPY..COPY + 64].to_vec();
            files.write(&[], false);
            let shown = lastword::check(files.path()).unwrap().checked.unwrap();
            let mut mended = 0;
            // Each prefix, and each pattern of every third word and the like.
            for cut in 0..=64 {
                for pattern in [1, 2, 3] {
                    for word in 0..64 {
                        let is_new = word < cut && word % pattern == 0;
                        files.copies(file).words[COPY + word] =
                            if is_new { good[word] } else { bad[word] };
                    }
                    files.write(&[], false);
                    let repair = lastword::repair(files.path()).unwrap();
                    assert_eq!(repair.after.checked.as_ref(), Some(&shown), "{cut} {pattern}");
                    assert!(repair.after.findings.is_empty() && repair.left.is_empty());
                    mended += repair.mended.len();
                }
            }
            assert!((100..3 * 65).contains(&mended), "{mended}: not when it was whole");
        }
    }
}

/// Home pages carry no checksum: said in the help of `pool check` and in
/// docs/operating/durability.md.
#[test]
fn a_changed_value_at_home_is_not_found() {
    let mut files = Files::make(Kind { mapped: false, clean: true });
    // The first word of the first block of the array.
    files.heap().words[CHUNK_WORDS + 10] ^= 1;
    files.write(&[], false);
    assert!(lastword::check(files.path()).unwrap().findings.is_empty());
}
