//! UTF-8 strings as heap objects.

use std::ops::Range;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Allocate, Bytes, Field, Objects, Place, Stop, Words};

/// A UTF-8 string in the heap: [`Bytes`] that stay UTF-8.
///
/// Offsets and lengths are in bytes. One inside a character is [`Stop::BadRange`].
///
/// ```
/// use words::{Objects, Text, Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let name = mock.transact(|tx| { let text = Text::new(tx, "Groß")?; tx.alloc(text) })?;
/// mock.transact(|tx| Text::append(tx, name, "mann"))?;
/// assert_eq!(mock.transact(|tx| tx.get(name)?.read(tx))?, "Großmann");
/// # Ok::<(), words::mock::Refused>(())
/// ```
#[must_use = "store the handle, or the string leaks; another handle of the string may dangle"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Text {
    bytes: Bytes,
}

impl Text {
    /// The empty string, which owns no memory.
    pub const EMPTY: Text = Text { bytes: Bytes::EMPTY };

    /// Allocates a string and copies `text` into it.
    ///
    /// # Errors
    /// As [`Bytes::new`].
    pub fn new<W: Allocate>(tx: &mut W, text: &str) -> Result<Text, Stop> {
        Text::EMPTY.appended(tx, text)
    }

    /// Returns a copy of the string.
    ///
    /// # Errors
    /// As [`Bytes::read`], and [`Stop::BadValue`] when it is not UTF-8.
    pub fn read<W: Words>(self, tx: &mut W) -> Result<String, Stop> {
        String::from_utf8(self.bytes.read(tx)?).map_err(|_| Stop::BadValue)
    }

    /// Returns a copy of a range of the string.
    ///
    /// # Errors
    /// [`Stop::BadRange`] when the range leaves the string or divides a character; else as
    /// [`read`](Text::read).
    pub fn read_range<W: Words>(self, tx: &mut W, range: Range<u64>) -> Result<String, Stop> {
        self.check_boundary(tx, range.start)?;
        self.check_boundary(tx, range.end)?;
        String::from_utf8(self.bytes.read_range(tx, range)?).map_err(|_| Stop::BadValue)
    }

    /// Replaces the bytes from `offset` on by `text`, within the string. The handle stays valid.
    ///
    /// # Errors
    /// [`Stop::BadRange`] when the replaced range leaves the string or divides a character; else as
    /// [`Bytes::write_at`].
    pub fn write_at<W: Words>(self, tx: &mut W, offset: u64, text: &str) -> Result<(), Stop> {
        let end = offset.checked_add(text.len() as u64).ok_or(Stop::BadRange)?;
        self.check_boundary(tx, offset)?;
        self.check_boundary(tx, end)?;
        self.bytes.write_at(tx, offset, text.as_bytes())
    }

    /// Appends `text` to the string whose handle is at a place, and updates the handle.
    ///
    /// # Errors
    /// As [`Bytes::append`].
    pub fn append<W: Allocate>(
        tx: &mut W,
        handle: impl Place<Value = Text>,
        text: &str,
    ) -> Result<(), Stop> {
        Bytes::append(tx, Text::bytes_at(handle), text.as_bytes())
    }

    /// Shortens the string whose handle is at a place to `len` bytes, and updates the handle. Does
    /// nothing when the string is not longer.
    ///
    /// # Errors
    /// [`Stop::BadRange`] when `len` divides a character; else as [`Bytes::truncate`].
    pub fn truncate<W: Allocate>(
        tx: &mut W,
        handle: impl Place<Value = Text>,
        len: u64,
    ) -> Result<(), Stop> {
        let string = tx.get(handle)?;
        string.check_boundary(tx, len.min(string.len()))?;
        Bytes::truncate(tx, Text::bytes_at(handle), len)
    }

    /// Appends `text` and returns the new handle. Store it: this one dangles from now on.
    ///
    /// # Errors
    /// As [`Bytes::new`].
    pub fn appended<W: Allocate>(self, tx: &mut W, text: &str) -> Result<Text, Stop> {
        Ok(Text { bytes: self.bytes.appended(tx, text.as_bytes())? })
    }

