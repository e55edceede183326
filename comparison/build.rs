//! Compiles the C side, once as transactions for libitm and once as plain code, and passes its
//! commit and compiler flags to the program.

use std::process::Command;

/// Optimisation level of both sides; the crate's release profile sets the same for rustc.
const LEVEL: u32 = 2;

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

fn compile(file: &str, library: &str, flags: &[&str]) {
    let mut build = cc::Build::new();
    build.file(file).opt_level(LEVEL).warnings(true).extra_warnings(true);
    // The transaction's beginning returns twice, like `setjmp`; libitm restores the registers.
    build.flag("-Wno-clobbered");
    build.flags(flags);
    build.compile(library);
}

/// Whether the compiler finds a header.
fn has_header(name: &str) -> bool {
    let compiler = cc::Build::new().get_compiler();
    let mut command = compiler.to_command();
    command.args(["-E", "-include", name, "-x", "c", "/dev/null"]);
    command.output().is_ok_and(|output| output.status.success())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=c");
    compile("c/structures.c", "comparison_structures", &[]);
    compile("c/work.c", "comparison_plain", &[]);
    compile("c/work.c", "comparison_itm", &["-fgnu-tm", "-DTRANSACTIONAL"]);
    println!("cargo::rustc-link-lib=itm");
    println!("cargo::rustc-check-cfg=cfg(pmemobj)");
    if has_header("libpmemobj.h") {
        compile("c/pmem.c", "comparison_pmem", &[]);
        println!("cargo::rustc-link-lib=pmemobj");
        println!("cargo::rustc-cfg=pmemobj");
    } else {
        println!("cargo::warning=no libpmemobj.h: `comparison durable` is left out");
    }
    println!("cargo::rustc-check-cfg=cfg(rocksdb)");
    if has_header("rocksdb/c.h") {
        compile("c/rocksdb.c", "comparison_rocksdb", &[]);
        println!("cargo::rustc-link-lib=rocksdb");
        println!("cargo::rustc-cfg=rocksdb");
    } else {
        println!("cargo::warning=no rocksdb/c.h: RocksDB is left out of `comparison heap`");
    }
    let compiler = cc::Build::new().get_compiler();
    let cc = output(&compiler.path().to_string_lossy(), &["--version"]).unwrap_or_default();
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let rustc = output(&rustc, &["--version"]).unwrap_or_default();
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!(
        "cargo::rustc-env=COMPARISON_COMPILERS={rustc}, opt-level={level}; {cc}, -O{LEVEL}, \
         libitm's side -fgnu-tm"
    );
    if let Some(log) = output("git", &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = output("git", &["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=LASTWORD_COMMIT={commit}");
    }
}
