//! Limits on the size of a transaction.

/// The limit on a transaction's size under `decoupled`, which selects the option that raises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// The worker's volatile ring: [`Options::ring_entries`](crate::Options::ring_entries), at any
    /// opening of the pool.
    Ring,
    /// A quarter of the log: [`Options::log_bytes`](crate::Options::log_bytes), when the pool is
    /// created.
    Log,
    /// The capacity of one log record: 8 388 607 words, each with its address. No option raises it.
    Record,
}

impl Limit {
    /// Returns the most words that a transaction may write so that its group can always be sent: a
    /// quarter of the log. Its group takes at most half the log, because the log skips a remainder
    /// that is too short at a wrap. The record has an address beside each word.
    pub(crate) fn words_max(log_bytes: u64, ring_words: usize) -> usize {
        let log_words = (log_bytes / 2).saturating_sub(4096) as usize / 8;
        let record_words = log_words.min(ring_words - 2 * lw_log::RECORD_HEAD_WORDS);
        record_words.min(lw_log::RECORD_WORDS_MAX) / 2
    }

    /// Returns the limit that applies with this log and ring.
    pub(crate) fn of(log_bytes: u64, ring_bytes: u64) -> Limit {
        let words = |log_bytes, ring_bytes| Limit::words_max(log_bytes, ring_bytes as usize / 8);
        // Beyond every real log and ring, so it removes that limit from the comparison.
        let much = 1 << 48;
        let bound = words(log_bytes, ring_bytes);
        match () {
            () if bound == words(much, much) => Limit::Record,
            () if bound == words(log_bytes, much) => Limit::Log,
            () => Limit::Ring,
        }
    }

    pub(super) fn advice(self, log_bytes: u64, ring_bytes: u64) -> String {
        match self {
            Limit::Ring => format!(
                "its worker's ring of {ring_bytes} bytes: split it, or open the pool with more \
                 `ring_entries` than {} (the next limit is a quarter of the log of {log_bytes} \
                 bytes)",
                ring_bytes / 16
            ),
            Limit::Log => format!(
                "a quarter of the log of {log_bytes} bytes: split it, or create the pool with \
                 more `log_bytes`"
            ),
            Limit::Record => format!(
                "{} words, half of a log record, which no option raises: split it",
                lw_log::RECORD_WORDS_MAX / 2
            ),
        }
    }
}

/// Returns the remedy for memory that is sized by an option: `records` or `entries`.
pub(super) fn fewer(items: &str) -> String {
    let (option, flag) = match items {
        "entries" => ("ring_entries", "--ring-entries"),
        _ => ("ownership_records", "--ownership-records"),
    };
    format!(
        "no committed transaction is lost: request fewer {items} with `Options::{option}` \
         (`{option}` of `lw_options`, `{flag}` on the command line), or give the process more \
         memory"
    )
}

/// Returns the remedy for a pool of another format version.
pub(super) fn other_version(found: u64) -> &'static str {
    match found {
        3 => "convert it with `lastword pool convert OLD NEW`",
        _ => "open it with the version of Lastword that wrote it",
    }
}
