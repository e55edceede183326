//! Witnesses of a mapped log: which line says that a group was durable, and when it is stored.
//!
//! Each group leaves a witness in the cache. That costs two stores to a line that is there already,
//! and survives the end of the process. A power failure may lose it. So the first group that
//! reaches a new page of the log leaves a second witness, which the next append stores past the
//! cache, with its own group and so for its fence. When a later group is durable, that witness is
//! too, and proves the loss of the page. (A witness past the cache for each group had made a fence
//! wait for one line more: single workers committed 13 to 21 % fewer transactions a second.)
//!
//! The next append stores it, and not the thread that acknowledges: a fence waits for the stores of
//! its own thread, and another thread may append next.
//!
//! **Checkpoints.** Once recovery begins behind that group, its witness proves nothing. So before
//! the superblock advances the start of replay, the cached lines are written back. The first group
//! after the checkpoint leaves a witness as on a new page. Without both, the loss of the page would
//! hide all groups on it that came after the checkpoint. A group that is acknowledged during the
//! checkpoint may read the old start and leave no such witness; the next group then does. So right
//! after a checkpoint the last two groups of the log may have none, instead of the last one.
//!
//! The witnesses of pages have lines of their own. In a shared line a later store into the cache
//! could reach memory in part, and make both witnesses invalid.

use super::domain::Domain;
use super::stores::{Mapped, Stores};
use crate::cpu::LineWriteBack;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use crate::traits::Witness;
use system::mutants::{Mutant, injected};

/// Unit of loss that a power failure leaves provable.
const PAGE_BYTES: u64 = 4096;

/// Lines that the witnesses of all groups use in turn, the last ones. So an end of the process
/// between the two words of a witness leaves the one before.
const LATEST: usize = 2;

/// Words of a witness that are not always 0.
const USED_WORDS: usize = 2;

/// The lines that witnesses are stored to.
#[derive(Debug)]
pub(super) struct Witnesses {
    mapped: Mapped,
    /// Word indexes of the lines in `mapped`.
    places: Vec<usize>,
    /// Number of groups that have left a witness.
    groups: AtomicUsize,
    /// End of the last group that left a witness of a page: a sequence of the log.
    witnessed: AtomicU64,
    /// Recovery does not need the log up to this sequence.
    recycled: AtomicU64,
    /// Whether `due` has a witness.
    is_due: AtomicBool,
    due: Mutex<Due>,
}

/// The witnesses of pages.
#[derive(Debug, Default)]
struct Due {
    /// Number of the line of the next one.
    number: usize,
    /// The one for the next append to store.
    witness: Option<Witness>,
}

impl Witnesses {
    /// Lines at these word indexes: at least one for pages and two for all groups.
    pub(super) fn new(mapped: Mapped, places: Vec<usize>) -> Witnesses {
        assert!(places.len() > LATEST, "both kinds have lines");
        let groups = AtomicUsize::new(0);
        let (witnessed, recycled) = (AtomicU64::new(0), AtomicU64::new(0));
        let (is_due, due) = (AtomicBool::new(false), Mutex::default());
        Witnesses { mapped, places, groups, witnessed, recycled, is_due, due }
    }

    /// Leaves the witness of a group that is durable and ends at this sequence of the log. One
    /// thread at a time calls it, in the order of the groups.
    #[inline]
    pub(super) fn leave(&self, domain: &Domain, end: u64, witness: &Witness) {
        // Relaxed: one thread at a time, and its lock orders the threads.
        let number = self.groups.load(Ordering::Relaxed);
        self.groups.store(number.wrapping_add(1), Ordering::Relaxed);
        let place = self.places[self.places.len() - LATEST + number % LATEST];
        match &self.mapped {
            Mapped::Real(mapping) => mapping.words().store(place, &witness[..USED_WORDS]),
            Mapped::Simulated(memory) => memory.store(place, &witness[..USED_WORDS]),
        }
        let witnessed = self.witnessed.load(Ordering::Relaxed);
        let is_first = end.div_ceil(PAGE_BYTES) > witnessed.div_ceil(PAGE_BYTES);
        let is_needed = is_first || self.is_recycled(witnessed);
        if is_needed && domain.write_back().is_some() && !injected(Mutant::PageWitnessLeftOut) {
            self.witnessed.store(end, Ordering::Relaxed);
            let mut due = lock(&self.due);
            due.witness = Some(*witness);
            // Under the lock, so that the flag is set while there is a witness.
            self.is_due.store(true, Ordering::Relaxed);
        }
    }

    /// Whether recovery begins behind the group that ends here.
    #[inline]
    fn is_recycled(&self, end: u64) -> bool {
        // Relaxed: see the module's documentation.
        end <= self.recycled.load(Ordering::Relaxed) && !injected(Mutant::CheckpointVoidsWitness)
    }

    /// Makes the witnesses of all groups durable. Called before recovery may skip the log up to
    /// this sequence.
    pub(super) fn keep(&self, domain: &Domain, recycled: u64) {
        self.recycled.store(recycled, Ordering::Relaxed);
        let Some(way) = domain.write_back() else { return };
        if injected(Mutant::WitnessNotKept) {
            return;
        }
        let places = &self.places[self.places.len() - LATEST..];
        match &self.mapped {
            Mapped::Real(mapping) => write_back(mapping.words(), way, places),
            Mapped::Simulated(memory) => write_back(&**memory, way, places),
        }
    }

    /// Stores the witness of a page past the cache if one is due: the caller's next fence makes it
    /// durable. Returns the number of lines stored.
    #[inline]
    pub(super) fn store_due(&self, domain: &Domain) -> u64 {
        // Relaxed: the lock publishes the witness. The lock of a pool's only persist step orders an
        // acknowledgement and the next append. Of several steps, a later one sees the flag.
        match self.is_due.load(Ordering::Relaxed) {
            true => self.store_page(domain),
            false => 0,
        }
    }

    #[cold]
    fn store_page(&self, domain: &Domain) -> u64 {
        // The locked instructions come before the store, as each would wait for it.
        let (place, witness) = {
            let Due { number, witness } = &mut *lock(&self.due);
            // Another thread may have taken it.
            let Some(witness) = witness.take() else { return 0 };
            self.is_due.store(false, Ordering::Relaxed);
            let place = self.places[*number];
            *number = (*number + 1) % (self.places.len() - LATEST);
            (place, witness)
        };
        match &self.mapped {
            Mapped::Real(mapping) => domain.store_line(mapping.words(), place, &witness),
            Mapped::Simulated(memory) => domain.store_line(&**memory, place, &witness),
        }
        1
    }

    /// Reads all lines.
    pub(super) fn read(&self) -> Vec<Witness> {
        let mut witnesses = vec![Witness::default(); self.places.len()];
        for (first, witness) in self.places.iter().zip(&mut witnesses) {
            self.mapped.read(*first, witness);
        }
        witnesses
    }
}

/// Writes these lines back, durably on return.
fn write_back(memory: &(impl Stores + ?Sized), way: LineWriteBack, places: &[usize]) {
    for place in places {
        memory.write_back(way, *place);
    }
    memory.fence();
}
