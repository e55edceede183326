//! Fixing checksums after changes, as an attacker would. It follows docs/reference/format.md and is
//! independent of the tested code.

const MAGIC_GROUP: u64 = u64::from_le_bytes(*b"LWGROUP3");
/// Words of a superblock or log head.
const BLOCK_WORDS: usize = 64;
/// Words of a group's header.
const HEADER_WORDS: usize = 8;

fn crc(before: u32, words: &[u64]) -> u32 {
    words.iter().fold(before, |crc, word| crc32c::crc32c_append(crc, &word.to_le_bytes()))
}

/// Fixes the checksum of a superblock or log head that starts here.
pub fn block(words: &mut [u64]) {
    if let Some(block) = words.get_mut(..BLOCK_WORDS) {
        block[BLOCK_WORDS - 1] = u64::from(crc(0, &block[..BLOCK_WORDS - 1]));
    }
}

/// Fixes the checksum of a group that starts here, when its length fits.
pub fn group(words: &mut [u64]) {
    let Some(&head) = words.first_chunk::<HEADER_WORDS>() else { return };
    let end = HEADER_WORDS + (head[2] as u32) as usize;
    if head[0] != MAGIC_GROUP || end > words.len() {
        return;
    }
    words[7] &= !u64::from(u32::MAX);
    let payload = crc(0, &words[HEADER_WORDS..end]);
    words[7] |= u64::from(crc(payload, &words[..HEADER_WORDS]));
}

/// Fixes the checksums of groups that start at multiples of `unit_words`, a limited number: a log
/// of nothing but headers would take for ever.
pub fn groups(words: &mut [u64], unit_words: usize) {
    const MOST: usize = 256;
    let starts = (0..words.len()).step_by(unit_words);
    let starts: Vec<usize> = starts.filter(|&at| words[at] == MAGIC_GROUP).take(MOST).collect();
    // From the end on: a group that contains another is sealed after it.
    for at in starts.into_iter().rev() {
        group(&mut words[at..]);
    }
}
