//! The reason why a heap has no room for a request, and the frees that would make room.
//!
//! Each remedy is sufficient, given the usage that it was computed from:
//! - A slot that would serve: an object in it is freed. Requests of its own class find the slot,
//!   and so do those of smaller classes when the heap is nearly full.
//! - A long run: an array or byte string of that length is freed, and its run is free.
//! - A class with a slab of that length: all of its objects are freed, so the slab becomes free.

use words::OBJECT_BYTES_MAX;

use crate::classes::string_class;
use crate::survey::{ClassUsage, Request, Shortage, Usage};
use crate::{CHUNK_BYTES, Heap};

impl Heap {
    /// Returns the reason why the heap with this usage has no room for the request.
    pub fn shortage(&self, usage: &Usage, request: Request) -> Shortage {
        let layout = self.layout;
        let class = match request {
            Request::Bytes(bytes) if bytes <= OBJECT_BYTES_MAX as u64 => {
                layout.class_of(bytes as usize)
            }
            Request::Bytes(bytes) => string_class(bytes).filter(|_| layout.has_headers()),
            Request::Blocks(_) => None,
        };
        let units = match (class, request) {
            (Some(class), _) => Some(layout.slab_units_min(class)),
            (None, Request::Bytes(bytes)) => layout.units_for_string(bytes),
            (None, Request::Blocks(blocks)) => layout.units_for_blocks(blocks),
        };
        let bytes = |units: u64| units.checked_mul(layout.unit_bytes());
        let needed_bytes = units.and_then(bytes).unwrap_or(u64::MAX);
        let own = layout.offset(layout.own_units());
        let heap_bytes_min = needed_bytes
            .checked_add(own)
            .and_then(|bytes| bytes.checked_next_multiple_of(CHUNK_BYTES));
        let serves = |of: &&ClassUsage| class.is_some_and(|class| self.serves(class, of));
        let equal = || usage.classes.iter().filter(serves);
        let makes_run =
            |of: &&ClassUsage| of.live > 0 && of.largest_slab_bytes >= needed_bytes && !serves(of);
        let class = usage.classes.iter().filter(makes_run).min_by_key(|class| class.live);
        Shortage {
            needed_bytes,
            heap_bytes_min: heap_bytes_min.unwrap_or(u64::MAX),
            fits: usage.largest_free_bytes >= needed_bytes
                || equal().any(|class| class.live < class.slots),
            equal_live: equal().map(|class| class.live).sum(),
            long_run_live: usage.largest_live_bytes >= needed_bytes,
            class: class.map(|class| (class.slot_bytes, class.live)),
        }
    }

    /// Returns whether slots of the other class serve a request for this one in a full heap.
    fn serves(&self, class: usize, of: &ClassUsage) -> bool {
        let mut classes =
            (class..self.layout.classes()).take_while(|&of| self.may_serve(class, of));
        classes.any(|class| self.layout.slot_bytes(class) == of.slot_bytes)
    }
}

#[cfg(test)]
mod tests {
    use words::{Addr, Allocate, Stop, Words};

    use super::*;
    use crate::layout::Layout;
    use crate::test_heap::TestHeap;

    fn shortage(heap: &TestHeap, request: Request) -> Shortage {
        let usage = heap.heap.usage_now(|offset| heap.word(offset));
        heap.heap.shortage(&usage, request)
    }

    /// Allocates objects until the heap is full, also after a reclaim.
    fn fill(heap: &mut TestHeap, bytes: usize) -> Vec<u64> {
        let mut objects = Vec::new();
        while let Ok(object) = heap.run_reclaiming(|tx| tx.allocate(bytes)) {
            objects.push(object);
        }
        objects
    }

    fn free(heap: &mut TestHeap, object: u64, bytes: u64) {
        heap.run(|tx| tx.retire(Addr::new(object, 0), bytes)).unwrap();
    }

    #[test]
    fn each_remedy_of_a_full_heap_makes_room() {
        let mut heap = TestHeap::laid_out(Layout::Ordinary, 32);
        let array = heap.run(|tx| tx.reserve_blocks(40)).unwrap();
        let objects = fill(&mut heap, 100);

        // One more of the same size: an object of its class, or the array, must go.
        let full = shortage(&heap, Request::Bytes(100));
        assert!(!full.fits && full.long_run_live, "{full:?}");
        assert_eq!((full.equal_live, full.class), (objects.len() as u64, None));
        free(&mut heap, objects[0], 100);
        assert!(shortage(&heap, Request::Bytes(100)).fits);
        let object = heap.run_reclaiming(|tx| tx.allocate(100)).unwrap();

        // Another size: none of it is live. The array makes room, and so does the other class.
        let full = shortage(&heap, Request::Bytes(500));
        assert!(!full.fits && full.long_run_live, "{full:?}");
        assert_eq!((full.equal_live, full.class), (0, Some((128, objects.len() as u64))));
        assert_eq!(heap.run_reclaiming(|tx| tx.allocate(500)), Err(Stop::Full));
        for &object in objects[1..].iter().chain([&object]) {
            free(&mut heap, object, 100);
        }
        let other = heap.run_reclaiming(|tx| tx.allocate(500)).unwrap();
        free(&mut heap, other, 500);
        fill(&mut heap, 100);
        assert_eq!(heap.run_reclaiming(|tx| tx.allocate(500)), Err(Stop::Full));
        free(&mut heap, array, 40 * 256);
        heap.run_reclaiming(|tx| tx.allocate(500)).unwrap();
    }

    #[test]
    fn smallest_heap_for_a_request_serves_it() {
        let heap = Heap::new(1, 1 << 20);
        let usage = Usage::default();
        for request in [
            Request::Bytes(1),
            Request::Bytes(5000),
            Request::Bytes(3 << 20),
            Request::Blocks(5000),
        ] {
            let bytes = heap.shortage(&usage, request).heap_bytes_min;
            let mut least = TestHeap::zeros_of(Layout::Ordinary, bytes);
            least.run(|tx| tx.format()).unwrap();
            let done = least.run(|tx| match request {
                Request::Bytes(bytes) if bytes <= 1024 => tx.allocate(bytes as usize),
                Request::Bytes(bytes) => tx.allocate_pieces(bytes),
                Request::Blocks(blocks) => tx.reserve_blocks(blocks),
            });
            done.unwrap_or_else(|stop| panic!("{request:?} in {bytes} bytes: {stop}"));
        }
        let beyond = heap.shortage(&usage, Request::Blocks(u64::MAX));
        assert_eq!((beyond.needed_bytes, beyond.heap_bytes_min), (u64::MAX, u64::MAX));
    }
}
