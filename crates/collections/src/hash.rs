//! Hashing, shared by the maps: which of a number of places is a key's home.

use words::Stop;

/// The largest table: addresses have 48 bits, so no heap holds more.
pub(crate) const PLACES_MAX: u64 = 1 << 43;

/// The fractional part of the golden ratio, odd: spreads neighbouring keys evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The lowest bits of a product know only the key's lowest bits: the hash begins above them.
const HASH_SHIFT: u32 = 20;

/// A key's place in a table of `mask + 1` places.
#[inline]
pub(crate) fn home(key: u64, seed: u64, mask: u64) -> u64 {
    (hash(key ^ seed) >> HASH_SHIFT) & mask
}

/// A key's place in a table of any number of places: the product's highest bits say which share of
/// all hashes it is in.
#[inline]
pub(crate) fn share(key: u64, places: u64) -> u64 {
    ((u128::from(hash(key)) * u128::from(places)) >> 64) as u64
}

#[inline]
fn hash(key: u64) -> u64 {
    // Folding the upper half of the product in lets every bit of the key reach every bit used.
    let product = u128::from(key) * u128::from(GOLDEN);
    (product as u64) ^ (product >> 64) as u64
}

/// `places - 1`. A number that is no power of two is damage: going round it would not visit every
/// place; one beyond all addresses is damage too.
#[inline]
pub(crate) fn mask(places: u64) -> Result<u64, Stop> {
    let sound = places.is_power_of_two() && places <= PLACES_MAX;
    if sound { Ok(places - 1) } else { Err(Stop::BadValue) }
}
