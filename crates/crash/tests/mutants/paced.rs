//! Tests of mutants in the writing of single pages: reproduction that takes groups in and writes
//! the pages with the oldest words, while later pages wait.

use faults::mutants::{Mutant, inject};
use faults::recording::{Choose, Model, Question, Recorder};
use lastword::{Decoupled, Medium, Objects, Options, Pool, Ptr};
use medium::sync::Arc;
use medium::{FileHeap, HeapMedium, PoolFile, Prewrite, writes};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::parts::machine;

/// A page whose words are written more often than its chain has room for.
pub(crate) fn a_page_with_hot_words(bug: Option<Mutant>) -> Option<String> {
    const WRITES: u64 = 1000;
    let _injected = inject(bug);
    let file = PoolFile::create_on(&machine().system(), "/part", 4096, Prewrite::No);
    let file = Arc::new(file.unwrap());
    let heap_image = FileHeap::new(Arc::clone(&file), 0, 4096).unwrap();
    // With memory for all its pages it would have no chains.
    let mut heap_image = heap_image.with_gather_bytes_max(2048);
    let words = (0..WRITES).flat_map(|value| [writes::run(7 + value % 5, 1), value]);
    heap_image.write_back(&words.collect::<Vec<_>>()).unwrap();
    heap_image.barrier().unwrap();
    let mut words = [0; 5];
    file.read_at(7 * 8, &mut words).unwrap();
    let expected = [0, 1, 2, 3, 4].map(|word| WRITES - 5 + word);
    (words != expected).then(|| format!("lost: {words:?} and not {expected:?}"))
}

/// Chooses what survives a crash by chance.
struct ByChance(Xoshiro256PlusPlus);

impl Choose for ByChance {
    fn choose(&mut self, question: Question) -> usize {
        (self.0.next_u64() % question.options as u64) as usize
    }
}

/// Objects, on some fifty pages, and words of each: a log of 128 KiB has room for 150 of them.
const OBJECTS: usize = 200;
const WORDS: usize = 100;

type Object = Ptr<[u64; WORDS]>;

fn options(recorder: &Recorder) -> Options {
    let options = Options::new().bytes(1 << 20).log_bytes(128 << 10).medium(Medium::File);
    options.background(false).system(recorder.system())
}

/// Writes objects while paced steps write pages, some wraps of the log long. Then the power fails.
pub(crate) fn pages_that_wait(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let (mut waited, mut found) = (0, None);
    for seed in 0..30 {
        match crashed(seed, &mut waited) {
            Ok(()) => {}
            Err(violation) => {
                found = Some(format!("{violation} (seed {seed})"));
                break;
            }
        }
    }
    assert!(found.is_some() || waited > 10, "{waited} crashes with pages that wait");
    found
}

fn crashed(seed: u64, waited: &mut u32) -> Result<(), String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let chance = ByChance(Xoshiro256PlusPlus::seed_from_u64(!seed));
    let recorder = Recorder::new(Model { crashes: 0, ..Model::default() }, Box::new(chance));
    let pool = Pool::<Decoupled>::create_as("/pool", options(&recorder)).unwrap();
    let mut worker = pool.worker().unwrap();
    let objects: Vec<Object> =
        (0..OBJECTS).map(|_| worker.run(|tx| tx.alloc([0; WORDS])).unwrap().value).collect();
    pool.checkpoint().unwrap();
    let first = pool.committed_id().0;
    let mut written = Vec::new();
    for _ in 0..400 + random.next_u64() % 800 {
        if random.next_u64() % 8 > 0 {
            let object = random.next_u64() as usize % OBJECTS;
            let value = 1 + written.len() as u64;
            let _ = worker.run(|tx| tx.set(objects[object], [value; WORDS])).unwrap();
            written.push(object);
            continue;
        }
        pool.design().persist_step().unwrap();
        pool.design().paced_step().unwrap();
    }
    let (durable, reproduced) = (pool.durable_id().0, pool.reproduced_id().0);
    *waited += u32::from(first < reproduced && reproduced < durable);
    drop(worker);
    recorder.crash();
    pool.abandon();
    let pool = Pool::<Decoupled>::open_as("/pool", options(&recorder))
        .map_err(|error| format!("refused: {error}"))?;
    let recovered = pool.committed_id().0;
    if recovered < durable {
        return Err(format!("lost: {recovered} of {durable} transactions are there"));
    }
    let mut values = [0; OBJECTS];
    let present = &written[..(recovered - first) as usize];
    present.iter().zip(1..).for_each(|(object, value)| values[*object] = value);
    for (object, value) in objects.iter().zip(values) {
        let found = pool.run(|tx| tx.get(*object)).map_err(|error| format!("broken: {error}"))?;
        if found.value != [value; WORDS] {
            return Err(format!("lost: {} and not {value}", found.value[0]));
        }
    }
    Ok(())
}
