//! Measures the words a second that mapped memory stores, and whether combining lines pays.
//!
//! Each batch is 1 MiB of log in groups of 64 KiB, each transaction four words: four runs of one,
//! or one run of four. The device is memory, or takes 1 GB/s. Writes are uniform, or zipf 0.99 with
//! hot words scattered or side by side, or nine of ten go to 1000 lines. One thread; rounds of the
//! store modes are interleaved.
//!
//!     cargo bench -p lastword-medium --bench write_back [-- /ABSOLUTE/DIRECTORY]

use std::time::Instant;

use medium::sync::Arc;
use medium::writes;
use medium::{Combining, Domain, Emulation, Error, HeapMedium, MappedHeap, PoolFile, Prewrite};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

const HEAP_BYTES: u64 = 512 << 20;
const HEAP_WORDS: u64 = HEAP_BYTES / 8;
const GROUP_WORDS: usize = 8192;
const GROUPS_A_BATCH: usize = 16;
const BATCHES: usize = 40;
const ROUNDS: usize = 5;
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args()
        .skip(1)
        .find(|argument| argument != "--bench")
        .unwrap_or("/dev/shm".into());
    let directory = tempfile::tempdir_in(directory)?;
    let file = PoolFile::create(directory.path().join("heap"), HEAP_BYTES, Prewrite::Zeros)?;
    let file = Arc::new(file);
    println!("a heap of 512 MiB on {}, batches of 1 MiB of log", file.path().display());
    println!("million words a second: median (lowest to highest), lines sent for a word\n");
    type Skew = fn(&mut Xoshiro256PlusPlus, &Zipf<f64>) -> u64;
    let skews: [(&str, Skew); 4] = [
        ("uniform", |random, _| random.random_range(0..HEAP_WORDS)),
        ("zipf, scattered", |random, zipf| zipf_word(random, zipf).wrapping_mul(SPREAD)),
        ("zipf, side by side", zipf_word),
        ("9 of 10 to 1000 lines", |random, _| match random.random_bool(0.9) {
            true => random.random_range(0..1000_u64).wrapping_mul(SPREAD) & !7,
            false => random.random_range(0..HEAP_WORDS),
        }),
    ];
    for (name, skew) in skews {
        for &run_words in if name == "uniform" { &[1, 4][..] } else { &[1] } {
            println!("{name}, runs of {run_words}");
            measure(&file, &groups(skew, run_words))?;
        }
    }
    Ok(())
}

fn zipf_word(random: &mut Xoshiro256PlusPlus, zipf: &Zipf<f64>) -> u64 {
    zipf.sample(random) as u64 - 1
}

fn groups(
    word: impl Fn(&mut Xoshiro256PlusPlus, &Zipf<f64>) -> u64,
    run_words: usize,
) -> Vec<Vec<u64>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let zipf = Zipf::new(HEAP_WORDS as f64, 0.99).expect("a finite number of words");
    let group = |random: &mut Xoshiro256PlusPlus| {
        let mut group = Vec::with_capacity(GROUP_WORDS);
        while group.len() + 9 <= GROUP_WORDS {
            group.push(writes::mark(0));
            for _ in 0..4 / run_words {
                let index = word(random, &zipf) % HEAP_WORDS;
                group.push(writes::run(index.min(HEAP_WORDS - 4), run_words));
                group.extend((0..run_words).map(|_| random.next_u64()));
            }
        }
        group
    };
    (0..BATCHES * GROUPS_A_BATCH).map(|_| group(&mut random)).collect()
}

fn measure(file: &Arc<PoolFile>, groups: &[Vec<u64>]) -> Result<(), Error> {
    let memory = Domain::emulated(Emulation::new(0, 0));
    let slow = Domain::emulated(Emulation::new(1000, 1_000_000_000));
    let in_cache = Domain::persistent_cache();
    let ways = [
        ("straight", &memory, Combining::Never),
        ("combining", &memory, Combining::Always),
        ("when skewed", &memory, Combining::WhenSkewed),
        ("straight, 1 GB/s", &slow, Combining::Never),
        ("when skewed, 1 GB/s", &slow, Combining::WhenSkewed),
        ("persistent_cache", &in_cache, Combining::WhenSkewed),
    ];
    let runs = groups.iter().flat_map(|group| writes::Pieces::new(group));
    let words: usize = runs
        .map(|piece| match piece {
            writes::Piece::Run(_, words) => words.len(),
            writes::Piece::Mark(_) => 0,
        })
        .sum();
    let mut speeds = ways.map(|_| Vec::new());
    let mut lines = [0; 6];
    for _ in 0..ROUNDS {
        for (i, (_, domain, combining)) in ways.iter().enumerate() {
            let mut heap_image =
                MappedHeap::new(file.clone(), 0, HEAP_BYTES, domain)?.with_combining(*combining);
            touch(&mut heap_image)?;
            let before = heap_image.counts().device_writes;
            let start = Instant::now();
            for batch in groups.chunks(GROUPS_A_BATCH) {
                batch.iter().try_for_each(|group| heap_image.write_back(group))?;
                heap_image.barrier()?;
            }
            speeds[i].push(words as f64 / start.elapsed().as_secs_f64() / 1e6);
            lines[i] = heap_image.counts().device_writes - before;
        }
    }
    for ((name, ..), (speeds, lines)) in ways.iter().zip(speeds.iter_mut().zip(lines)) {
        speeds.sort_by(f64::total_cmp);
        let (low, median, high) = (speeds[0], speeds[ROUNDS / 2], speeds[ROUNDS - 1]);
        let lines = lines as f64 / words as f64;
        println!("  {name:20} {median:6.1} ({low:.1} to {high:.1}) {lines:8.3}");
    }
    Ok(())
}

/// Page faults are not the question.
fn touch(heap_image: &mut MappedHeap) -> Result<(), Error> {
    let pages = (0..HEAP_WORDS).step_by(512);
    let batch: Vec<u64> = pages.flat_map(|word| [writes::run(word, 1), 0]).collect();
    heap_image.write_back(&batch)?;
    heap_image.barrier()
}
