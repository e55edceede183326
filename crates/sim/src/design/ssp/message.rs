//! Messages from a core to the controller.

/// The new place of a program line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flip {
    pub(super) line: u32,
    /// Whether it is in the second of its page's two physical pages.
    pub(super) in_second: bool,
}

/// A message to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// flip-current-bit.
    Flip(Flip),
    /// A metadata update: the core's transaction has written these lines of a page, and they are
    /// durable. Without lines, the transaction's writes to the page are abandoned.
    Update {
        page: u32,
        /// A bit for each line.
        updated: u64,
        /// Whether this is the transaction's last update.
        last: bool,
    },
}

/// Kinds of messages, in the upper half of the first word.
const TO_FIRST: u64 = 0;
const TO_SECOND: u64 = 1;
const UPDATE: u64 = 2;
const LAST: u64 = 3;

impl Message {
    /// Encodes the message.
    pub(super) fn words(self) -> crate::machine::Message {
        match self {
            Message::Flip(Flip { line, in_second }) => {
                let kind = if in_second { TO_SECOND } else { TO_FIRST };
                [kind << 32 | u64::from(line), 0]
            }
            Message::Update { page, updated, last } => {
                let kind = if last { LAST } else { UPDATE };
                [kind << 32 | u64::from(page), updated]
            }
        }
    }

    /// Decodes a message.
    pub(super) fn of([first, updated]: crate::machine::Message) -> Message {
        let number = first as u32;
        match first >> 32 {
            TO_FIRST => Message::Flip(Flip { line: number, in_second: false }),
            TO_SECOND => Message::Flip(Flip { line: number, in_second: true }),
            kind => Message::Update { page: number, updated, last: kind == LAST },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_round_trips() {
        for message in [
            Message::Flip(Flip { line: u32::MAX, in_second: false }),
            Message::Flip(Flip { line: 7, in_second: true }),
            Message::Update { page: u32::MAX, updated: u64::MAX, last: false },
            Message::Update { page: 9, updated: 1 << 63, last: true },
        ] {
            assert_eq!(Message::of(message.words()), message);
        }
    }
}
