//! A limit of the process makes writes fail that no call of ours carries out: those of io_uring.
//!
//! The limit goes through the pool's files block by block. What lies behind it cannot be written:
//! both superblocks, the second one, the log from some block on, home.

use std::path::Path;

use lastword::{Medium, MediumError, Pool};
use medium::{Faults, System};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::story::{Story, assert_poisoned, found};

/// Set in the child, whose limits they are.
const CHILD: &str = "LASTWORD_TEST_LIMITED";

fn limit(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

/// What became of a pool under a limit.
#[derive(Default)]
struct Seen {
    unopened: u32,
    poisoned: u32,
    unharmed: u32,
}

/// Uses a pool while no file can be written from this byte on.
fn live_under(bytes: u64, story: &mut Story, seen: &mut Seen) {
    limit(Some(bytes));
    let opened = Pool::open(&story.path, story.options.clone());
    let told = match opened {
        Err(error) => {
            seen.unopened += 1;
            assert!(too_large(&error), "{error}");
            Some(error)
        }
        Ok(pool) => {
            let mut told = None;
            for step in 0..40 {
                let put = story.put(&pool);
                let done = put.and_then(|id| {
                    pool.wait_for(id)?;
                    story.acknowledged = story.begun;
                    if step % 16 == 7 { pool.bring_home() } else { Ok(()) }
                });
                if let Err(error) = done {
                    assert_poisoned(&error);
                    assert_poisoned(&story.put(&pool).unwrap_err());
                    assert!(pool.durable_id() <= pool.committed_id());
                    told = Some(error);
                    break;
                }
            }
            match (&told, pool.close()) {
                (None, closed) => closed.unwrap(),
                (Some(_), closed) => assert_poisoned(&closed.unwrap_err()),
            }
            match told {
                None => seen.unharmed += 1,
                Some(_) => seen.poisoned += 1,
            }
            told
        }
    };
    limit(None);
    if let Some(error) = &told {
        let text = error.to_string();
        assert!(text.contains("test.pool") && text.contains("raise the limit"), "{text}");
    }
    story.assert_truth();
}

fn too_large(error: &lastword::Error) -> bool {
    let lastword::Error::Medium(MediumError::Transfer { source, .. }) = error else { return false };
    source.kind() == std::io::ErrorKind::FileTooLarge
}

#[test]
fn a_pool_that_meets_the_limit_on_files_keeps_what_was_acknowledged_by_every_path() {
    const NAME: &str =
        "limits::a_pool_that_meets_the_limit_on_files_keeps_what_was_acknowledged_by_every_path";
    if std::env::var_os(CHILD).is_none() {
        // The signal that goes with the limit would end the process.
        return in_child("trap '' XFSZ", NAME);
    }
    let kernel = System::kernel();
    for (system, background) in
        [(kernel.clone(), false), (kernel.clone(), true), (kernel.failing(Faults::none()), false)]
    {
        let dir = tempfile::tempdir().unwrap();
        let options = Story::options().medium(Medium::File).background(background);
        let mut story = Story::new(dir.path(), options.clone(), background, Faults::none());
        story.run();
        let mut seen = Seen::default();
        let log_end = 8192 + (128 << 10);
        let home = [2 << 20, (2 << 20) + (128 << 10), 4 << 20];
        for bytes in (0..=log_end).step_by(8192).chain([4096]).chain(home) {
            story.options = options.clone().system(system.clone());
            live_under(bytes, &mut story, &mut seen);
        }
        let Seen { unopened, poisoned, unharmed } = seen;
        let all = unopened > 0 && poisoned > 5 && unharmed > 0;
        assert!(all, "unopened {unopened}, poisoned {poisoned}, unharmed {unharmed}");
        let pool = Pool::open(&story.path, options).unwrap();
        assert!(found(&pool) > 100);
    }
}

/// Runs a test in a child, behind a line of shell.
fn in_child(line: &str, test: &str) {
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("{line}; exec \"$0\" --exact \"$1\"")])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(CHILD, Path::new("yes"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}
