//! The page checksums of an open pool, and the damaged pages of a closed one.
//!
//! [`PageChecksums`] has the format and the order of writes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use medium::mutants::{Mutant, injected};
use medium::sync::Arc;
use medium::writes::{Piece, Pieces};
use medium::{
    Counts, Domain, FileChecksums, FileHeap, HeapMedium, MappedChecksums, MappedHeap,
    PageChecksums, PoolFile,
};

use crate::error::Error;
use crate::superblock::Superblock;

/// Words of a page.
const PAGE_WORDS: usize = 512;
/// Bytes of a page.
const PAGE_BYTES: u64 = 8 * PAGE_WORDS as u64;

/// The page checksums of an open pool.
pub(crate) enum Checksums {
    /// The pool has none.
    None,
    File(Arc<FileChecksums>),
    Mapped(Arc<MappedChecksums>),
}

impl Checksums {
    pub(super) fn in_file(
        file: &Arc<PoolFile>,
        superblock: &Superblock,
        room: u64,
        known: Option<&PageChecksums>,
    ) -> Checksums {
        let Some(area) = superblock.checksum_area() else { return Checksums::None };
        let sizes = (superblock.heap_offset, superblock.heap_bytes, room);
        Checksums::File(Arc::new(FileChecksums::new(Arc::clone(file), area, sizes, known)))
    }

    pub(super) fn mapped(
        file: &Arc<PoolFile>,
        superblock: &Superblock,
        room: u64,
        domain: &Domain,
        known: Option<&PageChecksums>,
    ) -> Result<Checksums, Error> {
        let Some(area) = superblock.checksum_area() else { return Ok(Checksums::None) };
        let sizes = (superblock.heap_offset, superblock.heap_bytes, room);
        let sums = MappedChecksums::new(Arc::clone(file), area, sizes, domain, known)?;
        Ok(Checksums::Mapped(Arc::new(sums)))
    }

    pub(super) fn keep_in_file(&self, heap_image: FileHeap) -> FileHeap {
        match self {
            Checksums::File(sums) => heap_image.with_checksums(Arc::clone(sums)),
            Checksums::None | Checksums::Mapped(_) => heap_image,
        }
    }

    pub(super) fn keep_mapped(&self, heap_image: MappedHeap) -> MappedHeap {
        match self.of_mapping() {
            Some(sums) => heap_image.with_checksums(sums),
            None => heap_image,
        }
    }

    /// Returns those of a mapped heap.
    pub(crate) fn of_mapping(&self) -> Option<Arc<MappedChecksums>> {
        match self {
            Checksums::Mapped(sums) => Some(Arc::clone(sums)),
            Checksums::None | Checksums::File(_) => None,
        }
    }

    /// Notes that recovery has ended: pages are compared from here on before they change.
    pub(super) fn has_recovered(&self) {
        if let Checksums::File(sums) = self {
            sums.compare();
        }
    }
}

/// Reads the page checksums of a pool, if it has them. The file has the whole heap.
///
/// # Errors
/// That of a read.
pub(crate) fn page_checksums(
    file: &PoolFile,
    superblock: &Superblock,
) -> Result<Option<PageChecksums>, Error> {
    let read = |area| PageChecksums::read(file, area, superblock.heap_bytes);
    Ok(superblock.checksum_area().map(read).transpose()?)
}

/// The damaged pages of a heap, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Damaged {
    path: PathBuf,
    heap_offset: u64,
    pages: Vec<usize>,
}

impl Damaged {
    pub(crate) fn new(file: &PoolFile, superblock: &Superblock, pages: Vec<usize>) -> Damaged {
        let (path, heap_offset) = (file.path().to_path_buf(), superblock.heap_offset);
        Damaged { path, heap_offset, pages }
    }

