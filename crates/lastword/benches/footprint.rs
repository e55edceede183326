//! The disk space and memory of a small program: a ledger of two numbers.
//!
//! Without arguments it prints a table, one row for each design on each medium. Each row comes from
//! a process of its own (`footprint DESIGN MEDIUM FOLDER`), because the kernel counts memory by
//! process. `footprint empty` shows the share of a process without a pool.

use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use lastword::{Addr, AnyDesign, AnyPool, Medium, Options};

/// Bytes of disk and memory, as the kernel reports them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Footprint {
    /// Blocks of the pool's files (`st_blocks`).
    pub(crate) disk: u64,
    /// `VmRSS` after creation.
    pub(crate) created: u64,
    /// `VmRSS` after commits that are durable.
    pub(crate) committed: u64,
    /// `VmRSS` after many commits, of which at most 100 at a time are not durable.
    pub(crate) busy: u64,
    /// `VmRSS` after the pool was opened again and committed once more.
    pub(crate) reopened: u64,
    /// `VmHWM` at the end: the most at any time.
    pub(crate) most: u64,
    /// `RssAnon` while the pool is open again: memory that is not pages of a file or a program.
    pub(crate) anonymous: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => table(),
        ["empty"] => {
            let [resident, anonymous] = ["VmRSS", "RssAnon"].map(status);
            println!("without a pool: {} resident, {} anonymous", mib(resident), mib(anonymous));
            Ok(())
        }
        [design, medium, folder] => {
            let design =
                AnyDesign::<lastword::ToAnyPool>::by_name(design).ok_or("no such design")?;
            let medium = MEDIA.iter().find(|one| one.name() == medium).ok_or("no such medium")?;
            // Under `decoupled` a commit only stores to a ring, and so many commits fill it once.
            let commits = if design.name == "decoupled" { 400_000 } else { 1_000 };
            let row = measure(design, *medium, commits, &Path::new(folder).join("ledger.pool"))?;
            let Footprint { disk, created, committed, busy, reopened, most, anonymous } = row;
            let values = [disk, created, committed, busy, reopened, most, anonymous];
            println!(
                "| {} | {} | {} |",
                design.type_name,
                medium.name(),
                values.map(mib).join(" | ")
            );
            Ok(())
        }
        _ => Err("usage: footprint [empty | DESIGN MEDIUM FOLDER]".into()),
    }
}

/// The media that run on any machine.
pub(crate) const MEDIA: [Medium; 3] = [
    Medium::File,
    Medium::PersistentCache,
    Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 },
];

fn table() -> Result<(), Box<dyn Error>> {
    let this = std::env::current_exe()?;
    println!(
        "| design | medium | disk | created | committed | busy | reopened | most | anonymous |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for design in AnyDesign::<lastword::ToAnyPool>::all() {
        for medium in MEDIA {
            let folder = std::env::temp_dir().join(format!("footprint.{}", std::process::id()));
            fs::create_dir(&folder)?;
            let arguments = [design.type_name, medium.name()];
            let row = Command::new(&this).args(arguments).arg(&folder).output();
            fs::remove_dir_all(&folder)?;
            print!("{}", String::from_utf8_lossy(&row?.stdout));
        }
    }
    Ok(())
}

/// Creates a ledger of two numbers, commits, and does so again in the reopened pool.
pub(crate) fn measure(
    design: &AnyDesign,
    medium: Medium,
    commits: u64,
    path: &Path,
) -> Result<Footprint, Box<dyn Error>> {
    let bounded = |options: Options| match design.bounded {
        Some(shadow) => options.shadow(shadow).shadow_bytes(1 << 20),
        None => options,
    };
    let options = || bounded(Options::new().medium(medium));
    let pool = design.create(path, options())?;
    let created = status("VmRSS");
    let committed = transfer(&*pool, 2)?;
    let busy = transfer(&*pool, commits)?;
    pool.close()?;
    let disk = disk_bytes(path)?;
    let [mut reopened, mut anonymous] = ["VmRSS", "RssAnon"].map(status);
    // Volatile designs have no file.
    if disk > 0 {
        let pool = design.open(path, options())?;
        reopened = transfer(&*pool, 2)?;
        anonymous = status("RssAnon");
        pool.close()?;
    }
    let most = status("VmHWM");
    Ok(Footprint { disk, created, committed, busy, reopened, most, anonymous })
}

/// Sets both numbers in `commits` transactions, all of them durable on return. Returns `VmRSS`
/// while the worker exists.
fn transfer(pool: &dyn AnyPool, commits: u64) -> Result<u64, lastword::Error> {
    let mut worker = pool.any_worker()?;
    for amount in 0..commits {
        if amount % 100 == 99 {
            flush(pool)?;
        }
        worker.run_any(false, &mut |tx| {
            let mut ledger = tx.root()?;
            if ledger == 0 {
                ledger = tx.allocate(16)?;
                tx.set_root(ledger)?;
            }
            tx.write(Addr::new(ledger, 0), amount)?;
            tx.write(Addr::new(ledger, 8), u64::MAX - amount)
        })?;
    }
    flush(pool)?;
    Ok(status("VmRSS"))
}

fn flush(pool: &dyn AnyPool) -> Result<(), lastword::Error> {
    match pool.flush() {
        Err(lastword::Error::NotDurable { .. }) => Ok(()),
        done => done,
    }
}

/// Returns the bytes of the blocks of a pool's files.
pub(crate) fn disk_bytes(path: &Path) -> Result<u64, std::io::Error> {
    let mut bytes = 0;
    for entry in fs::read_dir(path.parent().unwrap_or(Path::new(".")))? {
        bytes += 512 * entry?.metadata()?.blocks();
    }
    Ok(bytes)
}

/// Returns a line of `/proc/self/status`, in bytes.
pub(crate) fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    1024 * number.unwrap_or(0)
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / (1 << 20) as f64)
}
