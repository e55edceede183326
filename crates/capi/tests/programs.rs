//! Programs in C, C++ and Python, built and run as users do.
//!
//! Tests that need a missing compiler or tool are skipped, with a line on the standard error.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lastword::{DesignInfo, Options, Pool};
use workloads::{TatpHash, Workload};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const C: [&str; 4] = ["bank", "hashmap", "durable", "sessions"];
const CPP: [&str; 3] = ["world", "orderbook", "sessions"];
const SANITIZED: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
/// The undefined-behavior sanitizer takes most of the time in which templates are compiled.
const TEMPLATES: [&str; 2] = ["-O0", "-fsanitize=address"];

/// Constants of the examples and their smaller values under valgrind, which is 50 times slower.
const SHORTER: [(&str, &str); 5] = [
    ("TRANSFERS = 20000", "TRANSFERS = 1000"),
    ("EACH = 1000", "EACH = 100"),
    ("KEYS = 10000", "KEYS = 1000"),
    ("actions = 20000", "actions = 1000"),
    ("actions = 10000", "actions = 500"),
];

/// A directory in which programs are built and run.
struct Workshop {
    dir: tempfile::TempDir,
}

/// Whether a tool is installed. Reports a skipped test if not.
fn has(tool: &str) -> bool {
    let mut version = Command::new(tool);
    let version = version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let is_installed = version.status().is_ok_and(|status| status.success());
    if !is_installed {
        // Not captured as the test's output, since `.ci/run` lists these lines.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: programs in C and C++: `{tool}` is not installed"
        );
    }
    is_installed
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Workshop {
    /// Links the library under its installed name.
    fn new() -> Workshop {
        let dir = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let library = own.parent().unwrap().join("liblastword_c.so");
        assert!(library.exists(), "{} was not built", library.display());
        symlink(library, dir.path().join("liblastword.so.0")).unwrap();
        Workshop { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Builds a program, with warnings as errors.
    fn build(&self, source: &str, more: &[&str]) -> PathBuf {
        let source = root().join(source);
        let program =
            self.path(&format!("{}-{}", source.file_stem().unwrap().to_str().unwrap(), more.len()));
        let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
        let mut compiler = Command::new(if is_cpp { "c++" } else { "cc" });
        compiler.arg(if is_cpp { "-std=c++17" } else { "-std=gnu11" });
        compiler.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
        compiler.arg(root().join("include")).args(more).arg(source).arg("-o").arg(&program);
        compiler.arg("-L").arg(self.dir.path()).arg("-llastword");
        compiler.arg(format!("-Wl,-rpath,{}", self.dir.path().display()));
        // The linker needs this name. Programs find the library by its SONAME.
        let link = self.path("liblastword.so");
        symlink("liblastword.so.0", &link).unwrap();
        let built = compiler.output().unwrap();
        std::fs::remove_file(link).unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    }

    /// Copies an example, with fewer steps.
    fn shortened(&self, source: &Path) -> PathBuf {
        let text = std::fs::read_to_string(source).unwrap();
        // The constants of a renamed example would keep it long, with no other sign.
        let is_known = SHORTER.iter().any(|(long, _)| text.contains(long));
        assert!(is_known || source.file_stem().unwrap() == "sessions", "{}", source.display());
        let shorter = SHORTER.iter().fold(text, |text, (long, short)| text.replace(long, short));
        let copy = self.path(source.file_name().unwrap().to_str().unwrap());
        std::fs::write(&copy, shorter).unwrap();
        copy
    }

    /// Builds and runs all examples in a language, each on a new pool. Under another program they
    /// do fewer steps.
    fn run_all(&self, language: &str, names: &[&str], more: &[&str], under: &[&str]) {
        for name in names {
            let mut source = root().join(format!("examples/{language}/{name}.{language}"));
            if !under.is_empty() {
                source = self.shortened(&source);
            }
            let program = self.build(source.to_str().unwrap(), more);
            let pool = self.path(&format!("{name}-{}.pool", under.len() + more.len()));
            let mut words = under.iter().map(|word| word.as_ref()).chain([program.as_os_str()]);
            let mut command = Command::new(words.next().unwrap());
            command.args(words).arg(&pool);
            let text = run(&mut command);
            println!("--- {name}\n{text}");
            assert!(!text.is_empty(), "{name} prints nothing");
        }
    }
}

/// Runs a program that must succeed, and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn examples_in_c_and_cpp_run() {
    if has("cc") {
        Workshop::new().run_all("c", &C, &[], &[]);
    }
    if has("c++") {
        Workshop::new().run_all("cpp", &CPP, &[], &[]);
    }
}

#[test]
fn static_library_links_into_program() {
    if has("cc") {
        let (workshop, own) = (Workshop::new(), std::env::current_exe().unwrap());
        let library = own.parent().unwrap().join("liblastword_c.a");
        let program = workshop.path("bank");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-pthread", "-I"]).arg(root().join("include"));
        compiler.arg(root().join("examples/c/bank.c")).arg(library).args(["-ldl", "-lm"]);
        run(compiler.arg("-o").arg(&program));
        println!("{}", run(Command::new(program).arg(workshop.path("bank.pool"))));
    }
}

/// The program is in docs/guide/c.md.
#[test]
fn guide_program_counts_its_runs() {
    if !has("cc") {
        return;
    }
    let workshop = Workshop::new();
    let page = std::fs::read_to_string(root().join("../../docs/guide/c.md")).unwrap();
    let (_, rest) = page.split_once("```c\n").expect("a program");
    let source = workshop.path("first.c");
    std::fs::write(&source, rest.split_once("```").unwrap().0).unwrap();
    let program = workshop.build(source.to_str().unwrap(), &[]);
    for expected in ["run 1\n", "run 2\n", "run 3\n"] {
        assert_eq!(run(Command::new(&program).current_dir(workshop.dir.path())), expected);
    }
}

#[test]
fn examples_run_under_sanitizers() {
    let flags = SANITIZED;
    if has("cc") {
        Workshop::new().run_all("c", &C, &flags, &[]);
    }
    if has("c++") {
        Workshop::new().run_all("cpp", &CPP, &flags, &[]);
    }
}

#[test]
fn examples_run_under_valgrind() {
    if has("cc") && has("c++") && has("valgrind") {
        let under = [
            "valgrind",
            "-q",
            "--error-exitcode=9",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ];
        Workshop::new().run_all("c", &C, &[], &under);
        let workshop = Workshop::new();
        workshop.run_all("cpp", &CPP, &[], &under);
        let (program, path) = (workshop.build("tests/maps.c", &[]), workshop.path("maps.pool"));
        run(Command::new(under[0]).args(&under[1..]).arg(program).arg(path).arg("0"));
    }
}

/// Exceptions, conflicts and moves behave as `lastword.hpp` documents.
#[test]
fn cpp_wrapper_handles_exceptions_and_moves() {
    if has("c++") {
        let workshop = Workshop::new();
        let program = workshop.build("tests/wrapper.cpp", &SANITIZED);
        println!("{}", run(Command::new(program).arg(workshop.path("wrapper.pool"))));
    }
}

/// Maps and cursors behave as `lastword_maps.h` documents, under every durable design.
#[test]
fn maps_in_c_work_in_every_design() {
    if !has("cc") {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.build("tests/maps.c", &SANITIZED);
    for design in designs() {
        let path = workshop.path(&format!("maps-{design}.pool"));
        run(Command::new(&program).arg(&path).arg(design));
        let found = lastword::check(&path).unwrap();
        assert!(found.is_sound(), "{found:?}");
    }
}

/// A value of a map in C++.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Account {
    cents: i64,
    owner: u64,
}

/// A map of C++ is the map of its name and types in Rust.
#[test]
fn maps_in_cpp_are_those_of_rust() {
    if !has("c++") {
        return;
    }
    let workshop = Workshop::new();
    let (program, path) = (workshop.build("tests/maps.cpp", &TEMPLATES), workshop.path("a.pool"));
    run(Command::new(&program).arg(&path));
    let pool = Pool::open(&path, Options::new()).unwrap();
    let ages = pool.btree_map::<str, u32>("ages").unwrap();
    let tags = pool.btree_map::<(String, u16), str>("tags").unwrap();
    let accounts = pool.hash_map::<i64, Account>("accounts").unwrap();
    let done = pool.run(|tx| {
        assert_eq!(ages.check(tx)?.damage, []);
        assert_eq!(tags.check(tx)?.damage, []);
        assert_eq!(accounts.check(tx)?.damage, []);
        assert_eq!(ages.get(tx, "ann")?, Some(40));
        let first = Some((("a\0b".to_owned(), 0), "0".to_owned()));
        assert_eq!(tags.first(tx)?, first);
        assert_eq!(tags.prefix(("a\u{1}b",)).count(tx)?, 100);
        for n in 0..300 {
            let account = Account { cents: -n, owner: n as u64 };
            assert_eq!(accounts.get(tx, 100 - n)?, Some(account));
        }
        ages.insert(tx, "bob", 50)?;
        tags.insert(tx, ("a\0b", 9999), "of Rust")?;
        accounts.insert(tx, i64::MIN, Account { cents: 7, owner: 8 })
    });
    assert_eq!(done.unwrap().value, None);
    pool.close().unwrap();
    run(Command::new(&program).arg(&path).arg("shared"));
}

/// Growth, scrubs, copies, exports and readers behave as `lastword_admin.h` documents.
#[test]
fn admin_functions_in_c_work() {
    if has("cc") {
        let workshop = Workshop::new();
        let program = workshop.build("tests/admin.c", &SANITIZED);
        run(Command::new(program).arg(workshop.path("admin.pool")));
    }
}

/// Returns the two numbers of a line such as `acknowledged 0 17`.
fn numbers(line: &str) -> Option<[u64; 2]> {
    let mut words = line.split_whitespace().skip(1);
    Some([words.next()?.parse().ok()?, words.next()?.parse().ok()?])
}

#[test]
fn acknowledged_commits_of_c_program_survive_kill() {
    if !has("cc") {
        return;
    }
    let workshop = Workshop::new();
    let (program, pool) = (workshop.build("tests/kill.c", &[]), workshop.path("kill.pool"));
    let mut acknowledged = [0_u64; 2];
    for round in 0..4 {
        let mut child = Command::new(&program).arg(&pool).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Kill it at an arbitrary moment after this number of lines.
        for line in lines.take(50 + 40 * round) {
            let [thread, count] = numbers(&line.unwrap()).expect("a thread and its count");
            acknowledged[thread as usize] = acknowledged[thread as usize].max(count);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let [first, second] = acknowledged.map(|count| count.to_string());
        let found = run(Command::new(&program).arg(&pool).args(["check", &first, &second]));
        println!("acknowledged {acknowledged:?}, {found}");
        acknowledged = numbers(&found).expect("both counts");
    }
    assert!(acknowledged.iter().all(|count| *count > 10), "{acknowledged:?}");
}

/// The numbers of the durable designs.
fn designs() -> impl Iterator<Item = String> {
    let durable = DesignInfo::ALL.iter().filter(|design| design.is_durable);
    durable.filter_map(|design| Some(design.number?.to_string()))
}

fn designs_on(media: [&'static str; 3]) -> impl Iterator<Item = (String, &'static str)> {
    designs().flat_map(move |design| media.map(|medium| (design.clone(), medium)))
}

/// Daemons and supervisors start programs like this. If a pool's file became descriptor 1, the
/// program's output would overwrite the superblocks, the log heads or the heap image.
#[test]
fn closed_standard_descriptors_stay_closed() {
    if !has("cc") {
        return;
    }
    const MEDIA: [&str; 3] = ["1", "3", "4"];
    let workshop = Workshop::new();
    let program = workshop.build("tests/closed.c", &[]);
    for (design, medium) in designs_on(MEDIA) {
        let path = workshop.path(&format!("{design}-{medium}.pool"));
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" <&- >&- 2>&-"]).arg(&program).arg(&path);
        run(command.args([&*design, medium]));
        let found = lastword::check(&path).unwrap();
        assert!(found.is_sound(), "{found:?}");
    }
}

#[test]
fn forked_child_cannot_touch_the_pool() {
    if !has("cc") {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.build("tests/forked.c", &[]);
    for (design, medium) in designs_on(["1", "3", "4"]) {
        let path = workshop.path(&format!("{design}-{medium}.pool"));
        run(Command::new(&program).arg(&path).args([&*design, medium]));
        let found = lastword::check(&path).unwrap();
        assert!(found.is_sound(), "{found:?}");
    }
}

#[test]
fn first_thread_that_ends_alone_closes_its_workers() {
    if !has("cc") {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.build("tests/first.c", &[]);
    for design in designs() {
        let path = workshop.path(&format!("{design}.pool"));
        run(Command::new(&program).arg(&path).arg(design));
        let found = lastword::check(&path).unwrap();
        assert!(found.is_sound(), "{found:?}");
    }
}

#[test]
fn python_program_needs_only_the_library() {
    if has("python3") {
        let workshop = Workshop::new();
        let mut command = Command::new("python3");
        command.arg(root().join("examples/python/ledger.py")).arg(workshop.path("ledger.pool"));
        command.env("LASTWORD_LIBRARY", workshop.path("liblastword.so.0"));
        println!("{}", run(&mut command));
    }
}

/// Rust and C take turns on one pool, and Rust checks it each time.
#[test]
fn rust_and_c_share_a_pool() {
    if !has("cc") {
        return;
    }
    let workshop = Workshop::new();
    let (program, path) = (workshop.build("bench/tatp.c", &[]), workshop.path("tatp.pool"));
    let small = workloads::Options { scale: 0.01, ..workloads::Options::default() };
    let options = Options::new().bytes(TatpHash::heap_bytes(&small)).log_bytes(1 << 20);
    let pool = Pool::create(&path, options).unwrap();
    TatpHash::load(&mut pool.worker().unwrap(), &small).unwrap();
    pool.close().unwrap();
    let mut before = 0;
    for seed in ["7", "8", "9"] {
        run(Command::new(&program).arg(&path).args(["run", "3000", seed]));
        run(Command::new(&program).arg(&path).args(["parts", "3000", seed]));
        let pool = Pool::open(&path, Options::new()).unwrap();
        assert!(pool.committed_id().0 >= before + 6000, "{before}: {}", pool.committed_id());
        let mut worker = pool.worker().unwrap();
        let tatp = TatpHash::open(&mut worker).unwrap().unwrap();
        assert_eq!(tatp.check(&mut worker).unwrap(), []);
        let mut client = tatp.client(0, 3);
        for _ in 0..1000 {
            tatp.next(&mut client);
            let _ = worker.run(|tx| tatp.run(&client, tx)).unwrap();
        }
        drop(worker);
        before = pool.committed_id().0;
        pool.close().unwrap();
    }
}

/// The C compiler lays out the structs like the library.
#[test]
fn structs_have_same_layout_in_c() {
    if !has("cc") {
        return;
    }
    let workshop = Workshop::new();
    let mut source = "#include <lastword_admin.h>\n#include <lastword_maps.h>\n".to_owned();
    let mut expect = |name: &str, fields: &[(&str, usize)], size: usize| {
        for (field, offset) in fields {
            source += &format!("_Static_assert(offsetof({name}, {field}) == {offset}, \"\");\n");
        }
        source += &format!("_Static_assert(sizeof({name}) == {size}, \"\");\n");
    };
    use lastword_c::{admin, cursor, maps, options, usage};
    expect("lw_options", &options::FIELDS, size_of::<options::lw_options>());
    expect("lw_heap_usage", &usage::FIELDS, size_of::<usage::lw_heap_usage>());
    expect("lw_copy_options", &admin::COPY_FIELDS, size_of::<admin::lw_copy_options>());
    expect("lw_scrub_result", &admin::SCRUB_FIELDS, size_of::<admin::lw_scrub_result>());
    expect("lw_transfer_result", &admin::TRANSFER_FIELDS, size_of::<admin::lw_transfer_result>());
    expect("lw_map", &[("words", 0)], size_of::<maps::lw_map>());
    expect("lw_type", &[("name", 0), ("bytes", 8)], size_of::<maps::lw_type>());
    let pair = [("key", 0), ("key_bytes", 8), ("value", 16), ("value_bytes", 24)];
    expect("lw_pair", &pair, size_of::<cursor::lw_pair>());
    source += "int main(void) {}\n";
    let path = workshop.path("layout.c");
    std::fs::write(&path, source).unwrap();
    workshop.build(path.to_str().unwrap(), &["-pedantic"]);
}
