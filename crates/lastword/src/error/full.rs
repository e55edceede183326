//! The message of a full heap: the free memory, the reason why it does not suffice, and the
//! remedies.

use lw_alloc::{CHUNK_BYTES, Shortage};

/// Free memory of the heap: in all free runs, in the longest one, and in free slots.
pub(super) type Free = (u64, u64, u64);

/// Describes the lack of room for a request of `wanted` bytes; 0 when its size is unknown.
pub(super) fn no_room(wanted: u64, heap_bytes: u64, free: Free, shortage: &Shortage) -> String {
    let (free_bytes, largest, slots) = free;
    let what = if wanted == 0 { "the request".into() } else { format!("{wanted} bytes more") };
    let found = format!(
        "{free_bytes} bytes are free, {largest} of them in one piece, and {slots} bytes in free \
         slots of objects"
    );
    let Shortage { needed_bytes, heap_bytes_min, fits, .. } = *shortage;
    let why = match () {
        () if needed_bytes == 0 => {
            format!("{found}: free objects, or let the heap grow (`max_bytes`)")
        }
        () if heap_bytes_min == u64::MAX => "no heap is so large".into(),
        () if heap_bytes_min > heap_bytes => {
            format!(
                "let the heap grow: it needs `max_bytes` of at least {heap_bytes_min}, or \
                 `lastword pool grow` while the pool is closed"
            )
        }
        // The usage is that after the roll-back.
        () if fits => format!(
            "the transaction, or another one at the same time, had taken memory that is free again \
             now: {found}; allocate less in one transaction, or free objects first, or let the \
             heap grow (`max_bytes`)"
        ),
        () if free_bytes + slots >= needed_bytes => {
            format!("enough is free, but in pieces: {found}; {}", remedies(heap_bytes, shortage))
        }
        () => format!("too little is free: {found}; {}", remedies(heap_bytes, shortage)),
    };
    format!("{what}; {why}")
}

/// Lists the remedies, each of which makes room by itself.
fn remedies(heap_bytes: u64, shortage: &Shortage) -> String {
    let Shortage { needed_bytes, equal_live, long_run_live, class, .. } = *shortage;
    let mut remedies = Vec::new();
    if equal_live > 0 {
        remedies.push(format!("free one of the {equal_live} objects of about this size"));
    }
    if long_run_live {
        remedies.push(format!(
            "free an array or a long byte string that takes {needed_bytes} bytes or more"
        ));
    }
    if let Some((slot_bytes, live)) = class {
        remedies.push(format!("free all {live} objects in slots of {slot_bytes} bytes"));
    }
    if remedies.is_empty() {
        remedies.push(format!("free objects until {needed_bytes} bytes are free in one piece"));
    }
    let larger = heap_bytes.saturating_add(needed_bytes.next_multiple_of(CHUNK_BYTES));
    remedies.push(format!("let the heap grow: `max_bytes` of at least {larger}"));
    remedies.join(", or ")
}
