//! Comparison of the handwritten headers with the library.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use lastword::DesignInfo;
use lastword_c::{admin, design, maps, options, status, worker};

/// Most lines of a header.
const LINES_MAX: usize = 250;

const HEADERS: [&str; 3] = ["lastword.h", "lastword_maps.h", "lastword_admin.h"];

fn read(header: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(root.join("include").join(header)).unwrap()
}

fn header() -> String {
    read("lastword.h")
}

/// Returns a header without its comments.
fn code(header: &str) -> String {
    let mut code = String::new();
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").unwrap().1;
    }
    code + rest
}

/// Returns the functions of a header by name, with their types.
fn functions(header: &str) -> BTreeMap<String, String> {
    let code = code(header);
    let lines = code.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join(" ");
    let mut functions = BTreeMap::new();
    for statement in lines.split(';') {
        let statement = statement.rsplit(['{', '}']).next().unwrap();
        let is_inline = statement.contains("static inline");
        let is_function = statement.contains('(') && !is_inline;
        let Some(at) = statement.find("lw_").filter(|_| is_function) else { continue };
        // The name precedes the first parenthesis.
        let open = statement.find('(').unwrap();
        let name = statement[..open].rsplit([' ', '*']).next().unwrap();
        // A call in the body of an inline function has no type before it.
        if at > open || name.is_empty() || statement[..at].trim().is_empty() {
            continue;
        }
        functions.insert(name.to_owned(), types(&statement[..open], &statement[open..], name));
    }
    functions
}

/// Returns the types of a function's result and parameters, without parameter names.
fn types(before: &str, after: &str, name: &str) -> String {
    let before = before.replace(name, "").replace("extern", "");
    let mut types = before + " ";
    for token in after.split_inclusive(['(', ')', ',', '*']) {
        let (words, end) =
            token.split_at(token.len() - token.ends_with(['(', ')', ',', '*']) as usize);
        let words: Vec<&str> = words.split_whitespace().filter(|word| *word != "struct").collect();
        // All other words are names of parameters.
        let is_type = |word: &&str| {
            ["const", "void", "char", "int", "uint64_t", "uint32_t"].contains(word)
                || word.starts_with("lw_")
        };
        for word in words.into_iter().filter(is_type) {
            types.push_str(word);
            types.push(' ');
        }
        types.push_str(end);
    }
    types.split_whitespace().collect::<Vec<_>>().concat()
}

#[test]
fn header_declares_all_functions() {
    let root = env!("CARGO_MANIFEST_DIR");
    let config = cbindgen::Config { language: cbindgen::Language::C, ..Default::default() };
    let mut generated = Vec::new();
    cbindgen::Builder::new()
        .with_crate(root)
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut generated);
    let theirs = functions(&String::from_utf8(generated).unwrap());
    let ours: BTreeMap<_, _> = HEADERS.iter().flat_map(|name| functions(&read(name))).collect();
    assert!(ours.len() > 50, "{ours:?}");
    assert_eq!(ours, theirs);
}

#[test]
fn header_numbers_match_library() {
    let header = HEADERS.map(read).concat();
    let defined: BTreeMap<&str, i64> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define ")?.split_once(' '))
        .filter_map(|(name, rest)| {
            let number = rest.split_whitespace().next()?.trim_end_matches('u');
            Some((name, number.parse().ok()?))
        })
        .collect();
    let statuses = status::ALL.iter().map(|(name, number)| (*name, i64::from(*number)));
    let designs = design::constants();
    let designs = designs.iter().map(|(name, number)| (&**name, i64::from(*number)));
    let tables = [&options::MEDIA[..], &options::DURABILITIES, &maps::KINDS].concat();
    let tables = tables.iter().map(|(name, number)| (*name, i64::from(*number)));
    let part = |text: &str| text.parse().unwrap();
    let others = [
        ("LW_READ_ONLY", i64::from(worker::READ_ONLY)),
        ("LW_SALVAGE", i64::from(admin::SALVAGE)),
        ("LW_OBJECT_BYTES_MAX", lastword::OBJECT_BYTES_MAX as i64),
        ("LW_BLOCK_BYTES", lastword::BLOCK_BYTES as i64),
        ("LW_BLOCK_STRIDE", lastword::BLOCK_STRIDE as i64),
        ("LW_VERSION_MAJOR", part(env!("CARGO_PKG_VERSION_MAJOR"))),
        ("LW_VERSION_MINOR", part(env!("CARGO_PKG_VERSION_MINOR"))),
        ("LW_VERSION_PATCH", part(env!("CARGO_PKG_VERSION_PATCH"))),
    ];
    let expected: BTreeMap<&str, i64> =
        statuses.chain(designs).chain(tables).chain(others).collect();
    assert_eq!(defined, expected);
}

/// Returns the header with the constants of the designs, in the order of their numbers.
fn with_designs(header: &str) -> String {
    let mut designs: Vec<_> =
        DesignInfo::ALL.iter().filter_map(|design| Some((design.number?, design))).collect();
    designs.sort_by_key(|(number, _)| *number);
    let name = |design: &DesignInfo| format!("LW_{}", design.name.to_uppercase());
    let width = designs.iter().map(|(_, design)| name(design).len()).max().unwrap();
    let lines = designs.iter().map(|(number, design)| {
        let definition = format!("{} {number}", name(design));
        format!("#define {definition:0$} /* {1} */\n", width + 2, design.about)
    });
    let begin = header.find("#define LW_DECOUPLED ").unwrap();
    let end = begin + header[begin..].find("\n\n").unwrap() + 1;
    format!("{}{}{}", &header[..begin], lines.collect::<String>(), &header[end..])
}

/// `UPDATE=1 cargo test -p lastword-capi --test header` writes them.
#[test]
fn design_constants_equal_the_registry() {
    let (found, expected) = (header(), with_designs(&header()));
    if found != expected && std::env::var_os("UPDATE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/lastword.h");
        std::fs::write(path, &expected).unwrap();
        return;
    }
    assert!(found == expected, "run UPDATE=1 cargo test -p lastword-capi --test header");
}

#[test]
fn headers_stay_short() {
    for name in HEADERS {
        let header = read(name);
        let lines = header.lines().count();
        assert!(lines <= LINES_MAX, "{name}: {lines} lines");
        assert!(header.lines().all(|line| line.len() <= 100), "{name}");
    }
}
