//! Random programs against a model of the allocated objects.

use std::collections::BTreeMap;

use proptest::prelude::*;
use words::{Addr, Allocate, BLOCK_BYTES, PIECE_BYTES, PIECE_STRIDE, Stop, Words, block_stride};

use crate::Plan;
use crate::classes::{SLOT_STRING_BYTES_MAX, string_bytes};
use crate::head::class_in;
use crate::header::Kind;
use crate::layout::Layout;
use crate::survey::{ClassUsage, Usage};
use crate::test_heap::{LAYOUTS, TestHeap};

/// One step of one transaction.
#[derive(Clone, Debug)]
enum Step {
    Allocate {
        bytes: usize,
    },
    /// Free the live object or run with this number, modulo their count.
    Free {
        which: usize,
    },
    Reserve {
        blocks: u64,
    },
    Prepare {
        which: usize,
        most: u64,
    },
    /// Allocate a byte string.
    String {
        bytes: u64,
    },
    /// Return the slots and slabs of all arenas.
    Reclaim,
    /// Change the size of the live object or string with this number.
    Resize {
        which: usize,
        to: u64,
    },
}

/// A live object with its size and content, or a live run with its blocks and its prepared ones.
#[derive(Clone, Debug, PartialEq)]
enum Live {
    /// An object or a byte string.
    Object {
        bytes: u64,
        mark: u64,
    },
    Run {
        blocks: u64,
        prepared: u64,
    },
}

impl Live {
    /// Returns the bytes from the first of the header, or of the object, to its last.
    fn extent(&self, layout: Layout) -> u64 {
        match self {
            Live::Object { bytes, .. } if is_string(*bytes) => string_bytes(*bytes),
            Live::Object { bytes, .. } => layout.header_bytes() + *bytes,
            Live::Run { blocks, .. } => blocks * layout.block_stride(),
        }
    }
}

fn is_string(bytes: u64) -> bool {
    bytes > words::OBJECT_BYTES_MAX as u64
}

/// Returns the addresses of the words of an object or string.
fn words_of(first: u64, bytes: u64) -> impl Iterator<Item = Addr> {
    (0..bytes).step_by(8).map(move |offset| match is_string(bytes) {
        true => Addr::new(first + offset / PIECE_BYTES * PIECE_STRIDE, offset % PIECE_BYTES),
        false => Addr::new(first, offset),
    })
}

/// Returns the bytes that a check counts for an object: without a header, those of its slot.
fn counted(heap: &TestHeap, first: u64, bytes: u64) -> u64 {
    let layout = heap.layout();
    if layout.has_headers() || is_string(bytes) {
        return bytes;
    }
    let head = heap.heap.head(first % (1 << words::ADDRESS_BITS) / layout.unit_bytes());
    let class = class_in(heap.word(head - 8), head).unwrap();
    assert!(class >= layout.class_of(bytes as usize).unwrap(), "a full heap uses larger slots");
    layout.payload_bytes(class)
}

/// A transaction: its arena, its steps, and whether it commits.
type Transaction = (usize, Vec<Step>, bool);

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..=1024_usize).prop_map(|bytes| Step::Allocate { bytes }),
        3 => (1..=48_usize).prop_map(|bytes| Step::Allocate { bytes }),
        7 => any::<usize>().prop_map(|which| Step::Free { which }),
        1 => (1..=700_u64).prop_map(|blocks| Step::Reserve { blocks }),
        2 => (1025..40_000_u64).prop_map(|bytes| Step::String { bytes }),
        3 => (any::<usize>(), prop_oneof![1..1100_u64, 1000..40_000_u64])
            .prop_map(|(which, to)| Step::Resize { which, to }),
        1 => (any::<usize>(), 0..300_u64).prop_map(|(which, most)| Step::Prepare { which, most }),
        1 => Just(Step::Reclaim),
    ]
}

fn transactions() -> impl Strategy<Value = Vec<Transaction>> {
    let steps = proptest::collection::vec(step(), 1..12);
    let arena = prop_oneof![0..3_usize, Just(crate::ARENAS - 1)];
    proptest::collection::vec((arena, steps, prop::bool::weighted(0.8)), 1..60)
}

