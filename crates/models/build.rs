//! Makes the twins: copies of protocol files with one protection taken away.
//!
//! For each test program it writes one file of modules. A twin's module holds the folders that its
//! model needs, as they are but for the one change, and the model itself, which finds them in
//! `super`.

#[path = "build/loom.rs"]
mod loom;
#[path = "build/shuttle.rs"]
mod shuttle;
#[path = "build/twin.rs"]
mod twin;

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use twin::{Folder, Twin};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    for twins in [loom::TWINS, shuttle::TWINS] {
        let mut text = String::new();
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
        write(&out.join(format!("{}.rs", twins[0].tool.folder())), &text);
    }
}

/// Writes a twin's files, and its module to `text`.
fn emit(twin: &Twin, here: &Path, out: &Path, text: &mut String) {
    let mut changed = 0;
    let name = twin.name;
    let mut line = |what: String| writeln!(text, "{what}").expect("a string takes all");
    line(format!("pub(crate) mod {name} {{"));
    for folder in [Folder::Log, Folder::Persist, Folder::Perform] {
        if !twin.folders.contains(&folder) {
            line(format!("    pub(crate) use crate::{};", folder.module()));
            continue;
        }
        let (from, to) =
            (here.join("..").join(folder.path()), out.join(name).join(folder.module()));
        for file in folder.files() {
            let path = from.join(file);
            println!("cargo::rerun-if-changed={}", path.display());
            let mut source = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if *file == twin.file {
                source = change(twin, &source);
                changed += 1;
            }
            // Its own tests stand at a file's end.
            let source = source.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
            write(&to.join(file), &rebase(twin, source.to_owned()));
        }
        line(folder.declare(&to.display().to_string()));
    }
    assert_eq!(changed, 1, "{name}: {} is not in its folders", twin.file);
    let model = here.join("tests").join(twin.tool.folder()).join(format!("{}.rs", twin.model));
    line(format!("    #[path = {model:?}]\n    pub(crate) mod {};\n}}", twin.model));
}

/// The text with the protection taken away.
fn change(twin: &Twin, source: &str) -> String {
    let mut source = source.to_owned();
    for (from, to) in twin.changes {
        let found = source.matches(from).count();
        assert_eq!(found, 1, "twin {}: `{from}` stands {found} times in {}", twin.name, twin.file);
        source = source.replace(from, to);
    }
    source
}

/// Paths from the root to a twin's own folders lead to the twin's.
fn rebase(twin: &Twin, mut source: String) -> String {
    for folder in twin.folders {
        let module = folder.module();
        let own = format!("crate::twins::{}::{module}::", twin.name);
        source = source.replace(&format!("crate::{module}::"), &own);
    }
    source
}

fn write(path: &Path, text: &str) {
    let folder = path.parent().expect("a file is in a folder");
    fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
