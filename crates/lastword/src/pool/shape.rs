//! The state of a pool that does not depend on its design.

use std::sync::Weak;

use medium::{ChecksumArea, LogMedium, Process};

use super::growth::Growth;
use crate::design::Design;
use crate::file_check::FileCheck;
use crate::perform::records_of;
use crate::role::ReplicationRole;
use crate::shadow::{ShadowHeap, ShadowMemory};
use crate::storage::{Storage, heap};
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::{DesignInfo, Error, Info, Options};

/// The state of a pool that does not depend on its design.
#[derive(Debug)]
pub struct Shape {
    /// With the largest size that the heap may get.
    heap: lw_alloc::Heap,
    /// The heap's present size: see `growth`.
    heap_bytes: AtomicU64,
    growth: Growth,
    runs: lw_alloc::Runs,
    base: u64,
    /// The generation of this opening; 0 in memory.
    generation: u64,
    info: Info,
    /// Reports the path of group writes. Weak, because the log file closes with the design. `None`
    /// for designs that write single records.
    log: Option<Weak<dyn LogMedium>>,
    /// The place of the page checksums, if the pool has them.
    sums: Option<ChecksumArea>,
    file_check: Arc<FileCheck>,
    role: ReplicationRole,
    process: Process,
}

impl Shape {
    pub(crate) fn of<D: Design>(storage: &Storage, options: &Options) -> Shape {
        let superblock = storage.superblocks.current();
        let base = u64::from(superblock.tag()) << words::ADDRESS_BITS;
        let log = storage.log_file.as_deref().unwrap_or(&storage.file);
        let log = storage.written.map(|path| (log, path));
        let info = Info::of(&storage.file, superblock, storage.medium, log);
        let room = options.room(info.heap_bytes);
        let records = || records_of(room as usize / 8, options.ownership_records);
        let ownership_records = D::HAS_RECORDS.then(records);
        let ring_bytes = 8 * options.ring_words() as u64;
        let info = Info { ring_bytes, ownership_records, ..info };
        let info = info.with_shadow(options.shadow, options.shadow_bytes);
        let in_groups = !DesignInfo::of::<D>().writes_records();
        let log = in_groups.then(|| Arc::downgrade(&storage.log));
        let growth = Growth::of(options, info.heap_bytes);
        let growth = growth.in_file(&storage.file, superblock.heap_offset);
        let growth = growth.ahead(info.heap_bytes);
        let heap = heap(superblock).with_bytes(growth.max);
        let shape = Shape::new(heap, base, info, growth, FileCheck::of::<D>(storage));
        let (generation, sums) = (superblock.generation, superblock.checksum_area());
        Shape { log, generation, sums, role: options.replication, ..shape }
    }

    /// Makes a formatted heap in memory, which does not survive the process.
    pub(crate) fn in_memory(options: &Options) -> Result<(ShadowHeap, Shape), Error> {
        const TAG: u16 = 0xfade;
        <ShadowHeap as ShadowMemory>::check(options)?;
        let bytes = options.heap_rounded()?;
        let growth = Growth::of(options, bytes);
        let shadow = ShadowHeap::zeros(bytes, growth.max)?;
        let heap = lw_alloc::Heap::new(TAG, bytes);
        let base = u64::from(TAG) << words::ADDRESS_BITS;
        for (index, value) in crate::storage::format(&heap, base) {
            shadow.heap()[index as usize].store(value, Ordering::Relaxed);
        }
        let (info, heap) = (Info::in_memory(options, bytes)?, heap.with_bytes(growth.max));
        Ok((shadow, Shape::new(heap, base, info, growth, FileCheck::default())))
    }

    fn new(
        heap: lw_alloc::Heap,
        base: u64,
        info: Info,
        growth: Growth,
        file_check: FileCheck,
    ) -> Shape {
        let (runs, file_check) = (lw_alloc::Runs::new(&heap), Arc::new(file_check));
        let (heap_bytes, process) = (AtomicU64::new(info.heap_bytes), Process::current());
        let (generation, log, sums, role) = (0, None, None, ReplicationRole::Alone);
        Shape {
            heap,
            heap_bytes,
            growth,
            runs,
            base,
            generation,
            info,
            log,
            sums,
            file_check,
            role,
            process,
        }
    }

    /// Returns the present size of the heap.
    #[inline(always)]
    pub(crate) fn heap_bytes(&self) -> u64 {
        // Acquire: the file's length is seen, too. A transaction that meets memory behind an old
        // value runs again.
        self.heap_bytes.load(Ordering::Acquire)
    }

    /// Lets transactions use a heap of this size.
    pub(super) fn set_heap_bytes(&self, bytes: u64) {
        self.heap_bytes.store(bytes, Ordering::Release);
    }

    /// Notes that a transaction has taken a run of the heap.
    #[inline]
    pub(crate) fn took_run(&self, bytes: u64) {
        if let Some(ahead) = &self.growth.ahead {
            ahead.took_run(bytes);
        }
    }

    /// Returns how the heap may grow.
    pub(super) fn growth(&self) -> &Growth {
        &self.growth
    }

    /// Returns the greatest size of the heap.
    pub(super) fn max_bytes(&self) -> u64 {
        self.growth.max
    }

    /// Returns the heap's offset in the pool's file.
    pub(super) fn heap_offset(&self) -> u64 {
        self.growth.heap_offset()
    }

    /// Returns the check of the files. An `Arc`, since tickets outlive the caller.
    #[inline]
    pub(crate) fn file_check(&self) -> &Arc<FileCheck> {
        &self.file_check
    }

    /// Whether the pool applies the groups of another one.
    #[inline]
    pub(crate) fn is_following(&self) -> bool {
        matches!(self.role, ReplicationRole::Follower { .. })
    }

    /// Whether this is a forked child of the process that opened the pool.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_current()
    }

    #[inline]
    pub(crate) fn runs(&self) -> &lw_alloc::Runs {
        &self.runs
    }

    #[inline]
    pub(crate) fn heap(&self) -> lw_alloc::Heap {
        self.heap.with_bytes(self.heap_bytes())
    }

    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Returns the generation of this opening.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the pool's description at the time of opening.
    pub(crate) fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the current size of the log.
    pub(super) fn log_bytes(&self) -> u64 {
        let log = self.log.as_ref().and_then(Weak::upgrade);
        log.map_or(self.info.log_bytes, |log| log.bytes())
    }

    /// Returns the description with the current sizes and path of log writes.
    pub(super) fn info_now(&self) -> Info {
        let written = self.log.as_ref().and_then(Weak::upgrade).and_then(|log| log.written());
        let heap_bytes = self.heap_bytes();
        let checksummed_bytes = self.sums.map_or(0, |area| area.covers(heap_bytes));
        let info = self.info.clone().with_heap_bytes(heap_bytes).with_log_bytes(self.log_bytes());
        let info = Info { checksummed_bytes, ..info };
        match written {
            Some(path) if self.info.log_path.is_some() => info.with_log_path(path),
            _ => info,
        }
    }
}
