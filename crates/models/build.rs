//! Makes the twins: copies of protocol files with one protection taken away.
//!
//! For each test program it writes one file of modules. A twin's module holds the folders that its
//! model needs, as they are but for the one change, and the model itself, which finds them in
//! `super`.

#[path = "build/gather.rs"]
mod gather;
#[path = "build/loom.rs"]
mod loom;
#[path = "build/paging.rs"]
mod paging;
#[path = "build/shuttle.rs"]
mod shuttle;
#[path = "build/steps.rs"]
mod steps;
#[path = "build/twin.rs"]
mod twin;
#[path = "build/versions.rs"]
mod versions;

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use twin::{Folder, Tool, Twin};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    let loom = [loom::TWINS, steps::TWINS, paging::TWINS, versions::TWINS, gather::TWINS].concat();
    for (tool, twins) in [(Tool::Loom, &*loom), (Tool::Shuttle, shuttle::TWINS)] {
        let mut text = String::new();
        emit_whole(tool.whole(), &here, &out.join(tool.folder()), &mut text);
        for twin in twins {
            emit(twin, &here, &out, &mut text);
        }
        text.push_str("pub(crate) const ALL: &[models::trials::Twin] = &[\n");
        for Twin { name, mutant, model, check, says, .. } in twins {
            writeln!(
                text,
                "    models::trials::Twin {{ name: {name:?}, mutant: {mutant:?}, says: {says:?},
        model: \"{model}::{check}\", explore: {name}::{model}::{check} }},"
            )
            .expect("a string takes all");
        }
        text.push_str("];\n");
        write(&out.join(format!("{}.rs", tool.folder())), &text);
    }
}

/// Writes a twin's files, and its module to `text`. What it does not change it has from the crate's
/// root.
fn emit(twin: &Twin, here: &Path, out: &Path, text: &mut String) {
    let name = twin.name;
    let mut line = |what: String| writeln!(text, "{what}").expect("a string takes all");
    line(format!("pub(crate) mod {name} {{\n    use crate::*;"));
    let mut changed = 0;
    for folder in Folder::ALL.into_iter().filter(|folder| twin.folders.contains(folder)) {
        let to = out.join(name);
        for file in folder.files() {
            let mut source = protocol(folder, file, here);
            if *file == twin.file {
                source = change(twin, &source);
                changed += 1;
            }
            let own = format!("crate::twins::{name}::");
            write(&to.join(file), &source.replace("crate::", &own).replace("lw_log::", &own));
        }
        line(folder.declare(&to.display().to_string()));
        if folder == Folder::PersistentRing {
            line(format!(
                "    use crate::twins::{name}::persistent::{{PersistentRing, Place, Sent}};"
            ));
        }
    }
    assert_eq!(changed, 1, "{name}: {} is not in its folders", twin.file);
    for file in twin.beside.iter().chain([&twin.model]) {
        let path = here.join("tests").join(twin.tool.folder()).join(format!("{file}.rs"));
        line(format!("    #[path = {path:?}]\n    pub(crate) mod {file};"));
    }
    // What stands beside the model takes the place of the root's.
    twin.beside
        .iter()
        .for_each(|file| line(format!("    use crate::twins::{name}::{file}::{};", capital(file))));
    line("}".to_owned());
}

/// The type that a file is named after.
fn capital(file: &str) -> String {
    file[..1].to_uppercase() + &file[1..]
}

/// Writes files as they are, without their tests, and their modules to `text`.
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

/// A protocol file without its own tests, which stand at its end.
fn protocol(folder: Folder, file: &str, here: &Path) -> String {
    let path = here.join("..").join(folder.path()).join(file);
    println!("cargo::rerun-if-changed={}", path.display());
    let source =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let source = source.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    replaced("a smaller size", file, Folder::sizes(file), source)
}

/// The text with the protection taken away.
fn change(twin: &Twin, source: &str) -> String {
    replaced(twin.name, twin.file, twin.changes, source)
}

fn replaced(what: &str, file: &str, changes: &[(&str, &str)], source: &str) -> String {
    let mut source = source.to_owned();
    for (from, to) in changes {
        let found = source.matches(from).count();
        assert_eq!(found, 1, "{what}: `{from}` stands {found} times in {file}");
        source = source.replace(from, to);
    }
    source
}

fn write(path: &Path, text: &str) {
    let folder = path.parent().expect("a file is in a folder");
    fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
