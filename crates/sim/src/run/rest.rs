//! What a machine at rest says of its run.

use words::Erased;

use crate::design::Design;
use crate::error::Error;
use crate::image::Image;
use crate::machine::{Isolation, Machine};
use crate::program::Loaded;

/// What is complained of when transactions are not isolated, and when they are not after recovery.
const SHARED: &str = "times two open transactions wrote one line";
pub(super) const SHARED_AFTER: &str = "times two open transactions wrote one line after recovery";

/// What a machine at rest says that must not be.
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
    let mut complaints = loaded.check(&mut Erased::new(&mut Image::of(heap)))?;
    let wrong = machine.counts.wrong_fills;
    complain(&mut complaints, wrong, "lines came from memory with other bytes than they had");
    complain(&mut complaints, isolation_hits(machine).unwrap_or_default(), SHARED);
    let wrong = machine.design.contradictions();
    complain(&mut complaints, wrong, "contradictions in what the design has");
    Ok(complaints)
}

/// Complains of what has happened so many times, if it has.
pub(super) fn complain(complaints: &mut Vec<String>, times: u64, what: &str) {
    if times > 0 {
        complaints.push(format!("{times} {what}"));
    }
}

/// How often a transaction has written a line of another open one, where somebody has looked.
pub(super) fn isolation_hits<D: Design>(machine: &Machine<D>) -> Option<u64> {
    machine.isolation.as_ref().map(Isolation::violations)
}

/// Of all words of the heap as the program sees them, and of all that memory has: 16 hexadecimal
/// digits. One word that differs gives another hash, since no step forgets anything.
pub(super) fn image_hash<D: Design>(machine: &Machine<D>, heap_words: u64) -> String {
    // An odd number, with ones and zeros all over it.
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let media = machine.memory.media().unwrap_or_default().iter().copied();
    let words = (0..heap_words).map(|word| machine.word(0, word)).chain(media);
    let hash = words.fold(0, |hash: u64, word| (hash.rotate_left(5) ^ word).wrapping_mul(MIX));
    format!("{hash:016x}")
}
