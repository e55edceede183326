//! `decoupled`: run on shadow memory, persist the redo log behind, reproduce it in place later.
//!
//! ```text
//!   perform                     persist                      reproduce
//!   worker: shadow, ring  -->   group, log, barrier   -->    home, barrier, superblock, recycle
//!   commit returns (async)      commit returns (sync)
//! ```
//!
//! (DudeTM, section 3.)

use std::path::Path;

use medium::mutants::{Mutant, planted};
use words::{Stop, TxId};

use super::Design;
use crate::metrics::Metrics;
use crate::options::Durability;
use crate::perform::{Heap, Redo, Stm, Tm};
use crate::persist::{Background, Bells, Listener, Persist, RingRedo, Step, Steps};
use crate::pipeline::Pipeline;
use crate::pool::Shape;
use crate::recover::{self, decide::Action};
use crate::reproduce::Reproduce;
use crate::shadow::ShadowHeap;
use crate::storage::{Opened, Storage};
use crate::superblock::{LogHead, padded};
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::{Error, Options};

/// The default design, over a transactional memory.
pub struct Decoupled<T: Tm = Stm> {
    inner: Arc<Inner<T>>,
    background: Option<Background>,
    options: Options,
    words_max: usize,
}

/// What workers and background threads share.
struct Inner<T> {
    memory: T,
    shadow: ShadowHeap,
    pipeline: Pipeline,
}

/// What one worker owns.
pub struct Local<T: Tm> {
    attempt: T::Attempt,
    redo: RingRedo,
}

impl<T: Tm> Decoupled<T> {
    /// Recovers, begins a new generation, and starts.
    fn start(opened: Opened, options: &Options) -> Result<(Self, Shape), Error> {
        let Opened { mut storage, action, log_head } = opened;
        let before = *storage.superblocks.current();
        let mut last = TxId(before.reproduced);
        let generation =
            before.generation.wrapping_add(u64::from(!planted(Mutant::GenerationKept)));
        let open_shadow = |storage: &Storage| {
            ShadowHeap::open(options.shadow, &storage.file, before.heap_offset, before.heap_bytes)
        };
        let stale = planted(Mutant::ShadowBeforeReplay).then(|| open_shadow(&storage));
        if planted(Mutant::ClearedBeforeApplied) {
            storage.superblocks.update(|now| now.generation = generation)?;
        }
        if action == Action::Replay {
            let path = storage.log_path().to_path_buf();
            let Storage { log, home, .. } = &mut storage;
            last = recover::replay(&before, &**log, home.as_mut(), &path)?.last;
        }
        // Everything is at home. Before anything else is written: what cannot be read is told while
        // the pool is as it was.
        let shadow = stale.unwrap_or_else(|| open_shadow(&storage))?;
        let medium = storage.medium;
        let head = match (&storage.log_file, log_head) {
            (Some(file), Some(head)) => {
                let edition = head.edition + 1;
                let head = LogHead { edition, pool: before.pool, generation };
                Some((head, Arc::clone(file), LogHead::counts(file)?))
            }
            _ => None,
        };
        // The order matters: see `recover`.
        if let Some((head, file, counts)) = &head
            && !planted(Mutant::LogHeadLast)
        {
            head.write(file, *counts)?;
        }
        storage.superblocks.update(|now| {
            now.generation = generation;
            now.clean = now.clean && planted(Mutant::CleanKept);
            now.reproduced = last.0;
            now.log_sequence = if planted(Mutant::SequenceKept) { now.log_sequence } else { 0 };
            now.design = padded(Self::NAME).expect("a design's name is short");
            now.medium = padded(medium.name()).expect("a medium's name is short");
        })?;
        if let Some((head, file, counts)) = &head
            && planted(Mutant::LogHeadLast)
        {
            head.write(file, *counts)?;
        }
        Self::run(storage, shadow, last, options)
    }

    fn run(
        storage: Storage,
        shadow: ShadowHeap,
        last: TxId,
        options: &Options,
    ) -> Result<(Self, Shape), Error> {
        let shape = Shape::of(&storage, options);
        let superblock = *storage.superblocks.current();
        let blocks = matches!(storage.medium, crate::Medium::File);
        let persist = Persist::new(storage.log, recover::identity(&superblock), last);
        let reproduce = Reproduce::new(storage.home, storage.superblocks);
        let pipeline =
            Pipeline::new(persist, reproduce, superblock.log_bytes, blocks, options.background);
        let memory = T::new(shadow.heap().len(), last);
        let inner = Arc::new(Inner { memory, shadow, pipeline });
        let background = match options.background {
            true => Some(Background::spawn(&inner).map_err(|source| Error::Thread { source })?),
            false => None,
        };
        let words_max = Persist::words_max(superblock.log_bytes, options.ring_words());
        Ok((Decoupled { inner, background, options: options.clone(), words_max }, shape))
    }

