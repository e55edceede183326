//! The type of a mutant, and the protocol files that mutants change.
//!
//! A part of build.rs, which generates the files.

/// The tool that explores a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// loom.
    Loom,
    /// shuttle.
    Shuttle,
}

impl Tool {
    /// Returns the tool's folder under `tests`.
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Tool::Loom => "loom",
            Tool::Shuttle => "shuttle",
        }
    }

    /// Returns the folders that the test program compiles from copies without tests: their tests
    /// need more of the product.
    pub(crate) const fn whole(self) -> &'static [Folder] {
        match self {
            Tool::Loom => &[Folder::Pipeline, Folder::Versions],
            Tool::Shuttle => &[Folder::Pipeline, Folder::Design, Folder::Recover],
        }
    }
}

/// Protocol files that are compiled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Folder {
    /// The volatile ring.
    Ring,
    /// The persistent ring.
    PersistentRing,
    /// The persist step: from the rings to the log.
    Persist,
    /// Transactional memories.
    Perform,
    /// The reproduce step, from the log to the heap image, and both steps together.
    Pipeline,
    /// The design around them, and tickets.
    Design,
    /// Recovery from the state that a crash has left.
    Recover,
    /// Bounded shadows.
    Shadow,
    /// Workers with log slots.
    Slots,
    /// Objects with two versions.
    Versions,
}

impl Folder {
    /// All of them; later ones may build on earlier ones.
    pub(crate) const ALL: [Folder; 10] = [
        Folder::Ring,
        Folder::PersistentRing,
        Folder::Perform,
        Folder::Persist,
        Folder::Pipeline,
        Folder::Design,
        Folder::Recover,
        Folder::Shadow,
        Folder::Slots,
        Folder::Versions,
    ];

    /// Returns the path of the files under `crates`.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Folder::Ring | Folder::PersistentRing => "log/src",
            Folder::Shadow => "lastword/src/shadow",
            Folder::Slots => "lastword/src/slots",
            _ => "lastword/src",
        }
    }

    /// Returns the protocol files.
    pub(crate) const fn files(self) -> &'static [&'static str] {
        match self {
            Folder::Ring => &["ring.rs"],
            Folder::PersistentRing => &["persistent.rs"],
            Folder::Persist => &[
                "persist/mod.rs",
                "persist/background.rs",
                "persist/due.rs",
                "persist/flights.rs",
                "persist/frontier.rs",
                "persist/grouping.rs",
                "persist/line.rs",
                "persist/listeners.rs",
                "persist/merge.rs",
                "persist/queue.rs",
                "persist/redo.rs",
                "persist/waiters.rs",
                "poison.rs",
            ],
            Folder::Perform => &[
                "perform/mod.rs",
                "perform/contention.rs",
                "perform/records.rs",
                "perform/serial.rs",
                "perform/space.rs",
                "perform/stm.rs",
                "perform/write_set.rs",
            ],
            Folder::Pipeline => &["reproduce/mod.rs", "reproduce/board.rs", "pipeline.rs"],
            Folder::Design => &[
                "design/mod.rs",
                "design/decoupled.rs",
                "design/plain.rs",
                "design/volatile.rs",
                "inside.rs",
                "ticket.rs",
            ],
            Folder::Recover => &["recover/mod.rs", "recover/decide.rs"],
            Folder::Shadow => &["copies.rs", "table.rs"],
            Folder::Slots => &["gather.rs", "workers.rs"],
            Folder::Versions => &[
                "versions/mod.rs",
                "versions/attempt.rs",
                "versions/commit.rs",
                "versions/copies.rs",
                "versions/end.rs",
                "versions/link.rs",
                "versions/member.rs",
                "versions/owned.rs",
                "versions/read.rs",
                "versions/seats.rs",
                "versions/write.rs",
                "versions/write_back.rs",
            ],
        }
    }

    /// Returns the sizes that are smaller in models than in the product: texts of a file and their
    /// replacements.
    pub(crate) fn sizes(file: &str) -> &'static [(&'static str, &'static str)] {
        match file {
            "versions/copies.rs" => &[
                ("const SEGMENT_WORDS: usize = 512;", "const SEGMENT_WORDS: usize = 8;"),
                ("1 + words::OBJECT_BYTES_MAX / 8;", "1 + 4;"),
            ],
            "versions/commit.rs" => &[("if cfg!(test) { 2 } else { 1 << 8 }", "1")],
            _ => &[],
        }
    }

    /// Returns the text that declares the modules over files in `at`.
    pub(crate) fn declare(self, at: &str) -> String {
        let module = |name: &str, file: &str| {
            format!("    #[path = {:?}]\n    pub(crate) mod {name};\n", format!("{at}/{file}"))
        };
        let files = self.files().iter();
        let modules = files.filter_map(|file| match file.split_once('/') {
            Some((name, "mod.rs")) => Some(module(name, file)),
            Some(_) => None,
            None => Some(module(file.trim_end_matches(".rs"), file)),
        });
        modules.collect()
    }
}

/// A protocol with one protection removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    /// The name of its test, which says what is wrong.
    pub(crate) name: &'static str,
    /// Its number in the list of mutants in docs/internals/mutants.md.
    pub(crate) number: Option<u8>,
    /// The tool that must detect it.
    pub(crate) tool: Tool,
    /// The folders to compile anew: the folder of the changed file, and those that depend on it.
    pub(crate) folders: &'static [Folder],
    /// The changed file, relative to its folder.
    pub(crate) file: &'static str,
    /// The texts to replace, each of which occurs once in the file, and their replacements.
    pub(crate) changes: &'static [(&'static str, &'static str)],
    /// Further files next to the model to compile anew.
    pub(crate) beside: &'static [&'static str],
    /// The model: a file next to the tool's main.rs.
    pub(crate) model: &'static str,
    /// The model's function.
    pub(crate) check: &'static str,
    /// A part of the message with which the model must fail.
    pub(crate) says: &'static str,
}
