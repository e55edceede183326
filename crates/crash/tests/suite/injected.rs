//! Every kind of injected damage: a check finds and names it, opening the pool does as documented,
//! and a repair fixes it or leaves it with a reason.

use crash::hostile::{Files, Kind, examine, seal};
use lastword::{Problem, Report, Severity, Shadow, TxId};

/// Distance of the second copy from the first, in words.
const COPY: usize = 512;
const CHUNK_WORDS: usize = 8192;

/// Damage outside the files' words: other lengths, and whether the log is removed.
type Outside = (Vec<(usize, u64)>, bool);

const NOTHING: Outside = (Vec::new(), false);

/// The pools that a kind of damage applies to.
#[derive(Clone, Copy, PartialEq)]
enum On {
    Any,
    /// The log has its own file.
    OwnLog,
    /// The log is to be replayed.
    Unclean,
    /// The heap image is complete.
    Clean,
}

struct Injection {
    on: On,
    inject: fn(&mut Files) -> Outside,
    /// The names of all findings.
    found: &'static [&'static str],
    worst: Severity,
    repaired: bool,
}

const fn row(
    on: On,
    worst: Severity,
    found: &'static [&'static str],
    inject: fn(&mut Files) -> Outside,
) -> Injection {
    Injection { on, inject, found, worst, repaired: false }
}

const fn repaired(
    on: On,
    worst: Severity,
    found: &'static [&'static str],
    inject: fn(&mut Files) -> Outside,
) -> Injection {
    Injection { on, inject, found, worst, repaired: true }
}

/// Changes a word of a copy and fixes its checksum.
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

/// Returns the first words of the groups in the log, in the order of their places.
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

/// A word of the first object of arena 0: its header.
const ARENA_HEADER: usize = (16384 + 8) / 8;

/// Returns the state of a slab that an arena owns, in the arena.
fn slab_state(files: &mut Files) -> usize {
    let words = &files.heap().words;
    let pair = |arena: usize, class: usize| {
        (16384 + 1536 * arena + 64 * (class / 3) + 16 + 16 * (class % 3)) / 8
    };
    let mut pairs = (0..32).flat_map(|arena| (0..63).map(move |class| pair(arena, class)));
    pairs.find(|&pair| words[pair] != 0).unwrap() + 1
}

use On::{Any, Clean, OwnLog, Unclean};
use Severity::{Damage, Harmless, Refused, Spare};

const UNCHECKED: &str = "heap_unchecked";

const SUPERBLOCKS: &[Injection] = &[
    repaired(Any, Spare, &["superblock_copy"], |files| spoil(files, 0, &[0])),
    repaired(Any, Spare, &["superblock_copy"], |files| spoil(files, 0, &[1])),
    row(Any, Refused, &["no_superblock"], |files| spoil(files, 0, &[0, 1])),
    // An update that a crash has interrupted, after either copy; and a copy that missed several
    // updates.
    repaired(Any, Harmless, &["superblock_behind"], |files| {
        forge(files, 0, 0, 2, |edition| edition + 1);
        NOTHING
    }),
    repaired(Any, Harmless, &["superblock_behind"], |files| {
        forge(files, 0, 1, 2, |edition| edition + 1);
        NOTHING
    }),
    repaired(Any, Spare, &["superblock_behind"], |files| {
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
        forge(files, 0, 1, 1, |_| 5);
        NOTHING
    }),
    // A feature bit.
    row(Any, Refused, &["format_version", "format_version"], |files| {
        forge_both(files, 0, 1, |version| version | 1 << 40)
    }),
    row(Any, Refused, &["areas"], |files| forge_both(files, 0, 13, |offset| offset + 4096)),
    row(Any, Refused, &["areas"], |files| forge_both(files, 0, 14, |_| u64::MAX - 0xffff)),
    row(Any, Refused, &["areas"], |files| forge_both(files, 0, 20, |sequence| sequence + 8)),
    // A number that the next update would increase beyond the range of readers.
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
    row(Any, Refused, &["length"], |files| (vec![(0, files.length(0) + 1)], false)),
    row(Any, Refused, &["no_superblock"], |_| (vec![(0, 100)], false)),
    row(Any, Refused, &["no_superblock"], |_| (vec![(0, 0)], false)),
];

