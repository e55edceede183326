//! The compiler's errors for types that the macros refuse: each is at the user's own line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Returns the library that the test was built with.
///
/// No other variant of it that is newer was built from older sources, so the newest is taken.
fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        let hash = name.strip_prefix("liblastword-").and_then(|name| name.strip_suffix(".rlib"));
        hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let written = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    files.filter(is_library).max_by_key(written).expect("the library is beside its test")
}

/// Compiles a program, and returns its errors as `line[code]: message`, in order of the lines.
/// Equal ones count once, as Cargo shows them.
fn errors(program: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("program.rs");
    fs::write(&source, program).unwrap();
    let library = library();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--error-format=short"]);
    rustc.arg("--extern").arg(format!("lastword={}", library.display()));
    rustc.arg("-L").arg(format!("dependency={}", library.parent().unwrap().display()));
    let output = rustc.arg("--out-dir").arg(dir.path()).arg(&source).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let begin = format!("{}:", source.display());
    let error = |line: &str| {
        let (at, message) = line.strip_prefix(&begin)?.split_once(": error")?;
        Some((at.split(':').next()?.parse::<usize>().ok()?, message.to_owned()))
    };
    let mut found: Vec<_> = text.lines().filter_map(error).collect();
    found.sort();
    found.dedup();
    assert!(!found.is_empty() || output.status.success(), "{text}");
    found.into_iter().map(|(line, message)| format!("{line}{message}")).collect()
}

/// Compares all errors with the begins of the expected ones.
fn expect(program: &str, expected: &[&str]) {
    let found = errors(program);
    let same = found.len() == expected.len()
        && found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected));
    assert!(same, "found:\n{}\nexpected:\n{}", found.join("\n"), expected.join("\n"));
}

#[test]
fn padding_is_an_error_at_its_field() {
    expect(
        "#[lastword::persist]
         pub struct Tail {
             pub large: u64,
             pub small: u8,
         }
         #[lastword::persist]
         pub struct Between {
             pub half: u32,
             pub large: u64,
             pub other: u32,
         }
         #[lastword::persist]
         pub struct Tuple(
             u8,
             u16,
         );",
        &[
            "2[E0277]: `Tail` has 7",
            "4[E0080]: evaluation panicked: 7 bytes of padding after field `small`: end with a \
             field of type `[u8; 7]`",
            "7[E0277]: `Between` has 8",
            "8[E0080]: evaluation panicked: 4 bytes of padding after field `half`: order the \
             fields `large`, `half`, `other`:",
            "13[E0277]: `Tuple` has 1",
            "14[E0080]: evaluation panicked: 1 byte of padding after field `0`: order the fields \
             `1`, `0`, and end with a field of type `[u8; 1]`",
        ],
    );
}

/// The macro refuses these by their names, and the compiler adds nothing.
#[test]
fn known_type_is_one_error_at_its_field() {
    expect(
        "#[lastword::persist]
         pub struct User {
             pub name: String,
             pub id: u64,
             pub count: usize,
             pub next: Box<u64>,
             pub tags: Vec<u8>,
             pub text: &'static str,
             pub pair: (u64, u64),
             pub many: [isize; 4],
             pub call: fn(),
         }",
        &[
            "3: this type cannot be stored in a pool: it owns memory outside of the pool; use \
             `Text`",
            "5: this type cannot be stored in a pool: its size differs between machines; use `u64` \
             or `i64`",
            "6: this type cannot be stored in a pool: it owns memory outside of the pool; use \
             `Ptr`",
            "7: this type cannot be stored in a pool: it owns memory outside of the pool; use \
             `Array` or `Bytes`",
            "8: this type cannot be stored in a pool: a reference is valid in one process only",
            "9: this type cannot be stored in a pool: a tuple has no defined layout",
            "10: this type cannot be stored in a pool: its size differs",
            "11: this type cannot be stored in a pool: a function has another address",
        ],
    );
}

