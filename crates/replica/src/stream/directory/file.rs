//! Format of the files of a [directory](super).
//!
//! ```text
//!   message                          head
//!    0  magic "LWMSG001"              0  magic "LWSTR001"
//!    8  identity of the stream        8  identity of the stream
//!   16  position                     16  first position that is kept
//!   24  length of the message        24  0
//!   32  CRC32C of all else           32  CRC32C of words 0 to 3
//!   40  message
//! ```
//!
//! Words are little-endian. The identity is random, so that a message which was copied from another
//! stream is not taken.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Bytes before a message, and length of a head.
pub(super) const HEADER_BYTES: usize = 40;

const MESSAGE: u64 = u64::from_le_bytes(*b"LWMSG001");
const HEAD: u64 = u64::from_le_bytes(*b"LWSTR001");

/// Head of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) identity: u64,
    pub(super) first: u64,
}

/// The reason why a file is no message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It ends before its message does.
    Short,
    /// It never was the message.
    Damaged(&'static str),
}

/// Returns a random number.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns the header of a message.
pub(super) fn header(identity: u64, position: u64, message: &[u8]) -> [u8; HEADER_BYTES] {
    encode([MESSAGE, identity, position, message.len() as u64], message)
}

/// Returns the message of a file.
pub(super) fn message(identity: u64, position: u64, mut file: Vec<u8>) -> Result<Vec<u8>, Broken> {
    let (header, message) = file.split_at_checked(HEADER_BYTES).ok_or(Broken::Short)?;
    let words = words(header);
    if words[0] != MESSAGE {
        return Err(Broken::Damaged("it is no message of this version"));
    }
    if words[3] > message.len() as u64 {
        return Err(Broken::Short);
    }
    if encode([words[0], words[1], words[2], words[3]], message) != header {
        return Err(Broken::Damaged("its checksum is wrong"));
    }
    if words[3] != message.len() as u64 {
        return Err(Broken::Damaged("it is longer than its message"));
    }
    if (words[1], words[2]) != (identity, position) {
        return Err(Broken::Damaged("it is a message of another stream or position"));
    }
    file.drain(..HEADER_BYTES);
    Ok(file)
}

/// Returns the bytes of a head.
pub(super) fn head_bytes(head: Head) -> [u8; HEADER_BYTES] {
    encode([HEAD, head.identity, head.first, 0], &[])
}

/// Returns the head of a stream.
pub(super) fn head(file: &[u8]) -> Result<Head, &'static str> {
    if file.len() != HEADER_BYTES {
        return Err("its length is wrong");
    }
    let [magic, identity, first, reserved, _] = words(file);
    if magic != HEAD || reserved != 0 {
        return Err("its format is unknown to this version");
    }
    if encode([magic, identity, first, reserved], &[]) != file || first == 0 {
        return Err("its checksum is wrong");
    }
    Ok(Head { identity, first })
}

fn encode(words: [u64; 4], message: &[u8]) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..32]), message);
    bytes[32..].copy_from_slice(&u64::from(crc).to_le_bytes());
    bytes
}

fn words(header: &[u8]) -> [u64; 5] {
    let mut words = [0; 5];
    for (word, bytes) in words.iter_mut().zip(header.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("chunks of 8 bytes"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_files_are_read() {
        let golden = "4c574d53473030310700000000000000090000000000000002000000000000\
                      004a49afe1000000006f6b";
        let written: String = [&header(7, 9, b"ok")[..], b"ok"]
            .concat()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(written, golden);
    }

    #[test]
    fn cut_and_changed_messages_are_refused() {
        let whole = [&header(7, 9, b"message")[..], b"message"].concat();
        assert_eq!(message(7, 9, whole.clone()), Ok(b"message".to_vec()));
        for bytes in 0..whole.len() {
            assert_eq!(message(7, 9, whole[..bytes].to_vec()), Err(Broken::Short), "{bytes} bytes");
        }
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(message(7, 9, changed).is_err(), "bit {bit}");
        }
        assert!(message(8, 9, whole.clone()).is_err(), "another stream");
        assert!(message(7, 8, whole.clone()).is_err(), "another position");
        assert!(message(7, 9, [&whole[..], b"!"].concat()).is_err(), "longer");
    }

    #[test]
    fn changed_heads_are_refused() {
        let expected = Head { identity: 7, first: 9 };
        let whole = head_bytes(expected);
        assert_eq!(head(&whole), Ok(expected));
        for bit in 0..whole.len() * 8 {
            let mut changed = whole;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(head(&changed).is_err(), "bit {bit}");
        }
        assert!(head(&head_bytes(Head { identity: 7, first: 0 })).is_err());
    }
}
