//! Access to values and bytes that begin or end inside a word.
//!
//! ```text
//!   word:    first                first + 8            first + 16
//!            |. . . a a a a a|a a a a a a a a|a a . . . . . .|
//!             skip  ^ at                         ^ end
//! ```
//!
//! A heap has words only, so a write of `a` reads the first and the last word, replaces the bytes
//! of `a` in them and writes all three. The other bytes of these words stay. For the design this is
//! a read and a write of whole words. Two transactions that write different bytes of one word
//! therefore conflict, and neither loses the bytes of the other.

use zerocopy::IntoBytes;

use crate::persist::{from_bytes, from_words, to_bytes, to_words, with_buffer, with_span};
use crate::{Addr, Persist, Stop, Words};

/// Returns whether a value at this place consists of whole words. For most types the compiler
/// decides it: an aligned type can only be at a multiple of 8, and the access checks that.
#[inline]
fn is_whole<T>(at: Addr) -> bool {
    size_of::<T>().is_multiple_of(8)
        && (align_of::<T>().is_multiple_of(8) || at.offset.is_multiple_of(8))
}

/// Returns the address of the word that holds the byte at `at`, and the bytes before it there.
#[inline]
fn word_of(at: Addr) -> (Addr, usize) {
    let skip = at.offset % 8;
    (Addr::new(at.object, at.offset - skip), skip as usize)
}

/// Reads a value; `read` reads words.
#[inline]
pub(crate) fn get<T: Persist>(
    at: Addr,
    read: impl FnOnce(Addr, &mut [u64]) -> Result<(), Stop>,
) -> Result<T, Stop> {
    if is_whole::<T>(at) {
        return with_buffer::<T, _>(|words| {
            read(at, words)?;
            from_words(words)
        });
    }
    let (first, skip) = word_of(at);
    with_span::<T, _>(skip, |words| {
        read(first, words)?;
        from_bytes(words, skip)
    })
}

/// Writes a value.
#[inline]
pub(crate) fn set<T: Persist>(
    tx: &mut (impl Words + ?Sized),
    at: Addr,
    value: &T,
) -> Result<(), Stop> {
    if is_whole::<T>(at) {
        return with_buffer::<T, _>(|words| {
            to_words(value, words);
            tx.write_words(at, words)
        });
    }
    let (first, skip) = word_of(at);
    with_span::<T, _>(skip, |words| {
        read_edges(tx, first, words, skip, skip + size_of::<T>())?;
        to_bytes(value, words, skip);
        tx.write_words(first, words)
    })
}

/// Replaces a value by the result of `change`. Reads and writes each word once.
#[inline]
pub(crate) fn update<T: Persist>(
    tx: &mut (impl Words + ?Sized),
    at: Addr,
    change: impl FnOnce(T) -> T,
) -> Result<(), Stop> {
    if is_whole::<T>(at) {
        let value = get(at, |at, words| tx.read_words(at, words))?;
        return set(tx, at, &change(value));
    }
    let (first, skip) = word_of(at);
    with_span::<T, _>(skip, |words| {
        tx.read_words(first, words)?;
        to_bytes(&change(from_bytes(words, skip)?), words, skip);
        tx.write_words(first, words)
    })
}

/// Reads bytes of one object, which may begin and end inside a word.
pub(crate) fn read_bytes(
    tx: &mut (impl Words + ?Sized),
    at: Addr,
    out: &mut [u8],
) -> Result<(), Stop> {
    if out.is_empty() {
        return tx.read_words(word_of(at).0, &mut []); // fails in a transaction that was stopped
    }
    let mut at = at;
    for out in out.chunks_mut(CHUNK) {
        let (first, skip) = word_of(at);
        with_bytes(skip + out.len(), |words| {
            tx.read_words(first, words)?;
            out.copy_from_slice(&words.as_bytes()[skip..skip + out.len()]);
            Ok(())
        })?;
        at = at.plus(out.len() as u64);
    }
    Ok(())
}

