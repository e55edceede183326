//! Validation of a machine: the range of each number, checked all at once.
//!
//! Sizes need not be powers of two, because sets, banks and channels are selected by remainders.

use std::fmt;

use super::description::{Core, Description, Memory, Private, Shared};
use super::named::DescribeError;

/// Bytes of a line of memory and of every cache.
pub const LINE_BYTES: u64 = 64;

/// The largest number of cores: a directory entry has a bit for each.
pub const CORES_MAX: usize = 16;

/// The smallest queue of a controller in which a slot can be reserved for logs.
pub const SLOTS_MIN: u32 = 8;

/// The largest accepted time or count; larger values are mistakes.
const MOST: f64 = 1e9;

/// The ranges of designs' parameters. A range from 0 to 1 is a switch, except in [`SHARES`]. Sizes
/// in bytes are bounded above by the host's memory and below by the design's minimum contents.
const PARAMETERS: [(&str, &str, f64, f64); 34] = [
    ("lad", "overflow", 0.0, 1.0),
    ("lad", "suspend_cycles", 0.0, 1e12),
    ("lad", "away_cycles", 0.0, 1e12),
    ("sw-undo", "log_bytes", 4096.0, 16_777_216.0),
    ("sw-undo", "sfence", 0.0, 1.0),
    ("log", "bytes", 4096.0, GIB4),
    ("log", "buffer_lines", 1.0, 65_536.0),
    ("log", "window", 1.0, 65_536.0),
    ("log", "names", 1.0, 1_048_575.0),
    ("log", "coalesce", 0.0, 1.0),
    ("log", "pack", 0.0, 1.0),
    ("log", "gather", 0.0, 1.0),
    ("hw-undo-redo", "fwb_cycles", 1.0, 1e12),
    ("redu", "dram_cache_bytes", 512.0, GIB4),
    ("redu", "write_back", 0.0, 1.0),
    ("redu", "filter", 0.0, 1.0),
    ("redu", "bloom_entries", 1.0, 1e8),
    ("redu", "bloom_bits", 1.0, 8.0),
    ("redu", "bloom_entries_lru", 1.0, 1e8),
    ("redu", "bloom_reset", 0.0, 1.0),
    ("redu", "bloom_hashes", 1.0, 16.0),
    ("ssp", "cache_entries", 1.0, 1e8),
    ("ssp", "hit_cycles", 0.0, 1e9),
    ("ssp", "miss_cycles", 0.0, 1e9),
    ("ssp", "write_set", 1.0, 65_536.0),
    ("ssp", "journal_bytes", 64.0, GIB4),
    ("ssp", "meta_model", 0.0, 1.0),
    ("ssp", "copies_in_cache", 0.0, 1.0),
    ("ssp-redo", "buffer_lines", 1.0, 65_536.0),
    ("ssp-redo", "log_bytes", 4096.0, GIB4),
    ("ssp-redo", "wait_at_begin", 0.0, 1.0),
    ("ssp-redo", "record_beside_log", 0.0, 1.0),
    ("ssp-undo", "line", 0.0, 1.0),
    ("ssp-undo", "side_by_side", 0.0, 1.0),
];

const GIB4: f64 = (1_u64 << 32) as f64;

/// Parameters that may have any value between 0 and 1.
const SHARES: [(&str, &str); 2] = [("lad", "overflow"), ("redu", "bloom_reset")];

/// A violated rule for a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its key.
    pub key: String,
    /// The number.
    pub value: String,
    /// The rule.
    pub rule: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { key, value, rule } = self;
        write!(f, "{key} = {value}: it must be {rule}")
    }
}