/// A cleanly closed pool has a complete and checked heap, whatever the log's state.
const LOGS: &[Injection] = &[
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
    repaired(OwnLog, Spare, &["log_head_copy"], |files| spoil(files, 1, &[0])),
    repaired(OwnLog, Spare, &["log_head_copy"], |files| spoil(files, 1, &[1])),
    // An interrupted open, which wrote the log's first head.
    repaired(OwnLog, Harmless, &["log_head_behind"], |files| {
        forge(files, 1, 0, 2, |edition| edition + 1);
        forge(files, 1, 0, 4, |generation| generation + 1);
        forge(files, 1, 0, 5, |_| 0);
        NOTHING
    }),
    // An older copy of the pool's file beside the log of the next opening.
    row(OwnLog, Refused, &["log_of_other_time"], |files| forge_both(files, 1, 4, |of| of + 1)),
    repaired(OwnLog, Spare, &["superblock_copy", "log_head_copy"], |files| {
        spoil(files, 0, &[1]);
        spoil(files, 1, &[0])
    }),
];

const CONTENTS: &[Injection] = &[
    row(Unclean, Refused, &["log_groups", UNCHECKED], |files| spoil_group(files, 3)),
    row(Unclean, Refused, &["log_groups", UNCHECKED], |files| spoil_group(files, 1)),
    // Damage to the last group looks like a torn write if no witness of the group is there:
    // documented, and not reported as damage.
    row(Unclean, Harmless, &["torn_end"], |files| {
        for page in [0, COPY] {
            files.copies(0).words[page + 256..page + 512].fill(0);
        }
        spoil_group(files, 0)
    }),
    row(Unclean, Refused, &["log_group", UNCHECKED], |files| {
        // An intact group that has an ID twice.
        let groups = groups(files);
        let at = groups[groups.len() - 2];
        let words = &mut files.log().words[at..];
        (words[4], words[5]) = (words[4] - 1, words[5] - 1);
        seal::group(words);
        NOTHING
    }),
    row(Clean, Damage, &["heap"], |files| set_heap(files, ARENA_HEADER, 5)),
    row(Clean, Damage, &["heap"], |files| set_heap(files, 15, 5)), // a reserved word
    row(Clean, Damage, &["heap", UNCHECKED], |files| set_heap(files, 18, 0)), // the frontier
    row(Clean, Damage, &["heap", UNCHECKED], |files| set_heap(files, CHUNK_WORDS + 2, 9)),
    row(Clean, Damage, &["heap"], |files| set_heap(files, CHUNK_WORDS + 9, 5)), // a block's header
    row(Clean, Damage, &["heap", UNCHECKED], |files| {
        let state = slab_state(files);
        set_heap(files, state, u64::MAX)
    }),
    // Two places, and a root to an invalid address.
    row(Clean, Damage, &["heap", "heap", "root"], |files| {
        set_heap(files, ARENA_HEADER, 5);
        set_heap(files, CHUNK_WORDS + 9, 5);
        set_heap(files, 12, 4096)
    }),
    row(Clean, Damage, &["root"], |files| set_heap(files, 12, u64::MAX)),
    // Damage of two kinds: the copy is not repaired, because it may explain the other damage.
    row(Clean, Damage, &["superblock_copy", "heap"], |files| {
        set_heap(files, ARENA_HEADER, 5);
        spoil(files, 0, &[0])
    }),
];

fn names(report: &Report) -> Vec<&'static str> {
    report.findings.iter().map(|finding| finding.problem.name()).collect()
}

fn inject_all(injections: &[Injection]) {
    for kind in Kind::GROUPS {
        let mut files = Files::make(kind);
        for (number, injection) in injections.iter().enumerate() {
            let fits = match injection.on {
                Any => true,
                OwnLog => !kind.mapped,
                Unclean => !kind.clean,
                Clean => kind.clean,
            };
            if fits {
                check_injection(&mut files, injection, &format!("{number} on {kind:?}"));
            }
        }
    }
}