    /// Shortens the string to `len` bytes, if it is longer, and returns the new handle. Store it:
    /// this one dangles from now on.
    ///
    /// # Errors
    /// As [`truncate`](Text::truncate).
    pub fn truncated<W: Allocate>(self, tx: &mut W, len: u64) -> Result<Text, Stop> {
        self.check_boundary(tx, len.min(self.len()))?;
        Ok(Text { bytes: self.bytes.truncated(tx, len)? })
    }

    /// Frees the memory. Every copy of this handle dangles from then on.
    ///
    /// # Errors
    /// As [`Bytes::free`].
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.bytes.free(tx)
    }

    /// Returns the length in bytes.
    pub const fn len(self) -> u64 {
        self.bytes.len()
    }

    /// Returns whether the string has no bytes.
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the place of a text's handle as that of its bytes, which has the same layout.
    fn bytes_at(handle: impl Place<Value = Text>) -> Field<Bytes> {
        Field::new(handle.addr())
    }

    /// Refuses an offset outside of the string or inside a character.
    fn check_boundary<W: Words>(self, tx: &mut W, offset: u64) -> Result<(), Stop> {
        if offset == 0 || offset == self.len() {
            return Ok(());
        }
        let mut byte = [0];
        self.bytes.read_at(tx, offset, &mut byte)?;
        // Bytes of a character other than its first are 0b10xxxxxx.
        if byte[0] & 0xc0 == 0x80 { Err(Stop::BadRange) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transact;
    use crate::mock::Mock;

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        let mut mock = Mock::new(1 << 16);
        let text = mock.transact(|tx| Text::new(tx, "größer")).unwrap();
        assert_eq!(mock.transact(|tx| text.read(tx)).unwrap(), "größer");
        let wrong = mock.transact(|tx| Bytes::new(tx, &[0xff, 0xfe])).unwrap();
        let wrong = Text { bytes: wrong };
        assert_eq!(mock.transact(|tx| wrong.read(tx)).unwrap_err().stop, Stop::BadValue);
    }

    #[test]
    fn divided_character_is_refused() {
        let mut mock = Mock::new(1 << 16);
        let place = mock
            .transact(|tx| {
                let text = Text::new(tx, "größer")?;
                tx.alloc(text)
            })
            .unwrap();
        // g r öö ßß e r: 3 and 5 are inside characters.
        for len in [3, 5] {
            let short = mock.transact(|tx| Text::truncate(tx, place, len)).unwrap_err();
            assert_eq!(short.stop, Stop::BadRange);
            let range = mock.transact(|tx| tx.get(place)?.read_range(tx, 2..len)).unwrap_err();
            assert_eq!(range.stop, Stop::BadRange);
        }
        for (offset, text) in [(3, "x"), (2, "x"), (7, "ß"), (9, ""), (u64::MAX, "x")] {
            let wrong = mock.transact(|tx| tx.get(place)?.write_at(tx, offset, text)).unwrap_err();
            assert_eq!(wrong.stop, Stop::BadRange, "{text} at {offset}");
        }
        mock.transact(|tx| tx.get(place)?.write_at(tx, 2, "äh")).unwrap_err();
        mock.transact(|tx| tx.get(place)?.write_at(tx, 2, "ßö")).unwrap();
        mock.transact(|tx| Text::truncate(tx, place, 100)).unwrap();
        assert_eq!(mock.transact(|tx| tx.get(place)?.read(tx)).unwrap(), "grßöer");
        mock.transact(|tx| Text::truncate(tx, place, 6)).unwrap();
        mock.transact(|tx| Text::append(tx, place, "ße")).unwrap();
        assert_eq!(mock.transact(|tx| tx.get(place)?.read_range(tx, 4..8)).unwrap(), "öß");
        assert_eq!(mock.transact(|tx| tx.get(place)?.read(tx)).unwrap(), "grßöße");
    }
}
