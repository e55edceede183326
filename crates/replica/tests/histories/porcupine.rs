//! The checker and porcupine agree on random histories.
//!
//! Porcupine is a checker in Go. `porcupine/main.go` runs it, and needs Go and the module proxy.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::checker::check;
use crate::history::{Call, Operation, Value, to_json};

const HISTORIES: u64 = 6000;

/// A sequence of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }

    fn is_in(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn call(&mut self) -> Call {
        match self.below(6) {
            0 | 1 => Call::Get,
            2 | 3 => Call::Set(self.below(4) as i64),
            4 => Call::Del,
            _ => Call::Incr,
        }
    }

    /// Returns a linearizable history: each operation takes effect at an instant between its call
    /// and its return.
    fn linearizable(&mut self) -> Vec<Operation> {
        let (keys, clients) = (1 + self.below(2), 1 + self.below(6));
        let mut values = vec![None; keys as usize];
        let mut history = Vec::new();
        let mut instants: Vec<u64> = (0..1 + self.below(24)).map(|_| self.below(400)).collect();
        instants.sort_unstable();
        for instant in instants {
            let key = self.below(keys);
            let call = self.call();
            let (early, late) = (self.below(30 * clients), self.below(30 * clients));
            let is_known = !self.is_in(15);
            let mut reply = None;
            if is_known || self.is_in(50) {
                let value: &mut Value = &mut values[key as usize];
                (*value, reply) = call.apply(*value);
            }
            history.push(Operation {
                client: self.below(clients) as u32,
                key: key as u32,
                call,
                invoked: instant.saturating_sub(early),
                returned: is_known.then_some((instant + late, reply)),
            });
        }
        history
    }

    /// Changes some replies or times.
    fn break_some(&mut self, history: &mut [Operation]) {
        for _ in 0..1 + self.below(2) {
            let at = self.below(history.len() as u64);
            let operation = &mut history[at as usize];
            match &mut operation.returned {
                Some((_, Some(reply))) if self.is_in(50) => *reply = self.below(4) as i64,
                Some((_, reply)) if operation.call == Call::Get => {
                    *reply = Some(self.below(4) as i64);
                }
                Some((time, _)) => *time = operation.invoked.max(time.saturating_sub(40)),
                None => operation.invoked += self.below(40),
            }
        }
    }

    /// Returns a history with random replies: few of these are linearizable.
    fn any(&mut self) -> Vec<Operation> {
        let mut history = self.linearizable();
        history.truncate(1 + self.below(6) as usize);
        for operation in &mut history {
            if let Some((_, reply)) = &mut operation.returned {
                *reply = match operation.call {
                    Call::Get => Some(self.below(4) as i64).filter(|&value| value < 3),
                    Call::Set(_) => None,
                    Call::Del => Some(self.below(2) as i64),
                    Call::Incr => Some(1 + self.below(3) as i64),
                };
            }
        }
        history
    }
}

/// Builds the program in a directory. Returns `None` if it cannot be had here.
fn build(test: &str, dir: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories/porcupine");
    let skipped = |reason: String| {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
    };
    let paths = std::env::var_os("PATH").unwrap_or_default();
    // Where the archive of go.dev is unpacked.
    let folders = std::env::split_paths(&paths).chain([PathBuf::from("/usr/local/go/bin")]);
    let go = folders.map(|folder| folder.join("go")).find(|path| path.exists());
    let Some(go) = go else {
        skipped("Go is not installed".into());
        return None;
    };
    let fetched = Command::new(&go).args(["mod", "download"]).current_dir(&source).output();
    let fetched = fetched.unwrap();
    if !fetched.status.success() {
        let reason = String::from_utf8_lossy(&fetched.stderr);
        let line = reason.lines().next_back().unwrap_or_default();
        skipped(format!("the module of porcupine cannot be downloaded: {line}"));
        return None;
    }
    let program = dir.join("porcupine");
    let mut build = Command::new(&go);
    let built = build.arg("build").arg("-o").arg(&program).current_dir(&source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

#[test]
fn checker_agrees_with_porcupine() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = build("checker_agrees_with_porcupine", dir.path()) else { return };
    let histories: Vec<_> = (0..HISTORIES)
        .map(|seed| {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            if seed % 3 == 2 {
                return random.any();
            }
            let mut history = random.linearizable();
            if seed % 3 == 1 {
                random.break_some(&mut history);
            } else {
                assert_eq!(check(&history), Ok(()), "seed {seed}: {}", to_json(&history, '\n'));
            }
            history
        })
        .collect();
    let path = dir.path().join("histories");
    let lines: String = histories.iter().map(|history| to_json(history, ' ') + "\n").collect();
    std::fs::write(&path, lines).unwrap();
    let mut run = Command::new(program);
    run.stdin(std::fs::File::open(path).unwrap()).stderr(Stdio::inherit());
    let output = String::from_utf8(run.output().unwrap().stdout).unwrap();
    let verdicts: Vec<bool> = output.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(verdicts.len(), histories.len());
    let mut counts = [0; 2];
    for (seed, (history, &verdict)) in histories.iter().zip(&verdicts).enumerate() {
        let found = check(history);
        assert_eq!(found.is_ok(), verdict, "seed {seed}, {found:?}: {}", to_json(history, '\n'));
        counts[usize::from(verdict)] += 1;
    }
    let [refused, accepted] = counts;
    assert!(refused > 1000 && accepted > 1000, "{refused} refused, {accepted} accepted");
}