#[test]
fn type_without_the_macro_is_an_error_at_its_field() {
    let found = errors(
        "#[derive(Clone, Copy)]
         pub struct Plain(pub u64);
         #[lastword::persist]
         pub struct Holder {
             pub first: u64,
             pub plain: Plain,
         }",
    );
    let own = "6[E0277]: `Plain` cannot live in a pool";
    assert_eq!(found.iter().filter(|error| error.starts_with(own)).count(), 1, "{found:?}");
    // One for each trait of zerocopy's derives.
    let derives = |error: &&String| error.starts_with("4[E0277]: the trait bound `Plain: ");
    assert_eq!(found.iter().filter(derives).count(), 3, "{found:?}");
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn wrong_shape_is_an_error_at_its_tokens() {
    expect(
        "#[lastword::persist]
         pub struct Generic<T>(T);
         #[lastword::persist]
         pub struct Empty;
         #[lastword::persist]
         pub struct Large([u64; 129]);
         #[lastword::persist]
         pub enum Untagged { A }
         #[lastword::persist]
         #[repr(usize)]
         pub enum Machine { A }
         #[lastword::persist]
         #[repr(u8)]
         pub enum Filled {
             A(u64),
         }
         #[lastword::persist]
         pub struct Configured {
             #[cfg(unix)]
             pub a: u64,
         }
         #[lastword::persist(version = 2)]
         pub struct Arguments(u64);
         #[lastword::persist]
         pub fn function() {}",
        &[
            "2: a type in a pool has no parameters",
            "4: a stored value has at least one byte",
            "6[E0080]: evaluation panicked: an object has at most 1 KiB: use an Array",
            "8: a stored enum has an integer of a fixed size: add `#[repr(u8)]`",
            "11: a stored enum has an integer of a fixed size: add `#[repr(u8)]`",
            "15: a stored enum has no fields",
            "19: a type in a pool is the same in every build: remove this `cfg`",
            "22: the only argument is `name = \"Name\"`",
            "25: `#[lastword::persist]` is for structs, and for enums without fields",
        ],
    );
}

#[test]
fn wrong_key_is_an_error_at_its_tokens() {
    expect(
        "#[derive(lastword::Key)]
         pub struct Generic<T>(T);
         #[derive(lastword::Key)]
         pub enum Empty {}
         #[derive(lastword::Key)]
         pub enum Computed {
             A = 1 + 1,
         }
         #[derive(lastword::Key)]
         pub enum Wide {
             A = 300,
         }
         #[derive(lastword::Key)]
         pub enum Configured {
             #[cfg(unix)]
             A,
         }",
        &[
            "2: a type in a pool has no parameters",
            "4: a key has at least one value: add a variant",
            "7: the variants of a key are compared by their discriminants: write a literal",
            "10: a discriminant is not within 0 to 255: add a `repr`, such as `#[repr(u16)]`",
            "15: a type in a pool is the same in every build: remove this `cfg`",
        ],
    );
    let found = errors(
        "#[derive(lastword::Key)]
         pub struct Measured {
             pub name: String,
             pub value: f64,
         }",
    );
    assert!(found.iter().any(|error| error.starts_with("4[E0277]: `f64` is not a key")));
    assert!(!found.iter().any(|error| error.starts_with("3")), "{found:?}");
}

#[test]
fn private_field_has_no_method_outside_of_its_module() {
    expect(
        "pub mod bank {
             #[lastword::persist]
             pub struct Account { pub id: u64, cents: u64 }
         }
         use bank::AccountFields;
         pub fn id(at: lastword::Ptr<bank::Account>) -> lastword::Field<u64> { at.id() }
         use bank::AccountPrivateFields;",
        &["7[E0603]: trait `AccountPrivateFields` is private"],
    );
}

#[test]
fn program_that_denies_lints_compiles() {
    let found = errors(
        "//! A program.
         #![forbid(unsafe_code)]
         #![deny(warnings, missing_docs, unreachable_pub)]
         /// A record.
         #[lastword::persist]
         pub struct Record { is_open: bool, to_do: bool }
         /// A key.
         #[derive(lastword::Key)]
         pub enum Kind {
             /// The first.
             A,
         }",
    );
    assert!(found.is_empty(), "{found:?}");
}
