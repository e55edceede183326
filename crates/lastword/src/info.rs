//! What a pool says about itself.

use std::path::PathBuf;

use medium::PoolFile;
use words::TxId;

use crate::superblock::{Superblock, name};
use crate::{Error, Medium, Options};

/// A pool's description. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The pool's file; empty for designs that keep nothing.
    pub path: PathBuf,
    /// Its medium; `None` for designs that keep nothing.
    pub medium: Option<Medium>,
    /// The pool's ID.
    pub pool_id: u64,
    /// How often it was opened.
    pub generation: u64,
    /// The design that wrote it last.
    pub design: String,
    /// Layout name and version.
    pub layout: (String, u64),
    /// Size of the heap.
    pub heap_bytes: u64,
    /// Size of the log.
    pub log_bytes: u64,
    /// Size of each worker's volatile ring.
    pub ring_bytes: u64,
    /// The last transaction that is at home, as of the superblock.
    pub reproduced_id: TxId,
    /// Whether it was closed in good order; otherwise opening it recovers.
    pub clean: bool,
    /// The file system that it is on.
    pub file_system: Option<&'static str>,
    /// Whether what is on that file system outlives the machine's power.
    pub survives_power_loss: bool,
    /// Whether log writes bypass the page cache (`O_DIRECT`).
    pub direct: Option<bool>,
}

impl Info {
    pub(crate) fn of(
        file: &PoolFile,
        superblock: &Superblock,
        medium: Medium,
        direct: Option<bool>,
    ) -> Info {
        let file_system = file.file_system().ok();
        let in_memory = file_system.is_none_or(|fs| fs.is_in_memory());
        Info {
            path: file.path().into(),
            medium: Some(medium),
            pool_id: superblock.pool,
            generation: superblock.generation,
            design: name(&superblock.design),
            layout: (name(&superblock.layout), superblock.layout_version),
            heap_bytes: superblock.heap_bytes,
            log_bytes: superblock.log_bytes,
            ring_bytes: 8 * Options::new().ring_words() as u64,
            reproduced_id: TxId(superblock.reproduced),
            clean: superblock.clean,
            file_system: file_system.and_then(|fs| fs.name()),
            survives_power_loss: medium == Medium::File && !in_memory,
            direct,
        }
    }

    pub(crate) fn in_memory(options: &Options, heap_bytes: u64) -> Result<Info, Error> {
        options.layout_padded()?;
        Ok(Info {
            path: PathBuf::new(),
            medium: None,
            pool_id: 0,
            generation: 1,
            design: String::new(),
            layout: (options.layout.clone(), options.layout_version),
            heap_bytes,
            log_bytes: 0,
            ring_bytes: 0,
            reproduced_id: TxId::NONE,
            clean: true,
            file_system: None,
            survives_power_loss: false,
            direct: None,
        })
    }
}