fn check_injection(files: &mut Files, injection: &Injection, context: &str) {
    files.reset();
    let (lengths, no_log) = (injection.inject)(files);
    files.write(&lengths, no_log);
    let bytes =
        |files: &Files| [files.path(), files.log_path()].map(|path| std::fs::read(path).ok());
    let before = bytes(files);
    let report = lastword::check(files.path()).unwrap();
    // A heap that waits for a damaged log is not checked; the check reports that too.
    let mut expected = injection.found.to_vec();
    if injection.on == OwnLog && injection.worst == Refused && !files.kind().clean {
        expected.push(UNCHECKED);
    }
    assert_eq!(names(&report), expected, "{context}: {:?}", report.findings);
    assert_eq!(report.severity(), injection.worst, "{context}");
    assert_eq!(report.opens(), injection.worst != Refused, "{context}");
    assert!(bytes(files) == before, "{context}: a check wrote");

    let repair = lastword::repair(files.path()).unwrap();
    assert_eq!(repair.left.is_empty(), injection.repaired, "{context}: {:?}", repair.left);
    assert!(repair.left.iter().all(|(_, why)| !why.is_empty()));
    if injection.repaired {
        assert!(repair.after.findings.is_empty(), "{context}: {:?}", repair.after.findings);
        assert_eq!(repair.after.checked, report.checked, "{context}: a repair changed valid data");
        let again = lastword::repair(files.path()).unwrap();
        assert!(again.fixed.is_empty() && again.left.is_empty(), "{context}");
    } else {
        assert!(repair.fixed.is_empty() && bytes(files) == before, "{context}: it was changed");
    }
    // Opening agrees, and continues where it can; both unrepaired and repaired.
    let _ = examine(files, Shadow::Full, false);
    files.write(&lengths, no_log);
    let _ = examine(files, Shadow::CopyOnWrite, false);
}

#[test]
fn damage_to_superblocks_and_lengths_is_found() {
    inject_all(SUPERBLOCKS);
}

#[test]
fn damage_to_log_file_and_head_is_found() {
    inject_all(LOGS);
}

#[test]
fn damage_to_groups_allocator_and_root_is_found() {
    inject_all(CONTENTS);
}

#[test]
fn damaged_group_names_lost_transactions() {
    for kind in Kind::GROUPS.into_iter().filter(|kind| !kind.clean) {
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
        // Damage one more: two gaps.
        spoil_group(&mut files, 1);
        files.write(&[], false);
        let report = lastword::check(files.path()).unwrap();
        let Problem::LogGroups { lost, .. } = &report.findings[0].problem else { panic!() };
        let gaps = [last - 3, last - 1].map(|id| (TxId(id), TxId(id)));
        assert_eq!(lost[..], gaps, "{kind:?}");
    }
}

/// Every bit under a checksum is protected.
#[test]
fn any_flipped_bit_under_a_checksum_is_found() {
    for kind in Kind::GROUPS.into_iter().filter(|kind| !kind.clean) {
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
fn interrupted_repair_is_harmless_and_repeatable() {
    let mut files = Files::make(Kind::GROUPS[0]);
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
            let mut repairs = 0;
            // Each prefix, and patterns such as every third word.
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
                    repairs += repair.fixed.len();
                }
            }
            assert!((100..3 * 65).contains(&repairs), "{repairs} repairs, none of an intact copy");
        }
    }
}

/// Without page checksums, a changed value in the heap image is not found.
#[test]
fn changed_heap_value_is_not_found() {
    let mut files = Files::make(Kind::GROUPS[1]);
    // The first word of the first block of the array.
    files.heap().words[CHUNK_WORDS + 10] ^= 1;
    files.write(&[], false);
    assert!(lastword::check(files.path()).unwrap().findings.is_empty());
}
