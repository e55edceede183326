//! Benchmark of the C ABI against Rust, with TATP's Update Location and with single accesses.
//!
//! Both languages run on one pool, in interleaved rounds, each in a process of its own.
//!
//!     cargo bench -p lastword-capi --bench cost

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use lastword::{Medium, Options, Pool};
use workloads::{TatpHash, Workload};

const TRANSACTIONS: u64 = 1_000_000;
const ACCESSES: u64 = 4_000_000;
const ROUNDS: u64 = 9;

/// Emulated memory, with the defaults of `lastword run`.
const MEDIUM: Medium =
    Medium::Emulated { latency_cycles: 1000, bandwidth_bytes_per_second: 16_000_000_000 };

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "rust", pool, count, seed] => rust(Path::new(pool), count.parse()?, seed.parse()?),
        _ => compare(),
    }
}

/// Runs a round of the Rust side.
fn rust(path: &Path, transactions: u64, seed: u64) -> Result<(), Box<dyn Error>> {
    let pool = Pool::open(path, Options::new())?;
    let mut worker = pool.worker()?;
    let tatp = TatpHash::open(&mut worker)?.ok_or("no tatp-hash in the pool")?;
    let mut client = tatp.client(0, seed);
    let began = Instant::now();
    for _ in 0..transactions {
        tatp.next(&mut client);
        let _ = worker.run(|tx| tatp.run(&client, tx))?;
    }
    println!("{:.2}", began.elapsed().as_nanos() as f64 / transactions as f64);
    drop(worker);
    Ok(pool.close()?)
}

fn compare() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let pool = dir.path().join("tatp.pool");
    let options = workloads::Options::default();
    {
        let sizes =
            Options::new().bytes(TatpHash::heap_bytes(&options)).log_bytes(64 << 20).medium(MEDIUM);
        let pool = Pool::create(&pool, sizes)?;
        TatpHash::load(&mut pool.worker()?, &options)?;
        pool.close()?;
    }
    let shared = build(dir.path(), "shared")?;
    let linked = build(dir.path(), "static")?;
    let (mut rust, mut ways) = (Vec::new(), vec![Vec::new(); 3]);
    for round in 1..=ROUNDS {
        let (seed, count) = (round.to_string(), TRANSACTIONS.to_string());
        let mut own = Command::new(std::env::current_exe()?);
        rust.push(one(own.arg("rust").arg(&pool).args([&count, &seed]))?);
        for (way, (program, how)) in
            ways.iter_mut().zip([(&linked, "run"), (&shared, "run"), (&shared, "parts")])
        {
            way.push(one(Command::new(program).arg(&pool).args([how, &count, &seed]))?);
        }
    }
    println!("Update Location, {TRANSACTIONS} transactions a round, {ROUNDS} rounds");
    println!("{:<42} {:>7} {:>7}", "", "ns/tx", "ratio");
    println!("{:<42} {:>7.0} {:>7.2}", "Rust", median(rust.clone()), 1.0);
    let names =
        ["C, lw_run, static library", "C, lw_run, shared library", "C, in parts, shared library"];
    for (name, way) in names.iter().zip(&ways) {
        let ratios = way.iter().zip(&rust).map(|(c, rust)| c / rust).collect();
        println!("{name:<42} {:>7.0} {:>7.2}", median(way.clone()), median(ratios));
    }
    for (name, program) in [("static", &linked), ("shared", &shared)] {
        let count = ACCESSES.to_string();
        let rounds: Result<Vec<_>, _> = (0..ROUNDS)
            .map(|_| all(Command::new(program).arg(&pool).args(["access", &count])))
            .collect();
        let rounds = rounds?;
        let part = |at: usize| median(rounds.iter().map(|round| round[at]).collect());
        println!("{name}: lw_read {:.1} ns, lw_write {:.1} ns", part(0), part(1));
    }
    let pool = Pool::open(&pool, Options::new())?;
    let mut worker = pool.worker()?;
    let tatp = TatpHash::open(&mut worker)?.ok_or("no tatp-hash in the pool")?;
    match tatp.check(&mut worker)?.first() {
        None => println!("the workload's check found no problem"),
        Some(wrong) => return Err(wrong.to_string().into()),
    }
    Ok(())
}

/// Builds the C side with one of the libraries.
fn build(dir: &Path, kind: &str) -> Result<PathBuf, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = std::env::current_exe()?;
    let libraries = own.parent().ok_or("no directory")?;
    let program = dir.join(kind);
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O2", "-I"]).arg(root.join("include"));
    compiler.arg(root.join("bench/tatp.c")).arg("-o").arg(&program);
    match kind {
        "static" => {
            compiler.arg(libraries.join("liblastword_c.a")).args(["-lpthread", "-ldl", "-lm"]);
        }
        _ => {
            let so = dir.join("liblastword.so.0");
            std::os::unix::fs::symlink(libraries.join("liblastword_c.so"), &so)?;
            compiler.arg(&so).arg(format!("-Wl,-rpath,{}", dir.display()));
        }
    }
    if compiler.status()?.success() { Ok(program) } else { Err("cc failed".into()) }
}

/// Runs a program and returns the numbers that it prints.
fn all(command: &mut Command) -> Result<Vec<f64>, Box<dyn Error>> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}

fn one(command: &mut Command) -> Result<f64, Box<dyn Error>> {
    Ok(*all(command)?.first().ok_or("the program printed nothing")?)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
