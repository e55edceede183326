//! A link: the word in an object's header that leads to its newer copy.
//!
//! ```text
//!   63              33 32 31     26 25                          0
//!   | generation      | 1 | worker | word in the worker's copies |        0: there is no copy
//! ```
//!
//! Links are void after a crash, because the generation has changed by then. So recovery does not
//! need to find the links that a crash left in the heap. The generation grows by one with each
//! opening, and 31 bits of it do not wrap.
//!
//! A link may also be stale data of an earlier use of the memory. So a reader checks that the copy
//! at the link belongs to the object.

/// Bits of the place of a copy.
const PLACE_BITS: u32 = 26;
/// Bits of a worker's number.
const WORKER_BITS: u32 = 6;

/// Maximum number of workers that a link can address.
pub(crate) const WORKERS_MAX: usize = 1 << WORKER_BITS;
/// Maximum words of a worker's copies that a link can address.
pub(super) const PLACES_MAX: usize = 1 << PLACE_BITS;

/// No copy.
pub(super) const EMPTY: u64 = 0;

/// The links of one generation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    tag: u64,
}

impl Links {
    pub(super) fn new(generation: u64) -> Links {
        Links { tag: (generation << 1 | 1) << 32 }
    }

    #[inline(always)]
    pub(super) fn to(self, worker: usize, place: usize) -> u64 {
        self.tag | (worker as u64) << PLACE_BITS | place as u64
    }

    /// Returns the worker and the place, or `None` for a void link.
    #[inline(always)]
    pub(super) fn follow(self, link: u64) -> Option<(usize, usize)> {
        let place = (link & (PLACES_MAX as u64 - 1)) as usize;
        let worker = (link >> PLACE_BITS) as usize & (WORKERS_MAX - 1);
        ((link ^ self.tag) >> 32 == 0).then_some((worker, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_of_another_generation_is_void() {
        for (worker, place) in [(0, 0), (1, 7), (WORKERS_MAX - 1, PLACES_MAX - 1)] {
            for generation in [0, 1, 77, 1 << 40] {
                let link = Links::new(generation).to(worker, place);
                assert_ne!(link, EMPTY);
                assert_eq!(Links::new(generation).follow(link), Some((worker, place)));
                assert_eq!(Links::new(generation + 1).follow(link), None);
            }
        }
        assert_eq!(Links::new(0).follow(EMPTY), None);
    }
}