    fn stop_background(&mut self) {
        self.inner.pipeline.bells.close();
        if let Some(background) = self.background.take() {
            background.join();
        }
    }

    /// One persist step, as a background thread would run it: for tests without such threads.
    ///
    /// # Errors
    /// The medium's. Answers whether there was something to do.
    pub fn persist_step(&self) -> Result<bool, Error> {
        Ok(Steps::persist_step(&*self.inner)? != Step::Nothing)
    }

    /// One reproduce step, as a background thread would run it: for tests without such threads.
    ///
    /// # Errors
    /// The medium's. Answers whether there was something to do.
    pub fn reproduce_step(&self) -> Result<bool, Error> {
        Ok(Steps::reproduce_step(&*self.inner)? != Step::Nothing)
    }
}

impl<T: Tm> Steps for Inner<T> {
    fn persist_step(&self) -> Result<Step, Error> {
        self.pipeline.persist_step(self.memory.clock(), false, true)
    }

    fn reproduce_if_due(&self) -> Result<Step, Error> {
        if self.pipeline.is_due() { Steps::reproduce_step(self) } else { Ok(Step::Nothing) }
    }

    fn reproduce_step(&self) -> Result<Step, Error> {
        self.pipeline.reproduce_step(false)
    }

    fn clock(&self) -> &AtomicU64 {
        self.memory.clock()
    }

    fn durable(&self) -> u64 {
        self.pipeline.persist.durable().0
    }

    fn bells(&self) -> &Bells {
        &self.pipeline.bells
    }

    fn reproduce_blocks(&self) -> bool {
        self.pipeline.blocks
    }
}