/// Writes bytes of one object, which may begin and end inside a word. The other bytes of the first
/// word stay. Those of the last word stay too, or become zeros where `after` says so.
pub(crate) fn write_bytes(
    tx: &mut (impl Words + ?Sized),
    at: Addr,
    bytes: &[u8],
    after: After,
) -> Result<(), Stop> {
    if bytes.is_empty() {
        return tx.write_words(word_of(at).0, &[]); // fails in a transaction that was stopped
    }
    let (mut at, mut left) = (at, bytes);
    while !left.is_empty() {
        let (bytes, rest) = left.split_at(left.len().min(CHUNK));
        let after = if rest.is_empty() { after } else { After::Kept };
        let (first, skip) = word_of(at);
        let end = skip + bytes.len();
        with_bytes(end, |words| {
            match after {
                After::Kept => read_edges(tx, first, words, skip, end)?,
                After::Unused if skip > 0 => words[0] = tx.read(first)?,
                After::Unused => {}
            }
            words.as_mut_bytes()[skip..end].copy_from_slice(bytes);
            tx.write_words(first, words)
        })?;
        (at, left) = (at.plus(bytes.len() as u64), rest);
    }
    Ok(())
}

/// The bytes of the last word after those written.
#[derive(Clone, Copy)]
pub(crate) enum After {
    /// They belong to another value or to the same string.
    Kept,
    /// None is in use, because the string ends here. The write does not read them.
    Unused,
}

/// Reads those words that a write from byte `skip` to byte `end` changes only in part.
#[inline]
fn read_edges(
    tx: &mut (impl Words + ?Sized),
    first: Addr,
    words: &mut [u64],
    skip: usize,
    end: usize,
) -> Result<(), Stop> {
    if skip > 0 {
        words[0] = tx.read(first)?;
    }
    // A last word that is also the first may have been read above.
    let last = words.len().saturating_sub(1);
    if !end.is_multiple_of(8) && (last > 0 || skip == 0) {
        words[last] = tx.read(first.plus(8 * last as u64))?;
    }
    Ok(())
}

/// Most bytes that one step of [`read_bytes`] or [`write_bytes`] moves: those of an object.
const CHUNK: usize = crate::OBJECT_BYTES_MAX;