/// Applies a step to the heap and the model.
fn take(tx: &mut TestHeap, live: &mut BTreeMap<u64, Live>, step: &Step) -> Result<(), Stop> {
    let nth = |live: &BTreeMap<u64, Live>, which: usize| {
        let (&first, thing) = live.iter().nth(which % live.len().max(1))?;
        Some((first, thing.clone()))
    };
    match *step {
        Step::Allocate { bytes } => {
            let object = tx.allocate(bytes)?;
            fill(tx, live, object, bytes as u64)?;
        }
        Step::String { bytes } => {
            let object = tx.allocate_pieces(bytes)?;
            fill(tx, live, object, bytes)?;
        }
        Step::Resize { which, to } => {
            let Some((first, Live::Object { bytes, .. })) = nth(live, which) else {
                return Ok(());
            };
            if tx.resize(first, bytes, to)? {
                assert_eq!(is_string(bytes), is_string(to));
                live.remove(&first);
                fill(tx, live, first, to)?;
            }
        }
        Step::Reclaim => {
            let heap = tx.heap;
            let mut plan = Plan::new(heap.classes(), heap.owners(tx)?);
            while let Some(step) = plan.step() {
                plan.done(Some(heap.reclaim(tx, step)?));
            }
        }
        Step::Reserve { blocks } => {
            let first = tx.reserve_blocks(blocks)?;
            assert_eq!(live.insert(first, Live::Run { blocks, prepared: 0 }), None);
        }
        Step::Free { which } => {
            let Some((first, thing)) = nth(live, which) else { return Ok(()) };
            let bytes = match thing {
                Live::Object { bytes, .. } => bytes,
                Live::Run { blocks, .. } => blocks * BLOCK_BYTES,
            };
            tx.retire(Addr::new(first, 0), bytes)?;
            live.remove(&first);
        }
        Step::Prepare { which, most } => {
            let Some((first, Live::Run { blocks, prepared })) = nth(live, which) else {
                return Ok(());
            };
            let left = tx.prepare_blocks(first, most)?;
            let prepared = blocks.min(prepared + most);
            assert_eq!(left, blocks - prepared);
            live.insert(first, Live::Run { blocks, prepared });
        }
    }
    Ok(())
}

/// Writes all words of a new object or string.
fn fill(
    tx: &mut TestHeap,
    live: &mut BTreeMap<u64, Live>,
    object: u64,
    bytes: u64,
) -> Result<(), Stop> {
    let mark = object.rotate_left(20) ^ live.len() as u64;
    for (offset, at) in words_of(object, bytes).enumerate() {
        tx.program_writes(at, mark ^ offset as u64)?;
    }
    assert_eq!(live.insert(object, Live::Object { bytes, mark }), None);
    Ok(())
}

/// Asserts that no objects overlap, all hold their written values, and the check's counts agree.
fn agree(heap: &mut TestHeap, live: &BTreeMap<u64, Live>) {
    let layout = heap.layout();
    let mut end = 0;
    let (mut objects, mut object_bytes, mut runs, mut blocks_all, mut ready) = (0, 0, 0, 0, 0);
    for (&first, thing) in live {
        let start = first - layout.header_bytes();
        assert!(first.is_multiple_of(16) && start >= end, "{first:#x} overlaps");
        end = start + thing.extent(layout);
        if !layout.has_headers() {
            assert!(first.is_multiple_of(64), "{first:#x} starts inside a line");
            end = end.next_multiple_of(64);
        }
        match *thing {
            Live::Object { bytes, mark } => {
                objects += 1;
                object_bytes += counted(heap, first, bytes);
                for (offset, at) in words_of(first, bytes).enumerate() {
                    assert_eq!(heap.run(|tx| tx.read(at)), Ok(mark ^ offset as u64));
                }
            }
            Live::Run { blocks, prepared } => {
                runs += 1;
                blocks_all += blocks;
                ready += prepared;
            }
        }
    }
    let usage = heap.check().unwrap();
    assert_eq!((usage.objects, usage.object_bytes), (objects, object_bytes));
    assert_eq!((usage.arrays, usage.blocks, usage.blocks_prepared), (runs, blocks_all, ready));
    let now = heap.heap.usage_now(|offset| heap.word(offset));
    assert_eq!(now, Usage { object_bytes: 0, ..usage.clone() }, "the estimate is exact at rest");
    covers_heap(&usage, layout);
    walk_finds(heap, live);
}

