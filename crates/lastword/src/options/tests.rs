//! Sizes and names that options check.

use super::*;

#[test]
fn sizes_are_rounded_up_and_checked() {
    let options = Options::new().bytes((1 << 20) + 1).log_bytes(1).ring_entries(3000);
    assert_eq!(options.heap_rounded().unwrap(), (1 << 20) + (64 << 10));
    assert!(options.log_rounded(false).is_err());
    assert_eq!(options.ring_words(), 8192);
    assert!(Options::new().bytes(u64::MAX).heap_rounded().is_err());
}

#[test]
fn default_log_is_a_quarter_of_the_heap_within_bounds() {
    for (heap, log) in [(1, 4), (8, 4), (16, 4), (64, 16), (256, 64), (4096, 64)] {
        let options = Options::new().bytes(heap << 20);
        assert_eq!(options.log_rounded(false).unwrap(), log << 20, "a heap of {heap} MiB");
        assert_eq!(options.log_bytes(1 << 20).log_rounded(false).unwrap(), 1 << 20);
    }
}

#[test]
fn layout_name_over_32_bytes_is_refused() {
    assert!(Options::new().layout(&"x".repeat(32), 0).layout_padded().is_ok());
    assert!(Options::new().layout(&"x".repeat(33), 0).layout_padded().is_err());
    assert!(Options::new().layout("a\0b", 0).layout_padded().is_err());
}