/// Calls `with` on a zeroed buffer of the words of `bytes` bytes.
#[inline]
fn with_bytes<R>(bytes: usize, with: impl FnOnce(&mut [u64]) -> R) -> R {
    // Most ranges are short, and clearing 1 KiB would cost more than the access.
    const FEW: usize = 9;
    match bytes.div_ceil(8) {
        few @ 0..=FEW => with(&mut [0; FEW][..few]),
        many => with(&mut [0; CHUNK / 8 + 1][..many]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::Mock;
    use crate::{Array, Field, Objects, Place, Ptr, Transact, field};
    use zerocopy::{Immutable, KnownLayout, TryFromBytes};

    #[derive(Clone, Copy, Debug, PartialEq, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
    #[repr(u8)]
    enum Door {
        Open = 1,
        Shut = 2,
    }

    #[derive(Clone, Copy, Debug, PartialEq, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
    #[repr(C)]
    struct Record {
        flags: u16,
        locked: bool,
        door: Door,
        ratio: f32,
        name: [u8; 11],
        small: i8,
        count: u32,
        wide: [u32; 4],
    }

    const RECORD: Record = Record {
        flags: 0xfedc,
        locked: true,
        door: Door::Shut,
        ratio: 0.5,
        name: *b"eleven byte",
        small: -7,
        count: 0x1234_5678,
        wide: [1, 2, 3, 4],
    };

    #[test]
    fn narrow_field_write_keeps_its_neighbours() {
        let mut mock = Mock::new(1 << 12);
        let at = mock.transact(|tx| tx.alloc(RECORD)).unwrap();
        let mut model = RECORD;
        macro_rules! each {
            ($($field:ident = $new:expr),*) => {$(
                let new = $new;
                let old = mock.transact(|tx| {
                    let old = tx.get(field!(at, Record, $field))?;
                    tx.set(field!(at, Record, $field), new)?;
                    Ok(old)
                });
                assert_eq!(old.unwrap(), model.$field, stringify!($field));
                model.$field = new;
                assert_eq!(mock.transact(|tx| tx.get(at)).unwrap(), model, stringify!($field));
            )*};
        }
        each!(flags = 1, locked = false, door = Door::Open, ratio = -3.25, name = [9; 11]);
        each!(small = 127, count = 0, wide = [u32::MAX; 4]);
        mock.transact(|tx| tx.update(field!(at, Record, small), |small| small - 1)).unwrap();
        mock.transact(|tx| tx.update(field!(at, Record, wide), |_| [5; 4])).unwrap();
        model = Record { small: 126, wide: [5; 4], ..model };
        assert_eq!(mock.transact(|tx| tx.get(at)).unwrap(), model);
        let seen = mock.transact(|tx| {
            let mut view = tx.view(at)?;
            let small = view.get(field!(at, Record, small))?;
            Ok((small, view.get(field!(at, Record, wide))?, view.get(at)?))
        });
        assert_eq!(seen.unwrap(), (126, [5; 4], model));
    }

    #[test]
    fn object_of_any_size_pads_with_zeros() {
        let mut mock = Mock::new(1 << 12);
        let at = mock.transact(|tx| tx.alloc([0xff_u8; 13])).unwrap();
        assert_eq!(mock.live()[0].1, 16);
        let last = mock.transact(|tx| tx.read(Addr::new(at.to_bits(), 8))).unwrap();
        assert_eq!(last, 0xff_ffff_ffff, "five bytes, then zeros");
        assert_eq!(mock.transact(|tx| tx.get(at)).unwrap(), [0xff; 13]);
        mock.transact(|tx| tx.free(at)).unwrap();
        assert_eq!(mock.objects(), 0);
    }

    #[test]
    fn narrow_value_with_unknown_bits_is_refused() {
        let mut mock = Mock::new(1 << 12);
        let at = mock.transact(|tx| tx.alloc(RECORD)).unwrap();
        let door: Field<u8> = at.field_at(std::mem::offset_of!(Record, door));
        mock.transact(|tx| tx.set(door, 3)).unwrap();
        let read = mock.transact(|tx| tx.get(field!(at, Record, door))).unwrap_err();
        assert_eq!(read.stop, Stop::BadValue);
        let update = mock.transact(|tx| tx.update(field!(at, Record, door), |door| door));
        assert_eq!(update.unwrap_err().stop, Stop::BadValue);
    }

    #[test]
    fn narrow_access_outside_object_is_refused() {
        let mut mock = Mock::forgiving(1 << 12);
        let at: Ptr<[u8; 16]> = mock.transact(|tx| tx.alloc([1; 16])).unwrap();
        for offset in [16, 17, u64::MAX - 6, u64::MAX] {
            let place = Field::<u8>::new(Addr::new(at.to_bits(), offset));
            assert_eq!(mock.transact(|tx| tx.get(place)).unwrap_err().stop, Stop::BadPointer);
            assert_eq!(mock.transact(|tx| tx.set(place, 0)).unwrap_err().stop, Stop::BadPointer);
        }
        let across = Field::<[u8; 1021]>::new(Addr::new(at.to_bits(), u64::MAX));
        assert_eq!(mock.transact(|tx| tx.get(across)).unwrap_err().stop, Stop::BadPointer);
        assert_eq!(mock.transact(|tx| tx.get(at)).unwrap(), [1; 16]);
    }

    #[test]
    fn array_of_narrow_elements_keeps_neighbours() {
        fn check<T: Persist + PartialEq + std::fmt::Debug>(value: impl Fn(u64) -> T) {
            let mut mock = Mock::new(1 << 16);
            let array = mock.transact(|tx| Array::<T>::create(tx, 1000)).unwrap();
            // Descending, so that a write that spills over damages an element written before.
            mock.transact(|tx| (0..1000).rev().try_for_each(|i| tx.set(array.at(i)?, value(i))))
                .unwrap();
            for i in 0..1000 {
                assert_eq!(mock.transact(|tx| tx.get(array.at(i)?)).unwrap(), value(i));
            }
        }
        check(|i| i as u8);
        check(|i| i as u16 * 3);
        check(|i| i as u32 * 70_001);
        check(|i| i % 3 == 0);
        check(|i| [i as u8, 1, !i as u8]);
        check(|i| [i as u16; 5]);
    }

    #[test]
    fn byte_ranges_of_every_alignment_round_trip() {
        let mut mock = Mock::new(1 << 14);
        let at = mock.transact(|tx| tx.alloc([0_u8; 1024])).unwrap();
        let mut model = [0_u8; 1024];
        for (round, len) in [0, 1, 3, 7, 8, 9, 16, 17, 80, 1000, 1017].into_iter().enumerate() {
            for from in 0..8 {
                let bytes = vec![(8 * round + from) as u8 | 1; len];
                model[from..from + len].copy_from_slice(&bytes);
                mock.transact(|tx| tx.write_bytes(at.field_at::<u8>(from).addr(), &bytes)).unwrap();
                let mut back = vec![0; len];
                mock.transact(|tx| tx.read_bytes(at.field_at::<u8>(from).addr(), &mut back))
                    .unwrap();
                assert_eq!(back, bytes);
                assert_eq!(mock.transact(|tx| tx.get(at)).unwrap(), model, "{len} at {from}");
            }
        }
    }
}
