//! The checks of an idle machine after its run.

use words::Erased;

use crate::design::Design;
use crate::error::Error;
use crate::image::Image;
use crate::machine::memory::{LineWords, line_of};
use crate::machine::sparse::Sparse;
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
    let mut heap = Sparse::zeros(bytes as usize / 8);
    lines(machine, bytes / 64).for_each(|(line, words)| heap.set_line(line, &words));
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

/// Returns the lines of the program that may not be zero, with their words.
fn lines<D: Design>(
    machine: &Machine<D>,
    lines: u64,
) -> impl Iterator<Item = (u32, LineWords)> + '_ {
    let words = machine.memory.words();
    (0..lines).filter_map(|line| {
        let place = machine.place_of(0, line * 8) as usize;
        if !words.used().has_word(place) {
            return None;
        }
        Some((line as u32, words.line(line_of(place as u64))?))
    })
}

/// Hashes all words of the heap as the program sees them, and all of the array: 16 hexadecimal
/// digits. The hash is a sum in which each word has a bijection of its value, so a single differing
/// word always changes it. A zero adds nothing, so unused pages are not visited.
pub(super) fn image_hash<D: Design>(machine: &Machine<D>, heap_words: u64) -> String {
    let of = |word: u64, value: u64| mix(value).wrapping_mul(mix(word + 1) | 1);
    let heap = lines(machine, heap_words / 8)
        .flat_map(|(line, words)| (u64::from(line) * 8..).zip(words))
        .map(|(word, value)| of(word, value));
    let media = machine.memory.media().into_iter().flat_map(Sparse::used_words);
    let media = media.map(|(word, value)| of(heap_words + word as u64, value));
    let hash = heap.chain(media).fold(0, u64::wrapping_add);
    format!("{hash:016x}")
}

/// A bijection that maps 0 to 0 (SplitMix64's last step; Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators").
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
