//! The generator of mutants: copies of protocol files with one protection removed.
//!
//! For each test program it writes one file of modules. The module of a mutant has the folders that
//! its model needs, unchanged except for the mutation, and the model itself, which finds them in
//! `super`.

#[path = "build/gather.rs"]
mod gather;
#[path = "build/loom.rs"]
mod loom;
#[path = "build/mutant.rs"]
mod mutant;
#[path = "build/paging.rs"]
mod paging;
#[path = "build/shuttle.rs"]
mod shuttle;
#[path = "build/steps.rs"]
mod steps;
#[path = "build/versions.rs"]
mod versions;

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use mutant::{Folder, Mutant, Tool};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    let loom = [loom::MUTANTS, steps::MUTANTS, paging::MUTANTS, versions::MUTANTS, gather::MUTANTS]
        .concat();
    for (tool, mutants) in [(Tool::Loom, &*loom), (Tool::Shuttle, shuttle::MUTANTS)] {
        let mut text = String::new();
        emit_whole(tool.whole(), &here, &out.join(tool.folder()), &mut text);
        for mutant in mutants {
            emit(mutant, &here, &out, &mut text);
        }
        text.push_str("pub(crate) const ALL: &[models::trials::Mutant] = &[\n");
        for Mutant { name, number, model, check, says, .. } in mutants {
            writeln!(
                text,
                "    models::trials::Mutant {{ name: {name:?}, number: {number:?}, says: {says:?},
        model: \"{model}::{check}\", explore: {name}::{model}::{check} }},"
            )
            .expect("writing to a string cannot fail");
        }
        text.push_str("];\n");
        write(&out.join(format!("{}.rs", tool.folder())), &text);
    }
}

/// Writes a mutant's files, and appends its module to `text`. Unchanged items come from the crate's
/// root.
fn emit(mutant: &Mutant, here: &Path, out: &Path, text: &mut String) {
    let name = mutant.name;
    let mut line =
        |code: String| writeln!(text, "{code}").expect("writing to a string cannot fail");
    line(format!("pub(crate) mod {name} {{\n    use crate::*;"));
    let mut changed = 0;
    for folder in Folder::ALL.into_iter().filter(|folder| mutant.folders.contains(folder)) {
        let to = out.join(name);
        for file in folder.files() {
            let mut source = protocol(folder, file, here);
            if *file == mutant.file {
                source = change(mutant, &source);
                changed += 1;
            }
            let own = format!("crate::generated::{name}::");
            write(&to.join(file), &source.replace("crate::", &own).replace("lw_log::", &own));
        }
        line(folder.declare(&to.display().to_string()));
        if folder == Folder::PersistentRing {
            line(format!(
                "    use crate::generated::{name}::persistent::{{PersistentRing, Place, Sent}};"
            ));
        }
    }
    assert_eq!(changed, 1, "{name}: {} is not in its folders", mutant.file);
    for file in mutant.beside.iter().chain([&mutant.model]) {
        let path = here.join("tests").join(mutant.tool.folder()).join(format!("{file}.rs"));
        line(format!("    #[path = {path:?}]\n    pub(crate) mod {file};"));
    }
    // Files compiled with the model replace those of the crate's root.
    mutant.beside.iter().for_each(|file| {
        line(format!("    use crate::generated::{name}::{file}::{};", capital(file)))
    });
    line("}".to_owned());
}

/// Returns the name of the type that a file is named after.
fn capital(file: &str) -> String {
    file[..1].to_uppercase() + &file[1..]
}

/// Writes files without their tests and otherwise unchanged, and appends their modules to `text`.
fn emit_whole(folders: &[Folder], here: &Path, out: &Path, text: &mut String) {
    text.push_str("pub(crate) mod whole {\n");
    for folder in folders {
        let to = out.join("whole");
        for file in folder.files() {
            write(&to.join(file), &protocol(*folder, file, here));
        }
        text.push_str(&folder.declare(&to.display().to_string()));
    }
    text.push_str("}\n");
}

/// Reads a protocol file without the tests at its end.
fn protocol(folder: Folder, file: &str, here: &Path) -> String {
    let path = here.join("..").join(folder.path()).join(file);
    println!("cargo::rerun-if-changed={}", path.display());
    let source =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let source = source.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    replaced("a smaller size", file, Folder::sizes(file), source)
}

/// Removes the protection from the text.
fn change(mutant: &Mutant, source: &str) -> String {
    replaced(mutant.name, mutant.file, mutant.changes, source)
}

fn replaced(name: &str, file: &str, changes: &[(&str, &str)], source: &str) -> String {
    let mut source = source.to_owned();
    for (from, to) in changes {
        let found = source.matches(from).count();
        assert_eq!(found, 1, "{name}: `{from}` occurs {found} times in {file}");
        source = source.replace(from, to);
    }
    source
}

fn write(path: &Path, text: &str) {
    let folder = path.parent().expect("a file is in a folder");
    fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