impl Description {
    /// Checks all numbers of the machine.
    ///
    /// # Errors
    /// [`DescribeError::Invalid`] with all problems of the machine.
    pub fn validate(&self) -> Result<(), DescribeError> {
        let mut look = Look::default();
        look.at_numbers(self);
        look.at_core(&self.core);
        look.at_private("l1", &self.l1);
        if let Some(l2) = &self.l2 {
            look.at_private("l2", l2);
            let holds =
                format!("at least l1.bytes, {}: the second cache is inclusive", self.l1.bytes);
            look.that(l2.bytes >= self.l1.bytes, "l2.bytes", l2.bytes, &holds);
        }
        let private = self.l2.as_ref().unwrap_or(&self.l1).bytes;
        look.at_llc(&self.llc, private);
        look.at_network(self);
        look.at_memory("nvm", &self.nvm, self.clock_ghz);
        if let Some(dram) = &self.dram {
            look.at_memory("dram", dram, self.clock_ghz);
        }
        match look.problems {
            problems if problems.is_empty() => Ok(()),
            problems => Err(DescribeError::Invalid { problems }),
        }
    }
}

#[derive(Default)]
struct Look {
    problems: Vec<Problem>,
}

impl Look {
    fn that(&mut self, holds: bool, key: &str, value: impl fmt::Display, rule: &str) {
        if !holds {
            let (key, value, rule) = (key.to_owned(), value.to_string(), rule.to_owned());
            self.problems.push(Problem { key, value, rule });
        }
    }

    /// Checks a count, from `least` on.
    fn count(&mut self, key: &str, value: impl Into<u64>, least: u64) {
        let value = value.into();
        let rule = format!("from {least} to 10^9");
        self.that(value >= least && value as f64 <= MOST, key, value, &rule);
    }

    /// Checks a time in nanoseconds, which may be zero.
    fn time(&mut self, key: &str, value: f64) {
        // A NaN is in no range, so it is rejected too.
        self.that((0.0..=MOST).contains(&value), key, value, "from 0 to 10^9");
    }

    fn at_numbers(&mut self, machine: &Description) {
        let Description { name, clock_ghz, cores, tlb, mc, .. } = machine;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_name = (1..=64).contains(&name.len()) && name.chars().all(is_plain);
        self.that(is_name, "name", format!("{name:?}"), "1 to 64 of a-z, A-Z, 0-9, -, _ and .");
        let runs = (0.001..=1000.0).contains(clock_ghz);
        self.that(runs, "clock_ghz", clock_ghz, "from 0.001 to 1000");
        let tiles = u64::from(machine.network.columns) * u64::from(machine.network.rows);
        let most = CORES_MAX as u64;
        let (most, why) = match tiles {
            tiles if tiles > 0 && tiles < most => (tiles, ", the tiles of the mesh: one each"),
            _ => (most, ""),
        };
        let fit = (1..=most).contains(&(*cores as u64));
        self.that(fit, "cores", cores, &format!("from 1 to {most}{why}"));
        self.count("tlb.entries", tlb.entries, 0);
        self.count("tlb.walk", tlb.walk, 0);
        let has_room = (SLOTS_MIN..=4096).contains(&mc.wq);
        self.that(has_room, "mc.wq", mc.wq, &format!("from {SLOTS_MIN} to 4096"));
        self.time("mc.write_age_ns", mc.write_age_ns);
        self.count("mc.overhead", mc.overhead, 0);
        self.count("mc.forward", mc.forward, 0);
        self.time("mc.remote_ns", mc.remote_ns);
        for (design, parameters) in &machine.design {
            for (key, value) in parameters {
                self.parameter(design, key, *value);
            }
        }
    }

    /// Checks a design's parameter.
    fn parameter(&mut self, design: &str, key: &str, value: f64) {
        let this = |row: &&(&str, &str, f64, f64)| (row.0, row.1) == (design, key);
        let Some((_, _, least, most)) = PARAMETERS.iter().find(this) else { return };
        let is_share = SHARES.contains(&(design, key));
        let holds = (*least..=*most).contains(&value) && (is_share || value.fract() == 0.0);
        let rule = match (least, most) {
            (0.0, 1.0) if !is_share => "0 or 1".to_owned(),
            (0.0, 1.0) => "from 0 to 1".to_owned(),
            _ => format!("a whole number from {least} to {most}"),
        };
        self.that(holds, &format!("design.{design}.{key}"), value, &rule);
    }

