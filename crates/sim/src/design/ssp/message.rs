//! What a core tells the controller.

/// Where a line of the program lies from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flip {
    pub(super) line: u32,
    /// In the second one of its page's two.
    pub(super) in_second: bool,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// flip-current-bit.
    Flip(Flip),
    /// A metadata update: the core's transaction has written these lines of a page, and they are
    /// durable. None: it has written nothing of it, and is given up.
    Update {
        page: u32,
        /// A bit for each line.
        updated: u64,
        /// Nothing else of the transaction comes.
        last: bool,
    },
}

/// Kinds, in the upper half of the first word.
const TO_FIRST: u64 = 0;
const TO_SECOND: u64 = 1;
const UPDATE: u64 = 2;
const LAST: u64 = 3;

impl Message {
    /// Its words.
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

    /// The message of these words.
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
    fn a_message_says_what_was_put_into_it() {
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
