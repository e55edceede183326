//! The use of a pool's heap, in the reports of `pool info`, `pool check` and `run`.

use lastword::{ClassUsage, Usage};
use serde::Serialize;

use super::table;

/// Live and free memory of a heap.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HeapUse {
    /// Objects, byte strings and arrays with their headers and rounding.
    live_bytes: u64,
    /// Free runs, which serve any request that is not longer.
    free_bytes: u64,
    /// The longest of them.
    largest_free_bytes: u64,
    /// Free slots of slabs, which serve their size class.
    free_slot_bytes: u64,
    /// Share of the free memory that is not in the longest free run.
    fragmentation: f64,
    /// Runs whose heads could not be read.
    unknown_bytes: u64,
    /// Live objects and byte strings.
    objects: u64,
    /// Byte strings in runs of their own, which are counted as objects too.
    long_strings: u64,
    long_string_bytes: u64,
    arrays: u64,
    array_bytes: u64,
    /// Size classes that have slabs.
    classes: Vec<Class>,
}

/// The slabs of one size class.
#[derive(Clone, Debug, Serialize)]
struct Class {
    /// With headers.
    slot_bytes: u64,
    slabs: u64,
    live_objects: u64,
    live_bytes: u64,
    free_bytes: u64,
}

impl Class {
    fn of(class: &ClassUsage) -> Class {
        let ClassUsage { slot_bytes, slabs, live, .. } = *class;
        let (live_bytes, free_bytes) = (class.live_bytes(), class.free_bytes());
        Class { slot_bytes, slabs, live_objects: live, live_bytes, free_bytes }
    }

    fn row(&self) -> (&'static str, String) {
        let Class { slot_bytes, slabs, live_objects, live_bytes, free_bytes } = self;
        let live =
            format!("{} live ({})", table::grouped(*live_objects), table::bytes(*live_bytes));
        let slabs = table::grouped(*slabs);
        let text = format!("{live}, {} free, slabs: {slabs}", table::bytes(*free_bytes));
        ("  slots", format!("of {} B: {text}", table::grouped(*slot_bytes)))
    }
}

impl HeapUse {
    pub(crate) fn of(usage: &Usage) -> HeapUse {
        HeapUse {
            live_bytes: usage.live_bytes(),
            free_bytes: usage.free_bytes,
            largest_free_bytes: usage.largest_free_bytes,
            free_slot_bytes: usage.free_slot_bytes(),
            fragmentation: usage.fragmentation(),
            unknown_bytes: usage.unknown_bytes,
            objects: usage.objects,
            long_strings: usage.long_strings,
            long_string_bytes: usage.long_string_bytes,
            arrays: usage.arrays,
            array_bytes: usage.array_bytes,
            classes: usage.classes.iter().map(Class::of).collect(),
        }
    }

    /// Returns the rows of the totals.
    pub(crate) fn totals(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("heap, live", table::bytes(self.live_bytes)),
            ("heap, free", self.free()),
            ("heap, fragmentation", format!("{:.1} %", 100.0 * self.fragmentation)),
        ];
        if self.unknown_bytes > 0 {
            rows.push(("heap, unknown", table::bytes(self.unknown_bytes)));
        }
        rows
    }

    /// Returns the rows of the totals, then one for each size class.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = self.totals();
        let several = [
            ("  arrays", self.arrays, self.array_bytes),
            ("  long strings", self.long_strings, self.long_string_bytes),
        ];
        let several = several.iter().filter(|(_, count, _)| *count > 0);
        rows.extend(several.map(|&(name, count, bytes)| {
            (name, format!("{} ({})", table::grouped(count), table::bytes(bytes)))
        }));
        rows.extend(self.classes.iter().map(Class::row));
        rows
    }

    fn free(&self) -> String {
        let [free, largest, slots] =
            [self.free_bytes, self.largest_free_bytes, self.free_slot_bytes].map(table::bytes);
        format!("{free}, {largest} of it in one piece; {slots} in free slots")
    }
}