/// Asserts that live and free memory add up to the heap. The rest is the allocator's first run, and
/// in each slab its head and less than a slot and a unit.
fn covers_heap(usage: &Usage, layout: Layout) {
    let counted = usage.live_bytes() + usage.free_bytes + usage.free_slot_bytes();
    let most = |class: &ClassUsage| class.slabs * (64 + class.slot_bytes + layout.unit_bytes());
    let rest: u64 = usage.classes.iter().map(most).sum();
    let own = layout.offset(layout.own_units());
    let left = usage.heap_bytes - counted;
    assert!(left >= own && left <= own + rest, "{left} bytes are neither live nor free: {usage:?}");
    assert!((0.0..=1.0).contains(&usage.fragmentation()));
}

/// Asserts that a walk visits every live object once, in order.
fn walk_finds(heap: &TestHeap, live: &BTreeMap<u64, Live>) {
    let layout = heap.layout();
    let expected = live.iter().flat_map(|(&first, thing)| match *thing {
        Live::Object { bytes, .. } => {
            let large = !layout.has_headers() || bytes > SLOT_STRING_BYTES_MAX;
            let kind = match (is_string(bytes), large) {
                (false, _) => Kind::Object,
                (true, false) => Kind::SlotString,
                (true, true) => Kind::RunString,
            };
            vec![(first, kind, counted(heap, first, bytes))]
        }
        Live::Run { prepared, .. } => {
            let block = |i| (first + i * block_stride(first), Kind::Block, BLOCK_BYTES);
            (0..prepared).map(block).collect()
        }
    });
    let found = heap.live();
    assert!(found.iter().map(|live| (live.object, live.kind, live.bytes)).eq(expected));
    for live in found {
        assert_eq!(live.offset, live.object % (1 << 48));
        assert!(live.taken_bytes >= live.bytes + layout.header_bytes());
        assert!(heap.heap.is_live_at_rest(live.object, |offset| heap.word(offset)));
    }
}

/// Runs transactions; returns how many committed, were aborted, and met a full heap.
fn play(layout: Layout, transactions: &[Transaction]) -> [usize; 3] {
    let mut heap = TestHeap::laid_out(layout, 12);
    let mut live = BTreeMap::new();
    let mut outcomes = [0; 3];
    for (arena, steps, commits) in transactions {
        heap.arena = *arena;
        let (before, words) = (live.clone(), heap.words.clone());
        let result = heap.run(|tx| {
            steps.iter().try_for_each(|step| take(tx, &mut live, step))?;
            if *commits { Ok(()) } else { Err(Stop::Aborted) }
        });
        let outcome = match result {
            Ok(()) => 0,
            Err(stop) => {
                live = before;
                assert!(heap.words == words, "an aborted transaction changed the heap");
                match stop {
                    Stop::Aborted => 1,
                    Stop::Full => 2,
                    other => panic!("{other}"),
                }
            }
        };
        outcomes[outcome] += 1;
        agree(&mut heap, &live);
    }
    outcomes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn heap_agrees_with_model(transactions in transactions()) {
        for layout in LAYOUTS {
            play(layout, &transactions);
        }
    }
}

#[test]
fn model_test_covers_commits_aborts_and_full_heaps() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    for layout in LAYOUTS {
        let mut runner = TestRunner::deterministic();
        let mut seen = [0; 3];
        for _ in 0..20 {
            let transactions = transactions().new_tree(&mut runner).unwrap().current();
            for (all, outcome) in seen.iter_mut().zip(play(layout, &transactions)) {
                *all += outcome;
            }
        }
        assert!(seen.iter().all(|&n| n >= 5), "{seen:?}");
    }
}
