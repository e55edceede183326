//! Anonymous mappings that a thread keeps, for programs that open thousands of small pools.
//!
//! A crash explorer opens a pool thousands of times a second. Without this module, 40 % of its time
//! passed in `mmap`, page faults and `munmap` of the same few sizes.
//!
//! A kept mapping is filled with zeros before it is used again, so it equals a new one.

use std::cell::RefCell;
use std::ffi::c_void;
use std::marker::PhantomData;

use super::Map;

/// Largest mapping that is kept: for larger ones, zeros cost as much as new pages.
const BYTES_MAX: usize = 1 << 20;

/// Number of mappings that a thread keeps: more than a small pool with its workers has.
const MAPS_MAX: usize = 32;

std::thread_local!(static KEPT: RefCell<Kept> = const {
    RefCell::new(Kept { guards: 0, maps: Vec::new() })
});

struct Kept {
    /// Guards of this thread.
    guards: usize,
    maps: Vec<Map>,
}

/// While it exists, its thread keeps the memory of dropped [`Memory`](crate::Memory) of up to 1 MiB
/// and uses it again. A program needs it only if it opens and closes small pools all the time.
///
/// ```
/// use medium::sync::Ordering::Relaxed;
/// use medium::{KeptMemory, Memory};
///
/// let kept = KeptMemory::on_this_thread();
/// let first = Memory::anonymous(4096)?;
/// first.words()[7].store(42, Relaxed);
/// let place = first.words().as_ptr();
/// drop(first);
/// let again = Memory::anonymous(4096)?;
/// assert_eq!((again.words().as_ptr(), again.words()[7].load(Relaxed)), (place, 0));
/// # Ok::<(), medium::Error>(())
/// ```
#[derive(Debug)]
pub struct KeptMemory {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl KeptMemory {
    /// Keeps the memory of this thread from now on.
    pub fn on_this_thread() -> KeptMemory {
        KEPT.with_borrow_mut(|kept| kept.guards += 1);
        KeptMemory { _thread: PhantomData }
    }
}

impl Drop for KeptMemory {
    fn drop(&mut self) {
        let unused = KEPT.with_borrow_mut(|kept| {
            kept.guards -= 1;
            if kept.guards == 0 { std::mem::take(&mut kept.maps) } else { Vec::new() }
        });
        // Outside of the borrow: each of them asks again whether it is kept.
        drop(unused);
    }
}

/// Returns kept memory of this length, with any content.
pub(super) fn take(bytes: usize) -> Option<Map> {
    let map = KEPT.try_with(|kept| {
        let maps = &mut kept.borrow_mut().maps;
        let found = maps.iter().rposition(|map| map.bytes == bytes)?;
        Some(maps.swap_remove(found))
    });
    map.ok().flatten()
}

/// Keeps the memory of a mapping that ends, unless this thread keeps none, or enough. Returns
/// whether the caller has given it up; if not, it has to unmap it.
pub(super) fn keep(start: *mut c_void, bytes: usize) -> bool {
    let kept = KEPT.try_with(|kept| {
        let Kept { guards, maps } = &mut *kept.borrow_mut();
        let keeps = *guards > 0 && bytes <= BYTES_MAX && maps.len() < MAPS_MAX;
        if keeps {
            maps.push(Map { start, bytes, is_plain: true });
        }
        keeps
    });
    kept.unwrap_or(false) // the thread ends
}

#[cfg(test)]
mod tests {
    use super::super::Mapping;
    use super::*;
    use crate::sync::Ordering::Relaxed;

    fn kept() -> usize {
        KEPT.with_borrow(|kept| kept.maps.len())
    }

    #[test]
    fn mappings_are_kept_only_under_guard() {
        drop(Mapping::anonymous(8192).unwrap());
        assert_eq!(kept(), 0);
        let guards = [KeptMemory::on_this_thread(), KeptMemory::on_this_thread()];
        let small = [1, 2].map(|_| Mapping::anonymous(8192).unwrap());
        small.iter().for_each(|mapping| mapping.words()[0].store(1, Relaxed));
        drop(small);
        drop(Mapping::anonymous(BYTES_MAX + 8).unwrap());
        assert_eq!(kept(), 2);
        let again = Mapping::anonymous(8192).unwrap();
        assert!(again.words().iter().all(|word| word.load(Relaxed) == 0));
        assert_eq!(kept(), 1);
        drop(again);
        let unused = Mapping::unused(8192).unwrap();
        assert_eq!((kept(), unused.words().len()), (1, 0));
        drop(unused);
        assert_eq!(kept(), 2);
        let [first, last] = guards;
        drop(first);
        assert_eq!(kept(), 2);
        drop(last);
        assert_eq!(kept(), 0);
    }

    #[test]
    fn thread_keeps_bounded_number_of_mappings() {
        let _guard = KeptMemory::on_this_thread();
        let many: Vec<_> = (0..2 * MAPS_MAX).map(|_| Mapping::anonymous(4096).unwrap()).collect();
        drop(many);
        assert_eq!(kept(), MAPS_MAX);
    }
}
