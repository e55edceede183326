//! Programs in C, C++ and Python, built and run as their users do.
//!
//! A compiler or a tool that is not there is said in a line, and what needs it is not run.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lastword::{DesignInfo, Options, Pool};
use workloads::{TatpHash, Workload};

const C: [&str; 3] = ["bank", "hashmap", "durable"];
const CPP: [&str; 2] = ["world", "orderbook"];
const SANITIZED: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// Where programs are built and run.
struct Shop {
    dir: tempfile::TempDir,
}

/// Whether a tool is there; says so if not.
fn has(tool: &str) -> bool {
    let mut version = Command::new(tool);
    let version = version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let is_there = version.status().is_ok_and(|status| status.success());
    if !is_there {
        // Past the capture of the test's output: `.ci/run` lists these lines.
        let _ = writeln!(std::io::stderr(), "skipped: programs in C and C++: there is no `{tool}`");
    }
    is_there
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Shop {
    /// With the library as it is installed.
    fn new() -> Shop {
        let dir = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let library = own.parent().unwrap().join("liblastword_c.so");
        assert!(library.exists(), "{} was not built", library.display());
        symlink(library, dir.path().join("liblastword.so.0")).unwrap();
        Shop { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Builds a program; its warnings are errors.
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
        // Programs find the library by the name that it says of itself: this one is for linking.
        let link = self.path("liblastword.so");
        symlink("liblastword.so.0", &link).unwrap();
        let built = compiler.output().unwrap();
        std::fs::remove_file(link).unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    }

    /// Builds and runs all examples in a language, each on a new pool.
    fn run_all(&self, language: &str, names: &[&str], more: &[&str], under: &[&str]) {
        for name in names {
            let program = self.build(&format!("examples/{language}/{name}.{language}"), more);
            let pool = self.path(&format!("{name}-{}.pool", under.len() + more.len()));
            let mut words = under.iter().map(|word| word.as_ref()).chain([program.as_os_str()]);
            let mut command = Command::new(words.next().unwrap());
            command.args(words).arg(&pool);
            let text = run(&mut command);
            println!("--- {name}\n{text}");
            assert!(!text.is_empty(), "{name} says nothing");
        }
    }
}

/// What a program prints; it ends well.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn examples_in_c_and_cpp_run() {
    if has("cc") {
        Shop::new().run_all("c", &C, &[], &[]);
    }
    if has("c++") {
        Shop::new().run_all("cpp", &CPP, &[], &[]);
    }
}

#[test]
fn a_program_may_have_the_library_in_itself() {
    if has("cc") {
        let (shop, own) = (Shop::new(), std::env::current_exe().unwrap());
        let library = own.parent().unwrap().join("liblastword_c.a");
        let program = shop.path("bank");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-pthread", "-I"]).arg(root().join("include"));
        compiler.arg(root().join("examples/c/bank.c")).arg(library).args(["-ldl", "-lm"]);
        run(compiler.arg("-o").arg(&program));
        println!("{}", run(Command::new(program).arg(shop.path("bank.pool"))));
    }
}

/// The first program of docs/guide/c.md counts its runs.
#[test]
fn the_first_program_counts_its_runs() {
    if !has("cc") {
        return;
    }
    let shop = Shop::new();
    let page = std::fs::read_to_string(root().join("../../docs/guide/c.md")).unwrap();
    let (_, rest) = page.split_once("```c\n").expect("a program");
    let source = shop.path("first.c");
    std::fs::write(&source, rest.split_once("```").unwrap().0).unwrap();
    let program = shop.build(source.to_str().unwrap(), &[]);
    for expected in ["run 1\n", "run 2\n", "run 3\n"] {
        assert_eq!(run(Command::new(&program).current_dir(shop.dir.path())), expected);
    }
}

#[test]
fn examples_run_under_the_sanitizers() {
    let flags = SANITIZED;
    if has("cc") {
        Shop::new().run_all("c", &C, &flags, &[]);
    }
    if has("c++") {
        Shop::new().run_all("cpp", &CPP, &flags, &[]);
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
        Shop::new().run_all("c", &C, &[], &under);
        Shop::new().run_all("cpp", &CPP, &[], &under);
    }
}

/// What `lastword.hpp` promises of exceptions, conflicts and moves.
#[test]
fn the_wrapper_for_cpp_keeps_its_promises() {
    if has("c++") {
        let shop = Shop::new();
        let program = shop.build("tests/wrapper.cpp", &SANITIZED);
        println!("{}", run(Command::new(program).arg(shop.path("wrapper.pool"))));
    }
}

/// The two numbers of a line of words: those of `acknowledged 0 17`.
fn numbers(line: &str) -> Option<[u64; 2]> {
    let mut words = line.split_whitespace().skip(1);
    Some([words.next()?.parse().ok()?, words.next()?.parse().ok()?])
}

#[test]
fn what_a_program_in_c_was_told_to_be_durable_survives_its_kill() {
    if !has("cc") {
        return;
    }
    let shop = Shop::new();
    let (program, pool) = (shop.build("tests/kill.c", &[]), shop.path("kill.pool"));
    let mut told = [0_u64; 2];
    for round in 0..4 {
        let mut child = Command::new(&program).arg(&pool).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // It is killed in the middle of whatever comes behind so many lines.
        for line in lines.take(50 + 40 * round) {
            let [thread, count] = numbers(&line.unwrap()).expect("a thread and its count");
            told[thread as usize] = told[thread as usize].max(count);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let [first, second] = told.map(|count| count.to_string());
        let found = run(Command::new(&program).arg(&pool).args(["check", &first, &second]));
        println!("told {told:?}, {found}");
        told = numbers(&found).expect("both counts");
    }
    assert!(told.iter().all(|count| *count > 10), "{told:?}");
}

/// The numbers of the durable designs.
fn designs() -> impl Iterator<Item = String> {
    let durable = DesignInfo::ALL.iter().filter(|design| design.is_durable);
    durable.filter_map(|design| Some(design.number?.to_string()))
}

fn designs_on(media: [&'static str; 3]) -> impl Iterator<Item = (String, &'static str)> {
    designs().flat_map(move |design| media.map(|medium| (design.clone(), medium)))
}

/// Daemons and supervisors start programs so. A pool's file that became descriptor 1 would take
/// what the program prints: over the superblocks, the log heads or the heap image.
#[test]
fn closed_standard_descriptors_stay_closed() {
    if !has("cc") {
        return;
    }
    const MEDIA: [&str; 3] = ["1", "3", "4"];
    let shop = Shop::new();
    let program = shop.build("tests/closed.c", &[]);
    for (design, medium) in designs_on(MEDIA) {
        let path = shop.path(&format!("{design}-{medium}.pool"));
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
    let shop = Shop::new();
    let program = shop.build("tests/forked.c", &[]);
    for (design, medium) in designs_on(["1", "3", "4"]) {
        let path = shop.path(&format!("{design}-{medium}.pool"));
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
    let shop = Shop::new();
    let program = shop.build("tests/first.c", &[]);
    for design in designs() {
        let path = shop.path(&format!("{design}.pool"));
        run(Command::new(&program).arg(&path).arg(design));
        let found = lastword::check(&path).unwrap();
        assert!(found.is_sound(), "{found:?}");
    }
}

#[test]
fn a_program_in_python_needs_nothing_but_the_library() {
    if has("python3") {
        let shop = Shop::new();
        let mut command = Command::new("python3");
        command.arg(root().join("examples/python/ledger.py")).arg(shop.path("ledger.pool"));
        command.env("LASTWORD_LIBRARY", shop.path("liblastword.so.0"));
        println!("{}", run(&mut command));
    }
}

/// Rust makes a pool, C goes on with it, Rust checks it and goes on, and C again.
#[test]
fn rust_and_c_write_and_read_the_same_pool() {
    if !has("cc") {
        return;
    }
    let shop = Shop::new();
    let (program, path) = (shop.build("bench/tatp.c", &[]), shop.path("tatp.pool"));
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

/// The header's struct is the library's, as the compiler lays it out.
#[test]
fn the_struct_of_options_is_the_same_on_both_sides() {
    if !has("cc") {
        return;
    }
    let shop = Shop::new();
    let mut source = "#include <lastword.h>\n".to_owned();
    for (field, offset) in lastword_c::options::FIELDS {
        source += &format!("_Static_assert(offsetof(lw_options, {field}) == {offset}, \"\");\n");
    }
    let size = size_of::<lastword_c::options::lw_options>();
    source +=
        &format!("_Static_assert(sizeof(lw_options) == {size}, \"\");\nint main(void) {{}}\n");
    let path = shop.path("layout.c");
    std::fs::write(&path, source).unwrap();
    shop.build(path.to_str().unwrap(), &["-pedantic"]);
}