    fn at_core(&mut self, core: &Core) {
        let Core { width, rob, load_queue, store_buffer, compute_factor, serial_loads: _ } = *core;
        let numbers = [
            ("core.width", width),
            ("core.rob", rob),
            ("core.load_queue", load_queue),
            ("core.store_buffer", store_buffer),
        ];
        for (key, value) in numbers {
            self.that((1..=65_536).contains(&value), key, value, "from 1 to 65536");
        }
        let is_one = (0.0..=1000.0).contains(&compute_factor);
        self.that(is_one, "core.compute_factor", compute_factor, "from 0 to 1000");
    }

    fn at_private(&mut self, cache: &str, private: &Private) {
        let Private { bytes, ways, latency, ports, mshrs } = *private;
        self.at_sets(cache, bytes, ways, None);
        self.count(&format!("{cache}.latency"), latency, 1);
        self.count(&format!("{cache}.ports"), ports, 1);
        self.count(&format!("{cache}.mshrs"), mshrs, 1);
    }

    fn at_llc(&mut self, llc: &Shared, private: u64) {
        let Shared { bytes, ways, latency, banks, busy, inclusive, directory } = *llc;
        self.count("llc.banks", banks, 1);
        self.at_sets("llc", bytes, ways, Some(banks.max(1)));
        let holds = format!("at least {private}, a core's own caches, for it is inclusive");
        self.that(!inclusive || bytes >= private, "llc.bytes", bytes, &holds);
        self.count("llc.latency", latency, 1);
        self.count("llc.busy", busy, 0);
        self.count("llc.directory", directory, 0);
    }

    /// Checks that a cache, or each bank of a banked one, has a whole number of sets, at least one.
    fn at_sets(&mut self, cache: &str, bytes: u64, ways: u32, banks: Option<u32>) {
        let has_ways = (1..=63).contains(&ways);
        self.that(has_ways, &format!("{cache}.ways"), ways, "from 1 to 63");
        let ways = ways.max(1);
        let set = LINE_BYTES * u64::from(ways) * u64::from(banks.unwrap_or(1));
        let each = banks.map(|banks| format!(" in each of {cache}.banks = {banks}"));
        let each = each.unwrap_or_default();
        let rule = format!(
            "a multiple of {set}, a set of {cache}.ways = {ways} lines of {LINE_BYTES} bytes{each}"
        );
        let has_sets = bytes > 0 && bytes.is_multiple_of(set);
        self.that(has_sets, &format!("{cache}.bytes"), bytes, &rule);
        let fits = bytes <= 1 << 40;
        self.that(fits, &format!("{cache}.bytes"), bytes, "at most 2^40");
    }

    fn at_network(&mut self, machine: &Description) {
        let network = &machine.network;
        let (columns, rows) = (network.columns, network.rows);
        self.count("network.columns", columns, 0);
        self.count("network.rows", rows, 0);
        self.count("network.hop", network.hop, 0);
        self.count("network.link_bytes", network.link_bytes, 0);
        self.count("network.interface", network.interface, 0);
        self.count("network.first", network.first, 0);
        let both = (columns == 0) == (rows == 0);
        self.that(both, "network.rows", rows, "0 if network.columns is, and only then");
        let (tiles, cores) = (u64::from(columns) * u64::from(rows), machine.cores as u64);
        if tiles > 0 {
            let first = u64::from(network.first);
            let rule = format!("at most {}: a core has no tile", tiles - tiles.min(cores));
            self.that(cores + first <= tiles.max(cores), "network.first", first, &rule);
            let rule = format!("at most {tiles}, the tiles of the mesh: one each");
            let banks = machine.llc.banks;
            self.that(u64::from(banks) <= tiles, "llc.banks", banks, &rule);
        }
    }