impl<T: Tm> Design for Decoupled<T> {
    const NAME: &'static str = "decoupled";
    const DURABLE: bool = true;
    const WORKERS_MAX: usize = 1 << 15;
    const STEPS: &'static [&'static str] = &["persist", "reproduce", "help"];
    type Local = Local<T>;

    fn create(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        let (storage, created) = Storage::create(path, options, Self::NAME)?;
        created.or_remove(|| {
            let (action, log_head) = (Action::Start, storage.log_head()?);
            Self::start(Opened { storage, action, log_head }, options)
        })
    }

    fn open(path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        Self::start(Opened::open(path, options)?, options)
    }

    #[inline]
    fn heap(&self) -> &Heap {
        self.inner.shadow.heap()
    }

    fn local(&self, number: usize) -> Result<Local<T>, Error> {
        let slot = self.inner.pipeline.persist.register(self.options.ring_words())?;
        Ok(Local { attempt: self.inner.memory.attempt(number), redo: RingRedo::new(slot) })
    }

    fn close_local(&self, local: &mut Local<T>) {
        self.inner.pipeline.persist.leave(&local.redo.slot);
    }

    fn words_max(&self) -> usize {
        self.words_max
    }

    #[inline]
    fn begin(&self, local: &mut Local<T>, read_only: bool) -> Result<(), Error> {
        // A pool that cannot go on says so at once, and not when its ring is full.
        self.inner.pipeline.persist.progress.poison.check()?;
        // Room for a hole, always: an attempt that rolls back may need one, and must not wait.
        let wanted = std::mem::take(&mut local.redo.wanted);
        if !local.redo.has_room(wanted) {
            self.wait_for_room(&mut local.redo)?;
        }
        match read_only {
            false => self.inner.memory.begin(&mut local.attempt),
            true => self.inner.memory.begin_read(&mut local.attempt),
        }
        Ok(())
    }

    #[inline(always)]
    fn read(&self, local: &mut Local<T>, index: usize) -> Result<u64, Stop> {
        self.inner.memory.read(&mut local.attempt, self.heap(), index)
    }

    #[inline]
    fn read_run(&self, local: &mut Local<T>, index: usize, out: &mut [u64]) -> Result<(), Stop> {
        self.inner.memory.read_run(&mut local.attempt, self.heap(), index, out)
    }

    #[inline(always)]
    fn write(&self, local: &mut Local<T>, index: usize, value: u64) -> Result<(), Stop> {
        self.inner.memory.write(&mut local.attempt, self.heap(), index, value)
    }

    #[inline(always)]
    fn write_run(&self, local: &mut Local<T>, index: usize, values: &[u64]) -> Result<(), Stop> {
        self.inner.memory.write_run(&mut local.attempt, self.heap(), index, values)
    }

    #[inline]
    fn will_read(&self, index: usize, words: usize) {
        self.inner.memory.will_read(self.heap(), index, words);
    }

    #[inline]
    fn will_write(&self, index: usize, words: usize) {
        self.inner.memory.will_write(self.heap(), index, words);
    }

    #[inline]
    fn words_written(&self, local: &Local<T>) -> usize {
        self.inner.memory.words_written(&local.attempt)
    }

    #[inline]
    fn commit(&self, local: &mut Local<T>) -> Result<TxId, Stop> {
        let id = self.inner.memory.commit(&mut local.attempt, self.heap(), &mut local.redo)?;
        if self.options.durability == Durability::Async {
            self.inner.pipeline.bells.committed();
            let crowded = || self.inner.pipeline.persist.is_crowded();
            if self.background.is_some() && local.redo.is_late(crowded) {
                self.help();
            }
        }
        Ok(id)
    }

    fn roll_back(&self, local: &mut Local<T>) -> TxId {
        let seen = self.inner.memory.roll_back(&mut local.attempt, self.heap(), &mut local.redo);
        if planted(Mutant::HoleNotRecorded) {
            self.inner.memory.clock().fetch_add(1, Ordering::Relaxed);
        }
        self.inner.pipeline.bells.committed();
        seen
    }

    fn committed_id(&self) -> TxId {
        // Acquire: whoever asks may wait for this ID, and must find its record published by then.
        TxId(self.inner.memory.clock().load(Ordering::Acquire))
    }

    #[inline]
    fn durable_id(&self) -> TxId {
        self.inner.pipeline.persist.durable()
    }

    fn reproduced_id(&self) -> TxId {
        self.inner.pipeline.reproduce.reproduced()
    }

    fn wait(&self, id: TxId) -> Result<(), Error> {
        self.inner.pipeline.wait(self.inner.memory.clock(), id)
    }

    fn outcome(&self, id: TxId) -> Option<Result<(), Error>> {
        self.inner.pipeline.persist.progress.outcome(id.0)
    }

    fn tell(&self, id: TxId, listener: Listener) -> Result<(), Error> {
        self.inner.pipeline.persist.progress.tell(id.0, listener);
        Ok(())
    }

    fn hurry(&self, id: TxId) {
        match self.background {
            Some(_) => self.inner.pipeline.bells.hurry(),
            // An error is kept, and is the outcome.
            None => drop(self.wait(id)),
        }
    }

    fn bring_home(&self) -> Result<(), Error> {
        self.inner.pipeline.bring_home(self.inner.memory.clock())
    }

    fn close(&mut self) -> Result<(), Error> {
        self.stop_background();
        self.inner.pipeline.close(self.inner.memory.clock())
    }

    fn abandon(&mut self) {
        self.stop_background();
    }

    fn step(&self, number: usize) -> Result<bool, Error> {
        match number {
            0 => self.persist_step(),
            1 => self.reproduce_step(),
            2 => {
                // As a worker helps: it waits for no device, so several groups get under way.
                let Inner { pipeline, memory, .. } = &*self.inner;
                Ok(pipeline.persist_step(memory.clock(), true, false)? != Step::Nothing)
            }
            _ => panic!("{} has no step {number}", Self::NAME),
        }
    }

    fn metrics(&self) -> Metrics {
        self.inner.pipeline.metrics()
    }
}

impl<T: Tm> Decoupled<T> {
    /// One persist step by a worker, when the background thread does not get a core: otherwise what
    /// is committed would wait for as long as the scheduler likes. Waits for no device.
    #[cold]
    fn help(&self) {
        // An error is kept, and told when the next transaction begins.
        let _ = self.inner.pipeline.persist_step(self.inner.memory.clock(), true, false);
    }

    #[cold]
    fn wait_for_room(&self, redo: &mut RingRedo) -> Result<(), Error> {
        let pipeline = &self.inner.pipeline;
        pipeline.persist.meter.ring_full_waits.fetch_add(1, Ordering::Relaxed);
        let wanted = redo.wanted;
        let clock = self.inner.memory.clock();
        let done = pipeline.help_until(clock, TxId::NONE, || redo.has_room(wanted).then_some(()));
        redo.wanted = 0;
        done
    }
}
