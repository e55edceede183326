//! The cost of transactions to others that do not share their words.
//!
//! `cargo bench -p lastword --bench contention -- halves BYTES RECORDS`, or `-- slow`.
//!
//! `halves BYTES RECORDS`: two workers write 200 random words in each transaction, each in its own
//! half of a heap of BYTES bytes. Prints the share of lost attempts with RECORDS ownership records
//! (0: the default).
//!
//! `slow`: one worker runs bodies of 200 ms that write a word, another one reads that word, and a
//! third one writes a word of its own. Prints the third worker's transactions per second: alone,
//! with the slow bodies, and with the slow bodies and the reader.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lastword::{
    Array, Decoupled, Design, Medium, Objects, Options, Place, Pool, Ptr, Redo, Snapshot, Stop,
    Undo, Volatile, Words,
};

const SLOW: Duration = Duration::from_millis(200);
const WORDS: usize = 200;
const TIME: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.first().map(String::as_str) {
        Some("halves") => {
            let number = |at: usize| arguments.get(at).map_or(Ok(0), |text| text.parse());
            halves(number(1)?.max(64 << 20), number(2)?)
        }
        Some("slow") => {
            let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
            slow::<Volatile>(&dir.path().join("volatile"))?;
            slow::<Decoupled>(&dir.path().join("decoupled"))?;
            slow::<Undo>(&dir.path().join("undo"))?;
            slow::<Redo>(&dir.path().join("redo"))?;
            slow::<Snapshot>(&dir.path().join("snapshot"))
        }
        // Without arguments, as in tests: a short run of `halves`.
        _ => halves(64 << 20, 0),
    }
}

/// xorshift64.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn halves(bytes: u64, records: u64) -> Result<(), Box<dyn Error>> {
    let options = Options::new().bytes(bytes).ownership_records(records);
    let pool = Pool::<Volatile>::create_as("", options)?;
    let len = bytes / 8 / 5 * 4;
    let words: Array<u64> = pool.run(|tx| Array::reserve(tx, len))?.value;
    while !pool.run(|tx| words.prepare(tx, 1 << 12))?.value {}
    let began = Instant::now();
    let work = |half: u64| -> Result<(u64, u64), lastword::Error> {
        let mut worker = pool.worker()?;
        let (mut seed, mut transactions) = (half + 88_172_645_463_325_252, 0);
        while began.elapsed() < TIME {
            let places: [u64; WORDS] =
                std::array::from_fn(|_| half * (len / 2) + next(&mut seed) % (len / 2));
            let _ = worker.run(|tx| -> Result<(), Stop> {
                for place in places {
                    tx.will_write(words.at(place)?.addr(), 8);
                }
                places.iter().try_for_each(|place| tx.write(words.at(*place)?.addr(), 1))
            })?;
            transactions += 1;
        }
        Ok((transactions, worker.conflicts()))
    };
    let both = thread::scope(|scope| {
        let workers = [0, 1].map(|half| scope.spawn(move || work(half)));
        workers.map(|worker| worker.join().expect("a worker does not panic"))
    });
    let (mut transactions, mut conflicts) = (0, 0);
    for worker in both {
        let (done, lost) = worker?;
        (transactions, conflicts) = (transactions + done, conflicts + lost);
    }
    let lost = 100.0 * conflicts as f64 / (transactions + conflicts) as f64;
    println!(
        "{} MiB, {records} records: {:.1} us a transaction, {lost:.2} % of the attempts lost",
        bytes >> 20,
        2e6 * TIME.as_secs_f64() / transactions as f64
    );
    Ok(())
}

fn slow<D: Design>(path: &Path) -> Result<(), Box<dyn Error>> {
    let medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let options = Options::new().bytes(64 << 20).log_bytes(64 << 20).medium(medium);
    let pool = Pool::<D>::create_as(path, options)?;
    let mut made = Vec::new();
    for _ in 0..4 {
        // Each object is larger than a stripe.
        made.push(pool.run(|tx| tx.alloc([0_u64; 128]))?.value);
    }
    let (contended, own) = (made[0], made[2]);
    let mut rates = Vec::new();
    for (bodies, reader) in [(false, false), (true, false), (true, true)] {
        rates.push(rate(&pool, contended, own, bodies, reader)?);
    }
    println!(
        "{}: {:.0} transactions/s alone, {:.0} beside slow bodies, {:.0} beside a reader too",
        D::NAME,
        rates[0],
        rates[1],
        rates[2]
    );
    Ok(())
}

/// Returns the transactions per second of a worker that writes its own object.
fn rate<D: Design>(
    pool: &Pool<D>,
    contended: Ptr<[u64; 128]>,
    own: Ptr<[u64; 128]>,
    bodies: bool,
    reader: bool,
) -> Result<f64, lastword::Error> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        if bodies {
            scope.spawn(|| {
                let mut worker = pool.worker()?;
                while !over.load(Ordering::Relaxed) {
                    let _ = worker.run(|tx| {
                        tx.set(contended, [1; 128])?;
                        thread::sleep(SLOW);
                        Ok(())
                    })?;
                }
                Ok::<(), lastword::Error>(())
            });
        }
        if reader {
            scope.spawn(|| {
                let mut worker = pool.worker()?;
                while !over.load(Ordering::Relaxed) {
                    let _ = worker.read(|tx| tx.get(contended))?;
                }
                Ok::<(), lastword::Error>(())
            });
        }
        let mut worker = pool.worker()?;
        let (began, mut transactions) = (Instant::now(), 0);
        while began.elapsed() < TIME {
            let _ = worker.run(|tx| tx.set(own, [2; 128]))?;
            transactions += 1;
        }
        over.store(true, Ordering::Relaxed);
        Ok(f64::from(transactions) / began.elapsed().as_secs_f64())
    })
}
