//! The checks of an idle machine after its run.

use words::Erased;

use crate::design::Design;
use crate::error::Error;
use crate::image::Image;
use crate::machine::{Isolation, Machine};
use crate::program::Loaded;

/// Complaints about line isolation, before and after recovery.
const SHARED: &str = "writes by two open transactions to one line";
pub(super) const SHARED_AFTER: &str = "writes by two open transactions to one line after recovery";

/// Returns the complaints about an idle machine.
pub(super) fn complaints<D: Design>(
    machine: &Machine<D>,
    loaded: &dyn Loaded,
    bytes: u64,
) -> Result<Vec<String>, Error> {
    let mut heap = vec![0; bytes as usize / 8];
    for (word, copy) in (0..).zip(&mut heap) {
        match machine.word(0, word) {
            0 => {}
            value => *copy = value,
        }
    }
    let mut image = Image::of(heap);
    let mut complaints = loaded.check(&mut Erased::new(&mut image))?;
    complaints.extend(image.damage());
    let wrong = machine.counts.wrong_fills;
    complain(&mut complaints, wrong, "lines from memory had wrong words");
    complain(&mut complaints, isolation_hits(machine).unwrap_or_default(), SHARED);
    let wrong = machine.design.contradictions();
    complain(&mut complaints, wrong, "contradictions in the state of the design");
    Ok(complaints)
}

/// Adds a complaint with its count, unless the count is 0.
pub(super) fn complain(complaints: &mut Vec<String>, times: u64, message: &str) {
    if times > 0 {
        complaints.push(format!("{times} {message}"));
    }
}

/// Returns the number of isolation violations, if they were checked.
pub(super) fn isolation_hits<D: Design>(machine: &Machine<D>) -> Option<u64> {
    machine.isolation.as_ref().map(Isolation::violations)
}

/// Hashes all words of the heap as the program sees them, and all of the array: 16 hexadecimal
/// digits. Each step is a bijection of the state, so a single differing word always changes the
/// hash.
pub(super) fn image_hash<D: Design>(machine: &Machine<D>, heap_words: u64) -> String {
    // An odd constant with a random-looking bit pattern.
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let media = machine.memory.media().unwrap_or_default().iter().copied();
    let words = (0..heap_words).map(|word| machine.word(0, word)).chain(media);
    let hash = words.fold(0, |hash: u64, word| (hash.rotate_left(5) ^ word).wrapping_mul(MIX));
    format!("{hash:016x}")
}