    fn at_memory(&mut self, name: &str, memory: &Memory, clock_ghz: f64) {
        let key = |of: &str| format!("{name}.{of}");
        self.count(&key("channels"), memory.channels, 1);
        self.count(&key("banks"), memory.banks, 1);
        self.count(&key("bank_groups"), memory.bank_groups, 1);
        let rule = format!("at least 1, and divide {name}.banks, {}", memory.banks);
        let has_equal = memory.ranks > 0 && memory.banks.is_multiple_of(memory.ranks);
        self.that(has_equal, &key("ranks"), memory.ranks, &rule);
        let row = u64::from(memory.row_bytes);
        let rule = format!("a multiple of {LINE_BYTES}");
        let has_lines = row > 0 && row.is_multiple_of(LINE_BYTES);
        self.that(has_lines, &key("row_bytes"), row, &rule);
        let run = u64::from(memory.interleave_bytes);
        let rule = format!("a multiple of {LINE_BYTES} that divides {name}.row_bytes, {row}");
        let is_part = run > 0 && run.is_multiple_of(LINE_BYTES) && row.is_multiple_of(run);
        self.that(is_part, &key("interleave_bytes"), run, &rule);
        let Memory { read_hit_ns, read_miss_ns, write_hit_ns, write_ns, burst_ns, .. } = *memory;
        let times = [
            ("read_hit_ns", read_hit_ns),
            ("read_miss_ns", read_miss_ns),
            ("write_hit_ns", write_hit_ns),
            ("write_ns", write_ns),
            ("burst_ns", burst_ns),
        ];
        for (of, ns) in times {
            let takes = ns <= MOST && (ns * clock_ghz).round() >= 1.0;
            self.that(takes, &key(of), ns, "at least a cycle of the clock, at most 10^9");
        }
        self.at_commands(name, memory);
        let rule = format!("at least {}.read_hit_ns, {read_hit_ns}", name);
        self.that(read_miss_ns >= read_hit_ns, &key("read_miss_ns"), read_miss_ns, &rule);
        let rule = format!("at least {}.write_hit_ns, {write_hit_ns}", name);
        self.that(write_ns >= write_hit_ns, &key("write_ns"), write_ns, &rule);
    }

    /// Checks the times between commands.
    fn at_commands(&mut self, name: &str, memory: &Memory) {
        let Memory { refi_ns, rfc_ns, .. } = *memory;
        let times = [
            ("ccd_l_ns", memory.ccd_l_ns),
            ("rrd_s_ns", memory.rrd_s_ns),
            ("rrd_l_ns", memory.rrd_l_ns),
            ("faw_ns", memory.faw_ns),
            ("rc_ns", memory.rc_ns),
            ("rtp_ns", memory.rtp_ns),
            ("wtr_s_ns", memory.wtr_s_ns),
            ("wtr_l_ns", memory.wtr_l_ns),
            ("rtw_ns", memory.rtw_ns),
            ("refi_ns", refi_ns),
            ("rfc_ns", rfc_ns),
        ];
        for (of, ns) in times {
            self.time(&format!("{name}.{of}"), ns);
        }
        // Otherwise the next refresh could close a row before it is used.
        let least = 4.0 * (rfc_ns + memory.read_miss_ns);
        let rule = format!("0, or from 4 ({name}.rfc_ns + {name}.read_miss_ns) = {least}");
        let is_rare = refi_ns == 0.0 || refi_ns >= least;
        self.that(is_rare, &format!("{name}.refi_ns"), refi_ns, &rule);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_design_parameter_has_a_range() {
        let of_rows: BTreeSet<_> = PARAMETERS.iter().map(|row| (row.0, row.1)).collect();
        let machines = ["lad", "redu", "ssp"].map(|it| Description::named(it).expect("built in"));
        let tables = machines.iter().flat_map(|machine| &machine.design);
        let of_machines = tables.flat_map(|(table, keys)| {
            keys.keys().map(|key| (table.as_str(), key.as_str())).collect::<Vec<_>>()
        });
        assert_eq!(of_machines.collect::<BTreeSet<_>>(), of_rows);
    }
}
