//! Every operation on a pool with corrupt files.

use std::cell::RefCell;

use lastword::{Allocate, Finding, Objects, Pool, Problem, Report, Severity, Shadow};

use super::files::{Area, Files, Kind, Part, options};
use super::input::Input;

thread_local! {
    /// The initial pools, made once in each thread.
    static POOLS: RefCell<Vec<Files>> = RefCell::new(Kind::all().map(Files::make).collect());
}

/// Runs the target. The first byte selects the pool and whether checksums are fixed; the others
/// change the files anywhere.
pub fn pool(input: &[u8]) {
    let mut input = Input::new(input);
    with_pool(&mut input, |files, input| {
        let (mut lengths, mut no_log) = (Vec::new(), false);
        for _ in 0..64 {
            if input.is_empty() {
                break;
            }
            let parts = files.parts.len() as u64;
            let part = input.below(parts) as usize;
            let Part { words, area, .. } = &mut files.parts[part];
            match input.byte() % 16 {
                0 => lengths.push(length(files, input)),
                1 => no_log = input.byte().is_multiple_of(4),
                // The densest words: the first of a block of the log, of a chunk, of a copy.
                2..=8 => {
                    let block = input.below(words.len() as u64 / 512) as usize * 512;
                    input.change(&mut words[block..block + 64]);
                }
                9..=11 if *area == Area::Heap => {
                    input.change(&mut words[..4128]);
                }
                _ => input.change(words),
            }
        }
        (lengths, no_log)
    });
}

/// Runs the target. The first byte is as for [`pool`]. The others change words of superblocks and
/// log heads: the word, its new value, and whether in both copies.
pub fn superblock(input: &[u8]) {
    let mut input = Input::new(input);
    with_pool(&mut input, |files, input| {
        for _ in 0..64 {
            if input.is_empty() {
                break;
            }
            let file = usize::from(input.byte().is_multiple_of(4) && !files.kind().mapped);
            let words = &mut files.copies(file).words;
            let word = input.byte() as usize % 64;
            match input.byte() % 4 {
                0 => words[word] = input.value(words[word]),
                1 => words[512 + word] = input.value(words[512 + word]),
                2 => words.copy_within(512 * usize::from(input.bit()).., 0),
                _ => {
                    let value = input.value(words[word]);
                    (words[word], words[512 + word]) = (value, value);
                }
            }
        }
        (Vec::new(), false)
    });
}

/// Returns another length of a file.
fn length(files: &Files, input: &mut Input<'_>) -> (usize, u64) {
    let file = usize::from(input.bit() && !files.kind().mapped);
    let length = match input.byte() % 4 {
        0 => input.below(20_000),
        1 => files.length(file) - 1 - input.below(8192),
        2 => files.length(file) + 1 + input.below(8192),
        _ => input.below(files.length(file)),
    };
    (file, length)
}

/// Changes the files with `change`, and runs every operation.
fn with_pool(
    input: &mut Input<'_>,
    change: impl FnOnce(&mut Files, &mut Input<'_>) -> (Vec<(usize, u64)>, bool),
) {
    let first = input.byte();
    POOLS.with_borrow_mut(|pools| {
        let files = &mut pools[usize::from(first & 3) + 4 * usize::from(first >> 5 & 3)];
        files.reset();
        let (lengths, no_log) = change(files, input);
        if first & 4 != 0 {
            files.seal();
        }
        files.write(&lengths, no_log);
        let shadow = if first & 8 != 0 { Shadow::CopyOnWrite } else { Shadow::Full };
        let _ = examine(files, shadow, first & 16 != 0);
    });
}

/// Checks, describes, repairs if asked to, opens, uses and closes; the results must agree.
///
/// # Panics
/// When they do not.
pub fn examine(files: &Files, shadow: Shadow, repairs: bool) -> Report {
    let path = files.path();
    let report = lastword::check(&path).expect("the file can be checked");
    assert!(report.opens() || report.severity() == Severity::Refused, "{:?}", report.findings);
    for finding in &report.findings {
        let problem = &finding.problem;
        let texts = [finding.to_string(), problem.affected(), problem.remedy().into()];
        assert!(texts.iter().all(|text| !text.is_empty()), "{problem:?}");
    }
    let info = lastword::inspect(&path);
    let said = |result: Option<&lastword::Error>| result.map(ToString::to_string);
    assert_eq!(said(info.err().as_ref()), said(report.refusal.as_ref()));
    let _ = lastword::HeapAtRest::load(&path).map(|snapshot| {
        snapshot.objects().map(|live| snapshot.words(&live).fold(0, u64::wrapping_add)).max()
    });
    if repairs {
        let repair = lastword::repair(&path).expect("the file can be written");
        assert_eq!(repair.after.opens(), report.opens(), "a repair changed whether the pool opens");
        let left = repair.left.len() + repair.fixed.len();
        assert_eq!(left, report.findings.len(), "each finding is repaired or left with a reason");
        assert_eq!(repair.after.checked, report.checked, "a repair changed valid data");
    }
    // Use the layout that the file states, as its creator would.
    let layout = report.layout.clone().unwrap_or_default();
    let opened = Pool::open(&path, options().shadow(shadow).layout(&layout.0, layout.1));
    match (opened, &report.refusal) {
        (Ok(pool), None) => use_it(pool),
        (Err(error), Some(refusal)) => assert_eq!(error.to_string(), refusal.to_string()),
        (Ok(_), Some(refusal)) => panic!("the pool opens, but the check refused it: {refusal}"),
        (Err(error), None) => panic!("the check accepted the pool, but it does not open: {error}"),
    }
    if report.opens() {
        let after = lastword::check(&path).expect("the file can be checked");
        // Counters continue; one at its maximum is then out of range.
        let too_large =
            [&Problem::Areas, &Problem::NoLogHead { needed_after: None }].map(|one| one.name());
        let is_known = |one: &Finding| too_large.contains(&one.problem.name());
        assert!(after.opens() || after.findings.iter().any(is_known), "{:?}", after.findings);
        let spare = |one: &Finding| one.severity() == Severity::Spare;
        assert!(!after.findings.iter().any(spare), "opening it has written all copies");
    }
    report
}

/// Runs a few transactions; any result is allowed, but each must return. Committed ones must be
/// durable.
fn use_it(pool: Pool) {
    let root = pool.run(|tx| tx.root()).map(|done| done.value).unwrap_or(0);
    let _ = pool.run(|tx| {
        let at = lastword::Ptr::<[u64; 4]>::from_bits(root);
        let words = tx.get(at)?;
        for object in words {
            let object = lastword::Ptr::<[u64; 5]>::from_bits(object);
            let _ = tx.get(object).map(|found| found[0]);
        }
        tx.set(at, [words[0], words[1], 0, 77])
    });
    for bytes in [8, 40, 1000] {
        let _ = pool.run(|tx| lastword::Bytes::new(tx, &vec![7; bytes]).map(drop));
    }
    let _ = pool.run(|tx| {
        let first = tx.alloc([1_u64; 5])?;
        let second = tx.alloc([2_u64; 5])?;
        tx.free(first)?;
        tx.set(second, [3; 5])
    });
    let _ = pool.run(|tx| lastword::Array::<u64>::create(tx, 100).map(drop));
    pool.close().expect("the medium is sound");
}
