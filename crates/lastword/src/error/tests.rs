//! Tests of the limit that an error reports.

use super::*;

#[test]
fn default_transaction_limit_is_the_log() {
    let options = crate::Options::new();
    let log = options.log_rounded(false).unwrap();
    assert_eq!(Limit::of(log, 8 * options.ring_words() as u64), Limit::Log);
    let bytes = 8 * Limit::words_max(log, options.ring_words()) as u64;
    assert!((1 << 20) - bytes <= 4096, "{bytes}");
    let text = Limit::Log.advice(log, 16 << 20);
    assert!(text.contains("a quarter of the log of 4194304 bytes"), "{text}");
    assert!(text.contains("more `log_bytes`"), "{text}");
}

#[test]
fn transaction_limit_of_a_large_log_is_the_ring() {
    let (log, ring) = (64 << 20, 16 << 20);
    assert_eq!(Limit::of(log, ring), Limit::Ring);
    let bytes = 8 * Limit::words_max(log, ring as usize / 8) as u64;
    assert!((8 << 20) - bytes < 4096, "{bytes}");
    let text = Limit::Ring.advice(log, ring);
    assert!(text.contains("more `ring_entries` than 1048576"), "{text}");
    // A larger log changes nothing, a larger ring does.
    assert_eq!(Limit::of(8 * log, ring), Limit::Ring);
    assert_eq!(Limit::of(log, 4 * ring), Limit::Log);
    assert_eq!(Limit::of(16 * log, 64 * ring), Limit::Record);
}

#[test]
fn transaction_limit_of_large_logs_and_rings_is_the_record() {
    for (log, ring) in [(1 << 30, 1 << 30), (1 << 40, 1 << 40)] {
        assert_eq!(Limit::of(log, ring), Limit::Record);
        assert_eq!(Limit::words_max(log, ring as usize / 8), 8_388_607);
        let text = Limit::Record.advice(log, ring);
        assert!(text.starts_with("8388607 words, half of a log record"), "{text}");
    }
}
