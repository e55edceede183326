//! Bit rot under checksums: the pool shows a prefix of the committed transactions, and a provable
//! loss is always reported. Every design on files and on mapped media.
//!
//! `LASTWORD_ROUNDS=50 cargo test -p lastword-crash-tests --test suite rot::` makes 5000 rounds of
//! each.

use std::ops::Range;

use crash::hostile::{Area, Files, Input, Kind, Part, options};
use lastword::{Objects, Pool, Problem, Ptr, Severity};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The root's value after the last of the transactions that fill the pool; they count.
const LAST: u64 = 11;

/// Returns the number of the last transaction that the pool shows, if all its words agree.
fn shown(pool: &Pool) -> Option<u64> {
    let read = pool.run(|tx| {
        let root: Ptr<[u64; 4]> = tx.root_ptr()?;
        let [_, object, _, n] = tx.get(root)?;
        if object == 0 {
            return Ok(None);
        }
        assert_eq!(tx.get(Ptr::<[u64; 5]>::from_bits(object))?, [n; 5], "it is whole");
        Ok(Some(n))
    });
    read.unwrap().value
}

/// Returns a range of words to change. A log is mostly empty, and so are the pages of two copies,
/// so it chooses a used part. In a log of slots, whose witnesses lie in other pages than the
/// records, it chooses one page.
fn used(random: &mut Xoshiro256PlusPlus, part: &Part, has_slots: bool) -> Range<usize> {
    let end = 1 + part.words.iter().rposition(|&word| word != 0).unwrap_or(0);
    match part.area {
        Area::Copies if random.next_u64().is_multiple_of(2) => 0..64,
        Area::Copies => 512..576,
        _ if has_slots => {
            let page = 512 * (random.next_u64() as usize % end.div_ceil(512));
            page..page + 512
        }
        // The last groups, whose loss looks like a torn write on files.
        _ if random.next_u64().is_multiple_of(2) => (end - 1) / 512 * 512..end,
        _ => 0..end,
    }
}

#[test]
fn rot_under_checksums_is_found_or_shows_a_prefix() {
    let setting = |name, default| {
        std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
    };
    let (seed, rounds) = (setting("LASTWORD_SEED", 1), 100 * setting("LASTWORD_ROUNDS", 1));
    println!("LASTWORD_SEED={seed}, {rounds} rounds");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut refused, mut whole, mut shorter) = (0, 0, 0);
    for kind in Kind::all().filter(|kind| !kind.clean) {
        let mut files = Files::make(kind);
        files.write(&[], false);
        let last = lastword::check(files.path()).unwrap().sound().unwrap().durable_id.0;
        for round in 0..rounds {
            files.reset();
            let mut rotten: Vec<_> =
                files.parts.iter_mut().filter(|part| part.area != Area::Heap).collect();
            let changes = if kind.has_slots() { 1 } else { 1 + random.next_u64() % 3 };
            for _ in 0..changes {
                let part = (random.next_u64() % rotten.len() as u64) as usize;
                let range = used(&mut random, rotten[part], kind.has_slots());
                let mut input = [0; 16];
                random.fill_bytes(&mut input);
                Input::new(&input).change(&mut rotten[part].words[range]);
            }
            files.write(&[], false);
            let report = lastword::check(files.path()).unwrap();
            let Some(checked) = &report.checked else {
                assert_eq!(report.severity(), Severity::Refused);
                refused += 1;
                continue;
            };
            let pool = Pool::open(files.path(), options()).unwrap();
            let lost = last - checked.durable_id.0;
            let expected = (LAST + 1).checked_sub(lost + 1);
            assert_eq!(shown(&pool), expected, "seed {seed}, round {round} on {kind:?}");
            pool.close().unwrap();
            if lost == 0 {
                whole += 1;
                continue;
            }
            shorter += 1;
            // On mapped media witnesses say where the log ended, and on files each record of a slot
            // has a page.
            let may_lose = match (kind.mapped, kind.has_slots()) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => last,
            };
            assert!(lost <= may_lose, "seed {seed}, round {round} on {kind:?}");
            // All later groups are lost too: an intact one would have proved the loss.
            let unproved = |problem: &Problem| !matches!(problem, Problem::LogGroups { .. });
            assert!(report.findings.iter().all(|finding| unproved(&finding.problem)));
        }
    }
    println!("{refused} refused, {whole} whole, {shorter} shorter");
    assert!(refused > 20 && whole > 20 && shorter > 5, "{refused}, {whole}, {shorter}");
}
