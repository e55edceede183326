//! What a twin is.
//!
//! A part of build.rs, which makes the files.

/// Who explores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// loom.
    Loom,
    /// shuttle.
    Shuttle,
}

impl Tool {
    /// Its folder under `tests`.
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Tool::Loom => "loom",
            Tool::Shuttle => "shuttle",
        }
    }
}

/// Protocol files that are compiled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Folder {
    /// The volatile ring.
    Log,
    /// Frontier, merge, waiting.
    Persist,
    /// Transactional memories.
    Perform,
}

impl Folder {
    /// Where its files are, under `crates`.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Folder::Log => "log/src",
            Folder::Persist => "lastword/src/persist",
            Folder::Perform => "lastword/src/perform",
        }
    }

    /// The module that it makes.
    pub(crate) const fn module(self) -> &'static str {
        match self {
            Folder::Log => "ring",
            Folder::Persist => "persist",
            Folder::Perform => "perform",
        }
    }

    /// Its protocol files.
    pub(crate) const fn files(self) -> &'static [&'static str] {
        match self {
            Folder::Log => &["ring.rs"],
            Folder::Persist => &[
                "background.rs",
                "frontier.rs",
                "help.rs",
                "merge.rs",
                "progress.rs",
                "redo.rs",
                "wake.rs",
            ],
            Folder::Perform => &["mod.rs", "contention.rs", "serial.rs", "stm.rs", "write_set.rs"],
        }
    }

    /// The text that declares its module over files in `at`.
    pub(crate) fn declare(self, at: &str) -> String {
        let module = |name: &str, file: &str| {
            format!("    #[path = {:?}]\n    pub(crate) mod {name};\n", format!("{at}/{file}"))
        };
        match self {
            Folder::Log => module("ring", "ring.rs"),
            Folder::Perform => module("perform", "mod.rs"),
            Folder::Persist => {
                let files = self.files().iter();
                let files: String =
                    files.map(|file| module(file.trim_end_matches(".rs"), file)).collect();
                let uses = ["help::Step", "progress::Progress", "wake::Event"]
                    .map(|name| format!("    pub(crate) use {name};\n"))
                    .concat();
                format!("    pub(crate) mod persist {{\n{files}{uses}    }}\n")
            }
        }
    }
}

/// A protocol with one protection taken away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Twin {
    /// What is wrong, as the test's name.
    pub(crate) name: &'static str,
    /// Its number in the list of mutants that the crash tests are measured by.
    pub(crate) mutant: Option<u8>,
    /// Who must find it.
    pub(crate) tool: Tool,
    /// What is compiled anew: the folder of the changed file, and those that build on it.
    pub(crate) folders: &'static [Folder],
    /// The changed file.
    pub(crate) file: &'static str,
    /// Each text, which stands once in the file, and what takes its place.
    pub(crate) changes: &'static [(&'static str, &'static str)],
    /// The model: a file beside the tool's main.rs.
    pub(crate) model: &'static str,
    /// Its function.
    pub(crate) check: &'static str,
    /// A part of the message that it must end with.
    pub(crate) says: &'static str,
}
