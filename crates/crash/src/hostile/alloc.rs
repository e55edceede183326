//! The allocator over a corrupt heap.

use lw_alloc::{ARENAS, CHUNK_BYTES, Heap, Survey};
use words::{ADDRESS_BITS, Addr, Stop, Words};

use super::Input;

const TAG: u16 = 0x5a5a;
const CHUNKS: u64 = 6;

/// A heap in memory, without isolation or rollback.
struct Bare {
    words: Vec<u64>,
    heap: Heap,
}

impl Bare {
    fn at(&mut self, at: Addr) -> Result<&mut u64, Stop> {
        let offset = at.byte().wrapping_sub(u64::from(TAG) << ADDRESS_BITS);
        self.words.get_mut((offset / 8) as usize).ok_or(Stop::BadPointer)
    }

    fn word(&self, offset: u64) -> u64 {
        assert!(offset.is_multiple_of(8), "only whole words are requested");
        self.words[(offset / 8) as usize]
    }
}

impl Words for Bare {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.at(at).copied()
    }

    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        *self.at(at)? = value;
        Ok(())
    }

    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        let heap = self.heap;
        heap.retire(self, 0, at, bytes).map(drop)
    }
}

/// Makes a sound heap with every kind of content. It has live and free objects of several classes
/// and arenas, byte strings in a slot and in a run, and free runs. Its arrays are prepared whole,
/// in part and not at all.
fn sound() -> Bare {
    let heap = Heap::new(TAG, CHUNKS * CHUNK_BYTES);
    let words = vec![0; (CHUNKS * CHUNK_BYTES / 8) as usize];
    let mut bare = Bare { words, heap };
    let tx = &mut bare;
    let works = "a heap of six chunks has room";
    heap.format(tx).expect(works);
    let objects = [48, 48, 48, 48, 200].map(|bytes| heap.allocate(tx, 0, bytes).expect(works));
    heap.retire(tx, 1, Addr::new(objects[2], 0), 48).expect(works);
    heap.retire(tx, 1, Addr::new(objects[1], 0), 48).expect(works);
    let runs = [3, 1, 1].map(|blocks| heap.reserve_blocks(tx, blocks).expect(works));
    heap.prepare_blocks(tx, runs[0], 2).expect(works);
    heap.retire(tx, 0, Addr::new(runs[1], 0), 256).expect(works);
    for bytes in [1025, 3000, 40_000] {
        heap.allocate_pieces(tx, 2, bytes).expect(works);
    }
    heap.set_root(tx, objects[0]).expect(works);
    bare
}

/// Runs the target. The first byte selects a sound heap or one of the input's own words.
pub fn alloc(input: &[u8]) {
    let mut input = Input::new(input);
    let mut bare = sound();
    if input.bit() {
        let own = input.rest();
        for (word, bytes) in bare.words.iter_mut().zip(own.chunks(8)) {
            *word = Input::new(bytes).word();
        }
        look(&bare);
        return;
    }
    while !input.is_empty() {
        match input.byte() % 4 {
            // In the metadata small numbers get further than random words.
            0 | 1 => {
                let unit = input.below(CHUNKS * CHUNK_BYTES / 1024) as usize * 128;
                input.change(&mut bare.words[unit..unit + 10]);
            }
            2 => input.change(&mut bare.words[..10_240]), // the first run
            _ => input.change(&mut bare.words),
        }
        if input.bit() {
            look(&bare);
            act(&mut bare, &mut input);
        }
    }
    look(&bare);
}

/// Checks the heap by every method; their results agree.
fn look(bare: &Bare) {
    let heap = bare.heap;
    let (checked, survey) = (heap.check(|at| bare.word(at)), heap.survey(|at| bare.word(at)));
    assert_eq!(checked.as_ref().err(), survey.damage.first());
    assert!(survey.damage.len() <= Survey::DAMAGE_MAX);
    let live = heap.live(|at| bare.word(at)).take(1 << 20).count() as u64;
    if let Ok(usage) = checked {
        assert_eq!(usage, survey.usage);
        assert_eq!(usage.objects + usage.blocks_prepared, live, "walk and check disagree");
        assert!(survey.complete);
    }
    assert!(live <= CHUNKS * CHUNK_BYTES / 16, "objects overlap");
    let root = heap.root_at_rest(|at| bare.word(at));
    let _ = heap.is_live_at_rest(root, |at| bare.word(at));
}

/// Calls one of a program's operations; any result is allowed, but it must return.
fn act(bare: &mut Bare, input: &mut Input<'_>) {
    let heap = bare.heap;
    let arena = input.byte() as usize % ARENAS;
    let object = (u64::from(TAG) << ADDRESS_BITS) + 16 * input.below(CHUNKS * CHUNK_BYTES / 16);
    match input.byte() % 4 {
        0 => drop(heap.allocate(bare, arena, 1 + input.below(1024) as usize)),
        1 => drop(heap.retire(bare, arena, Addr::new(object, 0), 1 + input.below(1024))),
        2 => drop(heap.reserve_blocks(bare, 1 + input.below(1000))),
        _ => drop(heap.prepare_blocks(bare, object, input.below(64))),
    }
}