    /// Returns the error, if there are any.
    ///
    /// # Errors
    /// [`medium::Error::DamagedPages`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.pages.first() {
            None => Ok(()),
            Some(first) => Err(self.error(*first, self.pages.len())),
        }
    }

    /// Returns the error of a word's page, if it is damaged.
    ///
    /// # Errors
    /// [`medium::Error::DamagedPages`].
    #[inline]
    pub(crate) fn check_word(&self, index: usize) -> Result<(), Error> {
        let page = index / PAGE_WORDS;
        match !self.pages.is_empty() && self.pages.binary_search(&page).is_ok() {
            true => Err(self.error(page, 1)),
            false => Ok(()),
        }
    }

    /// Returns the pool's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns their numbers.
    pub(crate) fn pages(&self) -> &[usize] {
        &self.pages
    }

    #[cold]
    fn error(&self, first: usize, pages: usize) -> Error {
        let at = self.heap_offset + first as u64 * PAGE_BYTES;
        medium::Error::DamagedPages { path: self.path.clone(), at, pages }.into()
    }
}

/// Returns the pages whose checksums are lost: the table is damaged there.
///
/// On `file`, each page of a cleanly closed pool has a checksum, unless a growth has added it and
/// it is still zero. On mapped media a crash may have torn a line of the table.
///
/// # Errors
/// That of a read.
pub(crate) fn lost_checksums(
    file: &PoolFile,
    sums: &PageChecksums,
    superblock: &Superblock,
) -> Result<Vec<Range<usize>>, Error> {
    let mut lost: Vec<Range<usize>> = sums.damaged_lines().collect();
    if superblock.log_inside || !superblock.clean {
        return Ok(lost);
    }
    let begin = superblock.heap_offset;
    let end = begin + sums.pages() as u64 * PAGE_BYTES;
    let (mut at, mut words) = (begin, [0; PAGE_WORDS]);
    while let Some(data) = file.next_data(at, end) {
        let first = ((data.start - begin) / PAGE_BYTES) as usize;
        at = data.end.next_multiple_of(PAGE_BYTES).min(end);
        for page in
            (first..((at - begin) / PAGE_BYTES) as usize).filter(|page| sums.is_unknown(*page))
        {
            file.read_at(begin + page as u64 * PAGE_BYTES, &mut words)?;
            if words != [0; PAGE_WORDS] {
                lost.push(page..page + 1);
            }
        }
    }
    lost.sort_unstable_by_key(|pages| pages.start);
    lost.dedup_by(|next, pages| {
        let joins = next.start <= pages.end;
        if joins {
            pages.end = pages.end.max(next.end);
        }
        joins
    });
    Ok(lost)
}

/// Replays the log that opening a pool would replay.
pub(crate) type Replay<'a> = &'a dyn Fn(&mut dyn HeapMedium) -> Result<(), Error>;

/// Removes from `differing` the pages that recovery will write, and returns the rest: the damaged
/// pages. `replay` replays the log; `None` if no page may be removed.
///
/// On `file`, a crash may leave a page newer or older than its checksum. The log still holds words
/// of each such page, because it is recycled only after a sync. So a differing page without words
/// in the log is damaged. A page marked as damaged stays in the result. On mapped media a checksum
/// becomes unknown before its page changes, so no page is removed.
///
/// # Errors
/// That of the replay.
pub(crate) fn damaged_pages(
    (file, superblock): (&PoolFile, &Superblock),
    sums: &PageChecksums,
    differing: Vec<usize>,
    replay: Option<Replay<'_>>,
) -> Result<Damaged, Error> {
    let mut damaged = differing;
    if injected(Mutant::DamagedPagesIgnored) {
        damaged.clear();
    }
    if let Some(replay) = replay
        && !damaged.is_empty()
        && !injected(Mutant::ReplayedPagesCompared)
    {
        let mut replayed = ReplayedPages::default();
        replay(&mut replayed)?;
        damaged.retain(|page| sums.is_marked_damaged(*page) || !replayed.0.contains(page));
    }
    Ok(Damaged::new(file, superblock, damaged))
}

/// Notes the pages that a replay writes to.
#[derive(Default)]
struct ReplayedPages(BTreeSet<usize>);

impl HeapMedium for ReplayedPages {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), medium::Error> {
        for piece in Pieces::new(writes) {
            let Piece::Run(index, words) = piece else { continue };
            let (first, end) = (index as usize, index as usize + words.len());
            self.0.extend(first / PAGE_WORDS..end.div_ceil(PAGE_WORDS));
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), medium::Error> {
        Ok(())
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}
