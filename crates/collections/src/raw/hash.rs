//! The hash functions of the maps, from a key to a bucket or chain.

use words::Stop;

/// Size of the largest table: addresses have 48 bits, so no heap holds more.
pub(crate) const PLACES_MAX: u64 = 1 << 43;

/// The fractional part of the golden ratio, odd: spreads neighbouring keys evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The lowest bits of a product depend only on the key's lowest bits, so the hash begins above.
const HASH_SHIFT: u32 = 20;

/// Returns a key's place in a table of `mask + 1` places.
#[inline]
pub(crate) fn place(key: u64, seed: u64, mask: u64) -> u64 {
    (hash(key ^ seed) >> HASH_SHIFT) & mask
}

/// Returns a key's place in a table of any number of places: the share of all hashes that the
/// product's highest bits are in.
#[inline]
pub(crate) fn share(key: u64, places: u64) -> u64 {
    ((u128::from(hash(key)) * u128::from(places)) >> 64) as u64
}

#[inline]
fn hash(key: u64) -> u64 {
    // Fold in the upper half of the product: every bit of the key then reaches every bit used.
    let product = u128::from(key) * u128::from(GOLDEN);
    (product as u64) ^ (product >> 64) as u64
}

/// Returns `places - 1`. A number that is not a power of two is damage, because probing would not
/// visit every place; so is one beyond all addresses.
#[inline]
pub(crate) fn mask(places: u64) -> Result<u64, Stop> {
    let sound = places.is_power_of_two() && places <= PLACES_MAX;
    if sound { Ok(places - 1) } else { Err(Stop::BadValue) }
}
