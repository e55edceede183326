//! Tests of mutants in readers of a pool that is in use: the owner writes between the slices of the
//! heap that the reader copies.

use std::fs::File;
use std::os::unix::fs::FileExt;

use faults::mutants::{Mutant, inject};
use lastword::{Decoupled, Error, Medium, Objects, Options, Pool, PoolReader};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::parts::machine;

/// Objects in all parts of the heap, and words of each.
const OBJECTS: usize = 900;
const WORDS: usize = 100;

/// Reads while transactions, persist steps and reproduce steps run between two reads.
pub(crate) fn a_reader_beside_its_owner(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let media = [(Medium::File, 1), (Medium::File, 3), (Medium::Dax, 1), (Medium::Dax, 2)];
    (0..).zip(media).find_map(|(seed, (medium, parts))| {
        let found = read(seed, medium, parts).err()?;
        Some(format!("{found} (medium {medium:?}, {parts} parts)"))
    })
}

fn read(seed: u64, medium: Medium, parts: usize) -> Result<(), String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let recorder = machine();
    let options = Options::new().bytes(1 << 20).log_bytes(256 << 10).medium(medium);
    let options = options.background(false).reproduce_threads(parts).gather_bytes(32 << 10);
    let options = options.system(recorder.system());
    let pool = Pool::<Decoupled>::create_as("/pool", options.clone()).unwrap();
    let mut worker = pool.worker().unwrap();
    let objects: Vec<_> =
        (0..OBJECTS).map(|_| worker.run(|tx| tx.alloc([0; WORDS])).unwrap().value).collect();
    // The values after the transaction of each ID from here on.
    let first = pool.committed_id().0;
    let mut history = vec![vec![0; OBJECTS]];
    for _ in 0..20 {
        let reader = PoolReader::open_with("/pool", options.clone(), || {
            for _ in 0..40 {
                match random.next_u64() % 10 {
                    0 | 1 => drop(pool.design().persist_step().unwrap()),
                    2 => drop(pool.design().paced_step().unwrap()),
                    3 => drop(pool.design().reproduce_step().unwrap()),
                    _ => {
                        let object = random.next_u64() as usize % OBJECTS;
                        let value = history.len() as u64;
                        let _ = worker.run(|tx| tx.set(objects[object], [value; WORDS])).unwrap();
                        let mut values = history.last().unwrap().clone();
                        values[object] = value;
                        history.push(values);
                    }
                }
            }
        });
        let reader = reader.map_err(|error| format!("refused: {error}"))?;
        reader.check().map_err(|error| format!("torn: {error}"))?;
        let id = reader.id();
        if id < pool.reproduced_id() {
            return Err(format!("lost: {id} is not the last transaction in the log"));
        }
        let values = &history[(id.0 - first) as usize];
        for (object, value) in objects.iter().zip(values) {
            let found = reader.read(|tx| tx.get(*object)).map_err(|error| error.to_string())?;
            if found != [*value; WORDS] {
                return Err(format!("torn: at {id} {} and not {value}", found[0]));
            }
        }
    }
    Ok(())
}

/// Reads a pool in use whose log has lost its last page.
pub(crate) fn a_lost_end_beside_its_owner(bug: Option<Mutant>) -> Option<String> {
    const PAGE: usize = 4096;
    const LOG_AT: usize = 2 << 20;
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let options = Options::new().bytes(256 << 10).log_bytes(256 << 10).medium(emulated);
    let options = options.background(false);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(&path, options.clone()).unwrap();
    let object = pool.run(|tx| tx.alloc([0_u64; 25])).unwrap().value;
    for value in 0..20 {
        pool.run(|tx| tx.set(object, [value; 25])).unwrap().ticket.wait().unwrap();
    }
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut log = vec![0; 16 * PAGE];
    file.read_exact_at(&mut log, LOG_AT as u64).unwrap();
    let end = log.iter().rposition(|byte| *byte != 0).unwrap();
    assert!(end > PAGE, "the first page is left");
    file.write_all_at(&[0; PAGE], (LOG_AT + end / PAGE * PAGE) as u64).unwrap();
    let (read, used, checked) = {
        let _injected = inject(bug);
        let read = PoolReader::open(&path, options).map(|reader| reader.id());
        (read, lastword::heap_usage(&path).map(drop), lastword::check(&path).unwrap())
    };
    pool.abandon();
    let closed = lastword::check(&path).unwrap();
    let text = |error: Error| matches!(error, Error::DamagedLog { .. }).then(|| error.to_string());
    let expected = closed.refusal.and_then(text);
    assert!(expected.is_some(), "a check of the closed pool refuses it");
    let problems = |findings: &[lastword::Finding]| -> Vec<String> {
        findings.iter().map(|finding| finding.problem.to_string()).collect()
    };
    let refusals = [read.err(), used.err(), checked.refusal];
    let found = refusals.map(|error| error.and_then(text));
    match found.iter().all(|found| *found == expected) {
        true => {
            let found = problems(&checked.findings);
            let named = found.iter().any(|one| problems(&closed.findings).contains(one));
            (!named).then(|| format!("lost: a check beside the owner finds {found:?}"))
        }
        false => Some(format!("lost: {found:?} beside the owner, and {expected:?} without it")),
    }
}
